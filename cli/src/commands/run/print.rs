//! The output of `betz run`: a line per second, and the report at the end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use betz::{Error, ErrorKind, Result};
use betz_live::record::Disk;
use betz_live::{
    LearnReport, Live, Plan, Report, SessionReport, SharedLineReport, SinkHealth, SourceHealth,
    Step,
};
use serde::Serialize;
use serde_json::Value;

use super::recalibration;
use crate::report::{self, Outcome};

/// True outputs of a step, by the device time of its end; `None` where there are none.
type Truth = Box<dyn Fn(u64) -> Option<[f32; 2]>>;

/// Sums for R² of one output.
#[derive(Clone, Copy, Default)]
struct Sums {
    n: f64,
    truth: f64,
    truth_squared: f64,
    error_squared: f64,
}

impl Sums {
    fn add(&mut self, truth: f32, value: f32) {
        let (truth, value) = (f64::from(truth), f64::from(value));
        self.n += 1.0;
        self.truth += truth;
        self.truth_squared += truth * truth;
        self.error_squared += (truth - value).powi(2);
    }

    fn r2(&self) -> Option<f64> {
        let total = self.truth_squared - self.truth * self.truth / self.n;
        (self.n >= 2.0 && total > 0.0).then(|| 1.0 - self.error_squared / total)
    }
}

/// The newest outputs, and scores if the truth is known.
pub(super) struct Status {
    names: Vec<String>,
    newest: Vec<f32>,
    newest_step: Option<u64>,
    truth: Option<Truth>,
    /// Steps that the model is behind the movement.
    delay: u64,
    page: Option<betz_monitor::Truth>,
    /// True outputs of steps, until they are handed to the session as labels.
    labels: Vec<(u64, [f32; 2])>,
    sums: [Sums; 2],
    /// The recording that the session said it goes on with, until it has begun.
    goes_on_with: Option<PathBuf>,
}

impl Status {
    pub(super) fn new(names: &[String]) -> Self {
        Self {
            names: names.to_vec(),
            newest: Vec::new(),
            newest_step: None,
            truth: None,
            delay: 0,
            page: None,
            labels: Vec::new(),
            sums: [Sums::default(); 2],
            goes_on_with: None,
        }
    }

    pub(super) fn that_goes_on_with(mut self, folder: PathBuf) -> Self {
        self.goes_on_with = Some(folder);
        self
    }

    /// A sentence, once, if the session began in another folder than it said; `folder` is that of its recording, once it has
    /// begun.
    pub(super) fn began_anew(&mut self, folder: Option<&Path>) -> Option<String> {
        let folder = folder?;
        let before = self.goes_on_with.take().filter(|before| before != folder)?;
        Some(format!(
            "starts from rest in {}: expected the source that {} is of, got one of other channels, rate, scale or form",
            folder.display(),
            before.display()
        ))
    }

    pub(super) fn with_truth(mut self, truth: Truth, delay: u64) -> Self {
        self.truth = Some(truth);
        self.delay = delay;
        self
    }

    /// Number of the newest step.
    pub(super) fn newest_step(&self) -> Option<u64> {
        self.newest_step
    }

    /// True if the true outputs of every step are known.
    pub(super) fn has_truth(&self) -> bool {
        self.truth.is_some()
    }

    /// Labels since the last call.
    pub(super) fn take_labels(&mut self) -> Vec<(u64, [f32; 2])> {
        std::mem::take(&mut self.labels)
    }

    /// Sends the truth of each step to the page as well.
    pub(super) fn show_truth(&mut self, page: Option<betz_monitor::Truth>) {
        self.page = page;
    }

    pub(super) fn add(&mut self, step: &Step<'_>) {
        self.newest.clear();
        self.newest.extend_from_slice(step.values);
        self.newest_step = Some(step.number);
        let truth = self.truth.as_ref().and_then(|truth| truth(step.end));
        if let (Some(page), Some(_)) = (&mut self.page, &self.truth) {
            page.step(&truth.unwrap_or([f32::NAN; 2]));
        }
        if let Some(truth) = truth {
            self.labels.extend(
                step.number
                    .checked_sub(self.delay)
                    .map(|step| (step, truth)),
            );
            for (sums, (truth, value)) in self.sums.iter_mut().zip(truth.iter().zip(step.values)) {
                sums.add(*truth, *value);
            }
        }
    }

    /// R² of each output, where the truth is known.
    fn r2(&self) -> Vec<f64> {
        self.sums.iter().filter_map(Sums::r2).collect()
    }

    pub(super) fn line(&self, now: &SessionReport, elapsed: Duration) -> String {
        if now.input.steps == 0 && now.clock.epoch == 0 {
            let seconds = elapsed.as_secs_f64();
            let malformed = but_malformed(now.source_malformed);
            return format!("{seconds:>5.0} s  nothing heard from the source yet{malformed}");
        }
        let outputs: Vec<String> = (self.newest.iter().take(4).enumerate())
            .map(|(i, value)| match self.names.get(i) {
                Some(name) => format!("{name} {value:+.3}"),
                None => format!("{value:+.3}"),
            })
            .collect();
        let mut line = format!(
            "{:>5.0} s  {}  {} lost  {} without data  arrival to output p50 {:.0} p99 {:.0} µs  {}",
            elapsed.as_secs_f64(),
            report::count(now.input.steps, "step"),
            report::count(now.input.lost, "row"),
            now.input.stale + now.input.skipped,
            now.p50_us,
            now.p99_us,
            outputs.join("  ")
        );
        if now.input.partial > 0 {
            let steps = report::count(now.input.partial, "step");
            line += &format!("  STALE: {steps} without a source");
        }
        if now.input.behind > 0 {
            let steps = report::count(now.input.behind, "step");
            line += &format!("  TOO SLOW: {steps} left out");
        }
        let unrecorded = now.recorder.map_or(0, |r| r.unrecorded);
        if let Some(recorder) = &now.recorder {
            line += disk(recorder.disk);
            if recorder.fill >= SLOW_DISK {
                line += &format!("  SLOW DISK: buffer {:.0} % full", recorder.fill * 100.0);
            }
        }
        if unrecorded > 0 {
            line += &format!("  NOT RECORDED: {}", report::count(unrecorded, "frame"));
        }
        if let Some(shared) = &now.shared_line {
            line += &format!("  shared line: {}", shared_line(shared));
        }
        if now.learn.is_some_and(|l| l.dead) {
            line += "  THE TRAINER HAS ENDED";
        }
        let unstored = now.learn.map_or(0, |l| l.unstored);
        if unstored > 0 {
            line += &format!("  NOT STORED: {}", report::count(unstored, "model"));
        }
        let r2: Vec<String> = self.r2().iter().map(|r| format!("{r:.3}")).collect();
        if !r2.is_empty() {
            line += &format!("  R² {}", r2.join(" "));
        }
        line
    }
}

/// Share of the recorder's buffer from which on the disk is said to be slow.
pub(super) const SLOW_DISK: f64 = 0.25;

/// R² of each output.
pub(super) fn list(r2: &[f64], between: &str) -> String {
    let texts: Vec<String> = r2.iter().map(|r| format!("{r:.3}")).collect();
    texts.join(between)
}

/// Words about a disk that is full.
fn disk(state: Disk) -> &'static str {
    match state {
        Disk::Room => "",
        Disk::KeepsSmall => "  DISK FULL: no voltage is recorded",
        Disk::Full => "  DISK FULL: nothing is recorded",
    }
}

/// Words about messages that could not be read, if any came.
fn but_malformed(messages: u64) -> String {
    match messages {
        0 => String::new(),
        n => format!(" but {}", report::count(n, "malformed message")),
    }
}

/// The report at the end.
#[derive(Serialize)]
pub(super) struct RunReport {
    name: String,
    seconds: f64,
    #[serde(flatten)]
    finished: SessionReport,
    /// Losses, clock and silence of each source.
    sources: Vec<SourceHealth>,
    /// Folder of the recording, if there is one.
    folder: Option<PathBuf>,
    /// R² of each output against the truth of a simulated rig.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    r2: Vec<f64>,
    /// R² of each output against the labels that were received.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    label_r2: Vec<f64>,
    /// Counts of each address that outputs go to.
    sinks: Vec<SinkHealth>,
    /// Error that keeps the newest model of the trainer, or of the recalibration, from being stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_stored: Option<String>,
    /// Names of the line that two sources hear.
    #[serde(skip)]
    shared_line: Option<String>,
    /// True if the plan has an address for labels.
    #[serde(skip)]
    hears_labels: bool,
    /// History of a session with a page: numbers by second, and verdicts on its decoder.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Value>,
    /// Limits that were crossed.
    pub(super) crossed: Vec<String>,
}

impl RunReport {
    pub(super) fn new(live: &Live, status: &Status, elapsed: Duration) -> Self {
        Self {
            name: live.plan().session.name.clone(),
            seconds: elapsed.as_secs_f64(),
            finished: live.report(),
            sources: live.sources(),
            folder: live.folder().map(Path::to_owned),
            r2: status.r2(),
            label_r2: live.label_r2(),
            sinks: live.sink_health(),
            not_stored: live.not_stored().map(|e| e.message().to_owned()),
            shared_line: (live.plan().align.as_ref()).map(|align| align.line.to_string()),
            hears_labels: live.plan().labels.from.is_some(),
            history: None,
            crossed: live.crossed(),
        }
    }

    pub(super) fn with_history(self, history: Option<Value>) -> Self {
        Self { history, ..self }
    }

    /// Refuses a session whose source never sent a block.
    pub(super) fn check_source(&self, plan: &Plan) -> Result<()> {
        if self.finished.clock.epoch > 0 {
            return Ok(());
        }
        let source = plan.source();
        Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "source `{}`: expected blocks from {}, got none in {}{}; see that it sends, and look with --check",
                source.name,
                source.from,
                report::duration(self.seconds),
                but_malformed(self.finished.source_malformed)
            ),
        ))
    }

    /// Lines on what came from the source, when, and by which clock.
    fn print_input(&self) -> Result<()> {
        let (f, input) = (&self.finished, &self.finished.input);
        let bounds = match input.bounds {
            0 => String::new(),
            _ => " at least".into(),
        };
        let noise = match input.calibrating {
            0 => String::new(),
            steps => format!(" ({steps} while the noise was measured)"),
        };
        let behind = match input.behind {
            0 => String::new(),
            steps => format!(" ({steps} BECAUSE THE DECODER WAS TOO SLOW)"),
        };
        report::line(&format!(
            "lost:{bounds} {} of {}, {} bridged; {} without data{noise}, {} skipped{behind}; {} late; {}",
            report::count(input.lost, "row"),
            input.lost + input.rows,
            input.bridged,
            report::count(input.stale, "step"),
            input.skipped,
            input.late,
            report::count(input.restarts, "restart"),
        ))?;
        report::line(&format!(
            "from arrival to hand-over: p50 {:.1} µs, p99 {:.1} µs, max {:.1} µs",
            f.p50_us, f.p99_us, f.max_us
        ))?;
        report::line(&startup_line(f))?;
        for source in &self.sources {
            report::line(&source_line(source, self.sources.len() > 1))?;
        }
        if let (Some(shared), Some(line)) = (&f.shared_line, &self.shared_line) {
            report::line(&format!(
                "line {line}: {} ({} not)",
                shared_line(shared),
                shared.unmatched
            ))?;
        }
        if f.source_malformed + f.source_dropped + f.source_reconnects > 0 {
            report::line(&format!(
                "source: {}, {} dropped by this host, {}",
                report::count(f.source_malformed, "malformed message"),
                f.source_dropped,
                report::count(f.source_reconnects, "reconnection")
            ))?;
        }
        Ok(())
    }

    /// True if a step was made.
    pub(super) fn has_decoded(&self) -> bool {
        self.finished.input.steps > 0
    }
}

impl Outcome for RunReport {
    fn print(&self) -> Result<()> {
        let (f, input) = (&self.finished, &self.finished.input);
        report::line(&format!(
            "{}: {} in {}",
            self.name,
            report::count(input.steps, "step"),
            report::duration(self.seconds)
        ))?;
        if input.steps == 0 && f.clock.epoch == 0 {
            let malformed = but_malformed(f.source_malformed);
            return report::line(&format!("nothing was heard from the source{malformed}"));
        }
        if f.resumed > 0 {
            report::line(&format!(
                "went on after its process was killed: {}",
                report::count(f.resumed, "time")
            ))?;
        }
        self.print_input()?;
        let notes = &f.notes;
        if self.hears_labels {
            report::line(&format!(
                "{}, {}, {} begins and ends of trials; left out: {} of another width or not finite, {}",
                report::count(notes.labels, "label"),
                report::count(notes.marks, "mark"),
                notes.trials,
                report::count(notes.odd_labels, "label"),
                report::count(notes.malformed, "malformed message"),
            ))?;
        }
        if let Some(learn) = &f.learn {
            report::line(&trainer_line(learn, f.swapped))?;
        }
        if let Some(report) = &f.recalibrate {
            report::line(&recalibration::line(report))?;
        }
        if let Some(why) = &self.not_stored {
            report::line(&format!("the newest model was not stored: {why}"))?;
        }
        if !self.label_r2.is_empty() {
            report::line(&format!(
                "R² against labels: {}",
                list(&self.label_r2, ", ")
            ))?;
        }
        for sink in self.sinks.iter().filter(|sink| sink.unsent > 0) {
            let unsent = report::count(sink.unsent, "output");
            report::line(&format!(
                "{}: {unsent} not sent, {} sent",
                sink.to, sink.sent
            ))?;
        }
        if !self.r2.is_empty() {
            let r2: Vec<String> = self.r2.iter().map(|r| format!("{r:.3}")).collect();
            report::line(&format!("R² against the truth: {}", r2.join(", ")))?;
        }
        if let (Some(folder), Some(recorder)) = (&self.folder, &self.finished.recorder) {
            let missing = recorder.unrecorded.min(recorder.frames);
            report::line(&format!(
                "recorded: {} in {:.1} MB, {missing} not{}; the disk's delay used {:.0} % of the buffer; {}",
                report::count(recorder.frames - missing, "frame"),
                recorder.written as f64 / 1e6,
                disk(recorder.disk),
                recorder.fullest * 100.0,
                folder.display()
            ))?;
        }
        if let Some(history) = &self.history {
            let words = history["verdict"]["words"].as_str();
            report::line(&format!(
                "verdict at the end: {}",
                words.unwrap_or_default()
            ))?;
        }
        for limit in &self.crossed {
            report::line(&format!("limit crossed: {limit}"))?;
        }
        Ok(())
    }
}

/// Distance of two sources by a line that both hear, and a warning if it is beyond the plan's limit.
fn shared_line(of: &SharedLineReport) -> String {
    let matched = report::count(of.matched, "change");
    let (Some(offset), Some(error)) = (of.offset_us, of.error_us) else {
        return format!("{matched} matched, too few");
    };
    let beyond = match of.is_beyond {
        true => format!("SOURCES APART BY MORE THAN {:.0} µs: ", of.limit_us),
        false => String::new(),
    };
    format!("{beyond}{offset:+.0} ± {error:.0} µs, {matched} matched")
}

/// The start of the session, which is not in the latencies.
fn startup_line(of: &SessionReport) -> String {
    let waited = match of.startup_steps {
        0 => "no step waited for that".into(),
        steps => format!(
            "{} that had waited, up to {:.1} ms",
            report::count(steps, "step"),
            of.startup_max_us / 1e3
        ),
    };
    format!("start-up: opened in {:.1} ms; {waited}", of.startup_ms)
}

/// The clock of a source and, if there are several, what came from it.
fn source_line(source: &SourceHealth, is_one_of_several: bool) -> String {
    let clock = format!(
        "drift {:+.1} ppm, within {:.0} µs of the host's; {}",
        source.drift_ppm,
        source.bound_us,
        report::count(u64::from(source.epochs), "epoch")
    );
    let failed = match &source.failed {
        Some(error) => format!("; FAILED: {error}"),
        None => String::new(),
    };
    let rate = match source.measured_rate {
        Some(rate) => format!("; WRONG RATE: rows pass at {rate:.0} per second"),
        None => String::new(),
    };
    match (is_one_of_several, source.silent_ms) {
        (false, _) => format!("clock of the source: {clock}{rate}{failed}"),
        (true, None) => format!("source {}: nothing came{failed}", source.name),
        (true, Some(_)) => format!(
            "source {}: {} lost, {} made without it; clock: {clock}{rate}{failed}",
            source.name,
            report::count(source.lost, "row"),
            report::count(source.stale, "step"),
        ),
    }
}

/// Counts of the online trainer, in words.
fn trainer_line(learn: &LearnReport, swapped: u64) -> String {
    let dead = match learn.dead {
        true => "; ITS THREAD HAS ENDED",
        false => "",
    };
    let [now, best] = learn.scores;
    format!(
        "trainer: {}, {} dropped; {} accepted, {} refused, {} taken back (R² {now:.3}, candidate {best:.3}); {}; {} too late, {} of steps without all data, {} far outside the range of training; {} not stored{dead}",
        report::count(learn.trials, "trial"),
        learn.dropped,
        report::count(learn.accepted, "model"),
        learn.refused,
        learn.rolled_back,
        report::count(swapped, "swap"),
        report::count(learn.late_labels, "label"),
        learn.left_out,
        learn.outliers,
        report::count(learn.unstored, "model"),
    )
}

impl Outcome for Report {
    fn print(&self) -> Result<()> {
        report::line(&self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trainer_that_has_ended_is_told_every_second_and_at_the_end() {
        let mut now = SessionReport::default();
        now.input.steps = 5;
        let mut learn = LearnReport {
            left_out: 7,
            ..LearnReport::default()
        };
        let line = |learn: LearnReport| {
            let now = SessionReport {
                learn: Some(learn),
                ..now
            };
            Status::new(&[]).line(&now, Duration::from_secs(1))
        };
        assert!(!line(learn).contains("TRAINER"));
        assert!(trainer_line(&learn, 0).contains("0 labels too late, 7 of steps without all data"));
        learn.dead = true;
        assert!(line(learn).ends_with("  THE TRAINER HAS ENDED"));
        assert!(trainer_line(&learn, 0).ends_with("ITS THREAD HAS ENDED"));
    }

    #[test]
    fn a_shared_line_is_told_every_second_and_warned_of_beyond_its_limit() {
        let mut of = SharedLineReport {
            matched: 2,
            limit_us: 2000.0,
            ..SharedLineReport::default()
        };
        let line = |of: SharedLineReport| {
            let mut now = SessionReport::default();
            now.input.steps = 5;
            now.shared_line = Some(of);
            Status::new(&[]).line(&now, Duration::from_secs(1))
        };
        assert!(line(of).ends_with("  shared line: 2 changes matched, too few"));
        (of.offset_us, of.error_us, of.matched) = (Some(-120.4), Some(66.7), 12);
        assert!(line(of).ends_with("  shared line: -120 ± 67 µs, 12 changes matched"));
        of.is_beyond = true;
        let warning =
            "  shared line: SOURCES APART BY MORE THAN 2000 µs: -120 ± 67 µs, 12 changes matched";
        assert!(line(of).ends_with(warning), "{}", line(of));
    }

    #[test]
    fn the_start_up_has_a_line_of_its_own() {
        let mut of = SessionReport {
            startup_ms: 41.26,
            ..SessionReport::default()
        };
        let alone = "start-up: opened in 41.3 ms; no step waited for that";
        assert_eq!(startup_line(&of), alone);
        (of.startup_steps, of.startup_max_us) = (3, 61_240.0);
        let waited = "start-up: opened in 41.3 ms; 3 steps that had waited, up to 61.2 ms";
        assert_eq!(startup_line(&of), waited);
    }

    #[test]
    fn a_session_that_begins_in_another_folder_than_it_said_says_so_once() {
        let (said, other) = (Path::new("run-1"), Path::new("run-2"));
        let status = || Status::new(&[]).that_goes_on_with(said.to_owned());
        let mut anew = status();
        assert_eq!(anew.began_anew(None), None);
        let told = anew.began_anew(Some(other)).unwrap();
        assert!(
            told.starts_with("starts from rest in run-2: expected the source that run-1 is of")
        );
        assert_eq!(anew.began_anew(Some(other)), None);
        assert_eq!(status().began_anew(Some(said)), None);
    }
}
