//! The session's end of a live network: a tap that puts every step into a ring.

use betz_runtime::stream::{Input, Step, StepWriter, Tap};

/// The feeding thread's end of a live network: a session's [`Tap`], or whoever counts. Nothing here
/// blocks, allocates, locks or calls the system: a step is a bounded number of instructions (wait-free). When
/// the ring is full a step is left out whole and counted, and the network begins anew behind it.
#[derive(Debug)]
pub struct LiveFeed {
    ring: StepWriter,
}

impl LiveFeed {
    pub(super) fn new(ring: StepWriter) -> Self {
        Self { ring }
    }

    /// Hands over a step's spikes, an entry per spike as
    /// [`Session::step_spikes`](betz_runtime::stream::Session::step_spikes) takes them; false when there is
    /// no room.
    pub fn push_spikes(&mut self, tick: i64, channels: &[u32]) -> bool {
        self.ring.push_input(tick, Input::Spikes(channels))
    }

    /// Hands over a step's counts, one per channel; false when there is no room.
    pub fn push_counts(&mut self, tick: i64, counts: &[u16]) -> bool {
        self.ring.push_input(tick, Input::Counts(counts))
    }

    /// Number of steps that have found no room. Exact.
    pub fn lost(&self) -> u64 {
        self.ring.lost()
    }
}

impl Tap for LiveFeed {
    fn take(&mut self, step: &Step<'_>) {
        self.ring.push(step);
    }

    fn rest(&mut self) {
        self.ring.rest();
    }

    fn name(&self) -> &'static str {
        "network"
    }
}
