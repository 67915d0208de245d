//! Neurons that are tuned to a movement, and the movement that drives them.

use std::f64::consts::TAU;
use std::path::Path;
use std::sync::Arc;

use betz_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::drive::Drive;
use crate::random::{Normal, Purpose, Words};
use crate::spec::{Draw, Network, Population};

/// Places of the draws of a tuning, beyond those of any model's parameters.
const PLACES: u32 = 1 << 16;

/// Tuning of a population's neurons to a movement (x, y). Neuron i gets the current
/// offset_i + gain_i · (x cos θ_i + y sin θ_i). It acts while the network follows a movement
/// ([`Engine::follow`](crate::Engine::follow)).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningProfile {
    /// Preferred direction θ in degrees, from x towards y.
    #[serde(default = "any_direction")]
    pub direction_deg: Draw,
    /// Current for one unit of movement in the preferred direction.
    pub gain_pa: Draw,
    /// Current at rest.
    #[serde(default = "no_current")]
    pub offset_pa: Draw,
}

fn any_direction() -> Draw {
    Draw::Uniform {
        low: 0.0,
        high: 360.0,
    }
}

fn no_current() -> Draw {
    Draw::Constant(0.0)
}

impl TuningProfile {
    /// Any direction, this gain, and no current at rest.
    pub fn new(gain_pa: impl Into<Draw>) -> Self {
        Self {
            direction_deg: any_direction(),
            gain_pa: gain_pa.into(),
            offset_pa: no_current(),
        }
    }

    fn draws(&self) -> [(&'static str, &Draw); 3] {
        [
            ("direction_deg", &self.direction_deg),
            ("gain_pa", &self.gain_pa),
            ("offset_pa", &self.offset_pa),
        ]
    }

    /// Replaces files of values per neuron by what they hold.
    pub(crate) fn read_files(&mut self, folder: &Path) -> Result<()> {
        for (name, draw) in [
            ("direction_deg", &mut self.direction_deg),
            ("gain_pa", &mut self.gain_pa),
            ("offset_pa", &mut self.offset_pa),
        ] {
            draw.read_file(folder)
                .map_err(|e| e.at(format!("tuning: {name}")))?;
        }
        Ok(())
    }

    /// Refuses draws that are none.
    pub(crate) fn check(&self, population: &Population) -> Result<()> {
        for (name, draw) in self.draws() {
            (draw.check_length(population.neurons))
                .and_then(|()| draw.bounds().map(drop))
                .map_err(|e| e.at(format!("tuning: {name}")))?;
        }
        Ok(())
    }

    /// Gain times the preferred direction, and offset, of each neuron of a population.
    fn neurons(&self, network: &Network, population: usize) -> Vec<TunedNeuron> {
        let (normal, words) = (Normal::new(), Words::new(network.seed, Purpose::Parameter));
        let draws = self.draws();
        (0..network.populations[population].neurons)
            .map(|own| {
                let [direction, gain, offset] = [0, 1, 2].map(|k: u32| {
                    let at = [own, population as u32, PLACES + k];
                    draws[k as usize]
                        .1
                        .of_neuron(own, |again| words.at(at, again)[0], &normal)
                });
                let angle = direction / 360.0 * TAU;
                TunedNeuron {
                    along: [gain * angle.cos(), gain * angle.sin()],
                    offset,
                }
            })
            .collect()
    }
}

/// A neuron's tuning, drawn.
#[derive(Debug, Clone, Copy)]
struct TunedNeuron {
    /// Currents for one unit of x and of y.
    along: [f64; 2],
    offset: f64,
}

/// A movement over time: positions, each of which holds until the next. It repeats.
///
/// ```
/// use betz_spiking::{Engine, Movement, Network, Options, Population, TuningProfile};
///
/// let mut network = Network::new(0.1, 1);
/// let mut population = Population::new("m1", 20);
/// population.tuning = Some(TuningProfile::new(600.0));
/// network.populations.push(population);
/// let mut engine = Engine::build(&network, &Options::default(), &())?;
/// // At rest for 100 ms, then to the right.
/// let movement = Movement::read("seconds,x,y\n0,0,0\n0.1,1,0\n", "table", 0.1)?;
/// engine.follow(&movement)?;
/// assert_eq!(engine.run(1_000, &())?.spikes, 0);
/// assert!(engine.run(1_000, &())?.spikes > 5);
/// # Ok::<(), betz_spiking::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Movement {
    /// Steps, ascending, and positions from then on.
    rows: Arc<[(u64, [f32; 2])]>,
    period: u64,
}

impl Movement {
    /// Positions from steps on, which begin again every `period` steps. Before the first one the position is (0, 0).
    ///
    /// # Errors
    /// `InvalidArgument` without rows, for steps that do not ascend below the period, and for positions that are not finite.
    pub fn new(rows: Vec<(u64, [f32; 2])>, period: u64) -> Result<Self> {
        let Some((last, _)) = rows.last() else {
            return Err(Error::argument(
                "movement: expected at least one position, got none",
            ));
        };
        if *last >= period {
            return Err(Error::argument(format!(
                "movement: expected steps below its period of {period} steps, got {last}"
            )));
        }
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(Error::argument(format!(
                "movement: expected steps in ascending order, got {} after {}",
                pair[1].0, pair[0].0
            )));
        }
        if let Some((step, [x, y])) = rows
            .iter()
            .find(|(_, at)| !at.iter().all(|v| v.is_finite()))
        {
            return Err(Error::argument(format!(
                "movement: expected finite positions, got {x}, {y} at step {step}"
            )));
        }
        Ok(Self {
            rows: rows.into(),
            period,
        })
    }

    /// Lines `seconds,x,y` for a network of steps of `step_ms`; a first line without digits is a title. The last line holds
    /// as long as the one before it; a single line holds for ever. `name` is for errors.
    ///
    /// # Errors
    /// `InvalidRecording` naming the line.
    pub fn read(text: &str, name: &str, step_ms: f64) -> Result<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rows: Vec<(f64, [f32; 2])> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || (number == 1 && !line.contains(|c: char| c.is_ascii_digit())) {
                continue;
            }
            let refuse = |words: &str| {
                let words = format!("{name}: line {number}: expected {words}, got {line:?}");
                Err(Error::new(ErrorKind::InvalidRecording, words))
            };
            let values: Vec<f64> = (line.split(','))
                .filter_map(|value| value.trim().parse().ok())
                .filter(|value: &f64| value.is_finite())
                .collect();
            let &[seconds, x, y] = values.as_slice() else {
                return refuse("three finite numbers \"seconds,x,y\"");
            };
            if line.split(',').count() != 3 {
                return refuse("three finite numbers \"seconds,x,y\"");
            }
            if !(0.0..1e12).contains(&seconds) {
                return refuse("a time from 0 s on");
            }
            if let Some((before, _)) = rows.last()
                && step_of(*before, step_ms) >= step_of(seconds, step_ms)
            {
                return refuse("a time at least one step after that of the line before");
            }
            rows.push((seconds, [x as f32, y as f32]));
        }
        Self::from_seconds(&rows, step_ms).map_err(|e| e.at(name))
    }

    /// Positions from times in seconds on, for a network of steps of `step_ms`. The last one holds as long as the one before
    /// it; a single one holds for ever.
    ///
    /// # Errors
    /// As [`Movement::new`]; `InvalidArgument` for times that are not from 0 s on.
    pub fn from_seconds(rows: &[(f64, [f32; 2])], step_ms: f64) -> Result<Self> {
        if let Some((seconds, _)) = rows.iter().find(|(s, _)| !(0.0..1e12).contains(s)) {
            return Err(Error::argument(format!(
                "movement: expected times from 0 s on, got {seconds} s"
            )));
        }
        let rows: Vec<_> = (rows.iter())
            .map(|(seconds, at)| (step_of(*seconds, step_ms), *at))
            .collect();
        let period = match rows.as_slice() {
            [.., (before, _), (last, _)] => last + last.saturating_sub(*before).max(1),
            _ => u64::MAX,
        };
        Self::new(rows, period)
    }

    /// The position in a step.
    pub fn at(&self, step: u64) -> [f32; 2] {
        let step = step % self.period;
        let next = self.rows.partition_point(|(from, _)| *from <= step);
        match next.checked_sub(1) {
            Some(at) => self.rows[at].1,
            None => [0.0; 2],
        }
    }

    /// The first later step in which the position may change.
    fn next_change(&self, step: u64) -> Option<u64> {
        let begun = step - step % self.period;
        let next = self.rows.partition_point(|(from, _)| *from <= step - begun);
        let within = self.rows.get(next).map_or(self.period, |(from, _)| *from);
        begun.checked_add(within).filter(|step| *step < u64::MAX)
    }
}

/// The step from which a time on a row holds.
fn step_of(seconds: f64, step_ms: f64) -> u64 {
    (seconds * 1e3 / step_ms - 1e-6).ceil().max(0.0) as u64
}

/// Currents of tuned neurons under a movement.
pub(crate) struct TunedDrive {
    neurons: Vec<TunedNeuron>,
    movement: Movement,
}

impl TunedDrive {
    /// Of a population; `None` if it is not tuned.
    pub(crate) fn of(network: &Network, population: usize, movement: &Movement) -> Option<Self> {
        let tuning = network.populations[population].tuning.as_ref()?;
        Some(Self {
            neurons: tuning.neurons(network, population),
            movement: movement.clone(),
        })
    }
}

impl Drive for TunedDrive {
    fn add_currents(&mut self, step: u64, currents_pa: &mut [f64]) -> Result<Option<u64>> {
        let [x, y] = self.movement.at(step).map(f64::from);
        for (current, neuron) in currents_pa.iter_mut().zip(&self.neurons) {
            *current += neuron.offset + neuron.along[0] * x + neuron.along[1] * y;
        }
        Ok(self.movement.next_change(step))
    }
}
