//! Cross-validation: the ridge and the bank that decode best what was not trained on.
//!
//! Sums are additive, so each fold's are computed once a bank: the sums of a training set are the
//! total minus those of the fold that is held out. (The pieces of a segment that had to be cut are
//! computed with the history before them, which is then taken away.) Ridges are compared from these sums alone; the
//! scores that are reported come from decoding what was held out.

use super::blank::without_artefacts;
use super::choice::choose;
use super::device::{decoder_from_sums, normal_equations, train_on};
use super::fit::{check, linear, ridge};
use super::folds::{Folds, Part, folds};
use super::gram::paired_steps;
use super::held_out::{HeldOut, Ridge, Solving};
use super::score::score_estimates;
use super::search::{COARSE, REFINED, Search};
use super::solve::{FeatureNames, MaskPolicy};
use super::{GramPath, NormalEquations, RidgeChoice, TrainOptions};
use crate::decode::decode;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress, Quiet};
use betz_device::Device;
use betz_recording::{Dataset, Segment};
use betz_runtime::model::{Decoder, OutputScore, TrainingRecord};
use betz_runtime::psc::FilterBank;

/// Mean lifetimes of the slowest filter between two pieces of one segment.
const GUARD_LIFETIMES: usize = 3;

/// Mean lifetimes of the slowest filter that a piece's filters run before it begins.
const HISTORY_LIFETIMES: usize = 5;

/// What cross-validation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// The best of the banks.
    pub bank: FilterBank,
    /// λ for all of the data.
    pub ridge: f64,
    /// Folds there were (fewer than asked for when there are too few steps).
    pub folds: usize,
    /// Scores of all that was held out, each step decoded by the decoder that did not see it.
    pub scores: Vec<OutputScore>,
    /// Mean R² over outputs of each bank, at its best ridge, in the order of the search.
    pub bank_r2: Vec<f64>,
}

/// [`train_validated_on`] the CPU.
///
/// # Errors
/// As there.
pub fn train_validated(
    data: &Dataset,
    options: &TrainOptions,
    search: &Search,
    progress: &dyn Progress,
) -> Result<Decoder> {
    train_validated_on(&Device::cpu(), data, options, search, progress)
}

/// Trains with the ridge and the bank that cross-validate best, and records their scores.
///
/// Γ and Υ of every fold and the systems whose ridges are compared are computed on `device`
/// ([`Device::auto`] is settled by [`choose`]); the folds' sums are kept in host memory, and what was held
/// out is decoded on the CPU, which takes a small part of the time.
///
/// Memory: (folds + 5) × features² × 8 bytes for the bank at work, and (folds + 1) of the best so
/// far.
///
/// # Errors
/// As [`train_on`] and [`folds`].
pub fn train_validated_on(
    device: &Device,
    data: &Dataset,
    options: &TrainOptions,
    search: &Search,
    progress: &dyn Progress,
) -> Result<Decoder> {
    let (data, _) = without_artefacts(data);
    let found = run(device, &data, options, search, progress)?;
    finish(&data, options, found, progress)
}

/// The linear decoder that cross-validation found, trained on the whole of `data`.
pub(super) fn finish(
    data: &Dataset,
    options: &TrainOptions,
    found: Found,
    progress: &dyn Progress,
) -> Result<Decoder> {
    let Found {
        device,
        validation,
        bank,
        ..
    } = found;
    let options = TrainOptions {
        bank: validation.bank,
        ridge: RidgeChoice::Fixed(validation.ridge),
        ..options.clone()
    };
    let decoder = if bank.whole {
        let (total, path) = (&bank.total, bank.path);
        decoder_from_sums(&device, data, &options, total, path, progress)?
    } else {
        train_on(&device, data, &options, progress)?
    };
    let training = TrainingRecord {
        folds: validation.folds as u32,
        scores: validation.scores,
        ..decoder.training().clone()
    };
    Ok(decoder.with_training(training))
}

/// Chooses and scores without training on the whole.
///
/// # Errors
/// As [`train_validated`].
pub fn cross_validate(
    data: &Dataset,
    options: &TrainOptions,
    search: &Search,
    progress: &dyn Progress,
) -> Result<Validation> {
    Ok(run(&Device::cpu(), data, options, search, progress)?.validation)
}

/// What cross-validation found, on the device that was chosen for it.
pub(super) struct Found {
    pub(super) device: Device,
    pub(super) validation: Validation,
    pub(super) bank: BankSums,
    pub(super) split: Folds,
    /// Of every step that was held out, (steps, outputs); NaN elsewhere.
    pub(super) estimates: Vec<f32>,
}

/// The sums of one bank, fold by fold, and the ridge that suits it best.
pub(super) struct BankSums {
    pub(super) bank: FilterBank,
    pub(super) folds: Vec<NormalEquations>,
    pub(super) total: NormalEquations,
    pub(super) path: GramPath,
    pub(super) whole: bool,
    pub(super) choice: Choice,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub(super) ridge: Ridge,
    r2: f64,
}

pub(super) fn run(
    device: &Device,
    data: &Dataset,
    options: &TrainOptions,
    search: &Search,
    progress: &dyn Progress,
) -> Result<Found> {
    let own = std::slice::from_ref(&options.bank);
    let banks = if search.banks.is_empty() {
        own
    } else {
        &search.banks
    };
    check(data, banks)?;
    let device = choose(device, data, options, Some(search)).device;
    let lifetime = lifetime(banks, data.step_seconds);
    let delay = usize::try_from(options.delay_steps.unsigned_abs()).unwrap_or(usize::MAX);
    let guard = GUARD_LIFETIMES
        .saturating_mul(lifetime as usize)
        .saturating_add(delay);
    let history = HISTORY_LIFETIMES
        .saturating_mul(lifetime as usize)
        .saturating_add(delay);
    let split = folds(&data.segments, search.folds, guard, history)?;
    // One copy, whose segments are those of the fold at hand.
    let mut held = data.clone();
    let mut best: Option<BankSums> = None;
    let mut bank_r2 = Vec::with_capacity(banks.len());
    for (i, bank) in banks.iter().enumerate() {
        let told = |done: usize| {
            let total = banks.len() * split.folds.len();
            progress.update(
                "cross-validate",
                (i * split.folds.len() + done) as u64,
                total as u64,
            );
        };
        let mut sums = BankSums::new(&device, &mut held, options, bank, &split, progress, &told)?;
        sums.choice = sums.choose(&device, data, options, search.ridge, progress)?;
        bank_r2.push(sums.choice.r2);
        // NaN (no output changes) never beats what is there.
        if best.as_ref().is_none_or(|b| sums.choice.r2 > b.choice.r2) {
            best = Some(sums);
        }
    }
    let best =
        best.ok_or_else(|| Error::argument("cross-validation: expected a bank, got none"))?;
    let (estimates, scores) =
        best.decode_folds(&device, data, &mut held, (options, search.ridge), &split)?;
    let validation = Validation {
        bank: best.bank.clone(),
        ridge: best.ridge_of_all(data, options.delay_steps),
        folds: split.folds.len(),
        scores,
        bank_r2,
    };
    Ok(Found {
        device,
        validation,
        bank: best,
        split,
        estimates,
    })
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
fn all_steps(data: &Dataset, delay_steps: i64) -> u64 {
    let paired = (data.segments.iter()).filter_map(|s| paired_steps(s, delay_steps));
    paired.map(|(first, stop)| (stop - first) as u64).sum()
}

/// Sums over `parts`, each with its history: those from where its filters start, less those before
/// it begins.
fn sums_of(
    device: &Device,
    held: &mut Dataset,
    parts: &[Part],
    options: &TrainOptions,
    bank: &FilterBank,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<(NormalEquations, GramPath)> {
    let mut over = |segments: Vec<Segment>, path| {
        held.segments = segments;
        normal_equations(device, held, options, bank, path, &Quiet(progress))
    };
    let at_rest = parts.iter().filter(|p| p.from == p.segment.start);
    let (mut sums, path) = over(at_rest.map(|p| p.segment).collect(), path)?;
    for part in parts.iter().filter(|p| p.from < p.segment.start) {
        let (start, stop) = (part.segment.start, part.segment.stop);
        let stretch = |stop| {
            vec![Segment {
                start: part.from,
                stop,
            }]
        };
        let (with_history, path) = over(stretch(stop), path)?;
        sums.add(&with_history)?;
        sums.subtract(&over(stretch(start), path)?.0)?;
    }
    Ok((sums, path))
}

impl BankSums {
    pub(super) fn new(
        device: &Device,
        held: &mut Dataset,
        options: &TrainOptions,
        bank: &FilterBank,
        split: &Folds,
        progress: &dyn Progress,
        told: &dyn Fn(usize),
    ) -> Result<Self> {
        let features = held.channels() * bank.len();
        let mut total = NormalEquations::zeros(features, held.outputs.len());
        let mut folds = Vec::with_capacity(split.folds.len());
        let mut path = options.gram;
        for (k, parts) in split.folds.iter().enumerate() {
            told(k);
            let (sums, taken) = sums_of(device, held, parts, options, bank, path, progress)?;
            // One path for all folds, so that their sums come from the same arithmetic.
            path = taken;
            total.add(&sums)?;
            folds.push(sums);
        }
        told(split.folds.len());
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
            path,
            whole: split.whole,
            choice: Choice {
                ridge: Ridge::Relative(0.0),
                r2: f64::NAN,
            },
        })
    }

    /// The best ridge by what the folds leave unexplained.
    fn choose(
        &self,
        device: &Device,
        data: &Dataset,
        options: &TrainOptions,
        search_ridge: bool,
        progress: &dyn Progress,
    ) -> Result<Choice> {
        let solving = self.solving(device, data, options, search_ridge);
        // Where no output changes, any ridge will do: the largest.
        let best = |choices: Vec<Result<Choice>>| {
            choices.into_iter().reduce(|a, b| match (a, b) {
                (Ok(a), Ok(b)) => Ok(if a.r2 > b.r2 { a } else { b }),
                (Ok(c), Err(_)) | (_, Ok(c)) => Ok(c),
                (Err(e), Err(_)) => Err(e),
            })
        };
        let none = || Error::argument("cross-validation: expected a ridge, got none");
        if !search_ridge {
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
                let masking = self.solving(device, data, options, false);
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
    fn ridge_of_all(&self, data: &Dataset, delay_steps: i64) -> f64 {
        let (seen, all) = (self.total.steps, all_steps(data, delay_steps));
        self.choice.ridge.lambda(&self.total) * (all as f64 / seen as f64)
    }

    /// Mean R² over outputs that change, of everything held out, at each of `ridges`; an error for
    /// one that is too small to solve with (a bank whose filters nearly say the same).
    fn held_out_r2(
        &self,
        solving: Solving<'_>,
        ridges: &[Ridge],
        progress: &dyn Progress,
    ) -> Result<Vec<Result<Choice>>> {
        let mut residual = vec![Ok(vec![0.0; self.total.outputs]); ridges.len()];
        for fold in &self.folds {
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
            for (so_far, left) in so_far.iter_mut().zip(held.residuals(&tried)?) {
                match (&mut **so_far, left) {
                    (Ok(sum), Ok(left)) => sum.iter_mut().zip(left).for_each(|(r, l)| *r += l),
                    (so_far, left) => *so_far = left,
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
                left.map(|left| Choice {
                    ridge,
                    r2: r2(&left),
                })
            })
            .collect())
    }

    pub(super) fn solving<'a>(
        &'a self,
        device: &'a Device,
        data: &'a Dataset,
        options: &'a TrainOptions,
        search_ridge: bool,
    ) -> Solving<'a> {
        Solving {
            device,
            solver: options.solver,
            // A ridge that is too small is passed over: masking would take one channel after another,
            // with a factorisation each.
            mask: if search_ridge {
                MaskPolicy::Refuse
            } else {
                options.mask
            },
            names: FeatureNames {
                channels: &data.channel_names,
                bank: &self.bank,
            },
        }
    }

    /// Decodes each fold by what was trained on the others, and scores them together.
    fn decode_folds(
        &self,
        device: &Device,
        data: &Dataset,
        held: &mut Dataset,
        (options, search_ridge): (&TrainOptions, bool),
        split: &Folds,
    ) -> Result<(Vec<f32>, Vec<OutputScore>)> {
        let mut estimates = vec![f32::NAN; data.steps * data.outputs.len()];
        for (fold, parts) in self.folds.iter().zip(&split.folds) {
            let solving = self.solving(device, data, options, search_ridge);
            let solution = HeldOut::new(solving, &self.total, fold)?.solve(self.choice.ridge)?;
            let options = TrainOptions {
                bank: self.bank.clone(),
                ..options.clone()
            };
            let decoder = linear(data, &options, TrainingRecord::default(), solution)?;
            let n = data.outputs.len();
            let mut keep = |segments: Vec<Segment>, parts: &[&Part]| -> Result<()> {
                held.segments = segments;
                let decoded = decode(&decoder, held)?;
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
        held.segments = split.folds.iter().flatten().map(|p| p.segment).collect();
        let scores = score_estimates(held, &estimates, options.delay_steps)?.outputs;
        Ok((estimates, scores))
    }
}

#[cfg(test)]
mod tests;
