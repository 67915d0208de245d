//! `betz train`: a decoder of a recording, linear or not, cross-validated, in a model file.

use std::path::Path;

use betz::device::Precision;
use betz::model::{Decoder, OutputScore};
use betz::recording::multiunit::random_groups;
use betz::recording::{Dataset, Recording};
use betz::team::Alone;
use betz::train::{
    self, Comparison, GramPath, KindOptions, MaskPolicy, PRESETS, RidgeChoice, Search, Solver,
    TrainOptions,
};
use betz::{Error, Result};
use serde::Serialize;

use super::bank::{self, FilterShape};
use super::long;
use crate::args::{DecoderKind, Gram, SolverName, Train};
use crate::data;
use crate::device;
use crate::files::{Files, Kind};
use crate::report::{self, Bar};
use betz::input_form;

/// How far `--delay auto` looks, before and after.
const LONGEST_DELAY_SECONDS: f64 = 0.5;

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
    /// All of the command's time, reading and writing included.
    total_seconds: f64,
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
    /// Distance that half of the estimated places are closer than; absent where outputs are no coordinates.
    #[serde(skip_serializing_if = "Option::is_none")]
    median_error: Option<f64>,
    /// Of a step, at the recording's mean number of spikes.
    multiply_adds: f64,
    outputs: Vec<OutputScore>,
}

#[derive(Serialize)]
pub(super) struct GramError {
    precision: &'static str,
    largest: f64,
    rms: f64,
}

pub(crate) fn run(args: &Train) -> Result<()> {
    Files::new(&args.common)
        .reads("RECORDING", &args.recording)
        .may_read("--groups", args.groups.as_deref())
        .writes("--out", &args.out, Kind::Model)?;
    let device = device::open(&args.common.device)?.with_memory_cap(args.device_memory);
    if let Some(memory) = args.memory {
        return long::train(&Alone, args, &device, memory);
    }
    let recording = multi_unit(
        data::read_recording(&args.recording, &args.part.behavior)?,
        args,
    )
    .map_err(|e| e.at(args.recording.display()))?;
    let step = args.step.unwrap_or_else(|| data::default_step(&recording));
    let form = recording.form;
    let at = |e: Error| e.at(args.recording.display());
    let mut dataset = data::dataset(recording, step, &args.part).map_err(at)?;
    // Silent channels cost nothing; who wants them refused has them named by the solver.
    let active = if args.refuse_dead {
        None
    } else {
        train::active(&dataset).map_err(at)?
    };
    let mut names = Vec::new();
    let firing = active.map(|active| {
        names = std::mem::replace(&mut dataset, active.data).channel_names;
        active.channels
    });

    let bar = Bar::new();
    let (options, search) = choices(args, &dataset, &bar)?;
    let (trained, comparison) = match kinds(args)? {
        None if args.folds == 0 => (
            train::train_on(&device, &dataset, &options, &bar).map_err(at)?,
            None,
        ),
        None => {
            let trained = train::train_validated_on(&device, &dataset, &options, &search, &bar);
            (trained.map_err(at)?, None)
        }
        Some(kinds) => {
            let trained = train::train_kinds_on(&device, &dataset, &options, &search, &kinds, &bar);
            let (trained, comparison) = trained.map_err(at)?;
            (trained, Some(comparison))
        }
    };
    let mut trained = trained;
    if args.variance {
        trained.decoder = match trained.decoder.kind() {
            "lift" | "experts" => {
                train::with_variance(&trained.decoder, &dataset, &bar).map_err(at)?
            }
            kind => {
                eprintln!("--variance made no difference: a decoder of kind {kind} tells none");
                trained.decoder
            }
        };
    }
    let ran = &trained.ran;
    device::note_fallback(ran, "training");
    if args.device_memory.is_some() && ran.memory_cap.is_none() {
        eprintln!("--device-memory made no difference: no GPU is used");
    }
    let model = match &firing {
        Some(firing) => {
            eprintln!(
                "{} of {} without a spike: masked",
                names.len() - firing.len(),
                report::count(names.len() as u128, "channel")
            );
            train::spread(trained.decoder, &names, firing)?
        }
        None => trained.decoder,
    };
    let model = input_form::marked(model, form)?;
    model.save(&args.out)?;
    let seconds = bar.seconds();
    let gram_error = trained.gram_error.map(|error| GramError {
        precision: options.precision.name(),
        largest: error.largest,
        rms: error.rms,
    });
    if args.tf32 && gram_error.is_none() {
        eprintln!("--tf32 made no difference: Γ was not computed by the dense path on a GPU");
    }
    drop(bar);
    let device = ran.device.clone();
    print(args, &model, comparison, device, seconds, gram_error)
}

/// The kinds that `--decoder` asks for, unless that is only the linear one.
fn kinds(args: &Train) -> Result<Option<KindOptions>> {
    let latents = ("--latents", args.latents);
    let units = ("--lift-units", args.lift_units);
    let experts = ("--experts", args.experts);
    let cells = ("--cells", args.cells);
    let layers = ("--layers", args.layers.as_ref().map(Vec::len));
    let members = ("--members", args.members);
    let refuse = |decoder: &str, options: &[(&str, Option<usize>)]| {
        let given = options
            .iter()
            .find_map(|(name, given)| Some((name, (*given)?)));
        given.map_or(Ok(()), |(name, given)| {
            Err(Error::argument(format!(
                "{name}: expected a --decoder that has such, which {decoder} does not, got {given}"
            )))
        })
    };
    let kinds = match args.decoder {
        DecoderKind::Linear => {
            refuse("linear", &[latents, units, experts, cells, layers, members])?;
            return Ok(None);
        }
        DecoderKind::Lift => {
            refuse("lift", &[experts, cells, layers, members])?;
            KindOptions::among(&[train::Kind::Lift])
        }
        DecoderKind::Experts => {
            refuse("experts", &[units, cells, layers, members])?;
            KindOptions::among(&[train::Kind::Experts])
        }
        DecoderKind::Kalman => {
            refuse("kalman", &[latents, units, experts, cells, layers, members])?;
            KindOptions::among(&[train::Kind::Kalman])
        }
        DecoderKind::Refit => {
            refuse("refit", &[latents, units, experts, cells, layers, members])?;
            KindOptions::among(&[train::Kind::Refit])
        }
        DecoderKind::Place => {
            refuse("place", &[latents, units, experts, layers, members])?;
            KindOptions::among(&[train::Kind::Place])
        }
        DecoderKind::Recurrent => {
            refuse("recurrent", &[latents, units, experts, cells])?;
            KindOptions::among(&[train::Kind::Recurrent])
        }
        DecoderKind::Auto => {
            refuse("auto", &[cells, layers, members])?;
            KindOptions::auto()
        }
    };
    if args.folds == 0 {
        return Err(Error::argument(
            "--decoder: expected --folds of at least 2 to choose by, got 0",
        ));
    }
    Ok(Some(KindOptions {
        latents: args.latents,
        units: args.lift_units,
        experts: args.experts,
        cells: args.cells,
        layers: args.layers.clone(),
        members: args.members,
        seed: args.seed,
        ..kinds
    }))
}

/// Combines units as `--units` or `--groups` ask.
fn multi_unit(recording: Recording, args: &Train) -> Result<Recording> {
    match groups(&recording, args)? {
        Some(groups) => recording.combine(&groups),
        None => Ok(recording),
    }
}

/// The units of each channel, where several are to be combined.
pub(super) fn groups(recording: &Recording, args: &Train) -> Result<Option<Vec<Vec<u32>>>> {
    match (&args.groups, args.units) {
        (Some(path), _) => read_groups(path, recording).map(Some),
        (None, Some(units)) if !(1..=recording.channels()).contains(&units) => {
            Err(Error::argument(format!(
                "--units: expected 1 to {} (the recording's channels), got {units}",
                recording.channels()
            )))
        }
        (None, Some(units)) if units > 1 => {
            Ok(Some(random_groups(recording.channels(), units, args.seed)))
        }
        _ => Ok(None),
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
pub(super) fn choices(
    args: &Train,
    dataset: &Dataset,
    bar: &Bar,
) -> Result<(TrainOptions, Search)> {
    let fixed_bank = bank::chosen(&args.bank, &args.filters, args.folds)?;
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
    options.low_pass = args.low_pass.as_deref().map(bank::low_pass).transpose()?;
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
        text => bank::delay_steps(text, dataset.step_seconds)?,
    };
    Ok((options, search))
}

fn row(score: train::KindScore) -> KindRow {
    KindRow {
        decoder: score.kind.name(),
        configuration: score.configuration,
        r2: score.r2,
        gain: score.gain,
        gain_error: score.gain_error,
        median_error: score.median_error,
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
        "median distance",
        "multiply-adds a step",
        "configuration",
    ]);
    for kind in &trained.kinds {
        let gain = if kind.decoder == train::Kind::Linear.name() {
            String::new()
        } else {
            format!("{:+.4} ± {:.4}", kind.gain, kind.gain_error)
        };
        table.row([
            kind.decoder.to_owned(),
            format!("{:.4}", kind.r2),
            gain,
            (kind.median_error).map_or_else(String::new, |d| format!("{d:.4}")),
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

pub(super) fn print(
    args: &Train,
    model: &Decoder,
    comparison: Option<Comparison>,
    device: String,
    seconds: f64,
    gram_error: Option<GramError>,
) -> Result<()> {
    let record = model.training();
    let trained = Trained {
        model: args.out.display().to_string(),
        decoder: (comparison.as_ref()).map_or(model.kind(), |c| c.taken.name()),
        artefacts: comparison.as_ref().map(|c| c.artefacts),
        kinds: comparison.map_or_else(Vec::new, |c| c.kinds.into_iter().map(row).collect()),
        channels: model.channels(),
        masked_channels: model.channel_mask().iter().filter(|used| !**used).count(),
        features: model.features(),
        step_seconds: model.step_seconds(),
        filters: bank::shapes(model.bank()),
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
        total_seconds: report::total_seconds(),
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
        report::remarks(&trained.outputs);
    }
    report::line(&format!("bank (tau s:order): {}", bank::text(model.bank())))?;
    let clock = format!(
        "delay {} s, step {} s",
        report::number(trained.delay_seconds),
        report::number(trained.step_seconds)
    );
    // A decoder of place has neither Γ nor ridge.
    report::line(&match trained.gram.as_str() {
        "" => clock,
        gram => format!(
            "ridge {:.4e}, {clock}, Γ {gram}, {}",
            trained.ridge, trained.solver
        ),
    })?;
    if let Some(error) = &trained.gram_error {
        report::line(&format!(
            "Γ in {}: on a sample off by {:.1e} at most, {:.1e} root mean square, of √(Γ_ii Γ_jj)",
            error.precision, error.largest, error.rms
        ))?;
    }
    if trained.masked_channels > 0 {
        report::line(&format!(
            "{} of {} masked (silent, or copies of others)",
            trained.masked_channels,
            report::count(trained.channels as u128, "channel")
        ))?;
    }
    report::line(&format!(
        "{}: {}, {}, trained on {} and {} in {:.2} s ({:.2} s in all) on {}",
        trained.model,
        report::count(trained.channels as u128, "channel"),
        report::count(model.outputs().len() as u128, "output"),
        report::count(trained.steps, "step"),
        if input_form::is_of_signal(model) {
            "a signal".to_owned()
        } else {
            report::count(trained.spikes, "spike")
        },
        seconds,
        trained.total_seconds,
        trained.device
    ))
}
