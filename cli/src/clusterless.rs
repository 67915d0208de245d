//! Clusterless place decoders: `betz train --decoder place --marks`, and `evaluate`, `decode` and `info` of their files.

#[cfg(feature = "rig")]
mod stream;

use std::path::Path;
use std::time::Instant;

#[cfg(feature = "rig")]
pub(crate) use stream::stream;

use betz::device::DeviceSpec;
use betz::recording::{AlignOptions, AlignReport, Dataset, Recording, SpikeForm};
use betz::train::place::{ClusterlessOptions, ClusterlessPlace, SpikeFeatures};
use betz::train::score::{place_error, score_estimates, while_moving};
use betz::{Error, Result};
use serde::Serialize;

use crate::commands::decode::args::Decode;
use crate::commands::evaluate::args::Evaluate;
use crate::commands::train::args::{DecoderKind, Gram, SolverName, Train};
use crate::common_args::Part;
use crate::data;
use crate::decoded::{Outputs, Source};
use crate::files::first_bytes;
use crate::parse;
use crate::report::{self, Bar, Outcome, Scores, count, number};

/// Array of a recording with the features of its spikes.
const FEATURES: &str = "spike_features";

/// Step in seconds, if none is asked for.
const STEP_SECONDS: f64 = 0.02;

/// Reason that no other device is allowed.
const DECODES_ON_CPU: &str = "a clusterless place decoder decodes on the CPU";

/// True if `path` is the file of a clusterless place decoder.
pub(crate) fn is_one(path: &Path) -> bool {
    first_bytes(path).is_ok_and(|start| start == ClusterlessPlace::MAGIC)
}

/// The way out of an `error` that refuses a file of this kind; `None` for any other error.
pub(crate) fn way_out(error: &Error) -> Option<&'static str> {
    let refused = error.message().contains("got \"BETZCLUS\"");
    refused.then_some(
        "the file is a clusterless place decoder (betz train --marks), which betz evaluate, decode and info read, and betz stream with a recording: live sources carry no features of spikes; train --decoder place without --marks for them",
    )
}

/// A recording on the decoder's clock, with the features of its spikes.
struct Input {
    dataset: Dataset,
    features: SpikeFeatures,
    aligned: AlignReport,
}

/// Reads `part` of the recording `path`, with its behaviour or without.
fn read(
    path: &Path,
    part: &Part,
    with_behavior: bool,
    step: impl FnOnce(&Recording) -> f64,
) -> Result<Input> {
    let (mut recording, features) = data::read_marks(path, &part.behavior)?;
    let at = |e: Error| e.at(path.display());
    if recording.form != SpikeForm::Events {
        return Err(at(Error::recording(format!(
            "array `{FEATURES}`: expected a recording with `spike_ticks`, got one without"
        ))));
    }
    if features.values.len() != recording.spikes.len() * features.columns {
        return Err(at(Error::recording(format!(
            "array `{FEATURES}`: expected one row per spike of `spike_ticks`, {} rows, got {}",
            recording.spikes.len(),
            features.values.len() / features.columns.max(1)
        ))));
    }
    if !with_behavior {
        recording.behavior = None;
    }
    if let Some(list) = &part.segments {
        let wanted = parse::ranges("--segments", list, recording.segments.len())?;
        recording.segments = wanted.iter().map(|&i| recording.segments[i]).collect();
    }
    data::check_gap(part)?;
    let options = AlignOptions {
        step_seconds: step(&recording),
        max_gap_seconds: part.max_gap,
    };
    let (mut dataset, aligned) = recording.align_with(&options).map_err(at)?;
    data::tell_aligned(&aligned);
    if part.from.is_some() || part.until.is_some() {
        let (from, until) = (
            part.from.unwrap_or(0.0),
            part.until.unwrap_or(f64::INFINITY),
        );
        // Spikes stay, so that each has its row of features; those outside segments are ignored.
        dataset.segments = dataset.between(from, until).map_err(at)?.segments;
    }
    if with_behavior {
        dataset = dataset
            .with_velocities(&part.velocity)
            .map_err(|e| e.at("--velocity"))?;
    }
    Ok(Input {
        dataset,
        features,
        aligned,
    })
}

#[derive(Serialize)]
struct TrainingReport {
    model: String,
    decoder: &'static str,
    channels: usize,
    features: usize,
    components: usize,
    cells: usize,
    step_seconds: f64,
    bandwidth: f64,
    smoothing: f64,
    walk: f64,
    trust: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_out_median_error: Option<f64>,
    held_out_steps: usize,
    unit: String,
    aligned: AlignReport,
    seconds: f64,
    total_seconds: f64,
}

impl Outcome for TrainingReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: clusterless place decoder of {}, {} components of {}, {} cells, steps of {} s",
            self.model,
            count(self.channels as u128, "channel"),
            self.components,
            count(self.features as u128, "feature"),
            self.cells,
            number(self.step_seconds)
        ))?;
        report::line(&format!(
            "chosen on the last fifth: bandwidth {} SD, smoothed by {} cells, walk {}, likelihood to the {}",
            self.bandwidth, self.smoothing, self.walk, self.trust
        ))?;
        if let Some(error) = self.held_out_median_error {
            let error = format!(
                "median distance there, trained without it: {error:.4} {} over {}",
                self.unit,
                count(self.held_out_steps as u128, "step")
            );
            report::line(&error)?;
        }
        report::line(&format!("{:.2} s in all", self.total_seconds))
    }
}

/// Refuses any device but the CPU, for the reason `why`.
fn check_device(device: &str, why: &str) -> Result<()> {
    match device.parse()? {
        DeviceSpec::Auto | DeviceSpec::Cpu => Ok(()),
        _ => Err(Error::argument(format!(
            "--device: expected auto or cpu, because {why}, got {device}"
        ))),
    }
}

/// Refuses to write outputs into a copy of an NWB file with waveforms, which has no table of units.
fn check_out(out: Option<&Path>, recording: &Path) -> Result<()> {
    let is_nwb = |path: &Path| {
        path.extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("nwb"))
    };
    match out.filter(|out| is_nwb(out)) {
        Some(out) if betz_formats::is_hdf5(recording) => Err(Error::argument(format!(
            "--out: expected .csv or .npz, because spikes with waveforms are not copied to another NWB file, got {}",
            out.display()
        ))),
        _ => Ok(()),
    }
}

/// Refuses options of `betz train` that `--marks` has no use for.
pub(crate) fn check(args: &Train) -> Result<()> {
    if !args.marks {
        return Ok(());
    }
    if args.decoder != DecoderKind::Place {
        return Err(Error::argument(
            "--marks: expected --decoder place, which alone decodes spikes with features, got another kind",
        ));
    }
    check_device(&args.common.device, "--marks trains on the CPU")?;
    let without_use = [
        ("--device-memory", args.device_memory.is_some()),
        ("--tf32", args.tf32),
        ("--bank", args.bank != "auto"),
        ("--budget", args.budget.is_some()),
        ("--gate", args.gate.is_some()),
        ("--latents", args.latents.is_some()),
        ("--layers", args.layers.is_some()),
        ("--members", args.members.is_some()),
        ("--mixed", args.mixed.is_some()),
        ("--epochs", args.epochs.is_some()),
        ("--labels", args.labels.is_some()),
        ("--memory", args.memory.is_some()),
        ("--retain", args.retain.is_some()),
        ("--variance", args.variance),
        ("--phases", args.phases),
        ("--units", args.units.is_some()),
        ("--groups", args.groups.is_some()),
        ("--low-pass", args.low_pass.is_some()),
        ("--ridge", args.ridge.is_some()),
        ("--noise", args.noise.is_some()),
        ("--delay", args.delay != "0"),
        ("--folds", args.folds != 5),
        ("--gram", !matches!(args.gram, Gram::Auto)),
        ("--solver", !matches!(args.solver, SolverName::Cholesky)),
        ("--false-alarms", args.false_alarms != 1.0),
        ("--priors", args.priors.is_some()),
        ("--experts", args.experts.is_some()),
        ("--lift-units", args.lift_units.is_some()),
        ("--weights", args.weights.is_some()),
        ("--refuse-dead", args.refuse_dead),
        ("--keep-artefacts", args.keep_artefacts),
        ("--filter", !args.filter.filters.is_empty()),
    ];
    match without_use.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Error::argument(format!(
            "{option}: expected training without it, because --marks has no use for it"
        ))),
        None => Ok(()),
    }
}

/// `betz train --decoder place --marks`. The files are checked already.
pub(crate) fn train(args: &Train) -> Result<()> {
    let step = |recording: &Recording| {
        args.step
            .unwrap_or(STEP_SECONDS.max(recording.tick_seconds))
    };
    let Input {
        dataset,
        features,
        aligned,
    } = read(&args.recording, &args.part, true, step)?;
    let options = ClusterlessOptions {
        cells: args.cells.unwrap_or(ClusterlessOptions::default().cells),
        seed: args.seed,
        ..ClusterlessOptions::default()
    };
    let bar = Bar::new();
    let (model, score) = ClusterlessPlace::fit(&dataset, &features, &options, &bar)
        .map_err(|e| e.at(args.recording.display()))?;
    report::check_interrupt("training")?;
    model.save(&args.out)?;
    let seconds = bar.seconds();
    drop(bar);
    let shape = model.shape();
    let report = TrainingReport {
        model: args.out.display().to_string(),
        decoder: "place",
        channels: dataset.channels(),
        features: features.columns,
        components: model.components(),
        cells: model.place().cells.len(),
        step_seconds: model.step_seconds(),
        bandwidth: shape.bandwidth,
        smoothing: shape.smoothing,
        walk: shape.pace,
        trust: shape.trust,
        held_out_median_error: score.as_ref().map(|s| s.median_error),
        held_out_steps: score.as_ref().map_or(0, |s| s.steps),
        unit: score.map_or(String::new(), |s| s.unit),
        aligned,
        seconds,
        total_seconds: report::total_seconds(),
    };
    report::tell(&report, args.common.json)
}

/// The source of the estimates of `model`, for their file.
fn source(model: &ClusterlessPlace) -> Source<'_> {
    Source {
        outputs: model.outputs(),
        kind: "place",
        version: Some(model.betz_version()),
    }
}

#[derive(Serialize)]
struct ScoreReport {
    #[serde(flatten)]
    scores: Scores,
    /// Spikes that were left out: a feature is missing or not finite, or their group had no spikes in training.
    spikes_left_out: u64,
    /// Time of decoding alone.
    decode_seconds: f64,
    unit: String,
    aligned: AlignReport,
}

impl Outcome for ScoreReport {
    fn print(&self) -> Result<()> {
        self.scores.print()?;
        if let Some(median) = self.scores.median_error {
            report::line(&format!("median distance: {median:.4} {}", self.unit))?;
        }
        let steps = self.scores.steps.max(1) as f64;
        report::line(&format!(
            "decoded in {:.3} s, {:.1} µs per step; {} left out",
            self.decode_seconds,
            1e6 * self.decode_seconds / steps,
            count(u128::from(self.spikes_left_out), "spike")
        ))
    }
}

/// `betz evaluate` of such a decoder. The files are checked already.
pub(crate) fn evaluate(args: &Evaluate) -> Result<()> {
    let without_use = [
        ("--labels", args.labels.is_some()),
        ("--memory", args.memory.is_some()),
        ("--picture", args.picture.is_some()),
        ("--trials", args.trials),
        ("--chance", args.chance.is_some()),
        ("--importance", args.importance),
        ("--seed", args.seed != 1),
    ];
    if let Some((option, _)) = without_use.iter().find(|(_, given)| *given) {
        return Err(Error::argument(format!(
            "{option}: expected a model of another kind, got {}, a clusterless place decoder",
            args.model.display()
        )));
    }
    check_device(&args.common.device, DECODES_ON_CPU)?;
    check_out(args.out.as_deref(), &args.recording)?;
    let model = ClusterlessPlace::load(&args.model)?;
    let at = |e: Error| e.at(args.recording.display());
    let input = read(&args.recording, &args.part, true, |_| model.step_seconds())?;
    let Input {
        dataset,
        features,
        aligned,
    } = input;
    if dataset.outputs.is_empty() {
        return Err(at(Error::recording(
            "expected behaviour to score against, got none",
        )));
    }
    let dataset = dataset.with_outputs(model.outputs()).map_err(at)?;
    let begun = Instant::now();
    let (mut estimates, spikes_left_out) = model.decode(&dataset, &features).map_err(at)?;
    let decode_seconds = begun.elapsed().as_secs_f64();
    if let Some(out) = &args.out {
        let outputs = Outputs {
            out,
            recording: &args.recording,
            behavior: &args.part.behavior,
            model: &args.model,
            segments: false,
        };
        outputs.write(source(&model), &dataset, &estimates)?;
    }
    if let Some(least) = args.moving {
        estimates = while_moving(&dataset, estimates, 0, least).map_err(|e| e.at("--moving"))?;
    }
    let scores = score_estimates(&dataset, &estimates, 0).map_err(at)?;
    let place = place_error(&dataset, &estimates, 0).map_err(at)?;
    let report = ScoreReport {
        scores: Scores {
            outputs: scores.outputs,
            median_error: place.as_ref().map(|p| p.median),
            steps: dataset.steps_in_segments(),
            segments: dataset.segments.len(),
            device: "the CPU".to_owned(),
            total_seconds: report::total_seconds(),
        },
        spikes_left_out,
        decode_seconds,
        unit: place.map_or(String::new(), |p| p.unit),
        aligned,
    };
    report::tell(&report, args.common.json)
}

#[derive(Serialize)]
struct DecodingReport {
    out: String,
    output_names: Vec<String>,
    steps: usize,
    segments: usize,
    spikes_left_out: u64,
    decode_seconds: f64,
    total_seconds: f64,
}

impl Outcome for DecodingReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: {} ({}) at {} in {}, each decoded from rest; {} left out",
            self.out,
            count(self.output_names.len() as u128, "output"),
            self.output_names.join(", "),
            count(self.steps as u128, "step"),
            count(self.segments as u128, "segment"),
            count(u128::from(self.spikes_left_out), "spike")
        ))?;
        report::line(&format!("{:.2} s in all", self.total_seconds))
    }
}

/// `betz decode` with such a decoder. The files are checked already.
pub(crate) fn decode(args: &Decode) -> Result<()> {
    if args.every.is_some() {
        return Err(Error::argument(
            "--every: expected a model of another kind, got a clusterless place decoder, which decodes at its own steps",
        ));
    }
    check_device(&args.common.device, DECODES_ON_CPU)?;
    check_out(Some(&args.out), &args.recording)?;
    let model = ClusterlessPlace::load(&args.model)?;
    let at = |e: Error| e.at(args.recording.display());
    let input = read(&args.recording, &args.part, false, |_| model.step_seconds())?;
    let Input {
        dataset, features, ..
    } = input;
    let begun = Instant::now();
    let (estimates, spikes_left_out) = model.decode(&dataset, &features).map_err(at)?;
    let decode_seconds = begun.elapsed().as_secs_f64();
    let outputs = Outputs {
        out: &args.out,
        recording: &args.recording,
        behavior: &args.part.behavior,
        model: &args.model,
        segments: true,
    };
    outputs.write(source(&model), &dataset, &estimates)?;
    let report = DecodingReport {
        out: args.out.display().to_string(),
        output_names: model.outputs().iter().map(|o| o.name.clone()).collect(),
        steps: dataset.steps_in_segments(),
        segments: dataset.segments.len(),
        spikes_left_out,
        decode_seconds,
        total_seconds: report::total_seconds(),
    };
    report::tell(&report, args.common.json)
}

#[derive(Serialize)]
struct ModelFacts {
    kind: &'static str,
    decoder: &'static str,
    clusterless: bool,
    file: String,
    bytes: u64,
    betz_version: String,
    channels: usize,
    channel_names: Vec<String>,
    features: usize,
    components: usize,
    cells: usize,
    outputs: Vec<OutputFacts>,
    step_seconds: f64,
    bandwidth: f64,
    smoothing: f64,
    walk: f64,
    trust: f64,
}

#[derive(Serialize)]
struct OutputFacts {
    name: String,
    unit: String,
}

impl Outcome for ModelFacts {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: a clusterless place decoder, {} bytes, by betz {}",
            self.file, self.bytes, self.betz_version
        ))?;
        report::line(&format!(
            "{} of {}, {} components, {} cells, steps of {} s",
            count(self.channels as u128, "channel"),
            count(self.features as u128, "feature"),
            self.components,
            self.cells,
            number(self.step_seconds)
        ))?;
        let outputs = self.outputs.iter().map(|o| match o.unit.is_empty() {
            true => o.name.clone(),
            false => format!("{} ({})", o.name, o.unit),
        });
        let outputs: Vec<String> = outputs.collect();
        report::line(&format!("outputs: {}", outputs.join(", ")))?;
        report::line(&format!(
            "bandwidth {} SD, smoothed by {} cells, walk {}, likelihood to the {}",
            self.bandwidth, self.smoothing, self.walk, self.trust
        ))
    }
}

/// `betz info` of such a file.
pub(crate) fn info(path: &Path, json: bool) -> Result<()> {
    let model = ClusterlessPlace::load(path)?;
    let shape = model.shape();
    let bytes = std::fs::metadata(path)
        .map_err(|e| Error::io("reading", path, &e))?
        .len();
    let output = |o: &betz::recording::OutputInfo| OutputFacts {
        name: o.name.clone(),
        unit: o.unit.clone(),
    };
    let facts = ModelFacts {
        kind: "model",
        decoder: "place",
        clusterless: true,
        file: path.display().to_string(),
        bytes,
        betz_version: model.betz_version().to_owned(),
        channels: model.channel_names().len(),
        channel_names: model.channel_names().to_vec(),
        features: model.features(),
        components: model.components(),
        cells: model.place().cells.len(),
        outputs: model.outputs().iter().map(output).collect(),
        step_seconds: model.step_seconds(),
        bandwidth: shape.bandwidth,
        smoothing: shape.smoothing,
        walk: shape.pace,
        trust: shape.trust,
    };
    report::tell(&facts, json)
}
