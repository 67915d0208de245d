//! `betz stream MODEL --in URI --out URI`: a session between a source and a sink of the field.

use std::collections::BTreeMap;
use std::time::Duration;

use betz::model::Decoder;
use betz::stream::{Session, SessionConfig};
use betz::{Error, Progress, Result};
use betz_interop::bus::{Counts, PumpReport, Sink, Stream, Until, open_sink, open_source, pump};
use betz_monitor::Source;
use serde::Serialize;

use super::args::Stream as Arguments;
use crate::commands::monitor::name_of;
use crate::device;
use crate::replay::{LatencyUs, deadline};
use crate::report::{self, Outcome, UntilInterrupted};
use crate::unlike::{LiveComparison, UnlikeTraining};

/// Time between checks for Ctrl-C while no input arrives.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Live {
    steps: u64,
    skipped: u64,
    restarts: u64,
    /// From an input's arrival to the hand-over of its output.
    through_us: Through,
    latency_us: LatencyUs,
    spikes: u64,
    unknown_channel_spikes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unlike_training: Option<UnlikeTraining>,
    source: BTreeMap<&'static str, u64>,
    sink: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Through {
    p50: f64,
    p99: f64,
    max: f64,
}

/// Where outputs go that nobody asked for.
struct Nowhere;

impl Sink for Nowhere {
    fn give(&mut self, _: &betz_interop::bus::Estimate<'_>) -> Result<()> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

pub(super) fn run(args: &Arguments, source: &str) -> Result<()> {
    let deadline = args.deadline.map(deadline).transpose()?;
    device::cpu_for("a session", &args.common.device)?;
    let silence = args
        .silence
        .map(Duration::try_from_secs_f64)
        .transpose()
        .map_err(|e| {
            Error::argument(format!(
                "--silence: expected seconds, got {:?}: {e}",
                args.silence
            ))
        })?;
    let model = Decoder::load(&args.model)?;
    let outputs: Vec<String> = model.outputs().iter().map(|o| o.name.clone()).collect();
    let stream = Stream {
        channels: model.channels(),
        outputs: &outputs,
        step_seconds: model.step_seconds(),
    };
    let config = SessionConfig {
        deadline,
        ..SessionConfig::default()
    };
    let mut session = Session::open(&model, config)?;
    let unlike = (args.unlike)
        .map(|seconds| LiveComparison::start(&model, &mut session, seconds))
        .transpose()?;
    let mut source = open_source(source, &stream)?;
    let mut sink = match &args.sink()? {
        Some(address) => open_sink(address, &stream)?,
        None => Box::new(Nowhere),
    };
    let _page = match args.page.shown {
        true => {
            let mut source = Source::of(&name_of(&args.model), &model);
            source.deadline = deadline;
            Some(
                args.page
                    .options()
                    .open(source, &mut session, args.common.json)?,
            )
        }
        false => None,
    };
    report::stop_on_interrupt();
    eprintln!("listening; Ctrl-C ends");
    let until = Until {
        steps: args.steps,
        silence,
        patience: PATIENCE,
        stop: &|| UntilInterrupted.cancelled(),
    };
    let pumped = pump(&mut session, source.as_mut(), sink.as_mut(), &until)?;
    drop(source);
    let unlike = unlike.map(LiveComparison::finish).transpose()?;
    tell(args, &session, &pumped, unlike)
}

fn tell(
    args: &Arguments,
    session: &Session,
    pumped: &PumpReport,
    unlike_training: Option<UnlikeTraining>,
) -> Result<()> {
    let stats = session.stats();
    let named = |counts: &Counts| counts.named().filter(|(_, n)| *n > 0).collect();
    let live = Live {
        steps: pumped.steps,
        skipped: pumped.skipped,
        restarts: pumped.restarts,
        through_us: Through {
            p50: pumped.p50_us,
            p99: pumped.p99_us,
            max: pumped.max_us,
        },
        latency_us: LatencyUs::of(&stats),
        spikes: stats.spikes,
        unknown_channel_spikes: stats.unknown_channel_spikes,
        unlike_training,
        source: named(&pumped.source),
        sink: named(&pumped.sink),
    };
    report::tell(&live, args.common.json)
}

impl Outcome for Live {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}, {} skipped, {}",
            report::count(self.steps, "step"),
            self.skipped,
            report::count(self.restarts, "restart")
        ))?;
        report::line(&self.latency_us.sentence())?;
        report::line(&format!(
            "from arrival to hand-over: p50 {:.1} µs, p99 {:.1} µs, max {:.1} µs",
            self.through_us.p50, self.through_us.p99, self.through_us.max
        ))?;
        if let Some(unlike) = &self.unlike_training {
            unlike.print()?;
        }
        for (name, counts) in [("in", &self.source), ("out", &self.sink)] {
            let counts: Vec<String> = counts.iter().map(|(n, c)| format!("{n}: {c}")).collect();
            report::line(&format!("{name}: {}", counts.join(", ")))?;
        }
        report::line(&format!(
            "spikes: {}, of unknown channels: {}",
            self.spikes, self.unknown_channel_spikes
        ))
    }
}
