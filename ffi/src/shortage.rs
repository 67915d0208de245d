//! Whether memory has been short: blocks that came from the [reserve](crate::allocator) are counted, and a call
//! that promises a status compares the count at its end with the one at its beginning.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::failure::{Failure, Result};

/// Blocks that have come from the reserve, ever, in any thread.
static SHORTAGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// `SHORTAGES` when this thread's call began.
    static BEFORE: Cell<u64> = const { Cell::new(0) };
}

/// Whether memory has been short since this thread's call began.
pub(crate) struct Shortage;

impl Shortage {
    /// From here on counts.
    pub(crate) fn begin() {
        BEFORE.set(SHORTAGES.load(Ordering::Relaxed));
    }

    /// A block has come from the reserve. Called inside the allocator: allocates nothing.
    pub(crate) fn note() {
        SHORTAGES.fetch_add(1, Ordering::Relaxed);
    }

    /// Fails when a block has come from the reserve since: in this thread, in one that worked for it, or
    /// in another, which is as short.
    pub(crate) fn check() -> Result<()> {
        if SHORTAGES.load(Ordering::Relaxed) == BEFORE.get() {
            return Ok(());
        }
        Err(Failure::OutOfMemory)
    }
}
