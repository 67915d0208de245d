//! Filters of any shape, as samples of their impulse response.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use betz_base::error::{Error, Result};
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;

/// Most samples of a filter, and most steps between a spike and its first sample.
pub const MAX_SAMPLES: usize = 1 << 20;

/// A sum below this part of Σ|h| cannot be scaled to one: rounding alone would decide it.
const LEAST_SUM: f64 = 1e-6;

/// Steps that differ by less than this part of themselves are the same.
const SAME_STEP: f64 = 1e-9;

/// A filter of any shape: h\[start\], h\[start + 1\], … on steps of `step_seconds`; h is zero elsewhere.
///
/// The response at step t is Σ_m h\[m\]·x\[t − m\] over the steps of a segment. A filter whose `start` is below 0
/// looks ahead: it serves offline work, and sessions refuse it.
///
/// ```
/// use betz_runtime::psc::SampledFilter;
///
/// let filter = SampledFilter::new("ramp", vec![1.0, 2.0, 1.0], 0.001, 0)?.with_unit_sum()?;
/// assert_eq!(filter.samples(), [0.25, 0.5, 0.25]);
/// assert_eq!(filter.at(1), 0.5);
/// assert!(SampledFilter::new("silent", vec![0.0; 3], 0.001, 0).is_err());
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SampledFilter {
    name: String,
    /// Shared: every fold and chunk of a training copies its bank.
    #[cfg_attr(feature = "serde", serde(with = "shared"))]
    samples: Arc<[f64]>,
    step_seconds: f64,
    start: i64,
}

/// Samples behind an `Arc`, as serde sees them: a list.
#[cfg(feature = "serde")]
mod shared {
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(samples: &Arc<[f64]>, to: S) -> Result<S::Ok, S::Error> {
        samples.as_ref().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[f64]>, D::Error> {
        Vec::deserialize(from).map(Into::into)
    }
}

impl SampledFilter {
    /// A filter of `samples`, `step_seconds` apart, the first of which is `start` steps after a spike. `name` stands
    /// for it in messages. Zeros at both ends are dropped.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) for samples that are none, too
    /// many, not finite or all zero, a step that is not finite and positive, or a start too far away.
    pub fn new(
        name: impl Into<String>,
        samples: Vec<f64>,
        step_seconds: f64,
        start: i64,
    ) -> Result<Self> {
        let name = name.into();
        let refuse = |reason: String| Err(Error::argument(format!("filter {name}: {reason}")));
        if samples.is_empty() {
            return refuse(
                "expected at least one sample, got none; give its impulse response, one sample per step"
                    .into(),
            );
        }
        if let Some(i) = samples.iter().position(|h| !h.is_finite()) {
            return refuse(format!(
                "expected finite samples, got {} at sample {i}; give a number in its place",
                samples[i]
            ));
        }
        let used = |h: &f64| *h != 0.0;
        let (Some(first), Some(last)) = (
            samples.iter().position(used),
            samples.iter().rposition(used),
        ) else {
            return refuse(format!(
                "expected a sample other than 0, got {} zeros; give other values, or a shorter step if the filter is shorter than a step of {step_seconds} s",
                samples.len()
            ));
        };
        if last - first >= MAX_SAMPLES {
            return refuse(format!(
                "expected at most {MAX_SAMPLES} samples, got {}; use a longer step or a shorter filter",
                last - first + 1
            ));
        }
        let start = start.saturating_add(first as i64);
        let filter = Self {
            samples: samples[first..=last].into(),
            name,
            step_seconds,
            start,
        };
        filter.check()?;
        Ok(filter)
    }

    /// The promise of [`new`](Self::new), for filters that were read from a file.
    pub(super) fn check(&self) -> Result<()> {
        let refuse =
            |reason: String| Err(Error::argument(format!("filter {}: {reason}", self.name)));
        if !(self.step_seconds.is_finite() && self.step_seconds > 0.0) {
            return refuse(format!(
                "expected a finite step > 0 s, got {}",
                self.step_seconds
            ));
        }
        if self.start.unsigned_abs() > MAX_SAMPLES as u64 {
            return refuse(format!(
                "expected a first sample within {MAX_SAMPLES} steps of the spike, got {}",
                self.start
            ));
        }
        if self.samples.is_empty() || self.samples.len() > MAX_SAMPLES {
            return refuse(format!(
                "expected 1 to {MAX_SAMPLES} samples, got {}",
                self.samples.len()
            ));
        }
        if !self.samples.iter().all(|h| h.is_finite()) || self.samples.iter().all(|h| *h == 0.0) {
            return refuse("expected finite samples, one of them other than 0".into());
        }
        Ok(())
    }

    /// The same filter scaled to a sum of one, as the recursive filters are.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) if positive and negative samples
    /// cancel.
    pub fn with_unit_sum(mut self) -> Result<Self> {
        let sum: f64 = self.samples.iter().sum();
        let size: f64 = self.samples.iter().map(|h| h.abs()).sum();
        if !size.is_finite() {
            return Err(Error::argument(format!(
                "filter {}: expected samples with a finite sum, got {size}; give smaller samples",
                self.name
            )));
        }
        if sum.abs() < LEAST_SUM * size {
            return Err(Error::argument(format!(
                "filter {}: expected samples with a sum to scale to 1, got {sum:e}, because positive and negative ones cancel; keep the gain as it is (--keep-gain)",
                self.name
            )));
        }
        self.samples = self.samples.iter().map(|h| h / sum).collect();
        Ok(self)
    }

    /// The same filter `steps` steps later.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn shifted(mut self, steps: i64) -> Result<Self> {
        self.start = self.start.saturating_add(steps);
        self.check()?;
        Ok(self)
    }

    /// Name in messages: what it was made from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// h from its first sample to its last, neither of them zero.
    pub fn samples(&self) -> &[f64] {
        &self.samples
    }

    /// Distance of the samples in seconds.
    pub const fn step_seconds(&self) -> f64 {
        self.step_seconds
    }

    /// Steps from a spike to the first sample; below 0 for a filter that looks ahead.
    pub const fn start(&self) -> i64 {
        self.start
    }

    /// Steps from a spike to behind the last sample; may be negative.
    pub fn stop(&self) -> i64 {
        self.start + self.samples.len() as i64
    }

    /// h\[m\]; zero outside the samples.
    pub fn at(&self, m: i64) -> f64 {
        let i = usize::try_from(m - self.start).ok();
        i.and_then(|i| self.samples.get(i)).copied().unwrap_or(0.0)
    }

    /// Steps that it looks ahead: 0 if it is causal.
    pub fn ahead(&self) -> usize {
        self.start.min(0).unsigned_abs() as usize
    }

    /// h\[0\], h\[1\], … of a causal filter, to its last sample. Allocates the result.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) for a filter that looks ahead.
    pub fn causal_samples(&self) -> Result<Vec<f64>> {
        if self.start < 0 {
            let ahead = self.ahead() as f64 * self.step_seconds;
            return Err(Error::argument(format!(
                "filter {}: expected a filter that needs no future, got one that looks {ahead} s ahead and so serves offline work only; train with the filter shifted by that time (--filter {}@{ahead}s, or a start of {} steps more for samples), and with its delay (--delay auto)",
                self.name,
                self.name,
                self.ahead()
            )));
        }
        let mut all = alloc::vec![0.0; self.start as usize];
        all.extend_from_slice(&self.samples);
        Ok(all)
    }

    /// Refuses steps other than the filter's own.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::error::ErrorKind::Mismatch).
    pub fn check_step(&self, step_seconds: f64) -> Result<()> {
        if (self.step_seconds - step_seconds).abs() <= SAME_STEP * step_seconds {
            return Ok(());
        }
        Err(Error::mismatch(format!(
            "filter {}: expected samples {step_seconds} s apart, the model's step, got {} s; make the filter at that step, or resample it",
            self.name, self.step_seconds
        )))
    }

    /// The filter of a curve through `points`, (seconds after the spike, value), on steps of `step_seconds`.
    ///
    /// The curve is linear between its points and zero outside them. Sample m is its mean over the step from
    /// (m − ½)·dt to (m + ½)·dt: the mean over a step is what keeps frequencies above the new rate from aliasing.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new); points that are fewer than two, not finite, or whose times do not ascend.
    pub fn through(
        name: impl Into<String>,
        points: &[(f64, f64)],
        step_seconds: f64,
    ) -> Result<Self> {
        let name = name.into();
        let refuse = |reason: String| Err(Error::argument(format!("filter {name}: {reason}")));
        let [(first, _), .., (last, _)] = points else {
            return refuse(format!(
                "expected at least two points of time and value, got {}; give the time in seconds and the value of every point",
                points.len()
            ));
        };
        let (first, last) = (*first, *last);
        if let Some(i) = points
            .iter()
            .position(|(t, v)| !(t.is_finite() && v.is_finite()))
        {
            let (time, value) = points[i];
            return refuse(format!(
                "expected finite times and values, got {time} s and {value} at point {i}; leave the point out, or give numbers"
            ));
        }
        if let Some(i) = points.windows(2).position(|two| two[0].0 >= two[1].0) {
            return refuse(format!(
                "expected times that ascend, got {} s after {} s at point {}; sort the points by time",
                points[i + 1].0,
                points[i].0,
                i + 1
            ));
        }
        let steps = |seconds: f64| (seconds / step_seconds).round();
        let (from, to) = (steps(first), steps(last));
        if !(step_seconds > 0.0
            && from.abs() <= MAX_SAMPLES as f64
            && to - from < MAX_SAMPLES as f64)
        {
            return refuse(format!(
                "expected times within {MAX_SAMPLES} steps of {step_seconds} s, got {first} to {last} s; are they in seconds?"
            ));
        }
        let mut segment = 0;
        let samples = (from as i64..=to as i64).map(|m| {
            let (a, b) = (
                (m as f64 - 0.5) * step_seconds,
                (m as f64 + 0.5) * step_seconds,
            );
            mean_between(points, &mut segment, a, b)
        });
        let samples = samples.collect();
        Self::new(name, samples, step_seconds, from as i64)
    }
}

/// Mean over `a` to `b` of the curve through `points`, zero outside them. `segment` is a segment that ends after no
/// earlier `a`.
fn mean_between(points: &[(f64, f64)], segment: &mut usize, a: f64, b: f64) -> f64 {
    while *segment + 2 < points.len() && points[*segment + 1].0 <= a {
        *segment += 1;
    }
    let mut area = 0.0;
    for two in points[*segment..].windows(2) {
        let ((t0, v0), (t1, v1)) = (two[0], two[1]);
        let (from, to) = (a.max(t0), b.min(t1));
        if to > from {
            let at = |t: f64| v0 + (v1 - v0) * (t - t0) / (t1 - t0);
            area += (to - from) * 0.5 * (at(from) + at(to));
        }
        if t1 >= b {
            break;
        }
    }
    area / (b - a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_curve_is_averaged_over_steps() {
        // A triangle of height 1 around 2 ms, on steps of 1 ms: the mean over each step, by hand.
        let points = [(0.0, 0.0), (0.002, 1.0), (0.004, 0.0)];
        let filter = SampledFilter::through("triangle", &points, 0.001).unwrap();
        let expected = [0.0625, 0.5, 0.875, 0.5, 0.0625];
        assert_eq!(filter.start(), 0);
        for (h, e) in filter.samples().iter().zip(expected) {
            assert!((h - e).abs() < 1e-12, "{h} {e}");
        }
        // Its area is kept at any step.
        for step in [0.0003, 0.0007, 0.0019, 0.011] {
            let filter = SampledFilter::through("triangle", &points, step).unwrap();
            let area: f64 = filter.samples().iter().sum::<f64>() * step;
            assert!(area <= 0.002 + 1e-12, "{step}: {area}");
            // No step hangs over the ends by more than half of itself.
            assert!(area > 0.0018, "{step}: {area}");
        }
    }

    #[test]
    fn faults_are_refused_by_name_with_a_way_out() {
        let new = |samples: &[f64]| SampledFilter::new("k.csv", samples.to_vec(), 0.001, 0);
        for (filter, says) in [
            (new(&[]), "at least one sample"),
            (new(&[1.0, f64::NAN]), "NaN at sample 1"),
            (new(&[0.0, 0.0]), "2 zeros"),
            (
                SampledFilter::new("k.csv", vec![1.0], f64::NAN, 0),
                "finite step",
            ),
            (
                SampledFilter::new("k.csv", vec![1.0], 0.1, 1 << 40),
                "within 1048576 steps",
            ),
            (
                new(&[1.0, -1.0]).and_then(SampledFilter::with_unit_sum),
                "--keep-gain",
            ),
            (
                SampledFilter::through("k.csv", &[(0.0, 1.0)], 0.001),
                "two points",
            ),
            (
                SampledFilter::through("k.csv", &[(0.0, 1.0), (0.0, 2.0)], 0.001),
                "ascend",
            ),
            (
                SampledFilter::through("k.csv", &[(0.0, 1.0), (5e9, 2.0)], 0.001),
                "in seconds",
            ),
        ] {
            let message = filter.unwrap_err().to_string();
            assert!(
                message.contains("k.csv") && message.contains(says),
                "{message}"
            );
        }
        let ahead = SampledFilter::new("gauss:1ms", vec![1.0; 3], 0.001, -2).unwrap();
        let message = ahead.causal_samples().unwrap_err().to_string();
        assert!(message.contains("gauss:1ms@0.002s"), "{message}");
        assert!(ahead.shifted(2).unwrap().causal_samples().is_ok());
        let other = new(&[1.0]).unwrap().check_step(0.002).unwrap_err();
        assert_eq!(other.kind(), betz_base::ErrorKind::Mismatch);
    }

    #[test]
    fn zeros_at_the_ends_are_dropped() {
        let filter = SampledFilter::new("x", vec![0.0, 0.0, 3.0, 0.0, 1.0, 0.0], 1.0, -1).unwrap();
        assert_eq!((filter.start(), filter.stop()), (1, 4));
        assert_eq!(filter.samples(), [3.0, 0.0, 1.0]);
        assert_eq!(filter.causal_samples().unwrap(), [0.0, 3.0, 0.0, 1.0]);
        assert_eq!((filter.at(0), filter.at(1), filter.at(9)), (0.0, 3.0, 0.0));
    }
}
