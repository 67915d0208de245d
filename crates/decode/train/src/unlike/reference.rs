//! The distribution of latents and the rates in training, from the sums that a model retains.

use crate::retained::StoredStatistics;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_linear::{Cholesky, Mat};
use betz_runtime::model::Decoder;

/// Added to the variances of standardised latents: a direction in which nothing varies weighs no more than this.
const FLOOR: f64 = 1e-6;

/// A latent whose variance is below this part of its mean square does not vary.
const CONSTANT: f64 = 1e-12;

/// Latents and rates in training.
pub(super) struct Reference {
    /// Mean of each latent.
    pub(super) mean: Vec<f64>,
    /// Latents that vary, and one over the standard deviation of each.
    varying: Vec<(usize, f64)>,
    /// Factor of the covariance of the standardised latents that vary.
    factor: Cholesky,
    /// ln of its determinant.
    log_determinant: f64,
    /// Mean count per step of each channel, or `None` if the model does not store it.
    mean_counts: Option<Vec<f64>>,
    /// Channels in use.
    mask: Vec<bool>,
    pub(super) step_seconds: f64,
}

impl Reference {
    /// The latents of `decoder` over the steps of `retained`: z = c + Wᵀa has mean c + Wᵀā and covariance
    /// Wᵀ(Γ/T − āāᵀ)W.
    pub(super) fn new(decoder: &Decoder, retained: &StoredStatistics) -> Result<Self> {
        let sums = &retained.sums;
        let (n, k, steps) = (sums.features, decoder.latents(), sums.steps as f64);
        let (weights, mean) = (decoder.weights(), sums.feature_mean());
        let mut latent_mean = decoder.intercept().to_vec();
        for (a, row) in mean.iter().zip(weights.chunks_exact(k)) {
            (latent_mean.iter_mut().zip(row)).for_each(|(z, w)| *z += a * w);
        }
        let mut covariance = vec![0.0; k * k];
        let mut product = vec![0.0; k];
        for (i, row) in weights.chunks_exact(k).enumerate() {
            product.fill(0.0);
            for (j, other) in weights.chunks_exact(k).enumerate() {
                let centred = sums.gram[i * n + j] / steps - mean[i] * mean[j];
                (product.iter_mut().zip(other)).for_each(|(p, w)| *p += centred * w);
            }
            for (to, w) in covariance.chunks_exact_mut(k).zip(row) {
                (to.iter_mut().zip(&product)).for_each(|(c, p)| *c += w * p);
            }
        }
        let varying: Vec<(usize, f64)> = (0..k)
            .map(|i| (i, covariance[i * k + i], latent_mean[i]))
            .filter(|(_, variance, mean)| *variance > CONSTANT * (variance + mean * mean))
            .map(|(i, variance, _)| (i, variance.sqrt().recip()))
            .collect();
        let factored = standardised(&covariance, k, &varying, FLOOR)
            .filter(|_| !varying.is_empty())
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::InsufficientData,
                    "unlike training: expected latents that vary in training, got constant ones",
                )
            })?;
        Ok(Self {
            mean: latent_mean,
            varying,
            log_determinant: log_determinant(&factored),
            factor: factored,
            mean_counts: (decoder.limits().blanking.as_ref()).map(|b| b.mean_counts.clone()),
            mask: decoder.channel_mask().to_vec(),
            step_seconds: decoder.step_seconds(),
        })
    }

    /// KL divergence of latents with the mean `shift` from training's and `covariance`, (latent, latent), in nats:
    /// ½ (tr Σ₀⁻¹Σ + δᵀΣ₀⁻¹δ − k + ln |Σ₀|/|Σ|).
    pub(super) fn divergence(&self, shift: &[f64], covariance: &[f64]) -> f64 {
        let k = self.varying.len();
        let Some(own) = standardised(covariance, shift.len(), &self.varying, FLOOR) else {
            return f64::NAN;
        };
        let right = Mat::from_fn(k, k + 1, |i, j| {
            let (a, scale) = self.varying[i];
            match self.varying.get(j) {
                None => shift[a] * scale,
                Some((b, other)) => {
                    let floor = if i == j { FLOOR } else { 0.0 };
                    covariance[a * shift.len() + b] * scale * other + floor
                }
            }
        });
        let solved = self.factor.solve(right.as_ref());
        let trace: f64 = (0..k).map(|i| solved[(i, i)]).sum();
        let distance: f64 = (0..k).map(|i| solved[(i, k)] * right[(i, k)]).sum();
        let logs = self.log_determinant - log_determinant(&own);
        0.5 * (trace + distance - k as f64 + logs)
    }

    /// Mean |ln ratio| of `counts` in `steps` steps and those expected, over the channels in use.
    pub(super) fn rate_change(&self, counts: &[f64], steps: f64) -> f64 {
        let Some(means) = &self.mean_counts else {
            return f64::NAN;
        };
        let used = || (self.mask.iter().zip(means).zip(counts)).filter(|((used, _), _)| **used);
        // Half a spike more on both sides: silence is no infinite change.
        let change = |mean: f64, count: f64| float::ln((count + 0.5) / (mean * steps + 0.5)).abs();
        let sum: f64 = used().map(|((_, mean), count)| change(*mean, *count)).sum();
        sum / used().count() as f64
    }
}

/// Factor of the covariance of the latents in `varying`, each scaled, with `floor` more on the diagonal.
fn standardised(
    covariance: &[f64],
    k: usize,
    varying: &[(usize, f64)],
    floor: f64,
) -> Option<Cholesky> {
    let n = varying.len();
    let scaled = Mat::from_fn(n, n, |i, j| {
        let ((a, scale), (b, other)) = (varying[i], varying[j]);
        covariance[a * k + b] * scale * other + if i == j { floor } else { 0.0 }
    });
    Cholesky::new(scaled.as_ref()).ok()
}

fn log_determinant(factor: &Cholesky) -> f64 {
    2.0 * factor.pivots().map(f64::ln).sum::<f64>()
}
