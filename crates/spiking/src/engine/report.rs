//! What a simulation gives: counts, spikes, potentials, a hash and the time it took.

use std::io::Write;
use std::path::Path;

use betz_base::{Result, file::write_atomically};
use serde::Serialize;

use super::Engine;
use crate::plan::CHUNK;

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

/// What a run did.
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
    /// Threads used.
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
    pub(super) fn report(&self, steps: u64, events: u64, seconds: f64) -> Report {
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
        let mut phases = Phases::default();
        for part in &self.parts {
            let own = part.phases;
            phases.update_seconds = phases.update_seconds.max(own.update_seconds);
            phases.exchange_seconds = phases.exchange_seconds.max(own.exchange_seconds);
            phases.deliver_seconds = phases.deliver_seconds.max(own.deliver_seconds);
        }
        let spikes = self.spike_count();
        let limit = self.options.record_spikes as u64;
        Report {
            neurons: self.plan.neurons,
            synapses: self.synapses,
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
            threads: self.parts.len(),
            spikes_left_out: if limit > 0 {
                spikes.saturating_sub(limit)
            } else {
                0
            },
        }
    }

    /// Spikes since the engine was built.
    pub fn spike_count(&self) -> u64 {
        self.parts.iter().map(|p| p.spikes).sum()
    }

    /// Synapses that spikes went through since the engine was built.
    pub fn synaptic_events(&self) -> u64 {
        self.parts.iter().map(|p| p.events).sum()
    }

    /// The hash of all spikes since the engine was built.
    pub fn hash(&self) -> u64 {
        (self.parts.iter()).fold(0, |sum, p| sum.wrapping_add(p.hash))
    }

    /// Spikes of each neuron since the engine was built. Allocates them.
    pub fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.plan.neurons as usize];
        for part in &self.parts {
            for (chunk, span) in part.spans.iter().enumerate() {
                let own = &part.counts[chunk * CHUNK..][..span.len as usize];
                counts[span.first as usize..][..own.len()].copy_from_slice(own);
            }
        }
        counts
    }

    /// Recorded spikes, by step, then neuron: the first `record_spikes` of all.
    pub fn spikes(&self) -> Vec<Spike> {
        let mut packed: Vec<u64> = Vec::new();
        for part in &self.parts {
            packed.extend(&part.recorded);
        }
        packed.sort_unstable();
        // Each thread kept as many as are wanted in all, so the first of them are complete.
        packed.truncate(self.options.record_spikes);
        let spike = |p: u64| Spike {
            step: p >> 32,
            neuron: p as u32,
        };
        packed.into_iter().map(spike).collect()
    }

    /// Recorded potentials in mV after each step, in the order of `record_potentials`.
    pub fn potentials(&self) -> Vec<(u32, &[f32])> {
        let wanted = &self.options.record_potentials;
        let mut traces = self.parts.iter().flat_map(|p| &p.traces);
        let find = |neuron: &u32| {
            let trace = traces.clone().find(|t| t.neuron == *neuron)?;
            Some((*neuron, trace.values.as_slice()))
        };
        let found = wanted.iter().filter_map(find).collect();
        let _ = traces.next();
        found
    }
}

/// Writes spikes of each neuron as the paper's `spikes.txt`: separated by blanks, twenty a line.
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
