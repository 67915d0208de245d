//! Stage 2 of the nonlinear decoders: a ridge readout of features g of the latents, and of the same
//! features behind a first-order filter.
//!
//! x̂ = c + Φ₀ᵀ(g − ḡ) + h ∗ Φ₁ᵀ(g − ḡ): the filter commutes with the readout, so that a step keeps as
//! many filter states as there are outputs. Training is one pass over the steps for the sums of
//! [g − ḡ; h ∗ (g − ḡ)] and one ridge solve.

use betz_base::float;

mod choose;
mod cuda;
mod filtered;
mod pass;

pub(crate) use choose::{KAPPAS, Weights, best_of, ridge_readout};
pub(crate) use pass::{Pass, Walk, mean_of};

/// Features of latents, computed for many steps at a time.
pub(crate) trait Basis: Sync {
    /// Features there are.
    fn width(&self) -> usize;

    /// The seconds of the low-pass behind the latents that [`fill`](Self::fill) is to see, if it looks
    /// at them.
    fn latent_filter_seconds(&self) -> Option<f64> {
        None
    }

    /// Writes the features of `n` steps, (feature, step) row-major, from latents and low-passed latents
    /// (empty without such a filter), both (latent, step).
    fn fill(&self, z: &[f32], filtered: &[f32], n: usize, out: &mut [f32]);
}

/// Share that a first-order filter of `tau_seconds` keeps from one step to the next.
pub(crate) fn decay(tau_seconds: f64, step_seconds: f64) -> f64 {
    float::exp(-step_seconds / tau_seconds)
}

#[cfg(test)]
mod tests;
