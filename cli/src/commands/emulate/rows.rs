//! Rows that an emulated device sends: of a simulated rig, a recorded session, or a file of voltage.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use betz::sort::Voltage;
use betz::{Error, Result};
use betz_live::record::{Facts, Reader, Record, Recording};
use betz_live::{Pace, Part, SimulatedRig, Simulation, SimulationOptions};
use betz_rigs::rig::{Arrival, Block, Rig, Samples, Signal};

use super::args::Emulate;
use crate::commands::sort;

/// Rows of a file that are read at once, in seconds.
const AT_ONCE: f64 = 0.01;

/// The next act of a device.
pub(super) enum Piece {
    /// Rows are sent.
    Rows(Vec<i16>),
    /// Number of rows that are lost on the way.
    Lost(u64),
    /// A digital line changes.
    Edge(u8, bool),
    /// The device starts again.
    Restart,
    /// Nothing is left.
    End,
}

/// Rows on their way to a device.
pub(super) enum Rows {
    Simulated(Box<SimulatedRig>),
    Recorded(Box<RecordedRows>),
    File {
        voltage: Box<dyn Voltage>,
        signal: Signal,
        next: u64,
        until: u64,
    },
}

/// Rows of one source of a recorded session.
pub(super) struct RecordedRows {
    folder: PathBuf,
    reader: Reader,
    source: usize,
    facts: Facts,
    /// Epoch, and the row after the newest one; `None` before the first.
    at: Option<(u32, u64)>,
    ready: VecDeque<Piece>,
}

impl Rows {
    /// The rows that the options ask for; those of a simulated rig have `microvolts` per bit.
    ///
    /// # Errors
    /// The errors of the recording.
    pub(super) fn open(args: &Emulate, microvolts: f64) -> Result<Self> {
        let Some(from) = &args.from else {
            let options = SimulationOptions {
                channels: args.channels.unwrap_or(96),
                microvolts,
                ..SimulationOptions::default()
            };
            let rig = Simulation::new(&options)?.rig(Part::Run, Pace::Fastest);
            return Ok(Self::Simulated(Box::new(rig)));
        };
        if from.join("resolved.toml").is_file() {
            let recorded = RecordedRows::open(from, args.source.as_deref())?;
            return Ok(Self::Recorded(Box::new(recorded)));
        }
        let part = sort::args::VoltagePart {
            stream: args.stream.clone(),
            truncate: false,
            rate: args.rate,
            channels: args.channels,
            gain: args.gain,
            from: 0.0,
            until: None,
        };
        let (voltage, rows, signal) = sort::open_voltage(from, part)?;
        Ok(Self::File {
            voltage,
            signal,
            next: rows.start,
            until: rows.end,
        })
    }

    pub(super) fn signal(&self) -> Result<Signal> {
        match self {
            Self::Simulated(rig) => rig.signal().ok_or_else(|| {
                Error::new(betz::ErrorKind::Internal, "the simulated rig has no signal")
            }),
            Self::Recorded(recorded) => Ok(recorded.facts.signal()),
            Self::File { signal, .. } => Ok(signal.clone()),
        }
    }

    /// The next piece.
    ///
    /// # Errors
    /// The errors of the recording.
    pub(super) fn next(&mut self) -> Result<Piece> {
        match self {
            Self::Simulated(rig) => {
                let mut block = Block::new();
                while rig.take(&mut block, Duration::ZERO)? != Arrival::Block {}
                match block.samples {
                    Samples::Voltage(rows) => Ok(Piece::Rows(rows)),
                    _ => Ok(Piece::End),
                }
            }
            Self::Recorded(recorded) => recorded.next(),
            Self::File {
                voltage,
                signal,
                next,
                until,
            } => {
                let most = ((signal.rate * AT_ONCE) as u64).max(1).min(*until - *next);
                let mut rows = vec![0; most as usize * signal.channels];
                let count = voltage.read(*next, &mut rows)?;
                if count == 0 {
                    return Ok(Piece::End);
                }
                rows.truncate(count * signal.channels);
                *next += count as u64;
                Ok(Piece::Rows(rows))
            }
        }
    }

    /// Begins again.
    ///
    /// # Errors
    /// The errors of the recording.
    pub(super) fn rewind(&mut self) -> Result<()> {
        match self {
            Self::Simulated(_) => {}
            Self::Recorded(recorded) => {
                recorded.reader = Reader::open(&recorded.folder)?;
                recorded.at = None;
            }
            Self::File { next, .. } => *next = 0,
        }
        Ok(())
    }
}

impl RecordedRows {
    fn open(folder: &Path, source: Option<&str>) -> Result<Self> {
        let recording = Recording::open(folder)?;
        let names: Vec<&str> = (recording.plan.source.iter())
            .map(|source| source.name.as_str())
            .collect();
        let number = match source {
            None => 0,
            Some(name) => names.iter().position(|of| *of == name).ok_or_else(|| {
                Error::argument(format!(
                    "--source {name}: expected one of {}, the sources of {}",
                    names.join(", "),
                    folder.display()
                ))
            })?,
        };
        let mut facts = (number == 0).then(|| recording.facts.clone());
        let mut reader = Reader::open(folder)?;
        while facts.is_none() {
            match reader.next_record()? {
                Some(Record::Configuration(of, json)) if of == number => {
                    facts = Some(Facts::from_json(&json)?);
                }
                Some(_) => {}
                None => break,
            }
        }
        match facts {
            Some(facts) if facts.voltage => Ok(Self {
                folder: folder.to_owned(),
                reader: Reader::open(folder)?,
                source: number,
                facts,
                at: None,
                ready: VecDeque::new(),
            }),
            _ => Err(Error::argument(format!(
                "{}: expected a source that sent voltage, got {}",
                folder.display(),
                names.get(number).unwrap_or(&"none")
            ))),
        }
    }

    fn next(&mut self) -> Result<Piece> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(piece);
            }
            match self.reader.next_record()? {
                None => return Ok(Piece::End),
                Some(Record::Block(source, block)) if source == self.source => self.take(block),
                Some(Record::Edge(source, edge)) if source == self.source => {
                    return Ok(Piece::Edge(edge.line, edge.is_up));
                }
                Some(_) => {}
            }
        }
    }

    /// Takes a block. Rows that came late are lost: they were sent in their place.
    fn take(&mut self, block: Block) {
        let end = block.first + block.rows as u64;
        match self.at {
            Some((epoch, _)) if epoch != block.epoch => self.ready.push_back(Piece::Restart),
            Some((_, next)) if end <= next => return,
            Some((_, next)) if block.first > next => {
                self.ready.push_back(Piece::Lost(block.first - next));
            }
            _ => {}
        }
        self.at = Some((block.epoch, end));
        if let Samples::Voltage(rows) = block.samples {
            self.ready.push_back(Piece::Rows(rows));
        }
    }
}
