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
use betz_base::frame::Content;
use betz_base::team::Shard;
use betz_base::wire::{Reader, Writer};

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
        let mut to = Writer::framed();
        let whole = &self.whole;
        to.u32(self.shard.number() as u32);
        to.u32(self.shard.of() as u32);
        to.u64(whole.recording);
        to.f64(whole.tick_seconds);
        to.i64(whole.ticks);
        to.u64(whole.segments);
        to.i64(self.ticks.0);
        to.i64(self.ticks.1);
        to.u64(self.events);
        to.u32(whole.labels.len() as u32);
        whole.labels.iter().for_each(|label| to.text(label));
        to.u64(whole.patterns.len() as u64);
        for pattern in &whole.patterns {
            to.u32(pattern.size() as u32);
            pattern.symbols().iter().for_each(|symbol| to.u32(*symbol));
            for edge in pattern.intervals() {
                to.i64(edge.low);
                to.i64(edge.high);
            }
        }
        for passage in &self.passages {
            to.u32(passage.steps().len() as u32);
            for step in passage.steps() {
                to.i64(step.from);
                to.u64(step.count);
                to.i64(step.last_end);
            }
        }
        to.seal(CONTENT, VERSION)
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

fn read(from: &mut Reader<'_>) -> Result<CountPart> {
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

fn read_labels(from: &mut Reader<'_>) -> Result<Vec<String>> {
    let count = u64::from(from.u32()?);
    let count = from.room(count, 4, "labels")?;
    (0..count).map(|_| from.text()).collect()
}

fn read_patterns(from: &mut Reader<'_>, symbols: usize) -> Result<Vec<Pattern>> {
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
            let named = from.u32_list(size as u64)?;
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
