//! One bar for the training of several kinds.

use betz::Progress;

use crate::report::Bar;

/// Units that one kind has of the bar.
const UNITS: u64 = 1_000;

/// The share of one kind in the bar.
pub(super) struct Share<'a> {
    bar: &'a Bar,
    name: String,
    first: u64,
    total: u64,
}

impl<'a> Share<'a> {
    /// The share of kind number `place` of `kinds`.
    pub(super) fn new(bar: &'a Bar, kind: &str, place: usize, kinds: usize) -> Self {
        Self {
            bar,
            name: format!("{kind} ({} of {kinds})", place + 1),
            first: place as u64 * UNITS,
            total: kinds as u64 * UNITS,
        }
    }
}

impl Progress for Share<'_> {
    fn update(&self, _stage: &str, done: u64, total: u64) {
        let at = done.min(total) * UNITS / total.max(1);
        self.bar.update(&self.name, self.first + at, self.total);
    }

    fn cancelled(&self) -> bool {
        self.bar.cancelled()
    }
}
