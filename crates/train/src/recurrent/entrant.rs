//! The recurrent decoder in cross-validation.

use std::iter::once;
use std::sync::atomic::AtomicU64;

use super::batch::{Recipe, Sequence};
use super::samples::{Samples, runs};
use super::{Epochs, Sizes, has_trials, train};
use crate::folds::Part;
use crate::kinds::KindOptions;
use crate::options::TrainOptions;
use crate::validate::BankChoice;
use betz_base::error::{Error, Result};
use betz_base::progress::Progress;
use betz_recording::{DatasetView, Segment};
use betz_runtime::model::{Decoder, TrainingRecord};
use rayon::prelude::*;

/// A recurrent decoder, with how it does on everything held out.
pub(crate) struct Entrant {
    sizes: Sizes,
    recipe: Recipe,
    /// (steps, outputs); NaN where nothing is held out.
    pub(crate) estimates: Vec<f32>,
}

impl Entrant {
    /// Trains on all but each fold of `found`, and estimates the fold. `kinds` names sizes to take instead of those
    /// that suit the recording.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a low-pass;
    /// [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData) for a fold without labels beside it;
    /// [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
    pub(crate) fn new(
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &BankChoice,
        kinds: &KindOptions,
        progress: &dyn Progress,
    ) -> Result<Self> {
        if options.low_pass.is_some() {
            return Err(Error::argument(
                "recurrent decoder: expected no low-pass, which its networks learn where they need one, got one",
            ));
        }
        let usual = Sizes::usual(data, kinds.seed);
        let sizes = Sizes {
            layers: kinds.layers.clone().unwrap_or(usual.layers),
            members: kinds.members.unwrap_or(usual.members),
            seed: kinds.seed,
        };
        let usual = if has_trials(data) {
            Recipe::TRIALS
        } else {
            Recipe::CONTINUOUS
        };
        let recipe = Recipe {
            epochs: kinds.epochs.unwrap_or(usual.epochs),
            ..usual
        };
        let samples = Samples::new(*data, options.delay_steps);
        let folds = &found.split.folds;
        let epochs = Epochs {
            progress,
            done: AtomicU64::new(0),
            total: (folds.len() * sizes.members * recipe.epochs) as u64,
        };
        // Steps that a fold holds out, and their estimates.
        type Rows = Vec<(usize, Vec<f32>)>;
        let of_folds: Result<Vec<Rows>> = (0..folds.len())
            .into_par_iter()
            .map(|k| {
                let others = folds.iter().enumerate().filter(|(other, _)| *other != k);
                let training = runs(others.flat_map(|(_, parts)| parts).map(|part| part.segment));
                let trained = train(&samples, &training, (&sizes, &recipe), &epochs)?;
                let held: Vec<Sequence> = folds[k].iter().map(sequence).collect();
                let mut rows = Vec::new();
                trained.estimate(&samples, &held, |step, row| {
                    rows.push((step, row.iter().map(|&v| v as f32).collect()));
                });
                let is_held = |step: usize| {
                    let within = |s: &Segment| (s.start..s.stop).contains(&(step as i64));
                    folds[k].iter().any(|part| within(&part.segment))
                };
                rows.retain(|(step, _)| is_held(*step));
                Ok(rows)
            })
            .collect();
        let outputs = data.outputs.len();
        let mut estimates = vec![f32::NAN; data.steps * outputs];
        for (step, row) in of_folds?.into_iter().flatten() {
            estimates[step * outputs..][..outputs].copy_from_slice(&row);
        }
        Ok(Self {
            sizes,
            recipe,
            estimates,
        })
    }

    /// Text that describes the chosen configuration.
    pub(crate) fn configuration(&self) -> String {
        self.sizes.describe()
    }

    /// Multiply-adds of a step in which `fired` channels fire.
    pub(crate) fn multiply_adds(&self, fired: f64, outputs: usize) -> f64 {
        let mut below = fired;
        let mut sum = 0.0;
        for &units in &self.sizes.layers {
            let units = units as f64;
            sum += 3.0 * units * (below + units);
            below = units;
        }
        (sum + below * outputs as f64) * self.sizes.members as f64
    }

    /// The decoder of all of `data`, with `record` of its training.
    ///
    /// # Errors
    /// Returns the errors of training.
    pub(crate) fn whole(
        &self,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        record: TrainingRecord,
        progress: &dyn Progress,
    ) -> Result<Decoder> {
        let samples = Samples::new(*data, options.delay_steps);
        let all = runs(data.segments.iter().copied());
        let epochs = Epochs {
            progress,
            done: AtomicU64::new(0),
            total: (self.sizes.members * self.recipe.epochs) as u64,
        };
        let trained = train(&samples, &all, (&self.sizes, &self.recipe), &epochs)?;
        trained.decoder(&samples, &all, &self.sizes, (options.delay_steps, record))
    }
}

/// The steps of a part that is held out, with the history before it.
fn sequence(part: &Part) -> Sequence {
    once(part.from as usize..part.segment.stop as usize).collect()
}
