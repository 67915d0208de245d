//! A rig without hardware: tuned neurons, and voltage with a known truth.
//!
//! The voltage is a pure function of seed, channel and sample: hashed noise, and a waveform at each spike of a simulated
//! population. The population's movement is the truth.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use betz_base::{Error, Result};
use betz_recording::Recording;
use betz_rigs::rig::{Arrival, Block, Loss, Rig, RigCounts, Samples, Signal, host_ns};
use betz_simulate::population::{self, PopulationConfig};

/// Rows of a block: 1 ms at 30 kHz.
const BLOCK_ROWS: usize = 30;
/// Rows that a waveform begins before its spike, and that it lasts after it.
const BEFORE: i64 = 12;
const AFTER: i64 = 48;
/// Standard deviation of a sum of four random bytes.
const BYTES_STD: f64 = 147.8;

/// Options of a simulated rig.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulationOptions {
    /// Electrodes; neuron n is heard by electrode n modulo this number.
    pub channels: usize,
    /// Tuned neurons.
    pub neurons: usize,
    /// Length of the part to train on, in seconds.
    pub train_seconds: f64,
    /// Length of the part to run on, in seconds; it repeats.
    pub run_seconds: f64,
    /// Standard deviation of the noise, in microvolts.
    pub noise_microvolts: f64,
    /// Microvolts per bit.
    pub microvolts: f64,
    /// Share of blocks that are lost on the way.
    pub loss: f64,
    /// Seed of everything.
    pub seed: u64,
}

impl Default for SimulationOptions {
    /// 96 electrodes, 150 neurons, a minute to train on and a minute to run on, noise of 8 µV.
    fn default() -> Self {
        Self {
            channels: 96,
            neurons: 150,
            train_seconds: 60.0,
            run_seconds: 60.0,
            noise_microvolts: 8.0,
            microvolts: 0.25,
            loss: 0.0,
            seed: 1,
        }
    }
}

/// Part of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The part to train on, once.
    Train,
    /// The part to run on, again and again.
    Run,
}

/// Speed of a simulated rig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A block arrives when its last row has passed.
    RealTime,
    /// A block arrives as soon as it is taken.
    Fastest,
}

/// A simulated population with its movement, from which rigs are made.
#[derive(Debug, Clone)]
pub struct Simulation {
    options: SimulationOptions,
    train: Arc<Recording>,
    run: Arc<Recording>,
    waveforms: Arc<Vec<[i16; (BEFORE + AFTER) as usize]>>,
}

impl Simulation {
    /// Rows per second.
    pub const RATE: f64 = 30_000.0;

    /// Simulates the population; both parts are under a second of work.
    ///
    /// # Errors
    /// `InvalidArgument` for options that make no sense.
    pub fn new(options: &SimulationOptions) -> Result<Self> {
        let sane = (1..=4096).contains(&options.channels)
            && options.noise_microvolts > 0.0
            && options.microvolts > 0.0
            && (0.0..1.0).contains(&options.loss);
        if !sane {
            return Err(Error::argument(format!(
                "simulated rig: expected 1 to 4096 channels, noise and microvolts per bit above 0, and a loss from 0 to below 1; got {} channels, {} µV, {} µV, {}",
                options.channels, options.noise_microvolts, options.microvolts, options.loss
            )));
        }
        let config = PopulationConfig {
            neurons: options.neurons,
            step_seconds: 0.001,
            train_seconds: options.train_seconds,
            test_seconds: options.run_seconds,
            band_hz: 2.0,
            ..PopulationConfig::default()
        };
        let made = population::simulate(&config, options.seed)?;
        let waveforms = (0..options.neurons as u64)
            .map(|n| {
                waveform(
                    hash(options.seed ^ n.wrapping_mul(0x9E37_79B9)),
                    options.microvolts,
                )
            })
            .collect();
        Ok(Self {
            options: options.clone(),
            train: Arc::new(made.train),
            run: Arc::new(made.test),
            waveforms: Arc::new(waveforms),
        })
    }

    /// Facts about the signal of its rigs.
    pub fn signal(&self) -> Signal {
        Signal {
            channels: self.options.channels,
            rate: Self::RATE,
            microvolts: Some(self.options.microvolts),
            clock_bits: 64,
        }
    }

    /// The population's recording of a part: its spikes and its movement, in ticks of 1 ms.
    pub fn recording(&self, part: Part) -> &Recording {
        match part {
            Part::Train => &self.train,
            Part::Run => &self.run,
        }
    }

    /// The movement at a row of a part: x and y.
    pub fn truth(&self, part: Part, row: u64) -> [f32; 2] {
        let recording = self.recording(part);
        let tick = (row as f64 / (Self::RATE * recording.tick_seconds)) as usize;
        let values = recording.behavior.as_ref().map_or(&[][..], |b| &b.values);
        let ticks = (values.len() / 2).max(1);
        let at = 2 * (tick % ticks);
        match values.get(at..at + 2) {
            Some(&[x, y]) => [x, y],
            _ => [f32::NAN; 2],
        }
    }

    /// A rig that sends a part.
    pub fn rig(&self, part: Part, pace: Pace) -> SimulatedRig {
        let recording = match part {
            Part::Train => &self.train,
            Part::Run => &self.run,
        };
        let rows_per_tick = Self::RATE * recording.tick_seconds;
        let spikes = (recording.spikes.ticks.iter())
            .zip(&recording.spikes.channels)
            .map(|(tick, &neuron)| {
                // Somewhere within the tick, so that spikes do not begin in step.
                let inside = hash(*tick as u64 ^ (u64::from(neuron) << 40)) % rows_per_tick as u64;
                (
                    (*tick as f64 * rows_per_tick) as i64 + inside as i64,
                    neuron,
                )
            });
        let mut spikes: Vec<(i64, u32)> = spikes.collect();
        spikes.sort_unstable();
        SimulatedRig {
            signal: self.signal(),
            spikes,
            waveforms: Arc::clone(&self.waveforms),
            scale: (self.options.noise_microvolts / self.options.microvolts / BYTES_STD * 65536.0)
                .round() as i32,
            seed: self.options.seed as u32,
            loss: (self.options.loss * 2_f64.powi(32)) as u64,
            length: (recording.ticks as f64 * rows_per_tick) as u64,
            repeats: part == Part::Run,
            pace,
            begun: None,
            next: 0,
            counts: RigCounts::default(),
        }
    }
}

/// A simulated rig at work.
pub struct SimulatedRig {
    signal: Signal,
    /// (row, neuron), ascending.
    spikes: Vec<(i64, u32)>,
    waveforms: Arc<Vec<[i16; (BEFORE + AFTER) as usize]>>,
    scale: i32,
    seed: u32,
    loss: u64,
    length: u64,
    repeats: bool,
    pace: Pace,
    begun: Option<Instant>,
    next: u64,
    counts: RigCounts,
}

impl SimulatedRig {
    /// The voltage of `rows`, which do not reach beyond the part's end.
    fn fill(&self, rows: Range<u64>, voltage: &mut Vec<i16>) {
        let channels = self.signal.channels;
        voltage.clear();
        voltage.resize((rows.end - rows.start) as usize * channels, 0);
        for (row, out) in rows.clone().zip(voltage.chunks_exact_mut(channels)) {
            let salt = (row as u32).wrapping_mul(0x85EB_CA6B) ^ self.seed.wrapping_mul(0xC2B2_AE35);
            for (channel, out) in out.iter_mut().enumerate() {
                let mut h = salt.wrapping_add((channel as u32).wrapping_mul(0x9E37_79B9));
                h ^= h >> 16;
                h = h.wrapping_mul(0x7FEB_352D);
                h ^= h >> 15;
                h = h.wrapping_mul(0x846C_A68B);
                h ^= h >> 16;
                let bytes = (h & 255) + ((h >> 8) & 255) + ((h >> 16) & 255) + (h >> 24);
                *out = (((bytes as i32 - 510) * self.scale) >> 16) as i16;
            }
        }
        let first = (rows.start % self.length) as i64;
        let end = first + (rows.end - rows.start) as i64;
        let begin = self.spikes.partition_point(|s| s.0 + AFTER <= first);
        for &(at, neuron) in self.spikes[begin..]
            .iter()
            .take_while(|s| s.0 - BEFORE < end)
        {
            let (wave, channel) = (&self.waveforms[neuron as usize], neuron as usize % channels);
            for row in (at - BEFORE).max(first)..(at + AFTER).min(end) {
                let out = &mut voltage[(row - first) as usize * channels + channel];
                *out = out.saturating_add(wave[(row - at + BEFORE) as usize]);
            }
        }
    }

    /// Waits until the block that ends at row `end` has passed; false if `patience` is over before.
    fn wait(&mut self, end: u64, patience: Duration) -> bool {
        if self.pace == Pace::Fastest {
            return true;
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let due = Duration::from_secs_f64(end as f64 / self.signal.rate);
        let wait = due.saturating_sub(begun.elapsed());
        std::thread::sleep(wait.min(patience));
        wait <= patience
    }
}

impl Rig for SimulatedRig {
    fn signal(&self) -> Option<Signal> {
        Some(self.signal.clone())
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let mut lost = 0;
        loop {
            if !self.repeats && self.next >= self.length {
                return Ok(Arrival::Ended);
            }
            let rows = (BLOCK_ROWS as u64).min(self.length - self.next % self.length);
            if !self.wait(self.next + rows, patience) {
                // The next call counts the loss again and tells it with its block.
                self.next -= lost;
                return Ok(Arrival::Nothing);
            }
            let first = self.next;
            self.next += rows;
            if hash(first ^ (u64::from(self.seed) << 32)) >> 32 < self.loss {
                lost += rows;
                continue;
            }
            let mut voltage =
                match std::mem::replace(&mut block.samples, Samples::Voltage(Vec::new())) {
                    Samples::Voltage(voltage) => voltage,
                    Samples::Spikes(_) | Samples::Features(_) => Vec::new(),
                };
            self.fill(first..first + rows, &mut voltage);
            *block = Block {
                epoch: 0,
                first,
                rows: rows as usize,
                host_ns: host_ns(),
                lost_before: Loss {
                    count: lost,
                    at_least: false,
                },
                samples: Samples::Voltage(voltage),
            };
            self.counts.blocks += 1;
            self.counts.rows += rows;
            self.counts.lost += lost;
            return Ok(Arrival::Block);
        }
    }

    fn counts(&self) -> RigCounts {
        self.counts
    }
}

/// SplitMix64's finaliser.
fn hash(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A trough and a slow return, in bits; 70 to 170 µV deep.
fn waveform(random: u64, microvolts: f64) -> [i16; (BEFORE + AFTER) as usize] {
    let part = |shift: u32| ((random >> shift) & 0xFFFF) as f64 / 65536.0;
    let (depth, trough, back) = (
        70.0 + 100.0 * part(0),
        2.5 + 2.0 * part(16),
        0.2 + 0.2 * part(32),
    );
    std::array::from_fn(|i| {
        let row = i as f64 - BEFORE as f64;
        let down = (-0.5 * (row / trough).powi(2)).exp();
        let up = back * (-0.5 * ((row - 14.0) / 8.0).powi(2)).exp();
        // To nothing at both ends, without a step.
        (depth * (up - down) / microvolts).round() as i16
    })
}
