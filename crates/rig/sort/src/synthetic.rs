//! Voltage with a known truth: units over a probe, noise, and what goes wrong in a laboratory.
//!
//! A unit is a point source: its voltage falls with distance as 1/(1 + (d/40 µm)²), further channels see it later and
//! wider. The noise is white in the recording and the same for every channel. All of it is a function of the seed.

use betz_base::{Error, Result};

use betz_base::random::Random;

/// Options of a simulated voltage.
#[derive(Debug, Clone, PartialEq)]
pub struct Synthetic {
    /// Samples per second of each channel.
    pub rate_hz: f64,
    /// Length in seconds.
    pub seconds: f64,
    /// Places of the channels, (x, y) in micrometres.
    pub places: Vec<[f32; 2]>,
    /// Number of units.
    pub units: usize,
    /// Smallest and largest mean minimum of a unit at its place, in microvolts.
    pub microvolts: (f64, f64),
    /// Slowest and fastest rate of a unit.
    pub rates_hz: (f64, f64),
    /// Standard deviation of the noise, in microvolts.
    pub noise_microvolts: f64,
    /// Microvolts a bit.
    pub gain: f64,
    /// Distance that the tissue moves along y from the first sample to the last, in micrometres.
    pub drift_um: f64,
    /// Hum of 50 Hz on all channels, in microvolts.
    pub hum_microvolts: f64,
    /// A stimulation artefact on all channels this often; 0: none.
    pub artefact_seconds: f64,
    /// Seed of everything.
    pub seed: u64,
}

impl Synthetic {
    /// A minute of 32 channels in two columns, 20 µm apart, ten units: as the comparison's `probe32`.
    pub fn probe(seed: u64) -> Self {
        Self {
            rate_hz: 30_000.0,
            seconds: 60.0,
            places: (0..32)
                .map(|c| [(c % 2) as f32 * 20.0, (c / 2) as f32 * 20.0])
                .collect(),
            units: 10,
            microvolts: (50.0, 200.0),
            rates_hz: (3.0, 25.0),
            noise_microvolts: 8.0,
            gain: 0.195,
            drift_um: 0.0,
            hum_microvolts: 0.0,
            artefact_seconds: 0.0,
            seed,
        }
    }

    /// A minute of a tetrode and six units.
    pub fn tetrode(seed: u64) -> Self {
        Self {
            places: vec![[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]],
            units: 6,
            ..Self::probe(seed)
        }
    }

    /// An array of electrodes 400 µm apart, two units at each second one.
    pub fn array(channels: usize, seed: u64) -> Self {
        let side = (channels as f64).sqrt().ceil() as usize;
        Self {
            places: (0..channels)
                .map(|c| [(c % side) as f32 * 400.0, (c / side) as f32 * 400.0])
                .collect(),
            units: channels,
            ..Self::probe(seed)
        }
    }
}

/// Voltage and truth.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticRecording {
    /// (rows, channels).
    pub samples: Vec<i16>,
    /// Samples of the true spikes' minima at their source, ascending.
    pub spikes: Vec<i64>,
    /// Unit of each.
    pub units: Vec<u32>,
}

/// Distance at which a unit's voltage has fallen to half.
const HALF_UM: f64 = 40.0;
/// Micrometres that a spike travels in a millisecond.
const SPEED_UM: f64 = 500.0;
/// Milliseconds in which a unit does not fire again.
const REFRACTORY_MS: f64 = 2.0;
/// Length of a waveform, in milliseconds.
const WAVE_MS: f64 = 3.0;
/// Most samples that are made: two gigabytes of them.
const MOST_SAMPLES: f64 = 1e9;

struct Source {
    place: [f64; 2],
    peak: f64,
    /// Width of the trough, delay and width of the swing back, its size by that of the trough.
    shape: [f64; 4],
    rate: f64,
}

/// Simulates.
///
/// ```
/// use betz_sort::synthetic::{Synthetic, make};
///
/// let made = make(&Synthetic { seconds: 1.0, ..Synthetic::tetrode(1) })?;
/// assert_eq!(made.samples.len(), 30_000 * 4);
/// assert!(made.spikes.len() > 20);
/// # Ok::<(), betz_base::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for numbers that make no sense.
pub fn make(of: &Synthetic) -> Result<SyntheticRecording> {
    of_rates(of, None)
}

/// [`make`] with units whose rates change: `part` gives, for a unit and a time in seconds, the part of its rate at
/// which it fires, 0 to 1.
///
/// # Errors
/// As [`make`].
pub fn make_moved(of: &Synthetic, part: &dyn Fn(usize, f64) -> f64) -> Result<SyntheticRecording> {
    of_rates(of, Some(part))
}

fn of_rates(
    of: &Synthetic,
    part: Option<&dyn Fn(usize, f64) -> f64>,
) -> Result<SyntheticRecording> {
    let rows = (of.rate_hz * of.seconds).round();
    let channels = of.places.len();
    let total = rows * channels as f64;
    let sane = rows >= 1.0
        && channels >= 1
        && total <= MOST_SAMPLES
        && of.gain > 0.0
        && of.noise_microvolts >= 0.0
        && of.rates_hz.0 > 0.0
        && of.rates_hz.1 >= of.rates_hz.0;
    if !sane {
        return Err(Error::argument(format!(
            "synthetic: expected channels, rates, a gain and 1 to {MOST_SAMPLES:e} samples, got {channels} channels of {rows} rows"
        )));
    }
    let mut random = Random::new(of.seed);
    let sources = sources(of, &mut random);
    let spikes = spikes(of, &sources, part, &mut random);
    Ok(SyntheticRecording {
        samples: samples(of, &sources, &spikes, rows as usize, &mut random),
        spikes: spikes.iter().map(|s| s.0.round() as i64).collect(),
        units: spikes.iter().map(|s| s.1).collect(),
    })
}

/// Time in samples, unit, and size of every spike, in the order of times.
fn spikes(
    of: &Synthetic,
    sources: &[Source],
    part: Option<&dyn Fn(usize, f64) -> f64>,
    random: &mut Random,
) -> Vec<(f64, u32, f64)> {
    let mut spikes = Vec::new();
    for (u, source) in sources.iter().enumerate() {
        let refractory = REFRACTORY_MS * 1e-3;
        let mut at = 0.0;
        loop {
            let wait = -(1.0 - random.uniform()).ln() * (1.0 / source.rate - refractory).max(1e-3);
            at += refractory + wait;
            if at >= of.seconds {
                break;
            }
            if part.is_none_or(|part| random.uniform() < part(u, at)) {
                spikes.push((at * of.rate_hz, u as u32, 1.0 + 0.05 * random.normal()));
            }
        }
    }
    spikes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    spikes
}

/// Voltage of `spikes` with noise, hum and artefacts, as counts.
fn samples(
    of: &Synthetic,
    sources: &[Source],
    spikes: &[(f64, u32, f64)],
    rows: usize,
    random: &mut Random,
) -> Vec<i16> {
    let channels = of.places.len();
    // Block by block, so that a long recording takes its samples' memory and no more.
    let mut samples = vec![0_i16; rows * channels];
    let block = (of.rate_hz as usize).max(1);
    let reach = WAVE_MS * 1e-3 * of.rate_hz;
    let mut voltage = vec![0.0_f32; block * channels];
    for first in (0..rows).step_by(block) {
        let until = rows.min(first + block);
        voltage.fill(0.0);
        let begin = spikes.partition_point(|s| s.0 < first as f64 - 2.0 * reach);
        let inside = spikes[begin..]
            .iter()
            .take_while(|s| s.0 < until as f64 + reach);
        for &(at, unit, size) in inside {
            add(
                of,
                &sources[unit as usize],
                at,
                size,
                first..until,
                &mut voltage,
            );
        }
        for (i, row) in voltage
            .chunks_exact_mut(channels)
            .enumerate()
            .take(until - first)
        {
            let time = (first + i) as f64 / of.rate_hz;
            let mut common = of.hum_microvolts * (std::f64::consts::TAU * 50.0 * time).sin();
            if of.artefact_seconds > 0.0 {
                let since = time % of.artefact_seconds;
                // Two phases of 0.2 ms, far beyond any spike.
                if since < 2e-4 {
                    common -= 3000.0;
                } else if since < 4e-4 {
                    common += 3000.0;
                }
            }
            let out = &mut samples[(first + i) * channels..][..channels];
            for (out, v) in out.iter_mut().zip(row) {
                let all = f64::from(*v) + common + of.noise_microvolts * random.normal();
                *out = (all / of.gain).round().clamp(-32_768.0, 32_767.0) as i16;
            }
        }
    }
    samples
}

fn sources(of: &Synthetic, random: &mut Random) -> Vec<Source> {
    let between =
        |random: &mut Random, (low, high): (f64, f64)| low + (high - low) * random.uniform();
    (0..of.units)
        .map(|_| {
            let [x, y] = of.places[random.below(of.places.len())].map(f64::from);
            Source {
                place: [
                    x + 20.0 * (random.uniform() - 0.5),
                    y + 20.0 * (random.uniform() - 0.5),
                ],
                peak: between(random, of.microvolts),
                shape: [
                    between(random, (0.08, 0.16)),
                    between(random, (0.3, 0.7)),
                    between(random, (0.2, 0.45)),
                    between(random, (0.15, 0.45)),
                ],
                rate: between(random, of.rates_hz),
            }
        })
        .collect()
}

/// Adds a spike to the rows `range` of all channels that see it.
fn add(
    of: &Synthetic,
    source: &Source,
    at: f64,
    size: f64,
    range: std::ops::Range<usize>,
    voltage: &mut [f32],
) {
    let channels = of.places.len();
    let per_ms = of.rate_hz * 1e-3;
    let moved = of.drift_um * at / (of.rate_hz * of.seconds);
    for (c, place) in of.places.iter().enumerate() {
        let (dx, dy) = (
            f64::from(place[0]) - source.place[0],
            f64::from(place[1]) - source.place[1] - moved,
        );
        let distance = dx.hypot(dy);
        let peak = size * source.peak / (1.0 + (distance / HALF_UM).powi(2));
        if peak < 0.02 * of.noise_microvolts {
            continue;
        }
        let centre = at + distance / SPEED_UM * per_ms;
        let wider = 1.0 + distance / 400.0;
        let low = (centre - 0.5 * WAVE_MS * per_ms).max(range.start as f64) as usize;
        let high = ((centre + WAVE_MS * per_ms) as usize).min(range.end);
        let [trough, delay, width, back] = source.shape;
        for row in low..high.max(low) {
            let ms = (row as f64 - centre) / per_ms / wider;
            let down = (-0.5 * (ms / trough).powi(2)).exp();
            let up = back * (-0.5 * ((ms - delay) / width).powi(2)).exp();
            voltage[(row - range.start) * channels + c] -= (peak * (down - up)) as f32;
        }
    }
}
