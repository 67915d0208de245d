//! Cross-validation: finds the ridge and the bank that decode held-out data best.
//!
//! Sums are additive, so each fold's sums are computed once per bank: the sums of a training set are the total minus
//! those of the held-out fold. (Pieces of a segment that had to be cut are computed with the history before them, which
//! is then subtracted.) Ridges are compared from these sums alone; the reported scores come from decoding the held-out
//! data.

mod bank;
mod rotated;

use super::blank::{Artefacts, CleanData};
use super::choice::choose;
use super::device::{Trained, decoder_from_sums, train_at};
use super::fit::{check, decoder};
use super::folds::{Folds, folds};
use super::search::Search;
use crate::options::{RidgeChoice, TrainOptions};
pub(crate) use bank::{BankSums, Study};
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Phases, Progress};
use betz_device::{Device, Placement};
use betz_gram::gram::paired_steps;
use betz_gram::parts::{CHOOSING, SCORING};
use betz_gram::solve::CentredEquations;
use betz_recording::DatasetView;
use betz_runtime::model::{Decoder, OutputScore, TrainingRecord};
use betz_runtime::psc::FilterBank;
pub(crate) use rotated::Rotation;
use std::sync::Arc;

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
/// The errors of [`train_on`](super::train_on);
/// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) for a number of folds out of range, and
/// [`ErrorKind::InsufficientData`](betz_base::error::ErrorKind::InsufficientData) if there are too few steps for folds.
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
        ..finish(data, options, &found, &phases.next(FINISH))?
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
    found: &BankChoice,
    progress: &dyn Progress,
) -> Result<Trained> {
    let BankChoice {
        placement,
        validation,
        bank,
        ..
    } = found;
    let options = TrainOptions {
        bank: validation.bank.clone(),
        ridge: RidgeChoice::Fixed(validation.ridge),
        ..options.clone()
    };
    let trained = if bank.rotation.is_some() {
        let sums = (data, &bank.total);
        let total = bank.over_all(placement, sums, &options, progress)?;
        let names = bank.names(data.channel_names);
        let ridge = validation.ridge;
        let solution = CentredEquations::new(&total)?;
        let (solver, mask) = (options.solver, options.mask);
        let solution = solution.solve_timed(ridge, solver, mask, names, progress)?;
        let solution = bank.by_features(solution);
        Trained {
            decoder: decoder(
                data,
                &options,
                total.steps,
                ridge,
                bank.path,
                solution,
                None,
            )?,
            ran: placement.ran(bank.path.name()),
            gram_error: None,
            artefacts: Artefacts::default(),
        }
    } else if bank.whole {
        let (total, path) = (&bank.total, bank.path);
        Trained {
            decoder: decoder_from_sums(placement, data, &options, total, path, progress)?,
            ran: placement.ran(path.name()),
            gram_error: bank.gram_error,
            artefacts: Artefacts::default(),
        }
    } else {
        let paths = bank.paths.taken(bank.path);
        train_at(placement, paths, data, &options, progress)?
    };
    let training = TrainingRecord {
        folds: validation.folds as u32,
        scores: validation.scores.clone(),
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
    // Sums that a decoder keeps are those of its features. A ridge of 0 needs more steps than features.
    let may_rotate = search.ridge && options.retain.is_none();
    let most_rows = match may_rotate {
        true => all_steps(data, options.delay_steps) as usize,
        false => usize::MAX,
    };
    check(data, banks, most_rows)?;
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
        let rotation = match may_rotate {
            true => Rotation::new(data, bank, options)?.map(Arc::new),
            false => None,
        };
        let of = (bank, rotation.as_ref());
        let mut sums = BankSums::new(&study, of, paths, &split, &told)?;
        sums.best = progress::time(progress, CHOOSING, || sums.choose(&study))?;
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
    let (estimates, scores) =
        progress::time(progress, SCORING, || best.decode_folds(&study, &split))?;
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
    let sampled = banks.iter().flat_map(FilterBank::sampled);
    let samples = sampled.map(|f| f.stop().max(-f.start()).max(0) as f64);
    samples.fold((longest / step_seconds).ceil(), f64::max)
}

/// Paired steps of every segment of `data`.
pub(super) fn all_steps(data: &DatasetView<'_>, delay_steps: i64) -> u64 {
    let paired = (data.segments.iter()).filter_map(|s| paired_steps(s, delay_steps));
    paired.map(|(first, stop)| (stop - first) as u64).sum()
}

#[cfg(test)]
mod tests;
