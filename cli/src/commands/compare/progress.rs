//! One bar for the training of several kinds.

use std::sync::atomic::{AtomicU64, Ordering};

use betz::Progress;

use crate::report::Bar;

/// Units that one kind has of the bar.
const UNITS: u64 = 1_000;

/// The share of one kind in the bar. A kind has several stages, whose number it does not tell: each takes half of what is
/// left of the share, so that the bar never goes back.
pub(super) struct Share<'a> {
    bar: &'a Bar,
    name: String,
    first: u64,
    total: u64,
    /// Start of the current stage and where the bar stands, in units of the share.
    begun: AtomicU64,
    shown: AtomicU64,
    /// Hash of the current stage's name.
    stage: AtomicU64,
}

impl<'a> Share<'a> {
    /// The share of kind number `place` of `kinds`.
    pub(super) fn new(bar: &'a Bar, kind: &str, place: usize, kinds: usize) -> Self {
        Self {
            bar,
            name: format!("{kind} ({} of {kinds})", place + 1),
            first: place as u64 * UNITS,
            total: kinds as u64 * UNITS,
            begun: AtomicU64::new(0),
            shown: AtomicU64::new(0),
            stage: AtomicU64::new(0),
        }
    }
}

impl Progress for Share<'_> {
    fn update(&self, stage: &str, done: u64, total: u64) {
        let mut hash = betz::hash::Fnv1a::new();
        hash.bytes(stage.as_bytes());
        let hash = hash.finish();
        if self.stage.swap(hash, Ordering::Relaxed) != hash {
            self.begun
                .store(self.shown.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let begun = self.begun.load(Ordering::Relaxed);
        let share = done.min(total) as f64 / total.max(1) as f64;
        let at = begun + (0.5 * share * (UNITS - begun) as f64) as u64;
        let at = self.shown.fetch_max(at, Ordering::Relaxed).max(at);
        self.bar.update(&self.name, self.first + at, self.total);
    }

    fn cancelled(&self) -> bool {
        self.bar.cancelled()
    }
}
