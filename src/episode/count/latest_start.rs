//! The default: for every valid end of a prefix only the latest start of such a chain.
//!
//! Let a *k-chain* be events that match the first k symbols with every delay in its interval. Of all
//! k-chains that end in one event only the one that starts last can matter, because any set of
//! non-overlapped occurrences stays one when an occurrence is replaced by another that ends in the
//! same event and starts later. Call that start L_k(event). L_k does not decrease from one valid end
//! to the next, so the best predecessor of an event at t is simply the last valid end before
//! t − low, and it serves if it is not before t − high. One merge of two sorted lists a symbol
//! ([`extend`](super::extend)), linear in their lengths; the result is sorted by end and by start at once, so the
//! greedy choice (take an occurrence when it starts after the last one taken ended) is one more
//! scan, and is optimal because the occurrences come in the order of their ends.

use rayon::prelude::*;

use super::extend::{Ends, extend, first_symbol};
use super::{CountJob, Strategy};
use crate::episode::{Events, Pattern};
use crate::error::Result;
use crate::progress;

/// Exact, linear, and the fastest on every input measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct LatestStart;

impl Strategy for LatestStart {
    fn name(&self) -> &'static str {
        "latest-start"
    }

    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        job.check()?;
        job.patterns
            .par_iter()
            .map_init(
                || (Ends::default(), Ends::default()),
                |(from, to), pattern| {
                    progress::check(job.progress, "counting")?;
                    Ok(count_one(job.events, pattern, from, to))
                },
            )
            .collect()
    }
}

fn count_one(events: &Events, pattern: &Pattern, from: &mut Ends, to: &mut Ends) -> u64 {
    let symbols = pattern.symbols();
    first_symbol(events.ticks_of(symbols[0]), from);
    for (interval, &symbol) in pattern.intervals().iter().zip(&symbols[1..]) {
        to.clear();
        extend(from, events.ticks_of(symbol), *interval, to);
        std::mem::swap(from, to);
    }
    let mut taken = Greedy::default();
    taken.push(from);
    taken.count
}

/// The greedy choice among occurrences in the order of their ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Greedy {
    pub(crate) count: u64,
    last_end: Option<i64>,
}

impl Greedy {
    pub(crate) fn push(&mut self, occurrences: &Ends) {
        let mut last = self.last_end.unwrap_or(i64::MIN);
        for (&end, &start) in occurrences.ends.iter().zip(&occurrences.starts) {
            if start > last {
                last = end;
                self.count += 1;
            }
        }
        self.last_end = Some(last);
    }
}
