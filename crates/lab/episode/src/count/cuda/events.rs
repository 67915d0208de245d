//! Events in a device's memory: the index by symbol, with the beginnings of cells of time.

use std::sync::Arc;

use rayon::prelude::*;

use super::check_number;
use crate::clock::Clock;
use crate::events::Events;
use crate::pattern::Pattern;
use betz_base::error::Result;
use betz_device::cuda::{Buffer, Context, PinnedBuffer};
use betz_kernels::Tick;

/// Ticks from the first event below this, and bounds of delays up to it, are kept in 32 bits.
const NARROW: i64 = 1 << 30;

/// Events of a symbol that a cell of time holds on average.
const CELL_EVENTS: usize = 64;

/// Most cells.
const MOST_CELLS: usize = 1024;

/// Bytes that are copied to the device at once.
const CHUNK_BYTES: usize = 1 << 23;

/// Ticks that one thread prepares at once.
const PIECE: usize = 1 << 15;

/// A recording's events on one device, to count in any number of times.
///
/// Takes 4 bytes per event there if the recording lasts less than 2³⁰ ticks, 8 if it is
/// longer, and 4 KiB per symbol. Does not refer to the [`Events`] it was made from.
pub struct DeviceEvents {
    context: Arc<Context>,
    duration: i64,
    /// The silence between the events' segments, if there are several, and their clock.
    gap: Option<i64>,
    clock: Clock,
    /// Symbols copied.
    held: Vec<bool>,
    pub(super) ticks: Ticks,
    /// For each symbol and cell, the first of `ticks` in it; one more a symbol ends the last.
    pub(super) index: Buffer<u32>,
    host_cuts: Vec<i64>,
    host_index: Vec<u32>,
}

/// Ticks in as many bits as the recording needs.
pub enum Ticks {
    /// In 32 bits.
    Narrow(TicksOf<i32>),
    /// In 64 bits.
    Wide(TicksOf<i64>),
}

/// Ticks on the device.
pub struct TicksOf<T> {
    /// Ticks from the first event, symbol by symbol.
    pub ticks: Buffer<T>,
    /// Begin of every cell, and the end of the last.
    pub(super) cuts: Buffer<T>,
}

impl<T: Tick> TicksOf<T> {
    fn upload(context: &Context, lists: &[&[i64]], origin: i64, cuts: &[i64]) -> Result<Self> {
        let cuts: Vec<T> = cuts.iter().map(|&cut| T::narrowed(cut)).collect();
        Ok(Self {
            ticks: copy_ticks(context, lists, origin)?,
            cuts: context.upload(&cuts)?,
        })
    }
}

impl std::fmt::Debug for DeviceEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let events = match &self.ticks {
            Ticks::Narrow(there) => there.ticks.len(),
            Ticks::Wide(there) => there.ticks.len(),
        };
        write!(f, "DeviceEvents({events} on {:?})", self.context)
    }
}

/// Host memory that copies run from, kept between calls: one is filled while others travel.
#[derive(Default)]
struct EventStaging<T>([Option<PinnedBuffer<T>>; 3]);

/// The layout of events on a device.
#[derive(Debug, Clone, Copy)]
pub struct EventLayout {
    /// Into how many cells time is cut.
    pub cells: usize,
    /// Ticks take 64 bits, not 32.
    pub wide: bool,
}

impl EventLayout {
    /// The layout of `events` that last `duration` ticks.
    pub(super) fn new(events: &Events, duration: i64) -> Self {
        let cells = events.len() / (CELL_EVENTS * events.symbols());
        Self {
            cells: cells.clamp(1, MOST_CELLS),
            wide: duration > NARROW,
        }
    }
}

/// The beginnings of `cells` cells with equally many of `events`, in ticks from `origin`, and the end of the last.
pub(super) fn cuts(events: &Events, cells: usize, origin: i64, duration: i64) -> Vec<i64> {
    let stream = events.stream();
    (0..=cells)
        .map(|c| match c {
            0 => 0,
            _ if c == cells => duration,
            _ => events.unpack(stream[c * stream.len() / cells]).0 - origin,
        })
        .collect()
}

impl DeviceEvents {
    /// Most symbols of an episode.
    pub const MAX_SIZE: usize = 2048;

    /// Copies all of `events` to the device of `context`.
    ///
    /// # Errors
    /// `InvalidArgument` for more than 2³⁰ events; `DeviceMemory` when they do not fit;
    /// `DeviceFailure`.
    pub fn upload(context: &Arc<Context>, events: &Events) -> Result<Self> {
        Self::upload_symbols(context, events, &vec![true; events.symbols()], None)
    }

    /// Copies the events of the symbols in `held`; `layout` overrides how they are laid out.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    pub fn upload_symbols(
        context: &Arc<Context>,
        events: &Events,
        held: &[bool],
        layout: Option<EventLayout>,
    ) -> Result<Self> {
        check_number(events)?;
        let origin = events.first_tick();
        let duration = events.last_tick() - origin + 1;
        let EventLayout { cells, wide } =
            layout.unwrap_or_else(|| EventLayout::new(events, duration));
        let (offsets, all_ticks) = events.index();
        let lists: Vec<&[i64]> = offsets
            .windows(2)
            .zip(held)
            .map(|(w, &held)| &all_ticks[if held { w[0]..w[1] } else { 0..0 }])
            .collect();
        let host_cuts = cuts(events, cells, origin, duration);
        let mut total = 0;
        let firsts: Vec<usize> = lists
            .iter()
            .map(|list| {
                total += list.len();
                total - list.len()
            })
            .collect();
        let host_index: Vec<u32> = (0..lists.len())
            .into_par_iter()
            .flat_map_iter(|s| {
                let index = (!lists[s].is_empty()).then(|| events.symbol_index(s as u32));
                let first = firsts[s];
                host_cuts.iter().map(move |cut| {
                    let before = index.map_or(0, |i| i.count_through(origin + cut - 1));
                    (first + before) as u32
                })
            })
            .collect();
        let ticks = if wide {
            Ticks::Wide(TicksOf::upload(context, &lists, origin, &host_cuts)?)
        } else {
            Ticks::Narrow(TicksOf::upload(context, &lists, origin, &host_cuts)?)
        };
        Ok(Self {
            index: context.upload(&host_index)?,
            context: Arc::clone(context),
            duration,
            gap: events.segment_gap(),
            clock: events.clock(),
            held: held.to_vec(),
            ticks,
            host_cuts,
            host_index,
        })
    }

    /// Events of all symbols, made on the device of `context` from `source`, with their cells cut at `host_cuts`. Waits
    /// for them.
    pub(super) fn made(
        context: &Arc<Context>,
        source: &Events,
        ticks: Ticks,
        index: Buffer<u32>,
        host_cuts: Vec<i64>,
    ) -> Result<Self> {
        let places = source.symbols() * host_cuts.len();
        Ok(Self {
            host_index: context.download(&index, places)?,
            index,
            context: Arc::clone(context),
            duration: host_cuts.last().copied().unwrap_or(0),
            gap: source.segment_gap(),
            clock: source.clock(),
            held: vec![true; source.symbols()],
            ticks,
            host_cuts,
        })
    }

    /// The device's context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The events' ticks.
    pub fn ticks(&self) -> &Ticks {
        &self.ticks
    }

    /// True if `symbol` is on the device.
    pub(super) fn holds(&self, symbol: u32) -> bool {
        self.held.get(symbol as usize).copied().unwrap_or(false)
    }

    /// Checks that `pattern` does not reach from one segment into the next.
    pub(super) fn check_gap(&self, pattern: &Pattern) -> Result<()> {
        self.gap
            .map_or(Ok(()), |gap| pattern.check_gap(gap, self.clock))
    }

    /// Ticks from the first event through the last.
    pub(super) fn duration(&self) -> i64 {
        self.duration
    }

    /// Number of cells.
    pub(super) fn cells(&self) -> usize {
        self.host_cuts.len() - 1
    }

    /// A tick, or a bound of a delay, as the kernels read it.
    pub fn tick<T: Tick>(&self, tick: i64) -> T {
        // No delay is as long as the duration; to add a longer bound to a tick could overflow.
        T::narrowed(tick.min(self.duration))
    }

    /// The range of `symbol`'s events in [`ticks`](Self::ticks): first, and first after.
    pub fn range(&self, symbol: u32) -> (u32, u32) {
        let first = symbol as usize * (self.cells() + 1);
        (
            self.host_index[first],
            self.host_index[first + self.cells()],
        )
    }

    /// The most events of one symbol in what a warp sees of any of `parts` parts: the part and the
    /// cells before it that `span` reaches into.
    pub(super) fn most_in_a_window(&self, parts: usize, span: i64) -> usize {
        let (cells, cuts) = (self.cells(), &self.host_cuts);
        (0..parts)
            .flat_map(|part| {
                let (first, end) = (part * cells / parts, (part + 1) * cells / parts);
                let oldest = cuts[first].saturating_sub(span);
                let first = (0..=first).rev().find(|&c| cuts[c] <= oldest).unwrap_or(0);
                self.host_index
                    .chunks_exact(cells + 1)
                    .map(move |places| (places[end] - places[first]) as usize)
            })
            .max()
            .unwrap_or(0)
    }
}

/// Copies the lists one behind the other, as ticks from `origin`. Does not wait.
fn copy_ticks<T: Tick>(context: &Context, lists: &[&[i64]], origin: i64) -> Result<Buffer<T>> {
    let most = CHUNK_BYTES / size_of::<T>();
    let total: usize = lists.iter().map(|list| list.len()).sum();
    let mut ticks = context.alloc(total)?;
    let mut pieces = lists.iter().flat_map(|list| list.chunks(PIECE)).peekable();
    let mut staging = context.take_slot::<EventStaging<T>>();
    let mut done = 0;
    for turn in 0.. {
        let mut batch: Vec<&[i64]> = Vec::new();
        let mut len = 0;
        while let Some(piece) = pieces.next_if(|p| len + p.len() <= most) {
            len += piece.len();
            batch.push(piece);
        }
        if batch.is_empty() {
            break;
        }
        let slot = &mut staging.0[turn % 3];
        let pinned = match slot {
            Some(pinned) => pinned,
            None => slot.insert(context.pinned(most)?),
        };
        let mut target = &mut pinned.as_mut_slice()?[..len];
        let mut work = Vec::with_capacity(batch.len());
        for piece in batch {
            let (own, rest) = target.split_at_mut(piece.len());
            work.push((own, piece));
            target = rest;
        }
        work.into_par_iter().for_each(|(own, piece)| {
            for (own, tick) in own.iter_mut().zip(piece) {
                *own = T::narrowed(tick - origin);
            }
        });
        context.copy_pinned(pinned, 0..len, &mut ticks, done)?;
        done += len;
    }
    context.put_slot(staging);
    Ok(ticks)
}
