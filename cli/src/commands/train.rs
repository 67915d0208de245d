//! `betz train`: a decoder of a recording, linear or not, cross-validated, in a model file.

use std::path::Path;

use betz::device::Precision;
use betz::model::{Decoder, LowPass, OutputScore};
use betz::psc::{Filter, FilterBank};
use betz::recording::multiunit::random_groups;
use betz::recording::{Dataset, Recording};
use betz::train::{
    self, Comparison, GramPath, Kind, KindOptions, MaskPolicy, PRESETS, Preset, RidgeChoice,
    Search, Solver, TrainOptions,
};
use betz::{Error, Result};
use serde::Serialize;

use crate::args::{DecoderKind, Gram, SolverName, Train};
use crate::data;
use crate::device;
use crate::report::{self, Bar};

/// How far `--delay auto` looks, before and after.
const LONGEST_DELAY_SECONDS: f64 = 0.5;

/// Filters as the JSON names them.
#[derive(Serialize)]
struct FilterShape {
    tau_seconds: f64,
    order: u32,
}

#[derive(Serialize)]
struct Trained {
    model: String,
    decoder: &'static str,
    /// How the kinds compare; empty when only the linear one was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<KindRow>,
    /// Steps whose spikes were taken for artefacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    artefacts: Option<usize>,
    channels: usize,
    masked_channels: usize,
    features: usize,
    step_seconds: f64,
    filters: Vec<FilterShape>,
    delay_seconds: f64,
    ridge: f64,
    gram: String,
    solver: String,
    steps: u64,
    segments: u64,
    spikes: u64,
    folds: u32,
    /// Cross-validated: every step decoded by a decoder that did not see it.
    outputs: Vec<OutputScore>,
    seconds: f64,
    device: String,
    /// Of a lower precision against full precision, on a sample of Γ, relative to √(Γ_ii Γ_jj).
    #[serde(skip_serializing_if = "Option::is_none")]
    gram_error: Option<GramError>,
}

/// How a kind did in cross-validation.
#[derive(Serialize)]
struct KindRow {
    decoder: &'static str,
    configuration: String,
    /// Mean over outputs.
    r2: f64,
    /// In R² on the linear decoder, and its standard error over folds.
    gain: f64,
    gain_error: f64,
    /// Of a step, at the recording's mean number of spikes.
    multiply_adds: f64,
    outputs: Vec<OutputScore>,
}

#[derive(Serialize)]
struct GramError {
    precision: &'static str,
    largest: f64,
    rms: f64,
}

pub(crate) fn run(args: &Train) -> Result<()> {
    data::check_output("--out", &args.out, &[])?;
    let device = device::open(&args.common.device)?;
    let recording = multi_unit(data::read_recording(&args.recording)?, args)
        .map_err(|e| e.at(args.recording.display()))?;
    let step = args.step.unwrap_or_else(|| data::default_step(&recording));
    let at = |e: Error| e.at(args.recording.display());
    let dataset = data::dataset(recording, step, &args.part).map_err(at)?;

    let bar = Bar::new();
    let (options, search) = choices(args, &dataset, &bar)?;
    let validated = (args.folds > 0).then_some(&search);
    let choice = train::choose(&device, &dataset, &options, validated);
    if let Some(reason) = &choice.fallback {
        eprintln!("trains on the CPU: {reason}");
    }
    let device = choice.device;
    if args.device_memory.is_some() {
        if device.is_cpu() {
            eprintln!("--device-memory made no difference: no GPU is used");
        }
        device.set_memory_cap(args.device_memory);
    }
    let (model, comparison) = if args.folds == 0 {
        if args.decoder != DecoderKind::Linear {
            return Err(Error::argument(
                "--decoder: expected --folds of at least 2 to choose by, got 0",
            ));
        }
        (
            train::train_on(&device, &dataset, &options, &bar).map_err(at)?,
            None,
        )
    } else if let Some(kinds) = kinds(args)? {
        let trained = train::train_kinds_on(&device, &dataset, &options, &search, &kinds, &bar);
        let (model, comparison) = trained.map_err(at)?;
        (model, Some(comparison))
    } else {
        let model = train::train_validated_on(&device, &dataset, &options, &search, &bar);
        (model.map_err(at)?, None)
    };
    device::note_fallback(&device, "training");
    model.save(&args.out)?;
    let seconds = bar.seconds();
    let measured = |what| bar.measurement(what);
    let gram_error = match (measured("gram_error_largest"), measured("gram_error_rms")) {
        (Some(largest), Some(rms)) => Some(GramError {
            precision: options.precision.name(),
            largest,
            rms,
        }),
        _ => None,
    };
    if args.tf32 && gram_error.is_none() {
        eprintln!("--tf32 made no difference: Γ was not computed by the dense path on a GPU");
    }
    drop(bar);
    print(args, &model, comparison, device.name(), seconds, gram_error)
}

/// The kinds that `--decoder` asks for, unless that is only the linear one.
fn kinds(args: &Train) -> Result<Option<KindOptions>> {
    let kinds = match args.decoder {
        DecoderKind::Linear => {
            for (option, given) in [("--latents", args.latents), ("--experts", args.experts)] {
                if let Some(given) = given {
                    return Err(Error::argument(format!(
                        "{option}: expected a decoder other than linear, which has none, got {given}"
                    )));
                }
            }
            return Ok(None);
        }
        DecoderKind::Lift => KindOptions::among(&[Kind::Lift]),
        DecoderKind::Experts => KindOptions::among(&[Kind::Experts]),
        DecoderKind::Kalman => KindOptions::among(&[Kind::Kalman]),
        DecoderKind::Auto => KindOptions::auto(),
    };
    Ok(Some(KindOptions {
        latents: args.latents,
        units: args.units.filter(|_| args.decoder == DecoderKind::Lift),
        experts: args.experts,
        seed: args.seed,
        ..kinds
    }))
}

/// Combines units as `--combine`, `--units` or `--groups` ask.
fn multi_unit(recording: Recording, args: &Train) -> Result<Recording> {
    let units = args.units.filter(|_| args.decoder != DecoderKind::Lift);
    let combine = args.combine.or(units);
    match (&args.groups, combine) {
        (Some(_), Some(_)) => Err(Error::argument(
            "--groups: expected it without --units or --combine, got both",
        )),
        (Some(path), None) => recording.combine(&read_groups(path, &recording)?),
        (None, Some(0)) => Err(Error::argument("--combine: expected at least 1, got 0")),
        (None, Some(units)) if units > 1 => {
            let groups = random_groups(recording.channels(), units, args.seed);
            recording.combine(&groups)
        }
        _ => Ok(recording),
    }
}

/// One multi-unit channel a line; channels by name or number.
fn read_groups(path: &Path, recording: &Recording) -> Result<Vec<Vec<u32>>> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, &e))?;
    let mut groups = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let units: Result<Vec<u32>> = line
            .split_whitespace()
            .map(|unit| {
                let by_name = recording.channel_names.iter().position(|name| name == unit);
                by_name
                    .map(|i| i as u32)
                    .or_else(|| unit.parse().ok())
                    .ok_or_else(|| {
                        Error::argument(format!(
                            "{}, line {}: expected channel names or numbers, got '{unit}'",
                            path.display(),
                            number + 1
                        ))
                    })
            })
            .collect();
        let units = units?;
        if !units.is_empty() {
            groups.push(units);
        }
    }
    Ok(groups)
}

/// What the options say, and what is left to cross-validation.
fn choices(args: &Train, dataset: &Dataset, bar: &Bar) -> Result<(TrainOptions, Search)> {
    let fixed_bank = fixed_bank(args)?;
    let auto_bank = fixed_bank.is_none();
    let mut search = if auto_bank {
        Search::presets(dataset)?
    } else {
        Search::ridge()
    };
    search.folds = args.folds as usize;
    let bank = match fixed_bank {
        Some(bank) => bank,
        None => match search.banks.first() {
            Some(bank) => bank.clone(),
            None => PRESETS[0].bank()?,
        },
    };
    let mut options = TrainOptions::new(bank);
    options.low_pass = args.low_pass.as_deref().map(low_pass).transpose()?;
    options.gram = match args.gram {
        Gram::Auto => GramPath::Auto,
        Gram::Dense => GramPath::Dense,
        Gram::Event => GramPath::Event,
    };
    if args.tf32 {
        options.precision = Precision::Tf32;
    }
    options.solver = match args.solver {
        SolverName::Cholesky => Solver::Cholesky,
        SolverName::Inverse => Solver::Inverse,
    };
    options.mask = if args.refuse_dead {
        MaskPolicy::Refuse
    } else {
        MaskPolicy::Mask
    };
    match (args.ridge, args.noise) {
        (Some(ridge), _) => options.ridge = RidgeChoice::Fixed(ridge),
        (None, Some(fraction)) => options.ridge = RidgeChoice::RelativeNoise(fraction),
        (None, None) => {}
    }
    options.retain = args
        .retain
        .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    search.ridge = args.ridge.is_none() && args.noise.is_none();
    options.delay_steps = match args.delay.as_str() {
        "auto" => {
            let most = (LONGEST_DELAY_SECONDS / dataset.step_seconds).round() as usize;
            let (bank, low_pass) = (&options.bank, options.low_pass);
            train::estimate_delay(dataset, bank, low_pass, most, bar)?.delay_steps
        }
        text => {
            let seconds: f64 = text.parse().map_err(|_| {
                Error::argument(format!("--delay: expected seconds or auto, got '{text}'"))
            })?;
            let steps = (seconds / dataset.step_seconds).round();
            if !seconds.is_finite() || steps.abs() > 1e15 {
                return Err(Error::argument(format!(
                    "--delay: expected a finite time, got {seconds} s"
                )));
            }
            steps as i64
        }
    };
    Ok((options, search))
}

/// The bank the options name; `None` when cross-validation is to choose.
fn fixed_bank(args: &Train) -> Result<Option<FilterBank>> {
    if !args.filters.is_empty() {
        let filters: Result<Vec<Filter>> = args.filters.iter().map(|f| filter(f)).collect();
        return FilterBank::new(filters?).map(Some);
    }
    if args.bank == "auto" {
        if args.folds == 0 {
            return Err(Error::argument(
                "--bank auto: expected --folds of at least 2 to choose by, got 0",
            ));
        }
        return Ok(None);
    }
    let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
    match Preset::named(&args.bank) {
        Some(preset) => preset.bank().map(Some),
        None => Err(Error::argument(format!(
            "--bank: expected auto or one of {}, got '{}'",
            names.join(", "),
            args.bank
        ))),
    }
}

fn filter(text: &str) -> Result<Filter> {
    let parsed = text
        .split_once(':')
        .and_then(|(tau, order)| Some((tau.parse().ok()?, order.parse().ok()?)));
    match parsed {
        Some((tau_seconds, order)) => Ok(Filter { tau_seconds, order }),
        None => Err(Error::argument(format!(
            "--filter: expected TAU:ORDER such as 0.05:1, got '{text}'"
        ))),
    }
}

fn low_pass(text: &str) -> Result<LowPass> {
    let (cutoff, order) = text.split_once(':').unwrap_or((text, "2"));
    match (cutoff.parse(), order.parse()) {
        (Ok(cutoff_hz), Ok(order)) => Ok(LowPass { order, cutoff_hz }),
        _ => Err(Error::argument(format!(
            "--low-pass: expected HZ or HZ:ORDER such as 10:2, got '{text}'"
        ))),
    }
}

fn row(score: train::KindScore) -> KindRow {
    KindRow {
        decoder: score.kind.name(),
        configuration: score.configuration,
        r2: score.r2,
        gain: score.gain,
        gain_error: score.gain_error,
        multiply_adds: score.multiply_adds,
        outputs: score.scores,
    }
}

/// One row a kind that was compared.
fn kind_table(trained: &Trained) -> Result<()> {
    if trained.kinds.is_empty() {
        return Ok(());
    }
    let mut table = report::Table::new(&[
        "decoder",
        "R²",
        "gain",
        "multiply-adds a step",
        "configuration",
    ]);
    for kind in &trained.kinds {
        let gain = if kind.decoder == Kind::Linear.name() {
            String::new()
        } else {
            format!("{:+.4} ± {:.4}", kind.gain, kind.gain_error)
        };
        table.row([
            kind.decoder.to_owned(),
            format!("{:.4}", kind.r2),
            gain,
            format!("{:.0}", kind.multiply_adds),
            kind.configuration.clone(),
        ]);
    }
    table.print()?;
    report::line(&format!("taken: {}", trained.decoder))?;
    match trained.artefacts {
        None | Some(0) => Ok(()),
        Some(steps) => report::line(&format!(
            "{steps} steps hold far more spikes than usual and were taken for artefacts"
        )),
    }
}

fn print(
    args: &Train,
    model: &Decoder,
    comparison: Option<Comparison>,
    device: String,
    seconds: f64,
    gram_error: Option<GramError>,
) -> Result<()> {
    let record = model.training();
    let filters = model.bank().filters();
    let trained = Trained {
        model: args.out.display().to_string(),
        decoder: model.kind(),
        artefacts: comparison.as_ref().map(|c| c.artefacts),
        kinds: comparison.map_or_else(Vec::new, |c| c.kinds.into_iter().map(row).collect()),
        channels: model.channels(),
        masked_channels: model.channel_mask().iter().filter(|used| !**used).count(),
        features: model.features(),
        step_seconds: model.step_seconds(),
        filters: filters
            .iter()
            .map(|f| FilterShape {
                tau_seconds: f.tau_seconds,
                order: f.order,
            })
            .collect(),
        delay_seconds: model.delay_steps() as f64 * model.step_seconds(),
        ridge: record.ridge,
        gram: record.gram_path.clone(),
        solver: record.solver.clone(),
        steps: record.steps,
        segments: record.segments,
        spikes: record.spikes,
        folds: record.folds,
        outputs: record.scores.clone(),
        seconds,
        device,
        gram_error,
    };
    if args.common.json {
        return report::json(&trained);
    }
    kind_table(&trained)?;
    if trained.outputs.is_empty() {
        report::line("no cross-validation (--folds 0): no scores")?;
    } else {
        report::line(&format!(
            "scores by {}-fold cross-validation:",
            trained.folds
        ))?;
        report::score_table(&trained.outputs)?;
    }
    let shapes: Vec<String> = filters
        .iter()
        .map(|f| format!("{}:{}", f.tau_seconds, f.order))
        .collect();
    report::line(&format!("bank (tau s:order): {}", shapes.join(" ")))?;
    report::line(&format!(
        "ridge {:.4e}, delay {} s, step {} s, Γ {}, {}",
        trained.ridge, trained.delay_seconds, trained.step_seconds, trained.gram, trained.solver
    ))?;
    if let Some(error) = &trained.gram_error {
        report::line(&format!(
            "Γ in {}: on a sample off by {:.1e} at most, {:.1e} root mean square, of √(Γ_ii Γ_jj)",
            error.precision, error.largest, error.rms
        ))?;
    }
    if trained.masked_channels > 0 {
        report::line(&format!(
            "{} of {} channels masked (silent, or copies of others)",
            trained.masked_channels, trained.channels
        ))?;
    }
    report::line(&format!(
        "{}: {} channels, {} outputs, trained on {} steps and {} spikes in {:.2} s on {}",
        trained.model,
        trained.channels,
        model.outputs().len(),
        trained.steps,
        trained.spikes,
        seconds,
        trained.device
    ))
}
