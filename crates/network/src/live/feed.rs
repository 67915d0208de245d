//! The loop's end: a tap that hears the steps and puts what fired in line.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use betz_base::taker::Line;
use betz_runtime::stream::{Input, Step, Tap};
use ringbuf::HeapProd;
use ringbuf::traits::{Observer, Producer};

/// What the ring carries: a step, then what fired in it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Item {
    pub(super) tick: i64,
    /// A channel, [`STEP`], or [`STEP_AFTER_GAP`].
    pub(super) what: u32,
    /// How often it fired, an f32's bits; of a step, how many items belong to it.
    pub(super) value: u32,
}

/// A step begins.
pub(super) const STEP: u32 = u32::MAX;
/// A step begins, and those before it found no room or belong to another trial.
pub(super) const STEP_AFTER_GAP: u32 = u32::MAX - 1;

/// What both ends know.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Of items.
    pub(super) line: Arc<Line>,
    /// Steps put in line.
    pub(super) steps: AtomicU64,
    /// Steps that found no room.
    pub(super) lost: AtomicU64,
}

/// The feeding thread's end of a live network: a session's [`Tap`], or whoever counts. Nothing here
/// blocks, allocates, locks or calls the system: a step is a bounded number of instructions (wait-free). Where
/// the line is full a step is left out whole and counted, and the network begins anew behind it.
pub struct LiveFeed {
    ring: HeapProd<Item>,
    shared: Arc<Shared>,
    /// The next step that finds room comes behind a gap.
    gap: bool,
    pushed: u64,
    steps: u64,
    lost: u64,
}

impl LiveFeed {
    pub(super) fn new(ring: HeapProd<Item>, shared: Arc<Shared>) -> Self {
        Self {
            ring,
            shared,
            gap: false,
            pushed: 0,
            steps: 0,
            lost: 0,
        }
    }

    /// Hands over a step's spikes, an entry per spike as
    /// [`Session::step_spikes`](betz_runtime::stream::Session::step_spikes) takes them; false where there is
    /// no room.
    pub fn push_spikes(&mut self, tick: i64, channels: &[u32]) -> bool {
        let one = 1.0_f32.to_bits();
        // The two numbers that mark steps are no channels of a network.
        let entries = channels.iter().map(|&c| (c.min(STEP_AFTER_GAP - 1), one));
        self.push(tick, channels.len(), entries)
    }

    /// Hands over a step's counts, one per channel; false where there is no room.
    pub fn push_counts(&mut self, tick: i64, counts: &[u16]) -> bool {
        self.push(tick, fired(counts).count(), fired(counts))
    }

    /// Puts a step in line, whole or not at all.
    fn push(&mut self, tick: i64, n: usize, entries: impl Iterator<Item = (u32, u32)>) -> bool {
        if self.ring.vacant_len() <= n {
            self.gap = true;
            self.lost += 1;
            self.shared.lost.store(self.lost, Ordering::Relaxed);
            return false;
        }
        let begin = Item {
            tick,
            what: if self.gap { STEP_AFTER_GAP } else { STEP },
            // No more than the ring holds, 2²⁴.
            value: n as u32,
        };
        self.gap = false;
        let entries = entries.map(|(what, value)| Item { tick, what, value });
        self.pushed += self.ring.push_iter(std::iter::once(begin).chain(entries)) as u64;
        self.steps += 1;
        self.shared.steps.store(self.steps, Ordering::Relaxed);
        self.shared.line.pushed(self.pushed);
        true
    }

    /// Steps that found no room, ever. Exact.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// (channel, count's bits) of the channels that fired.
fn fired<T: Copy + Into<f32>>(counts: &[T]) -> impl Iterator<Item = (u32, u32)> {
    (0..)
        .zip(counts)
        .map(|(channel, &count)| (channel, count.into()))
        .filter(|(_, count)| *count != 0.0)
        .map(|(channel, count): (u32, f32)| (channel, count.to_bits()))
}

impl Tap for LiveFeed {
    fn take(&mut self, step: &Step<'_>) {
        let tick = step.tick;
        match step.input {
            Input::Spikes(channels) => self.push_spikes(tick, channels),
            Input::Counts(counts) => self.push_counts(tick, counts),
            Input::CountsU8(c) => self.push(tick, fired(c).count(), fired(c)),
            Input::CountsF32(c) => self.push(tick, fired(c).count(), fired(c)),
            // An input of a later version says nothing here.
            _ => self.push(tick, usize::MAX - 1, std::iter::empty()),
        };
    }

    fn rest(&mut self) {
        self.gap = true;
    }

    fn name(&self) -> &'static str {
        "network"
    }
}

impl fmt::Debug for LiveFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("LiveFeed").field("lost", &self.lost)).finish_non_exhaustive()
    }
}
