//! Recordings whose units change: lost, of less gain, exchanged, screaming. What adapting is tested on.

use betz_base::error::{Error, Result};
use betz_recording::{Recording, SpikeForm, Spikes};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson};

/// Rate of a screaming unit.
pub(crate) const SCREAM_HZ: f64 = 120.0;

/// Changes of a recording from a moment on. Units are drawn for each change by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// Units that fall silent.
    pub lose: usize,
    /// Half of the units keep a share of their spikes, drawn for each between these two.
    pub gain: Option<(f64, f64)>,
    /// Units that are heard as the next of them.
    pub swap: usize,
    /// Units that fire at 120 Hz, whatever happens.
    pub scream: usize,
    /// Time of the change.
    pub at_seconds: f64,
    /// Seed of all that is drawn.
    pub seed: u64,
}

/// Units that each change concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AffectedUnits {
    /// Units that fall silent.
    pub lost: Vec<u32>,
    /// Units with fewer spikes.
    pub weaker: Vec<u32>,
    /// Units whose spikes appear on another channel.
    pub swapped: Vec<u32>,
    /// Units that scream.
    pub screaming: Vec<u32>,
}

/// `recording` with `drift`, and which units it concerned. Behaviour, segments and what came before the
/// moment stay as they are. Changes act in the order of [`Drift`]'s fields. Allocates the new recording.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for more units than there are, a
/// share outside 0 to 1, a moment outside the recording, or a recording of a signal.
///
/// ```
/// use betz_simulate::drift::{Drift, drift};
/// use betz_simulate::population::{PopulationConfig, simulate};
///
/// # fn main() -> betz_base::Result<()> {
/// let config = PopulationConfig { neurons: 10, train_seconds: 4.0, ..PopulationConfig::default() };
/// let recording = simulate(&config, 1)?.train;
/// let lose = Drift { lose: 3, gain: None, swap: 0, scream: 0, at_seconds: 2.0, seed: 3 };
/// let (drifted, units) = drift(&recording, &lose)?;
/// assert_eq!(units.lost.len(), 3);
/// assert!(drifted.spikes.len() < recording.spikes.len());
/// # Ok(())
/// # }
/// ```
pub fn drift(recording: &Recording, drift: &Drift) -> Result<(Recording, AffectedUnits)> {
    let channels = recording.channels();
    check(recording, drift)?;
    let at = (drift.at_seconds / recording.tick_seconds).ceil() as i64;
    let mut random = ChaCha8Rng::seed_from_u64(drift.seed);
    let mut some = |count: usize| -> Vec<u32> {
        let mut all: Vec<u32> = (0..channels as u32).collect();
        all.shuffle(&mut random);
        all.truncate(count);
        all
    };
    let units = AffectedUnits {
        lost: some(drift.lose),
        weaker: some(drift.gain.map_or(0, |_| channels / 2)),
        swapped: some(drift.swap),
        screaming: some(drift.scream),
    };
    let mut entries = changed_spikes(recording, drift.gain, &units, at, &mut random);
    if drift.scream > 0 {
        add_screams(recording, &units.screaming, at, &mut random, &mut entries)?;
    }
    entries.sort_by_key(|&(tick, channel, _)| (tick, channel));
    let weighted = entries.iter().any(|e| e.2 != 1.0);
    let mut spikes = Spikes::new(
        entries.iter().map(|e| e.0).collect(),
        entries.iter().map(|e| e.1).collect(),
    );
    if weighted {
        spikes.weights = entries.iter().map(|e| e.2).collect();
    }
    let mut made = recording.clone();
    made.spikes = spikes;
    made.meta = Some(format!(
        "{{\"source\": \"betz drift\", \"lose\": {}, \"gain\": {:?}, \"swap\": {}, \"scream\": {}, \"at_seconds\": {}, \"seed\": {}}}",
        drift.lose,
        drift
            .gain
            .map_or_else(Vec::new, |(low, high)| vec![low, high]),
        drift.swap,
        drift.scream,
        drift.at_seconds,
        drift.seed
    ));
    Ok((made, units))
}

/// A spike entry: tick, channel, count.
type Entry = (i64, u32, f32);

/// The recording's entries; from tick `at` on with units lost, weaker, swapped, and without those of screaming ones.
fn changed_spikes(
    recording: &Recording,
    gain: Option<(f64, f64)>,
    units: &AffectedUnits,
    at: i64,
    random: &mut ChaCha8Rng,
) -> Vec<Entry> {
    let channels = recording.channels();
    let mut share = vec![1.0; channels];
    if let Some((low, high)) = gain {
        for &unit in &units.weaker {
            share[unit as usize] = low + (high - low) * random.random::<f64>();
        }
    }
    units.lost.iter().for_each(|&u| share[u as usize] = 0.0);
    let mut heard_as: Vec<u32> = (0..channels as u32).collect();
    let next = units.swapped.iter().cycle().skip(1);
    for (&unit, &as_unit) in units.swapped.iter().zip(next) {
        heard_as[unit as usize] = as_unit;
    }
    let mut screams = vec![false; channels];
    (units.screaming.iter()).for_each(|&u| screams[u as usize] = true);
    let from = &recording.spikes;
    let mut entries: Vec<Entry> = Vec::with_capacity(from.len());
    for (i, (&tick, &channel)) in from.ticks.iter().zip(&from.channels).enumerate() {
        let count = from.weight(i);
        if tick < at {
            entries.push((tick, channel, count));
            continue;
        }
        let kept = share[channel as usize];
        let count = if kept < 1.0 {
            (0..count as u32)
                .filter(|_| random.random::<f64>() < kept)
                .count() as f32
        } else {
            count
        };
        let channel = heard_as[channel as usize];
        if count > 0.0 && !screams[channel as usize] {
            entries.push((tick, channel, count));
        }
    }
    entries
}

fn add_screams(
    recording: &Recording,
    screaming: &[u32],
    at: i64,
    random: &mut ChaCha8Rng,
    entries: &mut Vec<Entry>,
) -> Result<()> {
    let mean = SCREAM_HZ * recording.tick_seconds;
    let poisson = Poisson::new(mean).map_err(|e| {
        Error::argument(format!(
            "drift: a tick of {} s: {e}",
            recording.tick_seconds
        ))
    })?;
    let most = match recording.form {
        SpikeForm::Counts => f64::from(u16::MAX),
        _ => 1.0,
    };
    for tick in at..recording.ticks {
        for &unit in screaming {
            let count: f64 = poisson.sample(random);
            if count > 0.0 {
                entries.push((tick, unit, count.min(most) as f32));
            }
        }
    }
    Ok(())
}

fn check(recording: &Recording, drift: &Drift) -> Result<()> {
    let channels = recording.channels();
    let most = [drift.lose, drift.swap, drift.scream].into_iter().max();
    if let Some(most) = most.filter(|&most| most > channels) {
        return Err(Error::argument(format!(
            "drift: expected at most the recording's {channels} channels to change, got {most}"
        )));
    }
    if let Some((low, high)) = drift.gain
        && !(0.0 <= low && low <= high && high <= 1.0)
    {
        return Err(Error::argument(format!(
            "drift: expected shares of 0 to 1, low before high, got {low} and {high}"
        )));
    }
    let seconds = recording.seconds();
    if !(0.0..seconds).contains(&drift.at_seconds) {
        return Err(Error::argument(format!(
            "drift: expected a moment from 0 to before {seconds} s, got {} s",
            drift.at_seconds
        )));
    }
    if recording.form == SpikeForm::Signal {
        return Err(Error::argument(
            "drift: expected spikes or counts, got a signal",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::{PopulationConfig, simulate};

    fn recording() -> Recording {
        let config = PopulationConfig {
            neurons: 20,
            step_seconds: 0.001,
            train_seconds: 10.0,
            test_seconds: 1.0,
            ..PopulationConfig::default()
        };
        simulate(&config, 5).unwrap().train
    }

    fn none() -> Drift {
        Drift {
            lose: 0,
            gain: None,
            swap: 0,
            scream: 0,
            at_seconds: 4.0,
            seed: 3,
        }
    }

    /// Spikes per channel, before the moment and after.
    fn counts(recording: &Recording) -> [Vec<f64>; 2] {
        let mut counts = [vec![0.0; 20], vec![0.0; 20]];
        let spikes = &recording.spikes;
        for (i, (&tick, &channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
            let after = usize::from(tick >= 4_000);
            counts[after][channel as usize] += f64::from(spikes.weight(i));
        }
        counts
    }

    #[test]
    fn each_change_does_what_it_says_and_the_seed_decides() {
        let plain = recording();
        let before = counts(&plain);
        let make = |change: &dyn Fn(&mut Drift)| {
            let mut asked = none();
            change(&mut asked);
            let made = drift(&plain, &asked).unwrap();
            assert_eq!(made, drift(&plain, &asked).unwrap());
            assert_eq!(counts(&made.0)[0], before[0], "what came before stays");
            assert_eq!(made.0.behavior, plain.behavior);
            assert!(made.0.spikes.ticks.is_sorted());
            made
        };
        let (lost, units) = make(&|d| d.lose = 7);
        for unit in 0..20 {
            let expected = if units.lost.contains(&unit) {
                0.0
            } else {
                before[1][unit as usize]
            };
            assert_eq!(counts(&lost)[1][unit as usize], expected);
        }
        let (weaker, units) = make(&|d| d.gain = Some((0.3, 0.3)));
        assert_eq!(units.weaker.len(), 10);
        let total = |recording: &Recording| {
            let after = &counts(recording)[1];
            units.weaker.iter().map(|&u| after[u as usize]).sum::<f64>()
        };
        assert!((total(&weaker) / total(&plain) - 0.3).abs() < 0.05);
        let (swapped, units) = make(&|d| d.swap = 6);
        for (i, &unit) in units.swapped.iter().enumerate() {
            let heard_as = units.swapped[(i + 1) % 6] as usize;
            assert_eq!(counts(&swapped)[1][heard_as], before[1][unit as usize]);
        }
        let (screaming, units) = make(&|d| d.scream = 2);
        for &unit in &units.screaming {
            let rate = counts(&screaming)[1][unit as usize] / 6.0;
            assert!((100.0..125.0).contains(&rate), "{rate}");
        }
        assert_eq!(make(&|_| ()).0.spikes, plain.spikes);
        let other = Drift {
            lose: 7,
            seed: 4,
            ..none()
        };
        assert_ne!(
            drift(&plain, &other).unwrap().1.lost,
            make(&|d| d.lose = 7).1.lost
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let plain = recording();
        for (bad, word) in [
            (Drift { lose: 21, ..none() }, "20 channels"),
            (
                Drift {
                    gain: Some((0.5, 0.2)),
                    ..none()
                },
                "shares",
            ),
            (
                Drift {
                    gain: Some((0.5, f64::NAN)),
                    ..none()
                },
                "shares",
            ),
            (
                Drift {
                    at_seconds: 10.0,
                    ..none()
                },
                "moment",
            ),
            (
                Drift {
                    at_seconds: f64::NAN,
                    ..none()
                },
                "moment",
            ),
        ] {
            let error = drift(&plain, &bad).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
