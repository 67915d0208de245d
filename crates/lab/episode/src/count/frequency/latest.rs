//! Minimal occurrences and windows: both follow from the latest start of a chain for each of its ends.
//!
//! A stretch of time [s, e] is a minimal occurrence if s is the latest start of a chain that ends in e, and no earlier end
//! has this latest start: latest starts do not decrease from one end to the next (see [`LatestStart`](super::LatestStart)).
//! A window [t, t + w) holds an occurrence if it holds one that ends in some e and starts latest: e − w < t ≤ s.

use super::{StateMachine, distinct_ticks};
use crate::events::Events;
use crate::pattern::Interval;

/// Chains that match a prefix: ends in ascending order, and the latest start of each.
pub(super) struct LatestStarts {
    chains: Vec<Chain>,
}

struct Chain {
    start: i64,
    end: i64,
}

impl LatestStarts {
    /// Every event of the first symbol starts a chain and ends it.
    fn begin(events: &Events, symbol: u32) -> Self {
        let ticks = distinct_ticks(events, symbol);
        Self {
            chains: ticks.map(|t| Chain { start: t, end: t }).collect(),
        }
    }

    /// Chains with one more symbol, of at most `span` ticks. Those that are dropped are longer, and so is whatever goes on
    /// from them.
    fn advance(&self, events: &Events, interval: Interval, symbol: u32, span: i64) -> Self {
        let mut chains = Vec::new();
        // Number of chains that end early enough for an event.
        let mut before = 0;
        for end in distinct_ticks(events, symbol) {
            while (self.chains.get(before)).is_some_and(|c| c.end < end - interval.low) {
                before += 1;
            }
            let Some(chain) = before.checked_sub(1).map(|last| &self.chains[last]) else {
                continue;
            };
            if interval.contains(end - chain.end) && end - chain.start <= span {
                chains.push(Chain {
                    start: chain.start,
                    end,
                });
            }
        }
        Self { chains }
    }
}

/// Minimal occurrences of at most so many ticks.
pub(super) struct MinimalOccurrences {
    span: i64,
}

impl MinimalOccurrences {
    pub(super) fn new(span: Option<i64>) -> Self {
        Self {
            span: span.unwrap_or(i64::MAX),
        }
    }
}

impl StateMachine for MinimalOccurrences {
    type State = LatestStarts;

    fn begin(&self, events: &Events, symbol: u32) -> LatestStarts {
        LatestStarts::begin(events, symbol)
    }

    fn advance(
        &self,
        events: &Events,
        prefix: &LatestStarts,
        interval: Interval,
        symbol: u32,
    ) -> LatestStarts {
        prefix.advance(events, interval, symbol, self.span)
    }

    /// The number of different starts: the first end of each is the minimal one.
    fn count(&self, state: &LatestStarts) -> u64 {
        state.chains.chunk_by(|a, b| a.start == b.start).count() as u64
    }
}

/// Windows of so many ticks.
pub(super) struct SlidingWindows {
    pub(super) width: i64,
}

impl StateMachine for SlidingWindows {
    type State = LatestStarts;

    fn begin(&self, events: &Events, symbol: u32) -> LatestStarts {
        LatestStarts::begin(events, symbol)
    }

    fn advance(
        &self,
        events: &Events,
        prefix: &LatestStarts,
        interval: Interval,
        symbol: u32,
    ) -> LatestStarts {
        prefix.advance(events, interval, symbol, self.width - 1)
    }

    /// The number of ticks in the union of all (end − width, start].
    fn count(&self, state: &LatestStarts) -> u64 {
        let mut count = 0;
        let mut counted_to = i64::MIN;
        for chain in &state.chains {
            let after = counted_to.max(chain.end - self.width);
            count += (chain.start - after).max(0) as u64;
            counted_to = counted_to.max(chain.start);
        }
        count
    }
}
