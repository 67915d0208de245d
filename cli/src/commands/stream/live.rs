//! `betz stream MODEL --in URI --out URI`: a session between a source and a sink of the field.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use betz::model::Decoder;
use betz::stream::Stats;
use betz::{Error, Progress, Result};
use betz_live::{SessionReport, Until, step_rig};
use betz_rigs::bus::{Counts, Frame, Reception, Source, Stream, open_sink, open_source};
use serde::Serialize;

use super::args::Stream as Arguments;
use crate::commands::monitor::name_of;
use crate::device;
use crate::replay::{LatencyUs, deadline};
use crate::report::{self, Outcome, UntilInterrupted};
use crate::session;
use crate::unlike::{LiveComparison, UnlikeTraining};

#[derive(Serialize)]
struct StreamReport {
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

/// A source whose counts are read while the session has it.
struct CountedSource {
    source: Box<dyn Source>,
    counts: Arc<Mutex<Counts>>,
}

impl Source for CountedSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        let taken = self.source.take(frame, patience);
        *(self.counts.lock()).unwrap_or_else(PoisonError::into_inner) = self.source.counts();
        taken
    }

    fn counts(&self) -> Counts {
        self.source.counts()
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
    let heard = Arc::new(Mutex::new(Counts::default()));
    let counted = CountedSource {
        source: open_source(source, &stream)?,
        counts: Arc::clone(&heard),
    };
    let name = name_of(&args.model);
    let rig = step_rig(Box::new(counted), &stream);
    let mut live = session::open(&name, &model, deadline, rig)?;
    live.echo();
    if let Some(address) = &args.sink()? {
        live.add_sink(open_sink(address, &stream)?);
    }
    let unlike = (args.unlike)
        .map(|seconds| LiveComparison::start(&model, session::of(&mut live)?, seconds))
        .transpose()?;
    let _page = match args.page.shown {
        true => {
            let mut source = betz_monitor::Source::of(&name, live.model());
            source.deadline = deadline;
            let page = args.page.options();
            Some(page.open(source, session::of(&mut live)?, args.common.json)?)
        }
        false => None,
    };
    report::stop_on_interrupt();
    eprintln!("listening; Ctrl-C ends");
    let newest = Cell::new(Instant::now());
    let until = Until {
        steps: args.steps,
        stop: &|| {
            UntilInterrupted.cancelled()
                || silence.is_some_and(|most| newest.get().elapsed() >= most)
        },
    };
    let ran = live.run(&until, &mut |_| {
        newest.set(Instant::now());
        Ok(())
    });
    let sent = live.sent();
    // No command stands, however it ended.
    ran.and(live.rest_outputs(&mut |_| Ok(())))?;
    let unlike = unlike.map(LiveComparison::finish).transpose()?;
    let stats = session::of(&mut live)?.stats();
    let heard = *heard.lock().unwrap_or_else(PoisonError::into_inner);
    let streamed = StreamReport::new(&live.report(), &stats, unlike, [&heard, &sent]);
    report::tell(&streamed, args.common.json)
}

impl StreamReport {
    /// The report of a session, with the counts of its source and its sink.
    fn new(
        of: &SessionReport,
        stats: &Stats,
        unlike_training: Option<UnlikeTraining>,
        [source, sink]: [&Counts; 2],
    ) -> Self {
        let named = |counts: &Counts| counts.named().filter(|(_, n)| *n > 0).collect();
        Self {
            steps: of.input.steps,
            skipped: of.input.skipped,
            restarts: of.input.restarts,
            through_us: Through {
                p50: of.p50_us,
                p99: of.p99_us,
                max: of.max_us,
            },
            latency_us: LatencyUs::of(stats),
            spikes: stats.spikes,
            unknown_channel_spikes: stats.unknown_channel_spikes,
            unlike_training,
            source: named(source),
            sink: named(sink),
        }
    }
}

impl Outcome for StreamReport {
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
