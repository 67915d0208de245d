//! The sums of one bank, fold by fold: its best ridge, and what its decoders make of what they have not seen.

use super::all_steps;
use crate::choice::Paths;
use crate::device::{PathSums, normal_equations};
use crate::fit::{linear, ridge};
use crate::folds::{Folds, Part};
use crate::held_out::{HeldOut, Ridge, SolveTask};
use crate::options::TrainOptions;
use crate::search::{COARSE, REFINED};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress, Quiet};
use betz_device::Placement;
use betz_gram::decode::decode;
use betz_gram::gram::SampledError;
use betz_gram::score::score_estimates;
use betz_gram::solve::{FeatureNames, MaskPolicy};
use betz_gram::{GramPath, NormalEquations};
use betz_recording::{DatasetView, Segment};
use betz_runtime::model::{Decoder, OutputScore, TrainingRecord};
use betz_runtime::psc::FilterBank;

/// Folds that all ridges are compared on; those that are far behind are not tried with the others.
const FIRST_FOLDS: usize = 2;

/// With fewer steps in those folds the others may decide otherwise, so that all ridges are compared on all folds.
const FEWEST_STEPS: u64 = 2_000;

/// A ridge whose mean R² is lower than the best by more than this is far behind.
const FAR_BEHIND: f64 = 0.01;

/// The sums of one bank, fold by fold, and its best ridge.
pub(crate) struct BankSums {
    pub(crate) bank: FilterBank,
    pub(crate) folds: Vec<NormalEquations>,
    pub(crate) total: NormalEquations,
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
    /// Sums over `parts`, each with its history: those from where its filters start, less those before
    /// it begins.
    pub(crate) fn sums_of(
        &self,
        bank: &FilterBank,
        parts: &[Part],
        paths: Paths,
    ) -> Result<PathSums> {
        let over = |segments: Vec<Segment>, paths| {
            let (part, told) = (self.data.with_segments(&segments), Quiet(self.progress));
            normal_equations(self.placement, paths, &part, self.options, bank, &told)
        };
        let at_rest = parts.iter().filter(|p| p.from == p.segment.start);
        let mut found = over(at_rest.map(|p| p.segment).collect(), paths)?;
        for part in parts.iter().filter(|p| p.from < p.segment.start) {
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
        bank: &FilterBank,
        paths: Paths,
        split: &Folds,
        told: &dyn Fn(usize),
    ) -> Result<Self> {
        let Study { data, options, .. } = study;
        let features = data.channels() * bank.len();
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
        let mut next = paths;
        for (k, parts) in split.folds.iter().enumerate() {
            told(k);
            let found = study.sums_of(bank, parts, next)?;
            // One path for all folds, so that their sums come from the same arithmetic.
            path = found.path;
            next = paths.taken(path);
            gram_error = joined(gram_error, found.gram_error);
            folds.push(found.sums);
        }
        told(split.folds.len());
        let mut sums = Self::from_folds(bank, folds, (paths, path), options, split.whole)?;
        sums.gram_error = gram_error;
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
        let progress = study.progress;
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
            let as_given = self.held_out_r2(solving, &as_given, progress)?;
            return best(as_given).ok_or_else(none)?;
        }
        let power = |p: f64| Ridge::Relative(10f64.powf(p));
        let grid: Vec<Ridge> = COARSE.map(|p| power(f64::from(p))).collect();
        let coarse = match best(self.held_out_r2(solving, &grid, progress)?).ok_or_else(none)? {
            // A training set without any response has no scale to take a ridge from; how channels are
            // masked says what is wrong with it.
            Err(e) if e.kind() == ErrorKind::NotPositiveDefinite => {
                let masking = self.solving(study, false);
                best(self.held_out_r2(masking, &grid[..1], progress)?).ok_or_else(none)??
            }
            coarse => coarse?,
        };
        let Ridge::Relative(rho) = coarse.ridge else {
            return Ok(coarse);
        };
        let around = REFINED.map(|step| power(rho.log10() + step));
        let mut choices = self.held_out_r2(solving, &around, progress)?;
        choices.push(Ok(coarse));
        best(choices).ok_or_else(none)?
    }

    /// The λ of the choice for all of `data`: steps between folds, which no fold has, count too.
    pub(crate) fn ridge_of_all(&self, data: &DatasetView<'_>, delay_steps: i64) -> f64 {
        let (seen, all) = (self.total.steps, all_steps(data, delay_steps));
        self.best.ridge.lambda(&self.total) * (all as f64 / seen as f64)
    }

    /// Mean R² over outputs that change, of everything held out, at each of `ridges`; an error for
    /// one that is too small to solve with (a bank whose filters nearly say the same).
    fn held_out_r2(
        &self,
        solving: SolveTask<'_>,
        ridges: &[Ridge],
        progress: &dyn Progress,
    ) -> Result<Vec<Result<TriedRidge>>> {
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
        let mut steps = 0;
        for (number, fold) in self.folds.iter().enumerate() {
            progress::check(progress, "cross-validate")?;
            if number == FIRST_FOLDS && steps >= FEWEST_STEPS {
                let share = steps as f64 / self.total.steps as f64;
                drop_far_behind(&mut residual, r2, FAR_BEHIND * share);
            }
            steps += fold.steps;
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
            let held = HeldOut::new(solving, &self.total, fold)?;
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
            for (so_far, left) in so_far.iter_mut().zip(held.residuals(&tried)?) {
                match (&mut **so_far, left) {
                    (Ok(sum), Ok(left)) => sum.iter_mut().zip(left).for_each(|(r, l)| *r += l),
                    (so_far, left) => *so_far = left.map_err(place),
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

    fn solving<'a>(&'a self, study: &Study<'a>, search_ridge: bool) -> SolveTask<'a> {
        SolveTask {
            placement: study.placement,
            solver: study.options.solver,
            // A ridge that is too small is passed over: masking would take one channel after another,
            // with a factorisation each.
            mask: if search_ridge {
                MaskPolicy::Refuse
            } else {
                study.options.mask
            },
            names: FeatureNames {
                channels: study.data.channel_names,
                bank: &self.bank,
            },
        }
    }

    /// Returns one decoder per fold, trained on the other folds, at the best ridge.
    pub(crate) fn decoders(&self, study: &Study<'_>) -> Result<Vec<Decoder>> {
        let options = TrainOptions {
            bank: self.bank.clone(),
            ..study.options.clone()
        };
        let solving = self.solving(study, study.search_ridge);
        let decoders = self.folds.iter().map(|fold| {
            let solution = HeldOut::new(solving, &self.total, fold)?.solve(self.best.ridge)?;
            linear(&study.data, &options, TrainingRecord::default(), solution)
        });
        decoders.collect()
    }

    /// Decodes each fold with the decoder trained on the other folds, and scores all of them together.
    pub(crate) fn decode_folds(
        &self,
        study: &Study<'_>,
        split: &Folds,
    ) -> Result<(Vec<f32>, Vec<OutputScore>)> {
        let Study { data, options, .. } = study;
        let mut estimates = vec![f32::NAN; data.steps * data.outputs.len()];
        for (decoder, parts) in self.decoders(study)?.iter().zip(&split.folds) {
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
            for part in cut {
                let (start, stop) = (part.from, part.segment.stop);
                keep(vec![Segment { start, stop }], &[part])?;
            }
        }
        let held: Vec<Segment> = split.folds.iter().flatten().map(|p| p.segment).collect();
        let held = data.with_segments(&held);
        let scores = score_estimates(held, &estimates, options.delay_steps)?.outputs;
        Ok((estimates, scores))
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
mod tests {
    use super::*;

    #[test]
    fn ridges_that_are_far_behind_are_dropped() {
        let r2 = |left: &[f64]| 1.0 - left[0];
        let singular = || Err(Error::argument("singular"));
        let mut residual = vec![Ok(vec![0.3]), Ok(vec![0.295]), singular(), Ok(vec![0.31])];
        drop_far_behind(&mut residual, r2, 0.01);
        assert_eq!(residual[0], Ok(vec![0.3]));
        assert_eq!(residual[1], Ok(vec![0.295]));
        assert!(residual[2].is_err());
        assert_eq!(residual[3], Ok(vec![f64::INFINITY]));
        let mut unknown = vec![Ok(vec![f64::NAN]), Ok(vec![f64::NAN])];
        drop_far_behind(&mut unknown, r2, 0.01);
        assert!(
            unknown
                .iter()
                .all(|left| left.as_ref().is_ok_and(|l| l[0].is_nan()))
        );
    }
}
