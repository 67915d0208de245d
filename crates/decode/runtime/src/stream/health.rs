//! A session's counters for other threads: a sequence lock that the stepping thread never waits for.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use super::{StepStatus, SwapState};

/// State that a session published after its last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// The tick of the last step, on the session's clock (the queue's, where it steps through one).
    pub tick: i64,
    /// Flags of the last step.
    pub status: StepStatus,
    /// Steps taken.
    pub ticks: u64,
    /// Ticks skipped.
    pub skipped: u64,
    /// Spikes taken.
    pub spikes: u64,
    /// Spikes of channels that the model does not have.
    pub unknown_channel_spikes: u64,
    /// Spikes lost before the session.
    pub dropped: u64,
    /// Spikes that came after their tick.
    pub late: u64,
    /// Spikes left out because they lay too far ahead.
    pub future: u64,
    /// Models that have taken over from another.
    pub model_swaps: u64,
    /// Steps that took longer than the deadline.
    pub deadline_misses: u64,
    /// Duration of the last step in nanoseconds; 0 when statistics are off.
    pub latency_ns: u64,
    /// Duration of the slowest step in nanoseconds.
    pub longest_ns: u64,
    /// Fingerprint of the model that gives the estimates.
    pub model: u64,
    /// State of the model swap.
    pub swap: SwapState,
    /// Spikes left out because their step had more than the configuration allows.
    pub capped: u64,
}

const WORDS: usize = 16;

impl Health {
    fn to_words(self) -> [u64; WORDS] {
        [
            self.tick as u64,
            u64::from(self.status.bits()),
            self.ticks,
            self.skipped,
            self.spikes,
            self.unknown_channel_spikes,
            self.dropped,
            self.late,
            self.future,
            self.model_swaps,
            self.deadline_misses,
            self.latency_ns,
            self.longest_ns,
            self.model,
            self.swap as u64,
            self.capped,
        ]
    }

    fn from_words(words: [u64; WORDS]) -> Self {
        let [
            tick,
            status,
            ticks,
            skipped,
            spikes,
            unknown_channel_spikes,
            dropped,
            late,
            future,
            model_swaps,
            deadline_misses,
            latency_ns,
            longest_ns,
            model,
            swap,
            capped,
        ] = words;
        Self {
            tick: tick as i64,
            status: StepStatus::from_bits(status as u32),
            ticks,
            skipped,
            spikes,
            unknown_channel_spikes,
            dropped,
            late,
            future,
            model_swaps,
            deadline_misses,
            latency_ns,
            longest_ns,
            model,
            swap: SwapState::from_phase(swap),
            capped,
        }
    }
}

/// Written by the stepping thread alone: the sequence is odd while it writes.
#[derive(Debug, Default)]
pub(super) struct HealthCell {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl HealthCell {
    /// A few nanoseconds; waits for nobody.
    #[inline]
    pub(super) fn write(&self, health: Health) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence
            .store(sequence.wrapping_add(1), Ordering::Relaxed);
        // The odd number is seen by whoever sees one of the words.
        fence(Ordering::Release);
        for (to, word) in self.words.iter().zip(health.to_words()) {
            to.store(word, Ordering::Relaxed);
        }
        // And whoever sees the even one sees all of them.
        self.sequence
            .store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// `None` where the writer was in the way.
    fn try_read(&self) -> Option<Health> {
        let before = self.sequence.load(Ordering::Acquire);
        let words = core::array::from_fn(|i| self.words[i].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let after = self.sequence.load(Ordering::Relaxed);
        (before == after && before.is_multiple_of(2)).then(|| Health::from_words(words))
    }
}

/// Reads a session's [`Health`] from any thread, without touching the stepping thread's work; clones read
/// the same session.
#[derive(Debug, Clone)]
pub struct HealthReader {
    pub(super) published: Arc<HealthCell>,
}

impl HealthReader {
    /// The newest state that the session published, all of one step. Tries again while the session is writing.
    pub fn read(&self) -> Health {
        loop {
            if let Some(health) = self.published.try_read() {
                return health;
            }
            core::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_whole_steps_that_never_go_back() {
        let published = Arc::new(HealthCell::default());
        let reader = HealthReader {
            published: Arc::clone(&published),
        };
        let writer = std::thread::spawn(move || {
            for i in 1..=20_000u64 {
                published.write(Health {
                    tick: i as i64,
                    ticks: i,
                    spikes: 3 * i,
                    model: !i,
                    swap: SwapState::WarmingUp,
                    ..Health::default()
                });
            }
        });
        let mut last = 0;
        while last < 20_000 {
            let health = reader.read();
            assert!(health.ticks >= last);
            last = health.ticks;
            if last > 0 {
                assert_eq!((health.tick, health.spikes), (last as i64, 3 * last));
                assert_eq!((health.model, health.swap), (!last, SwapState::WarmingUp));
            }
        }
        writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}
