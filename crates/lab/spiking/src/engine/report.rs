//! Results of a simulation: counts, spikes, potentials, a hash and the time it took.

use std::io::Write;
use std::path::Path;

use betz_base::{Result, file::write_atomically};
use serde::Serialize;

use super::Engine;

/// Seconds of the parts of a step on the thread that took longest for each, where
/// [`Options::time_phases`](crate::Options::time_phases) asks for them.
///
/// The paper times five kernels: stimulus, dendrites and soma are `update` here, axons `exchange`,
/// synapses `deliver`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Phases {
    /// Input, membranes, thresholds.
    pub update_seconds: f64,
    /// Waiting for the other threads.
    pub exchange_seconds: f64,
    /// Spikes to their targets.
    pub deliver_seconds: f64,
}

impl Phases {
    /// Adds those of another run.
    pub(super) fn add(&mut self, other: Self) {
        self.update_seconds += other.update_seconds;
        self.exchange_seconds += other.exchange_seconds;
        self.deliver_seconds += other.deliver_seconds;
    }
}

/// Report of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Neurons.
    pub neurons: u64,
    /// Synapses.
    pub synapses: u64,
    /// Steps of this run.
    pub steps: u64,
    /// Spikes since the engine was built.
    pub spikes: u64,
    /// A hash of all spikes since the engine was built: the wrapped sum of the mixed
    /// `step << 32 | neuron`, whatever their order.
    pub hash: u64,
    /// Seconds of this run.
    pub seconds: f64,
    /// Real-time factor: seconds for a second of the network's time.
    pub rtf: f64,
    /// Seconds that building took.
    pub build_seconds: f64,
    /// Microseconds for a step.
    pub us_per_step: f64,
    /// Synapses that spikes went through in this run.
    pub synaptic_events: u64,
    /// Mean rate of each population in Hz since the engine was built.
    pub rates_hz: Vec<(String, f64)>,
    /// Parts of a step.
    pub phases: Phases,
    /// Device that it ran on: `cpu` or `cuda:N`.
    pub device: String,
    /// Threads used; 1 where a device did the work.
    pub threads: usize,
    /// Spikes that were not recorded since `record_spikes` had been reached; 0 when none were asked for.
    pub spikes_left_out: u64,
}

/// A spike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Spike {
    /// Step, from 0.
    pub step: u64,
    /// Neuron of the network.
    pub neuron: u32,
}

impl Engine {
    pub(super) fn report(&self, steps: u64, events: u64, seconds: f64, phases: Phases) -> Report {
        let simulated = steps as f64 * self.network.step_ms * 1e-3;
        let counts = self.counts();
        let elapsed = self.step as f64 * self.network.step_ms * 1e-3;
        let firsts = self.network.firsts();
        let rates = self.network.populations.iter().enumerate().map(|(p, of)| {
            let own = &counts[firsts[p] as usize..firsts[p + 1] as usize];
            let sum: f64 = own.iter().map(|c| f64::from(*c)).sum();
            let rate = sum / f64::from(of.neurons).max(1.0) / elapsed.max(f64::MIN_POSITIVE);
            (of.name.clone(), rate)
        });
        let spikes = self.spike_count();
        let limit = self.options.record_spikes as u64;
        Report {
            neurons: self.plan.neurons,
            synapses: self.synapses(),
            steps,
            spikes,
            hash: self.hash(),
            seconds,
            rtf: seconds / simulated.max(f64::MIN_POSITIVE),
            build_seconds: self.build_seconds,
            us_per_step: seconds * 1e6 / (steps as f64).max(1.0),
            synaptic_events: events,
            rates_hz: rates.collect(),
            phases,
            device: self.ran.device.clone(),
            threads: self.machine.threads(),
            spikes_left_out: if limit > 0 {
                spikes.saturating_sub(limit)
            } else {
                0
            },
        }
    }

    /// Spikes since the engine was built.
    pub fn spike_count(&self) -> u64 {
        self.machine.spikes()
    }

    /// Synapses that spikes went through since the engine was built.
    pub fn synaptic_events(&self) -> u64 {
        self.machine.events()
    }

    /// The hash of all spikes since the engine was built.
    pub fn hash(&self) -> u64 {
        self.machine.hash()
    }

    /// Spikes of each neuron since the engine was built. Allocates them.
    pub fn counts(&self) -> Vec<u32> {
        self.machine.counts()
    }

    /// Recorded spikes, by step, then neuron: the first `record_spikes` of all.
    pub fn spikes(&self) -> Vec<Spike> {
        let mut packed = self.machine.recorded();
        packed.sort_unstable();
        packed.truncate(self.options.record_spikes);
        let spike = |p: u64| Spike {
            step: p >> 32,
            neuron: p as u32,
        };
        packed.into_iter().map(spike).collect()
    }

    /// Recorded potentials in mV after each step, in the order of `record_potentials`.
    pub fn potentials(&self) -> Vec<(u32, &[f32])> {
        (self.options.record_potentials.iter())
            .filter_map(|&neuron| Some((neuron, self.machine.potentials(neuron)?)))
            .collect()
    }
}

/// Writes spikes of each neuron as the paper's `spikes.txt`: separated by blanks, twenty per line.
///
/// # Errors
/// `Io` when the file cannot be written.
pub fn write_counts(path: &Path, counts: &[u32]) -> Result<()> {
    write_atomically(path, |file| {
        for line in counts.chunks(20) {
            for count in line {
                write!(file, "{count} ")?;
            }
            writeln!(file)?;
        }
        Ok(())
    })
}
