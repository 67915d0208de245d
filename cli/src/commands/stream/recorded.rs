//! `betz stream MODEL RECORDING`: a recording, step by step through a real-time session.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use betz::input_form;
use betz::model::Decoder;
use betz::recording::Dataset;
use betz::stream::{ChannelRules, StepStatus};
use betz::train::score::score_estimates;
use betz::{Error, Result};
use betz_live::{DatasetFeed, DatasetRig, Until};
use serde::Serialize;

use super::args::Stream;
use crate::commands::monitor::name_of;
use crate::data;
use crate::decoded::{self, Outputs};
use crate::device;
use crate::files::Files;
use crate::rates::Rates;
use crate::replay::{LatencyUs, deadline};
use crate::report::{self, Outcome, Scores};
use crate::session::{self, DatasetOutputs};
use crate::unlike::{SteppedComparison, UnlikeTraining};

#[derive(Serialize)]
struct StreamReport {
    #[serde(flatten)]
    scores: Scores,
    latency_us: LatencyUs,
    dropped: u64,
    #[serde(flatten)]
    flags: FlagCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_misses: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unlike_training: Option<UnlikeTraining>,
    #[serde(skip)]
    spikes: u64,
}

/// Counts of steps that were flagged.
#[derive(Default, Serialize)]
struct FlagCounts {
    /// Steps with any flag.
    flagged: u64,
    /// Steps with each flag; see `StepStatus`.
    flags: BTreeMap<&'static str, u64>,
}

impl FlagCounts {
    fn add(&mut self, status: StepStatus) {
        self.flagged += u64::from(!status.is_ok());
        for name in status.names() {
            *self.flags.entry(name).or_insert(0) += 1;
        }
    }
}

pub(super) fn run(args: &Stream, recording: &Path) -> Result<()> {
    let mut files = Files::new(&args.common)
        .reads("MODEL", &args.model)
        .reads("RECORDING", recording);
    if let Some(out) = &args.out {
        files.writes("--out", out, decoded::kind(out)?)?;
    }
    decoded::check(args.out.as_deref(), recording)?;
    let deadline = args.deadline.map(deadline).transpose()?;
    let device = device::cpu_for("a session", &args.common.device)?;
    let model = Decoder::load(&args.model)?;
    let (dataset, _) = data::dataset_for(&model, recording, &args.part)?;
    let dataset = input_form::with_behavior(&model, dataset)?;
    if let Some(rates) = Rates::of(&model, &dataset) {
        rates.warn();
    }
    check_speed(args.speed, &dataset)?;
    let feed = DatasetFeed {
        rows: args.counts,
        speed: args.speed,
        repeats: false,
    };
    let dataset = Arc::new(dataset);
    let rig = Box::new(DatasetRig::new(Arc::clone(&dataset), feed));
    let mut live = session::open(&name_of(&args.model), &model, deadline, rig)?;
    let session = session::of(&mut live)?;
    let can_watch = !args.no_watch && model.limits().blanking.is_some();
    let mut watch = (args.watch || can_watch)
        .then(|| session.watch_channels(&model, ChannelRules::default()))
        .transpose()?;
    let mut unlike = (args.unlike)
        .map(|seconds| SteppedComparison::open(&model, session, seconds))
        .transpose()?;
    let mut flags = FlagCounts::default();
    let mut decoded = DatasetOutputs::new(&dataset, session.outputs(), "streaming")?;
    let whole = Until {
        steps: None,
        stop: &|| false,
    };
    live.run(&whole, &mut |step| {
        if let Some(watch) = &mut watch {
            watch.look();
        }
        if let Some(unlike) = &mut unlike {
            unlike.step();
        }
        flags.add(step.status);
        decoded.add(step.end, step.values);
        Ok(())
    })?;
    let decoded = decoded.finish();
    write(args, recording, &model, &dataset, &decoded)?;
    let stats = session::of(&mut live)?.stats();
    if !dataset.outputs.is_empty() {
        report::warn_of_scores(&model, &dataset)?;
    }
    let scores = Scores {
        median_error: None,
        outputs: if dataset.outputs.is_empty() {
            Vec::new()
        } else {
            score_estimates(&*dataset, &decoded, model.delay_steps())?.outputs
        },
        steps: dataset.steps_in_segments(),
        segments: dataset.segments.len(),
        device,
        total_seconds: report::total_seconds(),
    };
    let streamed = StreamReport {
        scores,
        latency_us: LatencyUs::of(&stats),
        dropped: stats.dropped,
        flags,
        deadline_misses: deadline.map(|_| stats.deadline_misses),
        unlike_training: unlike.map(SteppedComparison::finish).transpose()?,
        spikes: stats.spikes,
    };
    report::tell(&streamed, args.common.json)
}

/// Writes the movement to `--out`, if it is given.
fn write(
    args: &Stream,
    recording: &Path,
    model: &Decoder,
    dataset: &Dataset,
    decoded: &[f32],
) -> Result<()> {
    let Some(path) = &args.out else {
        return Ok(());
    };
    let outputs = Outputs {
        out: path,
        recording,
        behavior: &args.part.behavior,
        model: &args.model,
        segments: false,
    };
    outputs.write(model.into(), dataset, decoded)
}

/// Refuses a `speed` that is not a multiple of real time, or so slow that `dataset` never ends.
pub(crate) fn check_speed(speed: Option<f64>, dataset: &Dataset) -> Result<()> {
    let seconds = dataset.steps_in_segments() as f64 * dataset.step_seconds;
    let expected = match speed {
        Some(speed) if !(speed.is_finite() && speed > 0.0) => "> 0".to_owned(),
        Some(speed) if Duration::try_from_secs_f64(seconds / speed).is_err() => {
            format!("at which {seconds} s come to an end")
        }
        _ => return Ok(()),
    };
    let got = speed.unwrap_or_default();
    Err(Error::argument(format!(
        "--speed: expected a multiple {expected}, got {got}"
    )))
}

impl Outcome for StreamReport {
    fn print(&self) -> Result<()> {
        self.scores.print()?;
        report::line(&self.latency_us.sentence())?;
        if let Some(misses) = self.deadline_misses {
            report::line(&format!("deadline misses: {misses}"))?;
        }
        let flags: Vec<String> = (self.flags.flags.iter())
            .map(|(name, steps)| format!("{name}: {steps}"))
            .collect();
        if !flags.is_empty() {
            report::line(&format!(
                "steps flagged: {} ({})",
                self.flags.flagged,
                flags.join(", ")
            ))?;
        }
        if let Some(unlike) = &self.unlike_training {
            unlike.print()?;
        }
        report::line(&format!(
            "spikes: {}, dropped: {}",
            self.spikes, self.dropped
        ))
    }
}
