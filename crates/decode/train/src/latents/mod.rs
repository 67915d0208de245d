//! Stage 1 of the nonlinear decoders: latents, a few linear readouts of all features.
//!
//! The ridge decoder W = (Γ_c + λI)⁻¹Υ_c of many standardised [`targets`] predicts them with
//! covariance C/T, C = WᵀΓ_cW, which takes no pass over the data. Its eigenvectors V with the largest
//! eigenvalues e give latents of unit variance, z = (e/T)^(−½)·VᵀWᵀ(a − μ): what the features say about
//! movement in as few numbers as possible. That is a linear decoder of as many outputs, and runs as one.

mod run;
mod targets;

pub(crate) use run::{filter_latents, quantile_of_norms};
pub(crate) use targets::{Targets, class_targets, labels, targets};

use crate::validate::Rotation;
use betz_base::error::{Error, ErrorKind, Result};
use betz_gram::NormalEquations;
use betz_gram::solve::Solution;
use betz_linear::{Mat, eigen};

/// An eigenvalue below this part of the largest says nothing.
const RANK: f64 = 1e-9;

/// A target whose variance is below this part of its mean square does not change.
const CONSTANT: f64 = 1e-12;

/// Weights and intercepts of latents: z = intercept + weightsᵀa.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Latents {
    /// Number of latents, the one of most variance first.
    pub(crate) count: usize,
    /// (feature, latent), row-major.
    pub(crate) weights: Vec<f64>,
    /// One a latent: z has mean 0 over the steps of the sums.
    pub(crate) intercept: Vec<f64>,
    /// Variance of each latent's predictions before whitening, in standardised targets.
    pub(crate) variances: Vec<f64>,
}

impl Latents {
    /// At most `most` latents of `sums`, whose outputs are targets and whose solution is `solution`.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] when no target changes, or nothing about one is predicted;
    /// [`ErrorKind::NonFinite`] when the covariance of predictions is not finite.
    pub(crate) fn new(sums: &NormalEquations, solution: &Solution, most: usize) -> Result<Self> {
        let (n, m, steps) = (sums.features, sums.outputs, sums.steps as f64);
        let squares = sums.output_total_squares();
        // One over the standard deviation of each target; 0 for one that does not change.
        let scales: Vec<f64> = (squares.iter().zip(&sums.output_sq_sum))
            .map(|(&about_mean, &square)| {
                if about_mean > CONSTANT * square {
                    (steps / about_mean).sqrt()
                } else {
                    0.0
                }
            })
            .collect();
        let weights = &solution.weights;
        let covariance = predictions(sums, weights, &scales);
        let nothing = || {
            Error::new(
                ErrorKind::InsufficientData,
                "latents: expected outputs that change and responses that say something about them, got none; check that the behaviour changes, and that channels fire",
            )
        };
        if !(0..m).all(|j| covariance.col(j).iter().all(|c| c.is_finite())) {
            return Err(Error::new(
                ErrorKind::NonFinite,
                "latents: expected finite predictions of the targets, got NaN or infinity",
            ));
        }
        let found = eigen(covariance.as_ref()).ok_or_else(nothing)?;
        let (vectors, values) = (&found.vectors, &found.values);
        let largest = if m == 0 { 0.0 } else { values[m - 1] };
        if largest <= 0.0 {
            return Err(nothing());
        }
        let kept: Vec<usize> = (0..m)
            .rev()
            .filter(|&k| values[k] > RANK * largest)
            .take(most)
            .collect();
        let count = kept.len();
        // (target, latent): what turns weights for targets into weights for latents.
        let mut turn = vec![0.0; m * count];
        for (k, &column) in kept.iter().enumerate() {
            let whiten = (steps / values[column]).sqrt();
            // Of the two signs, the one whose largest element is positive.
            let largest = (0..m).map(|j| vectors[(j, column)]);
            let largest = largest.fold(0.0, |a: f64, v| if v.abs() > a.abs() { v } else { a });
            for (j, scale) in scales.iter().enumerate() {
                turn[j * count + k] = vectors[(j, column)] * scale * whiten * largest.signum();
            }
        }
        let mut turned = vec![0.0; n * count];
        let mut intercept = vec![0.0; count];
        for f in 0..n {
            let row = &mut turned[f * count..][..count];
            for (w, turn) in weights[f * m..][..m].iter().zip(turn.chunks_exact(count)) {
                row.iter_mut().zip(turn).for_each(|(r, t)| *r += w * t);
            }
            for (c, w) in intercept.iter_mut().zip(&*row) {
                *c -= w * sums.feature_sum[f] / steps;
            }
        }
        Ok(Self {
            count,
            weights: turned,
            intercept,
            variances: kept.iter().map(|&k| values[k] / steps).collect(),
        })
    }

    /// The same by features, where the sums were those of `rotation`'s coordinates.
    pub(crate) fn restored(mut self, rotation: &Rotation) -> Self {
        self.weights = rotation.restore(&self.weights, &mut self.intercept);
        self
    }
}

/// Steps times the covariance of the predictions that `weights` make of the targets, each target times its scale; the
/// lower triangle.
fn predictions(sums: &NormalEquations, weights: &[f64], scales: &[f64]) -> Mat<f64> {
    let (m, steps) = (sums.outputs, sums.steps as f64);
    let product = sums.gram_times(weights, m);
    let mut covariance = Mat::<f64>::zeros(m, m);
    let mut mean = vec![0.0; m];
    for f in 0..sums.features {
        let (w, g) = (&weights[f * m..][..m], &product[f * m..][..m]);
        for (i, (w, mean)) in w.iter().zip(&mut mean).enumerate() {
            *mean += w * sums.feature_sum[f] / steps;
            for (j, g) in g[..=i].iter().enumerate() {
                covariance[(i, j)] += w * g;
            }
        }
    }
    let off_mean = |i: usize, j: usize| steps * mean[i] * mean[j];
    let scale = |i: usize, j: usize| scales[i] * scales[j];
    for i in 0..m {
        for j in 0..=i {
            covariance[(i, j)] = (covariance[(i, j)] - off_mean(i, j)) * scale(i, j);
        }
    }
    covariance
}

#[cfg(test)]
mod tests;
