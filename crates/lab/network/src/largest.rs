//! The largest value among all pairs and windows, for one surrogate after the other.
//!
//! A device finds values above a threshold, so it is given one that few pairs reach: a little below the least maximum
//! so far, in Fisher's z, and lower if no pair reached it. If z is normally distributed over N pairs and windows, about
//! N^(1 − s²) values lie above s times the maximum's z.

use betz_base::{Progress, Result};
use betz_device::Device;

use crate::cuda::limits;
use crate::plan::Plan;
use crate::signal::Signal;
use crate::spec::{Measure, NetworkSpec, Sign, Threshold};

/// Fisher's z of the first threshold: r is 1 − 10⁻⁶.
const MOST_Z: f64 = 7.25;
/// The part of the least maximum at which the search goes on with the next signal.
const NEXT: f64 = 0.95;
/// The part of a threshold that the next one is, when no pair reached it.
const LOWER: f64 = 0.8;
/// Below this the CPU searches: a threshold would keep too many pairs.
const LEAST_Z: f64 = 0.02;

/// Slots of the device's edge buffer: few pairs reach the threshold.
const SLOTS: usize = 1 << 20;

/// The search for the largest value of signals of one shape.
pub(crate) struct LargestValue {
    sign: Sign,
    /// The largest value of each window, on the CPU.
    top: Plan,
    /// Values that reach a threshold, on a device.
    reaching: Option<Plan>,
    /// Fisher's z where the search on the device begins.
    begin: f64,
}

impl LargestValue {
    /// Plans for `count` signals of the shape of `signal`, on `device` where that is expected to be faster.
    ///
    /// # Errors
    /// The errors of [`Plan::new`] and [`Plan::on`].
    pub(crate) fn new(
        device: &Device,
        spec: &NetworkSpec,
        signal: &Signal<'_>,
        count: usize,
    ) -> Result<Self> {
        let reaching = spec.threshold(Threshold::Absolute(1.0));
        let is_correlation = matches!(
            spec.measure,
            Measure::Pearson | Measure::Spearman | Measure::Kendall
        );
        let mut reaching = match is_correlation && limits::can(&reaching, signal.nodes()).is_ok() {
            true => Some(Plan::new(&reaching, signal)?.on_for(device, count as f64)?),
            false => None,
        };
        if let Some(plan) = &mut reaching {
            plan.limits.slots = SLOTS;
        }
        Ok(Self {
            sign: spec.sign,
            top: Plan::new(&spec.threshold(Threshold::Top(1)), signal)?,
            reaching: reaching.filter(|plan| !plan.placement().is_cpu()),
            begin: MOST_Z,
        })
    }

    /// The plan of the CPU, for what no device does.
    pub(crate) fn on_cpu(&self) -> &Plan {
        &self.top
    }

    /// The largest value of `signal`; 0 if no pair has one.
    ///
    /// # Errors
    /// The errors of [`Plan::stream`].
    pub(crate) fn of(&mut self, signal: &Signal<'_>, progress: &dyn Progress) -> Result<f64> {
        let Some(reaching) = &self.reaching else {
            return largest(&self.top, self.sign, signal, progress);
        };
        let mut z = self.begin;
        while z > LEAST_Z {
            let threshold = Threshold::Absolute(z.tanh());
            let plan = reaching.clone().with_threshold(threshold, false)?;
            let most = largest(&plan, self.sign, signal, progress)?;
            if most > 0.0 {
                self.begin = self.begin.min(NEXT * most.atanh());
                return Ok(most);
            }
            z *= LOWER;
        }
        largest(&self.top, self.sign, signal, progress)
    }
}

/// The largest value that `plan` keeps; 0 if it keeps none.
fn largest(plan: &Plan, sign: Sign, signal: &Signal<'_>, progress: &dyn Progress) -> Result<f64> {
    let mut most = 0.0_f64;
    plan.stream(signal, progress, |window| {
        let sizes = window.r.iter().map(|r| sign.size(f64::from(*r)));
        most = sizes.fold(most, f64::max);
        Ok(())
    })?;
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Window, cases};

    /// The descent finds what the largest value of every window gives, from above, from a maximum before, and from below.
    #[test]
    fn a_descent_of_thresholds_ends_at_the_largest_value() {
        for case in cases::all() {
            let signal = case.signal();
            if signal.nodes() < 2 {
                continue;
            }
            for measure in [Measure::Pearson, Measure::Spearman, Measure::Kendall] {
                for sign in [Sign::Both, Sign::Positive, Sign::Negative] {
                    let window = Window::new(20.min(signal.samples()), 5);
                    let mut spec = NetworkSpec::new(measure, window);
                    spec.sign = sign;
                    let Ok(top) = Plan::new(&spec.threshold(Threshold::Top(1)), &signal) else {
                        continue;
                    };
                    let reaching = spec.threshold(Threshold::Absolute(1.0));
                    let expected = largest(&top, sign, &signal, &()).unwrap();
                    for begin in [MOST_Z, 1.0, 0.1] {
                        let mut search = LargestValue {
                            sign,
                            top: top.clone(),
                            reaching: Some(Plan::new(&reaching, &signal).unwrap()),
                            begin,
                        };
                        for _ in 0..2 {
                            let found = search.of(&signal, &()).unwrap();
                            // Sums in two orders: a step of f32 apart.
                            let off = (found - expected).abs();
                            assert!(
                                off < 1e-6,
                                "{}, {measure:?}, {sign:?}: {found}, {expected}",
                                case.name
                            );
                        }
                        assert!(search.begin <= begin);
                    }
                }
            }
        }
    }
}
