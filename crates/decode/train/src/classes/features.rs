//! Features of classes: u = [z; h ∗ z; cos 2π(Ωz + b)], and their values at labelled steps.

use crate::lift::Cosines;
use crate::readout::{Basis, Pass, Walk};
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_linear::{Mat, MatRef, product};
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

/// Steps whose products are computed at once: their features in f64 stay in the cache.
const CHUNK: usize = 256;

impl Block {
    /// The features of steps `first..first + n` in f64, (feature, step) row-major.
    fn chunk(&self, first: usize, n: usize) -> Vec<f64> {
        let all = self.steps.len();
        let mut values = Vec::with_capacity(self.values.len() / all * n);
        for row in self.values.chunks_exact(all) {
            values.extend(row[first..first + n].iter().map(|v| f64::from(*v)));
        }
        values
    }

    /// First step and length of each chunk.
    fn chunks(&self) -> impl IndexedParallelIterator<Item = (usize, usize)> {
        let all = self.steps.len();
        let each = move |chunk: usize| (chunk * CHUNK, CHUNK.min(all - chunk * CHUNK));
        (0..all.div_ceil(CHUNK)).into_par_iter().map(each)
    }

    /// Scores of all steps, (column, step), by `weights`, (feature, column).
    pub(super) fn scores(&self, weights: &[f64], columns: usize) -> Vec<f64> {
        let all = self.steps.len();
        let weights = of_rows(weights, columns);
        let chunks: Vec<Mat<f64>> = self
            .chunks()
            .map(|(first, n)| {
                let values = self.chunk(first, n);
                product(of_rows(&values, n).transpose(), weights)
            })
            .collect();
        let mut scores = Vec::with_capacity(columns * all);
        for column in 0..columns {
            scores.extend(chunks.iter().flat_map(|chunk| chunk.col_as_slice(column)));
        }
        scores
    }

    /// Adds Σ values·factors to `sum`, (feature, column); `factors` is (column, step).
    pub(super) fn add_products(&self, factors: &[f64], columns: usize, sum: &mut [f64]) {
        let all = self.steps.len();
        let factors = MatRef::from_column_major_slice(factors, all, columns);
        let chunks: Vec<Mat<f64>> = self
            .chunks()
            .map(|(first, n)| {
                let values = self.chunk(first, n);
                product(of_rows(&values, n), factors.subrows(first, n))
            })
            .collect();
        // One after another, so that the sum does not depend on the number of threads.
        for chunk in &chunks {
            for (f, row) in sum.chunks_exact_mut(columns).enumerate() {
                (row.iter_mut().enumerate()).for_each(|(c, sum)| *sum += chunk[(f, c)]);
            }
        }
    }
}

/// `values` as rows of `columns`.
fn of_rows(values: &[f64], columns: usize) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(values, values.len() / columns, columns)
}
