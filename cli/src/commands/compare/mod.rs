//! `betz compare`: every kind of decoder on the same folds.

pub(crate) mod args;
mod codes;
mod picture;
mod print;
mod progress;

use std::time::Instant;

use betz::device::Device;
use betz::model::{Decoder, OutputScore};
use betz::psc::FilterBank;
use betz::recording::{Dataset, Recording};
use betz::stream::{Session, SessionConfig};
use betz::train::{Delay, Kind, KindOptions, KindScore, Training, TrainingOutcome, WindowScore};
use betz::{Error, ErrorKind, Progress, Result};
use clap::ValueEnum;
use serde::Serialize;

use crate::bank::{self, FilterShape};
use crate::commands::train::args::DecoderKind;
use crate::data;
use crate::device;
use crate::files::{Files, Kind as FileKind};
use crate::replay::replay;
use crate::report::{self, Bar};
use crate::step;
use args::Compare;
use codes::CodeRow;
use progress::Share;

/// Most steps that are replayed to time one.
const TIMED_STEPS: usize = 20_000;

#[derive(Serialize)]
pub(super) struct ComparisonReport {
    recording: String,
    channels: usize,
    steps: usize,
    segments: usize,
    folds: u32,
    step_seconds: f64,
    /// Bank and ridge of the linear decoder; all kinds but the recurrent have the same bank.
    filters: Vec<FilterShape>,
    ridge: f64,
    /// The linear kind first.
    kinds: Vec<KindRow>,
    /// The blend and its members, scored on what comes after their training; absent where none was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    blend: Option<BlendReport>,
    /// Linear decoders of rates in windows and of the temporal code; absent without `--rates`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    codes: Vec<CodeRow>,
    /// Kinds that could not be trained on this recording.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<FailedKind>,
    /// The kind with the highest mean R²: of the blend and its members if there is one, else over folds, and then linear if
    /// no other gains more than two standard errors.
    best: &'static str,
    device: String,
    total_seconds: f64,
}

#[derive(Serialize)]
pub(super) struct KindRow {
    decoder: &'static str,
    configuration: String,
    /// Mean over outputs.
    r2: f64,
    /// Gain in R² on the linear decoder: its mean over folds, and the standard error of that mean.
    gain: f64,
    gain_error: f64,
    /// Scores of each output.
    outputs: Vec<OutputScore>,
    /// Time of cross-validation and training.
    seconds: f64,
    /// Multiply-adds of a step with the recording's mean number of spikes.
    multiply_adds: f64,
    /// Mean R² in windows of the recording, in order of time.
    over_time: Vec<WindowScore>,
    /// Median time of a step through the real-time session on this machine, in microseconds.
    step_us: f64,
}

#[derive(Serialize)]
pub(super) struct BlendReport {
    /// Number of parts that were held out.
    parts: u32,
    /// The members, the linear one first, then the blend.
    rows: Vec<BlendRow>,
    seconds: f64,
    step_us: f64,
}

#[derive(Serialize)]
pub(super) struct BlendRow {
    decoder: &'static str,
    configuration: String,
    /// Mean over outputs.
    r2: f64,
    /// Gain in R² on the linear decoder: its mean over the parts, and the standard error of that mean.
    gain: f64,
    gain_error: f64,
    /// Weight in the blend; absent for the blend itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    outputs: Vec<OutputScore>,
    /// Mean R² in windows of the held-out steps, in order of time.
    over_time: Vec<WindowScore>,
}

#[derive(Serialize)]
pub(super) struct FailedKind {
    decoder: &'static str,
    reason: String,
}

pub(crate) fn run(args: &Compare) -> Result<()> {
    Files::new(&args.common)
        .reads("RECORDING", &args.recording)
        .may_write("--picture", args.picture.as_deref(), FileKind::Picture)?;
    if !(2..=1000).contains(&args.folds) {
        return Err(Error::argument(format!(
            "--folds: expected 2 to 1000 folds to compare by, got {}",
            args.folds
        )));
    }
    let kinds = kinds(args)?;
    let device = device::open(&args.common.device)?;
    let recording = data::read_recording(&args.recording, &args.part.behavior)?;
    let several = codes::multi_unit(args, &recording)?;
    let dataset = dataset(args, recording)?;
    codes::check(args, dataset.step_seconds)?;
    let several =
        several.map(|recording| data::dataset(recording, dataset.step_seconds, &args.part));
    let several = several.transpose()?;
    report::stop_on_interrupt();
    let found = compare(args, &kinds, (&dataset, several.as_ref()), &device)?;
    if let Some(path) = &args.picture {
        picture::draw(&found, path)?;
    }
    report::tell(&found, args.common.json)
}

fn dataset(args: &Compare, recording: Recording) -> Result<Dataset> {
    let step = match args.step {
        Some(step) => step,
        None => step::choose(&recording, &args.part, args.folds, |step| {
            named_bank(args, step)
        })
        .map_err(|e| e.at(args.recording.display()))?,
    };
    let dataset = data::dataset(recording, step, &args.part);
    let dataset = dataset.map_err(|e| e.at(args.recording.display()))?;
    if dataset.outputs.is_empty() {
        return Err(Error::recording(format!(
            "{}: expected behaviour to train on, got none",
            args.recording.display()
        )));
    }
    Ok(dataset)
}

/// The kinds of `--decoders`, the linear one first, none twice.
fn kinds(args: &Compare) -> Result<Vec<Kind>> {
    let mut kinds = vec![Kind::Linear];
    for decoder in &args.decoders {
        if *decoder == DecoderKind::Auto {
            if !kinds.contains(&Kind::Blend) {
                kinds.push(Kind::Blend);
            }
            continue;
        }
        let Some(kind) = decoder.kind() else {
            let name = decoder.to_possible_value();
            return Err(Error::argument(format!(
                "--decoders: expected kinds of decoders, got {}",
                name.as_ref().map_or("", |value| value.get_name())
            )));
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(kinds)
}

/// The bank that the options name, which sessions run; `None` where cross-validation chooses it.
fn named_bank(args: &Compare, step_seconds: f64) -> Result<Option<FilterBank>> {
    let bank = args.filter.chosen(&args.bank, args.folds, step_seconds)?;
    let expected = "a filter that sessions run, because a step of every decoder is timed";
    bank.as_ref()
        .map_or(Ok(()), |bank| bank::refuse_ahead(bank, expected))?;
    Ok(bank)
}

/// The training of the linear kind.
fn linear_training(args: &Compare, step_seconds: f64) -> Result<Training> {
    Ok(Training {
        bank: named_bank(args, step_seconds)?,
        delay: Delay::Steps(bank::delay_steps(&args.delay, step_seconds)?),
        folds: args.folds as usize,
        ..Training::default()
    })
}

/// Trains each of `kinds` and puts their scores side by side.
fn compare(
    args: &Compare,
    kinds: &[Kind],
    (dataset, several): (&Dataset, Option<&Dataset>),
    device: &Device,
) -> Result<ComparisonReport> {
    let bar = Bar::new();
    let training = linear_training(args, dataset.step_seconds)?;
    let at = |e: Error| e.at(args.recording.display());
    let trainings = kinds.len() + codes::trainings(args);
    let share = |k: usize, kind: Kind| Share::new(&bar, kind.name(), k, trainings);
    let started = Instant::now();
    let linear = training
        .run(dataset, device, &share(0, Kind::Linear))
        .map_err(at)?;
    let linear_seconds = started.elapsed().as_secs_f64();
    let record = linear.decoder.training();
    // All others stand behind the linear decoder's bank. They choose the ridge again, as `betz train` does.
    let behind = Training {
        bank: Some(linear.decoder.bank().clone()),
        ..training
    };
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    let mut blend = None;
    for (k, &kind) in kinds.iter().enumerate().skip(1) {
        if kind == Kind::Blend {
            let bar = share(k, kind);
            match blended(
                args,
                &linear_training(args, dataset.step_seconds)?,
                (dataset, device),
                &bar,
            ) {
                Ok(made) => blend = Some(made),
                Err(e) if e.kind() == ErrorKind::Interrupted => return Err(e),
                Err(e) => failed.push(FailedKind {
                    decoder: kind.name(),
                    reason: e.message().to_owned(),
                }),
            }
            continue;
        }
        let training = Training {
            kinds: KindOptions {
                seed: args.seed,
                epochs: args.epochs.filter(|_| kind == Kind::Recurrent),
                ..KindOptions::among(&[kind])
            },
            ..behind.clone()
        };
        let started = Instant::now();
        match training.run(dataset, device, &share(k, kind)) {
            Ok(outcome) => {
                let seconds = started.elapsed().as_secs_f64();
                if rows.is_empty() {
                    let decoder = &linear.decoder;
                    let row = row(&outcome, Kind::Linear, decoder, linear_seconds, dataset)?;
                    rows.extend(row);
                }
                rows.extend(row(&outcome, kind, &outcome.decoder, seconds, dataset)?);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => return Err(e),
            Err(e) => failed.push(FailedKind {
                decoder: kind.name(),
                reason: e.message().to_owned(),
            }),
        }
    }
    if rows.is_empty() {
        rows.push(linear_row(&linear, linear_seconds, dataset)?);
    }
    let code_share = |k: usize, code: &str| Share::new(&bar, code, kinds.len() + k, trainings);
    let codes = codes::rows(args, (dataset, several), device, code_share).map_err(at)?;
    drop(bar);
    Ok(ComparisonReport {
        recording: args.recording.display().to_string(),
        channels: dataset.channels(),
        steps: dataset.steps_in_segments(),
        segments: dataset.segments.len(),
        folds: args.folds,
        step_seconds: dataset.step_seconds,
        filters: bank::shapes(linear.decoder.bank()),
        ridge: record.ridge,
        best: best(&rows, blend.as_ref()),
        kinds: rows,
        blend,
        codes,
        failed,
        device: linear.ran.device.clone(),
        total_seconds: report::total_seconds(),
    })
}

/// Trains the blend, and reports on it and its members.
fn blended(
    args: &Compare,
    training: &Training,
    (dataset, device): (&Dataset, &Device),
    progress: &dyn Progress,
) -> Result<BlendReport> {
    let training = Training {
        kinds: KindOptions {
            seed: args.seed,
            epochs: args.epochs,
            ..KindOptions::auto()
        },
        ..training.clone()
    };
    let started = Instant::now();
    let outcome = training.run(dataset, device, progress)?;
    let scores = outcome.comparison.into_iter().flat_map(|c| c.kinds);
    let row = |score: KindScore| BlendRow {
        decoder: score.kind.name(),
        configuration: score.configuration,
        r2: score.r2,
        gain: score.gain,
        gain_error: score.gain_error,
        weight: score.weight,
        outputs: score.scores,
        over_time: score.over_time,
    };
    Ok(BlendReport {
        parts: outcome.decoder.training().folds,
        rows: scores.map(row).collect(),
        seconds: started.elapsed().as_secs_f64(),
        step_us: step_us(&outcome.decoder, dataset)?,
    })
}

/// The row of `kind` in the comparison of `scored`; `decoder` is the trained one.
fn row(
    scored: &TrainingOutcome,
    kind: Kind,
    decoder: &Decoder,
    seconds: f64,
    dataset: &Dataset,
) -> Result<Option<KindRow>> {
    let scores = scored.comparison.iter().flat_map(|c| &c.kinds);
    let Some(score) = scores.into_iter().find(|score| score.kind == kind) else {
        return Ok(None);
    };
    let KindScore {
        configuration,
        r2,
        gain,
        gain_error,
        scores,
        multiply_adds,
        over_time,
        ..
    } = score.clone();
    Ok(Some(KindRow {
        decoder: kind.name(),
        configuration,
        r2,
        gain,
        gain_error,
        outputs: scores,
        seconds,
        multiply_adds,
        over_time,
        step_us: step_us(decoder, dataset)?,
    }))
}

/// The row of the linear decoder if no other kind was trained, which would count its multiply-adds.
fn linear_row(linear: &TrainingOutcome, seconds: f64, dataset: &Dataset) -> Result<KindRow> {
    let outputs = linear.decoder.training().scores.clone();
    let known = || {
        outputs
            .iter()
            .map(|score| score.r2)
            .filter(|r2| !r2.is_nan())
    };
    Ok(KindRow {
        decoder: Kind::Linear.name(),
        configuration: String::new(),
        r2: known().sum::<f64>() / known().count() as f64,
        gain: 0.0,
        gain_error: 0.0,
        seconds,
        multiply_adds: f64::NAN,
        over_time: Vec::new(),
        step_us: step_us(&linear.decoder, dataset)?,
        outputs,
    })
}

/// Median time of a step of `model` on the first steps of `dataset`, in microseconds.
fn step_us(model: &Decoder, dataset: &Dataset) -> Result<f64> {
    let mut steps = 0;
    let mut first: Vec<usize> = Vec::new();
    for (i, segment) in dataset.segments.iter().enumerate() {
        if steps < TIMED_STEPS {
            first.push(i);
        }
        steps += segment.len();
    }
    let mut some = dataset.select(&first);
    if let Some(last) = some.segments.last_mut() {
        last.stop = last.stop.min(last.start + TIMED_STEPS as i64);
    }
    let mut session = Session::open(model, SessionConfig::default())?;
    replay(&mut session, &some, &())?;
    Ok(session.stats().latency.p50_us)
}

/// The kind with the highest mean R²: on what comes after training if a blend was trained, else over folds, and then linear
/// unless it gains more than two standard errors.
fn best(rows: &[KindRow], blend: Option<&BlendReport>) -> &'static str {
    let forward = blend.into_iter().flat_map(|blend| &blend.rows);
    if let Some(best) = forward.reduce(|a, b| if b.r2 > a.r2 { b } else { a }) {
        return best.decoder;
    }
    let best = rows.iter().reduce(|a, b| if b.r2 > a.r2 { b } else { a });
    match best {
        Some(row) if row.gain > 2.0 * row.gain_error => row.decoder,
        _ => Kind::Linear.name(),
    }
}
