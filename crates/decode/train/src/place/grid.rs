//! A grid of square cells over the places of a recording.

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_base::text::count;
use betz_recording::DatasetView;
use betz_runtime::model::MAX_CELLS;

/// Standard deviations that a Gaussian reaches.
const REACH: f64 = 4.0;

/// Cells of one size over 1 to 3 outputs; the last axis counts fastest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grid {
    /// Outputs that are its axes.
    pub(super) axes: Vec<usize>,
    /// Where its first cell begins, an axis each.
    low: Vec<f64>,
    /// Length of a cell's edge, in the outputs' unit.
    pub(super) edge: f64,
    pub(super) shape: Vec<usize>,
}

impl Grid {
    /// A grid over what `axes` were at `rows`, `across` cells along the longest, or fewer where there were more
    /// than a decoder may have.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] where the place never changes.
    pub(super) fn new(
        data: &DatasetView<'_>,
        axes: &[usize],
        rows: &[usize],
        across: usize,
    ) -> Result<Self> {
        let n = data.outputs.len();
        let ends = |o: usize| {
            let values = rows.iter().map(|row| f64::from(data.behavior[row * n + o]));
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(v), high.max(v))
            })
        };
        let ends: Vec<(f64, f64)> = axes.iter().map(|&o| ends(o)).collect();
        let longest = ends
            .iter()
            .map(|(low, high)| high - low)
            .fold(0.0, f64::max);
        if !(longest.is_finite() && longest > 0.0) {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "decoder of place: expected places that differ, got {} in one; check the outputs, or use a longer part of the recording",
                    count(rows.len() as u128, "step")
                ),
            ));
        }
        let mut edge = longest / across as f64;
        loop {
            let shape: Vec<usize> = (ends.iter())
                .map(|(low, high)| ((high - low) / edge).ceil() as usize + 1)
                .collect();
            if shape.iter().product::<usize>() <= MAX_CELLS {
                let middles = ends.iter().map(|(low, high)| 0.5 * (low + high));
                let low = middles.zip(&shape).map(|(m, &n)| m - 0.5 * edge * n as f64);
                return Ok(Self {
                    axes: axes.to_vec(),
                    low: low.collect(),
                    edge,
                    shape,
                });
            }
            edge *= 1.05;
        }
    }

    /// Places there are.
    pub(super) fn places(&self) -> usize {
        self.shape.iter().product()
    }

    /// The place of outputs `x`; the nearest for those beyond the edge.
    pub(super) fn of(&self, x: &[f32]) -> usize {
        let axes = self.axes.iter().zip(&self.low).zip(&self.shape);
        axes.fold(0, |place, ((&o, low), &n)| {
            let along = ((f64::from(x[o]) - low) / self.edge).max(0.0) as usize;
            place * n + along.min(n - 1)
        })
    }

    /// Position of the middle of `place` along each axis.
    pub(super) fn middle(&self, mut place: usize) -> Vec<f64> {
        let mut middle: Vec<f64> = (self.shape.iter().zip(&self.low).rev())
            .map(|(&n, low)| {
                let along = place % n;
                place /= n;
                low + (along as f64 + 0.5) * self.edge
            })
            .collect();
        middle.reverse();
        middle
    }

    /// `values` of all places, smoothed by a Gaussian of `sigma` cells; nothing lies beyond the edge.
    pub(super) fn smooth(&self, values: &mut Vec<f64>, sigma: f64) {
        let weights = gaussian(sigma);
        let mut inner = values.len();
        let mut smoothed = vec![0.0; values.len()];
        for &n in &self.shape {
            inner /= n;
            for (at, value) in values.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                let along = at / inner % n;
                for (reach, weight) in weights.iter().enumerate() {
                    if along >= reach {
                        smoothed[at - reach * inner] += weight * value;
                    }
                    if reach > 0 && along + reach < n {
                        smoothed[at + reach * inner] += weight * value;
                    }
                }
            }
            std::mem::swap(values, &mut smoothed);
            smoothed.fill(0.0);
        }
    }
}

/// Weights of a discrete Gaussian of `sigma` cells at 0, ±1, …, which add to 1 with both sides. A narrow one has
/// the variance at ±1 alone.
pub(super) fn gaussian(sigma: f64) -> Vec<f64> {
    if sigma < 0.5 {
        let variance = sigma * sigma;
        return vec![1.0 - variance, 0.5 * variance];
    }
    let most = (REACH * sigma).ceil() as usize;
    let mut weights: Vec<f64> = (0..=most)
        .map(|k| float::exp(-0.5 * (k as f64 / sigma).powi(2)))
        .collect();
    let sum = 2.0 * weights.iter().sum::<f64>() - weights[0];
    weights.iter_mut().for_each(|w| *w /= sum);
    weights
}
