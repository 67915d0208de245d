//! Counting given episodes: several exact strategies behind one trait.
//!
//! [`LatestStart`] is the one to use; the others are the published ones, kept so that the published
//! tables can be made again, and mended where what was printed is not exact (each file says where).

mod counter;
mod cuda;
mod dealing;
pub(crate) mod extend;
pub(crate) mod greedy;
mod growth;
mod hybrid;
mod latest_start;
mod local_tracking;
mod long;
mod map_concat;
mod on_device;
mod over_time;
mod serial;
mod shard;
mod shared;
pub(crate) mod siblings;
pub(crate) mod trie;
mod two_pass;
pub(crate) mod walk;

use betz_base::error::{Error, Result};
use betz_base::progress::Progress;
use betz_device::Ran;

use super::{Events, Pattern};

pub use counter::{Counter, InMemory};
pub use cuda::DeviceEvents;
pub(crate) use cuda::{DeviceSurrogates, Moves};
pub(crate) use dealing::{deal, on_each};
pub use growth::{Cluster, Growth, Share};
pub use hybrid::Hybrid;
pub use latest_start::LatestStart;
pub use local_tracking::{Compaction, LocalTracking};
pub(crate) use long::Counting;
pub use long::LongEvents;
pub use map_concat::MapConcat;
pub(crate) use on_device::{AUTO_WORK, count_at, count_placed, fits};
pub use on_device::{Counted, count_on, strategy_on};
pub use over_time::OverTime;
pub use serial::Serial;
pub use shard::{CountPart, Joined, PART_MAGIC, Passage, ShardEvents};
pub use shared::Shared;
pub use two_pass::TwoPass;

/// What to count, and how much of the answer is wanted.
#[derive(Clone, Copy)]
pub struct CountJob<'a> {
    /// Where to count.
    pub events: &'a Events,
    /// What to count. Fastest when patterns that share a prefix are near each other.
    pub patterns: &'a [Pattern],
    /// When given, only counts of at least this much must be right; a pattern that is below may be
    /// answered by any number below.
    pub threshold: Option<u64>,
    /// Told how many patterns are done; asked whether to go on.
    pub progress: &'a dyn Progress,
}

impl<'a> CountJob<'a> {
    /// All counts, without progress.
    pub fn new(events: &'a Events, patterns: &'a [Pattern]) -> Self {
        Self {
            events,
            patterns,
            threshold: None,
            progress: &(),
        }
    }

    /// Checks every pattern against the events.
    ///
    /// # Errors
    /// `Mismatch`, naming the pattern.
    pub fn check(&self) -> Result<()> {
        for pattern in self.patterns {
            pattern.check(self.events).map_err(|e| {
                e.at(format!(
                    "episode {}",
                    pattern.display(self.events.alphabet())
                ))
            })?;
        }
        Ok(())
    }
}

/// A way to count non-overlapped occurrences. All are exact.
pub trait Strategy: Send + Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// One count for each pattern, in order. Runs in rayon's current threads.
    ///
    /// # Errors
    /// `Mismatch` for a pattern that does not fit the events, `Interrupted` when the progress says
    /// so.
    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>>;

    /// Where the counts so far were made: on the CPU, the device, or both (`cpu and cuda:0`) when some
    /// calls were too small to gain on the device.
    fn ran(&self) -> Ran {
        Ran::on_cpu(self.name())
    }
}

/// The strategy that has `name`.
///
/// # Errors
/// `InvalidArgument`, listing the names there are.
pub fn strategy(name: &str) -> Result<Box<dyn Strategy>> {
    let all = strategies();
    let names: Vec<&str> = all.iter().map(|s| s.name()).collect();
    let known = names.join(", ");
    all.into_iter()
        .find(|s| s.name() == name)
        .ok_or_else(|| Error::argument(format!("no strategy {name:?}: expected one of {known}")))
}

/// Every strategy, the default first.
pub fn strategies() -> Vec<Box<dyn Strategy>> {
    let mut all: Vec<Box<dyn Strategy>> =
        vec![Box::new(LatestStart), Box::new(Serial), Box::new(TwoPass)];
    for compaction in Compaction::ALL {
        all.push(Box::new(LocalTracking { compaction }));
    }
    all.push(Box::new(MapConcat::default()));
    all.push(Box::new(Hybrid));
    all
}

/// Counts `patterns` in `events` with the default strategy.
///
/// # Errors
/// As [`Strategy::count`].
pub fn count(events: &Events, patterns: &[Pattern]) -> Result<Vec<u64>> {
    LatestStart.count(&CountJob::new(events, patterns))
}
