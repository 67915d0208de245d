//! Total frequency: the least head frequency of all contiguous parts.
//!
//! A part that ends before an episode's last symbol is a part of its prefix. So one more symbol adds the parts that end in
//! it, which are followed back from it: for each event that starts a chain, the earliest end.

use super::{StateMachine, distinct_ticks};
use crate::events::Events;
use crate::pattern::Interval;

/// A prefix, and the least head frequency of its parts.
pub(super) struct Prefix {
    symbols: Vec<u32>,
    intervals: Vec<Interval>,
    total: u64,
}

/// A chain that matches a part.
struct Chain {
    start: i64,
    /// The earliest end of such a chain.
    end: i64,
}

/// Total frequency of occurrences of at most so many ticks.
pub(super) struct TotalFrequency {
    span: i64,
}

impl TotalFrequency {
    pub(super) fn new(span: Option<i64>) -> Self {
        Self {
            span: span.unwrap_or(i64::MAX),
        }
    }

    /// The chains with `symbol` before their first one. Those of more than `span` ticks are dropped: whatever leads to
    /// them is longer.
    fn precede(
        &self,
        events: &Events,
        symbol: u32,
        interval: Interval,
        chains: &[Chain],
    ) -> Vec<Chain> {
        let mut longer = Vec::new();
        // The earliest ends do not decrease from one start to the next: the first chain that can follow ends first.
        let mut next = 0;
        for start in distinct_ticks(events, symbol) {
            while (chains.get(next)).is_some_and(|c| c.start - start <= interval.low) {
                next += 1;
            }
            let Some(chain) = chains.get(next) else {
                break;
            };
            if interval.contains(chain.start - start) && chain.end - start <= self.span {
                longer.push(Chain {
                    start,
                    end: chain.end,
                });
            }
        }
        longer
    }
}

impl StateMachine for TotalFrequency {
    type State = Prefix;

    fn begin(&self, events: &Events, symbol: u32) -> Prefix {
        Prefix {
            symbols: vec![symbol],
            intervals: Vec::new(),
            total: distinct_ticks(events, symbol).count() as u64,
        }
    }

    fn advance(&self, events: &Events, prefix: &Prefix, interval: Interval, symbol: u32) -> Prefix {
        let ticks = distinct_ticks(events, symbol);
        let mut chains: Vec<Chain> = ticks.map(|t| Chain { start: t, end: t }).collect();
        let mut total = prefix.total.min(chains.len() as u64);
        let intervals: Vec<Interval> = prefix.intervals.iter().copied().chain([interval]).collect();
        for (&symbol, &interval) in prefix.symbols.iter().zip(&intervals).rev() {
            if total == 0 {
                break;
            }
            chains = self.precede(events, symbol, interval, &chains);
            total = total.min(chains.len() as u64);
        }
        Prefix {
            symbols: prefix.symbols.iter().copied().chain([symbol]).collect(),
            intervals,
            total,
        }
    }

    fn count(&self, state: &Prefix) -> u64 {
        state.total
    }
}
