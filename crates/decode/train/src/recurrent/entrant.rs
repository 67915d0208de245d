//! The recurrent decoder in cross-validation.

use std::iter::once;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use super::batch::{Recipe, Sequence};
use super::samples::{Samples, runs};
use super::{Epochs, Sizes, Trained, has_trials, place, train};
use crate::folds::{Folds, Part};
use crate::kinds::options::KindOptions;
use crate::options::TrainOptions;
use crate::validate::BankChoice;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Progress;
use betz_device::{Device, Placement, Ran};
use betz_recording::{DatasetView, Segment};
use betz_runtime::model::{Decoder, TrainingRecord};
use rayon::prelude::*;

/// Epochs that networks of trials are scored after where they compete with other kinds. Their scores are then below those
/// of all epochs, so that they are not taken by mistake.
const SCORED_EPOCHS: usize = 20;

/// A recurrent decoder, with how it does on everything held out.
pub(crate) struct Entrant {
    sizes: Sizes,
    recipe: Recipe,
    /// The recipe of the networks that are scored.
    scored: Recipe,
    /// (steps, outputs); NaN where nothing is held out.
    pub(crate) estimates: Vec<f32>,
    /// The fold's networks that had come furthest when training was asked to stop, and what they were trained on.
    stopped: Option<(Trained, Vec<Range<usize>>)>,
    placement: Placement,
}

/// Training of one fold: its networks, what they were trained on, and the estimates of the steps that it holds out.
struct Fold {
    trained: Trained,
    training: Vec<Range<usize>>,
    rows: Vec<(usize, Vec<f32>)>,
}

/// Training of folds.
struct FoldTrainer<'a> {
    samples: &'a Samples<'a>,
    sizes: &'a Sizes,
    recipe: &'a Recipe,
    placement: &'a Placement,
}

impl FoldTrainer<'_> {
    /// Trains networks on all but each of the first `count` of `folds`, and estimates the fold.
    fn folds(
        &self,
        (folds, count): (&[Vec<Part>], usize),
        progress: &dyn Progress,
    ) -> Vec<Result<Fold>> {
        let epochs = Epochs {
            progress,
            done: AtomicU64::new(0),
            total: (count * self.sizes.networks() * self.recipe.epochs) as u64,
        };
        let each = |k: usize| {
            let others = folds.iter().enumerate().filter(|(other, _)| *other != k);
            let training = runs(others.flat_map(|(_, parts)| parts).map(|part| part.segment));
            let by = (self.sizes, self.recipe);
            let trained = train(self.samples, &training, by, &epochs, self.placement)?;
            let held: Vec<Sequence> = folds[k].iter().map(sequence).collect();
            let mut rows = Vec::new();
            if trained.epochs == self.recipe.epochs {
                trained.estimate(self.samples, &held, |step, row| {
                    rows.push((step, row.iter().map(|&v| v as f32).collect()));
                });
            }
            let is_held = |step: usize| {
                let within = |s: &Segment| (s.start..s.stop).contains(&(step as i64));
                folds[k].iter().any(|part| within(&part.segment))
            };
            rows.retain(|(step, _)| is_held(*step));
            Ok(Fold {
                trained,
                training,
                rows,
            })
        };
        (0..count).into_par_iter().map(each).collect()
    }
}

/// The estimates of `folds`, (steps, outputs), NaN elsewhere.
fn joined(data: &DatasetView<'_>, folds: impl IntoIterator<Item = Fold>) -> Vec<f32> {
    let outputs = data.outputs.len();
    let mut estimates = vec![f32::NAN; data.steps * outputs];
    for (step, row) in folds.into_iter().flat_map(|fold| fold.rows) {
        estimates[step * outputs..][..outputs].copy_from_slice(&row);
    }
    estimates
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
        device: &Device,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &BankChoice,
        kinds: &KindOptions,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let (sizes, recipe) = configured(data, options, kinds)?;
        let scored = Recipe {
            epochs: match scored_early(data, kinds) {
                true => recipe.epochs.min(SCORED_EPOCHS),
                false => recipe.epochs,
            },
            ..recipe
        };
        let samples = Samples::new(*data, options.delay_steps);
        let folds = &found.split.folds;
        let all = runs(data.segments.iter().copied());
        let whole = (folds.len() * scored.epochs).div_ceil(recipe.epochs) + 1;
        let networks = whole * sizes.networks();
        let placement = place(device, &samples, &all, (&sizes, &recipe), networks);
        let trainer = FoldTrainer {
            samples: &samples,
            sizes: &sizes,
            recipe: &scored,
            placement: &placement,
        };
        let made = trainer.folds((folds, folds.len()), progress);
        let complete = (made.iter().flatten()).all(|fold| fold.trained.epochs == scored.epochs);
        if !complete || made.iter().any(Result::is_err) {
            return Self::stopped((sizes, [recipe, scored], placement), made);
        }
        let estimates = joined(data, made.into_iter().flatten());
        Ok(Self {
            sizes,
            recipe,
            scored,
            estimates,
            stopped: None,
            placement,
        })
    }

    /// The same without a score: for [`held_out_each`](Self::held_out_each) of `folds` training sets, and
    /// [`whole`](Self::whole).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a low-pass, and sizes out of range.
    pub(crate) fn unscored(
        device: &Device,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        (kinds, folds): (&KindOptions, usize),
    ) -> Result<Self> {
        let (sizes, recipe) = configured(data, options, kinds)?;
        let samples = Samples::new(*data, options.delay_steps);
        let all = runs(data.segments.iter().copied());
        let networks = (folds + 1) * sizes.networks();
        let placement = place(device, &samples, &all, (&sizes, &recipe), networks);
        Ok(Self {
            sizes,
            recipe,
            scored: recipe,
            estimates: Vec::new(),
            stopped: None,
            placement,
        })
    }

    /// Estimates of the first fold of each of `all`, by networks that are trained on its other folds, by as many gradient
    /// steps as on the whole of `data`; NaN elsewhere.
    ///
    /// # Errors
    /// The errors of training; [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
    pub(crate) fn held_out_each(
        &self,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        all: &[Folds],
        progress: &dyn Progress,
    ) -> Result<Vec<f32>> {
        let samples = Samples::new(*data, options.delay_steps);
        let whole = runs(data.segments.iter().copied());
        let of_fold = |folds: &Folds| {
            let training = folds
                .folds
                .iter()
                .skip(1)
                .flatten()
                .map(|part| part.segment);
            let recipe = self.recipe.as_many_steps(&whole, &runs(training));
            let trainer = FoldTrainer {
                samples: &samples,
                sizes: &self.sizes,
                recipe: &recipe,
                placement: &self.placement,
            };
            let mut made = trainer.folds((&folds.folds, 1), progress);
            match made.pop() {
                Some(Ok(fold)) if fold.trained.epochs < recipe.epochs => Err(Error::new(
                    ErrorKind::Interrupted,
                    "recurrent decoder: stopped while parts were held out",
                )),
                Some(made) => made,
                None => Err(Error::argument(
                    "recurrent decoder: expected a fold, got none",
                )),
            }
        };
        let made: Result<Vec<Fold>> = all.par_iter().map(of_fold).collect();
        Ok(joined(data, made?))
    }

    /// Keeps the networks that had come furthest when the folds were asked to stop.
    ///
    /// # Errors
    /// Returns the first error of `folds` if one failed otherwise, or none had an epoch behind it.
    fn stopped(
        (sizes, [recipe, scored], placement): (Sizes, [Recipe; 2], Placement),
        folds: Vec<Result<Fold>>,
    ) -> Result<Self> {
        let (mut furthest, mut interrupted): (Option<Fold>, _) = (None, None);
        for fold in folds {
            match fold {
                Err(error) if error.kind() == ErrorKind::Interrupted => interrupted = Some(error),
                Err(error) => return Err(error),
                Ok(fold) => {
                    let further = |best: &Fold| fold.trained.epochs > best.trained.epochs;
                    if furthest.as_ref().is_none_or(further) {
                        furthest = Some(fold);
                    }
                }
            }
        }
        match (furthest, interrupted) {
            (None, Some(error)) => Err(error),
            (furthest, _) => Ok(Self {
                sizes,
                recipe,
                scored,
                estimates: Vec::new(),
                stopped: furthest.map(|fold| (fold.trained, fold.training)),
                placement,
            }),
        }
    }

    /// Networks that each training set takes.
    pub(crate) fn networks(&self) -> usize {
        self.sizes.networks()
    }

    /// Report of where the networks are trained.
    pub(crate) fn ran(&self) -> Ran {
        self.placement.ran("recurrent")
    }

    /// True if training was asked to stop before all folds were scored.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Text that describes the chosen configuration.
    pub(crate) fn configuration(&self) -> String {
        let sizes = self.sizes.describe();
        match (self.scored.epochs, self.recipe.epochs) {
            (scored, all) if scored < all => {
                format!("{sizes}, scored after {scored} of {all} epochs")
            }
            _ => sizes,
        }
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
        (sum + below * outputs as f64) * self.sizes.networks() as f64
    }

    /// The decoder of all of `data`, with `record` of its training. If training was asked to stop, that of the networks
    /// so far, and a sentence that says how far they had come.
    ///
    /// # Errors
    /// Returns the errors of training.
    pub(crate) fn whole(
        &self,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        record: TrainingRecord,
        progress: &dyn Progress,
    ) -> Result<(Decoder, Option<String>)> {
        let samples = Samples::new(*data, options.delay_steps);
        let made = (options.delay_steps, record);
        if let Some((trained, training)) = &self.stopped {
            let decoder = trained.decoder(&samples, training, &self.sizes, made)?;
            let why = format!(
                "recurrent decoder: stopped in cross-validation, after {} of {} epochs over all but one fold",
                trained.epochs, self.scored.epochs
            );
            return Ok((decoder, Some(why)));
        }
        let all = runs(data.segments.iter().copied());
        let epochs = Epochs {
            progress,
            done: AtomicU64::new(0),
            total: (self.sizes.networks() * self.recipe.epochs) as u64,
        };
        let trained = train(
            &samples,
            &all,
            (&self.sizes, &self.recipe),
            &epochs,
            &self.placement,
        )?;
        let stopped = (trained.epochs < self.recipe.epochs).then(|| {
            let (done, all) = (trained.epochs, self.recipe.epochs);
            format!("recurrent decoder: stopped after {done} of {all} epochs")
        });
        let decoder = trained.decoder(&samples, &all, &self.sizes, made)?;
        Ok((decoder, stopped))
    }
}

/// The sizes and the recipe that suit `data`, or that `kinds` names.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a low-pass, and sizes out of range.
fn configured(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    kinds: &KindOptions,
) -> Result<(Sizes, Recipe)> {
    if options.low_pass.is_some() {
        return Err(Error::argument(
            "recurrent decoder: expected no low-pass, which its networks learn where they need one, got one",
        ));
    }
    let usual = match (has_trials(data), kinds.epochs) {
        (true, None) => Recipe::of_trials(&runs(data.segments.iter().copied())),
        (true, Some(_)) => Recipe::TRIALS,
        (false, _) => Recipe::CONTINUOUS,
    };
    let recipe = Recipe {
        epochs: kinds.epochs.unwrap_or(usual.epochs),
        ..usual
    };
    Ok((Sizes::new(data, kinds)?, recipe))
}

/// True if networks are scored before their last epoch: over trials, in competition with other kinds.
pub(crate) fn scored_early(data: &DatasetView<'_>, kinds: &KindOptions) -> bool {
    kinds.kinds.len() > 1 && has_trials(data)
}

/// The steps of a part that is held out, with the history before it.
fn sequence(part: &Part) -> Sequence {
    once(part.from as usize..part.segment.stop as usize).collect()
}
