//! The formulas: one filter, and a bank of them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use betz_base::float;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;

use super::sampled::SampledFilter;
use betz_base::error::{Error, Result};

/// Largest order n of a filter.
pub const MAX_ORDER: u32 = 4;

/// One PSC filter h(t) = t^n e^(−t/τ), t ≥ 0.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Filter {
    /// Time constant τ in seconds; finite and positive.
    pub tau_seconds: f64,
    /// Order n, 0 to [`MAX_ORDER`].
    pub order: u32,
}

/// Largest dt/τ that is told apart from longer steps: e^(−40) is below the precision of f64.
const LONGEST_STEP_TAUS: f64 = 40.0;

/// Most samples that [`Filter::taps`] answers with.
const MOST_TAPS: f64 = 1e15;

impl Filter {
    /// r = e^(−dt/τ): what one step leaves of a response.
    ///
    /// A step of more than 40 τ counts as one of 40 τ. A step much longer than τ is allowed: the
    /// filter then hands on the counts of its own step (order 0) or of the step before (order 1
    /// and above, whose h\[0\] is zero).
    pub fn decay(&self, step_seconds: f64) -> f64 {
        float::exp(-self.step_taus(step_seconds))
    }

    /// −dt/τ, of which [`decay`](Self::decay) is the exponential; a step of more than 40 τ counts as one
    /// of 40 τ.
    pub(crate) fn log_decay(&self, step_seconds: f64) -> f64 {
        -self.step_taus(step_seconds)
    }

    /// The factor that gives m^n·r^m, m = 0, 1, …, a sum of one.
    ///
    /// Closed form: the sum is the polylogarithm Li₋ₙ(r) = r·Aₙ(r) / (1 − r)^(n+1) with the
    /// Eulerian polynomials Aₙ (order 0: 1 / (1 − r)).
    pub fn scale(&self, step_seconds: f64) -> f64 {
        let r = self.decay(step_seconds);
        let eulerian = match self.order {
            0 => return -float::exp_m1(-self.step_taus(step_seconds)),
            1 => 1.0,
            2 => 1.0 + r,
            3 => 1.0 + r * (4.0 + r),
            _ => 1.0 + r * (11.0 + r * (11.0 + r)),
        };
        let rest = -float::exp_m1(-self.step_taus(step_seconds));
        rest.powi(self.order as i32 + 1) / (r * eulerian)
    }

    /// h\[m\] = scale·m^n·r^m for m in `0..len`. Allocates the result.
    pub fn impulse(&self, step_seconds: f64, len: usize) -> Vec<f64> {
        let taus = self.step_taus(step_seconds);
        let scale = self.scale(step_seconds);
        (0..len)
            .map(|m| scale * (m as f64).powi(self.order as i32) * float::exp(-(m as f64) * taus))
            .collect()
    }

    /// Number of samples after which less than `tail` (of the sum of one) of the response is left;
    /// at most 10¹⁵, for a τ that no recording is as long as.
    pub fn taps(&self, step_seconds: f64, tail: f64) -> usize {
        let taus = self.step_taus(step_seconds);
        let (scale, order) = (self.scale(step_seconds), self.order as i32);
        // Beyond the peak the terms fall faster than a geometric series of their own last ratio.
        let mut m = (f64::from(self.order) / taus).ceil() + 1.0;
        // Bounded: with r rounded to one the ratio never falls below it.
        while m < MOST_TAPS {
            let ratio = ((m + 1.0) / m).powi(order) * float::exp(-taus);
            let term = scale * m.powi(order) * float::exp(-m * taus);
            if ratio < 1.0 && term / (1.0 - ratio) < tail {
                return m as usize;
            }
            m = (m * 1.02).ceil().max(m + 1.0);
        }
        MOST_TAPS as usize
    }

    fn step_taus(&self, step_seconds: f64) -> f64 {
        (step_seconds / self.tau_seconds).min(LONGEST_STEP_TAUS)
    }
}

/// Filters applied to every channel: recursive ones, then sampled ones. Features are ordered channel-major: feature
/// `channel * bank.len() + filter`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FilterBank {
    filters: Vec<Filter>,
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Vec::is_empty")
    )]
    sampled: Vec<SampledFilter>,
}

impl FilterBank {
    /// A bank of recursive `filters`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) when the bank is
    /// empty, a τ is not finite and positive, an order exceeds [`MAX_ORDER`], or a filter is there
    /// twice (its features would be equal and Γ singular).
    pub fn new(filters: Vec<Filter>) -> Result<Self> {
        Self::with_sampled(filters, Vec::new())
    }

    /// A bank of recursive `filters`, followed by `sampled` ones; either list may be empty.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new), for filters of either kind.
    pub fn with_sampled(filters: Vec<Filter>, sampled: Vec<SampledFilter>) -> Result<Self> {
        let bank = Self { filters, sampled };
        bank.check()?;
        Ok(bank)
    }

    /// A bank whose lists are still to be completed and checked.
    pub(crate) const fn unchecked(filters: Vec<Filter>, sampled: Vec<SampledFilter>) -> Self {
        Self { filters, sampled }
    }

    /// The promise of [`with_sampled`](Self::with_sampled), for banks that were decoded.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { filters, sampled } = self;
        if self.is_empty() {
            return Err(Error::argument(
                "filter bank: expected at least one filter, got none",
            ));
        }
        for (i, f) in filters.iter().enumerate() {
            if !(f.tau_seconds.is_finite() && f.tau_seconds > 0.0) {
                return Err(Error::argument(format!(
                    "filter {i}: expected a finite tau > 0 s, got {}",
                    f.tau_seconds
                )));
            }
            if f.order > MAX_ORDER {
                return Err(Error::argument(format!(
                    "filter {i}: expected an order of 0 to {MAX_ORDER}, got {}",
                    f.order
                )));
            }
            if filters[..i].contains(f) {
                return Err(Error::argument(format!(
                    "filter {i}: tau {} s, order {} is in the bank already",
                    f.tau_seconds, f.order
                )));
            }
        }
        for (i, f) in sampled.iter().enumerate() {
            f.check()?;
            let same = |other: &&SampledFilter| {
                (other.samples(), other.start()) == (f.samples(), f.start())
            };
            if let Some(earlier) = sampled[..i].iter().find(same) {
                return Err(Error::argument(format!(
                    "filter {}: its samples are in the bank already, as {}",
                    f.name(),
                    earlier.name()
                )));
            }
        }
        Ok(())
    }

    /// The bank of its first filter alone.
    #[must_use]
    pub fn first(&self) -> Self {
        let filters: Vec<Filter> = self.filters.iter().copied().take(1).collect();
        let sampled = self.sampled.iter().take(1 - filters.len()).cloned();
        Self {
            sampled: sampled.collect(),
            filters,
        }
    }

    /// Checks that the sampled filters are on steps of `step_seconds`.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::error::ErrorKind::Mismatch), naming the filter.
    pub fn check_step(&self, step_seconds: f64) -> Result<()> {
        self.sampled
            .iter()
            .try_for_each(|filter| filter.check_step(step_seconds))
    }

    /// The recursive filters, the first in feature order.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// The sampled filters, behind the recursive ones in feature order.
    pub fn sampled(&self) -> &[SampledFilter] {
        &self.sampled
    }

    /// Number of filters of both kinds.
    pub fn len(&self) -> usize {
        self.filters.len() + self.sampled.len()
    }

    /// Never true of a bank that [`new`](Self::new) made: it holds at least one filter.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Steps that the bank looks ahead; 0 if sessions can run it.
    pub fn ahead(&self) -> usize {
        self.sampled
            .iter()
            .map(SampledFilter::ahead)
            .max()
            .unwrap_or(0)
    }

    /// Multiply-adds of a step of one signal, filters stepped as in a session: a recursive filter's states, a sampled
    /// filter's samples.
    pub fn step_cost(&self) -> f64 {
        let states = self.filters.iter().map(|f| f64::from(f.order) + 1.0);
        let samples = self.sampled.iter().map(|f| f.samples().len() as f64);
        states.chain(samples).sum()
    }

    /// Time from a spike to the largest response of filter `filter`, in feature order; τ for order 0.
    pub fn peak_seconds(&self, filter: usize) -> f64 {
        if let Some(f) = self.filters.get(filter) {
            return f.tau_seconds * f64::from(f.order.max(1));
        }
        let sampled = self.sampled.get(filter - self.filters.len());
        sampled.map_or(f64::INFINITY, |f| {
            let samples = f.samples().iter().map(|h| h.abs()).enumerate();
            let peak = samples.max_by(|a, b| a.1.total_cmp(&b.1));
            let step = f.start() + peak.map_or(0, |(i, _)| i as i64);
            step.max(1) as f64 * f.step_seconds()
        })
    }

    /// Filter `filter`, in feature order, for messages.
    pub fn describe(&self, filter: usize) -> String {
        match self.filters.get(filter) {
            Some(f) => format!("tau {} s, order {}", f.tau_seconds, f.order),
            None => match self.sampled.get(filter - self.filters.len()) {
                Some(f) => String::from(f.name()),
                None => String::from("unknown"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_gives_a_unit_sum_and_taps_hold_it() {
        for order in 0..=MAX_ORDER {
            for step_taus in [1e-3, 0.0125, 0.3, 1.0, 5.0, 39.0, 41.0, 1e6] {
                let filter = Filter {
                    tau_seconds: 0.02,
                    order,
                };
                let step = filter.tau_seconds * step_taus;
                let taps = filter.taps(step, 1e-13);
                let sum: f64 = filter.impulse(step, taps).iter().sum();
                assert!((sum - 1.0).abs() < 1e-11, "{order} {step_taus}: {sum}");
            }
        }
    }

    #[test]
    fn impulse_is_the_papers_formula() {
        let filter = Filter {
            tau_seconds: 0.01,
            order: 3,
        };
        let impulse = filter.impulse(0.002, 50);
        let plain: Vec<f64> = (0..50)
            .map(|m| (m as f64 * 0.002).powi(3) * (-(m as f64) * 0.002 / 0.01).exp())
            .collect();
        for (h, p) in impulse.iter().zip(&plain) {
            assert!((h * plain[20] - p * impulse[20]).abs() < 1e-13 * plain[15]);
        }
    }

    #[test]
    fn a_step_far_longer_than_tau_hands_on_the_counts() {
        for order in 0..=MAX_ORDER {
            let filter = Filter {
                tau_seconds: 1e-5,
                order,
            };
            let impulse = filter.impulse(1.0, 4);
            let at = usize::from(order > 0);
            for (m, h) in impulse.iter().enumerate() {
                assert!((h - f64::from(u8::from(m == at))).abs() < 1e-14);
            }
        }
    }
}
