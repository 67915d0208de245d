//! Integer ticks and seconds.

use betz_base::error::{Error, Result};

/// Ticks are kept below this, so that a tick plus or minus an interval never overflows.
pub(crate) const MAX_TICK: i64 = 1 << 61;

/// A number of ticks per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    per_second: f64,
}

impl Clock {
    /// A clock whose tick lasts `tick_seconds`.
    ///
    /// When 1 / `tick_seconds` is a whole number up to rounding (30 kHz, 10 µs), that whole number
    /// is kept, so that seconds come out as their shortest decimals.
    ///
    /// # Errors
    /// `InvalidArgument` unless `tick_seconds` is finite and positive.
    ///
    /// ```
    /// # fn main() -> betz_base::Result<()> {
    /// let clock = betz_episode::Clock::from_tick_seconds(1.0 / 30_000.0)?; // a 30 kHz acquisition
    /// assert_eq!(clock.tick_seconds(), 1.0 / 30_000.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_tick_seconds(tick_seconds: f64) -> Result<Self> {
        if !(tick_seconds.is_finite() && tick_seconds > 0.0) {
            return Err(Error::argument(format!(
                "length of a tick: expected a finite number of seconds above 0, got {tick_seconds}"
            )));
        }
        let rate = 1.0 / tick_seconds;
        let whole = rate.round();
        let near = whole >= 1.0 && ((rate - whole) / whole).abs() < 1e-9;
        Ok(Self {
            per_second: if near { whole } else { rate },
        })
    }

    /// A clock with a whole number of ticks in a second.
    pub(crate) const fn per_second(ticks: u64) -> Self {
        Self {
            per_second: ticks as f64,
        }
    }

    /// Length of one tick in seconds.
    pub fn tick_seconds(&self) -> f64 {
        1.0 / self.per_second
    }

    /// `ticks` in seconds.
    pub fn seconds(&self, ticks: i64) -> f64 {
        ticks as f64 / self.per_second
    }

    /// The tick nearest to `seconds`; a tick beyond ±2⁶¹ if `seconds` is not finite or too far away.
    pub fn nearest(&self, seconds: f64) -> i64 {
        let exact = (seconds * self.per_second).round();
        // NaN is neither; a cast of what is too far gives the ends of `i64`.
        if exact.is_nan() {
            i64::MAX
        } else {
            exact as i64
        }
    }

    /// The largest whole number of ticks that is at most `seconds`.
    ///
    /// For whole ticks Δ, `Δ·tick > seconds` is the same as `Δ > ticks_floor(seconds)`, and likewise
    /// for `≤`: both bounds of (low, high] are converted so, without loss. A value within rounding
    /// of a whole tick is that tick.
    ///
    /// # Errors
    /// `InvalidArgument` when `seconds` is not finite, or is too long for the clock.
    pub fn ticks_floor(&self, seconds: f64) -> Result<i64> {
        let exact = seconds * self.per_second;
        if !exact.is_finite() || exact.abs() >= MAX_TICK as f64 {
            return Err(Error::argument(format!(
                "expected seconds that ticks of {} s can express, got {seconds} s",
                self.tick_seconds()
            )));
        }
        let near = exact.round();
        let tolerance = 1e-6_f64.max(exact.abs() * 4.0 * f64::EPSILON);
        let ticks = if (exact - near).abs() <= tolerance {
            near
        } else {
            exact.floor()
        };
        Ok(ticks as i64)
    }
}
