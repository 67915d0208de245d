//! Events: integer ticks and symbols in time order, with an index by symbol.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::recording::Recording;

/// Ticks are kept below this, so that a tick plus or minus an interval never overflows.
pub(crate) const MAX_TICK: i64 = 1 << 61;

/// Between two segments of a recording lie this many seconds of silence, so that no episode
/// crosses from one trial into the next.
const SEGMENT_GAP_SECONDS: f64 = 60.0;

/// How many ticks make a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    per_second: f64,
}

impl Clock {
    /// A clock whose tick lasts `tick_seconds`.
    ///
    /// When 1 / `tick_seconds` is a whole number up to rounding (30 kHz, 10 µs), that whole number
    /// is kept, so that seconds come out as their shortest decimals.
    ///
    /// # Errors
    /// `InvalidArgument` unless `tick_seconds` is finite and positive.
    pub fn from_tick_seconds(tick_seconds: f64) -> Result<Self> {
        if !(tick_seconds.is_finite() && tick_seconds > 0.0) {
            return Err(Error::argument(format!(
                "length of a tick: expected a finite number of seconds above 0, got {tick_seconds}"
            )));
        }
        let rate = 1.0 / tick_seconds;
        let whole = rate.round();
        let near = whole >= 1.0 && ((rate - whole) / whole).abs() < 1e-9;
        Ok(Self {
            per_second: if near { whole } else { rate },
        })
    }

    /// A clock with a whole number of ticks in a second.
    pub(crate) const fn per_second(ticks: u64) -> Self {
        Self {
            per_second: ticks as f64,
        }
    }

    /// Length of one tick in seconds.
    pub fn tick_seconds(&self) -> f64 {
        1.0 / self.per_second
    }

    /// `ticks` in seconds.
    pub fn seconds(&self, ticks: i64) -> f64 {
        ticks as f64 / self.per_second
    }

    /// The tick nearest to `seconds`; one beyond ±2⁶¹ for what is not finite or too far.
    pub fn nearest(&self, seconds: f64) -> i64 {
        let exact = (seconds * self.per_second).round();
        // NaN is neither; a cast of what is too far gives the ends of `i64`.
        if exact.is_nan() {
            i64::MAX
        } else {
            exact as i64
        }
    }

    /// The largest whole number of ticks that is at most `seconds`.
    ///
    /// For whole ticks Δ, `Δ·tick > seconds` is the same as `Δ > ticks_floor(seconds)`, and likewise
    /// for `≤`: both bounds of (low, high] are converted so, without loss. A value within rounding
    /// of a whole tick is that tick.
    ///
    /// # Errors
    /// `InvalidArgument` when `seconds` is not finite, or is too long for the clock.
    pub fn ticks_floor(&self, seconds: f64) -> Result<i64> {
        let exact = seconds * self.per_second;
        if !exact.is_finite() || exact.abs() >= MAX_TICK as f64 {
            return Err(Error::argument(format!(
                "{seconds} s cannot be expressed in ticks of {} s",
                self.tick_seconds()
            )));
        }
        let near = exact.round();
        let tolerance = 1e-6_f64.max(exact.abs() * 4.0 * f64::EPSILON);
        let ticks = if (exact - near).abs() <= tolerance {
            near
        } else {
            exact.floor()
        };
        Ok(ticks as i64)
    }
}

/// The symbols' labels and the clock: what turns text into patterns and back.
#[derive(Debug, Clone)]
pub struct Alphabet {
    labels: Vec<String>,
    by_label: HashMap<String, u32>,
    clock: Clock,
}

impl Alphabet {
    /// Symbols 0, 1, 2, … named by `labels`, on `clock`.
    ///
    /// # Errors
    /// `InvalidArgument` when two labels are equal, or there are more than 2³² of them.
    pub fn new(labels: Vec<String>, clock: Clock) -> Result<Self> {
        let mut by_label = HashMap::with_capacity(labels.len());
        for (i, label) in labels.iter().enumerate() {
            let symbol = u32::try_from(i).map_err(|_| Error::argument("more than 2^32 labels"))?;
            if by_label.insert(label.clone(), symbol).is_some() {
                return Err(Error::argument(format!(
                    "label {label:?} occurs twice: labels must differ"
                )));
            }
        }
        Ok(Self {
            labels,
            by_label,
            clock,
        })
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// True when there is no symbol.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// All labels, in the order of their symbols.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The label of `symbol`; `"?"` for a symbol that is not here.
    pub fn label(&self, symbol: u32) -> &str {
        self.labels.get(symbol as usize).map_or("?", String::as_str)
    }

    /// The symbol of `label`.
    pub fn symbol(&self, label: &str) -> Option<u32> {
        self.by_label.get(label).copied()
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// For a message about a `label` that is not here: the nearest one, and which there are.
    pub(crate) fn instead_of(&self, label: &str) -> String {
        /// Labels that are listed.
        const SHOWN: usize = 12;
        let shown: Vec<&str> = self.labels.iter().take(SHOWN).map(String::as_str).collect();
        let more = if self.labels.len() > SHOWN {
            ", …"
        } else {
            ""
        };
        let all = format!(
            "expected one of {} ({}{more})",
            self.labels.len(),
            shown.join(", ")
        );
        let nearest = (self.labels.iter())
            .map(|known| (strsim::damerau_levenshtein(known, label), known))
            .min_by_key(|&(edits, _)| edits);
        match nearest {
            // As many edits as characters could make any label of any other.
            Some((edits, known)) if edits <= 2 && edits < label.chars().count() => {
                format!("did you mean {known:?}? {all}")
            }
            _ => all,
        }
    }
}

/// A stretch of events that was shifted to keep segments apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shift {
    /// First tick of the stretch, here.
    here: i64,
    /// The same instant's tick in the recording.
    there: i64,
}

/// Events in time order, and the same events by symbol.
///
/// Memory: 8 bytes an event for the time order (tick and symbol packed in one word); 8 bytes an event
/// for the index by symbol and 2.5 to 5 for the tables by time. All are immutable after construction.
///
/// Ticks are at least 0 and count from [`Events::origin_seconds`].
#[derive(Debug, Clone)]
pub struct Events {
    /// Different for every construction; clones hold the same events and share it.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "resident copies are CUDA's")
    )]
    id: u64,
    alphabet: Alphabet,
    /// `tick << symbol_bits | symbol`, ascending: by time, and by symbol within a tick.
    stream: Vec<u64>,
    symbol_bits: u32,
    /// `ticks[offsets[s]..offsets[s + 1]]` are symbol `s`'s ticks, ascending.
    offsets: Vec<usize>,
    ticks: Vec<i64>,
    /// By time: where in `stream` each stretch of time begins.
    stream_table: TimeTable,
    /// The same for each symbol's ticks.
    symbol_tables: Vec<TimeTable>,
    origin_seconds: i64,
    shifts: Vec<Shift>,
}

impl Events {
    /// Events from parallel lists in time order; `symbols[i]` indexes `alphabet`.
    ///
    /// The order of events within one tick does not matter: it is made canonical.
    ///
    /// # Errors
    /// `Mismatch` when the lists differ in length; `InvalidRecording` when ticks descend, are
    /// negative, a symbol is unknown, or tick and symbol do not fit 64 bits together;
    /// `InsufficientData` when there is no event.
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
                crate::ErrorKind::InsufficientData,
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

    /// The spikes of a recording: one symbol a channel, on the recording's own ticks.
    ///
    /// A recording with several segments (trials) keeps only the spikes inside them, and segments
    /// after the first are moved so that 60 s of silence lie between neighbours: episodes never
    /// cross a trial's boundary. [`Events::recording_tick`] leads back.
    ///
    /// # Errors
    /// As [`Events::new`], with the place named.
    pub fn from_recording(recording: &Recording) -> Result<Self> {
        let clock = Clock::from_tick_seconds(recording.tick_seconds)?;
        let alphabet = Alphabet::new(recording.channel_names.clone(), clock)
            .map_err(|e| e.at("channel_names"))?;
        let spikes = &recording.spikes;
        if recording.segments.len() <= 1 {
            return Self::new(alphabet, &spikes.ticks, &spikes.channels);
        }
        let gap = clock.ticks_floor(SEGMENT_GAP_SECONDS)?.max(1);
        let mut shifts = Vec::with_capacity(recording.segments.len());
        let mut ticks = Vec::with_capacity(spikes.len());
        let mut symbols = Vec::with_capacity(spikes.len());
        let mut here = 0;
        for segment in &recording.segments {
            shifts.push(Shift {
                here,
                there: segment.start,
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
    #[cfg(feature = "cuda")]
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
        self.alphabet.clock
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

    /// How many low bits of a packed event hold its symbol.
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
        const EMPTY: &TimeTable = &TimeTable {
            first: Vec::new(),
            shift: 0,
        };
        SymbolIndex {
            ticks: self.ticks_of(symbol),
            table: self.symbol_tables.get(symbol as usize).unwrap_or(EMPTY),
        }
    }

    /// Index in [`Events::stream`] of the first event at or after `tick`. A table look-up and a
    /// short scan, except where activity is far denser than on average.
    #[inline]
    pub fn position(&self, tick: i64) -> usize {
        // Twice what a stretch holds on average: compared without a branch.
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

    /// First and last tick of each segment, in order; of the events, where there is but one.
    pub(crate) fn segment_bounds(&self) -> Vec<(i64, i64)> {
        let Some(gap) = self.segment_gap() else {
            return vec![(self.first_tick(), self.last_tick())];
        };
        let next = self.shifts[1..].iter().map(|s| s.here - gap - 1);
        (self.shifts.iter().map(|s| s.here))
            .zip(next.chain([self.last_tick()]))
            .collect()
    }

    /// The silence between segments, when segments were moved apart: longer intervals than this
    /// would cross trials.
    pub(crate) fn segment_gap(&self) -> Option<i64> {
        if self.shifts.len() < 2 {
            return None;
        }
        self.clock().ticks_floor(SEGMENT_GAP_SECONDS).ok()
    }
}

/// Where equal stretches of time begin in an ascending list of ticks: finds a tick's place by one
/// look-up and a short scan.
#[derive(Debug, Clone)]
pub(crate) struct TimeTable {
    /// `first[b]` is the index of the first tick with `tick >> shift >= b`; one entry more ends it.
    first: Vec<u32>,
    shift: u32,
}

impl TimeTable {
    /// A table over ascending ticks with about `each` of them in a stretch.
    fn new(ticks: impl DoubleEndedIterator<Item = i64> + ExactSizeIterator, each: usize) -> Self {
        let count = ticks.len();
        let mut ticks = ticks.enumerate().peekable();
        let wanted = (count / each).max(1) as i64;
        let last = match ticks.next_back() {
            Some((_, last)) => last,
            None => {
                return Self {
                    first: Vec::new(),
                    shift: 0,
                };
            }
        };
        let mut shift = 0;
        while last >> shift >= wanted {
            shift += 1;
        }
        let stretches = (last >> shift) as usize + 1;
        let mut first = Vec::with_capacity(stretches + 1);
        for (i, tick) in ticks.chain(std::iter::once((count - 1, last))) {
            let stretch = (tick >> shift) as usize;
            while first.len() <= stretch {
                first.push(i as u32);
            }
        }
        first.push(count as u32);
        Self { first, shift }
    }

    /// The indices of the ticks in the stretch of `tick` (not negative), `None` beyond the last.
    #[inline(always)]
    fn bucket(&self, tick: i64) -> Option<(usize, usize)> {
        let b = (tick >> self.shift) as usize;
        match self.first.get(b..b.wrapping_add(2)) {
            Some(&[from, to]) => Some((from as usize, to as usize)),
            _ => None,
        }
    }
}

/// One symbol's ascending ticks, quick to search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SymbolIndex<'a> {
    pub(crate) ticks: &'a [i64],
    table: &'a TimeTable,
}

impl SymbolIndex<'_> {
    /// How many ticks are at or before `bound`. Without unpredictable branches where the ticks are
    /// spread as on average; a binary search where they are far denser.
    #[inline(always)]
    pub(crate) fn count_through(&self, bound: i64) -> usize {
        const SCAN: usize = 4;
        if bound < 0 {
            return 0;
        }
        let Some((from, to)) = self.table.bucket(bound) else {
            return self.ticks.len();
        };
        if let Some(next) = self.ticks.get(from..from + SCAN) {
            let scanned: usize = next.iter().map(|&t| usize::from(t <= bound)).sum();
            if scanned < SCAN {
                return from + scanned;
            }
        }
        from + self.ticks[from..to].partition_point(|&t| t <= bound)
    }
}

/// Bits that hold any of `symbols` symbols.
pub(crate) fn symbol_bits(symbols: usize) -> u32 {
    (usize::BITS - symbols.saturating_sub(1).leading_zeros()).max(1)
}

/// The largest tick that packs with any of `symbols` symbols.
pub(crate) fn max_tick(symbols: usize) -> i64 {
    ((u64::MAX >> symbol_bits(symbols)) as i64).min(MAX_TICK - 1)
}
