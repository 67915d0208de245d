//! The check of a plan: what a session will hear and do, without doing it.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::rig::{Arrival, Block, Rig, Samples, Signal};
use betz_runtime::model::Decoder;
use serde::Serialize;

use crate::ends::Ends;
use crate::front_end::FrontEnd;
use crate::live::label_lane;
use crate::pace::Pace;
use crate::pipeline::Pipeline;
use crate::plan::{Feature, Gives, LabelRule, LabelsPlan, LearnMode, OnFull, Plan};
use crate::record;
use crate::scheduling;

/// Longest time that the check waits for the source at once.
const PATIENCE: Duration = Duration::from_millis(50);

/// Hours of recording below which the check warns.
const SHORT_HOURS: f64 = 2.0;

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Part of the session.
    pub part: &'static str,
    /// Facts about it.
    pub text: String,
    /// True if something is to be looked at before the session runs.
    pub warning: bool,
}

/// Facts about a session before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// One or more lines per part.
    pub lines: Vec<Line>,
}

impl Report {
    fn say(&mut self, part: &'static str, text: String) {
        self.add(part, text, false);
    }

    fn warn(&mut self, part: &'static str, text: String) {
        self.add(part, text, true);
    }

    fn add(&mut self, part: &'static str, text: String, warning: bool) {
        self.lines.push(Line {
            part,
            text,
            warning,
        });
    }

    /// Number of warnings.
    pub fn warnings(&self) -> usize {
        self.lines.iter().filter(|line| line.warning).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let mark = if line.warning { "warning: " } else { "" };
            writeln!(f, "{:<10} {mark}{}", line.part, line.text)?;
        }
        write!(f, "{:<10} ", "check")?;
        match self.warnings() {
            0 => write!(f, "ok"),
            1 => write!(f, "ok, 1 warning"),
            n => write!(f, "ok, {n} warnings"),
        }
    }
}

/// Facts about a source after listening to it.
struct SourceFacts {
    signal: Signal,
    voltage: bool,
    blocks: u64,
    rows: u64,
    lost: u64,
    /// Time that the pipeline took for each block, ascending.
    times: Vec<Duration>,
    longest_rows: usize,
    pace: Pace,
}

/// Listens to the only source of a plan for `listen`, runs its blocks through the pipeline, and reports. Sends and records
/// nothing.
///
/// # Errors
/// The same errors as for the session itself.
pub fn check(plan: &Plan, model: &Decoder, rig: &mut dyn Rig, listen: Duration) -> Result<Report> {
    check_all(plan, model, rig, &mut [], listen)
}

/// As [`check`], of the first source and the others.
///
/// # Errors
/// As [`check`].
pub fn check_all(
    plan: &Plan,
    model: &Decoder,
    rig: &mut dyn Rig,
    others: &mut [Box<dyn Rig>],
    listen: Duration,
) -> Result<Report> {
    // The ends are opened as the session will open them, and closed without being used.
    drop(Ends::open(plan, model)?);
    if let Some(to) = plan.record_path() {
        record::check_place(&to)
            .map_err(|e| plan.refuse("record", "to", e.message()).of_kind(e.kind()))?;
    }
    let mut report = Report::default();
    let what = match plan.records_only() {
        true => "no model, it only records:",
        false => "a model of",
    };
    report.say(
        "session",
        format!(
            "{}: {what} {} channels, {} outputs and steps of {:.0} ms",
            plan.session.name,
            model.channels(),
            model.outputs().len(),
            model.step_seconds() * 1e3
        ),
    );
    report.say("priority", scheduling::describe(plan));
    let (heard, of_others) = hear_all(plan, model, rig, others, listen)?;
    // Sources of labels are recorded as labels alone.
    let recorded =
        (of_others.iter()).filter(|other| plan.source[other.source].gives != Gives::Labels);
    let other_bytes = recorded.map(OtherFacts::bytes_per_second).sum();
    let mut pipeline = None;
    match heard {
        None => report.warn(
            "source",
            silence(
                plan,
                0,
                listen,
                rig.counts().malformed,
                "the session will wait for it",
            ),
        ),
        Some((fed, heard)) => {
            tell(plan, model, &heard, other_bytes, &mut report)?;
            pipeline = Some(fed);
        }
    }
    for other in &of_others {
        tell_other(plan, model, other, pipeline.as_mut(), listen, &mut report)?;
    }
    if let Some(from) = &plan.labels.from {
        tell_labels(plan, from, &mut report);
    }
    tell_outputs(plan, &mut report);
    Ok(report)
}

/// The pipeline of the first source, and what was heard of it.
type FirstSource = (Pipeline, SourceFacts);

/// Hears all sources at once for `listen`.
fn hear_all(
    plan: &Plan,
    model: &Decoder,
    rig: &mut dyn Rig,
    others: &mut [Box<dyn Rig>],
    listen: Duration,
) -> Result<(Option<FirstSource>, Vec<OtherFacts>)> {
    let (heard, of_others) = std::thread::scope(|scope| {
        let threads: Vec<_> = (others.iter_mut().zip(1..))
            .map(|(rig, source)| scope.spawn(move || hear_other(source, rig.as_mut(), listen)))
            .collect();
        let heard = hear(plan, model, rig, listen);
        let of_others: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (heard, of_others)
    });
    let of_others = (of_others.into_iter())
        .map(|other| {
            other.unwrap_or_else(|_| {
                let message = "the thread of a source has panicked";
                Err(Error::new(ErrorKind::Internal, message))
            })
        })
        .collect::<Result<Vec<_>>>()?;
    Ok((heard?, of_others))
}

fn tell_outputs(plan: &Plan, report: &mut Report) {
    match plan.outputs.to.as_slice() {
        [] if plan.records_only() => {}
        [] => report.warn("outputs", "not sent: outputs.to is absent".into()),
        to => report.say("outputs", to.join(", ")),
    }
    report.say(
        "limits",
        format!(
            "lost {} %, steps without data {} %, unrecorded {}",
            plan.limits.lost * 100.0,
            plan.limits.late_steps * 100.0,
            plan.limits.unrecorded
        ),
    );
}

fn hear(
    plan: &Plan,
    model: &Decoder,
    rig: &mut dyn Rig,
    listen: Duration,
) -> Result<Option<FirstSource>> {
    let started = Instant::now();
    let mut block: Block = Block::new();
    let mut work: Option<FirstSource> = None;
    while started.elapsed() < listen {
        match rig.take(&mut block, PATIENCE)? {
            Arrival::Nothing => continue,
            Arrival::Ended => break,
            Arrival::Block => {}
        }
        if work.is_none()
            && let Some(signal) = rig.signal()
        {
            let voltage = matches!(block.samples, Samples::Voltage(_));
            let pipeline = Pipeline::new(plan, model, &signal, voltage)?;
            let heard = SourceFacts {
                signal,
                voltage,
                blocks: 0,
                rows: 0,
                lost: 0,
                times: Vec::new(),
                longest_rows: 0,
                pace: Pace::default(),
            };
            work = Some((pipeline, heard));
        }
        if let Some((pipeline, heard)) = &mut work {
            let begun = Instant::now();
            pipeline.take(&block, &mut |_| Ok(()))?;
            heard.times.push(begun.elapsed());
            heard.blocks += 1;
            heard.rows += block.rows as u64;
            heard.lost += block.lost_before.count;
            heard.longest_rows = heard.longest_rows.max(block.rows);
            add_pace(&mut heard.pace, &block, heard.signal.rate);
        }
    }
    Ok(work.map(|(pipeline, mut heard)| {
        heard.times.sort_unstable();
        (pipeline, heard)
    }))
}

/// Takes a block's time, by its source's rate, and its arrival.
fn add_pace(pace: &mut Pace, block: &Block, rate: f64) {
    let (end, length) = (block.first + block.rows as u64, block.rows as f64 / rate);
    if block.rows > 0 {
        pace.add(end as f64 / rate, length, block.host_ns as f64 * 1e-9);
    }
}

/// Refuses a source whose rows pass at another rate than it says.
///
/// # Errors
/// `InvalidArgument` with file, line and key.
fn check_pace(plan: &Plan, source: usize, pace: &Pace, rate: f64) -> Result<()> {
    let wrong = pace.wrong_ratio().or(pace.wrong_so_far());
    match wrong {
        None => Ok(()),
        Some(ratio) => Err(plan.refuse_source(
            source,
            "rate",
            format_args!(
                "expected {rate} rows per second, as the source or the plan says, got about {:.0} by this machine's clock: \
                 bins would have the wrong length; correct the rate",
                ratio * rate
            ),
        )),
    }
}

/// Tells where labels come from, and how they find their steps.
fn tell_labels(plan: &Plan, from: &str, report: &mut Report) {
    let LabelsPlan { by, wait, .. } = &plan.labels;
    let waits = match plan.learn.mode {
        LearnMode::Off => String::new(),
        _ => format!("; a trial waits {wait} for its labels"),
    };
    match by {
        LabelRule::Step => report.say("labels", format!("{from} by step{waits}")),
        LabelRule::Time => report.say("labels", format!("{from} by the sender's time{waits}")),
        LabelRule::Arrival => {
            let advice = "a label is as late as its way was long: prefer \"step\" or \"time\"";
            report.warn("labels", format!("{from} by arrival{waits}; {advice}"));
        }
    }
}

/// Facts about a source beside the first after listening to it.
struct OtherFacts {
    source: usize,
    /// Its signal, and true for voltage; `None` if nothing came.
    signal: Option<(Signal, bool)>,
    rows: u64,
    lost: u64,
    malformed: u64,
    pace: Pace,
}

impl OtherFacts {
    /// Bytes that it sends per second.
    fn bytes_per_second(&self) -> f64 {
        (self.signal.as_ref()).map_or(0.0, |(signal, voltage)| signal_bytes(signal, *voltage))
    }
}

/// Bytes of a signal per second.
fn signal_bytes(signal: &Signal, voltage: bool) -> f64 {
    signal.rate * signal.channels as f64 * if voltage { 2.0 } else { 4.0 }
}

fn hear_other(source: usize, rig: &mut dyn Rig, listen: Duration) -> Result<OtherFacts> {
    let (started, mut block) = (Instant::now(), Block::new());
    let mut facts = OtherFacts {
        source,
        signal: None,
        rows: 0,
        lost: 0,
        malformed: 0,
        pace: Pace::default(),
    };
    while started.elapsed() < listen {
        match rig.take(&mut block, PATIENCE)? {
            Arrival::Nothing => continue,
            Arrival::Ended => break,
            Arrival::Block => {}
        }
        let voltage = matches!(block.samples, Samples::Voltage(_));
        facts.signal = (facts.signal.take()).or(rig.signal().map(|signal| (signal, voltage)));
        facts.rows += block.rows as u64;
        facts.lost += block.lost_before.count;
        if let Some((signal, _)) = &facts.signal {
            let rate = signal.rate;
            add_pace(&mut facts.pace, &block, rate);
        }
    }
    facts.malformed = rig.counts().malformed;
    Ok(facts)
}

/// Reports on a source beside the first, and refuses what the session would refuse.
fn tell_other(
    plan: &Plan,
    model: &Decoder,
    heard: &OtherFacts,
    pipeline: Option<&mut Pipeline>,
    listen: Duration,
    report: &mut Report,
) -> Result<()> {
    let (source, of) = (heard.source, &plan.source[heard.source]);
    let Some((signal, voltage)) = &heard.signal else {
        let then = "the session runs without it";
        report.warn(
            "source",
            silence(plan, source, listen, heard.malformed, then),
        );
        return Ok(());
    };
    let signal = Signal {
        microvolts: signal.microvolts.or(of.microvolts),
        ..signal.clone()
    };
    check_pace(plan, source, &heard.pace, signal.rate)?;
    match (of.gives, pipeline) {
        (Gives::Labels, _) => drop(label_lane(plan, model, source, &signal, *voltage)?),
        (Gives::Lines, _) => {}
        (Gives::Input, Some(pipeline)) => pipeline.add_source(plan, source, &signal, *voltage)?,
        (Gives::Input, None) => {}
    }
    let text = format!(
        "{}: {}: {} channels{} at {} rows per second, {} rows, {} lost",
        of.name,
        of.from,
        signal.channels,
        match of.gives {
            Gives::Input => "",
            Gives::Labels => " of labels",
            Gives::Lines => " that are not decoded, with digital lines,",
        },
        signal.rate,
        heard.rows,
        heard.lost
    );
    report.add("source", text, heard.lost > 0);
    Ok(())
}

/// Says that nothing came from a source.
fn silence(plan: &Plan, source: usize, listen: Duration, malformed: u64, then: &str) -> String {
    let of = &plan.source[source];
    let unread = match malformed {
        0 => String::new(),
        n => format!(" that can be read, {n} messages that cannot"),
    };
    let seconds = listen.as_secs_f64();
    format!(
        "{}: {}: nothing came in {seconds:.1} s{unread}; {then}",
        of.name, of.from
    )
}

fn tell(
    plan: &Plan,
    model: &Decoder,
    heard: &SourceFacts,
    other_bytes: f64,
    report: &mut Report,
) -> Result<()> {
    let Signal { channels, rate, .. } = heard.signal;
    check_pace(plan, 0, &heard.pace, rate)?;
    let source = format!(
        "{}: {}: {channels} channels at {rate} rows per second, {} rows in {} blocks, {} lost",
        plan.source().name,
        plan.source().from,
        heard.rows,
        heard.blocks,
        heard.lost
    );
    report.add("source", source, heard.lost > 0);
    let at = |share: f64| {
        let place = (heard.times.len() as f64 * share) as usize;
        heard
            .times
            .get(place.min(heard.times.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    };
    let seconds = heard.rows as f64 / rate;
    let busy: Duration = heard.times.iter().sum();
    report.say(
        "loop",
        format!(
            "a block of up to {} rows: p50 {:.0} µs, p99 {:.0} µs on this machine = {:.1} % of a core",
            heard.longest_rows,
            at(0.5).as_secs_f64() * 1e6,
            at(0.99).as_secs_f64() * 1e6,
            100.0 * busy.as_secs_f64() / seconds.max(1e-9)
        ),
    );
    let front_end = FrontEnd::of_plan(plan, heard.voltage)?;
    match FrontEnd::of_model(model)? {
        Some(_) => report.say(
            "features",
            format!("{front_end}; the model was trained on these"),
        ),
        None if plan.records_only() => report.say("features", front_end.to_string()),
        None => report.warn(
            "features",
            format!(
                "{front_end}; the model does not say what it was trained on: expected the same"
            ),
        ),
    }
    if heard.voltage {
        let voltage = &plan.voltage;
        if voltage.feature == Feature::Crossings && voltage.noise.calibrate.seconds() > 0.0 {
            let calibrate = voltage.noise.calibrate;
            report.say(
                "noise",
                format!("measured for {calibrate} first: steps are without data until then"),
            );
        }
    }
    let step = model.step_seconds() * 1e3;
    let block = heard.longest_rows as f64 / rate * 1e3;
    report.say(
        "latency",
        format!(
            "block of {block:.1} ms + step of {step:.0} ms (mean {:.0}): mean {:.1} ms, at most {:.1} ms after a spike",
            step / 2.0,
            block / 2.0 + step / 2.0,
            block + step
        ),
    );
    let bytes = signal_bytes(&heard.signal, heard.voltage) + other_bytes;
    match plan.record_path() {
        None => report.warn("record", "nothing is recorded: record.to is absent".into()),
        Some(to) => tell_disk(plan, &to, bytes, report),
    }
    Ok(())
}

/// Tells how much is recorded, and how long the disk lasts.
fn tell_disk(plan: &Plan, to: &Path, bytes_per_second: f64, report: &mut Report) {
    let rate = format!(
        "{}: {:.2} MB per second, {:.1} GB per hour",
        to.display(),
        bytes_per_second / 1e6,
        bytes_per_second * 3600.0 / 1e9
    );
    match record::free_bytes(to) {
        None => report.say("record", rate),
        Some(free) => {
            let hours = free as f64 / (bytes_per_second * 3600.0).max(1e-9);
            let text = format!("{rate}; {:.1} GB free = {hours:.1} h", free as f64 / 1e9);
            report.add("record", text, hours < SHORT_HOURS);
            let reserve = plan.record.as_ref().map_or(0, |r| match r.on_full {
                OnFull::KeepSmall => r.reserve_mib,
                OnFull::StopRecording | OnFull::Stop => 0,
            });
            if free < reserve << 20 {
                let text = format!(
                    "expected room for record.reserve_mib = {reserve}, got {:.0} MiB free: a full disk ends the recording",
                    free as f64 / f64::from(1 << 20)
                );
                report.warn("record", text);
            }
        }
    }
}
