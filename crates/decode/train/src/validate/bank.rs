//! The sums of one bank, fold by fold: its best ridge, and what its decoders make of what they have not seen.

use super::all_steps;
use super::rotated::Rotation;
use crate::choice::Paths;
use crate::device::{PathSums, normal_equations};
use crate::fit::{linear, ridge};
use crate::folds::{Folds, Part};
use crate::held_out::{HeldOut, Ridge, SolveTask};
use crate::options::TrainOptions;
use crate::search::{COARSE, REFINED};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_base::progress::{self, Progress, Quiet};
use betz_device::Placement;
use betz_gram::decode::decode;
use betz_gram::gram::SampledError;
use betz_gram::gram::dense::normal_equations_within;
use betz_gram::score::score_estimates;
use betz_gram::solve::{FeatureNames, MaskPolicy, Solution};
use betz_gram::{GramPath, NormalEquations};
use betz_recording::{DatasetView, Segment};
use betz_runtime::model::{Decoder, OutputScore, TrainingRecord};
use betz_runtime::psc::FilterBank;
use rayon::prelude::*;
use std::sync::Arc;

/// Folds that all ridges are compared on; those that are far behind are not tried with the others.
const FIRST_FOLDS: usize = 2;

/// With fewer steps in those folds the others may decide otherwise, so that all ridges are compared on all folds.
const FEWEST_STEPS: u64 = 2_000;

/// A ridge whose mean R² is lower than the best by more than this is far behind.
const FAR_BEHIND: f64 = 0.01;

/// Features of folds that are computed side by side, at most. The products and factors of more features keep all processors busy
/// by themselves, and take much memory.
const MOST_SIDE_BY_SIDE: usize = 1_024;

/// Squared residuals of each output at each ridge, of one fold.
type FoldResiduals = Vec<Result<Vec<f64>>>;

/// The sums of one bank, fold by fold, and its best ridge.
pub(crate) struct BankSums {
    pub(crate) bank: FilterBank,
    pub(crate) folds: Vec<NormalEquations>,
    pub(crate) total: NormalEquations,
    /// The coordinates of the sums, where they are not those of the features: there are fewer steps than features.
    pub(crate) rotation: Option<Arc<Rotation>>,
    /// A bank of one filter, which stands for every coordinate.
    coordinate: FilterBank,
    pub(crate) paths: Paths,
    /// The path to Γ that was taken.
    pub(crate) path: GramPath,
    pub(crate) gram_error: Option<SampledError>,
    pub(crate) whole: bool,
    pub(crate) best: TriedRidge,
}

/// A ridge and its mean R² over outputs on held-out data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TriedRidge {
    pub(crate) ridge: Ridge,
    pub(crate) r2: f64,
}

/// Data and options shared by every bank and every fold of cross-validation.
pub(crate) struct Study<'a> {
    pub(crate) placement: &'a Placement,
    pub(crate) data: DatasetView<'a>,
    pub(crate) options: &'a TrainOptions,
    /// True if cross-validation chooses the ridge.
    pub(crate) search_ridge: bool,
    pub(crate) progress: &'a dyn Progress,
}

impl Study<'_> {
    /// True if folds of so many features are computed side by side. Devices work on one fold after another, and so does the
    /// CPU if the seconds of each part are asked for, since parts do not overlap then.
    pub(crate) fn runs_side_by_side(&self, features: usize) -> bool {
        features <= MOST_SIDE_BY_SIDE
            && self.placement.contexts().is_empty()
            && !self.progress.wants_seconds()
    }

    /// Sums over `parts`, each with its history: those from where its filters start, less those before
    /// it begins. Parts that are shorter than their histories are filtered together instead.
    pub(crate) fn sums_of(
        &self,
        (bank, rotation): (&FilterBank, Option<&Rotation>),
        parts: &[Part],
        paths: Paths,
    ) -> Result<PathSums> {
        if let Some(rotation) = rotation {
            return Ok(PathSums {
                sums: rotation.sums_of(&self.data, self.options.delay_steps, parts)?,
                path: GramPath::Dense,
                sampled_way: None,
                gram_error: None,
            });
        }
        let over = |segments: Vec<Segment>, paths| {
            let (part, told) = (self.data.with_segments(&segments), Quiet(self.progress));
            normal_equations(self.placement, paths, &part, self.options, bank, &told)
        };
        let (at_rest, cut): (Vec<&Part>, Vec<&Part>) =
            parts.iter().partition(|p| p.from == p.segment.start);
        let mut found = over(at_rest.iter().map(|p| p.segment).collect(), paths)?;
        let histories: i64 = cut.iter().map(|p| p.segment.start - p.from).sum();
        let steps: usize = cut.iter().map(|p| p.segment.len()).sum();
        if histories as u64 > steps as u64 {
            found.sums.add(&self.sums_of_short(bank, &cut)?)?;
            found.path = GramPath::Dense;
            return Ok(found);
        }
        for part in cut {
            let (start, stop) = (part.segment.start, part.segment.stop);
            let stretch = |stop| {
                vec![Segment {
                    start: part.from,
                    stop,
                }]
            };
            let with_history = over(stretch(stop), paths.taken(found.path))?;
            found.sums.add(&with_history.sums)?;
            let history = over(stretch(start), paths.taken(with_history.path))?;
            found.sums.subtract(&history.sums)?;
            found.gram_error = joined(found.gram_error, with_history.gram_error);
        }
        Ok(found)
    }

    /// Sums over many short parts, whose histories overlap, on the CPU: each step is filtered once, and only those of the parts
    /// are multiplied.
    fn sums_of_short(&self, bank: &FilterBank, parts: &[&Part]) -> Result<NormalEquations> {
        let TrainOptions {
            low_pass,
            delay_steps,
            ..
        } = *self.options;
        // A partner before the part is in its history.
        let counted = parts.iter().map(|part| Segment {
            start: (part.segment.start - delay_steps.abs()).max(part.from),
            stop: part.segment.stop,
        });
        let counted: Vec<Segment> = counted.collect();
        let around = stretches(parts);
        let data = self.data.with_segments(&around);
        let told = Quiet(self.progress);
        normal_equations_within(data, &counted, (bank, low_pass), delay_steps, &told)
    }
}

/// The steps that the filters of `parts` run through: one stretch for parts whose histories begin before the part before ends.
fn stretches(parts: &[&Part]) -> Vec<Segment> {
    let mut stretches: Vec<Segment> = Vec::new();
    for part in parts {
        match stretches.last_mut() {
            // Where one ends and the next begins may be the border of two trials.
            Some(last) if part.from < last.stop => last.stop = part.segment.stop,
            _ => stretches.push(Segment {
                start: part.from,
                stop: part.segment.stop,
            }),
        }
    }
    stretches
}

/// Both samples joined, if there are two.
fn joined(a: Option<SampledError>, b: Option<SampledError>) -> Option<SampledError> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.and(b)),
        (a, b) => a.or(b),
    }
}

impl BankSums {
    pub(crate) fn new(
        study: &Study<'_>,
        (bank, rotation): (&FilterBank, Option<&Arc<Rotation>>),
        paths: Paths,
        split: &Folds,
        told: &dyn Fn(usize),
    ) -> Result<Self> {
        let Study { data, options, .. } = study;
        let features = match rotation {
            Some(_) => all_steps(data, options.delay_steps) as usize,
            None => data.channels() * bank.len(),
        };
        betz_base::memory::plan(
            format_args!(
                "the sums of {} folds over {features} features ({} channels, {} filters)",
                split.folds.len(),
                data.channels(),
                bank.len()
            ),
            // Sums of each fold and of what is left without it; then systems, factors and tiles.
            (split.folds.len() as u128 * 2 + 12) * (features as u128).pow(2) * 8,
        )?;
        let mut folds = Vec::with_capacity(split.folds.len());
        let (mut path, mut gram_error) = (options.gram, None);
        let of = (bank, rotation.map(Arc::as_ref));
        let mut add = |found: PathSums| {
            path = found.path;
            gram_error = joined(gram_error.take(), found.gram_error);
            folds.push(found.sums);
            // One path for all folds, so that their sums come from the same arithmetic.
            paths.taken(path)
        };
        let Some((first, others)) = split.folds.split_first() else {
            return Err(Error::argument(
                "cross-validation: expected a fold, got none",
            ));
        };
        told(0);
        let mut next = add(study.sums_of(of, first, paths)?);
        if study.runs_side_by_side(features) {
            let found: Vec<Result<PathSums>> = others
                .par_iter()
                .map(|parts| study.sums_of(of, parts, next))
                .collect();
            for found in found {
                add(found?);
            }
        } else {
            for (k, parts) in others.iter().enumerate() {
                told(k + 1);
                next = add(study.sums_of(of, parts, next)?);
            }
        }
        told(split.folds.len());
        let mut sums = Self::from_folds(bank, folds, (paths, path), options, split.whole)?;
        sums.gram_error = gram_error;
        sums.rotation = rotation.cloned();
        Ok(sums)
    }

    /// From the sums of every fold.
    pub(crate) fn from_folds(
        bank: &FilterBank,
        folds: Vec<NormalEquations>,
        (paths, path): (Paths, GramPath),
        options: &TrainOptions,
        whole: bool,
    ) -> Result<Self> {
        let shape = folds.first().map_or((0, 0), |f| (f.features, f.outputs));
        let mut total = NormalEquations::zeros(shape.0, shape.1);
        for fold in &folds {
            total.add(fold)?;
        }
        for (k, fold) in folds.iter().enumerate() {
            if fold.steps == 0 || fold.steps == total.steps {
                return Err(Error::new(
                    ErrorKind::InsufficientData,
                    format!(
                        "cross-validation: expected steps with the behaviour of {} steps before in the same trial, inside and outside of fold {k}, got {} of {} inside; use trials that are longer than the delay, a shorter delay, or fewer folds",
                        options.delay_steps, fold.steps, total.steps
                    ),
                ));
            }
        }
        Ok(Self {
            bank: bank.clone(),
            folds,
            total,
            rotation: None,
            coordinate: bank.first(),
            paths,
            path,
            gram_error: None,
            whole,
            best: TriedRidge {
                ridge: Ridge::Relative(0.0),
                r2: f64::NAN,
            },
        })
    }

    /// Finds the ridge with the smallest residuals over the folds.
    pub(crate) fn choose(&self, study: &Study<'_>) -> Result<TriedRidge> {
        let Study { data, options, .. } = study;
        let solving = self.solving(study, study.search_ridge);
        // If no output changes, any ridge will do: the largest.
        let best = |choices: Vec<Result<TriedRidge>>| {
            choices.into_iter().reduce(|a, b| match (a, b) {
                (Ok(a), Ok(b)) => Ok(if a.r2 > b.r2 { a } else { b }),
                (Ok(c), Err(_)) | (_, Ok(c)) => Ok(c),
                (Err(e), Err(_)) => Err(e),
            })
        };
        let none = || Error::argument("cross-validation: expected a ridge, got none");
        if !study.search_ridge {
            let steps = all_steps(data, options.delay_steps);
            let lambda = ridge(data, &self.bank, options, steps)?;
            let as_given = [Ridge::PerStep(lambda / steps as f64)];
            let as_given = self.held_out_r2(study, solving, &as_given)?;
            return best(as_given).ok_or_else(none)?;
        }
        let power = |p: f64| Ridge::Relative(float::powf(10.0, p));
        let grid: Vec<Ridge> = COARSE.map(|p| power(f64::from(p))).collect();
        let coarse = match best(self.held_out_r2(study, solving, &grid)?).ok_or_else(none)? {
            // A training set without any response has no scale to take a ridge from; how channels are
            // masked says what is wrong with it.
            Err(e) if e.kind() == ErrorKind::NotPositiveDefinite => {
                let masking = self.solving(study, false);
                best(self.held_out_r2(study, masking, &grid[..1])?).ok_or_else(none)??
            }
            coarse => coarse?,
        };
        let Ridge::Relative(rho) = coarse.ridge else {
            return Ok(coarse);
        };
        let around = REFINED.map(|step| power(float::log10(rho) + step));
        let mut choices = self.held_out_r2(study, solving, &around)?;
        choices.push(Ok(coarse));
        best(choices).ok_or_else(none)?
    }

    /// Number of features, whatever the coordinates of the sums.
    pub(crate) fn features(&self) -> usize {
        (self.rotation.as_ref()).map_or(self.total.features, |rotation| rotation.features)
    }

    /// Names of the columns of the sums.
    pub(crate) fn names<'a>(&'a self, channels: &'a [String]) -> FeatureNames<'a> {
        match self.rotation {
            Some(_) => FeatureNames {
                channels: &[],
                bank: &self.coordinate,
            },
            None => FeatureNames {
                channels,
                bank: &self.bank,
            },
        }
    }

    /// The sums over every step of `data`, whose sums over the folds are `of_folds`: these, if the folds leave no step
    /// out.
    ///
    /// # Errors
    /// Returns the errors of the sums.
    pub(crate) fn over_all(
        &self,
        placement: &Placement,
        (data, of_folds): (&DatasetView<'_>, &NormalEquations),
        options: &TrainOptions,
        progress: &dyn Progress,
    ) -> Result<NormalEquations> {
        match &self.rotation {
            _ if self.whole => Ok(of_folds.clone()),
            Some(rotation) => rotation.sums(data, options.delay_steps),
            None => {
                let (paths, bank) = (self.paths.taken(self.path), &self.bank);
                Ok(normal_equations(placement, paths, data, options, bank, progress)?.sums)
            }
        }
    }

    /// `solution` of sums in these coordinates, by features.
    pub(crate) fn by_features(&self, solution: Solution) -> Solution {
        match &self.rotation {
            Some(rotation) => rotation.restore_solution(&solution),
            None => solution,
        }
    }

    /// The λ of the choice for all of `data`: steps between folds, which no fold has, count too.
    pub(crate) fn ridge_of_all(&self, data: &DatasetView<'_>, delay_steps: i64) -> f64 {
        let (seen, all) = (self.total.steps, all_steps(data, delay_steps));
        self.best.ridge.lambda(&self.total, self.features()) * (all as f64 / seen as f64)
    }

    /// Mean R² over outputs that change, of everything held out, at each of `ridges`; an error for
    /// one that is too small to solve with (a bank whose filters nearly say the same).
    fn held_out_r2(
        &self,
        study: &Study<'_>,
        solving: SolveTask<'_>,
        ridges: &[Ridge],
    ) -> Result<Vec<Result<TriedRidge>>> {
        let progress = study.progress;
        let mut residual = vec![Ok(vec![0.0; self.total.outputs]); ridges.len()];
        let squares = self.total.output_total_squares();
        let r2 = |residual: &[f64]| {
            let changes = |o: &usize| squares[*o] > 1e-12 * self.total.output_sq_sum[*o];
            let known: Vec<f64> = (0..squares.len())
                .filter(changes)
                .map(|o| 1.0 - residual[o] / squares[o])
                .collect();
            known.iter().sum::<f64>() / known.len() as f64
        };
        let (first, others) = self.folds.split_at(FIRST_FOLDS.min(self.folds.len()));
        let seen: u64 = first.iter().map(|fold| fold.steps).sum();
        for (before, folds) in [(0, first), (first.len(), others)] {
            progress::check(progress, "cross-validate")?;
            if before > 0 && seen >= FEWEST_STEPS {
                let share = seen as f64 / self.total.steps as f64;
                drop_far_behind(&mut residual, r2, FAR_BEHIND * share);
            }
            // A ridge that was too small for one fold, or is far behind, is not tried with the next.
            let is_tried = |left: &Result<Vec<f64>>| {
                left.as_ref()
                    .is_ok_and(|left| !left.contains(&f64::INFINITY))
            };
            let (mut so_far, tried): (Vec<_>, Vec<Ridge>) = (residual.iter_mut().zip(ridges))
                .filter(|(left, _)| is_tried(left))
                .map(|(left, &ridge)| (left, ridge))
                .unzip();
            if tried.is_empty() {
                break;
            }
            for (number, left) in (before..).zip(self.residuals(study, solving, folds, &tried)?) {
                let place = |e: Error| match e.kind() {
                    ErrorKind::NotPositiveDefinite => Error::new(
                        e.kind(),
                        format!(
                            "without fold {number} of {}: {}; give fewer --folds, or leave out with --segments what has no spikes",
                            self.folds.len(),
                            e.message()
                        ),
                    ),
                    _ => e,
                };
                for (so_far, left) in so_far.iter_mut().zip(left) {
                    match (&mut **so_far, left) {
                        (Ok(sum), Ok(left)) => sum.iter_mut().zip(left).for_each(|(r, l)| *r += l),
                        (Ok(_), Err(error)) => **so_far = Err(place(error)),
                        (Err(_), _) => {}
                    }
                }
            }
        }
        let choices = ridges.iter().zip(residual);
        Ok(choices
            .map(|(&ridge, left)| {
                left.map(|left| TriedRidge {
                    ridge,
                    r2: r2(&left),
                })
            })
            .collect())
    }

    /// [`HeldOut::residuals`] of each of `folds`.
    fn residuals(
        &self,
        study: &Study<'_>,
        solving: SolveTask<'_>,
        folds: &[NormalEquations],
        ridges: &[Ridge],
    ) -> Result<Vec<FoldResiduals>> {
        let side_by_side = study.runs_side_by_side(self.total.features);
        let of_fold = |fold: &NormalEquations| {
            progress::check(study.progress, "cross-validate")?;
            HeldOut::new(solving, &self.total, fold)?.residuals(ridges, side_by_side)
        };
        match side_by_side {
            true => folds.par_iter().map(of_fold).collect(),
            false => folds.iter().map(of_fold).collect(),
        }
    }

    fn solving<'a>(&'a self, study: &Study<'a>, search_ridge: bool) -> SolveTask<'a> {
        SolveTask {
            placement: study.placement,
            features: self.features(),
            solver: study.options.solver,
            // A ridge that is too small is passed over: masking would take one channel after another,
            // with a factorisation each.
            mask: if search_ridge {
                MaskPolicy::Refuse
            } else {
                study.options.mask
            },
            names: self.names(study.data.channel_names),
        }
    }

    /// Returns one decoder for each of the first `count` folds, trained on the other folds, at the best ridge.
    pub(crate) fn decoders(&self, study: &Study<'_>, count: usize) -> Result<Vec<Decoder>> {
        let options = TrainOptions {
            bank: self.bank.clone(),
            ..study.options.clone()
        };
        let solving = self.solving(study, study.search_ridge);
        let of_fold = |fold: &NormalEquations| {
            let solution = HeldOut::new(solving, &self.total, fold)?.solve(self.best.ridge)?;
            let solution = self.by_features(solution);
            linear(&study.data, &options, TrainingRecord::default(), solution)
        };
        let folds = &self.folds[..count.min(self.folds.len())];
        match study.runs_side_by_side(self.total.features) {
            true => folds.par_iter().map(of_fold).collect(),
            false => folds.iter().map(of_fold).collect(),
        }
    }

    /// The paths that its sums took.
    pub(crate) fn own_paths(&self) -> Paths {
        self.paths.taken(self.path)
    }

    /// Decodes each fold with the decoder trained on the other folds, and scores all of them together.
    pub(crate) fn decode_folds(
        &self,
        study: &Study<'_>,
        split: &Folds,
    ) -> Result<(Vec<f32>, Vec<OutputScore>)> {
        let Study { data, options, .. } = study;
        let estimates = self.decode_first(study, split, split.folds.len())?;
        let held: Vec<Segment> = split.folds.iter().flatten().map(|p| p.segment).collect();
        let held = data.with_segments(&held);
        let scores = score_estimates(held, &estimates, options.delay_steps)?.outputs;
        Ok((estimates, scores))
    }

    /// Estimates of the first `count` folds, each by the decoder trained on the other folds: (steps, outputs), NaN elsewhere.
    pub(crate) fn decode_first(
        &self,
        study: &Study<'_>,
        split: &Folds,
        count: usize,
    ) -> Result<Vec<f32>> {
        let data = &study.data;
        let mut estimates = vec![f32::NAN; data.steps * data.outputs.len()];
        for (decoder, parts) in self.decoders(study, count)?.iter().zip(&split.folds) {
            let n = data.outputs.len();
            let mut keep = |segments: Vec<Segment>, parts: &[&Part]| -> Result<()> {
                let decoded = decode(decoder, data.with_segments(&segments))?;
                for part in parts {
                    let rows = part.segment.start as usize * n..part.segment.stop as usize * n;
                    estimates[rows.clone()].copy_from_slice(&decoded[rows]);
                }
                Ok(())
            };
            let (at_rest, cut): (Vec<&Part>, _) =
                parts.iter().partition(|p| p.from == p.segment.start);
            if !at_rest.is_empty() {
                keep(at_rest.iter().map(|p| p.segment).collect(), &at_rest)?;
            }
            if !cut.is_empty() {
                keep(stretches(&cut), &cut)?;
            }
        }
        Ok(estimates)
    }
}

/// Makes infinite what ridges leave whose `r2` is lower than the best by more than `most`.
fn drop_far_behind(residual: &mut [Result<Vec<f64>>], r2: impl Fn(&[f64]) -> f64, most: f64) {
    let known = residual.iter().flatten().map(|left| r2(left));
    // NaN, where no output changes, is below nothing.
    let least = known.fold(f64::NAN, f64::max) - most;
    for left in residual.iter_mut().flatten() {
        if r2(left) < least {
            left.fill(f64::INFINITY);
        }
    }
}

#[cfg(test)]
mod tests;
