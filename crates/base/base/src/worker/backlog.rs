//! Counts shared by a feeder that never waits and the worker behind it.

use super::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts of a feeder and of the worker thread that takes what it pushes. The feeder alone writes
/// [`pushed`](Self::pushed) and [`lost`](Self::lost), the worker alone [`taken`](Self::taken).
#[derive(Debug)]
pub struct Backlog {
    pushed: AtomicU64,
    taken: AtomicU64,
    lost: AtomicU64,
    stop: AtomicBool,
}

impl Default for Backlog {
    // loom's atomics have no `Default`.
    fn default() -> Self {
        Self {
            pushed: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }
}

impl Backlog {
    /// Items that the feeder has pushed so far.
    pub fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Acquire)
    }

    /// Items that the worker has dealt with so far.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Items that found no room so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The feeder reports how many items it has pushed since the beginning. Wait-free.
    #[inline]
    pub fn set_pushed(&self, items: u64) {
        self.pushed.store(items, Ordering::Release);
    }

    /// The feeder reports how many items have found no room since the beginning. Wait-free.
    #[inline]
    pub fn set_lost(&self, items: u64) {
        self.lost.store(items, Ordering::Relaxed);
    }

    /// True once the worker is to end.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn set_taken(&self, items: u64) {
        self.taken.store(items, Ordering::Release);
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}
