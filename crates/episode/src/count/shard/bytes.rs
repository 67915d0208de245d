//! Counts of a shard as a file: a [frame](betz_base::frame) with its checksum around, all numbers little-endian:
//!
//! ```text
//! shard, shards u32; recording u64, tick seconds f64, ticks of the recording i64, segments u64
//! first tick i64, tick after the last i64, events u64
//! labels: count u32; length u32, UTF-8 each
//! episodes: count u64; each: symbols u32, then u32 each; (low, high] i64 twice an edge
//! of each: steps u32; from i64, count u64, last end i64 each
//! ```

use std::io::Write;
use std::path::Path;

use betz_base::error::{ErrorKind, Result};
use betz_base::file::{read_all, write_atomically};
use betz_base::frame::{self, Content, Fields};
use betz_base::team::Shard;

use super::part::{CountPart, Whole};
use crate::clock::Clock;
use crate::count::passage::{Passage, Step};
use crate::pattern::{Interval, MAX_SYMBOLS, Pattern};

/// The first bytes of a file of counts.
pub const PART_MAGIC: [u8; 8] = *b"BETZCNTP";

pub(super) const CONTENT: Content = Content {
    magic: PART_MAGIC,
    name: "a shard of counts",
    damaged: ErrorKind::InvalidRecording,
};

pub(super) const VERSION: u32 = 1;

impl CountPart {
    /// The bytes of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = vec![0; frame::HEADER];
        let mut put = |bytes: &[u8]| to.extend_from_slice(bytes);
        let whole = &self.whole;
        put(&(self.shard.number() as u32).to_le_bytes());
        put(&(self.shard.of() as u32).to_le_bytes());
        put(&whole.recording.to_le_bytes());
        put(&whole.tick_seconds.to_le_bytes());
        put(&whole.ticks.to_le_bytes());
        put(&whole.segments.to_le_bytes());
        put(&self.ticks.0.to_le_bytes());
        put(&self.ticks.1.to_le_bytes());
        put(&self.events.to_le_bytes());
        put(&(whole.labels.len() as u32).to_le_bytes());
        for label in &whole.labels {
            put(&(label.len() as u32).to_le_bytes());
            put(label.as_bytes());
        }
        put(&(whole.patterns.len() as u64).to_le_bytes());
        for pattern in &whole.patterns {
            put(&(pattern.size() as u32).to_le_bytes());
            for symbol in pattern.symbols() {
                put(&symbol.to_le_bytes());
            }
            for edge in pattern.intervals() {
                put(&edge.low.to_le_bytes());
                put(&edge.high.to_le_bytes());
            }
        }
        for passage in &self.passages {
            put(&(passage.steps().len() as u32).to_le_bytes());
            for step in passage.steps() {
                put(&step.from.to_le_bytes());
                put(&step.count.to_le_bytes());
                put(&step.last_end.to_le_bytes());
            }
        }
        to.extend_from_slice(&[0; frame::OVERHEAD - frame::HEADER]);
        frame::seal(CONTENT, VERSION, &mut to);
        to
    }

    /// The counts in `bytes`. Takes no memory out of proportion to them.
    ///
    /// # Errors
    /// `InvalidRecording` for bytes that are none, are damaged or cut short, or hold what no counts can;
    /// `UnsupportedVersion`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (_, mut from) = CONTENT.read(bytes, VERSION..=VERSION)?;
        read(&mut from)
    }

    /// Writes the file `path`: complete, or not at all.
    ///
    /// # Errors
    /// `Io`.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes();
        write_atomically(path, |file| file.write_all(&bytes))
    }

    /// Reads the file `path`.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes), and `Io`; messages begin with the path.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = read_all(path, Some(&PART_MAGIC))?;
        let mut part = Self::from_bytes(&bytes).map_err(|e| e.at(path.display()))?;
        part.name = path.display().to_string();
        Ok(part)
    }
}

fn read(from: &mut Fields<'_>) -> Result<CountPart> {
    let (number, of) = (from.u32()? as usize, from.u32()? as usize);
    let shard = Shard::new(number, of).map_err(|e| CONTENT.error(e.message()))?;
    let recording = from.u64()?;
    let tick_seconds = from.f64()?;
    Clock::from_tick_seconds(tick_seconds).map_err(|e| CONTENT.error(e.message()))?;
    let (all, segments) = (from.i64()?, from.u64()?);
    let ticks = (from.i64()?, from.i64()?);
    if !(0 <= ticks.0 && ticks.0 <= ticks.1 && ticks.1 <= all) {
        return Err(CONTENT.error(format_args!(
            "expected ticks within 0 to {all}, got {} to {}",
            ticks.0, ticks.1
        )));
    }
    let events = from.u64()?;
    let labels = read_labels(from)?;
    let patterns = read_patterns(from, labels.len())?;
    let mut passages = Vec::with_capacity(patterns.len().min(from.rest().len() / 28));
    for _ in 0..patterns.len() {
        let count = u64::from(from.u32()?);
        let count = from.room(count, 24, "steps")?;
        let steps = (0..count).map(|_| {
            Ok(Step {
                from: from.i64()?,
                count: from.u64()?,
                last_end: from.i64()?,
            })
        });
        let steps = steps.collect::<Result<Vec<Step>>>()?;
        if let Some(step) = steps.iter().find(|step| step.count > events) {
            return Err(CONTENT.error(format_args!(
                "expected counts of at most {events}, the events, got {}",
                step.count
            )));
        }
        passages.push(
            Passage::from_steps(steps)
                .ok_or_else(|| CONTENT.error("expected steps that ascend, got others"))?,
        );
    }
    from.end()?;
    Ok(CountPart {
        name: format!("shard {shard}"),
        shard,
        whole: Whole {
            recording,
            tick_seconds,
            ticks: all,
            segments,
            labels,
            patterns,
        },
        ticks,
        events,
        passages,
    })
}

fn read_labels(from: &mut Fields<'_>) -> Result<Vec<String>> {
    let count = u64::from(from.u32()?);
    let count = from.room(count, 4, "labels")?;
    (0..count).map(|_| from.text()).collect()
}

fn read_patterns(from: &mut Fields<'_>, symbols: usize) -> Result<Vec<Pattern>> {
    let count = from.u64()?;
    let count = from.room(count, 8, "episodes")?;
    (0..count)
        .map(|_| {
            let size = from.u32()? as usize;
            if size == 0 || size > MAX_SYMBOLS {
                return Err(CONTENT.error(format_args!(
                    "expected episodes of 1 to {MAX_SYMBOLS} symbols, got {size}"
                )));
            }
            let named = (0..size)
                .map(|_| from.u32())
                .collect::<Result<Vec<u32>>>()?;
            if let Some(symbol) = named.iter().find(|symbol| **symbol as usize >= symbols) {
                return Err(CONTENT.error(format_args!(
                    "expected symbols below {symbols}, got {symbol}"
                )));
            }
            let edges = (1..size).map(|_| Interval::new(from.i64()?, from.i64()?));
            let edges = edges
                .collect::<Result<Vec<_>>>()
                .map_err(|e| CONTENT.error(e.message()))?;
            Pattern::new(named, edges).map_err(|e| CONTENT.error(e.message()))
        })
        .collect()
}
