//! Marks and drops: messages from the producer to the consumer besides the spikes.

use super::atomic::{AtomicI64, AtomicU64, Ordering};

/// Written by the producer alone.
///
/// A reader that sees a mark also sees every spike pushed before it, every drop counted before it, and a time
/// no older than the mark's.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Every spike up to this tick was pushed or dropped.
    marked: AtomicI64,
    /// Time of the last mark, in the queue's nanoseconds.
    marked_at: AtomicU64,
    dropped: AtomicU64,
}

/// One look at a [`Ledger`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// `None` before the first mark.
    pub(super) marked: Option<i64>,
    pub(super) marked_at: u64,
    pub(super) dropped: u64,
}

/// Ticks that a mark may go back by without being believed.
const LITTLE: i64 = 1000;

/// No tick: nothing was marked yet.
const NEVER: i64 = i64::MIN;

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            marked: AtomicI64::new(NEVER),
            marked_at: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Counts spikes that found no room. Visible at the latest with the next mark.
    pub(super) fn drop_spikes(&self, spikes: u64) {
        // One writer, so no read-modify-write is needed.
        let dropped = self.dropped.load(Ordering::Relaxed) + spikes;
        self.dropped.store(dropped, Ordering::Relaxed);
    }

    /// Says that everything up to `tick` was pushed or dropped. A tick that goes back a little only renews
    /// the time; one that goes back further is a clock that was set back, or mends a mark that was wrong.
    pub(super) fn mark(&self, tick: i64, now: u64) {
        let newest = self.marked.load(Ordering::Relaxed);
        let tick = match newest.saturating_sub(tick) {
            0..=LITTLE => newest,
            _ => tick,
        };
        self.marked_at.store(now, Ordering::Relaxed);
        // Releases the ring's writes too: they came before, in this thread.
        self.marked.store(tick, Ordering::Release);
    }

    pub(super) fn read(&self) -> Entry {
        let marked = self.marked.load(Ordering::Acquire);
        Entry {
            marked: (marked != NEVER).then_some(marked),
            marked_at: self.marked_at.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}
