//! Events: integer ticks and symbols in time order, with an index by symbol.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::alphabet::Alphabet;
use crate::clock::{Clock, MAX_TICK};
use crate::time_table::{SymbolIndex, TimeTable};
use betz_base::error::{Error, Result};
use betz_base::memory;
use betz_recording::{Recording, SpikeForm, Spikes};

/// Between two segments of a recording lie this many seconds of silence, so that no episode
/// crosses from one trial into the next.
const SEGMENT_GAP_SECONDS: f64 = 60.0;

/// A segment of a recording, moved to keep it apart from its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shift {
    /// First tick of the segment, here.
    here: i64,
    /// The same instant's tick in the recording.
    there: i64,
    /// Last tick of the segment, here.
    last: i64,
}

/// Events in time order, and the same events by symbol.
///
/// Memory: 8 bytes per event for the time order (tick and symbol packed in one word); 8 bytes per event
/// for the index by symbol and 2.5 to 5 for the tables by time. All are immutable after construction.
///
/// Ticks are at least 0 and count from [`Events::origin_seconds`].
#[derive(Debug, Clone)]
pub struct Events {
    /// Different for every construction; clones hold the same events and share it.
    id: u64,
    alphabet: Alphabet,
    /// `tick << symbol_bits | symbol`, ascending: by time, and by symbol within a tick.
    stream: Vec<u64>,
    symbol_bits: u32,
    /// `ticks[offsets[s]..offsets[s + 1]]` are symbol `s`'s ticks, ascending.
    offsets: Vec<usize>,
    ticks: Vec<i64>,
    /// By time: where in `stream` each bucket of time begins.
    stream_table: TimeTable,
    /// The same for each symbol's ticks.
    symbol_tables: Vec<TimeTable>,
    origin_seconds: i64,
    /// The recording's segments, in order; empty if a single one covers everything.
    shifts: Vec<Shift>,
}

impl Events {
    /// Events from parallel lists in time order; `symbols[i]` indexes `alphabet`.
    ///
    /// The order of events within one tick does not matter: it is made canonical.
    ///
    /// # Errors
    /// `Mismatch` when the lists differ in length; `InvalidRecording` when ticks descend, are
    /// negative, a symbol is unknown, or tick and symbol do not fit 63 bits together (one more is
    /// kept for tests that need every symbol twice); `InsufficientData` when there is no event.
    pub fn new(alphabet: Alphabet, ticks: &[i64], symbols: &[u32]) -> Result<Self> {
        if ticks.len() != symbols.len() {
            return Err(Error::mismatch(format!(
                "events: {} ticks but {} symbols",
                ticks.len(),
                symbols.len()
            )));
        }
        if let Some(i) = (1..ticks.len()).find(|&i| ticks[i] < ticks[i - 1]) {
            return Err(Error::recording(format!(
                "event {i} at tick {} follows tick {}: expected ascending ticks",
                ticks[i],
                ticks[i - 1]
            )));
        }
        let ceiling = max_tick_of_doubled(alphabet.len());
        if let Some(&last) = ticks.last()
            && last > ceiling
        {
            return Err(Error::recording(format!(
                "event {} at tick {last}: expected 0 to {ceiling} ticks for {} symbols",
                ticks.len() - 1,
                alphabet.len()
            )));
        }
        Self::from_pairs(
            alphabet,
            ticks.iter().copied().zip(symbols.iter().copied()),
            0,
        )
    }

    /// Events from (tick, symbol) pairs in time order.
    pub(crate) fn from_pairs(
        alphabet: Alphabet,
        pairs: impl ExactSizeIterator<Item = (i64, u32)>,
        origin_seconds: i64,
    ) -> Result<Self> {
        let symbol_bits = symbol_bits(alphabet.len());
        let ceiling = max_tick(alphabet.len());
        let mut stream = Vec::with_capacity(pairs.len());
        let mut sizes = vec![0_usize; alphabet.len()];
        for (i, (tick, symbol)) in pairs.enumerate() {
            if tick < 0 || tick > ceiling {
                return Err(Error::recording(format!(
                    "event {i} at tick {tick}: expected 0 to {ceiling} ticks for {} symbols",
                    alphabet.len()
                )));
            }
            let Some(size) = sizes.get_mut(symbol as usize) else {
                return Err(Error::recording(format!(
                    "event {i} has symbol {symbol}: expected one of {} symbols",
                    alphabet.len()
                )));
            };
            *size += 1;
            stream.push((tick as u64) << symbol_bits | u64::from(symbol));
        }
        if u32::try_from(stream.len()).is_err() {
            return Err(Error::argument(format!(
                "{} events: expected fewer than 2^32",
                stream.len()
            )));
        }
        if stream.is_empty() {
            return Err(Error::new(
                betz_base::ErrorKind::InsufficientData,
                "no events: expected at least one",
            ));
        }
        if !stream.is_sorted() {
            // Only ties may be out of order here; the sort is adaptive, so this is one pass.
            stream.sort();
        }
        let mut offsets = Vec::with_capacity(sizes.len() + 1);
        let mut total = 0;
        offsets.push(0);
        for size in sizes {
            total += size;
            offsets.push(total);
        }
        let mut next = offsets.clone();
        let mut ticks = vec![0_i64; stream.len()];
        let mask = (1_u64 << symbol_bits) - 1;
        for &event in &stream {
            let slot = &mut next[(event & mask) as usize];
            ticks[*slot] = (event >> symbol_bits) as i64;
            *slot += 1;
        }
        let stream_table = TimeTable::new(stream.iter().map(|e| (e >> symbol_bits) as i64), 4);
        let symbol_tables = offsets
            .windows(2)
            .map(|w| TimeTable::new(ticks[w[0]..w[1]].iter().copied(), 1))
            .collect();
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            alphabet,
            stream,
            symbol_bits,
            offsets,
            ticks,
            stream_table,
            symbol_tables,
            origin_seconds,
            shifts: Vec::new(),
        })
    }

    /// The spikes of a recording: one symbol per channel, on the recording's own ticks; a bin that counts
    /// n spikes is n events of one tick.
    ///
    /// Where the segments (trials) do not cover the recording as one, only the spikes inside them are
    /// kept. The first segment then begins at tick 0, and the others are moved so that 60 s of silence
    /// lie between neighbours: episodes never cross a trial's boundary. [`Events::recording_tick`]
    /// leads back.
    ///
    /// # Errors
    /// As [`Events::new`], with the place named;
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a signal, which has no
    /// events; [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory) if there is no memory for the events that counts stand for.
    pub fn from_recording(recording: &Recording) -> Result<Self> {
        let clock = Clock::from_tick_seconds(recording.tick_seconds)?;
        let alphabet = Alphabet::new(recording.channel_names.clone(), clock)
            .map_err(|e| e.at("channel_names"))?;
        let events;
        let spikes = match recording.form {
            SpikeForm::Signal => {
                return Err(Error::argument(
                    "episodes are of spikes: expected spike times or counts, got a signal",
                ));
            }
            _ if recording.spikes.weights.is_empty() => &recording.spikes,
            _ => {
                events = one_each(&recording.spikes)?;
                &events
            }
        };
        if is_whole(recording) {
            return Self::new(alphabet, &spikes.ticks, &spikes.channels);
        }
        let gap = gap_ticks(clock)?;
        let mut shifts = Vec::with_capacity(recording.segments.len());
        let mut ticks = Vec::with_capacity(spikes.len());
        let mut symbols = Vec::with_capacity(spikes.len());
        let mut here = 0;
        for segment in &recording.segments {
            shifts.push(Shift {
                here,
                there: segment.start,
                last: here + (segment.stop - segment.start - 1),
            });
            for i in spikes.range(segment.start, segment.stop) {
                ticks.push(spikes.ticks[i] - segment.start + here);
                symbols.push(spikes.channels[i]);
            }
            here += segment.stop - segment.start + gap;
        }
        let mut events = Self::new(alphabet, &ticks, &symbols)?;
        events.shifts = shifts;
        Ok(events)
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.stream.len()
    }

    /// Which events these are, in this process: copies elsewhere are known by it.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Never true: construction refuses an empty list.
    pub fn is_empty(&self) -> bool {
        self.stream.is_empty()
    }

    /// Labels and clock.
    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.alphabet.clock()
    }

    /// Number of symbols, silent ones included.
    pub fn symbols(&self) -> usize {
        self.alphabet.len()
    }

    /// The ascending ticks of `symbol`; empty for a symbol that is not here.
    pub fn ticks_of(&self, symbol: u32) -> &[i64] {
        let s = symbol as usize;
        if s >= self.symbols() {
            return &[];
        }
        &self.ticks[self.offsets[s]..self.offsets[s + 1]]
    }

    /// The index by symbol: `ticks[offsets[s]..offsets[s + 1]]` are symbol `s`'s ticks.
    pub fn index(&self) -> (&[usize], &[i64]) {
        (&self.offsets, &self.ticks)
    }

    /// All events in time order, packed: `tick << symbol_bits | symbol`.
    pub fn stream(&self) -> &[u64] {
        &self.stream
    }

    /// Number of low bits of a packed event that hold its symbol.
    pub fn symbol_bits(&self) -> u32 {
        self.symbol_bits
    }

    /// Tick and symbol of a packed event of [`Events::stream`].
    pub fn unpack(&self, event: u64) -> (i64, u32) {
        (
            (event >> self.symbol_bits) as i64,
            (event & ((1 << self.symbol_bits) - 1)) as u32,
        )
    }

    /// All events in time order as (tick, symbol).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (i64, u32)> + '_ {
        self.stream.iter().map(|&event| self.unpack(event))
    }

    /// Symbol `symbol`'s ticks with their table by time; empty for a symbol that is not here.
    pub(crate) fn symbol_index(&self, symbol: u32) -> SymbolIndex<'_> {
        const EMPTY: &TimeTable = &TimeTable::empty();
        let table = self.symbol_tables.get(symbol as usize).unwrap_or(EMPTY);
        SymbolIndex::new(self.ticks_of(symbol), table)
    }

    /// Index in [`Events::stream`] of the first event at or after `tick`. A table look-up and a
    /// short scan, unless activity is far denser than on average.
    #[inline]
    pub fn position(&self, tick: i64) -> usize {
        // Twice what a bucket holds on average: compared without a branch.
        const SCAN: usize = 8;
        if tick <= 0 {
            return 0;
        }
        let Some((from, to)) = self.stream_table.bucket(tick) else {
            return self.len();
        };
        let key = (tick as u64) << self.symbol_bits;
        if let Some(next) = self.stream.get(from..from + SCAN) {
            let scanned: usize = next.iter().map(|&event| usize::from(event < key)).sum();
            if scanned < SCAN {
                return from + scanned;
            }
        }
        from + self.stream[from..to].partition_point(|&event| event < key)
    }

    /// Tick of the first event.
    pub fn first_tick(&self) -> i64 {
        self.stream.first().map_or(0, |&e| self.unpack(e).0)
    }

    /// Tick of the last event.
    pub fn last_tick(&self) -> i64 {
        self.stream.last().map_or(0, |&e| self.unpack(e).0)
    }

    /// The instant of tick 0 in the source's seconds: 0 unless the file counts from far away.
    pub fn origin_seconds(&self) -> i64 {
        self.origin_seconds
    }

    /// The tick of the recording (see [`Events::from_recording`]) at `tick` here.
    pub fn recording_tick(&self, tick: i64) -> i64 {
        let next = self.shifts.partition_point(|s| s.here <= tick);
        match next.checked_sub(1).map(|i| self.shifts[i]) {
            Some(shift) => tick - shift.here + shift.there,
            None => tick,
        }
    }

    /// The source's seconds at `tick`.
    pub fn seconds(&self, tick: i64) -> f64 {
        self.origin_seconds as f64 + self.clock().seconds(self.recording_tick(tick))
    }

    /// First and last tick of each segment, in order; of the events if a single one covers everything.
    pub(crate) fn segment_bounds(&self) -> Vec<(i64, i64)> {
        if self.shifts.is_empty() {
            return vec![(self.first_tick(), self.last_tick())];
        }
        self.shifts.iter().map(|s| (s.here, s.last)).collect()
    }

    /// The events of those of several segments that `keep` accepts by first and last tick; each keeps its tick.
    ///
    /// # Errors
    /// `InsufficientData` when none is left.
    pub(crate) fn in_segments(&self, keep: impl Fn(i64, i64) -> bool) -> Result<Self> {
        let mut shifts = self.shifts.clone();
        shifts.retain(|s| keep(s.here, s.last));
        let inside = |s: &Shift| self.position(s.here)..self.position(s.last + 1);
        let stream: Vec<u64> = (shifts.iter())
            .flat_map(|s| &self.stream[inside(s)])
            .copied()
            .collect();
        let pairs = stream.iter().map(|&event| self.unpack(event));
        let mut events = Self::from_pairs(self.alphabet.clone(), pairs, self.origin_seconds)?;
        events.shifts = shifts;
        Ok(events)
    }

    /// The silence between segments, when segments were moved apart: longer intervals than this
    /// would cross trials.
    pub(crate) fn segment_gap(&self) -> Option<i64> {
        if self.shifts.len() < 2 {
            return None;
        }
        gap_ticks(self.clock()).ok()
    }
}

/// True if one segment covers the recording, so that nothing is moved.
pub(crate) fn is_whole(recording: &Recording) -> bool {
    match recording.segments.as_slice() {
        [] => true,
        [only] => only.start <= 0 && recording.ticks <= only.stop,
        _ => false,
    }
}

/// The silence between two segments.
pub(crate) fn gap_ticks(clock: Clock) -> Result<i64> {
    Ok(clock.ticks_floor(SEGMENT_GAP_SECONDS)?.max(1))
}

/// Bits that hold any of `symbols` symbols.
pub(crate) fn symbol_bits(symbols: usize) -> u32 {
    (usize::BITS - symbols.saturating_sub(1).leading_zeros()).max(1)
}

/// The largest tick that packs with any of `symbols` symbols.
pub(crate) fn max_tick(symbols: usize) -> i64 {
    ((u64::MAX >> symbol_bits(symbols)) as i64).min(MAX_TICK - 1)
}

/// The largest tick that packs with any of `symbols` symbols and leaves a bit, so that the events pack
/// with every symbol there twice, too.
pub(crate) fn max_tick_of_doubled(symbols: usize) -> i64 {
    max_tick(symbols.saturating_mul(2))
}

/// Counted spikes as events: of a bin, as many as it counts.
pub(crate) fn one_each(spikes: &Spikes) -> Result<Spikes> {
    let total = spikes.total();
    if total >= 4_294_967_296.0 {
        return Err(Error::argument(format!(
            "{total} events: expected fewer than 2^32"
        )));
    }
    let total = total as usize;
    // The events made from them take three times as much again.
    memory::plan(format_args!("{total} events"), total as u128 * 48)?;
    let mut ticks = memory::room("events", total)?;
    let mut channels = memory::room("events", total)?;
    for (i, (&tick, &channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
        let len = ticks.len() + spikes.weight(i) as usize;
        ticks.resize(len, tick);
        channels.resize(len, channel);
    }
    Ok(Spikes::new(ticks, channels))
}
