//! All distinct occurrences: how many chains end in each event.

use super::{StateMachine, distinct_ticks};
use crate::events::Events;
use crate::pattern::Interval;

/// Ends of chains that match a prefix, in ascending order.
pub(super) struct EndCounts {
    ends: Vec<EndCount>,
}

struct EndCount {
    end: i64,
    /// Number of chains with this end, or `u64::MAX` if there are more.
    chains: u64,
}

/// All distinct occurrences.
pub(super) struct DistinctOccurrences;

impl StateMachine for DistinctOccurrences {
    type State = EndCounts;

    fn begin(&self, events: &Events, symbol: u32) -> EndCounts {
        let ticks = distinct_ticks(events, symbol);
        EndCounts {
            ends: ticks.map(|end| EndCount { end, chains: 1 }).collect(),
        }
    }

    fn advance(
        &self,
        events: &Events,
        prefix: &EndCounts,
        interval: Interval,
        symbol: u32,
    ) -> EndCounts {
        let ends = &prefix.ends;
        // The chains that an event can go on from are `from..to`. There are fewer than 2^32 events: the sum fits.
        let (mut from, mut to, mut sum) = (0, 0, 0_u128);
        let mut next = Vec::new();
        for end in distinct_ticks(events, symbol) {
            while let Some(chain) = ends.get(to).filter(|c| c.end < end - interval.low) {
                sum += u128::from(chain.chains);
                to += 1;
            }
            while let Some(chain) = ends[from..to]
                .first()
                .filter(|c| c.end < end - interval.high)
            {
                sum -= u128::from(chain.chains);
                from += 1;
            }
            if sum > 0 {
                next.push(EndCount {
                    end,
                    chains: u64::try_from(sum).unwrap_or(u64::MAX),
                });
            }
        }
        EndCounts { ends: next }
    }

    fn count(&self, state: &EndCounts) -> u64 {
        let chains = state.ends.iter().map(|end| end.chains);
        chains.fold(0, u64::saturating_add)
    }
}
