//! Decoder kinds: the list of kinds, their comparison on held-out data, and the choice among them.
//!
//! All kinds begin with the same linear engine, so that one set of sums serves them: the bank and the ridge are
//! the linear decoder's own choice. In each fold everything (latents, clip, clusters, readout) is fitted without
//! the held-out data.

mod blend;
pub(crate) mod family;
mod gain;
mod latent_kinds;
mod lifts;
mod model;
pub(crate) mod nonlinear;
pub(crate) mod options;
mod others;
mod race;
mod regions;
pub(crate) mod split;
mod table;
mod teams;
mod time;

use super::blank::CleanData;
use super::validate::{self, BankChoice};
use crate::device::Trained;

use crate::limits::without_blanking;
use crate::options::TrainOptions;
use crate::search::Search;
use betz_base::error::{ErrorKind, Result};
use betz_base::progress::{Phases, Progress};
use betz_base::text::count;
use betz_device::Device;
use betz_gram::movement::outputs_with_velocities;
use betz_gram::score::mean_r2;
use betz_recording::DatasetView;
use betz_runtime::model::OutputScore;
use gain::Reference;
use latent_kinds::LatentKinds;
pub use options::{Kind, KindOptions};
use others::{OtherKind, TrainedKind, kalman_score, place_score, recurrent_score};
pub use table::KindTraits;
use time::TimeShares;

/// A kind must gain at least this many standard errors over folds to be chosen.
const ERRORS: f64 = 2.0;

/// Cross-validated scores of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct KindScore {
    /// The kind.
    pub kind: Kind,
    /// Text that describes the chosen configuration.
    pub configuration: String,
    /// Scores over all held-out steps.
    pub scores: Vec<OutputScore>,
    /// Mean R² over the outputs that change.
    pub r2: f64,
    /// Mean gain in R² over the linear decoder, over folds.
    pub gain: f64,
    /// Standard error of the gain over folds.
    pub gain_error: f64,
    /// Weight in the blend, if it was a candidate for one; otherwise `None`.
    pub weight: Option<f64>,
    /// Mean R² in windows of the held-out steps, in order of time.
    pub over_time: Vec<WindowScore>,
    /// Median distance from the true place, if the outputs are coordinates of a place
    /// ([`place_error`](betz_gram::score::place_error)); otherwise `None`.
    pub median_error: Option<f64>,
    /// Multiply-adds per step at the recording's mean number of spikes.
    pub multiply_adds: f64,
}

/// Mean R² of some consecutive held-out steps: 1 − their squared errors over their share of Σ(x − x̄)² of all held-out steps.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct WindowScore {
    /// First held-out step of the window.
    pub first_step: i64,
    /// The step behind its last one.
    pub stop_step: i64,
    /// Mean over the outputs that change.
    pub r2: f64,
}

/// Comparison of the kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// One score per kind, the linear one first.
    pub kinds: Vec<KindScore>,
    /// The chosen kind.
    pub taken: Kind,
    /// Number of steps whose spikes count as artefacts; they were replaced before training.
    pub artefacts: usize,
    /// A sentence that says how far training came, if it was asked to stop and kept what it had.
    pub stopped: Option<String>,
    /// A sentence that says which kinds could not be trained and why, if the linear one competed with them.
    pub left_out: Option<String>,
    /// Estimates of a blend for the steps that were held out, (steps, outputs), NaN elsewhere; empty for other kinds.
    pub(crate) held_out: Vec<f32>,
}

/// Trains the kind of decoder that decodes held-out data best, and returns the comparison of all kinds.
///
/// Cross-validates bank and ridge with the linear decoder as
/// [`train_validated_on`](super::train_validated_on) does, then the other kinds behind the same bank and
/// ridge. Outputs of unknown unit that are derivatives of others count as velocities
/// ([`outputs_with_velocities`]), and are marked so in the decoder.
///
/// Memory: that of [`train_validated_on`](super::train_validated_on), twice the sums of its best bank, and
/// 2 × folds × steps × latents × 4 bytes.
///
/// # Errors
/// The errors of [`train_validated_on`](super::train_validated_on), which needs at least two folds;
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for options out of range;
/// [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData) if no output changes and the linear kind is
/// not among those requested.
pub fn train_kinds_on<'d>(
    device: &Device,
    data: impl Into<DatasetView<'d>>,
    options: &TrainOptions,
    search: &Search,
    kinds: &KindOptions,
    progress: &dyn Progress,
) -> Result<(Trained, Comparison)> {
    kinds.check()?;
    kinds.check_retained(options.retain)?;
    let data = &data.into();
    let cleaned = CleanData::new(data, options)?;
    let outputs = outputs_with_velocities(data);
    let data = &DatasetView {
        outputs: &outputs,
        ..cleaned.view(data)
    };
    let (trained, comparison) = compare(device, data, options, search, kinds, progress)?;
    let artefacts = cleaned.artefacts;
    let comparison = Comparison {
        artefacts: artefacts.steps as usize,
        ..comparison
    };
    let decoder = match options.keep_artefacts {
        true => without_blanking(trained.decoder)?,
        false => trained.decoder,
    };
    Ok((
        Trained {
            decoder,
            artefacts,
            ..trained
        },
        comparison,
    ))
}

impl Comparison {
    fn new(scores: Vec<KindScore>, kinds: &KindOptions) -> Self {
        Self {
            taken: taken(&scores, kinds),
            kinds: scores,
            artefacts: 0,
            stopped: None,
            left_out: None,
            held_out: Vec::new(),
        }
    }
}

/// Trains the kind that was taken on the whole recording, if it is one of `others`.
fn taken_other(
    others: &[(Kind, OtherKind)],
    (data, options, found): (&DatasetView<'_>, &TrainOptions, &BankChoice),
    comparison: &Comparison,
    progress: &dyn Progress,
) -> Result<Option<TrainedKind>> {
    let taken = others.iter().find(|(kind, _)| *kind == comparison.taken);
    let of_kind = comparison.kinds.iter().find(|k| k.kind == comparison.taken);
    let (Some((_, taken)), Some(score)) = (taken, of_kind) else {
        return Ok(None);
    };
    (taken.decoder(data, options, found, score, progress)).map(Some)
}

/// Runs [`train_kinds_on`] on `data` without artefacts, with known velocities.
fn compare(
    device: &Device,
    data: &DatasetView<'_>,
    options: &TrainOptions,
    search: &Search,
    kinds: &KindOptions,
    progress: &dyn Progress,
) -> Result<(Trained, Comparison)> {
    if search.folds == 0 && kinds.kinds == [Kind::Recurrent] {
        return unscored(device, data, options, kinds, progress);
    }
    let (kinds, mut left_out) = time::within_budget(device, data, (options, search), kinds);
    let kinds = &kinds;
    let asked = |kind| kinds.kinds.contains(&kind);
    let mut shares = TimeShares::new(device, data, (options, search), kinds);
    let all = shares.linear + shares.after_linear();
    let mut phases = Phases::new(progress, "training", all);
    let phase = &phases.next(shares.linear);
    let found = validate::cross_validate_banks(device, data, options, search, phase)?;
    shares.know_bank(data, options, &found);
    phases.expect(shares.after_linear());
    let mut scores = vec![linear_score(data, options, &found)?];
    plan_memory(data, &found, kinds)?;
    let mut others = Vec::new();
    // The members of a blend are scored on other parts.
    for kind in OtherKind::ALL
        .into_iter()
        .filter(|kind| asked(*kind) && !kinds.blends())
    {
        let phase = &phases.next(shares.of(kind));
        let (other, score) = other_score((device, data, options, &found), kinds, kind, phase)?;
        others.push((kind, other));
        scores.push(score);
    }
    let mut latents = match shares.latents {
        0 => None,
        share => {
            let phase = &phases.next(share);
            match LatentKinds::new(data, options, &found, kinds, phase) {
                // The linear decoder needs no latents.
                Err(e) if e.kind() == ErrorKind::InsufficientData && asked(Kind::Linear) => {
                    left_out = Some(format!("lift and experts are left out: {}", e.message()));
                    None
                }
                latents => Some(latents?),
            }
        }
    };
    if let Some(latents) = &mut latents {
        for kind in Kind::ALL
            .into_iter()
            .filter(|kind| kind.traits().latents && asked(*kind))
        {
            scores.push(latents.enter(kind, &shares, &phases.next(shares.of(kind)))?);
        }
    }
    if kinds.blends() {
        let task = blend::Task {
            device,
            data,
            options,
            found: &found,
            kinds,
        };
        let comparing: &dyn Progress = &phases.next(shares.of(Kind::Blend));
        let finishing: &dyn Progress = &phases.next(shares.finish);
        let of_latents = latents.as_ref();
        let (trained, mut comparison) =
            blend::train(task, of_latents, &scores, [comparing, finishing])?;
        comparison.left_out = left_out.or(comparison.left_out);
        return Ok((trained, comparison));
    }
    let mut comparison = Comparison {
        left_out,
        ..Comparison::new(scores, kinds)
    };
    let last = &phases.next(shares.finish);
    if let Some(other) = taken_other(&others, (data, options, &found), &comparison, last)? {
        return Ok((trained_kind(&mut comparison, &found, other), comparison));
    }
    let of_taken = comparison.kinds.iter().find(|k| k.kind == comparison.taken);
    let scores = of_taken.map_or_else(Vec::new, |k| k.scores.clone());
    let decoder = match &latents {
        Some(latents) => latents.decoder(comparison.taken, scores, last)?,
        None => None,
    };
    let trained = match decoder {
        Some(decoder) => found.trained(decoder),
        None => validate::finish(data, options, &found, last)?,
    };
    Ok((trained, comparison))
}

/// A kind without latents of the linear decoder, and how it does.
fn other_score(
    (device, data, options, found): (&Device, &DatasetView<'_>, &TrainOptions, &BankChoice),
    kinds: &KindOptions,
    kind: Kind,
    progress: &dyn Progress,
) -> Result<(OtherKind, KindScore)> {
    match kind {
        Kind::Place => place_score(data, options, found, kinds.cells, progress),
        Kind::Recurrent => recurrent_score(device, data, options, found, kinds, progress),
        _ => kalman_score(data, options, found, kind, progress),
    }
}

/// A recurrent decoder without scores: it has neither bank nor ridge to choose.
fn unscored(
    device: &Device,
    data: &DatasetView<'_>,
    options: &TrainOptions,
    kinds: &KindOptions,
    progress: &dyn Progress,
) -> Result<(Trained, Comparison)> {
    crate::fit::check_form(data, std::slice::from_ref(&options.bank))?;
    let entrant = crate::recurrent::Entrant::unscored(device, data, options, (kinds, 0))?;
    let record = others::record(data, 0, Vec::new());
    let (decoder, stopped) = entrant.whole(data, options, record, progress)?;
    let trained = Trained {
        decoder,
        ran: entrant.ran(),
        gram_error: None,
        artefacts: crate::blank::Artefacts::default(),
    };
    let comparison = Comparison {
        kinds: Vec::new(),
        taken: Kind::Recurrent,
        artefacts: 0,
        stopped,
        left_out: None,
        held_out: Vec::new(),
    };
    Ok((trained, comparison))
}

/// The outcome of training `other`, behind the bank that was found.
fn trained_kind(comparison: &mut Comparison, found: &BankChoice, other: TrainedKind) -> Trained {
    comparison.stopped = other.stopped;
    let trained = found.trained(other.decoder);
    Trained {
        ran: other.ran.unwrap_or_else(|| trained.ran.clone()),
        ..trained
    }
}

/// Refuses kinds whose matrices do not fit in memory in addition to the sums: the noise or the whitened sums,
/// their factors, and the right-hand sides.
fn plan_memory(data: &DatasetView<'_>, found: &BankChoice, kinds: &KindOptions) -> Result<()> {
    if !kinds.kinds.iter().any(|kind| kind.traits().wide) {
        return Ok(());
    }
    let features = data.channels() as u128 * found.validation.bank.len() as u128;
    betz_base::memory::plan(
        format_args!("decoders behind {features} features"),
        features.pow(2) * 48 + data.steps as u128 * 512,
    )
}

/// Chooses a kind: the best of the requested ones, but the linear one unless the best gains more than two standard errors on
/// it.
fn taken(scores: &[KindScore], kinds: &KindOptions) -> Kind {
    let asked = scores.iter().filter(|s| kinds.kinds.contains(&s.kind));
    // NaN (no output changes) never replaces the best so far.
    let best = asked.reduce(|a, b| if b.r2 > a.r2 { b } else { a });
    match best {
        Some(best) if best.kind != Kind::Linear && kinds.kinds.contains(&Kind::Linear) => {
            if best.gain > ERRORS * best.gain_error {
                best.kind
            } else {
                Kind::Linear
            }
        }
        Some(best) => best.kind,
        None => Kind::Linear,
    }
}

fn linear_score(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    found: &BankChoice,
) -> Result<KindScore> {
    let scores = found.validation.scores.clone();
    let outputs = data.outputs.len();
    let bank = &found.validation.bank;
    let reference = Reference::of((data, options, found));
    Ok(KindScore {
        kind: Kind::Linear,
        configuration: count(bank.len() as u128, "filter"),
        r2: mean_r2(&scores),
        scores,
        gain: 0.0,
        gain_error: 0.0,
        weight: None,
        over_time: gain::over_time(&reference, &found.estimates),
        median_error: gain::median_error(&reference, &found.estimates)?,
        multiply_adds: nonlinear::engine_cost(data, bank, outputs),
    })
}

#[cfg(test)]
mod tests;
