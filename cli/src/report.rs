//! How results and progress reach the user: tables and JSON on stdout, bars and notes on stderr.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use betz::model::OutputScore;
use betz::{Error, ErrorKind, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Set by Ctrl-C; long operations look at it and stop cleanly.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From here on the first Ctrl-C asks long work to stop and keep what it has; the next one kills.
pub(crate) fn stop_on_interrupt() {
    let set = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("stopping; once more to quit at once");
    });
    if let Err(e) = set {
        eprintln!("Ctrl-C will quit at once: {e}");
    }
}

/// Progress of work that shows itself, and stops on Ctrl-C.
pub(crate) struct UntilInterrupted;

impl betz::Progress for UntilInterrupted {
    fn cancelled(&self) -> bool {
        INTERRUPTED.load(Ordering::Relaxed)
    }
}

/// Prints one JSON object on standard output.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<()> {
    let text = serde_json::to_string(value)
        .map_err(|e| Error::new(ErrorKind::Internal, format!("writing JSON: {e}")))?;
    line(&text)
}

/// Prints one line on standard output; a closed pipe is an error with a message, not a panic.
pub(crate) fn line(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|e| Error::new(ErrorKind::Io, format!("writing standard output: {e}")))
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

    /// One cell a column.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    pub(crate) fn print(&self) -> Result<()> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..columns)
            .map(|c| {
                let cells = self.rows.iter().map(|r| r[c].chars().count());
                cells.max().unwrap_or(0)
            })
            .collect();
        for (i, row) in self.rows.iter().enumerate() {
            let mut text = String::new();
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                if c == 0 {
                    text.push_str(cell);
                    text.push_str(&pad);
                } else {
                    text.push_str("  ");
                    text.push_str(&pad);
                    text.push_str(cell);
                }
            }
            line(text.trim_end())?;
            if i == 0 {
                let total: usize = widths.iter().sum::<usize>() + 2 * (columns - 1);
                line(&"─".repeat(total))?;
            }
        }
        Ok(())
    }
}

/// What `evaluate` and `stream` print.
#[derive(Serialize)]
pub(crate) struct Scores {
    pub(crate) outputs: Vec<OutputScore>,
    /// Distance that half of the estimated places are closer than; absent where it was not computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) median_error: Option<f64>,
    pub(crate) steps: usize,
    pub(crate) segments: usize,
    pub(crate) device: String,
}

impl Scores {
    pub(crate) fn print(&self) -> Result<()> {
        score_table(&self.outputs)?;
        line(&format!(
            "{} steps in {} segment{}, on {}",
            self.steps,
            self.segments,
            if self.segments == 1 { "" } else { "s" },
            self.device
        ))
    }
}

/// One row an output, and the mean over outputs.
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

/// Progress of long work: a bar on a terminal, silence elsewhere.
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
    stage: Mutex<String>,
    /// What the work measured about itself, the latest last.
    measured: Mutex<Vec<(String, f64)>>,
    started: Instant,
}

impl Bar {
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template(
                "{msg:<28} {bar:32.cyan/black} {percent:>3} %  {elapsed}",
            ) {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            stage: Mutex::new(String::new()),
            measured: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// The latest value that the work measured of `what`.
    pub(crate) fn measurement(&self, what: &str) -> Option<f64> {
        let measured = self.measured.lock().ok()?;
        let latest = measured.iter().rev().find(|(name, _)| name == what);
        latest.map(|(_, value)| *value)
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl betz::Progress for Bar {
    fn measured(&self, what: &str, value: f64) {
        if let Ok(mut measured) = self.measured.lock() {
            measured.push((what.to_owned(), value));
        }
    }

    fn update(&self, stage: &str, done: u64, total: u64) {
        let Some(bar) = &self.bar else { return };
        if let Ok(mut current) = self.stage.lock()
            && *current != stage
        {
            stage.clone_into(&mut current);
            bar.set_message(stage.to_string());
        }
        bar.set_length(total);
        bar.set_position(done);
    }

    fn cancelled(&self) -> bool {
        INTERRUPTED.load(Ordering::Relaxed)
    }
}
