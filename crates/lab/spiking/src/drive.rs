//! Currents that change while a network runs: by a program, from a file or from a pipe.

use std::fmt;
use std::io::BufRead;
use std::path::Path;

use betz_base::{Error, ErrorKind, Result};

/// Something that gives currents over time. The engine asks when they change and not in between.
pub trait Drive: Send {
    /// Adds the currents in pA that hold from `step` on, one per neuron, and returns the first later step in which they
    /// change; `None` if they never do.
    ///
    /// # Errors
    /// The errors of a file or a pipe; the engine ends its run with them.
    fn add_currents(&mut self, step: u64, currents_pa: &mut [f64]) -> Result<Option<u64>>;
}

/// Currents between the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interpolation {
    /// A row holds until the next one.
    #[default]
    Hold,
    /// On the line between two rows, at the beginning of each step.
    Linear,
}

/// A moment and the currents from then on: one for all neurons, or one per neuron.
#[derive(Debug, Clone, PartialEq)]
pub struct CurrentRow {
    /// Time from the network's start.
    pub seconds: f64,
    /// Currents.
    pub currents_pa: Vec<f64>,
}

/// A table of currents: rows in the order of their times. There is no current before the first one; the last one holds.
///
/// Rows are read when they are needed. A pipe therefore steers a network while it runs: the network waits for the row
/// that says until when the one before holds.
///
/// ```
/// use betz_spiking::{CurrentTable, Engine, Interpolation, Network, Options, Population};
///
/// let mut network = Network::new(0.1, 1);
/// network.populations.push(Population::new("e", 10));
/// let mut engine = Engine::build(&network, &Options::default(), &())?;
/// let table = "seconds,pA\n0,0\n0.1,400\n0.2,0\n";
/// engine.drive(0, Box::new(CurrentTable::read(table.as_bytes(), "table", 0.1, Interpolation::Hold)))?;
/// assert_eq!(engine.run(1_000, &())?.spikes, 0);
/// assert!(engine.run(1_000, &())?.spikes > 10);
/// # Ok::<(), betz_spiking::Error>(())
/// ```
pub struct CurrentTable {
    rows: Box<dyn Iterator<Item = Result<CurrentRow>> + Send>,
    /// Names the table in errors.
    name: String,
    step_ms: f64,
    interpolation: Interpolation,
    now: Option<CurrentRow>,
    next: Option<CurrentRow>,
    ended: bool,
}

impl fmt::Debug for CurrentTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CurrentTable({:?}, {:?})", self.name, self.interpolation)
    }
}

impl CurrentTable {
    /// Of rows that a program makes, for a network of steps of `step_ms`.
    pub fn new(
        rows: impl Iterator<Item = Result<CurrentRow>> + Send + 'static,
        name: impl Into<String>,
        step_ms: f64,
        interpolation: Interpolation,
    ) -> Self {
        Self {
            rows: Box::new(rows),
            name: name.into(),
            step_ms,
            interpolation,
            now: None,
            next: None,
            ended: false,
        }
    }

    /// Of lines `seconds,pA` or `seconds,pA,pA,…`, a value per neuron; a first line of words is passed over.
    pub fn read(
        from: impl BufRead + Send + 'static,
        name: impl Into<String>,
        step_ms: f64,
        interpolation: Interpolation,
    ) -> Self {
        let rows = (1..)
            .zip(from.lines())
            .filter_map(|(number, line)| match line {
                Ok(line) => row(number, &line),
                Err(e) => Some(Err(Error::new(
                    ErrorKind::Io,
                    format!("line {number}: {e}"),
                ))),
            });
        Self::new(rows, name, step_ms, interpolation)
    }

    /// Of a file of such lines, or of a named pipe.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened.
    pub fn open(path: &Path, step_ms: f64, interpolation: Interpolation) -> Result<Self> {
        let file = std::fs::File::open(path).map_err(|e| Error::io("reading", path, &e))?;
        let name = path.display().to_string();
        Ok(Self::read(
            std::io::BufReader::new(file),
            name,
            step_ms,
            interpolation,
        ))
    }

    /// The step from which a row holds.
    fn step_of(&self, row: &CurrentRow) -> u64 {
        (row.seconds * 1e3 / self.step_ms - 1e-6).ceil().max(0.0) as u64
    }

    /// Reads the next row, and checks it against the one before.
    fn advance(&mut self, neurons: usize) -> Result<()> {
        self.now = self.next.take().or_else(|| self.now.take());
        if self.ended {
            return Ok(());
        }
        let Some(row) = self.rows.next() else {
            self.ended = true;
            return Ok(());
        };
        let row = row.map_err(|e| e.at(&self.name))?;
        let refuse = |what: String| Err(Error::argument(format!("{}: {what}", self.name)));
        let count = row.currents_pa.len();
        if count != 1 && count != neurons {
            return refuse(format!(
                "expected one current, or one for each of {neurons} neurons, got {count} at {} s",
                row.seconds
            ));
        }
        if !(row.seconds >= 0.0 && row.seconds < 1e12) {
            return refuse(format!("expected times from 0 s on, got {} s", row.seconds));
        }
        if let Some(current) = row.currents_pa.iter().find(|c| !c.is_finite()) {
            return refuse(format!(
                "expected finite currents, got {current} at {} s",
                row.seconds
            ));
        }
        if let Some(before) = self.now.as_ref().filter(|b| b.seconds > row.seconds) {
            return refuse(format!(
                "expected rows in the order of their times, got {} s after {} s",
                row.seconds, before.seconds
            ));
        }
        self.next = Some(row);
        Ok(())
    }
}

/// A line's row; none of a blank line, or of words in the first line.
fn row(number: usize, line: &str) -> Option<Result<CurrentRow>> {
    let line = line.trim();
    if line.is_empty() {
        return None;
    }
    let values: std::result::Result<Vec<f64>, _> =
        line.split(',').map(|v| v.trim().parse::<f64>()).collect();
    match values {
        Ok(values) if values.len() > 1 => Some(Ok(CurrentRow {
            seconds: values[0],
            currents_pa: values[1..].to_vec(),
        })),
        Err(_) if number == 1 => None,
        _ => Some(Err(Error::new(
            ErrorKind::InvalidRecording,
            format!("line {number}: expected numbers \"seconds,pA\", got {line:?}"),
        ))),
    }
}

impl Drive for CurrentTable {
    fn add_currents(&mut self, step: u64, currents_pa: &mut [f64]) -> Result<Option<u64>> {
        let neurons = currents_pa.len();
        if self.now.is_none() && self.next.is_none() && !self.ended {
            self.advance(neurons)?;
        }
        while self
            .next
            .as_ref()
            .is_some_and(|next| self.step_of(next) <= step)
        {
            self.advance(neurons)?;
        }
        let Some(now) = &self.now else {
            return Ok(self.next.as_ref().map(|next| self.step_of(next)));
        };
        let of = |row: &CurrentRow, i: usize| {
            row.currents_pa[if row.currents_pa.len() == 1 { 0 } else { i }]
        };
        let between = match (&self.next, self.interpolation) {
            (Some(next), Interpolation::Linear) if next.seconds > now.seconds => {
                let at = step as f64 * self.step_ms * 1e-3;
                let part = (at - now.seconds) / (next.seconds - now.seconds);
                Some((next, part.clamp(0.0, 1.0)))
            }
            _ => None,
        };
        for (i, current) in currents_pa.iter_mut().enumerate() {
            let held = of(now, i);
            *current += match between {
                Some((next, part)) => held + part * (of(next, i) - held),
                None => held,
            };
        }
        Ok(match between {
            Some(_) => Some(step + 1),
            None => self.next.as_ref().map(|next| self.step_of(next)),
        })
    }
}
