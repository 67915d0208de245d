//! Frequencies by name: one state machine each, driven by one walk over the prefixes of the episodes.
//!
//! A state machine takes an episode symbol by symbol. After each symbol, its state holds what the occurrences of the prefix
//! mean for the rest, so that episodes with a common prefix share the work. Non-overlapped occurrences have a strategy of
//! their own, [`LatestStart`].

mod distinct;
mod latest;
mod total;

use rayon::prelude::*;

use super::latest_start::runs;
use super::trie::common_prefix;
use super::{CountJob, LatestStart, PatternProgress, Strategy};
use crate::events::Events;
use crate::frequency::Frequency;
use crate::pattern::{Interval, Pattern};
use betz_base::error::Result;
use betz_base::progress;

use distinct::DistinctOccurrences;
use latest::{MinimalOccurrences, SlidingWindows};
use total::TotalFrequency;

/// Counts by one definition of frequency, symbol by symbol.
trait StateMachine: Sync {
    /// Everything that the next symbol needs to know about a prefix.
    type State;

    /// The state after an episode's first symbol.
    fn begin(&self, events: &Events, symbol: u32) -> Self::State;

    /// The state after one more symbol, whose delay from the one before lies in `interval`.
    fn advance(
        &self,
        events: &Events,
        prefix: &Self::State,
        interval: Interval,
        symbol: u32,
    ) -> Self::State;

    /// The frequency of the prefix.
    fn count(&self, state: &Self::State) -> u64;
}

/// Counts by this definition. On the CPU: only non-overlapped occurrences have strategies for devices.
impl Strategy for Frequency {
    fn name(&self) -> &'static str {
        match self {
            Self::NonOverlapped => LatestStart.name(),
            other => Self::name(*other),
        }
    }

    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        self.check(job.events)?;
        match *self {
            Self::NonOverlapped => LatestStart.count(job),
            Self::Minimal { span } => count_by(&MinimalOccurrences::new(span), job),
            Self::Windows { width } => count_by(&SlidingWindows { width }, job),
            Self::Distinct => count_by(&DistinctOccurrences, job),
            Self::Total { span } => count_by(&TotalFrequency::new(span), job),
        }
    }

    fn frequency(&self) -> Frequency {
        *self
    }
}

/// Walks the episodes in the order of their prefixes, in runs that threads share.
fn count_by<M: StateMachine>(machine: &M, job: &CountJob<'_>) -> Result<Vec<u64>> {
    job.check()?;
    let order = Pattern::prefix_order(job.patterns);
    let runs = runs(job.patterns, &order, rayon::current_num_threads());
    let done = PatternProgress::new("counting", job);
    let counted: Vec<Vec<u64>> = runs
        .par_iter()
        .map(|run| {
            let counts = count_run(machine, job, run)?;
            done.add(run.len());
            Ok(counts)
        })
        .collect::<Result<_>>()?;
    let mut counts = vec![0; job.patterns.len()];
    for (&i, count) in order.iter().zip(counted.into_iter().flatten()) {
        counts[i] = count;
    }
    Ok(counts)
}

/// Counts the episodes `run` of the job, sorted by prefix, on this thread.
fn count_run<M: StateMachine>(machine: &M, job: &CountJob<'_>, run: &[usize]) -> Result<Vec<u64>> {
    // `states[k]`: after the first k + 1 symbols of the last episode.
    let mut states: Vec<M::State> = Vec::new();
    let mut last: Option<&Pattern> = None;
    let mut counts = Vec::with_capacity(run.len());
    for &i in run {
        progress::check(job.progress, "counting")?;
        let pattern = &job.patterns[i];
        states.truncate(last.map_or(0, |last| common_prefix(last, pattern)));
        for (k, (interval, symbol)) in pattern.prefix_key().enumerate().skip(states.len()) {
            let state = match k.checked_sub(1) {
                None => machine.begin(job.events, symbol),
                Some(before) => machine.advance(job.events, &states[before], interval, symbol),
            };
            states.push(state);
        }
        counts.push(states.last().map_or(0, |state| machine.count(state)));
        last = Some(pattern);
    }
    Ok(counts)
}

/// The ticks of a symbol, each once.
fn distinct_ticks(events: &Events, symbol: u32) -> impl Iterator<Item = i64> + '_ {
    let ticks = events.ticks_of(symbol);
    ticks.chunk_by(|a, b| a == b).map(|equal| equal[0])
}
