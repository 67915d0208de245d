//! The papers' Algorithm 1: one automaton per episode walks all events, one after another.
//!
//! Feng et al., §1.2. For every symbol of the episode it keeps the list of times at which a valid
//! chain up to that symbol can end; an event that ends a valid chain of the whole episode counts,
//! and empties all lists. One core, whatever the number of threads: the papers' baseline.
//!
//! Mended:
//! - line 12 compares i with |α| − 1 although i runs from 1 to |α|, which counts the prefix: an
//!   occurrence is complete at i = |α|;
//! - events of the tick at which an occurrence ended cannot begin the next one (the printed walk
//!   lets those that happen to be listed later do so), which makes the count independent of the
//!   order of tied events;
//! - the search in a list ends at the first entry that is too old, and entries too old for any later
//!   event are dropped, so lists stay as short as a window; the count is the same.

use betz_base::error::Result;
use betz_base::progress;
use betz_episode::count::{CountJob, Strategy};
use betz_episode::{Events, Pattern};

/// Algorithm 1 of the papers, mended; see the module's source for how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Serial;

impl Strategy for Serial {
    fn name(&self) -> &'static str {
        "serial"
    }

    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        job.check()?;
        let mut counts = Vec::with_capacity(job.patterns.len());
        for (i, pattern) in job.patterns.iter().enumerate() {
            progress::check(job.progress, "counting")?;
            counts.push(count_serially(job.events, pattern));
            job.progress
                .update("counting", i as u64 + 1, job.patterns.len() as u64);
        }
        Ok(counts)
    }
}

/// Counts one pattern over all events.
pub(super) fn count_serially(events: &Events, pattern: &Pattern) -> u64 {
    let mut automaton = Automaton::new(events, pattern);
    let mut count = 0;
    for &event in events.stream() {
        count += u64::from(automaton.push(event));
    }
    count
}

/// Algorithm 1's state for one episode.
pub(super) struct Automaton<'a> {
    pattern: &'a Pattern,
    symbol_bits: u32,
    symbol_mask: u64,
    /// For each symbol, its positions in the pattern, the last first: `places[heads[s]..heads[s + 1]]`.
    heads: Vec<u32>,
    places: Vec<u32>,
    /// For each place but the last, the ticks of valid ends since the last occurrence, ascending.
    ends: Vec<Window>,
    /// Tick at which the last occurrence ended.
    last_end: Option<i64>,
}

/// Ascending ticks, of which the oldest can be forgotten.
#[derive(Default)]
struct Window {
    ticks: Vec<i64>,
    first: usize,
}

impl Window {
    fn clear(&mut self) {
        self.ticks.clear();
        self.first = 0;
    }

    /// Adds `tick`, forgets what is older than `oldest`.
    fn push(&mut self, tick: i64, oldest: i64) {
        while self.ticks.get(self.first).is_some_and(|&t| t < oldest) {
            self.first += 1;
        }
        if self.first == self.ticks.len() {
            self.clear();
        } else if self.first > 64 && self.first * 2 > self.ticks.len() {
            self.ticks.drain(..self.first);
            self.first = 0;
        }
        self.ticks.push(tick);
    }

    fn live(&self) -> &[i64] {
        &self.ticks[self.first..]
    }
}

impl<'a> Automaton<'a> {
    pub(super) fn new(events: &Events, pattern: &'a Pattern) -> Self {
        let (heads, places) = places_by_symbol(pattern, events.symbols());
        Self {
            pattern,
            symbol_bits: events.symbol_bits(),
            symbol_mask: (1 << events.symbol_bits()) - 1,
            heads,
            places,
            ends: (1..pattern.size()).map(|_| Window::default()).collect(),
            last_end: None,
        }
    }

    /// The state just after an occurrence that ended at `last_end`.
    pub(super) fn restart_after(&mut self, last_end: Option<i64>) {
        self.ends.iter_mut().for_each(Window::clear);
        self.last_end = last_end;
    }

    /// Takes the next event of the stream; true when it completes an occurrence.
    #[inline]
    pub(super) fn push(&mut self, event: u64) -> bool {
        let symbol = (event & self.symbol_mask) as usize;
        let (from, to) = (self.heads[symbol], self.heads[symbol + 1]);
        if from == to {
            return false;
        }
        self.advance(
            (event >> self.symbol_bits) as i64,
            from as usize..to as usize,
        )
    }

    // Inlined into a loop over events, most of which concern no place, it made that loop 1.6 times as slow.
    #[inline(never)]
    fn advance(&mut self, tick: i64, places: std::ops::Range<usize>) -> bool {
        if self.last_end.is_some_and(|end| tick <= end) {
            return false;
        }
        let intervals = self.pattern.intervals();
        for p in places {
            let place = self.places[p] as usize;
            if place > 0 {
                let interval = intervals[place - 1];
                let valid = self.ends[place - 1]
                    .live()
                    .iter()
                    .rev()
                    .map(|&previous| tick - previous)
                    .take_while(|&delay| delay <= interval.high)
                    .any(|delay| delay > interval.low);
                if !valid {
                    continue;
                }
            }
            if place + 1 == self.pattern.size() {
                self.restart_after(Some(tick));
                return true;
            }
            self.ends[place].push(tick, tick - intervals[place].high);
        }
        false
    }
}

/// The places of each symbol in the pattern, last first, as a ragged table.
pub(super) fn places_by_symbol(pattern: &Pattern, symbols: usize) -> (Vec<u32>, Vec<u32>) {
    let mut heads = vec![0_u32; symbols + 1];
    for &s in pattern.symbols() {
        heads[s as usize + 1] += 1;
    }
    for s in 0..symbols {
        heads[s + 1] += heads[s];
    }
    let mut next = heads.clone();
    let mut places = vec![0_u32; pattern.size()];
    for (place, &s) in pattern.symbols().iter().enumerate().rev() {
        places[next[s as usize] as usize] = place as u32;
        next[s as usize] += 1;
    }
    (heads, places)
}
