//! A rank's view of the others: their spikes, which come once in a shortest delay, and their share of the results.

use std::fmt;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use betz_base::team::Team;
use betz_base::{Error, Result};

use super::part::Trace;
use crate::plan::{Plan, available_bytes};
use crate::random::mix;
use crate::spec::ListedSynapse;

/// Spikes by (step modulo their number, thread); those of other ranks come last.
pub(super) type Lists = [Vec<RwLock<Vec<u32>>>];

/// The other ranks of a team.
pub(super) struct Ranks {
    team: &'static dyn Team,
    /// Own parts among those of all ranks.
    parts: Range<usize>,
    /// Spikes of each neuron of other ranks.
    counts: Vec<u32>,
    spikes: u64,
    hash: u64,
    /// Recorded spikes of other ranks, step << 32 | neuron.
    recorded: Vec<u64>,
    /// Synapses of all ranks that spikes went through, as of the last settlement.
    events: u64,
    /// Recorded potentials of other ranks' neurons, as of the last settlement.
    traces: Vec<(u32, Vec<f32>)>,
    /// Potentials of each own trace that the others have.
    sent: Vec<usize>,
    /// Error of an exchange, which ended a run.
    failed: Option<Error>,
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.team.rank(), self.team.size())
    }
}

/// One block of steps that is exchanged.
pub(super) struct Block<'a> {
    pub(super) lists: &'a Lists,
    pub(super) steps: Range<u64>,
    /// Spikes to record at most.
    pub(super) recorded: usize,
    /// This rank wants to stop.
    pub(super) stop: bool,
}

impl Ranks {
    /// Rank of a team for a network of that plan, whose threads are those of all ranks together.
    ///
    /// # Errors
    /// `Io` if this rank's share exceeds `limit` or, without a limit, its part of the machine's memory; those of the team.
    pub(super) fn new(
        team: &'static dyn Team,
        plan: &Plan,
        limit: Option<u64>,
        recorded: usize,
    ) -> Result<Self> {
        let parts = team.share(plan.threads);
        let machines = team.gather(&[machine()])?;
        let alike = |words: &&Vec<u64>| words.first() == Some(&machine());
        let neighbours = machines.iter().filter(alike).count().max(1) as u64;
        let limit = limit.or_else(|| available_bytes().map(|bytes| bytes / neighbours));
        if let Some(limit) = limit {
            let recorded = (8 * recorded as u64 / 2).min(limit / 2);
            plan.fit_share(parts.len(), limit - recorded)
                .map_err(|e| e.at(format!("rank {} of {}", team.rank(), team.size())))?;
        }
        Ok(Self {
            team,
            parts,
            counts: crate::connect::zeros("counts of other ranks", plan.neurons as usize)?,
            spikes: 0,
            hash: 0,
            recorded: Vec::new(),
            events: 0,
            traces: Vec::new(),
            sent: Vec::new(),
            failed: None,
        })
    }

    /// Own parts among those of all ranks.
    pub(super) fn parts(&self) -> Range<usize> {
        self.parts.clone()
    }

    /// The largest value of all ranks.
    pub(super) fn largest(&self, own: u64) -> Result<u64> {
        let all = self.team.gather(&[own])?;
        Ok(all.iter().flatten().copied().max().unwrap_or(own))
    }

    /// Sends the spikes of a block to all ranks and takes theirs. True if a rank wants to stop.
    pub(super) fn exchange(&mut self, block: &Block<'_>) -> bool {
        match self.try_exchange(block) {
            Ok(stop) => stop,
            Err(error) => {
                self.failed = Some(error);
                true
            }
        }
    }

    fn try_exchange(&mut self, block: &Block<'_>) -> Result<bool> {
        let kept = block.lists.len() as u64;
        let slot = |step: u64| &block.lists[(step % kept) as usize];
        let own = self.parts.len();
        let mut words = vec![u64::from(block.stop)];
        for step in block.steps.clone() {
            for list in &slot(step)[..own] {
                let list = list.read().unwrap_or_else(PoisonError::into_inner);
                words.extend(list.iter().map(|n| step << 32 | u64::from(*n)));
            }
            write(&slot(step)[own]).clear();
        }
        let mut stop = false;
        let mut heard = Vec::new();
        for (rank, words) in self.team.gather(&words)?.iter().enumerate() {
            let Some((flag, spikes)) = words.split_first() else {
                return Err(unexpected(rank, "no word"));
            };
            stop |= *flag != 0;
            if rank == self.team.rank() {
                continue;
            }
            for &spike in spikes {
                let (step, neuron) = (spike >> 32, spike as u32);
                let count = self.counts.get_mut(neuron as usize);
                let (true, Some(count)) = (block.steps.contains(&step), count) else {
                    return Err(unexpected(rank, &format!("neuron {neuron} at step {step}")));
                };
                *count += 1;
                self.hash = self.hash.wrapping_add(mix(spike));
                write(&slot(step)[own]).push(neuron);
            }
            self.spikes += spikes.len() as u64;
            if block.recorded > 0 {
                heard.extend_from_slice(spikes);
            }
        }
        heard.sort_unstable();
        heard.truncate(block.recorded.saturating_sub(self.recorded.len()));
        self.recorded.extend(heard);
        Ok(stop)
    }

    /// The error of an exchange, if there was one.
    pub(super) fn check(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Exchanges what only a neuron's own rank knows: `events` of the synapses, potentials of `traces`.
    pub(super) fn settle<'a>(
        &mut self,
        events: u64,
        traces: impl Iterator<Item = &'a Trace>,
    ) -> Result<()> {
        let mut words = vec![events];
        for (i, trace) in traces.enumerate() {
            if self.sent.len() == i {
                self.sent.push(0);
            }
            let new = &trace.values[self.sent[i]..];
            words.extend([u64::from(trace.neuron), new.len() as u64]);
            words.extend(new.iter().map(|v| u64::from(v.to_bits())));
            self.sent[i] = trace.values.len();
        }
        self.events = 0;
        for (rank, words) in self.team.gather(&words)?.iter().enumerate() {
            let Some((events, mut words)) = words.split_first() else {
                return Err(unexpected(rank, "no word"));
            };
            self.events += events;
            if rank == self.team.rank() {
                continue;
            }
            while let [neuron, count, rest @ ..] = words {
                let Some((values, rest)) = rest.split_at_checked(*count as usize) else {
                    return Err(unexpected(rank, "potentials that are cut short"));
                };
                words = rest;
                let values = values.iter().map(|v| f32::from_bits(*v as u32));
                match self.traces.iter_mut().find(|t| u64::from(t.0) == *neuron) {
                    Some((_, all)) => all.extend(values),
                    None => self.traces.push((*neuron as u32, values.collect())),
                }
            }
        }
        Ok(())
    }

    /// Adds the other ranks' spikes of each neuron.
    pub(super) fn add_counts(&self, counts: &mut [u32]) {
        for (sum, count) in counts.iter_mut().zip(&self.counts) {
            *sum += count;
        }
    }

    pub(super) fn spikes(&self) -> u64 {
        self.spikes
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn recorded(&self) -> &[u64] {
        &self.recorded
    }

    /// Recorded potentials of another rank's neuron.
    pub(super) fn potentials(&self, neuron: u32) -> Option<&[f32]> {
        let trace = self.traces.iter().find(|t| t.0 == neuron)?;
        Some(trace.1.as_slice())
    }

    /// The potential of a neuron, which its own rank knows.
    pub(super) fn potential(&self, own: Option<f32>) -> Result<f32> {
        let own: Vec<u64> = own.iter().map(|v| u64::from(v.to_bits())).collect();
        let all = self.team.gather(&own)?;
        let bits = all.iter().flatten().next();
        bits.map(|bits| f32::from_bits(*bits as u32))
            .ok_or_else(|| unexpected(0, "no potential"))
    }

    /// Synapses of all ranks.
    pub(super) fn synapses(&self, own: &[ListedSynapse]) -> Result<Vec<ListedSynapse>> {
        let words: Vec<u64> = (own.iter())
            .flat_map(|s| {
                let ends = u64::from(s.source) << 32 | u64::from(s.target);
                let rest = u64::from(s.weight.to_bits()) << 32 | u64::from(s.delay_steps);
                [ends, rest]
            })
            .collect();
        let all = self.team.gather(&words)?;
        let pairs = all.iter().flat_map(|words| words.as_chunks::<2>().0);
        Ok(pairs
            .map(|&[ends, rest]| ListedSynapse {
                source: (ends >> 32) as u32,
                target: ends as u32,
                weight: f32::from_bits((rest >> 32) as u32),
                delay_steps: rest as u32,
            })
            .collect())
    }
}

fn write(list: &RwLock<Vec<u32>>) -> std::sync::RwLockWriteGuard<'_, Vec<u32>> {
    list.write().unwrap_or_else(PoisonError::into_inner)
}

fn unexpected(rank: usize, got: &str) -> Error {
    Error::mismatch(format!(
        "rank {rank}: expected its spikes of this block of steps, got {got}: all ranks must run the same network"
    ))
}

/// A number that ranks of one machine share: a hash of the identity that Linux gives itself when it starts; 0 elsewhere.
fn machine() -> u64 {
    let identity = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    (identity.iter()).fold(0, |hash, byte| mix(hash ^ u64::from(*byte)))
}
