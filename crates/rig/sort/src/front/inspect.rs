//! One sample of all channels after the filter: reference, crossings, noise.

use pulp::{Simd, WithSimd};

use super::LANES;

/// y_c ← y_c − Σ_j w_jc y_j, for weights (from, to).
pub(super) struct Regress<'a> {
    pub(super) weights: &'a [f32],
    pub(super) live: usize,
    pub(super) said: &'a mut [f32],
    pub(super) row: &'a mut [f32],
}

impl WithSimd for Regress<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let channels = self.row.len();
        self.said.fill(0.0);
        let (said, _) = S::as_mut_simd_f32s(self.said);
        let rows = self.weights.chunks_exact(channels);
        for (weights, &y) in rows.zip(&self.row[..self.live]) {
            let (weights, _) = S::as_simd_f32s(weights);
            let y = simd.splat_f32s(y);
            for (said, &weights) in said.iter_mut().zip(weights) {
                *said = simd.mul_add_f32s(weights, y, *said);
            }
        }
        let (row, _) = S::as_mut_simd_f32s(self.row);
        for (row, &said) in row.iter_mut().zip(said.iter()) {
            *row = simd.sub_f32s(*row, said);
        }
    }
}

/// Looks at the row before the newest, of what channels see together, for minima below the thresholds, and follows the noise.
pub(super) struct Inspect<'a> {
    pub(super) before: &'a [f32],
    pub(super) row: &'a [f32],
    pub(super) after: &'a [f32],
    /// The newest row's voltage.
    pub(super) newest: &'a [f32],
    /// Thresholds, below 0.
    pub(super) thresholds: &'a mut [f32],
    /// Running medians of |y|, the step they move by, and their bounds.
    pub(super) medians: &'a mut [f32],
    pub(super) steps: &'a [f32],
    /// Threshold by median.
    pub(super) factor: f32,
    pub(super) track: bool,
}

/// Result of the inspection.
pub(super) struct Inspection {
    /// A minimum below the threshold on some channel.
    pub(super) crossing: bool,
    /// The largest |voltage| of the newest row.
    pub(super) largest: f32,
}

/// Largest ratio of the running median to that of training: a channel that goes silent must not cross all the
/// time.
pub(super) const LOWEST: f32 = 0.3;
pub(super) const HIGHEST: f32 = 10.0;

impl WithSimd for Inspect<'_> {
    type Output = Inspection;

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // by index over arrays of known length: these become vectors
    fn with_simd<S: Simd>(self, _: S) -> Inspection {
        let mut hits = [0_u32; LANES];
        let mut largest = [0.0_f32; LANES];
        let chunks = self.row.len() / LANES;
        let (before, _) = self.before.as_chunks::<LANES>();
        let (row, _) = self.row.as_chunks::<LANES>();
        let (after, _) = self.after.as_chunks::<LANES>();
        let (newest, _) = self.newest.as_chunks::<LANES>();
        let (thresholds, _) = self.thresholds.as_chunks_mut::<LANES>();
        let (medians, _) = self.medians.as_chunks_mut::<LANES>();
        let (steps, _) = self.steps.as_chunks::<LANES>();
        for c in 0..chunks {
            let (before, row, after) = (&before[c], &row[c], &after[c]);
            let (thresholds, medians, steps) = (&mut thresholds[c], &mut medians[c], &steps[c]);
            for l in 0..LANES {
                let low = row[l] < thresholds[l];
                let minimum = row[l] <= before[l] && row[l] < after[l];
                hits[l] |= u32::from(low & minimum);
                let size = newest[c][l].abs();
                largest[l] = if size > largest[l] { size } else { largest[l] };
            }
            if self.track {
                for l in 0..LANES {
                    let up = after[l].abs() > medians[l];
                    medians[l] += if up { steps[l] } else { -steps[l] };
                    thresholds[l] = -self.factor * medians[l];
                }
            }
        }
        Inspection {
            crossing: hits.iter().any(|h| *h != 0),
            largest: largest.iter().fold(0.0, |most, l| l.max(most)),
        }
    }
}
