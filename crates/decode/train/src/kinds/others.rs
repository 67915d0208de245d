//! Kinds that have no latents of the linear decoder: Kalman filters, the decoder of place, the recurrent one.

use super::gain::{self, Reference};
use super::{Kind, KindOptions, KindScore, nonlinear};
use crate::fit::checked;
use crate::limits::limits;
use crate::options::TrainOptions;
use crate::validate::BankChoice;
use crate::{kalman, place, recurrent};
use betz_base::error::{Error, Result};
use betz_base::progress::Progress;
use betz_device::{Device, Ran};
use betz_recording::DatasetView;
use betz_runtime::model::{Decoder, DecoderParts, Head, Kalman, OutputScore, TrainingRecord};
use betz_runtime::psc::FilterBank;

/// One of them, with what was chosen for it.
pub(super) enum OtherKind {
    Kalman(kalman::Entrant),
    Place(place::Entrant),
    Recurrent(Box<recurrent::Entrant>),
}

/// The best of what a Kalman filter may observe, and how it does; `kind` is [`Kind::Kalman`] or [`Kind::Refit`].
pub(super) fn kalman_score(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    found: &BankChoice,
    kind: Kind,
    progress: &dyn Progress,
) -> Result<(OtherKind, KindScore)> {
    let refit = kind == Kind::Refit;
    let mut best: Option<(kalman::Entrant, KindScore)> = None;
    for entrant in kalman::Entrant::all(data, options, found, refit, progress)? {
        let outputs = data.outputs.len();
        let engine = nonlinear::engine_cost(data, &entrant.bank, outputs);
        let score = gain::score(
            &Reference::of((data, options, found)),
            kind,
            format!("observes {}", entrant.configuration),
            &entrant.estimates,
            engine + (outputs * outputs) as f64,
        )?;
        // NaN never beats what is there.
        if best.as_ref().is_none_or(|(_, b)| score.r2 > b.r2) {
            best = Some((entrant, score));
        }
    }
    let (entrant, score) =
        best.ok_or_else(|| Error::argument("kalman: expected something to observe, got nothing"))?;
    Ok((OtherKind::Kalman(entrant), score))
}

/// The best decoder of place, and how it does.
pub(super) fn place_score(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    found: &BankChoice,
    across: Option<usize>,
    progress: &dyn Progress,
) -> Result<(OtherKind, KindScore)> {
    let entrant = place::Entrant::new(data, options, found, across, progress)?;
    let spikes = data.events_in_segments() as f64 / data.steps_in_segments().max(1) as f64;
    let score = gain::score(
        &Reference::of((data, options, found)),
        Kind::Place,
        entrant.configuration(),
        &entrant.estimates,
        entrant.multiply_adds(spikes, data.outputs.len()),
    )?;
    Ok((OtherKind::Place(entrant), score))
}

/// The recurrent decoder of the recording's usual sizes, or of those that `kinds` names, and how it does.
pub(super) fn recurrent_score(
    device: &Device,
    data: &DatasetView<'_>,
    options: &TrainOptions,
    found: &BankChoice,
    kinds: &KindOptions,
    progress: &dyn Progress,
) -> Result<(OtherKind, KindScore)> {
    let entrant = recurrent::Entrant::new(device, data, options, found, kinds, progress)?;
    let spikes = data.events_in_segments() as f64 / data.steps_in_segments().max(1) as f64;
    let multiply_adds = entrant.multiply_adds(spikes, data.outputs.len());
    if entrant.is_stopped() {
        let score = KindScore {
            kind: Kind::Recurrent,
            configuration: entrant.configuration(),
            scores: Vec::new(),
            r2: f64::NAN,
            gain: f64::NAN,
            gain_error: f64::NAN,
            weight: None,
            over_time: Vec::new(),
            median_error: None,
            multiply_adds,
        };
        return Ok((OtherKind::Recurrent(Box::new(entrant)), score));
    }
    let score = gain::score(
        &Reference::of((data, options, found)),
        Kind::Recurrent,
        entrant.configuration(),
        &entrant.estimates,
        multiply_adds,
    )?;
    Ok((OtherKind::Recurrent(Box::new(entrant)), score))
}

/// A trained decoder of another kind.
pub(super) struct TrainedKind {
    pub(super) decoder: Decoder,
    /// Report of the device, for a kind that may train on one.
    pub(super) ran: Option<Ran>,
    /// A sentence that says how far training came, if it was asked to stop.
    pub(super) stopped: Option<String>,
}

/// The linear engine of a decoder, and what is behind it.
struct EngineAndHead {
    bank: FilterBank,
    weights: Vec<f64>,
    intercept: Vec<f64>,
    head: Head,
    steps: u64,
}

/// The record of a training on all of `data`, without what only some kinds have.
pub(super) fn record(
    data: &DatasetView<'_>,
    folds: usize,
    scores: Vec<OutputScore>,
) -> TrainingRecord {
    TrainingRecord {
        betz_version: env!("CARGO_PKG_VERSION").into(),
        segments: data.segments.len() as u64,
        spikes: data.spikes_in_segments().round() as u64,
        folds: folds as u32,
        scores,
        ..TrainingRecord::default()
    }
}

impl OtherKind {
    /// The kinds that are scored by themselves, without the latents of others.
    pub(super) const ALL: [Kind; 4] = [Kind::Kalman, Kind::Refit, Kind::Place, Kind::Recurrent];

    /// The decoder of the whole recording, which did as `score` says.
    ///
    /// # Errors
    /// Returns the errors of its training.
    pub(super) fn decoder(
        &self,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &BankChoice,
        score: &KindScore,
        progress: &dyn Progress,
    ) -> Result<TrainedKind> {
        let mut record = record(data, found.validation.folds, score.scores.clone());
        let made = match self {
            Self::Kalman(entrant) => {
                record.ridge = entrant.ridge;
                record.gram_path = found.bank.path.name().into();
                record.solver = options.solver.name().into();
                let filter = entrant.whole(data, options, found)?;
                EngineAndHead {
                    bank: entrant.bank.clone(),
                    weights: filter.gain,
                    intercept: filter.offset,
                    head: Head::Kalman(Kalman {
                        transition: filter.transition,
                        mean: filter.mean,
                    }),
                    steps: entrant.steps(),
                }
            }
            Self::Recurrent(entrant) => {
                let (decoder, stopped) = entrant.whole(data, options, record, progress)?;
                return Ok(TrainedKind {
                    decoder,
                    ran: Some(entrant.ran()),
                    stopped,
                });
            }
            Self::Place(entrant) => {
                let whole = entrant.whole(data, options)?;
                EngineAndHead {
                    bank: whole.bank,
                    weights: whole.weights,
                    intercept: whole.intercept,
                    head: Head::Place(whole.place),
                    steps: whole.steps,
                }
            }
        };
        record.steps = made.steps;
        let names = (data.channel_names.to_vec(), data.outputs.to_vec());
        let decoder = checked(DecoderParts {
            low_pass: options.low_pass,
            delay_steps: options.delay_steps,
            weights: made.weights,
            intercept: made.intercept,
            head: made.head,
            limits: limits(data, &vec![true; data.channels()], options.keep_artefacts),
            training: record,
            ..DecoderParts::linear(data.step_seconds, made.bank, names.0, names.1)
        })?;
        Ok(TrainedKind {
            decoder,
            ran: None,
            stopped: None,
        })
    }
}
