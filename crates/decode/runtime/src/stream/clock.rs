//! The amplifier's clock: samples to ticks and back, set by one thread and read by another.

#[cfg(feature = "std")]
use super::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;

/// Relation between the samples of an amplifier and the ticks of a session: a sample at which a tick begins, and the
/// number of samples per tick.
///
/// ```
/// use betz_runtime::stream::SampleClock;
///
/// // 30 kHz and ticks of 1 ms; sample 600 is the first one of tick 0.
/// let clock = SampleClock::new(600, 0, 30.0)?;
/// assert_eq!((clock.tick_of(629), clock.tick_of(630)), (0, 1));
/// assert_eq!((clock.first_sample(1), clock.last_sample(1)), (630, 659));
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleClock {
    sample: i64,
    tick: i64,
    samples_per_tick: f64,
}

impl SampleClock {
    /// Most samples per tick.
    const MOST: f64 = 1e9;

    /// The clock in which `tick` begins at `sample`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) unless `samples_per_tick` is 1 to 10⁹.
    pub fn new(sample: i64, tick: i64, samples_per_tick: f64) -> betz_base::error::Result<Self> {
        if !(1.0..=Self::MOST).contains(&samples_per_tick) {
            return Err(betz_base::error::Error::argument(format!(
                "samples per tick: expected 1 to 1e9, got {samples_per_tick}"
            )));
        }
        Ok(Self {
            sample,
            tick,
            samples_per_tick,
        })
    }

    /// The tick that a sample belongs to.
    pub fn tick_of(&self, sample: i64) -> i64 {
        let passed = sample.saturating_sub(self.sample) as f64 / self.samples_per_tick;
        self.tick.saturating_add(passed.floor() as i64)
    }

    /// The first sample of a tick.
    pub fn first_sample(&self, tick: i64) -> i64 {
        let passed = tick.saturating_sub(self.tick) as f64 * self.samples_per_tick;
        let sample = self.sample.saturating_add(passed.ceil() as i64);
        // The quotient and the product may be rounded to different sides.
        let before = sample.saturating_sub(1);
        if self.tick_of(sample) < tick {
            sample.saturating_add(1)
        } else if self.tick_of(before) >= tick {
            before
        } else {
            sample
        }
    }

    /// The last sample of a tick.
    pub fn last_sample(&self, tick: i64) -> i64 {
        self.first_sample(tick.saturating_add(1)).saturating_sub(1)
    }

    #[cfg(feature = "std")]
    fn to_words(self) -> [u64; 3] {
        [
            self.sample as u64,
            self.tick as u64,
            self.samples_per_tick.to_bits(),
        ]
    }

    #[cfg(feature = "std")]
    fn from_words([sample, tick, samples_per_tick]: [u64; 3]) -> Self {
        Self {
            sample: sample as i64,
            tick: tick as i64,
            samples_per_tick: f64::from_bits(samples_per_tick),
        }
    }
}

/// The clock that the producer sets and the consumer reads. Neither waits for the other.
#[cfg(feature = "std")]
#[derive(Debug)]
pub(super) struct SharedClock {
    /// Odd while the producer writes; 0 before the first clock.
    sequence: AtomicU64,
    words: [AtomicU64; 3],
}

/// The consumer's copy of a [`SharedClock`].
#[cfg(feature = "std")]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClockCopy {
    sequence: u64,
    pub(super) clock: Option<SampleClock>,
}

#[cfg(feature = "std")]
impl SharedClock {
    pub(super) fn new() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            words: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Called by the producer alone.
    pub(super) fn set(&self, clock: SampleClock) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence
            .store(sequence.wrapping_add(1), Ordering::Relaxed);
        // A reader that sees one of the words also sees the odd number.
        fence(Ordering::Release);
        for (to, word) in self.words.iter().zip(clock.to_words()) {
            to.store(word, Ordering::Relaxed);
        }
        self.sequence
            .store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// Brings `copy` up to date. During a write it stays as it is: waiting for the producer could take forever if this
    /// thread keeps it from running.
    pub(super) fn refresh(&self, copy: &mut ClockCopy) {
        let before = self.sequence.load(Ordering::Acquire);
        if before == copy.sequence || before % 2 == 1 {
            return;
        }
        let [sample, tick, rate] = &self.words;
        let words = [sample, tick, rate].map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if self.sequence.load(Ordering::Relaxed) == before {
            *copy = ClockCopy {
                sequence: before,
                clock: Some(SampleClock::from_words(words)),
            };
        }
    }
}
