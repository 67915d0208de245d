//! Frames: the binary messages to a page.
//!
//! A message is one or more frames, concatenated. Numbers are little-endian. A header of 32 bytes is followed by
//! sections. Every array begins at a multiple of 8, so that a page can read it in place.
//!
//! ```text
//!  0 u32 magic "BTZF"   4 u16 version 1   6 u16 kind
//!  8 u32 sequence      12 u32 channels   16 i64 first tick   24 u32 ticks   28 u32 sections
//! section: u16 id, u16 bytes per element, u32 elements, data, zeros to a multiple of 8
//! ```
//! A reader skips unknown sections and refuses another version. It refuses a frame that is cut short or inconsistent,
//! and says where. It allocates nothing by a size that it has not checked.

use betz_base::error::{Error, ErrorKind, Result};
use bytes::Bytes;

/// Magic number: the first four bytes.
pub const MAGIC: u32 = u32::from_le_bytes(*b"BTZF");
/// Version that this code writes and reads.
pub const VERSION: u16 = 1;
/// Length of the header in bytes.
pub const HEADER: usize = 32;
/// Largest number of ticks per frame. Offsets have 16 bits, and the last value means "the step before this frame".
pub const MAX_TICKS: u32 = 65_535;
/// Offset in [`Section::SLOW`] that means the step before the frame's first.
pub const STEP_BEFORE: u16 = 65_535;

/// Type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u16)]
pub enum Kind {
    /// Steps of a running session.
    Step = 1,
    /// An event: section [`Section::EVENT`].
    Event = 2,
    /// Positions of nodes during a layout.
    Layout = 3,
    /// Progress and results of a job.
    Job = 4,
    /// Steps again, from the history.
    Again = 5,
    /// Part of a network: counts or edges.
    Network = 8,
    /// Part of a self-organising map: heights, hits and units of its nodes, planes, or one node's weights.
    Map = 9,
    /// Weights of a model.
    Model = 10,
}

/// Number of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Section(pub u16);

impl Section {
    /// u16 per spike: offset from the first tick.
    pub const SPIKE_TICK: Self = Self(1);
    /// u16 per spike (u32 above 65,536 channels): its channel.
    pub const SPIKE_CHANNEL: Self = Self(2);
    /// f32 (rows, outputs): estimates.
    pub const ESTIMATE: Self = Self(3);
    /// f32 (rows, outputs): intended outputs; NaN if unknown. Absent if none are known.
    pub const TRUTH: Self = Self(4);
    /// u32 × 104: number of steps by latency since the frame before; see [`latency_bucket`].
    pub const LATENCY: Self = Self(5);
    /// u64: totals, in the order of [`Counters`].
    pub const COUNTERS: Self = Self(6);
    /// (u16 offset, u16 0, u32 ns) per step over the deadline; offset [`STEP_BEFORE`] means the step before the frame.
    pub const SLOW: Self = Self(7);
    /// u16 per row: offset of its tick. Absent if every tick has a row.
    pub const ROW_TICK: Self = Self(8);
    /// f32 per channel, sent once per second: spikes per second.
    pub const RATES: Self = Self(10);
    /// u16 rows, u16 columns, u16 ticks per column, u16 0, then u8 (columns, rows): counts in place of single spikes.
    pub const CELLS: Self = Self(11);
    /// UTF-8, JSON.
    pub const EVENT: Self = Self(12);
    /// u16 per trial that begins: offset of its first tick.
    pub const TRIALS: Self = Self(13);
    /// u32 per edge: its smaller node.
    pub const NODE_I: Self = Self(14);
    /// u32 per edge: its larger node.
    pub const NODE_J: Self = Self(15);
    /// f32 per edge: its value.
    pub const VALUE: Self = Self(16);
    /// f32 (nodes, 2): x and y of each node.
    pub const PLACE: Self = Self(17);
    /// u32 per node: identity of its community, 2³² − 1 if none is tracked.
    pub const COMMUNITY: Self = Self(18);
    /// u32 (windows, thresholds): number of edges of a window that reach a threshold.
    pub const COUNT: Self = Self(19);
    /// u32 per undefined node of the window.
    pub const UNDEFINED: Self = Self(20);
    /// f32 (rows, outputs): estimates of the second model during a swap; NaN if it did not run. Absent if none did.
    pub const BESIDE: Self = Self(21);
    /// f32 per spike: its position within its tick, 0 to 1. Absent if no finer time is known.
    pub const SPIKE_OFFSET: Self = Self(22);
    /// u32: first channel, end of the channels, rows, columns, ticks per column, then (columns, rows) numbers of spikes.
    pub const DENSITY: Self = Self(23);
    /// u32 per spike around an event: the event's place among those used.
    pub const EVENT_ROW: Self = Self(24);
    /// f32 per spike around an event: seconds after the event.
    pub const EVENT_SECONDS: Self = Self(25);
    /// f32 (rows, classes + 1): probabilities of the classes of a gate, then the factor of the gated outputs. The factor is NaN
    /// while the gate stands open. Absent for a model without a gate.
    pub const GATE: Self = Self(26);
    /// u32: the longest latency of those that [`LATENCY`](Self::LATENCY) counts, in nanoseconds; absent if it counts none.
    pub const LONGEST: Self = Self(27);
}

/// Totals of a session. Each frame has them all, so that a lost frame loses no count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Steps taken.
    pub steps: u64,
    /// Spikes taken.
    pub spikes: u64,
    /// Spikes of channels that the model does not have.
    pub unknown: u64,
    /// Spikes lost before the session.
    pub dropped: u64,
    /// Spikes that arrived after their tick.
    pub late: u64,
    /// Steps over the deadline.
    pub misses: u64,
    /// Number of times that a model took over.
    pub swaps: u64,
    /// Steps that never reached the page because the ring was full.
    pub steps_not_shown: u64,
}

impl Counters {
    /// Totals in the order in which they are written.
    pub fn words(&self) -> [u64; 8] {
        [
            self.steps,
            self.spikes,
            self.unknown,
            self.dropped,
            self.late,
            self.misses,
            self.swaps,
            self.steps_not_shown,
        ]
    }
}

/// Number of buckets of a latency histogram: up to 2³² ns, which is 4.3 s.
pub const BUCKETS: usize = 104;

/// Bucket of a latency: four per octave from 64 ns.
pub fn latency_bucket(nanoseconds: u32) -> usize {
    let ns = nanoseconds.max(64);
    let octave = 31 - ns.leading_zeros();
    // Quarters of an octave begin at 2^(1/4), 2^(1/2), 2^(3/4), here as 16-bit fractions above the octave's start.
    const QUARTERS: [u64; 3] = [77_936, 92_682, 110_218];
    let scaled = (u64::from(ns) << 16) >> octave;
    let quarter = QUARTERS.iter().filter(|&&q| scaled >= q).count();
    (((octave - 6) * 4) as usize + quarter).min(BUCKETS - 1)
}

/// Writer of one frame.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    sections: u32,
}

impl Writer {
    /// Begins a frame, with room for `room` bytes of sections.
    pub fn new(
        kind: Kind,
        sequence: u32,
        channels: u32,
        first: i64,
        ticks: u32,
        room: usize,
    ) -> Self {
        let mut bytes = Vec::with_capacity(HEADER + room);
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(kind as u16).to_le_bytes());
        bytes.extend_from_slice(&sequence.to_le_bytes());
        bytes.extend_from_slice(&channels.to_le_bytes());
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&ticks.to_le_bytes());
        bytes.extend_from_slice(&0u32.to_le_bytes());
        Self { bytes, sections: 0 }
    }

    fn begin(&mut self, id: Section, size: u16, elements: usize) {
        self.sections += 1;
        self.bytes.extend_from_slice(&id.0.to_le_bytes());
        self.bytes.extend_from_slice(&size.to_le_bytes());
        (self.bytes).extend_from_slice(&(elements as u32).to_le_bytes());
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// Adds a section of bytes.
    pub fn bytes(&mut self, id: Section, values: &[u8]) -> &mut Self {
        self.begin(id, 1, values.len());
        self.bytes.extend_from_slice(values);
        self.pad();
        self
    }

    /// Adds a section of u16.
    pub fn u16(&mut self, id: Section, values: &[u16]) -> &mut Self {
        self.begin(id, 2, values.len());
        values
            .iter()
            .for_each(|v| self.bytes.extend_from_slice(&v.to_le_bytes()));
        self.pad();
        self
    }

    /// Adds a section of u32.
    pub fn u32(&mut self, id: Section, values: &[u32]) -> &mut Self {
        self.begin(id, 4, values.len());
        values
            .iter()
            .for_each(|v| self.bytes.extend_from_slice(&v.to_le_bytes()));
        self.pad();
        self
    }

    /// Adds a section of f32.
    pub fn f32(&mut self, id: Section, values: &[f32]) -> &mut Self {
        self.begin(id, 4, values.len());
        values
            .iter()
            .for_each(|v| self.bytes.extend_from_slice(&v.to_le_bytes()));
        self.pad();
        self
    }

    /// Adds a section of u64.
    pub fn u64(&mut self, id: Section, values: &[u64]) -> &mut Self {
        self.begin(id, 8, values.len());
        values
            .iter()
            .for_each(|v| self.bytes.extend_from_slice(&v.to_le_bytes()));
        self
    }

    /// Adds the channels of spikes, in 16 bits each if all channels fit.
    pub fn spike_channels(&mut self, channels: u32, values: &[u32]) -> &mut Self {
        if channels > 65_536 {
            return self.u32(Section::SPIKE_CHANNEL, values);
        }
        self.begin(Section::SPIKE_CHANNEL, 2, values.len());
        (values.iter()).for_each(|&v| self.bytes.extend_from_slice(&(v as u16).to_le_bytes()));
        self.pad();
        self
    }

    /// Returns the finished frame, in no more memory than its length: the page's server keeps frames for a long time.
    pub fn finish(mut self) -> Bytes {
        self.bytes[28..32].copy_from_slice(&self.sections.to_le_bytes());
        Bytes::from(self.bytes.into_boxed_slice())
    }
}

/// A frame as read from bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// [`Kind`], as a number.
    pub kind: u16,
    /// Sequence number; counts up by one per frame.
    pub sequence: u32,
    /// Channels of the session.
    pub channels: u32,
    /// First tick.
    pub first: i64,
    /// Number of ticks.
    pub ticks: u32,
    /// Sections: id, bytes per element, data.
    pub sections: Vec<(Section, u16, &'a [u8])>,
}

impl<'a> Frame<'a> {
    /// Reads the frame at the start of `bytes`; returns it and the remaining bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if the bytes are not a frame, have another version, or are cut short.
    pub fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let head = bytes
            .get(..HEADER)
            .ok_or_else(|| cut(HEADER, bytes.len()))?;
        if u32_at(head, 0) != MAGIC {
            return Err(bad("expected a frame (BTZF), got other bytes".into()));
        }
        let version = u16_at(head, 4);
        if version != VERSION {
            return Err(bad(format!(
                "expected a frame of version {VERSION}, got {version}"
            )));
        }
        let mut frame = Self {
            kind: u16_at(head, 6),
            sequence: u32_at(head, 8),
            channels: u32_at(head, 12),
            first: u32_at(head, 16) as i64 | (u32_at(head, 20) as i64) << 32,
            ticks: u32_at(head, 24),
            sections: Vec::new(),
        };
        let mut at = HEADER;
        for _ in 0..u32_at(head, 28) {
            let head = (bytes.get(at..at + 8)).ok_or_else(|| cut(at + 8, bytes.len()))?;
            let (size, elements) = (u16_at(head, 2), u32_at(head, 4));
            // 65,535 × 4,294,967,295 fits 64 bits.
            let len = usize::try_from(u64::from(size) * u64::from(elements))
                .map_err(|_| cut(usize::MAX, bytes.len()))?;
            let begin = at + 8;
            let end = begin.saturating_add(len);
            let data = (bytes.get(begin..end)).ok_or_else(|| cut(end, bytes.len()))?;
            frame.sections.push((Section(u16_at(head, 0)), size, data));
            at = end.next_multiple_of(8);
            if at > bytes.len() {
                return Err(cut(at, bytes.len()));
            }
        }
        Ok((frame, &bytes[at..]))
    }

    /// Reads all frames of a message.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub fn read_all(mut bytes: &'a [u8]) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let (frame, rest) = Self::read(bytes)?;
            all.push(frame);
            bytes = rest;
        }
        Ok(all)
    }

    /// Data of a section whose elements have this size; empty if there is none.
    pub fn section(&self, id: Section, size: u16) -> &'a [u8] {
        let found = self.sections.iter().find(|s| s.0 == id && s.1 == size);
        found.map_or(&[], |s| s.2)
    }

    /// Elements of a section of u16.
    pub fn u16(&self, id: Section) -> impl Iterator<Item = u16> + use<'a> {
        self.section(id, 2).chunks_exact(2).map(|c| u16_at(c, 0))
    }

    /// Elements of a section of u32.
    pub fn u32(&self, id: Section) -> impl Iterator<Item = u32> + use<'a> {
        self.section(id, 4).chunks_exact(4).map(|c| u32_at(c, 0))
    }

    /// Elements of a section of f32.
    pub fn f32(&self, id: Section) -> impl Iterator<Item = f32> + use<'a> {
        self.u32(id).map(f32::from_bits)
    }

    /// Elements of a section of u64.
    pub fn u64(&self, id: Section) -> impl Iterator<Item = u64> + use<'a> {
        let words = self.section(id, 8).chunks_exact(8);
        words.map(|c| u64::from(u32_at(c, 0)) | u64::from(u32_at(c, 4)) << 32)
    }

    /// Channels of the spikes, in either size.
    pub fn spike_channels(&self) -> Vec<u32> {
        let narrow = self.u16(Section::SPIKE_CHANNEL).map(u32::from);
        narrow.chain(self.u32(Section::SPIKE_CHANNEL)).collect()
    }
}

/// Concatenates stored frames, each with its kind changed to [`Kind::Again`].
pub fn again(frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    if let Some(kind) = bytes.get_mut(6..8) {
        kind.copy_from_slice(&(Kind::Again as u16).to_le_bytes());
    }
    bytes
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn bad(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn cut(needed: usize, len: usize) -> Error {
    bad(format!(
        "a frame is cut short: expected {needed} bytes, got {len}"
    ))
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
