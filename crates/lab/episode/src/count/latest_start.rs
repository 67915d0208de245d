//! The default: for every valid end of a prefix only the latest start of such a chain.
//!
//! Let a *k-chain* be events that match the first k symbols with every delay in its interval. Of all
//! k-chains that end in one event only the one that starts last can matter, because any set of
//! non-overlapped occurrences stays one when an occurrence is replaced by another that ends in the
//! same event and starts later. Call that start L_k(event). L_k does not decrease from one valid end
//! to the next, so the best predecessor of an event at t is simply the last valid end before
//! t − low, and it serves if it is not before t − high: one merge of two sorted lists a symbol
//! (`extend`), linear in their lengths at worst. The result is sorted by end and by start at once,
//! so the greedy choice (take an occurrence when it starts after the last one taken ended) is one
//! more scan, and is optimal because occurrences come in the order of their ends.
//!
//! Threads share the patterns in runs with common prefixes; when there are fewer runs than threads
//! they share the time as well: a part begins early enough to see every chain that ends in it, lists
//! its occurrences, and one greedy scan runs over the parts' lists in order, which is exact.

use rayon::prelude::*;

use super::extend::Ends;
use super::greedy::GreedyChoice;
use super::trie::common_prefix;
use super::walk::{TILE, Walk, WalkOutput};
use super::{CountJob, PatternProgress, Strategy};
use crate::events::Events;
use crate::pattern::Pattern;
use betz_base::error::Result;
use betz_base::progress::{self, Progress};

/// At most so many patterns walk together: their state stays in the cache.
const RUN: usize = 4096;

/// Exact, linear, and the fastest on every input measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct LatestStart;

impl Strategy for LatestStart {
    fn name(&self) -> &'static str {
        "latest-start"
    }

    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        job.check()?;
        let order = Pattern::prefix_order(job.patterns);
        let threads = rayon::current_num_threads();
        let runs = runs(job.patterns, &order, threads);
        let parts = if runs.len() < threads {
            threads.div_ceil(runs.len().max(1))
        } else {
            1
        };
        let done = PatternProgress::new("counting", job);
        let counted: Vec<Vec<u64>> = runs
            .par_iter()
            .map(|run| {
                let patterns: Vec<&Pattern> = run.iter().map(|&i| &job.patterns[i]).collect();
                let counts = if parts == 1 {
                    count_run(job.events, &patterns, job.progress)?
                } else {
                    count_run_in_parts(job.events, &patterns, parts, job.progress)?
                };
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
}

/// Cuts the sorted patterns into runs for the threads, between neighbours that share the least.
pub(super) fn runs<'a>(
    patterns: &[Pattern],
    order: &'a [usize],
    threads: usize,
) -> Vec<&'a [usize]> {
    // Four runs a thread even out their lengths.
    let size = order.len().div_ceil(threads * 4).clamp(1, RUN);
    let shared = |i: usize| common_prefix(&patterns[order[i - 1]], &patterns[order[i]]);
    let mut runs = Vec::new();
    let mut rest = 0;
    while rest < order.len() {
        let earliest = rest + size.div_ceil(2).max(1);
        let latest = (rest + size + size / 2).max(earliest);
        let cut = if latest >= order.len() {
            order.len()
        } else {
            (earliest..=latest)
                .min_by_key(|&i| (shared(i), i.abs_diff(rest + size)))
                .unwrap_or(latest)
        };
        runs.push(&order[rest..cut]);
        rest = cut;
    }
    runs
}

/// Counts patterns sorted by prefix over all events, on this thread.
pub(super) fn count_run(
    events: &Events,
    patterns: &[&Pattern],
    progress: &dyn Progress,
) -> Result<Vec<u64>> {
    let mut walk = Walk::new(
        events,
        patterns,
        WalkOutput::Counts,
        i64::MIN,
        i64::MAX,
        TILE,
    );
    while walk.advance() {
        progress::check(progress, "counting")?;
    }
    Ok(walk.counts())
}

/// The same with the time cut in `parts`, each on a thread of its own.
fn count_run_in_parts(
    events: &Events,
    patterns: &[&Pattern],
    parts: usize,
    progress: &dyn Progress,
) -> Result<Vec<u64>> {
    let cuts: Vec<i64> = (1..parts)
        .map(|i| events.unpack(events.stream()[i * events.len() / parts]).0)
        .collect();
    let lists: Vec<Vec<Ends>> = (0..parts)
        .into_par_iter()
        .map(|i| {
            let from = if i == 0 { i64::MIN } else { cuts[i - 1] };
            let to = cuts.get(i).copied().unwrap_or(i64::MAX);
            let mut walk = Walk::new(events, patterns, WalkOutput::Occurrences, from, to, TILE);
            while walk.advance() {
                progress::check(progress, "counting")?;
            }
            Ok(walk.occurrences())
        })
        .collect::<Result<_>>()?;
    Ok((0..patterns.len())
        .into_par_iter()
        .map(|p| {
            let mut taken = GreedyChoice::default();
            for part in &lists {
                taken.extend(&part[p].ends, &part[p].starts);
            }
            taken.count
        })
        .collect())
}
