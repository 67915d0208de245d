//! Results and progress for the user: tables and JSON on stdout, bars and notes on stderr.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use betz::model::{Decoder, OutputScore};
use betz::recording::Dataset;
use betz::text::without_negative_zeros;
pub(crate) use betz::text::{count, number};
use betz::train::overlap_warning;
use betz::train::trials::length_warning;
use betz::{Error, ErrorKind, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Set by Ctrl-C; long operations look at it and stop cleanly.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Set by SIGTERM, and by the end of a console of Windows.
static TERMINATED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on the first Ctrl-C asks long work to stop and keep what it has; the next one kills.
pub(crate) fn stop_on_interrupt() {
    let set = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("stopping; press Ctrl-C again to quit at once");
    });
    if let Err(e) = set {
        eprintln!("Ctrl-C will quit at once: {e}");
    }
    stop_on_termination();
}

/// From here on SIGTERM, which systems and supervisors send, does the same as Ctrl-C. The next one kills. On Windows the end of the console
/// does so.
#[cfg(unix)]
fn stop_on_termination() {
    use signal_hook::consts::SIGTERM;
    let flag = match TERMINATED.get() {
        Some(_) => return,
        None => TERMINATED.get_or_init(Arc::default),
    };
    let code = 128 + SIGTERM;
    let registered =
        signal_hook::flag::register_conditional_shutdown(SIGTERM, code, Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(SIGTERM, Arc::clone(flag)));
    if let Err(e) = registered {
        eprintln!("SIGTERM will quit at once: {e}");
    }
}

#[cfg(windows)]
fn stop_on_termination() {
    TERMINATED.get_or_init(Arc::default);
    let stop = || {
        if let Some(flag) = TERMINATED.get() {
            flag.store(true, Ordering::Relaxed);
        }
    };
    if let Err(e) = crate::console::on_end(stop) {
        eprintln!("closing the console will quit at once: {e}");
    }
}

#[cfg(not(any(unix, windows)))]
fn stop_on_termination() {}

/// True once Ctrl-C or SIGTERM has asked for the end.
fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed) || is_terminated()
}

/// True after SIGTERM, or while the console of Windows ends.
pub(crate) fn is_terminated() -> bool {
    (TERMINATED.get()).is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// The error of a command that was interrupted and has reported what it had by then.
pub(crate) fn interrupted(work: &str) -> Error {
    Error::new(
        ErrorKind::Interrupted,
        format!("{work} was interrupted; the result is incomplete"),
    )
}

/// Ends the command with an error if it was interrupted, before it replaces an earlier result.
pub(crate) fn check_interrupt(work: &str) -> Result<()> {
    betz::progress::check(&UntilInterrupted, work)
}

/// Exit code of a command that did not fail.
static CODE: AtomicU8 = AtomicU8::new(0);

/// From here on the command's exit code is 3: it ended as asked, and crossed a limit.
pub(crate) fn cross_limit() {
    CODE.store(3, Ordering::Relaxed);
}

/// From here on the command's exit code is that of a process that it has run; 1 if a signal ended that one.
pub(crate) fn pass_on(code: Option<i32>) {
    let code = code.and_then(|code| u8::try_from(code).ok());
    CODE.store(code.unwrap_or(1), Ordering::Relaxed);
}

/// The exit code of a command that did not fail.
pub(crate) fn exit_code() -> std::process::ExitCode {
    std::process::ExitCode::from(CODE.load(Ordering::Relaxed))
}

/// Progress of work that shows itself, and stops on Ctrl-C.
pub(crate) struct UntilInterrupted;

impl betz::Progress for UntilInterrupted {
    fn cancelled(&self) -> bool {
        is_interrupted()
    }
}

/// The result of a command, as one JSON object or as lines and tables.
pub(crate) trait Outcome: Serialize {
    /// Prints lines and tables on standard output.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if standard output cannot be written.
    fn print(&self) -> Result<()>;
}

/// Prints a command's result, as JSON if `--json` was given.
pub(crate) fn tell(outcome: &impl Outcome, as_json: bool) -> Result<()> {
    if as_json {
        return json(outcome);
    }
    outcome.print()
}

/// Prints one JSON object on standard output.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<()> {
    let text = serde_json::to_string(value)
        .map_err(|e| Error::new(ErrorKind::Internal, format!("writing JSON: {e}")))?;
    write_line(&with_remarks(text))
}

/// Remarks on the files that were read, for `--json`.
static REMARKS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Says `text` on standard error, and repeats it in the JSON object, under `notes`.
pub(crate) fn remark(text: String) {
    note(&text);
    let mut remarks = REMARKS.lock().unwrap_or_else(PoisonError::into_inner);
    // A file that is read twice is remarked on once.
    if !remarks.contains(&text) {
        remarks.push(text);
    }
}

/// The JSON object `text` with the remarks so far.
fn with_remarks(text: String) -> String {
    let remarks = REMARKS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(open) = text.strip_suffix('}') else {
        return text;
    };
    if remarks.is_empty() || open.len() < 2 || open.contains("\"notes\":") {
        return text;
    }
    match serde_json::to_string(&*remarks) {
        Ok(list) => format!("{open},\"notes\":{list}}}"),
        Err(_) => text,
    }
}

/// True if a result file goes to standard output, so that reports go to standard error.
static RESULT_ON_OUTPUT: AtomicBool = AtomicBool::new(false);

/// From here on what is said goes to standard error: standard output is a result's.
pub(crate) fn leave_output_to_the_result() {
    RESULT_ON_OUTPUT.store(true, Ordering::Relaxed);
}

/// Prints one line for a person on standard output, or on standard error where a result goes to standard output.
/// Numbers that were rounded to 0 have no sign.
pub(crate) fn line(text: &str) -> Result<()> {
    write_line(&without_negative_zeros(text))
}

/// Writes one line. A reader that has closed the pipe (`| head`) has seen enough: that is no error.
fn write_line(text: &str) -> Result<()> {
    if RESULT_ON_OUTPUT.load(Ordering::Relaxed) {
        eprintln!("{text}");
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => {
            done.map_err(|e| Error::new(ErrorKind::Io, format!("writing standard output: {e}")))
        }
    }
}

/// Aligned columns: the first to the left, the others to the right.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self {
            rows: vec![header.iter().map(ToString::to_string).collect()],
        }
    }

    /// One cell per column.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells: Vec<String> = cells.into();
        self.rows.push(
            cells
                .iter()
                .map(|cell| without_negative_zeros(cell))
                .collect(),
        );
    }

    pub(crate) fn print(&self) -> Result<()> {
        self.lines().iter().try_for_each(|text| line(text))
    }

    /// The header, a rule and the rows, without columns that no row fills.
    fn lines(&self) -> Vec<String> {
        let Some((header, rows)) = self.rows.split_first() else {
            return Vec::new();
        };
        let filled = |c: &usize| rows.is_empty() || rows.iter().any(|row| !row[*c].is_empty());
        let columns: Vec<usize> = (0..header.len()).filter(filled).collect();
        let width = |c: usize| self.rows.iter().map(|row| row[c].chars().count()).max();
        let widths: Vec<usize> = columns.iter().map(|&c| width(c).unwrap_or(0)).collect();
        let aligned = |row: &Vec<String>| {
            let mut text = String::new();
            for (i, (&c, &width)) in columns.iter().zip(&widths).enumerate() {
                let cell = &row[c];
                text.push_str(&match i {
                    0 => format!("{cell:<width$}"),
                    _ => format!("  {cell:>width$}"),
                });
            }
            text.trim_end().to_owned()
        };
        let gaps = 2 * columns.len().saturating_sub(1);
        let rule = "─".repeat(widths.iter().sum::<usize>() + gaps);
        let mut lines = vec![aligned(header), rule];
        lines.extend(rows.iter().map(aligned));
        lines
    }
}

/// The scores that `evaluate` and `stream` print.
#[derive(Serialize)]
pub(crate) struct Scores {
    pub(crate) outputs: Vec<OutputScore>,
    /// Distance that half of the estimated places are closer than; absent where it was not computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) median_error: Option<f64>,
    pub(crate) steps: usize,
    pub(crate) segments: usize,
    pub(crate) device: String,
    /// All of the command's time.
    pub(crate) total_seconds: f64,
}

impl Outcome for Scores {
    fn print(&self) -> Result<()> {
        score_table(&self.outputs)?;
        remarks(&self.outputs);
        line(&format!(
            "{} in {}, {:.2} s in all, on {}",
            count(self.steps as u128, "step"),
            count(self.segments as u128, "segment"),
            self.total_seconds,
            self.device
        ))
    }
}

/// One row per output, and the mean over outputs.
pub(crate) fn score_table(scores: &[OutputScore]) -> Result<()> {
    if scores.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        "output",
        "R²",
        "NRMSE (range)",
        "NRMSE (std)",
        "RMSE",
        "unit",
    ]);
    for s in scores {
        table.row([
            s.name.clone(),
            format!("{:.4}", s.r2),
            format!("{:.4}", s.nrmse_range),
            format!("{:.4}", s.nrmse_std),
            format!("{:.4}", s.rmse),
            s.unit.clone(),
        ]);
    }
    table.print()
}

/// `12 s`, `5 min`, `3.5 h`, `12 days`.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// Prints warnings about `scores` on standard error.
pub(crate) fn remarks(scores: &[OutputScore]) {
    let named = |s: &OutputScore| format!("`{}`", s.name);
    let list = |which: &dyn Fn(&OutputScore) -> bool| {
        let names: Vec<String> = scores.iter().filter(|s| which(s)).map(named).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    if let Some(names) = list(&|s| s.r2.is_nan()) {
        eprintln!(
            "{names}: the true output is constant in the scored part, so R² and NRMSE are undefined"
        );
    }
    if let Some(names) = list(&|s| s.r2 < 0.0) {
        eprintln!("{names}: R² is below 0: worse than predicting the mean");
    }
}

/// Prints warnings about scores of `model` on `dataset`, and returns them: the model was trained on it, or on trials of
/// another length.
pub(crate) fn warn_of_scores(model: &Decoder, dataset: &Dataset) -> Result<Vec<String>> {
    let warnings: Vec<String> = (length_warning(model, dataset).into_iter())
        .chain(overlap_warning(model, dataset)?)
        .collect();
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    Ok(warnings)
}

/// Time at which the command began.
static STARTED: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();

/// To be called first of all: from here on the command's time counts.
pub(crate) fn start_clock() {
    STARTED.get_or_init(Instant::now);
}

/// Seconds since the command began, whatever it did in them.
pub(crate) fn total_seconds() -> f64 {
    STARTED.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// True if progress and notes are left to another process.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From here on there is no progress to be seen.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Says `text` on standard error, unless that is left to another process.
pub(crate) fn note(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        eprintln!("{text}");
    }
}

/// Time between progress lines if standard error is not a terminal.
const SAY_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// Progress of long work with the time that is left: a bar on a terminal, a line every few seconds
/// elsewhere.
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
    stage: Mutex<Stage>,
    started: Instant,
}

/// Stage of the work.
struct Stage {
    name: String,
    started: Instant,
    said: Instant,
    /// Marks at earlier times, in their order.
    marks: Vec<Mark>,
}

/// Work that a stage had done at a time since its beginning.
#[derive(Clone, Copy, Default)]
struct Mark {
    seconds: f64,
    done: u64,
}

/// Shortest time between two marks.
const MARK_EVERY: f64 = 1.0;

impl Stage {
    fn begin(&mut self, name: &str, now: Instant) {
        name.clone_into(&mut self.name);
        self.started = now;
        self.marks = vec![Mark::default()];
    }

    /// The mark before the newest quarter of the time: the pace since then tells what is left. Parts of a stage differ
    /// in pace from what was expected, so its mean pace would tell of parts that are over.
    fn before(&self, newest: Mark) -> Mark {
        let since = 0.75 * newest.seconds;
        let marks = self.marks.iter().rev();
        let mark = marks
            .copied()
            .find(|mark| mark.seconds <= since && mark.done < newest.done);
        mark.unwrap_or_default()
    }

    fn remember(&mut self, newest: Mark) {
        let last = self.marks.last().copied().unwrap_or_default();
        if newest.done != last.done && newest.seconds - last.seconds >= MARK_EVERY {
            self.marks.push(newest);
        }
    }
}

impl Bar {
    pub(crate) fn new() -> Self {
        let seen = std::io::stderr().is_terminal() && !QUIET.load(Ordering::Relaxed);
        let bar = seen.then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template(
                "{prefix:<28} {bar:32.cyan/black} {percent:>3} %  {msg}",
            ) {
                bar.set_style(style);
            }
            bar
        });
        let started = Instant::now();
        Self {
            bar,
            stage: Mutex::new(Stage {
                name: String::new(),
                started,
                said: started,
                marks: vec![Mark::default()],
            }),
            started,
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// `surrogates: 40 %, 12 s, about 18 s left`.
fn progress_line(stage: &Stage, now: Mark, total: u64) -> String {
    let share = now.done as f64 / total.max(1) as f64;
    let left = time_left(stage, now, total);
    format!("{}: {:.0} %, {left}", stage.name, share * 100.0)
}

/// `12 s, about 18 s left`: what is left takes as long in proportion as what was done in the newest quarter of the time.
fn time_left(stage: &Stage, now: Mark, total: u64) -> String {
    if now.done == 0 {
        return format!("{:.0} s", now.seconds);
    }
    let from = stage.before(now);
    let left = total.saturating_sub(now.done) as f64 / (now.done - from.done) as f64;
    let left = left * (now.seconds - from.seconds);
    format!("{:.0} s, about {left:.0} s left", now.seconds)
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl betz::Progress for Bar {
    fn update(&self, stage: &str, done: u64, total: u64) {
        let Ok(mut current) = self.stage.lock() else {
            return;
        };
        let now = Instant::now();
        let new = current.name != stage;
        if new {
            current.begin(stage, now);
        }
        let mark = Mark {
            seconds: (now - current.started).as_secs_f64(),
            done,
        };
        current.remember(mark);
        let Some(bar) = &self.bar else {
            if now - current.said >= SAY_EVERY && !QUIET.load(Ordering::Relaxed) {
                current.said = now;
                eprintln!("{}", progress_line(&current, mark, total));
            }
            return;
        };
        // A bar of no length is drawn full.
        bar.set_length(total);
        bar.set_position(done);
        if new {
            bar.set_prefix(stage.to_string());
        }
        bar.set_message(time_left(&current, mark, total));
    }

    fn cancelled(&self) -> bool {
        is_interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_without_a_value_is_left_out() {
        let mut table = Table::new(&["kind", "R²", "regions", "step"]);
        assert_eq!(table.lines()[0], "kind  R²  regions  step");
        table.row(["linear", "0.75", "", "3 µs"].map(str::to_owned));
        table.row(["lift", "-0.0", "", ""].map(str::to_owned));
        let expected = [
            "kind      R²  step",
            "──────────────────",
            "linear  0.75  3 µs",
            "lift     0.0",
        ];
        assert_eq!(table.lines(), expected);
    }

    #[test]
    fn one_is_one_and_time_that_is_left_is_said() {
        assert_eq!(count(1_u32, "channel"), "1 channel");
        assert_eq!(count(0_u32, "channel"), "0 channels");
        let now = Instant::now();
        let stage = |name: &str| Stage {
            name: name.into(),
            started: now,
            said: now,
            marks: Vec::new(),
        };
        let at = |seconds: f64, done: u64| Mark { seconds, done };
        let line = progress_line(&stage("surrogates"), at(12.0, 40), 100);
        assert_eq!(line, "surrogates: 40 %, 12 s, about 18 s left");
        assert_eq!(
            progress_line(&stage("read"), at(7.0, 0), 0),
            "read: 0 %, 7 s"
        );

        // A first part takes a minute for a hundredth; the others take a second for each.
        let mut training = stage("training");
        training.begin("training", now);
        for second in 1..=80 {
            let done = second / 60 + (second - 60).max(0);
            training.remember(at(second as f64, done as u64));
        }
        assert_eq!(
            progress_line(&training, at(80.0, 21), 101),
            "training: 21 %, 80 s, about 80 s left"
        );
        // Work that is told of in large parts has the pace of whole parts.
        training.begin("training", now);
        for second in 1..=60 {
            training.remember(at(second as f64, second as u64 / 20 * 20));
        }
        let left = time_left(&training, at(60.0, 60), 100);
        assert_eq!(left, "60 s, about 40 s left");
    }
}
