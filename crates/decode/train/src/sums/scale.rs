//! Powers of two that bring sums near 1, whatever the unit of a channel or an output.
//!
//! Whole numbers of 2⁻⁶⁴ hold nine digits of values near 1, but not of a channel in units of 10⁻⁹, nor of 10⁹. So each
//! channel's features, and each output, are multiplied by a power of two before they are rounded. Most need none. Sums of
//! other powers merge exactly: those of the smaller power are multiplied by the difference, which adds zeros at the end.

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_gram::gram::NormalEquations;

/// Root mean squares within this power of two of 1 are left alone.
const NEAR: f64 = 12.0;

/// Others are brought near 1 in such steps, so that parts of a recording mostly have the same power.
const STEP: f64 = 8.0;

/// Largest power either way.
pub(super) const MOST: i32 = 256;

/// Powers of two of the features of each channel and of each output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scale {
    /// One per channel.
    pub(super) channels: Vec<i32>,
    /// One per output.
    pub(super) outputs: Vec<i32>,
}

impl Scale {
    /// No power, as sums of earlier versions have.
    pub(super) fn none(channels: usize, outputs: usize) -> Self {
        Self {
            channels: vec![0; channels],
            outputs: vec![0; outputs],
        }
    }

    /// The scale of `sums` of so many channels.
    pub(super) fn of(sums: &NormalEquations, channels: usize) -> Self {
        let (n, steps) = (sums.features, sums.steps.max(1) as f64);
        let filters = n / channels.max(1);
        let largest = |channel: usize| {
            let own = channel * filters..(channel + 1) * filters;
            own.map(|f| sums.gram[f * n + f]).fold(0.0, f64::max)
        };
        Self {
            channels: (0..channels).map(|c| power(largest(c) / steps)).collect(),
            outputs: sums
                .output_sq_sum
                .iter()
                .map(|s| power(s / steps))
                .collect(),
        }
    }

    /// True if there is any power.
    pub(super) fn is_none(&self) -> bool {
        self.channels.iter().chain(&self.outputs).all(|p| *p == 0)
    }

    /// The larger of both powers, one by one.
    pub(super) fn max(&self, other: &Self) -> Self {
        let larger = |a: &[i32], b: &[i32]| a.iter().zip(b).map(|(a, b)| *a.max(b)).collect();
        Self {
            channels: larger(&self.channels, &other.channels),
            outputs: larger(&self.outputs, &other.outputs),
        }
    }

    /// Multiplies `sums` by these powers (`sign` 1), or divides by them (−1).
    pub(super) fn apply(&self, sums: &mut NormalEquations, sign: i32) {
        if self.is_none() {
            return;
        }
        let (n, m) = (sums.features, sums.outputs);
        let filters = n / self.channels.len().max(1);
        let of = |powers: &[i32]| -> Vec<f64> {
            powers
                .iter()
                .map(|p| float::exp2(f64::from(sign * p)))
                .collect()
        };
        let (channels, outputs) = (of(&self.channels), of(&self.outputs));
        let feature = |f: usize| channels[f / filters];
        for i in 0..n {
            let row = sums.gram[i * n..][..n].iter_mut().enumerate();
            row.for_each(|(j, v)| *v *= feature(i) * feature(j));
            let row = sums.upsilon[i * m..][..m].iter_mut().zip(&outputs);
            row.for_each(|(v, output)| *v *= feature(i) * output);
            sums.feature_sum[i] *= feature(i);
        }
        for (o, output) in outputs.iter().enumerate() {
            sums.output_sum[o] *= output;
            sums.output_sq_sum[o] *= output * output;
        }
    }

    /// `values`, whole numbers of sums of this scale over so many features, at the scale `to`, none of whose powers is smaller.
    ///
    /// # Errors
    /// [`ErrorKind::NonFinite`] if one leaves its range.
    pub(super) fn raised(&self, values: &[i128], features: usize, to: &Self) -> Result<Vec<i128>> {
        if self == to {
            return Ok(values.to_vec());
        }
        let filters = features / self.channels.len().max(1);
        let by = |to: &[i32], own: &[i32]| -> Vec<u32> {
            to.iter()
                .zip(own)
                .map(|(to, own)| to.abs_diff(*own))
                .collect()
        };
        let (channels, outputs) = (
            by(&to.channels, &self.channels),
            by(&to.outputs, &self.outputs),
        );
        let feature = |f: usize| channels[f / filters];
        // In the order in which sums are kept: Γ's lower triangle, Σa, Υ, Σx, Σx².
        let gram = (0..features).flat_map(|i| (0..=i).map(move |j| (i, j)));
        let gram = gram.map(|(i, j)| feature(i) + feature(j));
        let sums = (0..features).map(feature);
        let upsilon = (0..features).flat_map(|i| outputs.iter().map(move |o| (i, *o)));
        let upsilon = upsilon.map(|(i, o)| feature(i) + o);
        let of_outputs = outputs.iter().copied().chain(outputs.iter().map(|o| 2 * o));
        let all = gram.chain(sums).chain(upsilon).chain(of_outputs);
        values
            .iter()
            .zip(all)
            .map(|(value, by)| {
                let raised = value.checked_shl(by).filter(|raised| raised >> by == *value);
                raised.or((*value == 0).then_some(0)).ok_or_else(|| {
                    Error::new(
                        ErrorKind::NonFinite,
                        "sums: expected parts in units of about the same size, got one of channels or behaviour some 10⁹ times as large as another's; give all in the same unit",
                    )
                })
            })
            .collect()
    }
}

/// The power of two that brings a mean square near 1.
fn power(square: f64) -> i32 {
    let log = 0.5 * float::log2(square);
    match log.is_finite() && log.abs() > NEAR {
        true => (-(log / STEP).round() * STEP).clamp(-f64::from(MOST), f64::from(MOST)) as i32,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(channel: [f64; 2], output: f64) -> NormalEquations {
        let mut sums = NormalEquations::zeros(4, 1);
        let values = [3.0, -1.5, 2.25, 0.75];
        let scaled = |f: usize| values[f] * channel[f / 2];
        sums.steps = 100;
        for i in 0..4 {
            for j in 0..4 {
                let own = if i == j { 7.0 } else { 1.0 };
                sums.gram[i * 4 + j] = own * scaled(i) * scaled(j);
            }
            sums.upsilon[i] = scaled(i) * output;
            sums.feature_sum[i] = scaled(i);
        }
        sums.output_sum[0] = 5.0 * output;
        sums.output_sq_sum[0] = 90.0 * output * output;
        sums
    }

    #[test]
    fn values_near_one_are_left_alone_and_others_brought_near() {
        assert!(Scale::of(&sums([1.0, 20.0], 300.0), 2).is_none());
        let scale = Scale::of(&sums([1e-9, 1e9], 1e-6), 2);
        for (sums, expected) in [(sums([1e-9, 1e9], 1e-6), scale.clone())] {
            let mut scaled = sums.clone();
            expected.apply(&mut scaled, 1);
            let diagonal = (0..4).map(|i| scaled.gram[i * 5]);
            for value in diagonal.chain(scaled.output_sq_sum.clone()) {
                assert!((1e-5..1e7).contains(&value), "{value:e}");
            }
            // Powers of two lose nothing.
            expected.apply(&mut scaled, -1);
            assert_eq!(scaled, sums);
        }
    }

    #[test]
    fn sums_are_raised_exactly_or_refused() {
        let mut small = sums([1e-9, 1.0], 1.0);
        let own = Scale::of(&small, 2);
        own.apply(&mut small, 1);
        let values = super::super::fixed::units(&small).unwrap();
        let mut to = own.clone();
        to.channels[1] += 8;
        to.outputs[0] += 16;
        let raised = own.raised(&values, 4, &to).unwrap();
        let mut back = super::super::fixed::to_equations(&raised, (4, 1), 100);
        to.apply(&mut back, -1);
        let mut expected = super::super::fixed::to_equations(&values, (4, 1), 100);
        own.apply(&mut expected, -1);
        assert_eq!(back, expected);
        to.channels[1] += 100;
        assert_eq!(
            own.raised(&values, 4, &to).unwrap_err().kind(),
            ErrorKind::NonFinite
        );
    }
}
