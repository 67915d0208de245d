//! `betz stream`: replay a recording tick by tick through the real-time session.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use betz::model::Decoder;
use betz::recording::Dataset;
use betz::stream::{ChannelRules, Session, SessionConfig, Stats, StepStatus};
use betz::train::score::score_estimates;
use betz::{Error, Progress, Result};
use serde::Serialize;

use super::beside::{self, Outputs};
use crate::args::Stream;
use crate::data;
use crate::device;
use crate::files::Files;
use crate::rates::Rates;
use crate::report::{self, Bar, Scores};

/// Latencies as the contract names them.
#[derive(Serialize)]
pub(crate) struct LatencyUs {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p99_9: f64,
    pub(crate) max: f64,
    pub(crate) steps: u64,
}

impl LatencyUs {
    pub(crate) fn of(stats: &Stats) -> Self {
        let l = &stats.latency;
        Self {
            p50: l.p50_us,
            p99: l.p99_us,
            p99_9: l.p99_9_us,
            max: l.max_us,
            steps: l.steps,
        }
    }

    /// A latency for a table.
    pub(crate) fn microseconds(&self, value: f64) -> String {
        if value < 10.0 {
            format!("{value:.2} µs")
        } else {
            format!("{value:.0} µs")
        }
    }

    pub(crate) fn sentence(&self) -> String {
        format!(
            "step latency: p50 {:.3} µs, p99 {:.3} µs, p99.9 {:.3} µs, max {:.1} µs over {} steps",
            self.p50, self.p99, self.p99_9, self.max, self.steps
        )
    }
}

#[derive(Serialize)]
struct Streamed {
    #[serde(flatten)]
    scores: Scores,
    latency_us: LatencyUs,
    dropped: u64,
    /// Steps of which there was something to say.
    flagged: u64,
    /// And how many by what was said; see `StepStatus`.
    flags: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_misses: Option<u64>,
}

/// How a recording is fed to the session.
pub(crate) struct Feed {
    /// A row of counts per tick instead of a list of spikes.
    pub(crate) counts: bool,
    /// Multiple of real time; as fast as it goes when absent.
    pub(crate) speed: Option<f64>,
}

pub(crate) fn run(args: &Stream) -> Result<()> {
    match (&args.source, &args.recording) {
        (Some(source), _) => super::live::run(args, source),
        (None, Some(recording)) => recorded(args, recording),
        (None, None) => Err(Error::argument("expected a recording or --in, got neither")),
    }
}

fn recorded(args: &Stream, recording: &Path) -> Result<()> {
    if let Some(speed) = args.speed
        && !(speed.is_finite() && speed > 0.0)
    {
        return Err(Error::argument(format!(
            "--speed: expected a multiple > 0, got {speed}"
        )));
    }
    Files::new(&args.common)
        .reads("MODEL", &args.model)
        .reads("RECORDING", recording)
        .may_write(
            "--out",
            args.out.as_deref(),
            beside::kind(args.out.as_deref()),
        )?;
    beside::check(args.out.as_deref(), recording)?;
    let deadline = args.deadline.map(deadline).transpose()?;
    let device = device::cpu_for("a session", &args.common.device)?;
    let model = Decoder::load(&args.model)?;
    let mut dataset = data::dataset_for(&model, recording, &args.part)?;
    if !dataset.outputs.is_empty() {
        dataset = dataset.with_outputs(model.outputs())?;
    }
    if let Some(rates) = Rates::of(&model, &dataset) {
        rates.warn();
    }
    let seconds = dataset.steps_in_segments() as f64 * dataset.step_seconds;
    if let Some(speed) = args.speed
        && Duration::try_from_secs_f64(seconds / speed).is_err()
    {
        return Err(Error::argument(format!(
            "--speed: expected a multiple at which {seconds} s come to an end, got {speed}"
        )));
    }
    let config = SessionConfig {
        deadline,
        ..SessionConfig::default()
    };
    let mut session = Session::open(&model, config)?;
    let feed = Feed {
        counts: args.counts,
        speed: args.speed,
    };
    let can_watch = !args.no_watch && model.limits().blanking.is_some();
    let mut watch = (args.watch || can_watch)
        .then(|| session.watch_channels(&model, ChannelRules::default()))
        .transpose()?;
    let (mut flagged, mut flags) = (0, BTreeMap::new());
    let mut each = |status: StepStatus| {
        if let Some(watch) = &mut watch {
            watch.look();
        }
        flagged += u64::from(!status.is_ok());
        for name in status.names() {
            *flags.entry(name).or_insert(0) += 1;
        }
    };
    let decoded = replay_each(&mut session, &dataset, &feed, &Bar::new(), &mut each)?;
    if let Some(path) = &args.out {
        let outputs = Outputs {
            out: path,
            recording,
            behavior: &args.part.behavior,
            model: &args.model,
        };
        outputs.write(&model, &dataset, &decoded)?;
    }
    let stats = session.stats();
    let scores = Scores {
        median_error: None,
        outputs: if dataset.outputs.is_empty() {
            Vec::new()
        } else {
            score_estimates(&dataset, &decoded, model.delay_steps())?.outputs
        },
        steps: dataset.steps_in_segments(),
        segments: dataset.segments.len(),
        device,
        total_seconds: report::total_seconds(),
    };
    let streamed = Streamed {
        scores,
        latency_us: LatencyUs::of(&stats),
        dropped: stats.dropped,
        flagged,
        flags,
        deadline_misses: deadline.map(|_| stats.deadline_misses),
    };
    if args.common.json {
        return report::json(&streamed);
    }
    streamed.scores.print()?;
    report::line(&streamed.latency_us.sentence())?;
    if let Some(misses) = streamed.deadline_misses {
        report::line(&format!("deadline misses: {misses}"))?;
    }
    let flags: Vec<String> = (streamed.flags.iter())
        .map(|(name, steps)| format!("{name}: {steps}"))
        .collect();
    if !flags.is_empty() {
        report::line(&format!(
            "steps flagged: {} ({})",
            streamed.flagged,
            flags.join(", ")
        ))?;
    }
    report::line(&format!(
        "spikes: {}, dropped: {}",
        stats.spikes, stats.dropped
    ))
}

pub(super) fn deadline(microseconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(microseconds * 1e-6)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| {
            Error::argument(format!(
                "--deadline: expected microseconds > 0, got {microseconds}"
            ))
        })
}

/// Feeds `dataset` tick by tick; (steps, outputs) row-major, NaN outside segments. The session is
/// reset at each segment's start, as training and batch decoding do.
pub(crate) fn replay(
    session: &mut Session,
    dataset: &Dataset,
    feed: &Feed,
    progress: &dyn Progress,
) -> Result<Vec<f32>> {
    replay_each(session, dataset, feed, progress, &mut |_| ())
}

/// [`replay`], of whose every step `each` hears the status.
fn replay_each(
    session: &mut Session,
    dataset: &Dataset,
    feed: &Feed,
    progress: &dyn Progress,
    each: &mut dyn FnMut(StepStatus),
) -> Result<Vec<f32>> {
    let width = session.outputs();
    let values = dataset.steps.saturating_mul(width);
    betz::memory::plan("the decoded outputs", values as u128 * 4)?;
    let mut decoded = betz::memory::filled("the decoded outputs", f32::NAN, values)?;
    let mut counts = betz::memory::filled("a tick", 0u16, session.channels())?;
    // A signal, and counts beyond 65,535, go in as they are.
    let weights = &dataset.spikes.weights;
    let as_counts = |w: &f32| w.fract() == 0.0 && (0.0..=65_535.0).contains(w);
    let signal = !weights.iter().all(as_counts);
    let row = if signal { session.channels() } else { 0 };
    let mut values = betz::memory::filled("a tick", 0.0_f32, row)?;
    let started = Instant::now();
    let (mut done, total) = (0u64, dataset.steps_in_segments() as u64);
    for segment in &dataset.segments {
        session.reset();
        let mut next = dataset.spikes.range(segment.start, segment.stop).start;
        for step in segment.start..segment.stop {
            let ticks = &dataset.spikes.ticks[next..];
            let now = next..next + ticks.iter().take_while(|&&t| t == step).count();
            next = now.end;
            let spikes = &dataset.spikes.channels[now.clone()];
            let row = step as usize * width;
            let out = &mut decoded[row..row + width];
            if signal {
                for i in now {
                    values[dataset.spikes.channels[i] as usize] += dataset.spikes.weights[i];
                }
                session.step_values(&values, out)?;
                spikes.iter().for_each(|&c| values[c as usize] = 0.0);
            } else if feed.counts || !weights.is_empty() {
                counts.fill(0);
                for i in now {
                    let count = &mut counts[dataset.spikes.channels[i] as usize];
                    *count = count.saturating_add(dataset.spikes.weight(i) as u16);
                }
                session.step_counts(&counts, out)?;
            } else {
                session.step_spikes(spikes, out)?;
            }
            each(session.status());
            done += 1;
            if let Some(speed) = feed.speed {
                let due = Duration::from_secs_f64(done as f64 * dataset.step_seconds / speed);
                std::thread::sleep(due.saturating_sub(started.elapsed()));
            }
            if done.is_multiple_of(4096) {
                progress.update("streaming", done, total);
            }
        }
    }
    Ok(decoded)
}
