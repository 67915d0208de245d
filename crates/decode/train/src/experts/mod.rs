//! Experts: linear readouts of the latents, each for one kind of moment of a movement, weighted by a soft
//! gate that a linear discriminant on the latents and the low-passed latents opens.
//!
//! Which moments belong together is found by k-means on what they are labelled with (the outputs now and
//! 0.2 s later, and the speed), in training alone.

mod clusters;

use rayon::prelude::*;

use crate::discriminant::{ClassSums, Scores};
use crate::readout::{Basis, Pass, Walk};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_base::progress::Progress;

pub(crate) use clusters::Clusters;

/// Ridge of the covariance within clusters, as a part of its mean diagonal.
const SHRINKAGE: f64 = 1e-3;

/// g = [z; p; p ⊗ z], p = softmax(β(B[z; h ∗ z] + b)).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gate {
    pub(crate) latents: usize,
    pub(crate) experts: usize,
    /// Time constant of h in seconds.
    pub(crate) tau_seconds: f64,
    /// β·B, (expert, latent then low-passed latent) row-major.
    pub(crate) weights: Vec<f32>,
    /// β·b, one an expert.
    pub(crate) bias: Vec<f32>,
}

/// The discriminant of clusters before it is softened.
#[derive(Debug, Clone)]
pub(crate) struct Discriminant {
    latents: usize,
    tau_seconds: f64,
    /// (cluster, latent then low-passed latent) row-major.
    weights: Vec<f64>,
    bias: Vec<f64>,
}

impl Discriminant {
    /// [Linear discriminant analysis](crate::discriminant) of the clusters
    /// that `cluster_of` puts the steps of `walk` into, over those for which `counts` holds.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] without a step; [`ErrorKind::Interrupted`].
    pub(crate) fn fit(
        walk: Walk<'_>,
        tau_seconds: f64,
        clusters: usize,
        cluster_of: &dyn Fn(usize) -> usize,
        counts: &(dyn Fn(usize) -> bool + Sync),
        progress: &dyn Progress,
    ) -> Result<Self> {
        let latents = walk.latents;
        let n = 2 * latents;
        let plain = Plain(latents);
        let pass = Pass::new(walk, &plain, &[], &[tau_seconds]);
        let mut moments = vec![0.0; n * n];
        let mut sums = vec![0.0; clusters * n];
        let mut members = vec![0_u64; clusters];
        let wants = pass.sampled(counts);
        let mut x = vec![0.0; n];
        pass.blocks(&wants, progress, |steps, values| {
            for (column, &step) in steps.iter().enumerate() {
                for (x, row) in x.iter_mut().zip(values.chunks_exact(steps.len())) {
                    *x = f64::from(row[column]);
                }
                let cluster = cluster_of(step);
                members[cluster] += 1;
                let sum = &mut sums[cluster * n..][..n];
                sum.iter_mut().zip(&x).for_each(|(s, x)| *s += x);
                for (i, row) in moments.chunks_exact_mut(n).enumerate() {
                    row[..=i]
                        .iter_mut()
                        .zip(&x)
                        .for_each(|(m, other)| *m += x[i] * other);
                }
            }
            Ok(())
        })?;
        let by_class = ClassSums {
            features: n,
            products: &moments,
            sums: &sums,
            members: &members,
        };
        let total = by_class.steps();
        let lacking = |what: &str| {
            Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "experts: expected latents that {what}, got others over {}",
                    betz_base::text::count(total, "step")
                ),
            )
        };
        if total == 0 {
            return Err(lacking("are there"));
        }
        let scores = by_class.scatter().scores(SHRINKAGE);
        let Scores { weights, bias } = scores.ok_or_else(|| lacking("differ"))?;
        Ok(Self {
            latents,
            tau_seconds,
            weights,
            bias,
        })
    }

    /// The gate of softness 1/`beta`.
    pub(crate) fn gate(&self, beta: f64) -> Gate {
        let soften = |values: &[f64]| values.iter().map(|v| (v * beta) as f32).collect();
        Gate {
            latents: self.latents,
            experts: self.bias.len(),
            tau_seconds: self.tau_seconds,
            weights: soften(&self.weights),
            bias: soften(&self.bias),
        }
    }
}

impl Basis for Gate {
    fn width(&self) -> usize {
        self.latents + self.experts * (1 + self.latents)
    }

    fn latent_filter_seconds(&self) -> Option<f64> {
        Some(self.tau_seconds)
    }

    fn fill(&self, z: &[f32], filtered: &[f32], n: usize, out: &mut [f32]) {
        let (plain, gated) = out.split_at_mut(self.latents * n);
        plain.copy_from_slice(z);
        let (p, products) = gated.split_at_mut(self.experts * n);
        let inputs: Vec<&[f32]> = z.chunks_exact(n).chain(filtered.chunks_exact(n)).collect();
        let arch = pulp::Arch::new();
        (p.par_chunks_exact_mut(n))
            .zip(self.weights.par_chunks_exact(inputs.len()))
            .zip(&self.bias)
            .for_each(|((row, weights), bias)| {
                row.fill(*bias);
                arch.dispatch(|| {
                    for (w, input) in weights.iter().zip(&inputs) {
                        row.iter_mut().zip(*input).for_each(|(s, x)| *s += w * x);
                    }
                });
            });
        softmax(p, n);
        let p = &*p;
        (products.par_chunks_exact_mut(self.latents * n))
            .zip(p.par_chunks_exact(n))
            .for_each(|(products, p)| {
                for (row, z) in products.chunks_exact_mut(n).zip(z.chunks_exact(n)) {
                    (row.iter_mut().zip(p))
                        .zip(z)
                        .for_each(|((v, p), z)| *v = p * z);
                }
            });
    }
}

/// Scores, (expert, step), become weights that add to 1 at each step.
fn softmax(scores: &mut [f32], n: usize) {
    let mut largest = vec![f32::NEG_INFINITY; n];
    for row in scores.chunks_exact(n) {
        largest
            .iter_mut()
            .zip(row)
            .for_each(|(l, s)| *l = l.max(*s));
    }
    let mut sums = vec![0.0_f32; n];
    for row in scores.chunks_exact_mut(n) {
        for ((s, largest), sum) in row.iter_mut().zip(&largest).zip(&mut sums) {
            *s = float::exp(f64::from(*s - largest)) as f32;
            *sum += *s;
        }
    }
    for row in scores.chunks_exact_mut(n) {
        row.iter_mut().zip(&sums).for_each(|(s, sum)| *s /= sum);
    }
}

/// The latents as they are.
struct Plain(usize);

impl Basis for Plain {
    fn width(&self) -> usize {
        self.0
    }

    fn fill(&self, z: &[f32], _: &[f32], _: usize, out: &mut [f32]) {
        out.copy_from_slice(z);
    }
}

#[cfg(test)]
mod tests;
