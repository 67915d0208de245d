//! `betz stream` of a clusterless place decoder: a recording, step by step through a real-time session.

use std::path::Path;
use std::time::{Duration, Instant};

use betz::recording::Dataset;
use betz::train::place::{ClusterlessPlace, SpikeFeatures};
use betz::train::score::{place_error, score_estimates};
use betz::{Error, Result};
use serde::Serialize;

use super::{DECODES_ON_CPU, Input, check_device, check_out, read, source};
use crate::commands::stream::args::Stream;
use crate::commands::stream::recorded::check_speed;
use crate::decoded::{self, Outputs};
use crate::files::Files;
use crate::replay::{LatencyUs, deadline};
use crate::report::{self, Outcome, Scores, count};

#[derive(Serialize)]
struct StreamReport {
    #[serde(flatten)]
    scores: Scores,
    latency_us: LatencyUs,
    /// Largest number of spikes of a step.
    most_spikes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_misses: Option<u64>,
    spikes: u64,
    spikes_left_out: u64,
    unit: String,
}

impl Outcome for StreamReport {
    fn print(&self) -> Result<()> {
        self.scores.print()?;
        if let Some(median) = self.scores.median_error {
            report::line(&format!("median distance: {median:.4} {}", self.unit))?;
        }
        report::line(&self.latency_us.sentence())?;
        report::line(&format!("spikes of a step: at most {}", self.most_spikes))?;
        if let Some(misses) = self.deadline_misses {
            report::line(&format!("deadline misses: {misses}"))?;
        }
        report::line(&format!(
            "{}; {} left out",
            count(u128::from(self.spikes), "spike"),
            self.spikes_left_out
        ))
    }
}

/// Estimates of every step and the time that each step took.
struct StepResults {
    estimates: Vec<f32>,
    nanoseconds: Vec<u64>,
    spikes: u64,
    most_spikes: usize,
    left_out: u64,
}

/// Refuses options of `betz stream` that such a model has no use for.
fn check(args: &Stream) -> Result<()> {
    let without_use = [
        ("--counts", args.counts),
        ("--watch", args.watch),
        ("--no-watch", args.no_watch),
        ("--unlike", args.unlike.is_some()),
        ("--page", args.page.shown),
    ];
    match without_use.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Error::argument(format!(
            "{option}: expected a model of another kind, got {}, a clusterless place decoder",
            args.model.display()
        ))),
        None => check_device(&args.common.device, DECODES_ON_CPU),
    }
}

/// Longest sleep in one piece, after which an interrupt is noticed.
const SLEEP: Duration = Duration::from_millis(100);

/// Sleeps until `due` after `begun`, or fails at an interrupt.
fn wait_until(begun: Instant, due: Duration) -> Result<()> {
    loop {
        let left = due.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(SLEEP));
        report::check_interrupt("streaming")?;
    }
}

/// Steps of `dataset`, each segment from rest, at `speed` times real time.
fn step(
    model: &ClusterlessPlace,
    dataset: &Dataset,
    features: &SpikeFeatures,
    speed: Option<f64>,
) -> Result<StepResults> {
    let (n, columns) = (model.outputs().len(), features.columns);
    let mut stepped = StepResults {
        estimates: betz::memory::filled("decoded outputs", f32::NAN, dataset.steps * n)?,
        nanoseconds: betz::memory::room("step times", dataset.steps_in_segments())?,
        spikes: 0,
        most_spikes: 0,
        left_out: 0,
    };
    let mut session = model.session()?;
    let begun = Instant::now();
    for segment in &dataset.segments {
        session.reset();
        let mut next = dataset.spikes.range(segment.start, segment.stop).start;
        for step in segment.start..segment.stop {
            let ticks = &dataset.spikes.ticks[next..];
            let now = next..next + ticks.iter().take_while(|&&t| t == step).count();
            next = now.end;
            report::check_interrupt("streaming")?;
            if let Some(speed) = speed {
                let due = stepped.nanoseconds.len() as f64 * dataset.step_seconds / speed;
                wait_until(
                    begun,
                    Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX),
                )?;
            }
            let spikes = &dataset.spikes.channels[now.clone()];
            let rows = &features.values[now.start * columns..now.end * columns];
            let since = Instant::now();
            let (mean, _) = session.step(spikes, rows);
            let row = &mut stepped.estimates[step as usize * n..][..n];
            row.iter_mut().zip(mean).for_each(|(e, m)| *e = *m as f32);
            stepped.nanoseconds.push(since.elapsed().as_nanos() as u64);
            stepped.spikes += spikes.len() as u64;
            stepped.most_spikes = stepped.most_spikes.max(spikes.len());
        }
    }
    stepped.left_out = session.spikes_left_out();
    Ok(stepped)
}

/// Quantiles of the times of steps.
fn latency(mut nanoseconds: Vec<u64>) -> LatencyUs {
    nanoseconds.sort_unstable();
    let at = |share: f64| {
        let place = (share * nanoseconds.len() as f64).ceil() as usize;
        let found = nanoseconds.get(place.saturating_sub(1));
        found.map_or(0.0, |ns| *ns as f64 * 1e-3)
    };
    LatencyUs {
        p50: at(0.5),
        p99: at(0.99),
        p99_9: at(0.999),
        max: at(1.0),
        steps: nanoseconds.len() as u64,
    }
}

/// `betz stream MODEL RECORDING` with such a decoder.
pub(crate) fn stream(args: &Stream, recording: &Path) -> Result<()> {
    let mut files = Files::new(&args.common)
        .reads("MODEL", &args.model)
        .reads("RECORDING", recording);
    if let Some(out) = &args.out {
        files.writes("--out", out, decoded::kind(out)?)?;
    }
    decoded::check(args.out.as_deref(), recording)?;
    check(args)?;
    check_out(args.out.as_deref(), recording)?;
    let limit = args.deadline.map(deadline).transpose()?;
    let model = ClusterlessPlace::load(&args.model)?;
    let at = |e: Error| e.at(recording.display());
    let Input {
        dataset, features, ..
    } = read(recording, &args.part, true, |_| model.step_seconds())?;
    let dataset = match dataset.outputs.is_empty() {
        true => dataset,
        false => dataset.with_outputs(model.outputs()).map_err(at)?,
    };
    model.check_data(&dataset, features.columns).map_err(at)?;
    check_speed(args.speed, &dataset)?;
    report::stop_on_interrupt();
    let stepped = step(&model, &dataset, &features, args.speed)?;
    if let Some(out) = &args.out {
        let outputs = Outputs {
            out,
            recording,
            behavior: &args.part.behavior,
            model: &args.model,
            segments: false,
        };
        outputs.write(source(&model), &dataset, &stepped.estimates)?;
    }
    let (outputs, place) = match dataset.outputs.is_empty() {
        true => (Vec::new(), None),
        false => (
            score_estimates(&dataset, &stepped.estimates, 0)
                .map_err(at)?
                .outputs,
            place_error(&dataset, &stepped.estimates, 0).map_err(at)?,
        ),
    };
    let misses = limit.map(|limit| {
        let late = |ns: &&u64| Duration::from_nanos(**ns) > limit;
        stepped.nanoseconds.iter().filter(late).count() as u64
    });
    let report = StreamReport {
        scores: Scores {
            outputs,
            median_error: place.as_ref().map(|p| p.median),
            steps: dataset.steps_in_segments(),
            segments: dataset.segments.len(),
            device: "the CPU".to_owned(),
            total_seconds: report::total_seconds(),
        },
        latency_us: latency(stepped.nanoseconds),
        most_spikes: stepped.most_spikes,
        deadline_misses: misses,
        spikes: stepped.spikes,
        spikes_left_out: stepped.left_out,
        unit: place.map_or(String::new(), |p| p.unit),
    };
    report::tell(&report, args.common.json)
}
