//! Reading a recording: its segments one after another, with whatever is damaged told.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::rig::notes::NoteContent;
use betz_rigs::rig::{Block, LineEdge, Loss, RigSpike, Samples};
use serde::Serialize;

use super::frame::{self, HEAD, Head, Kind, Scan};
use crate::grid::Alignment;

/// Bytes that are read at once.
const AT_ONCE: usize = 1 << 20;

/// Counts of a reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Whole frames.
    pub frames: u64,
    /// Places at which bytes are damaged or missing.
    pub places: u64,
    /// Bytes that belong to no whole frame.
    pub bytes: u64,
    /// Frames that are missing by their numbers.
    pub missing: u64,
    /// Frames that the recorder said it could not take.
    pub unrecorded: u64,
    /// Segments that end within a frame.
    pub torn: u64,
    /// True if the session ended as asked.
    pub ended: bool,
}

impl Damage {
    /// True if nothing of what was handed to the recorder is missing, but for the end of a session that was killed.
    pub fn is_clean(&self) -> bool {
        self.places == 0 && self.missing == 0 && self.unrecorded == 0
    }
}

/// A frame of a recording.
#[derive(Debug, PartialEq)]
pub enum Record {
    /// The facts of the session or, before its first block, of another source than the first, as JSON.
    Configuration(usize, String),
    /// A block of a source, with its epoch and its loss. Sources are numbered as in the plan.
    Block(usize, Block),
    /// Place of the steps in the device time of a source.
    Alignment(usize, Alignment),
    /// The step was made without data.
    Stale(u64),
    /// The steps from the open one, `step`, up to `to` were left out because the decoder was slow.
    SkipBehind {
        /// Step that was open.
        step: u64,
        /// Step that is open afterwards.
        to: u64,
    },
    /// A model was given to the session.
    Swap {
        /// Step that was open.
        step: u64,
        /// Fingerprint of the model, which names its file.
        fingerprint: u64,
    },
    /// The session went back to the model before, at this step.
    RollBack(u64),
    /// A step and its outputs.
    Step {
        /// Number of the step.
        number: u64,
        /// Device time of its end: the first row that is not in it.
        end: u64,
        /// Bits of its status.
        status: u32,
        /// One value per output.
        values: Vec<f32>,
    },
    /// A label, a mark or a trial.
    Note {
        /// Step that it belongs to.
        step: u64,
        /// Content.
        content: NoteContent,
    },
    /// A digital line of a source changes.
    Edge(usize, LineEdge),
    /// State of the session.
    Checkpoint {
        /// True if a session that was killed goes on from it.
        resumed: bool,
        /// The state.
        state: Vec<u8>,
    },
    /// Number of frames that were not recorded here.
    Unrecorded(u64),
    /// The session ended as asked.
    End,
}

/// A recording, read from its start to its end.
pub struct Reader {
    segments: std::vec::IntoIter<PathBuf>,
    /// Byte at which the next segment is read from.
    from: u64,
    file: Option<File>,
    bytes: Vec<u8>,
    at: usize,
    next: u64,
    /// Epoch of each source, and what it lost before its next block.
    sources: Vec<(u32, Loss)>,
    damage: Damage,
    within_damage: bool,
}

impl Reader {
    /// The recording in `folder`.
    ///
    /// # Errors
    /// `Io` if the folder cannot be read; `InvalidRecording` if it has no segment.
    pub fn open(folder: &Path) -> Result<Self> {
        Ok(Self::over(segments(folder)?, 0))
    }

    /// The last `bytes` of the recording in `folder`, or a little more. What lies before the first whole frame counts as damage.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub(crate) fn open_tail(folder: &Path, bytes: u64) -> Result<Self> {
        let mut tail = segments(folder)?;
        let (mut length, mut from, mut first) = (0, 0, 0);
        for (at, path) in tail.iter().enumerate().rev() {
            let size = std::fs::metadata(path).map_err(|e| Error::io("reading", path, &e))?;
            length += size.len();
            first = at;
            if length >= bytes {
                from = length - bytes;
                break;
            }
        }
        Ok(Self::over(tail.split_off(first), from))
    }

    /// A reader of `segments`, from byte `from` of the first.
    fn over(segments: Vec<PathBuf>, from: u64) -> Self {
        Self {
            segments: segments.into_iter(),
            from,
            file: None,
            bytes: Vec::with_capacity(2 * AT_ONCE),
            at: 0,
            next: 0,
            sources: vec![(0, Loss::default())],
            damage: Damage::default(),
            within_damage: false,
        }
    }

    /// Number of the frame after the last whole one.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Sets the epoch of a source's blocks that follow, for a reader that has not read the start.
    pub(crate) fn set_epoch(&mut self, source: usize, epoch: u32) {
        of_source(&mut self.sources, source).0 = epoch;
    }

    /// Counts so far.
    pub fn damage(&self) -> Damage {
        self.damage
    }

    /// The next record; `None` at the end. What is damaged is left out and counted.
    ///
    /// # Errors
    /// `Io` if a segment cannot be read.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        loop {
            match frame::open(&self.bytes[self.at..]) {
                Scan::Frame(head, length) => {
                    if head.number < self.next {
                        // It has been read: a segment was copied, or is another session's.
                        self.skip(length);
                        continue;
                    }
                    let from = self.at + HEAD;
                    self.at += length;
                    self.within_damage = false;
                    self.count(&head);
                    let body = &self.bytes[from..self.at];
                    let (epoch, loss) = of_source(&mut self.sources, head.source.into());
                    match read(&head, body, epoch, loss) {
                        Contents::Record(record) => {
                            match &record {
                                Record::End => self.damage.ended = true,
                                Record::Unrecorded(frames) => self.damage.unrecorded += frames,
                                _ => {}
                            }
                            return Ok(Some(record));
                        }
                        Contents::Noted => {}
                        Contents::Odd => self.damage.places += 1,
                    }
                }
                Scan::Short(needed) => {
                    if self.fill(needed)? {
                        continue;
                    }
                    // The segment ends here: a killed session leaves a torn frame.
                    let left = self.bytes.len() - self.at;
                    if left > 0 {
                        match frame::resync(&self.bytes[self.at..]) {
                            Some(skip) => {
                                self.skip(skip);
                                continue;
                            }
                            None => {
                                self.damage.torn += 1;
                                self.damage.bytes += left as u64;
                            }
                        }
                    }
                    self.bytes.clear();
                    (self.at, self.within_damage) = (0, false);
                    if !self.open_next()? {
                        return Ok(None);
                    }
                }
                Scan::Damaged => {
                    // A magic may lie across the end of what is read.
                    self.fill(AT_ONCE)?;
                    let left = self.bytes.len() - self.at;
                    let skip = frame::resync(&self.bytes[self.at..])
                        .unwrap_or(left.saturating_sub(16).max(1));
                    self.skip(skip);
                }
            }
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.damage.places += u64::from(!self.within_damage);
        self.within_damage = true;
        self.damage.bytes += bytes as u64;
        self.at += bytes;
    }

    fn count(&mut self, head: &Head) {
        self.damage.frames += 1;
        let told = match head.kind {
            Kind::Unrecorded => u64::from(head.count.saturating_sub(1)),
            _ => 0,
        };
        let missing = head.number.saturating_sub(self.next);
        self.damage.missing += missing.saturating_sub(told);
        self.next = head.number + 1;
    }

    /// Reads on until `needed` bytes are there; false at the end of the segment.
    fn fill(&mut self, needed: usize) -> Result<bool> {
        self.bytes.drain(..self.at);
        self.at = 0;
        while self.bytes.len() < needed {
            let Some(file) = &mut self.file else {
                return Ok(false);
            };
            let more = AT_ONCE.max(needed - self.bytes.len()) as u64;
            let got = file
                .take(more)
                .read_to_end(&mut self.bytes)
                .map_err(|e| Error::new(ErrorKind::Io, format!("reading a segment: {e}")))?;
            if got == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn open_next(&mut self) -> Result<bool> {
        let Some(path) = self.segments.next() else {
            return Ok(false);
        };
        let io = |e: std::io::Error| Error::io("reading", &path, &e);
        let mut file = File::open(&path).map_err(io)?;
        let from = SeekFrom::Start(std::mem::take(&mut self.from));
        file.seek(from).map_err(io)?;
        self.file = Some(file);
        Ok(true)
    }
}

/// The segments of a folder, in order.
///
/// # Errors
/// As [`Reader::open`].
pub(super) fn segments(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = |e: std::io::Error| Error::io("reading", folder, &e);
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|e| e == "blog") {
            segments.push(path);
        }
    }
    if segments.is_empty() {
        return Err(Error::recording(format!(
            "{}: expected a folder that `betz run` recorded, with segments such as 000000.blog, got none",
            folder.display()
        )));
    }
    segments.sort();
    Ok(segments)
}

fn of_source(sources: &mut Vec<(u32, Loss)>, source: usize) -> &mut (u32, Loss) {
    if sources.len() <= source {
        sources.resize(source + 1, Default::default());
    }
    &mut sources[source]
}

/// Answer of [`read`].
enum Contents {
    Record(Record),
    /// Kept for the next block, or for the log alone.
    Noted,
    /// Sums fit and contents do not.
    Odd,
}

/// The record of a frame.
fn read(head: &Head, body: &[u8], epoch: &mut u32, loss: &mut Loss) -> Contents {
    let samples = match head.kind {
        Kind::Voltage => Samples::Voltage(words(body, i16::from_le_bytes)),
        Kind::Features => Samples::Features(words(body, f32::from_le_bytes)),
        Kind::Spikes => Samples::Spikes(body.chunks_exact(16).map(spike).collect()),
        Kind::Epoch => {
            *epoch = head.first as u32;
            return Contents::Noted;
        }
        Kind::Event => return Contents::Noted,
        Kind::Line => {
            return match (u8::try_from(head.count), body) {
                (Ok(line), [up @ (0 | 1), epoch @ ..]) if epoch.len() == 4 => {
                    let edge = LineEdge {
                        epoch: words(epoch, u32::from_le_bytes)[0],
                        row: head.first,
                        line,
                        is_up: *up == 1,
                    };
                    Contents::Record(Record::Edge(head.source.into(), edge))
                }
                _ => Contents::Odd,
            };
        }
        Kind::Loss => {
            *loss = Loss {
                count: head.first,
                at_least: body.first() == Some(&1),
            };
            return Contents::Noted;
        }
        _ => return plain_record(head, body).map_or(Contents::Odd, Contents::Record),
    };
    let block = Block {
        epoch: *epoch,
        first: head.first,
        rows: head.count as usize,
        host_ns: head.host_ns,
        lost_before: std::mem::take(loss),
        samples,
    };
    Contents::Record(Record::Block(head.source.into(), block))
}

/// The spike in 16 bytes.
fn spike(bytes: &[u8]) -> RigSpike {
    RigSpike {
        tick: words(&bytes[..8], u64::from_le_bytes)[0],
        channel: words(&bytes[8..12], u32::from_le_bytes)[0],
        unit: bytes[12],
    }
}

/// The record of a frame that says all by itself; `None` if it does not make sense, or does not say all.
fn plain_record(head: &Head, body: &[u8]) -> Option<Record> {
    match head.kind {
        Kind::Decision => decision(head, body),
        Kind::Step => {
            let (status, rest) = body.split_first_chunk::<4>()?;
            let (end, values) = rest.split_first_chunk::<8>()?;
            Some(Record::Step {
                number: head.first,
                end: u64::from_le_bytes(*end),
                status: u32::from_le_bytes(*status),
                values: words(values, f32::from_le_bytes),
            })
        }
        Kind::Label | Kind::Mark | Kind::Trial => Some(Record::Note {
            step: head.first,
            content: note(head.kind, body)?,
        }),
        Kind::Checkpoint => match body.split_first() {
            Some((code @ (1 | 2), state)) => Some(Record::Checkpoint {
                resumed: *code == 2,
                state: state.to_vec(),
            }),
            _ => None,
        },
        Kind::Configuration => {
            let json = String::from_utf8(body.to_vec()).ok()?;
            Some(Record::Configuration(head.source.into(), json))
        }
        Kind::End => Some(Record::End),
        Kind::Unrecorded => Some(Record::Unrecorded(head.first)),
        Kind::Voltage
        | Kind::Features
        | Kind::Spikes
        | Kind::Epoch
        | Kind::Loss
        | Kind::Event
        | Kind::Line => None,
    }
}

/// A decision about the open step: no data, left out, a place in device time, another model, or the model before.
fn decision(head: &Head, body: &[u8]) -> Option<Record> {
    match body.split_first()? {
        (1, []) => Some(Record::Stale(head.first)),
        (2, rest) if rest.len() == 8 => Some(Record::Swap {
            step: head.first,
            fingerprint: words(rest, u64::from_le_bytes)[0],
        }),
        (3, []) => Some(Record::RollBack(head.first)),
        (5, rest) if rest.len() == 8 => Some(Record::SkipBehind {
            step: head.first,
            to: words(rest, u64::from_le_bytes)[0],
        }),
        (4, [begins @ (0 | 1), rest @ ..]) if rest.len() == 16 => {
            let at = Alignment {
                step: head.first,
                row: words(&rest[..8], u64::from_le_bytes)[0],
                rows_per_step: words(&rest[8..], f64::from_le_bytes)[0],
                begins: *begins == 1,
            };
            at.is_sane()
                .then_some(Record::Alignment(head.source.into(), at))
        }
        _ => None,
    }
}

/// A label, a mark, or a bound of a trial.
fn note(kind: Kind, body: &[u8]) -> Option<NoteContent> {
    match (kind, body) {
        (Kind::Label, body) => Some(NoteContent::Label(words(body, f32::from_le_bytes))),
        (Kind::Mark, body) => String::from_utf8(body.to_vec()).ok().map(NoteContent::Mark),
        (_, [1]) => Some(NoteContent::TrialBegin),
        (_, [2]) => Some(NoteContent::TrialEnd),
        (_, [3]) => Some(NoteContent::TrialReject),
        _ => None,
    }
}

fn words<T, const N: usize>(bytes: &[u8], word: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (words, _) = bytes.as_chunks::<N>();
    words.iter().map(|w| word(*w)).collect()
}
