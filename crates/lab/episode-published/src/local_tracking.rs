//! The papers' parallel local tracking: one thread per occurrence, symbol by symbol; then interval
//! scheduling.
//!
//! Feng et al., §1.3.1, Algorithms 3 and 2; Patnaik et al., §IV. Every partial occurrence looks up
//! the events that can continue it; the finds of all are compacted into one list, which the next
//! symbol starts from. Three ways to compact:
//!
//! - *atomic*: blocks of entries reserve room in the output by an atomic addition. Order is lost, so
//!   the occurrences are sorted at the end. Tracks forward, carrying the start;
//! - *flags*: every entry owns a fixed portion of a large array, from which the filled places are
//!   then picked. Tracks backward from the last symbol, carrying the end: order by end is kept;
//! - *count-scan-write*: every entry first only counts its finds; an exclusive scan of the counts
//!   gives it its place to write; it looks its finds up again and writes. Backward as well.
//!
//! Mended:
//! - the scheduling pass starts from "nothing taken", not from time 0, which would drop an
//!   occurrence that starts at 0;
//! - portions and output are made as large as the finds need; the published fixed sizes lose what
//!   does not fit, unnoticed;
//! - all occurrences of a long episode in a burst are exponentially many. Once a list is longer than
//!   its symbol's list of events, it holds events twice, and of those that share the event only the
//!   latest start (forward) or the earliest end (backward) can matter: the others are dropped.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rayon::prelude::*;

use betz_base::error::Result;
use betz_base::progress;
use betz_episode::count::{CountJob, PatternProgress, Strategy};
use betz_episode::{Events, Interval, Pattern};

/// Entries that one task handles: a thread block of the papers.
const BLOCK: usize = 4096;
/// Places that one round of the flag compaction may fill at once.
const PORTIONS: usize = 1 << 22;

/// The way in which the finds of all entries become one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compaction {
    /// *CountScanWrite*.
    #[default]
    CountScanWrite,
    /// *AtomicCompact*.
    Atomic,
    /// *CudppCompact*: fixed portions and flags.
    Flags,
}

impl Compaction {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::CountScanWrite, Self::Atomic, Self::Flags];
}

/// One thread per occurrence; a compaction after every symbol.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalTracking {
    /// Method of compacting what was found.
    pub compaction: Compaction,
}

impl Strategy for LocalTracking {
    fn name(&self) -> &'static str {
        match self.compaction {
            Compaction::CountScanWrite => "local-tracking",
            Compaction::Atomic => "local-tracking-atomic",
            Compaction::Flags => "local-tracking-flags",
        }
    }

    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        job.check()?;
        let done = PatternProgress::new("counting", job);
        let one = |pattern: &Pattern| {
            progress::check(job.progress, "counting")?;
            let count = match self.compaction {
                Compaction::Atomic => track_forward(job.events, pattern),
                Compaction::CountScanWrite => track_backward(job.events, pattern, compact_by_scan),
                Compaction::Flags => track_backward(job.events, pattern, compact_by_flags),
            };
            done.add(1);
            Ok(count)
        };
        // Few episodes: the threads are within each one, as published. Many: across them as well.
        if job.patterns.len() < rayon::current_num_threads() * 4 {
            job.patterns.iter().map(one).collect()
        } else {
            job.patterns.par_iter().map(one).collect()
        }
    }
}

/// A partial occurrence: the event it has reached, as an index in its symbol's list, and the tick at
/// its other, fixed end.
type Entry = (u32, i64);

/// The events of the next symbol that an entry can go on to, as a range of its list.
struct Step<'a> {
    from: &'a [i64],
    to: &'a [i64],
    /// Finds have a tick in (tick + after, tick + until].
    after: i64,
    until: i64,
}

impl<'a> Step<'a> {
    fn forward(from: &'a [i64], to: &'a [i64], interval: Interval) -> Self {
        Self {
            from,
            to,
            after: interval.low,
            until: interval.high,
        }
    }

    fn backward(from: &'a [i64], to: &'a [i64], interval: Interval) -> Self {
        Self {
            from,
            to,
            after: -interval.high - 1,
            until: -interval.low - 1,
        }
    }

    fn finds(&self, entry: Entry) -> std::ops::Range<u32> {
        let tick = self.from[entry.0 as usize];
        let first = self.to.partition_point(|&t| t <= tick + self.after);
        let found = self.to[first..]
            .iter()
            .take_while(|&&t| t <= tick + self.until)
            .count();
        first as u32..(first + found) as u32
    }
}

/// Forward from the first symbol, with the atomic compaction; then the sort.
fn track_forward(events: &Events, pattern: &Pattern) -> u64 {
    let symbols = pattern.symbols();
    let mut from = events.ticks_of(symbols[0]);
    let mut entries: Vec<Entry> = from
        .iter()
        .enumerate()
        .map(|(i, &t)| (i as u32, t))
        .collect();
    for (&symbol, &interval) in symbols[1..].iter().zip(pattern.intervals()) {
        let to = events.ticks_of(symbol);
        entries = compact_by_atomics(&entries, &Step::forward(from, to, interval));
        if entries.len() > to.len() {
            entries.par_sort_unstable();
            // Of equal events the last has the latest start.
            let mut kept = 0;
            for i in 0..entries.len() {
                if entries.get(i + 1).is_none_or(|next| next.0 != entries[i].0) {
                    entries[kept] = entries[i];
                    kept += 1;
                }
            }
            entries.truncate(kept);
        }
        from = to;
    }
    entries.par_sort_unstable();
    schedule(
        entries
            .iter()
            .map(|&(at, start)| (from[at as usize], start)),
    )
}

/// Backward from the last symbol: entries stay in the order of their ends.
fn track_backward(
    events: &Events,
    pattern: &Pattern,
    compact: impl Fn(&[Entry], &Step<'_>) -> Vec<Entry>,
) -> u64 {
    let symbols = pattern.symbols();
    let mut from = events.ticks_of(symbols[symbols.len() - 1]);
    let mut entries: Vec<Entry> = from
        .iter()
        .enumerate()
        .map(|(i, &t)| (i as u32, t))
        .collect();
    for (&symbol, &interval) in symbols.iter().zip(pattern.intervals()).rev() {
        let to = events.ticks_of(symbol);
        entries = compact(&entries, &Step::backward(from, to, interval));
        if entries.len() > to.len() {
            // Entries come by end: of equal events the first has the earliest.
            let mut seen = vec![false; to.len()];
            entries.retain(|&(at, _)| !std::mem::replace(&mut seen[at as usize], true));
        }
        from = to;
    }
    schedule(entries.iter().map(|&(at, end)| (end, from[at as usize])))
}

/// Interval scheduling: occurrences as (end, start), by end.
fn schedule(occurrences: impl Iterator<Item = (i64, i64)>) -> u64 {
    let (mut count, mut last_end) = (0, i64::MIN);
    for (end, start) in occurrences {
        if start > last_end {
            count += 1;
            last_end = end;
        }
    }
    count
}

/// Blocks reserve room by an atomic addition and write in no particular order.
fn compact_by_atomics(entries: &[Entry], step: &Step<'_>) -> Vec<Entry> {
    let mut room = entries.len();
    loop {
        let output: Vec<(AtomicU64, AtomicU64)> = (0..room).map(|_| Default::default()).collect();
        let reserved = AtomicUsize::new(0);
        entries.par_chunks(BLOCK).for_each(|block| {
            let finds: Vec<Entry> = block
                .iter()
                .flat_map(|&e| step.finds(e).map(move |at| (at, e.1)))
                .collect();
            let offset = reserved.fetch_add(finds.len(), Ordering::Relaxed);
            if offset + finds.len() <= room {
                for (place, find) in output[offset..].iter().zip(&finds) {
                    place.0.store(u64::from(find.0), Ordering::Relaxed);
                    place.1.store(find.1 as u64, Ordering::Relaxed);
                }
            }
        });
        let needed = reserved.into_inner();
        if needed <= room {
            return output
                .into_iter()
                .take(needed)
                .map(|(at, start)| (at.into_inner() as u32, start.into_inner() as i64))
                .collect();
        }
        // The room was too small: now it is known how much is needed.
        room = needed;
    }
}

/// Every entry fills its own portion; the filled places are picked in order.
fn compact_by_flags(entries: &[Entry], step: &Step<'_>) -> Vec<Entry> {
    const EMPTY: Entry = (u32::MAX, i64::MIN);
    let portion = entries
        .par_iter()
        .map(|&e| step.finds(e).len())
        .max()
        .unwrap_or(0);
    if portion == 0 {
        return Vec::new();
    }
    let round = (PORTIONS / portion).max(1);
    let mut portions = vec![EMPTY; portion * round.min(entries.len())];
    let mut output = Vec::new();
    for entries in entries.chunks(round) {
        let filled = &mut portions[..entries.len() * portion];
        filled
            .par_chunks_mut(portion)
            .zip(entries)
            .for_each(|(places, &entry)| {
                places.fill(EMPTY);
                for (place, at) in places.iter_mut().zip(step.finds(entry)) {
                    *place = (at, entry.1);
                }
            });
        output.extend(filled.iter().filter(|&&e| e != EMPTY));
    }
    output
}

/// Count, exclusive scan, write.
fn compact_by_scan(entries: &[Entry], step: &Step<'_>) -> Vec<Entry> {
    let counts: Vec<usize> = entries
        .par_chunks(BLOCK)
        .map(|block| block.iter().map(|&e| step.finds(e).len()).sum())
        .collect();
    let mut output = vec![(0, 0); counts.iter().sum()];
    // The scan's result, as the slices that begin at each sum.
    let mut places = Vec::with_capacity(counts.len());
    let mut rest = output.as_mut_slice();
    for count in counts {
        let (mine, others) = rest.split_at_mut(count);
        places.push(mine);
        rest = others;
    }
    places
        .into_par_iter()
        .zip(entries.par_chunks(BLOCK))
        .for_each(|(mine, block)| {
            let finds = block
                .iter()
                .flat_map(|&e| step.finds(e).map(move |at| (at, e.1)));
            for (place, find) in mine.iter_mut().zip(finds) {
                *place = find;
            }
        });
    output
}
