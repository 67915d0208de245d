//! The papers' two-pass elimination: a cheap upper bound first, the exact count for what is left.
//!
//! Feng et al., §1.3.2, Algorithms 4 (*PreElim*) and 5. Without the lower bounds one tick per symbol
//! is enough, so an event costs a comparison instead of a search. Episodes whose bound is below the
//! threshold are eliminated; without a threshold, those whose bound is 0.
//!
//! Mended: the proof given for the bound needs *no* lower bound at all. With the check 0 < Δ that
//! the observation states, a tied event can overwrite the only tick that serves, and the bound comes
//! out too low; the algorithm as printed, which checks Δ ≤ high alone, is a true upper bound on
//! streams with ties, and is what is done here. (Each occurrence of the optimal set begins after the
//! one before has ended; between those two instants the printed automaton completes at least once.)

use rayon::prelude::*;

use super::Hybrid;
use super::serial::places_by_symbol;
use betz_base::error::Result;
use betz_base::progress;
use betz_episode::count::{CountJob, PatternProgress, Strategy};
use betz_episode::{Events, Pattern};

/// An upper bound on every count, then [`Hybrid`] on those that reach the threshold.
#[derive(Debug, Clone, Copy, Default)]
pub struct TwoPass;

impl Strategy for TwoPass {
    fn name(&self) -> &'static str {
        "two-pass"
    }

    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        job.check()?;
        let done = PatternProgress::new("first pass", job);
        let mut counts: Vec<u64> = job
            .patterns
            .par_iter()
            .map(|pattern| {
                progress::check(job.progress, "counting")?;
                let bound = upper_bound(job.events, pattern);
                done.add(1);
                Ok(bound)
            })
            .collect::<Result<_>>()?;
        let threshold = job.threshold.unwrap_or(1);
        let left: Vec<usize> = (0..counts.len())
            .filter(|&i| counts[i] >= threshold)
            .collect();
        let patterns: Vec<Pattern> = left.iter().map(|&i| job.patterns[i].clone()).collect();
        let exact = Hybrid.count(&CountJob {
            patterns: &patterns,
            ..*job
        })?;
        for (i, count) in left.into_iter().zip(exact) {
            counts[i] = count;
        }
        Ok(counts)
    }
}

/// *PreElim*: at least the count of `pattern`.
pub(crate) fn upper_bound(events: &Events, pattern: &Pattern) -> u64 {
    const NEVER: i64 = i64::MIN / 2;
    let (heads, places) = places_by_symbol(pattern, events.symbols());
    let size = pattern.size();
    let highs: Vec<i64> = pattern.intervals().iter().map(|i| i.high).collect();
    let mut latest = vec![NEVER; size];
    let mut count = 0;
    for (tick, symbol) in events.iter() {
        let (from, to) = (heads[symbol as usize], heads[symbol as usize + 1]);
        for &place in &places[from as usize..to as usize] {
            let place = place as usize;
            if place > 0 && tick - latest[place - 1] > highs[place - 1] {
                continue;
            }
            if place + 1 == size {
                count += 1;
                latest.fill(NEVER);
                break;
            }
            latest[place] = tick;
        }
    }
    count
}
