//! Durations of steps, kept without allocation, lock or system call.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::Latency;
use betz_base::error::{Error, ErrorKind, Result};

/// A monotonic clock that costs little to read: the processor's time-stamp counter where it runs at
/// one rate for ever, [`Instant`] elsewhere.
///
/// A pair of readings around a step costs 20 ns with the counter and 49 ns with `Instant` (both
/// without a system call; see `benches/record/step.md`). The counter may be read a few instructions
/// early or late: a nanosecond or two.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    #[cfg(target_arch = "x86_64")]
    Counter {
        nanoseconds_per_count: f64,
    },
    Instant {
        origin: Instant,
    },
}

impl Clock {
    /// The best clock here. The first call in a process takes a millisecond to find the counter's
    /// rate.
    pub(super) fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(nanoseconds_per_count) = counter::nanoseconds_per_count() {
            return Self::Counter {
                nanoseconds_per_count,
            };
        }
        Self::Instant {
            origin: Instant::now(),
        }
    }

    /// Counts since some fixed moment.
    #[inline(always)]
    pub(super) fn now(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Counter { .. } => counter::read(),
            Self::Instant { origin } => origin.elapsed().as_nanos() as u64,
        }
    }

    fn nanoseconds_per_count(self) -> f64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Counter {
                nanoseconds_per_count,
            } => nanoseconds_per_count,
            Self::Instant { .. } => 1.0,
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc, CpuidResult};
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    #[inline(always)]
    #[allow(unsafe_code)]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and it touches no memory. Where an
        // operating system forbids it (prctl PR_SET_TSC) the process asked for that itself.
        unsafe { _rdtsc() }
    }

    /// The identification of the processor for `leaf`. Unsafe to call until Rust 1.94.
    #[allow(unsafe_code, unused_unsafe)]
    fn identify(leaf: u32) -> CpuidResult {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { __cpuid(leaf) }
    }

    /// `None` where the counter does not run at one rate through every power state.
    pub(super) fn nanoseconds_per_count() -> Option<f64> {
        static RATE: OnceLock<Option<f64>> = OnceLock::new();
        *RATE.get_or_init(|| {
            const POWER_LEAF: u32 = 0x8000_0007;
            let invariant =
                identify(0x8000_0000).eax >= POWER_LEAF && identify(POWER_LEAF).edx & (1 << 8) != 0;
            invariant
                .then(calibrate)
                .filter(|rate| (0.05..20.0).contains(rate))
        })
    }

    fn calibrate() -> f64 {
        // Both clocks read as one, as nearly as a few tries give.
        let both = || {
            (0..8)
                .map(|_| {
                    let before = read();
                    let instant = Instant::now();
                    let after = read();
                    (
                        after.wrapping_sub(before),
                        before.wrapping_add(after.wrapping_sub(before) / 2),
                        instant,
                    )
                })
                .min_by_key(|(width, ..)| *width)
                .map_or_else(
                    || (read(), Instant::now()),
                    |(_, count, instant)| (count, instant),
                )
        };
        let (count, instant) = both();
        while instant.elapsed() < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
        let (later_count, later) = both();
        later.duration_since(instant).as_nanos() as f64
            / later_count.wrapping_sub(count).max(1) as f64
    }
}

/// Times steps into a histogram of fixed size.
#[derive(Debug, Clone)]
pub(super) struct Timing {
    clock: Clock,
    /// Latencies in the clock's counts. Longer ones than it can tell count as the longest.
    histogram: Histogram<u64>,
    /// Exact, in the clock's counts: the histogram's own is rounded and capped.
    longest: u64,
    last: u64,
    total: u64,
    deadline: u64,
    misses: u64,
    /// Number of times that a step counts: 0 while suspended.
    weight: u64,
}

/// Figures of a [`Timing`] that is suspended.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimingFigures {
    longest: u64,
    last: u64,
    total: u64,
    misses: u64,
}

/// Longest latency that is told apart, in the clock's counts: minutes.
const LONGEST: u64 = 1 << 40;

impl Timing {
    /// Allocates the histogram, 36 kB.
    pub(super) fn new(deadline: Option<Duration>) -> Result<Self> {
        let clock = Clock::new();
        let histogram = Histogram::new_with_bounds(1, LONGEST, 2)
            .map_err(|e| Error::new(ErrorKind::Internal, format!("latency histogram: {e}")))?;
        Ok(Self {
            clock,
            histogram,
            longest: 0,
            last: 0,
            total: 0,
            deadline: deadline.map_or(u64::MAX, |d| {
                (d.as_nanos() as f64 / clock.nanoseconds_per_count()) as u64
            }),
            misses: 0,
            weight: 1,
        })
    }

    #[inline(always)]
    pub(super) fn start(&self) -> u64 {
        self.clock.now()
    }

    /// Duration of the last step in nanoseconds.
    #[inline(always)]
    pub(super) fn last_ns(&self) -> u32 {
        (self.last as f64 * self.clock.nanoseconds_per_count()) as u32
    }

    /// Duration of the slowest step in nanoseconds.
    pub(super) fn longest_ns(&self) -> u64 {
        (self.longest as f64 * self.clock.nanoseconds_per_count()) as u64
    }

    #[inline(always)]
    pub(super) fn stop(&mut self, start: u64) {
        // Saturating: counters of two sockets may differ by a little when the thread moves.
        let latency = self.clock.now().saturating_sub(start);
        self.histogram.saturating_record_n(latency, self.weight);
        self.last = latency;
        self.longest = self.longest.max(latency);
        self.total += latency;
        self.misses += u64::from(latency > self.deadline);
    }

    /// Steps until [`resume`](Self::resume) are timed and not counted.
    pub(super) fn suspend(&mut self) -> TimingFigures {
        self.weight = 0;
        TimingFigures {
            longest: self.longest,
            last: self.last,
            total: self.total,
            misses: self.misses,
        }
    }

    pub(super) fn resume(&mut self, figures: TimingFigures) {
        self.weight = 1;
        (self.longest, self.last) = (figures.longest, figures.last);
        (self.total, self.misses) = (figures.total, figures.misses);
    }

    pub(super) fn misses(&self) -> u64 {
        self.misses
    }

    pub(super) fn latency(&self) -> Latency {
        let steps = self.histogram.len();
        if steps == 0 {
            return Latency::default();
        }
        let microseconds = |counts: f64| counts * self.clock.nanoseconds_per_count() / 1e3;
        let quantile =
            |q| microseconds(self.histogram.value_at_quantile(q).min(self.longest) as f64);
        Latency {
            steps,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p99_9_us: quantile(0.999),
            max_us: microseconds(self.longest as f64),
            mean_us: microseconds(self.total as f64 / steps as f64),
        }
    }

    pub(super) fn clear(&mut self) {
        self.histogram.reset();
        (self.longest, self.last, self.total, self.misses) = (0, 0, 0, 0);
    }
}
