//! A synthetic recording to look at, with networks of its channels, mined episodes, and maps.
//!
//! ```text
//! cargo run -p betz-monitor --example shown -- [--nodes N] [--slowly MS] [--reaches] [--late] [--port N] [--embed]
//! ```
//! Prints the address to open. Sixty-four channels form four groups that burst together; a chain of five channels fires
//! a few times per second. The second network covers the recording's second half. `--nodes` adds a network of that many
//! nodes with ten edges each, for measurements. The maps are of the channels' counts and of colours; with `--slowly`
//! the map of colours is trained while you watch, with this many milliseconds per epoch. All data are random with a
//! fixed seed. `--reaches` shows a second recording: 80 reaches in 200 s with spikes in ticks of 10 µs, two groups of
//! electrodes, and estimates of the hand's velocity; 10 s in the middle are left out. `--late` leaves out its first 80 s. `--embed` prints the address for
//! a frame.

use betz_base::error::{Error, Result};
use betz_device::Device;
use betz_episode::{Alphabet, Clock, Events, Interval, MineOptions, Row, mine};
use betz_monitor::{
    Contents, DecodedRecording, MapErrors, MapSamples, MapShape, MapStage, MapView, MinedEpisodes,
    Monitor, NamedNetwork, Options, Source, SpikeTimes,
};
use betz_network::{NetworkSpec, Plan, Signal, Threshold, Window};
use betz_recording::{Dataset, OutputInfo, Recording, Segment, SpikeForm, Spikes};
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};
use betz_som::{Batch, BatchOptions, Grid, Lattice, Map, Samples};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const STEP: f64 = 0.001;
const STEPS: usize = 60_000;
const CHANNELS: usize = 64;
const GROUPS: usize = 4;
/// Channels of the chain; the delay between neighbours is given below in milliseconds.
const CHAIN: [usize; 5] = [3, 17, 30, 44, 61];
const DELAY: usize = 5;
const BIN: usize = 50;

/// (step, channel) of every spike: groups burst, the chain fires in order, and all channels have a low background rate.
fn spikes(seed: u64) -> Vec<(i64, u32)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut all = Vec::new();
    for step in 0..STEPS {
        for c in 0..CHANNELS {
            let group = c % GROUPS;
            let phase = (step as f64 * STEP * (0.7 + 0.4 * group as f64)).sin();
            if rng.random_bool(0.003 + if phase > 0.8 { 0.03 } else { 0.0 }) {
                all.push((step as i64, c as u32));
            }
        }
        if rng.random_bool(0.003) {
            for (k, c) in CHAIN.into_iter().enumerate() {
                let at = step + k * DELAY;
                if at < STEPS {
                    all.push((at as i64, c as u32));
                }
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn network(name: &str, all: &[(i64, u32)], bins: std::ops::Range<usize>) -> Result<NamedNetwork> {
    let mut counts = vec![0_u16; bins.len() * CHANNELS];
    for (step, channel) in all {
        let bin = *step as usize / BIN;
        if bins.contains(&bin) {
            counts[(bin - bins.start) * CHANNELS + *channel as usize] += 1;
        }
    }
    let seconds = BIN as f64 * STEP;
    let signal = Signal::new(&counts, CHANNELS)?.with_sample_seconds(seconds)?;
    let window = Window {
        length: 100,
        step: 20,
    };
    let spec = NetworkSpec::pearson(window).threshold(Threshold::Absolute(0.05));
    let network = Plan::new(&spec, &signal)?.run(&signal, &())?;
    let starts = network.window_start().iter();
    let begin = bins.start;
    Ok(NamedNetwork {
        name: name.into(),
        window_seconds: Some(
            starts
                .map(|s| (begin as u64 + s) as f64 * seconds)
                .collect(),
        ),
        names: Some(names()),
        positions: Some((
            electrodes()
                .iter()
                .flatten()
                .map(|v| f64::from(*v))
                .collect(),
            2,
        )),
        complete: true,
        network,
    })
}

/// A network of nodes in groups of five hundred; each group follows a wave of its own.
fn large(nodes: usize) -> Result<NamedNetwork> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let samples = 120;
    let groups = nodes.div_ceil(500);
    let waves: Vec<f32> = (0..samples * groups)
        .map(|_| rng.random::<f32>() - 0.5)
        .collect();
    let mut values = vec![0.0_f32; samples * nodes];
    for (t, row) in values.chunks_exact_mut(nodes).enumerate() {
        for (n, v) in row.iter_mut().enumerate() {
            *v = 0.35 * waves[t * groups + n % groups] + rng.random::<f32>() - 0.5;
        }
    }
    let signal = Signal::new(&values, nodes)?;
    let window = Window {
        length: 100,
        step: 20,
    };
    let spec = NetworkSpec::pearson(window).threshold(Threshold::Top(10 * nodes));
    Ok(NamedNetwork {
        name: format!("{nodes} nodes"),
        network: Plan::new(&spec, &signal)?.run(&signal, &())?,
        names: None,
        positions: None,
        window_seconds: None,
        complete: true,
    })
}

/// Trains a map, shows every stage, and pauses after each.
fn train(shown: &MapView, grid: Grid, values: &[f32], dims: usize, rest_ms: u64) -> Result<()> {
    let samples = Samples::new(values, dims)?;
    let options = BatchOptions::default();
    let start = Map::on_plane(grid, samples)?;
    let mut batch = Batch::new(&start, samples, &options, &Device::cpu())?;
    for done in 0..=options.epochs {
        let stage = batch.stage()?;
        let quality = stage.map.quality(samples)?;
        shown.measured(MapErrors {
            epochs: done as f64,
            quantisation: quality.quantisation_error,
            topographic: quality.topographic_error,
        });
        shown.show(MapStage {
            epochs: done as f64,
            weights: stage.map.weights().to_vec(),
            heights: stage.map.heights(),
            hits: stage.map.hits(samples)?,
            units: Vec::new(),
        })?;
        if done < options.epochs {
            shown.training(done as f64, options.epochs as f64);
            std::thread::sleep(std::time::Duration::from_millis(rest_ms));
            batch.epoch()?;
        }
    }
    let found = batch.map()?.assign(samples)?;
    shown.assigned(MapSamples {
        winners: found.winners,
        distances: found.distances,
        values: values.to_vec(),
    })?;
    shown.finished();
    Ok(())
}

fn mapped(name: &str, grid: Grid, dims: usize, samples: usize) -> Result<MapView> {
    let shape = MapShape {
        rows: grid.layers() * grid.rows(),
        columns: grid.columns(),
        hexagonal: grid.lattice() == Lattice::Hexagonal,
        torus: grid.is_torus(),
        dims,
    };
    let samples = samples as u64;
    let shown = MapView::new(name, shape)?.with_samples(samples, samples, samples);
    shown.with_layers(grid.layers())
}

/// A hexagonal map of the channels' activity in quarter seconds, and a square map of colours, trained slowly on
/// request.
fn maps(all: &[(i64, u32)], slowly_ms: Option<usize>) -> Result<Vec<MapView>> {
    let bin = 5 * BIN;
    let bins = STEPS / bin;
    let mut counts = vec![0_f32; bins * CHANNELS];
    for (step, channel) in all {
        counts[*step as usize / bin * CHANNELS + *channel as usize] += 1.0;
    }
    let grid = Grid::new(14, 18, Lattice::Hexagonal, false)?;
    let channels =
        mapped("what the channels do", grid.clone(), CHANNELS, bins)?.with_names(names())?;
    train(&channels, grid, &counts, CHANNELS, 0)?;
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let colours: Vec<f32> = (0..3 * 400).map(|_| rng.random()).collect();
    let grid = Grid::new(20, 24, Lattice::Rectangular, true)?;
    let of = ["red", "green", "blue"].map(String::from).to_vec();
    let map = mapped("colours", grid.clone(), 3, colours.len() / 3)?.with_names(of)?;
    let (trained, rest) = (map.clone(), slowly_ms.unwrap_or(0) as u64);
    let work = move || train(&trained, grid, &colours, 3, rest);
    if rest == 0 {
        work()?;
    } else {
        std::thread::spawn(work);
    }
    let colours: Vec<f32> = (0..3 * 600).map(|_| rng.random()).collect();
    let grid = Grid::new(5, 6, Lattice::Rectangular, false)?.with_layers(4)?;
    let of = ["red", "green", "blue"].map(String::from).to_vec();
    let body = mapped("colours in three dimensions", grid.clone(), 3, 600)?.with_names(of)?;
    train(&body, grid, &colours, 3, 0)?;
    Ok(vec![channels, map, body])
}

fn names() -> Vec<String> {
    (0..CHANNELS).map(|c| format!("ch{c}")).collect()
}

fn electrodes() -> Vec<[f32; 2]> {
    let at = |c: usize| [(c % 8) as f32 * 400.0, (c / 8) as f32 * 400.0];
    (0..CHANNELS).map(at).collect()
}

const REACH_TICK: f64 = 1e-5;
const REACH_CHANNELS: usize = 32;

/// Eighty reaches of 1.5 s, one every 2.5 s, to eight targets.
struct Reaches {
    segments: Vec<Segment>,
}

impl Reaches {
    fn draw(rng: &mut ChaCha8Rng) -> Self {
        let reach = |k: i64| {
            let start = k * 250_000 + rng.random_range(0..90_000);
            let stop = start + 150_000;
            Segment { start, stop }
        };
        Self {
            segments: (0..80).map(reach).collect(),
        }
    }

    /// Velocity of the hand, in millimetres per second.
    fn velocity(&self, seconds: f64) -> [f64; 2] {
        let tick = (seconds / REACH_TICK) as i64;
        let begun = self.segments.partition_point(|s| s.start <= tick);
        let Some(reach) = begun.checked_sub(1) else {
            return [0.0; 2];
        };
        let after = seconds - self.segments[reach].start as f64 * REACH_TICK;
        let speed = 200.0 * (-((after - 0.7) / 0.2).powi(2)).exp();
        let angle = std::f64::consts::FRAC_PI_4 * (reach % 8) as f64;
        [speed * angle.cos(), speed * angle.sin()]
    }

    /// (tick, channel) of every spike during 200 s. Channels fire with the velocity along their direction.
    fn spikes(&self, rng: &mut ChaCha8Rng) -> Vec<(i64, u32)> {
        let direction = |c: usize| std::f64::consts::TAU * c as f64 / REACH_CHANNELS as f64;
        let mut all = Vec::new();
        for ms in 0..200_000_i64 {
            let [x, y] = self.velocity(ms as f64 * 1e-3);
            for c in 0..REACH_CHANNELS {
                let along = x * direction(c).cos() + y * direction(c).sin();
                if rng.random_bool((0.012 + along * 3e-4).clamp(0.001, 1.0)) {
                    all.push((ms * 100 + rng.random_range(0..100), c as u32));
                }
            }
        }
        all.sort_unstable();
        all
    }
}

/// Removes the spikes of the 10 s in the middle, and with `--late` of the first 80 s. Returns these parts, in steps
/// of 5 ms.
fn leave_out(spikes: &mut Vec<(i64, u32)>) -> Vec<Segment> {
    let mut left_out = vec![Segment {
        start: 20_000,
        stop: 22_000,
    }];
    if std::env::args().any(|a| a == "--late") {
        let (start, stop) = (0, 16_000);
        left_out.insert(0, Segment { start, stop });
    }
    for part in &left_out {
        spikes.retain(|(tick, _)| !(part.start * 500..part.stop * 500).contains(tick));
    }
    left_out
}

/// A recording of reaches, with estimates of the hand's velocity.
fn reaches() -> Result<DecodedRecording> {
    const REACH_STEP: f64 = 0.005;
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let reaches = Reaches::draw(&mut rng);
    let mut spikes = reaches.spikes(&mut rng);
    let left_out = leave_out(&mut spikes);
    let (ticks, channels): (Vec<i64>, Vec<u32>) = spikes.into_iter().unzip();
    let area = |c: usize| if c < 16 { "M1" } else { "PMd" };
    let recording = Recording {
        tick_seconds: REACH_TICK,
        ticks: 20_000_000,
        spikes: Spikes::new(ticks, channels),
        channel_names: (0..REACH_CHANNELS)
            .map(|c| format!("{} {}", area(c), c % 16 + 1))
            .collect(),
        behavior: None,
        segments: reaches.segments.clone(),
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    };
    let mut dataset = recording.clone().align(REACH_STEP)?;
    let output = |name: &str| OutputInfo {
        name: name.into(),
        unit: "mm/s".into(),
    };
    dataset.outputs = vec![output("vx"), output("vy")];
    dataset.behavior = (0..dataset.steps)
        .flat_map(|k| reaches.velocity(k as f64 * REACH_STEP).map(|v| v as f32))
        .collect();
    let estimates = dataset.behavior.iter();
    let estimates = estimates.map(|v| v * 0.9 + 40.0 * (rng.random::<f32>() - 0.5));
    let estimates = estimates.collect();
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.05,
        order: 1,
    }])?;
    let outputs = dataset.outputs.clone();
    let parts = DecoderParts::linear(REACH_STEP, bank, dataset.channel_names.clone(), outputs);
    let times = SpikeTimes::new(&dataset, &recording.spikes, &recording.segments, REACH_TICK)?;
    Ok(DecodedRecording {
        source: Source {
            outputs: dataset.outputs.clone(),
            ..Source::of("reaches", &Decoder::new(parts)?)
        },
        estimates,
        probabilities: Vec::new(),
        delay_steps: 0,
        times,
        left_out,
        dataset,
    })
}

fn number(option: &str) -> Result<Option<usize>> {
    let all: Vec<String> = std::env::args().collect();
    let Some(at) = all.iter().position(|a| a == option) else {
        return Ok(None);
    };
    let value = all.get(at + 1).map(String::as_str).unwrap_or("");
    let wrong = |_| Error::argument(format!("{option}: expected a number, got {value:?}"));
    value.parse().map(Some).map_err(wrong)
}

/// The chain's episodes.
fn episodes(ticks: &[i64], channels: &[u32]) -> Result<MinedEpisodes> {
    let alphabet = Alphabet::new(names(), Clock::from_tick_seconds(STEP)?)?;
    let events = Events::new(alphabet, ticks, channels)?;
    let edge = Interval::from_seconds(0.004, 0.006, events.clock())?;
    let mined = mine(&events, &MineOptions::new(vec![edge], 120), &())?;
    let row = |episode| Row {
        episode,
        tested: None,
    };
    Ok(MinedEpisodes {
        name: "episodes.csv".into(),
        recording: 0,
        events,
        rows: mined.episodes.into_iter().map(row).collect(),
    })
}

/// A recording of spikes alone, without a decoder.
fn recorded(ticks: Vec<i64>, channels: Vec<u32>) -> DecodedRecording {
    DecodedRecording {
        source: Source {
            name: "a made-up recording".into(),
            channel_names: names(),
            electrode_um: Some(electrodes()),
            outputs: Vec::new(),
            step_seconds: STEP,
            speed: 1.0,
            deadline: None,
            model: None,
        },
        dataset: Dataset {
            step_seconds: STEP,
            steps: STEPS,
            channel_names: names(),
            spikes: Spikes::new(ticks, channels),
            segments: vec![Segment {
                start: 0,
                stop: STEPS as i64,
            }],
            outputs: Vec::new(),
            behavior: Vec::new(),
        },
        estimates: Vec::new(),
        probabilities: Vec::new(),
        delay_steps: 0,
        times: None,
        left_out: Vec::new(),
    }
}

fn main() -> Result<()> {
    let all = spikes(1);
    let (ticks, channels): (Vec<i64>, Vec<u32>) = all.iter().copied().unzip();
    let mined = episodes(&ticks, &channels)?;
    let mut networks = vec![
        network("the recording", &all, 0..STEPS / BIN)?,
        network("its second half", &all, STEPS / BIN / 2..STEPS / BIN)?,
    ];
    if let Some(nodes) = number("--nodes")? {
        networks.push(large(nodes)?);
    }
    let mut recordings = vec![recorded(ticks, channels)];
    if std::env::args().any(|a| a == "--reaches") {
        recordings.push(reaches()?);
    }
    let shown = Contents {
        recordings,
        networks,
        mined: vec![mined],
        maps: maps(&all, number("--slowly")?)?,
        ..Contents::default()
    };
    let port = number("--port")?.unwrap_or(0);
    let options = Options {
        port: u16::try_from(port)
            .map_err(|_| Error::argument("--port: expected one below 65,536"))?,
        embed: std::env::args().any(|a| a == "--embed"),
        page_folder: std::env::var_os("BETZ_PAGE").map(Into::into),
        ..Options::default()
    };
    let monitor = Monitor::open(shown, options)?;
    println!(
        "{}",
        monitor.embedded_url().as_deref().unwrap_or(monitor.url())
    );
    loop {
        std::thread::park();
    }
}
