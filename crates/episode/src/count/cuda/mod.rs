//! Counting on CUDA devices: a strategy a file, named as on the CPU, each with the kernels of that
//! name.
//!
//! ```text
//! Events ──► DeviceEvents (by symbol) ────► latest_start, local_tracking ────────────┐
//!       └──► DeviceStream (in time order) ─► serial, two_pass, map_concat, hybrid ───┼──► counts
//!            both ─────────────────────────► siblings (of latest_start, many at once) ┘
//! ```
//!
//! Surrogates of events that are there are made there (`surrogates`), in both orders.
//!
//! All are exact. Where a kernel keeps lists of a fixed length it says which episodes needed more,
//! and those are counted again with more.

mod episodes;
mod events;
mod hybrid;
mod latest_start;
mod local_tracking;
mod map_concat;
mod plan;
mod serial;
mod siblings;
#[cfg(test)]
mod strategy_tests;
mod stream;
mod surrogates;
#[cfg(test)]
mod tests;
mod two_pass;

use std::sync::{Arc, Mutex, PoisonError};

use betz_base::error::{Error, Result};
use betz_device::cuda::Context;

use super::{Compaction, CountJob};
use crate::{Events, Pattern};

pub use events::DeviceEvents;
use stream::DeviceStream;
pub(crate) use surrogates::{DeviceSurrogates, Moves};

/// Most events on one device: positions and their steps stay within 32 bits.
const MOST_EVENTS: usize = 1 << 30;

/// Bytes that one launch's lists should stay below, however much memory there is.
const LIST_BYTES: u64 = 1 << 30;

/// Most candidates that a device is given at once in so many events. What a launch keeps between stretches of
/// time no longer fits the device's cache where both are many: 43,656 at once in 10⁸ events took 73 s on an
/// H200, in pieces of 1,024 they take 5.4 s; in 5·10⁵ events pieces of 8,192 are the quickest.
pub(super) fn most_at_once(events: usize) -> usize {
    (100_000_000_000 / events.max(1)).clamp(1_024, 8_192)
}

/// A strategy that has kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernels {
    LatestStart,
    Serial,
    TwoPass,
    LocalTracking(Compaction),
    MapConcat,
    Hybrid,
}

/// Events on one device, copied in the order that is first asked for.
pub(super) struct Resident {
    context: Arc<Context>,
    by_symbol: Slot<DeviceEvents>,
    in_time: Slot<DeviceStream>,
}

/// What has been copied, if it has.
type Slot<T> = Mutex<Option<Arc<T>>>;

impl Resident {
    /// No events yet, on the device of `context`.
    pub(super) fn new(context: &Arc<Context>) -> Self {
        Self {
            context: Arc::clone(context),
            by_symbol: Slot::default(),
            in_time: Slot::default(),
        }
    }

    fn by_symbol(&self, events: &Events) -> Result<Arc<DeviceEvents>> {
        get(&self.by_symbol, || {
            DeviceEvents::upload(&self.context, events)
        })
    }

    fn in_time(&self, events: &Events) -> Result<Arc<DeviceStream>> {
        get(&self.in_time, || {
            DeviceStream::upload(&self.context, events)
        })
    }

    /// Counts `job` by `kernels`. Every job has the same events.
    pub(super) fn count(&self, kernels: Kernels, job: &CountJob<'_>) -> Result<Vec<u64>> {
        let in_time = || self.in_time(job.events);
        match kernels {
            Kernels::LatestStart => {
                siblings::count(self.by_symbol(job.events)?.as_ref(), in_time, job)
            }
            Kernels::LocalTracking(compaction) => local_tracking::count(
                self.by_symbol(job.events)?.as_ref(),
                compaction,
                job,
                local_tracking::Limits::default(),
            ),
            Kernels::Serial => serial::count(in_time()?.as_ref(), job, serial::CAPACITY),
            Kernels::TwoPass => two_pass::count(in_time()?.as_ref(), job),
            Kernels::MapConcat => {
                let shape = map_concat::SegmentCut::default();
                map_concat::count(in_time()?.as_ref(), job, shape).map(|done| done.counts)
            }
            Kernels::Hybrid => hybrid::count(in_time()?.as_ref(), job),
        }
    }
}

fn get<T>(slot: &Slot<T>, upload: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(there) = slot.as_ref() {
        return Ok(Arc::clone(there));
    }
    let there = Arc::new(upload()?);
    *slot = Some(Arc::clone(&there));
    Ok(there)
}

/// Bytes that an operation's lists may take now.
fn list_memory(context: &Context) -> Result<u64> {
    Ok(LIST_BYTES.min(context.available_memory()? / 4))
}

/// Refuses more events than positions of 32 bits allow.
fn check_number(events: &Events) -> Result<()> {
    if events.len() > MOST_EVENTS {
        return Err(Error::argument(format!(
            "{} events: expected at most {MOST_EVENTS} on a device",
            events.len()
        )));
    }
    Ok(())
}

/// Refuses episodes longer than the kernels take.
fn check_sizes(patterns: &[Pattern]) -> Result<()> {
    for (i, pattern) in patterns.iter().enumerate() {
        if pattern.size() > DeviceEvents::MAX_SIZE {
            return Err(Error::argument(format!(
                "episode {i} has {} symbols: expected at most {} on a device",
                pattern.size(),
                DeviceEvents::MAX_SIZE
            )));
        }
    }
    Ok(())
}
