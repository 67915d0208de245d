//! Detection of memory shortage: blocks from the [reserve](crate::allocator) are counted, and a call that
//! promises a status compares the counts at its beginning and end.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::failure::{Failure, Result};

/// Total number of blocks taken from the reserve, by any thread.
static SHORTAGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Value of `SHORTAGES` when this thread's call began.
    static BEFORE: Cell<u64> = const { Cell::new(0) };
}

/// Detects memory shortage since the beginning of this thread's call.
pub(crate) struct Shortage;

impl Shortage {
    /// Starts the detection.
    pub(crate) fn begin() {
        BEFORE.set(SHORTAGES.load(Ordering::Relaxed));
    }

    /// Counts a block from the reserve. It is called inside the allocator and allocates nothing.
    pub(crate) fn note() {
        SHORTAGES.fetch_add(1, Ordering::Relaxed);
    }

    /// Fails if a block has come from the reserve since [`begin`](Self::begin): in this thread, in one that
    /// worked for it, or in any other thread, which is equally short of memory.
    pub(crate) fn check() -> Result<()> {
        if SHORTAGES.load(Ordering::Relaxed) == BEFORE.get() {
            return Ok(());
        }
        Err(Failure::OutOfMemory)
    }
}
