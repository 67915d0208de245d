//! Counting on CUDA devices.
//!
//! ```text
//! Events ──► DeviceEvents (by symbol) ─────► latest_start ───────────────────────────┐
//!       └──► DeviceStream (in time order) ─► siblings (of latest_start, many at once) ┴──► counts
//! ```
//!
//! Surrogates of events that are there are made there (`surrogates`), in both orders.
//!
//! All are exact. If a kernel's lists, which have a fixed length, are too short for some episodes, those episodes are
//! counted again with longer lists.

mod events;
mod latest_start;
mod plan;
mod resident;
mod siblings;
mod stream;
mod surrogates;
#[cfg(test)]
mod tests;

use betz_base::error::{Error, Result};
use betz_device::cuda::Context;

use crate::events::Events;
use crate::pattern::Pattern;

pub use events::{DeviceEvents, EventLayout, Ticks, TicksOf};
pub use resident::ResidentEvents;
pub use stream::DeviceStream;
pub(crate) use surrogates::{DeviceSurrogates, Moves};

/// Most events on one device: positions and their steps stay within 32 bits.
const MOST_EVENTS: usize = 1 << 30;

/// Bytes that one launch's lists should stay below, for any amount of memory.
const LIST_BYTES: u64 = 1 << 30;

/// Most candidates that a device is given at once in so many events. The state that a launch keeps between pieces of
/// time no longer fits the device's cache if both are many: 43,656 at once in 10⁸ events took 73 s on an
/// H200, in pieces of 1,024 they take 5.4 s; in 5·10⁵ events pieces of 8,192 are the quickest.
pub(super) fn most_at_once(events: usize) -> usize {
    (100_000_000_000 / events.max(1)).clamp(1_024, 8_192)
}

/// Bytes that an operation's lists may take now.
///
/// # Errors
/// `DeviceFailure`.
pub fn list_memory(context: &Context) -> Result<u64> {
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
///
/// # Errors
/// `InvalidArgument`, with the episode's index.
pub fn check_sizes(patterns: &[Pattern]) -> Result<()> {
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
