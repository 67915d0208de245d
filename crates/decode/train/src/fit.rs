//! From a dataset to a decoder.

use super::blank::CleanData;
use super::generalised;
use super::limits::limits;
use super::options::{RidgeChoice, TrainOptions};
use super::retained::StoredStatistics;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress};
use betz_base::text::count;
use betz_gram::gram::{GramPath, NormalEquations, normal_equations};
use betz_gram::largest_response;
use betz_gram::parts::FACTOR;
use betz_gram::solve::{CentredEquations, FeatureNames, Solution};
use betz_recording::DatasetView;
use betz_runtime::model::{Decoder, DecoderParts, Limits, MAX_BYTES, TrainingRecord, check_sizes};
use betz_runtime::psc::FilterBank;

/// Trains a decoder on every segment of `data`.
///
/// Steps whose spikes are an artefact (several times the usual number over all channels) are trained on
/// as if they had been like their neighbours, and the decoder takes such steps for mean counts.
///
/// # Errors
/// [`ErrorKind::InsufficientData`] without channels, behaviour, segments, spikes or paired steps,
/// or with no ridge and no more steps than features;
/// [`ErrorKind::NotPositiveDefinite`], naming channel and filter, for a dead or duplicated channel
/// without ridge or mask; [`ErrorKind::InvalidArgument`] for an option out of range, and more channels,
/// filters or outputs than a model may have; [`ErrorKind::InvalidRecording`] for two channels or outputs
/// of one name; [`ErrorKind::NonFinite`] for weights beyond f32; [`ErrorKind::Interrupted`] when
/// `progress` says so.
pub fn train<'d>(
    data: impl Into<DatasetView<'d>>,
    options: &TrainOptions,
    progress: &dyn Progress,
) -> Result<Decoder> {
    let data = &data.into();
    check(data, std::slice::from_ref(&options.bank), usize::MAX)?;
    let cleaned = CleanData::new(data, options)?;
    let data = &cleaned.view(data);
    let (sums, path) = normal_equations(
        data,
        &options.bank,
        options.low_pass,
        options.delay_steps,
        options.gram,
        progress,
    )?;
    decoder_from_sums(data, options, &sums, path, progress)
}

/// The decoder that `sums`, computed by `path` over every segment of `data`, lead to.
pub(super) fn decoder_from_sums(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    sums: &NormalEquations,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<Decoder> {
    let bank = &options.bank;
    let given = match options.ridge {
        RidgeChoice::Generalised => None,
        _ => Some(ridge(data, bank, options, sums.steps)?),
    };
    progress.update("solve", 0, 1);
    let names = FeatureNames {
        channels: data.channel_names,
        bank,
    };
    let centred = progress::time(progress, FACTOR, || CentredEquations::new(sums))?;
    let ridge = match given {
        Some(ridge) => ridge,
        None => generalised::ridge(sums, &centred, bank, data.step_seconds)?,
    };
    let (solver, mask) = (options.solver, options.mask);
    let mut solution = centred.solve_timed(ridge, solver, mask, names, progress)?;
    progress.update("solve", 1, 1);
    for (channel, taking_part) in solution.channel_mask.iter_mut().enumerate() {
        *taking_part &= !silent(sums, channel, bank.len());
    }
    let decoder = decoder(data, options, sums.steps, ridge, path, solution, None)?;
    StoredStatistics::kept_in(decoder, sums, options.retain)
}

/// The ridge λ that `options` ask for over `steps` paired steps, with the filters of `bank`.
///
/// # Errors
/// [`ErrorKind::InsufficientData`] when there is no such step; [`ErrorKind::InvalidArgument`] for a
/// ridge or a noise that is negative or not finite.
pub(super) fn ridge(
    data: &DatasetView<'_>,
    bank: &FilterBank,
    options: &TrainOptions,
    steps: u64,
) -> Result<f64> {
    if steps == 0 {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "training: expected a delay that leaves steps of a segment with their partners, got one of {}; choose one shorter than the segments",
                count(options.delay_steps.unsigned_abs(), "step")
            ),
        ));
    }
    ridge_by(options.ridge, steps, || largest_response(data, bank))
}

/// The ridge λ that `choice` asks for over `steps` steps, where the largest response is `largest`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a ridge or a noise that is negative or not finite.
pub(super) fn ridge_by(
    choice: RidgeChoice,
    steps: u64,
    largest: impl FnOnce() -> f64,
) -> Result<f64> {
    let of_noise = |sigma: f64| sigma * sigma * steps as f64;
    let checked = |what: &str, given: f64| {
        if given.is_finite() && given >= 0.0 {
            return Ok(given);
        }
        Err(Error::argument(format!(
            "{what}: expected a finite number of at least 0, got {given}"
        )))
    };
    match choice {
        RidgeChoice::Fixed(ridge) => checked("ridge", ridge),
        RidgeChoice::Noise(sigma) => checked("noise's standard deviation", sigma).map(of_noise),
        RidgeChoice::RelativeNoise(fraction) => {
            let fraction = checked("noise over the largest response", fraction)?;
            Ok(of_noise(fraction * largest()))
        }
        RidgeChoice::Generalised => Err(Error::argument(
            "ridge: expected a ridge or noise with folds, got generalised cross-validation, which takes none",
        )),
    }
}

/// The decoder that a solution makes, with its record; a masked channel's weights are 0. It can be saved
/// and opened. `all_limits` are the limits if every channel takes part, in case they are known already.
///
/// # Errors
/// [`ErrorKind::NonFinite`] when a weight or an intercept is beyond what a session takes.
pub(super) fn decoder(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    steps: u64,
    ridge: f64,
    path: GramPath,
    solution: Solution,
    all_limits: Option<Limits>,
) -> Result<Decoder> {
    let training = TrainingRecord {
        betz_version: env!("CARGO_PKG_VERSION").into(),
        steps,
        segments: data.segments.len() as u64,
        spikes: data.spikes_in_segments().round() as u64,
        ridge,
        gram_path: path.name().into(),
        solver: options.solver.name().into(),
        folds: 0,
        scores: Vec::new(),
    };
    let mut parts = linear(data, options, training, solution)?.into_parts();
    let all = parts.channel_mask.iter().all(|&takes_part| takes_part);
    parts.limits = all_limits
        .filter(|_| all)
        .unwrap_or_else(|| limits(data, &parts.channel_mask, options.keep_artefacts));
    checked(parts)
}

/// The linear decoder that a solution makes, without limits; a masked channel's weights are 0.
///
/// # Errors
/// [`ErrorKind::NonFinite`] when a weight or an intercept is beyond what a session takes.
pub(super) fn linear(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    training: TrainingRecord,
    mut solution: Solution,
) -> Result<Decoder> {
    let of_a_channel = options.bank.len() * data.outputs.len();
    if of_a_channel > 0 {
        let weights = solution.weights.chunks_exact_mut(of_a_channel);
        for (weights, taking_part) in weights.zip(&solution.channel_mask) {
            if !taking_part {
                weights.fill(0.0);
            }
        }
    }
    let parts = DecoderParts {
        low_pass: options.low_pass,
        delay_steps: options.delay_steps,
        channel_mask: solution.channel_mask,
        weights: solution.weights,
        intercept: solution.intercept,
        training,
        ..DecoderParts::linear(
            data.step_seconds,
            options.bank.clone(),
            data.channel_names.to_vec(),
            data.outputs.to_vec(),
        )
    };
    checked(parts)
}

/// The decoder of `parts`, all but whose numbers was checked before the work.
///
/// # Errors
/// [`ErrorKind::NonFinite`] when a weight or an intercept is beyond what a session takes.
pub(super) fn checked(parts: DecoderParts) -> Result<Decoder> {
    Decoder::new(parts).map_err(|e| e.of_kind(ErrorKind::NonFinite).at("training"))
}

/// A channel none of whose responses is ever other than zero.
pub(super) fn silent(sums: &NormalEquations, channel: usize, filters: usize) -> bool {
    (channel * filters..(channel + 1) * filters).all(|f| sums.gram[f * sums.features + f] == 0.0)
}

/// Bytes of threads and small lists, besides Γ.
const BESIDE: u128 = 16 << 20;

/// Refuses data that nothing can be trained on, with any of `banks`.
///
/// Systems have at most `most_rows` rows, however many features there are.
pub(super) fn check(data: &DatasetView<'_>, banks: &[FilterBank], most_rows: usize) -> Result<()> {
    if data.channels() > 0
        && !data.outputs.is_empty()
        && !data.segments.is_empty()
        && data.events_in_segments() == 0
    {
        return Err(lacking("spikes inside the segments, got none"));
    }
    check_part(data, banks, most_rows)
}

/// [`check`] of a part of what is trained on, in which no channel may fire.
pub(super) fn check_part(
    data: &DatasetView<'_>,
    banks: &[FilterBank],
    most_rows: usize,
) -> Result<()> {
    let missing = if data.channels() == 0 {
        "at least one channel, got none"
    } else if data.outputs.is_empty() {
        "behaviour to decode, got none"
    } else if data.segments.is_empty() {
        "at least one segment, got none"
    } else {
        check_form(data, banks)?;
        let most = banks.iter().map(FilterBank::len).max().unwrap_or(0);
        let features = data.channels() as u128 * most as u128;
        return betz_base::memory::plan(
            format_args!(
                "Γ of {features} features ({} channels, {most} filters)",
                data.channels()
            ),
            // The sums and their tiles; then the centred system, its factor, and room to solve it.
            features.min(most_rows as u128).pow(2) * 40 + BESIDE,
        );
    };
    Err(lacking(missing))
}

fn lacking(what: &str) -> Error {
    Error::new(
        ErrorKind::InsufficientData,
        format!("training: expected {what}"),
    )
}

/// Refuses sampled filters on another step, those that no segment is as long as, and those that act on no step of any.
fn check_sampled(data: &DatasetView<'_>, bank: &FilterBank) -> Result<()> {
    bank.check_step(data.step_seconds)?;
    let longest = data.segments.iter().map(|s| s.len()).max().unwrap_or(0);
    if longest == 0 {
        return Ok(());
    }
    for filter in bank.sampled() {
        let refuse = |reason: String| {
            let message = format!("filter {}: {reason}", filter.name());
            Err(Error::new(ErrorKind::InsufficientData, message))
        };
        if filter.samples().len() > longest {
            return refuse(format!(
                "expected at most {longest} samples, the steps of the longest segment, got {}; use a shorter filter, a longer step, or segments that are not cut",
                filter.samples().len()
            ));
        }
        let nearest = match filter.start() {
            start if start >= 0 => start,
            start => (start + filter.samples().len() as i64 - 1).min(0),
        };
        if nearest.unsigned_abs() >= longest as u64 {
            return refuse(format!(
                "expected a sample within {longest} steps of a spike, the steps of the longest segment, got none nearer than {nearest} steps ({} s); are its times in seconds? Shift it, or use segments that are not cut",
                nearest as f64 * filter.step_seconds()
            ));
        }
    }
    Ok(())
}

/// Refuses, before the work, names and sizes of which no decoder can be saved or opened. Lists that are
/// empty are the caller's to refuse.
pub(super) fn check_form(data: &DatasetView<'_>, banks: &[FilterBank]) -> Result<()> {
    data.check_names().map_err(|e| e.at("training"))?;
    let (channels, outputs) = (data.channels(), data.outputs.len());
    if channels == 0 || outputs == 0 {
        return Ok(());
    }
    for bank in banks {
        check_sampled(data, bank)?;
        check_sizes(ErrorKind::InvalidArgument, channels, bank.len(), outputs)
            .map_err(|e| e.at("training"))?;
        let weights = channels * bank.len() * outputs;
        if weights > MAX_BYTES / size_of::<f64>() {
            return Err(Error::argument(format!(
                "training: expected weights of at most {MAX_BYTES} bytes, got {weights} of 8 bytes \
                 ({channels} channels, {} filters, {outputs} outputs)",
                bank.len()
            )));
        }
    }
    Ok(())
}
