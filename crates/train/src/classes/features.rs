//! Features of classes: u = [z; h ∗ z; cos 2π(Ωz + b)], and their values at labelled steps.

use crate::lift::Cosines;
use crate::readout::{Basis, Pass, Walk};
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_gram::gram::dense::dot;
use rayon::prelude::*;

/// Time constant of the filter h of the latents, in seconds.
const TAU_SECONDS: f64 = 0.1;

/// A step of more than this many time constants leaves nothing of the one before: such features have no filter.
const FORGOTTEN_TAUS: f64 = 5.0;

/// The time constant of the filter of the latents for steps of `step_seconds`; `None` if there is no filter.
pub(super) fn latent_tau(step_seconds: f64) -> Option<f64> {
    (step_seconds < FORGOTTEN_TAUS * TAU_SECONDS).then_some(TAU_SECONDS)
}

/// The features of [`Classes`](betz_runtime::model::Classes).
pub(super) struct ClassFeatures {
    /// Time constant of the filter of the latents, in seconds.
    pub(super) tau_seconds: Option<f64>,
    pub(super) cosines: Cosines,
}

impl Basis for ClassFeatures {
    fn width(&self) -> usize {
        self.cosines.latents * usize::from(self.tau_seconds.is_some()) + self.cosines.width()
    }

    fn latent_filter_seconds(&self) -> Option<f64> {
        self.tau_seconds
    }

    fn fill(&self, z: &[f32], filtered: &[f32], n: usize, out: &mut [f32]) {
        let linear = self.cosines.latents * n;
        if filtered.is_empty() {
            self.cosines.fill(z, &[], n, out);
            return;
        }
        // The cosines write the latents before themselves; the filtered latents go between.
        let (_, behind) = out.split_at_mut(linear);
        self.cosines.fill(z, &[], n, behind);
        out[..linear].copy_from_slice(z);
        out[linear..2 * linear].copy_from_slice(filtered);
    }
}

/// Features and labels of some steps, in blocks.
pub(super) struct Samples {
    /// Features, and one more that is always 1.
    pub(super) width: usize,
    pub(super) blocks: Vec<Block>,
    pub(super) steps: usize,
}

/// Steps in a row of memory.
pub(super) struct Block {
    pub(super) steps: Vec<usize>,
    /// (feature, step); the last feature is 1.
    pub(super) values: Vec<f32>,
    /// Class of each step.
    pub(super) labels: Vec<u16>,
}

impl Samples {
    /// Samples of `basis` on `walk` at the labelled steps of `counts`; `label` gives the class of the step whose
    /// behaviour goes with a step.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted), and
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub(super) fn collect(
        (walk, basis): (Walk<'_>, &ClassFeatures),
        label: &(dyn Fn(usize) -> Option<usize> + Sync),
        counts: &(dyn Fn(usize) -> bool + Sync),
        (spaced, progress): (bool, &dyn Progress),
    ) -> Result<Self> {
        let pass = Pass::new(walk, basis, &[], &[]);
        let labelled = |step: usize| counts(step) && label(step).is_some();
        let sampled = pass.sampled(&labelled);
        let wants: &(dyn Fn(usize) -> bool + Sync) = if spaced { &sampled } else { &labelled };
        let width = basis.width() + 1;
        let number = (0..walk.data.steps).filter(|&step| wants(step)).count();
        betz_base::memory::plan(
            format_args!("{width} features of {number} labelled steps"),
            4 * width as u128 * number as u128,
        )?;
        let mut blocks = Vec::new();
        pass.blocks(wants, progress, |steps, values| {
            let mut values = values.to_vec();
            values.resize(width * steps.len(), 1.0);
            blocks.push(Block {
                steps: steps.to_vec(),
                values,
                labels: (steps.iter().filter_map(|&step| label(step)))
                    .map(|class| class as u16)
                    .collect(),
            });
            Ok(())
        })?;
        Ok(Self {
            width,
            blocks,
            steps: number,
        })
    }
}

impl Block {
    /// Scores of all steps, (column, step), by `weights`, (feature, column).
    pub(super) fn scores(&self, weights: &[f64], columns: usize) -> Vec<f64> {
        let n = self.steps.len();
        let mut scores = vec![0.0; columns * n];
        scores
            .par_chunks_exact_mut(n)
            .enumerate()
            .for_each(|(column, scores)| {
                for (row, weights) in self
                    .values
                    .chunks_exact(n)
                    .zip(weights.chunks_exact(columns))
                {
                    let weight = weights[column];
                    (scores.iter_mut().zip(row)).for_each(|(s, v)| *s += weight * f64::from(*v));
                }
            });
        scores
    }

    /// Adds Σ values·factors to `sum`, (feature, column); `factors` is (column, step).
    pub(super) fn add_products(&self, factors: &[f64], columns: usize, sum: &mut [f64]) {
        let n = self.steps.len();
        (sum.par_chunks_exact_mut(columns)
            .zip(self.values.par_chunks_exact(n)))
        .with_min_len(8)
        .for_each(|(sum, row)| {
            for (sum, factors) in sum.iter_mut().zip(factors.chunks_exact(n)) {
                *sum += dot(row, factors);
            }
        });
    }
}
