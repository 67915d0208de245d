//! Counting given episodes: the strategy [`LatestStart`] behind a trait that others share.
//!
//! The published strategies, kept so that the published tables can be made again, are a crate of their own:
//! betz-episode-published.

mod counter;
mod cuda;
mod dealing;
mod device_strategy;
mod extend;
mod frequency;
mod greedy;
mod job;
mod latest_start;
mod long;
mod over_time;
mod passage;
mod shard;
mod shared;
mod siblings;
#[cfg(test)]
mod tests;
mod trie;
mod walk;

use betz_base::error::Result;

use crate::events::Events;
use crate::pattern::Pattern;

pub use counter::{Counter, InMemory};
pub(crate) use cuda::{DeviceSurrogates, Moves};
pub(crate) use dealing::{PieceSizes, deal, on_each};
pub use device_strategy::latest_start_on;
pub(crate) use device_strategy::{AUTO_WORK, count_on_device, count_on_devices, fits_device};
pub(crate) use extend::{Chains, Ends, Followers, extend};
pub(crate) use greedy::GreedyChoice;
pub use job::{CountJob, PatternProgress, Strategy};
pub use latest_start::LatestStart;
pub(crate) use long::ChunkedCount;
pub use long::LongEvents;
pub use over_time::OverTime;
pub use passage::Passage;
pub use shard::{CountPart, JoinedCounts, PART_MAGIC, ShardEvents};
pub use shared::TeamStrategy;
pub(crate) use trie::Trie;

/// Events on devices, for strategies that have kernels.
pub mod device {
    pub use super::cuda::{
        DeviceEvents, DeviceStream, EventLayout, ResidentEvents, Ticks, TicksOf, check_sizes,
        list_memory,
    };
    pub use super::device_strategy::{DeviceKernels, DeviceStrategy};
}

/// Counts `patterns` in `events` with the default strategy.
///
/// # Errors
/// As [`Strategy::count`].
pub fn count(events: &Events, patterns: &[Pattern]) -> Result<Vec<u64>> {
    LatestStart.count(&CountJob::new(events, patterns))
}
