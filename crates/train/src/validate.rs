//! Cross-validation: finds the ridge and the bank that decode held-out data best.
//!
//! Sums are additive, so each fold's sums are computed once per bank: the sums of a training set are the total minus
//! those of the held-out fold. (Pieces of a segment that had to be cut are computed with the history before them, which
//! is then subtracted.) Ridges are compared from these sums alone; the reported scores come from decoding the held-out
//! data.

use super::blank::{Artefacts, CleanData};
use super::choice::{Paths, choose};
use super::device::{PathSums, Trained, decoder_from_sums, normal_equations, train_at};
use super::fit::{check, linear, ridge};
use super::folds::{Folds, Part, folds};
use super::held_out::{HeldOut, Ridge, SolveTask};
use super::search::{COARSE, REFINED, Search};
use crate::options::{RidgeChoice, TrainOptions};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Phases, Progress, Quiet};
use betz_device::{Device, Placement};
use betz_gram::decode::decode;
use betz_gram::gram::{SampledError, paired_steps};
use betz_gram::score::score_estimates;
use betz_gram::solve::{FeatureNames, MaskPolicy};
use betz_gram::{GramPath, NormalEquations};
use betz_recording::{DatasetView, Segment};
use betz_runtime::model::{Decoder, OutputScore, TrainingRecord};
use betz_runtime::psc::FilterBank;

/// Mean lifetimes of the slowest filter between two pieces of one segment.
const GUARD_LIFETIMES: usize = 3;

/// Mean lifetimes of the slowest filter that a piece's filters run before it begins.
const HISTORY_LIFETIMES: usize = 5;

/// Result of cross-validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// The best of the banks.
    pub bank: FilterBank,
    /// λ for the whole recording.
    pub ridge: f64,
    /// Number of folds used (fewer than requested if there are too few steps).
    pub folds: usize,
    /// Scores over all held-out steps, each decoded by the decoder that was not trained on it.
    pub scores: Vec<OutputScore>,
    /// Mean R² over outputs of each bank, at its best ridge, in the order of the search.
    pub bank_r2: Vec<f64>,
}

/// [`train_validated_on`] the CPU.
///
/// # Errors
/// Returns the errors of [`train_validated_on`].
pub fn train_validated<'d>(
    data: impl Into<DatasetView<'d>>,
    options: &TrainOptions,
    search: &Search,
    progress: &dyn Progress,
) -> Result<Decoder> {
    let data = &data.into();
    let trained = train_validated_on(&Device::cpu(), data, options, search, progress)?;
    Ok(trained.decoder)
}

/// Trains with the ridge and the bank that cross-validate best, and records their scores.
///
/// `device` computes Γ and Υ of every fold, and solves the systems whose ridges are compared ([`choose`] resolves
/// [`Device::auto`] once for all of this). The folds' sums stay in host memory, and the CPU decodes the held-out data,
/// which takes a small part of the time.
///
/// Memory: (folds + 5) × features² × 8 bytes for the current bank, and (folds + 1) × features² × 8 bytes for the best
/// one so far.
///
/// # Errors
/// The errors of [`train_on`](super::train_on); [`ErrorKind::InvalidArgument`] for a number of folds out of range, and
/// [`ErrorKind::InsufficientData`] if there are too few steps for folds.
pub fn train_validated_on<'d>(
    device: &Device,
    data: impl Into<DatasetView<'d>>,
    options: &TrainOptions,
    search: &Search,
    progress: &dyn Progress,
) -> Result<Trained> {
    let data = &data.into();
    let cleaned = CleanData::new(data, options)?;
    let data = &cleaned.view(data);
    let mut phases = Phases::new(progress, "training", SEARCH + FINISH);
    let found = cross_validate_banks(device, data, options, search, &phases.next(SEARCH))?;
    Ok(Trained {
        artefacts: cleaned.artefacts,
        ..finish(data, options, found, &phases.next(FINISH))?
    })
}

/// Shares of the time that cross-validation takes, and training on the whole if the folds leave steps out.
const SEARCH: u64 = 9;
const FINISH: u64 = 1;

/// The linear decoder that cross-validation found, trained on the whole of `data`, which holds no
/// artefacts.
pub(super) fn finish(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    found: BankChoice,
    progress: &dyn Progress,
) -> Result<Trained> {
    let BankChoice {
        placement,
        validation,
        bank,
        ..
    } = found;
    let options = TrainOptions {
        bank: validation.bank,
        ridge: RidgeChoice::Fixed(validation.ridge),
        ..options.clone()
    };
    let trained = if bank.whole {
        let (total, path) = (&bank.total, bank.path);
        Trained {
            decoder: decoder_from_sums(&placement, data, &options, total, path, progress)?,
            ran: placement.ran(path.name()),
            gram_error: bank.gram_error,
            artefacts: Artefacts::default(),
        }
    } else {
        let paths = bank.paths.taken(bank.path);
        train_at(&placement, paths, data, &options, progress)?
    };
    let training = TrainingRecord {
        folds: validation.folds as u32,
        scores: validation.scores,
        ..trained.decoder.training().clone()
    };
    Ok(Trained {
        decoder: trained.decoder.with_training(training),
        ..trained
    })
}

/// Chooses bank and ridge and scores them, without training on the whole recording.
///
/// # Errors
/// The same as for [`train_validated`].
pub fn cross_validate<'d>(
    data: impl Into<DatasetView<'d>>,
    options: &TrainOptions,
    search: &Search,
    progress: &dyn Progress,
) -> Result<Validation> {
    let data = &data.into();
    let cleaned = CleanData::new(data, options)?;
    let data = &cleaned.view(data);
    Ok(cross_validate_banks(&Device::cpu(), data, options, search, progress)?.validation)
}

/// Result of cross-validation, with its sums and placement.
pub(super) struct BankChoice {
    pub(super) placement: Placement,
    pub(super) validation: Validation,
    pub(super) bank: BankSums,
    pub(super) split: Folds,
    /// Estimates of every held-out step, (steps, outputs); NaN elsewhere.
    pub(super) estimates: Vec<f32>,
}

impl BankChoice {
    /// `decoder`, trained from the sums that were found.
    pub(super) fn trained(&self, decoder: Decoder) -> Trained {
        Trained {
            decoder,
            ran: self.placement.ran(self.bank.path.name()),
            gram_error: self.bank.gram_error,
            artefacts: Artefacts::default(),
        }
    }
}

/// The sums of one bank, fold by fold, and its best ridge.
pub(super) struct BankSums {
    pub(super) bank: FilterBank,
    pub(super) folds: Vec<NormalEquations>,
    pub(super) total: NormalEquations,
    pub(super) paths: Paths,
    /// The path to Γ that was taken.
    pub(super) path: GramPath,
    pub(super) gram_error: Option<SampledError>,
    pub(super) whole: bool,
    pub(super) best: TriedRidge,
}

/// A ridge and its mean R² over outputs on held-out data.
#[derive(Debug, Clone, Copy)]
pub(super) struct TriedRidge {
    pub(super) ridge: Ridge,
    pub(super) r2: f64,
}

/// Cross-validates; `data` holds no artefacts.
///
/// # Errors
/// The same as for [`train_validated`].
pub(super) fn cross_validate_banks(
    device: &Device,
    data: &DatasetView<'_>,
    options: &TrainOptions,
    search: &Search,
    progress: &dyn Progress,
) -> Result<BankChoice> {
    let by_segments = |guard, history| folds(data.segments, search.folds, guard, history);
    cross_validate_banks_in(device, (data, &by_segments), options, search, progress)
}

/// Splits a recording into folds, given the steps between two pieces of one segment and the steps of history of a piece.
pub(super) type SplitBy<'a> = &'a dyn Fn(usize, usize) -> Result<Folds>;

/// The same as [`cross_validate_banks`], on the folds that `split` makes.
///
/// # Errors
/// The same as for [`train_validated`], and those of `split`.
pub(super) fn cross_validate_banks_in(
    device: &Device,
    (data, split): (&DatasetView<'_>, SplitBy<'_>),
    options: &TrainOptions,
    search: &Search,
    progress: &dyn Progress,
) -> Result<BankChoice> {
    let own = std::slice::from_ref(&options.bank);
    let banks = if search.banks.is_empty() {
        own
    } else {
        &search.banks
    };
    check(data, banks)?;
    let chosen = choose(device, data, options, Some(search));
    let placement = chosen.placement;
    let (guard, history) = spans(banks, data.step_seconds, options.delay_steps);
    let split = split(guard, history)?;
    let mut best: Option<BankSums> = None;
    let mut bank_r2 = Vec::with_capacity(banks.len());
    let study = Study {
        placement: &placement,
        data: *data,
        options,
        search_ridge: search.ridge,
        progress,
    };
    // The sums of a bank take time by the square of its filters; its ridge takes that of two folds, and decoding the
    // folds in the end that of three.
    let weight = |bank: &FilterBank| bank.len() as u64 * bank.len() as u64;
    let of_bank = |bank: &FilterBank| weight(bank) * (split.folds.len() as u64 + 2);
    let last = banks.last().map_or(0, |bank| 3 * weight(bank));
    let all = banks.iter().map(of_bank).sum::<u64>() + last;
    let mut before = 0;
    for (bank, &paths) in banks.iter().zip(&chosen.paths) {
        let told = |done: usize| {
            progress.update("cross-validate", before + weight(bank) * done as u64, all);
        };
        let mut sums = BankSums::new(&study, bank, paths, &split, &told)?;
        sums.best = sums.choose(&study)?;
        before += of_bank(bank);
        progress.update("cross-validate", before, all);
        bank_r2.push(sums.best.r2);
        // NaN (no output changes) never replaces the best so far.
        if best.as_ref().is_none_or(|b| sums.best.r2 > b.best.r2) {
            best = Some(sums);
        }
    }
    let best =
        best.ok_or_else(|| Error::argument("cross-validation: expected a bank, got none"))?;
    let (estimates, scores) = best.decode_folds(&study, &split)?;
    let validation = Validation {
        bank: best.bank.clone(),
        ridge: best.ridge_of_all(data, options.delay_steps),
        folds: split.folds.len(),
        scores,
        bank_r2,
    };
    Ok(BankChoice {
        placement,
        validation,
        bank: best,
        split,
        estimates,
    })
}

/// Steps between two pieces of one segment, and steps that a piece's filters run before it begins.
pub(super) fn spans(banks: &[FilterBank], step_seconds: f64, delay_steps: i64) -> (usize, usize) {
    let lifetime = lifetime(banks, step_seconds) as usize;
    let delay = usize::try_from(delay_steps.unsigned_abs()).unwrap_or(usize::MAX);
    let steps = |lifetimes: usize| lifetimes.saturating_mul(lifetime).saturating_add(delay);
    (steps(GUARD_LIFETIMES), steps(HISTORY_LIFETIMES))
}

/// Mean lifetime (n + 1)·τ of the slowest filter, in steps, rounded up.
fn lifetime(banks: &[FilterBank], step_seconds: f64) -> f64 {
    let filters = banks.iter().flat_map(FilterBank::filters);
    let longest = filters
        .map(|f| f.tau_seconds * f64::from(f.order + 1))
        .fold(0.0, f64::max);
    (longest / step_seconds).ceil()
}

/// Paired steps of every segment of `data`.
pub(super) fn all_steps(data: &DatasetView<'_>, delay_steps: i64) -> u64 {
    let paired = (data.segments.iter()).filter_map(|s| paired_steps(s, delay_steps));
    paired.map(|(first, stop)| (stop - first) as u64).sum()
}

/// Data and options shared by every bank and every fold of cross-validation.
pub(super) struct Study<'a> {
    pub(super) placement: &'a Placement,
    pub(super) data: DatasetView<'a>,
    pub(super) options: &'a TrainOptions,
    /// True if cross-validation chooses the ridge.
    pub(super) search_ridge: bool,
    pub(super) progress: &'a dyn Progress,
}

impl Study<'_> {
    /// Sums over `parts`, each with its history: those from where its filters start, less those before
    /// it begins.
    pub(super) fn sums_of(
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
    pub(super) fn new(
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
    pub(super) fn from_folds(
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
                        "cross-validation: expected paired steps inside and outside fold {k}, got {} of {} inside (delay {} steps)",
                        fold.steps, total.steps, options.delay_steps
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
    pub(super) fn choose(&self, study: &Study<'_>) -> Result<TriedRidge> {
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
    pub(super) fn ridge_of_all(&self, data: &DatasetView<'_>, delay_steps: i64) -> f64 {
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
        for (number, fold) in self.folds.iter().enumerate() {
            progress::check(progress, "cross-validate")?;
            // A ridge that was too small for one fold is not tried with the next.
            let (mut so_far, tried): (Vec<_>, Vec<Ridge>) = (residual.iter_mut().zip(ridges))
                .filter(|(left, _)| left.is_ok())
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
        let squares = self.total.output_total_squares();
        let r2 = |residual: &[f64]| {
            let changes = |o: &usize| squares[*o] > 1e-12 * self.total.output_sq_sum[*o];
            let known: Vec<f64> = (0..squares.len())
                .filter(changes)
                .map(|o| 1.0 - residual[o] / squares[o])
                .collect();
            known.iter().sum::<f64>() / known.len() as f64
        };
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
    pub(super) fn decoders(&self, study: &Study<'_>) -> Result<Vec<Decoder>> {
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
    fn decode_folds(
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

#[cfg(test)]
mod tests;
