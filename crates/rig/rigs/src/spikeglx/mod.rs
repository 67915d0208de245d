//! Voltage from SpikeGLX, by its command server (TCP, port 4142 unless changed).
//!
//! A request is a line; a reply is lines, then `OK`, or `ERROR` and a reason. A loop of `FETCH` asks for the rows
//! after those that came. A row of a probe is its channels of action potentials alone. Losses are exact: the server
//! states the number of the first row of each reply. A reader that falls behind the server's memory goes on at the
//! newest row.
//!
//! Digital lines are the bits of the words at the end of a row: SYNC of a probe, up to four words of a NI device.
//!
//! Emulated from public sources (SpikeGLX, SpikeGLX-CPP-SDK), not tried on hardware.

#[cfg(feature = "emulate")]
pub(crate) mod emulate;
#[cfg(all(test, feature = "emulate"))]
mod tests;

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use betz_base::{Error, Result};

use crate::order::rows::RowOrder;
use crate::rig::tcp::{Attempts, Connection};
use crate::rig::{
    Arrival, Block, LineEdge, LineEdges, Loss, MOST_LINES, Probe, Rig, RigCounts, Samples, Signal,
    append_words, host_ns,
};

/// Time that a reply may take.
const REPLY: Duration = Duration::from_secs(2);
/// Longest line of a reply.
const LONGEST_LINE: usize = 1 << 12;
/// Rows of a request at most, in seconds.
const FETCH_SECONDS: f64 = 0.01;
/// Least time between two requests, unless a reply was full: the server answers with whatever it has.
const INTERVAL: Duration = Duration::from_millis(1);
/// Time after which an empty reply makes the rig ask how many rows there are.
const SILENCE: Duration = Duration::from_millis(200);
/// Time between two questions for the clock.
const PROBE: Duration = Duration::from_millis(250);
/// Pause after an empty reply.
const PAUSE: Duration = Duration::from_micros(500);
/// Lines of a word.
const WORD_LINES: usize = 16;

/// Stream of a SpikeGLX run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpikeGlxStream {
    /// 0: NI device, 1: OneBox, 2: probe of imec, −2: the same, filtered by SpikeGLX.
    pub kind: i32,
    /// Number of the device among those of its kind.
    pub index: u32,
}

/// Source of voltage of a SpikeGLX run. It waits for the server and for the run.
pub struct SpikeGlxRig {
    place: SocketAddr,
    stream: SpikeGlxStream,
    channels: Option<usize>,
    microvolts: Option<f64>,
    connection: Option<Connection>,
    attempts: Attempts,
    signal: Option<Signal>,
    /// Channels to ask for, as SpikeGLX writes them.
    subset: String,
    /// Number of the next row to ask for; none while there is no run.
    next: Option<u64>,
    /// True if the words of digital lines are heard, too.
    hears_lines: bool,
    /// Columns of a reply's row that are those words.
    words: Range<usize>,
    /// Changes of the lines.
    edges: LineEdges,
    /// A request was sent, at that time.
    asked: Option<Instant>,
    /// Time of the newest request, and true if its reply had as many rows as were asked for.
    requested: Instant,
    is_behind: bool,
    /// Time of the newest rows.
    heard: Instant,
    order: RowOrder,
    probe: Option<Probe>,
    probed: Instant,
    counts: RigCounts,
}

/// Reply to a `FETCH`.
enum Reply {
    Incomplete,
    /// First row, rows, and the bytes before them and with them.
    Rows {
        first: u64,
        rows: usize,
        head: usize,
        end: usize,
    },
    /// The rows are no longer there.
    TooLate(usize),
    Refused(usize),
    Malformed,
}

impl SpikeGlxRig {
    /// The stream of the server at `place`, `HOST:PORT`. `channels` are the first channels of a row, or all.
    ///
    /// # Errors
    /// `InvalidArgument` if `place` cannot be parsed.
    pub fn new(place: &str, stream: SpikeGlxStream, channels: Option<usize>) -> Result<Self> {
        Ok(Self {
            place: crate::bus::resolve(place)?,
            stream,
            channels,
            microvolts: None,
            connection: None,
            attempts: Attempts::default(),
            signal: None,
            subset: String::new(),
            next: None,
            hears_lines: false,
            words: 0..0,
            edges: LineEdges::default(),
            asked: None,
            requested: Instant::now(),
            is_behind: false,
            heard: Instant::now(),
            order: RowOrder::new(u64::MAX),
            probe: None,
            probed: Instant::now(),
            counts: RigCounts::default(),
        })
    }

    /// Sets the microvolts per bit, instead of those that the server states.
    pub fn with_microvolts(mut self, microvolts: Option<f64>) -> Self {
        self.microvolts = microvolts;
        self
    }

    /// Also hears the digital lines. Those of a probe or a OneBox are the bits of SYNC (its pulses are bit 6, line 7). Those of a
    /// NI device are the bits of its words in their order, 16 each: line 17 is bit 0 of the second word. A device that has
    /// nothing but words gives them as its channels.
    pub fn with_lines(mut self) -> Self {
        self.hears_lines = true;
        self
    }

    /// Sends a request and waits for its one line; `Ok(None)` if the server refuses, with the reason in `refusal`.
    fn ask(&mut self, request: &str, refusal: &mut String) -> std::io::Result<Option<String>> {
        let Some(connection) = &mut self.connection else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        connection.write(format!("{request}\n").as_bytes())?;
        let started = Instant::now();
        let mut answer = None;
        loop {
            while let Some(line) = take_line(connection) {
                if line == "OK" {
                    return Ok(answer.or(Some(String::new())));
                }
                if line.starts_with("ERROR") {
                    *refusal = line;
                    return Ok(None);
                }
                answer.get_or_insert(line);
            }
            if connection.bytes().len() > LONGEST_LINE {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            if started.elapsed() > REPLY {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            connection.read_more(REPLY)?;
        }
    }

    /// As [`ask`](Self::ask), with a number as the answer.
    fn ask_number(&mut self, request: &str, refusal: &mut String) -> std::io::Result<Option<f64>> {
        let of = self.stream;
        let answer = self.ask(&format!("{request} {} {}", of.kind, of.index), refusal)?;
        Ok(answer.and_then(|text| text.split_whitespace().next()?.parse().ok()))
    }

    /// Asks for the facts of the stream. The inner error is the server's reason; it is empty if the answers are none.
    fn learn(&mut self) -> std::io::Result<std::result::Result<(), String>> {
        let mut refusal = String::new();
        let of = self.stream;
        let rate = self.ask_number("GETSTREAMSAMPLERATE", &mut refusal)?;
        let Some(rate) = rate.filter(|r| r.is_finite() && *r > 0.0) else {
            return Ok(Err(refusal));
        };
        let counts = self.ask(
            &format!("GETSTREAMACQCHANS {} {}", of.kind, of.index),
            &mut refusal,
        )?;
        let Some(counts) = counts else {
            return Ok(Err(refusal));
        };
        // Probes: action potentials, local field potentials, sync. Other devices: kinds of their own, all of them one
        // after the other in a row.
        let kinds: Vec<usize> = counts
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter_map(|n| n.parse::<u16>().ok())
            .map(usize::from)
            .collect();
        let (whole, words) = (
            kinds.iter().sum::<usize>(),
            kinds.last().copied().unwrap_or(0),
        );
        if self.hears_lines && words == 0 {
            return Ok(Err(format!(
                "digital lines asked for (sync=1), of which the stream has none (\"{counts}\")"
            )));
        }
        let all = match (of.kind.abs(), kinds.first()) {
            (2, Some(first)) => *first,
            _ if self.hears_lines && whole > words => whole - words,
            _ => whole,
        };
        let channels = self.channels.unwrap_or(all);
        if !(1..=all).contains(&channels) {
            return Ok(Err(format!(
                "{channels} channels asked for, of {all} (\"{counts}\")"
            )));
        }
        let volts = self.ask(
            &format!("GETSTREAMI16TOVOLTS {} {} 0", of.kind, of.index),
            &mut refusal,
        )?;
        let volts = volts.and_then(|text| text.trim().parse::<f64>().ok());
        let stated = volts.filter(|v| v.is_finite() && *v > 0.0).map(|v| v * 1e6);
        let signal = Signal {
            channels,
            rate,
            microvolts: self.microvolts.or(stated),
            clock_bits: 64,
        };
        if self.signal.as_ref() != Some(&signal) {
            if self.signal.is_some() {
                self.order.restart(&mut self.counts);
                self.next = None;
            }
            self.order.set_rate(rate);
            let heard = match self.hears_lines {
                true => words.min(usize::from(MOST_LINES) / WORD_LINES),
                false => 0,
            };
            // Words that are channels already are not asked for again.
            let before = whole - words;
            let behind = channels.max(before)..before + heard;
            let at = channels.min(before);
            self.words = at..at + heard;
            self.subset = (0..channels)
                .chain(behind)
                .map(|c| format!("{c}#"))
                .collect();
            self.signal = Some(signal);
        }
        Ok(Ok(()))
    }

    /// Asks how many rows there are since the run began, which also tells of the clock; `None` without a run.
    fn count(&mut self) -> std::io::Result<Option<u64>> {
        let before = host_ns();
        let count = self.ask_number("GETSTREAMSAMPLECOUNT", &mut String::new())?;
        let count = count.filter(|c| *c >= 1.0).map(|c| c as u64);
        self.probed = Instant::now();
        if let Some(device) = count {
            self.probe = Some(Probe {
                asked_ns: before,
                device,
                answered_ns: host_ns(),
            });
        }
        Ok(count)
    }

    /// Connects, if it is time, and asks for the facts. True if there is a connection.
    fn connect(&mut self, patience: Duration) -> Result<bool> {
        if !self.attempts.is_due(patience) {
            return Ok(false);
        }
        let Ok(connection) = Connection::open(self.place, REPLY) else {
            return Ok(false);
        };
        self.connection = Some(connection);
        self.asked = None;
        match self.learn() {
            Ok(Ok(())) => {
                self.counts.reconnects += self.attempts.succeed();
                Ok(true)
            }
            Ok(Err(reason)) if reason.is_empty() => {
                self.lose(&std::io::ErrorKind::InvalidData.into());
                Ok(false)
            }
            Ok(Err(reason)) => {
                self.connection = None;
                Err(Error::argument(format!(
                    "spikeglx://{}: expected a stream js={}&ip={}, the server says: {reason}",
                    self.place, self.stream.kind, self.stream.index
                )))
            }
            Err(e) => {
                self.lose(&e);
                Ok(false)
            }
        }
    }

    /// Gives the connection up.
    fn lose(&mut self, error: &std::io::Error) {
        let damaged = error.kind() == std::io::ErrorKind::InvalidData;
        self.counts.malformed += u64::from(damaged);
        self.connection = None;
        self.asked = None;
    }

    /// Finds where to begin, or where to go on after silence. False if there is no run.
    fn find_begin(&mut self, patience: Duration) -> std::io::Result<bool> {
        let Some(count) = self.count()? else {
            if self.next.take().is_some() {
                self.order.restart(&mut self.counts);
            }
            std::thread::sleep(patience.min(SILENCE / 4));
            return Ok(false);
        };
        self.heard = Instant::now();
        match self.next {
            Some(next) if count >= next => {}
            Some(_) => {
                // Another run has begun.
                self.order.restart(&mut self.counts);
                self.next = Some(count);
            }
            None => self.next = Some(count),
        }
        Ok(true)
    }

    /// Asks for the next rows; false if it is not time to, or there is no run.
    fn request(&mut self, patience: Duration) -> std::io::Result<bool> {
        if self.next.is_none() || self.heard.elapsed() > SILENCE {
            return self.find_begin(patience).map(|_| false);
        }
        let early = INTERVAL.saturating_sub(self.requested.elapsed());
        if !self.is_behind && !early.is_zero() {
            std::thread::sleep(early.min(patience));
            return Ok(false);
        }
        if self.probed.elapsed() > PROBE {
            self.count()?;
        }
        let (Some(next), Some(connection)) = (self.next, &mut self.connection) else {
            return Ok(false);
        };
        let (of, subset) = (self.stream, &self.subset);
        let most = most_rows(self.signal.as_ref());
        let request = format!("FETCH {} {} {next} {most} {subset} 1\n", of.kind, of.index);
        connection.write(request.as_bytes())?;
        self.requested = Instant::now();
        self.asked = Some(self.requested);
        Ok(true)
    }

    /// One step of the loop of requests; true if `block` was filled.
    fn step(&mut self, block: &mut Block, patience: Duration) -> std::io::Result<bool> {
        if self.asked.is_none() && !self.request(patience)? {
            return Ok(false);
        }
        let reply = self.fetched();
        let Some(connection) = &mut self.connection else {
            return Ok(false);
        };
        match reply {
            Reply::Incomplete => {
                if self.asked.is_some_and(|t| t.elapsed() > REPLY) {
                    return Err(std::io::ErrorKind::TimedOut.into());
                }
                connection.read_more(patience)?;
                Ok(false)
            }
            Reply::Malformed => Err(std::io::ErrorKind::InvalidData.into()),
            Reply::Refused(length) => {
                connection.consume(length);
                self.asked = None;
                // The run may have ended; what comes next is found anew.
                self.find_begin(patience)?;
                Ok(false)
            }
            Reply::TooLate(length) => {
                connection.consume(length);
                self.asked = None;
                if let Some(count) = self.count()? {
                    self.next = Some(count);
                }
                Ok(false)
            }
            Reply::Rows { rows: 0, end, .. } => {
                connection.consume(end);
                self.asked = None;
                std::thread::sleep(PAUSE.min(patience));
                Ok(false)
            }
            Reply::Rows {
                first,
                rows,
                head,
                end,
            } => {
                self.asked = None;
                self.heard = Instant::now();
                self.is_behind = rows == most_rows(self.signal.as_ref());
                let filled = self.give(block, first, rows, head..head + 2 * rows * self.row());
                if let Some(connection) = &mut self.connection {
                    connection.consume(end);
                }
                Ok(filled)
            }
        }
    }

    /// Values of a row of a reply.
    fn row(&self) -> usize {
        let channels = self.signal.as_ref().map_or(1, |s| s.channels);
        channels.max(self.words.end)
    }

    /// Fills `block` with rows of the reply.
    fn give(
        &mut self,
        block: &mut Block,
        first: u64,
        rows: usize,
        at: std::ops::Range<usize>,
    ) -> bool {
        let lost = self.order.judge(first, rows as u64, &mut self.counts);
        self.next = Some(first.saturating_add(rows as u64));
        let (Some(lost), Some(connection)) = (lost, &self.connection) else {
            return false;
        };
        let mut voltage = block.take_voltage();
        let bytes = &connection.bytes()[at];
        match self.words.is_empty() {
            true => append_words(&mut voltage, bytes),
            false => {
                let channels = self.signal.as_ref().map_or(0, |s| s.channels);
                let columns = 2 * self.words.start..2 * self.words.end;
                for (row, bytes) in bytes.chunks_exact(2 * self.row()).enumerate() {
                    append_words(&mut voltage, &bytes[..2 * channels]);
                    let words = bytes[columns.clone()].chunks_exact(2).rev();
                    let state = words.fold(0, |state, word| {
                        state << WORD_LINES | u64::from(u16::from_le_bytes([word[0], word[1]]))
                    });
                    (self.edges).take_state(self.order.epoch, first + row as u64, state, 0);
                }
            }
        }
        *block = Block {
            epoch: self.order.epoch,
            first,
            rows,
            host_ns: host_ns(),
            lost_before: Loss {
                count: lost,
                at_least: false,
            },
            samples: Samples::Voltage(voltage),
        };
        self.counts.blocks += 1;
        self.counts.rows += rows as u64;
        true
    }

    /// The reply to a `FETCH` in the bytes that came.
    fn fetched(&self) -> Reply {
        let Some(connection) = &self.connection else {
            return Reply::Incomplete;
        };
        let bytes = connection.bytes();
        let Some(length) = bytes.iter().take(LONGEST_LINE).position(|b| *b == b'\n') else {
            return match bytes.len() < LONGEST_LINE {
                true => Reply::Incomplete,
                false => Reply::Malformed,
            };
        };
        let line = String::from_utf8_lossy(&bytes[..length]);
        if line.starts_with("ERROR") {
            return match line.contains("Too late") {
                true => Reply::TooLate(length + 1),
                false => Reply::Refused(length + 1),
            };
        }
        let mut words = line.split_whitespace();
        let mut number = || words.next()?.parse::<usize>().ok();
        let (tag, channels, rows) = (
            line.split(' ').next(),
            {
                number();
                number()
            },
            number(),
        );
        let first = words.next().and_then(|w| {
            w.strip_prefix("uint64(")?
                .strip_suffix(')')?
                .parse::<u64>()
                .ok()
        });
        let (Some("BINARY_DATA"), Some(channels), Some(rows), Some(first)) =
            (tag, channels, rows, first)
        else {
            return Reply::Malformed;
        };
        let most = most_rows(self.signal.as_ref());
        if channels != self.row() || rows > most {
            return Reply::Malformed;
        }
        let head = length + 1;
        let end = head + 2 * channels * rows;
        match bytes.get(end..end + 3) {
            Some(b"OK\n") => Reply::Rows {
                first,
                rows,
                head,
                end: end + 3,
            },
            Some(_) => Reply::Malformed,
            None => Reply::Incomplete,
        }
    }
}

/// Rows of a request at most.
fn most_rows(signal: Option<&Signal>) -> usize {
    signal.map_or(1.0, |s| (s.rate * FETCH_SECONDS).max(1.0)) as usize
}

/// The next whole line, without its end.
fn take_line(connection: &mut Connection) -> Option<String> {
    let bytes = connection.bytes();
    let length = bytes.iter().position(|b| *b == b'\n')?;
    let line = String::from_utf8_lossy(&bytes[..length])
        .trim_end()
        .to_string();
    connection.consume(length + 1);
    Some(line)
}

impl Rig for SpikeGlxRig {
    fn signal(&self) -> Option<Signal> {
        self.signal.clone()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let started = Instant::now();
        loop {
            let left = patience.saturating_sub(started.elapsed());
            if self.connection.is_some() || self.connect(left)? {
                match self.step(block, left) {
                    Ok(true) => return Ok(Arrival::Block),
                    Ok(false) => {}
                    Err(e) => self.lose(&e),
                }
            }
            if started.elapsed() >= patience {
                return Ok(Arrival::Nothing);
            }
        }
    }

    fn probe(&mut self) -> Option<Probe> {
        self.probe.take()
    }

    fn take_edges(&mut self, edges: &mut Vec<LineEdge>) {
        edges.append(&mut self.edges.waiting);
    }

    fn counts(&self) -> RigCounts {
        self.counts
    }
}
