//! `betz run --simulate=NETWORK`: a spiking network as the rig. Its spikes arrive in real time.

use std::path::Path;
use std::time::{Duration, Instant};

use betz::progress;
use betz::spiking::{Device, Engine, Movement, Network, Options};
use betz::{Error, Progress, Result};
use betz_rigs::rig::{Arrival, Block, Rig, RigCounts, RigSpike, Samples, Signal, host_ns};

use crate::commands::simulate::{self, movement};
use crate::report::Bar;

use super::simulated::STEP_SECONDS;

/// Time that a block covers; at least a step.
const BLOCK_SECONDS: f64 = 1e-3;
/// Length of the part to train on.
const TRAIN_SECONDS: f64 = 60.0;
/// Most channels unless the plan says how many there are.
const MOST_CHANNELS: usize = 256;
/// Seconds per second of the network above which it may not keep up with the clock.
const NEARLY_TOO_SLOW: f64 = 0.8;

/// Options of the rig.
pub(super) struct NetworkRequest<'a> {
    /// A file of JSON.
    pub(super) name: &'a str,
    /// Populations whose spikes arrive, separated by commas; the tuned ones if absent.
    pub(super) populations: Option<&'a str>,
    /// File of the movement; noise if absent.
    pub(super) movement: Option<&'a Path>,
    /// Channels of the plan.
    pub(super) channels: Option<usize>,
}

/// A network at work. It begins with the part to train on, as fast as it can, and goes on in real time.
pub(super) struct NetworkRig {
    engine: Engine,
    movement: Movement,
    /// Channel of each neuron; `None` if nobody listens to it.
    channels: Vec<Option<u32>>,
    signal: Signal,
    /// Progress of the part to train on.
    bar: Option<Bar>,
    /// Step in which the part to train on ends.
    train_end: u64,
    /// Start of the clock, once the part to train on is over.
    begun: Option<Instant>,
    is_training: bool,
    /// True once the note about a slow machine is printed or found needless.
    pace_is_told: bool,
    /// Seconds that the steps so far took.
    busy: f64,
    fired: Vec<u32>,
    counts: RigCounts,
}

impl NetworkRig {
    /// Builds the network.
    ///
    /// # Errors
    /// The errors of the description, the movement and the memory; `InvalidArgument` for populations that are not there.
    pub(super) fn open(asked: &NetworkRequest<'_>) -> Result<Self> {
        let network = simulate::network_file(Path::new(asked.name))?;
        if !network.is_tuned() {
            return Err(Error::argument(format!(
                "--simulate={}: expected a population that a movement drives, such as \"tuning\": {{\"gain_pa\": 300}} beside its \"neurons\" (docs/spiking.md), got none",
                asked.name
            )));
        }
        if network.step_ms > STEP_SECONDS * 1e3 {
            return Err(Error::argument(format!(
                "--simulate={}: step_ms: expected at most {}, the decoder's step, got {}",
                asked.name,
                STEP_SECONDS * 1e3,
                network.step_ms
            )));
        }
        let neurons = heard(&network, asked.populations)?;
        let count = asked.channels.unwrap_or(neurons.len().min(MOST_CHANNELS));
        let mut channels = vec![None; network.neurons() as usize];
        for (place, neuron) in neurons.into_iter().enumerate() {
            channels[neuron] = Some((place % count.max(1)) as u32);
        }
        let options = Options {
            device: Device::cpu(),
            ..Options::default()
        };
        let bar = Bar::new();
        let mut engine = Engine::build(&network, &options, &bar)?;
        let movement = movement::movement(&network, asked.movement).map_err(|e| {
            if asked.movement.is_some() {
                e.at("--movement")
            } else {
                e
            }
        })?;
        engine.follow(&movement)?;
        let step_seconds = network.step_ms * 1e-3;
        Ok(Self {
            engine,
            movement,
            channels,
            signal: Signal {
                channels: count,
                rate: 1e3 / network.step_ms,
                microvolts: None,
                clock_bits: 64,
            },
            bar: Some(bar),
            train_end: (TRAIN_SECONDS / step_seconds).round() as u64,
            begun: None,
            is_training: true,
            pace_is_told: false,
            busy: 0.0,
            fired: Vec::new(),
            counts: RigCounts::default(),
        })
    }

    /// The movement that its tuned populations follow, by the step.
    pub(super) fn movement(&self) -> Movement {
        self.movement.clone()
    }

    /// Length of a step in seconds.
    pub(super) fn step_seconds(&self) -> f64 {
        1.0 / self.signal.rate
    }

    /// Goes on in real time, from the end of the part to train on.
    pub(super) fn go_on(&mut self) {
        self.is_training = false;
        self.bar = None;
    }

    /// Says after a first second of the network's time, and so before most of the part to train on, that this machine is too
    /// slow for it.
    fn note_pace(&mut self) {
        let seconds = self.engine.steps() as f64 * self.step_seconds();
        if self.pace_is_told || seconds < 1.0 {
            return;
        }
        self.pace_is_told = true;
        let share = self.busy / seconds;
        if share > NEARLY_TOO_SLOW {
            let comes = if share > 1.0 { "will" } else { "may" };
            eprintln!(
                "note: the network takes {share:.1} s per second of its time on one thread of this machine: its spikes {comes} come late, and the part to train on takes {:.0} s",
                share * TRAIN_SECONDS
            );
        }
    }

    /// Simulates the steps of a block.
    fn step(&mut self, steps: u64, spikes: &mut Vec<RigSpike>) -> Result<()> {
        let started = Instant::now();
        for _ in 0..steps {
            let tick = self.engine.steps();
            self.engine.step(&mut self.fired)?;
            self.fired.sort_unstable();
            spikes.extend(self.fired.iter().filter_map(|neuron| {
                let channel = self.channels[*neuron as usize]?;
                Some(RigSpike {
                    tick,
                    channel,
                    unit: 0,
                })
            }));
        }
        self.busy += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Waits until the steps before `end` have passed; false if `patience` is over before.
    fn wait(&mut self, end: u64, patience: Duration) -> bool {
        if self.is_training {
            return true;
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let passed = (end - self.train_end) as f64 * self.step_seconds();
        let wait = Duration::from_secs_f64(passed).saturating_sub(begun.elapsed());
        std::thread::sleep(wait.min(patience));
        wait <= patience
    }
}

impl Rig for NetworkRig {
    fn signal(&self) -> Option<Signal> {
        Some(self.signal.clone())
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let first = self.engine.steps();
        if self.is_training {
            if first >= self.train_end {
                return Ok(Arrival::Ended);
            }
            if let Some(bar) = &self.bar {
                progress::check(bar, "simulating")?;
                bar.update("simulating", first, self.train_end);
            }
        }
        let mut rows = (BLOCK_SECONDS / self.step_seconds()).round().max(1.0) as u64;
        if self.is_training {
            rows = rows.min(self.train_end - first);
        }
        if !self.wait(first + rows, patience) {
            return Ok(Arrival::Nothing);
        }
        let mut spikes = match std::mem::replace(&mut block.samples, Samples::Voltage(Vec::new())) {
            Samples::Spikes(spikes) => spikes,
            Samples::Voltage(_) | Samples::Features(_) => Vec::new(),
        };
        spikes.clear();
        self.step(rows, &mut spikes)?;
        self.note_pace();
        self.counts.blocks += 1;
        self.counts.rows += spikes.len() as u64;
        *block = Block {
            first,
            rows: rows as usize,
            host_ns: host_ns(),
            samples: Samples::Spikes(spikes),
            ..Block::new()
        };
        Ok(Arrival::Block)
    }

    fn counts(&self) -> RigCounts {
        self.counts
    }
}

/// The neurons whose spikes arrive, in the order of their channels.
fn heard(network: &Network, populations: Option<&str>) -> Result<Vec<usize>> {
    let firsts = network.firsts();
    let chosen: Vec<usize> = match populations {
        Some(list) => (list.split(','))
            .map(|name| {
                network
                    .population(name.trim())
                    .map_err(|e| e.at("--populations"))
            })
            .collect::<Result<_>>()?,
        None => (0..network.populations.len())
            .filter(|p| network.populations[*p].tuning.is_some())
            .collect(),
    };
    if let Some(again) = (1..chosen.len()).find(|i| chosen[..*i].contains(&chosen[*i])) {
        return Err(Error::argument(format!(
            "--populations: expected each population once, got {:?} twice",
            network.populations[chosen[again]].name
        )));
    }
    Ok(chosen
        .into_iter()
        .flat_map(|p| firsts[p] as usize..firsts[p + 1] as usize)
        .collect())
}
