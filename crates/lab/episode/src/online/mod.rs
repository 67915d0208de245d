//! Counting while the events come: [`OnlineMiner`], and a thread of its own for it ([`open`]).
//!
//! ```text
//! decoding thread ─ MinerFeed::push ─► bounded ring ─► miner thread: OnlineMiner ◄─ new watch list ─┐
//!                  (never waits)                            └─► window of events ─► mine, own threads ┘
//! ```
//!
//! At every moment a count is the offline count ([`count`](super::count::count)) of the events taken
//! so far: the latest-start algorithm and the greedy choice of occurrences both only look back.

mod remine;
mod replay;
mod thread;
mod watch;
mod window;

use std::collections::HashMap;

pub use remine::ReminingOptions;
pub use replay::{Frame, ReplayClock, ReplayOptions, WallClock, played_seconds, replay};
pub use thread::{MinerConfig, MinerFeed, MinerHandle, MinerSnapshot, MinerSummary, open};

use watch::WatchList;
use window::Window;

use super::Pattern;
use super::clock::MAX_TICK;
use betz_base::error::{Error, ErrorKind, Result};

/// Most symbols that a miner is opened for.
const MAX_SYMBOLS: usize = 1 << 24;

/// A watched episode and its count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedEpisode {
    /// The episode.
    pub pattern: Pattern,
    /// Events at this tick and later count; `None`: all since the first.
    pub since: Option<i64>,
    /// The number of non-overlapped occurrences among those events.
    pub count: u64,
}

/// Numbers of events taken and refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OnlineStats {
    /// Events taken.
    pub events: u64,
    /// Events refused because their tick was before that of an event taken earlier.
    pub late: u64,
    /// Events refused because their symbol is unknown, or their tick is beyond ±2⁶¹.
    pub invalid: u64,
    /// Beginnings of occurrences that were forgotten because the miner's memory was full
    /// ([`MinerConfig::max_bytes`]). Counts of episodes with long delays may be too low where it is not 0.
    pub forgotten: u64,
}

/// Counts a list of episodes event by event.
///
/// Cost of an event: a comparison for each watched prefix that ends with its symbol, and amortised
/// constant time for each that it may extend. Memory: each prefix keeps at most one pair of ticks for
/// every tick of the longest `low` that may follow it, and two more (in practice one for each event
/// of its symbol in that time). Allocates when it has to keep more such pairs than ever before.
///
/// With a *window* ([`OnlineMiner::with_window`]) the list can be changed while events come; see
/// [`OnlineMiner::watch`].
#[derive(Debug, Clone)]
pub struct OnlineMiner {
    symbols: usize,
    patterns: Vec<Pattern>,
    since: Vec<Option<i64>>,
    list: WatchList,
    /// Bytes that the list's chains may take.
    chain_bytes: usize,
    window: Option<Window>,
    /// Tick of the last event taken.
    now: Option<i64>,
    stats: OnlineStats,
}

impl OnlineMiner {
    /// Counts `patterns` over events of symbols 0 to `symbols` − 1.
    ///
    /// A pattern may be there more than once.
    ///
    /// # Errors
    /// `InvalidArgument` for no symbols or more than 2²⁴; `Mismatch` for a pattern with a symbol
    /// that is not among them.
    pub fn new(symbols: usize, patterns: &[Pattern]) -> Result<Self> {
        if symbols == 0 || symbols > MAX_SYMBOLS {
            return Err(Error::argument(format!(
                "online miner: expected 1 to {MAX_SYMBOLS} symbols, got {symbols}"
            )));
        }
        check_symbols(symbols, patterns)?;
        Ok(Self {
            symbols,
            patterns: patterns.to_vec(),
            since: vec![None; patterns.len()],
            list: WatchList::new(symbols, patterns),
            chain_bytes: usize::MAX,
            window: None,
            now: None,
            stats: OnlineStats::default(),
        })
    }

    /// As [`OnlineMiner::new`], and keeps the events of the last `window_ticks` ticks, at most
    /// `max_events` of them (16 bytes each), so that the list can change.
    ///
    /// # Errors
    /// As [`OnlineMiner::new`]; `InvalidArgument` for a window without ticks or events, or a pattern
    /// that may last as long as the window.
    pub fn with_window(
        symbols: usize,
        patterns: &[Pattern],
        window_ticks: i64,
        max_events: usize,
    ) -> Result<Self> {
        if !(1..MAX_TICK).contains(&window_ticks) || max_events == 0 {
            return Err(Error::argument(format!(
                "online miner's window: expected at least 1 tick and 1 event, got {window_ticks} and {max_events}"
            )));
        }
        let mut miner = Self::new(symbols, patterns)?;
        check_spans(window_ticks, patterns)?;
        miner.window = Some(Window::new(window_ticks, max_events));
        Ok(miner)
    }

    /// Keeps the beginnings of occurrences in at most so many bytes, which count from here on; past that the
    /// oldest are forgotten and counted ([`OnlineStats::forgotten`]).
    pub(super) fn limited_to(mut self, chain_bytes: usize) -> Self {
        self.chain_bytes = chain_bytes;
        self.list = self.list.limited_to(chain_bytes);
        self
    }

    /// Takes one event; false when it is refused, which is counted and changes nothing else.
    ///
    /// Ticks must not descend. Events of one tick may come in any order: none follows another.
    ///
    /// ```
    /// # fn main() -> betz_base::Result<()> {
    /// use betz_episode::online::OnlineMiner;
    /// use betz_episode::{Interval, Pattern};
    ///
    /// let a_then_b = Pattern::new(vec![0, 1], vec![Interval::new(0, 5)?])?;
    /// let mut miner = OnlineMiner::new(2, &[a_then_b])?;
    /// for (tick, symbol) in [(0, 0), (5, 1), (20, 0), (21, 0), (24, 1)] {
    ///     miner.push(tick, symbol);
    /// }
    /// assert_eq!(miner.counts().collect::<Vec<_>>(), [2]); // as counting the whole at once
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn push(&mut self, tick: i64, symbol: u32) -> bool {
        if symbol as usize >= self.symbols || tick.unsigned_abs() >= MAX_TICK as u64 {
            self.stats.invalid += 1;
            return false;
        }
        if self.now.is_some_and(|now| tick < now) {
            self.stats.late += 1;
            return false;
        }
        self.now = Some(tick);
        self.stats.events += 1;
        if let Some(window) = &mut self.window {
            window.push(tick, symbol);
        }
        self.list.observe(tick, symbol);
        true
    }

    /// Takes (tick, symbol) pairs one after the other; how many were taken.
    pub fn extend(&mut self, events: impl IntoIterator<Item = (i64, u32)>) -> u64 {
        let before = self.stats.events;
        for (tick, symbol) in events {
            self.push(tick, symbol);
        }
        self.stats.events - before
    }

    /// Number of symbols.
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// The watched episodes, in the order given.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// The counts, in the order of [`OnlineMiner::patterns`].
    pub fn counts(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        (0..self.patterns.len()).map(|i| self.list.tally(i).count)
    }

    /// The watched episodes with their counts, in the order given.
    pub fn watched(&self) -> Vec<WatchedEpisode> {
        let with_since = self.patterns.iter().zip(&self.since);
        with_since
            .zip(self.counts())
            .map(|((pattern, &since), count)| WatchedEpisode {
                pattern: pattern.clone(),
                since,
                count,
            })
            .collect()
    }

    /// The `limit` watched episodes with the highest counts, highest first; among equals, longer
    /// ones first, then in the order given. A pattern that is watched twice is there once.
    pub fn top(&self, limit: usize) -> Vec<WatchedEpisode> {
        let mut order: Vec<(u64, usize)> = self.counts().zip(0..).collect();
        order.sort_by_key(|&(count, i)| {
            let size = self.patterns[i].size();
            (std::cmp::Reverse(count), std::cmp::Reverse(size), i)
        });
        let mut top: Vec<WatchedEpisode> = Vec::new();
        for (count, i) in order {
            if top.len() == limit {
                break;
            }
            let pattern = &self.patterns[i];
            let same_count = top.iter().rev().take_while(|w| w.count == count);
            if !same_count.into_iter().any(|w| w.pattern == *pattern) {
                top.push(WatchedEpisode {
                    pattern: pattern.clone(),
                    since: self.since[i],
                    count,
                });
            }
        }
        top
    }

    /// The events in the window that newly watched episodes are counted from, as (tick, symbol) in
    /// time order; none without a window. Allocates the list.
    pub fn window_events(&self) -> Vec<(i64, u32)> {
        self.window.iter().flat_map(Window::iter).collect()
    }

    /// Tick of the last event taken.
    pub fn now(&self) -> Option<i64> {
        self.now
    }

    /// Numbers of events taken and refused.
    pub fn stats(&self) -> OnlineStats {
        OnlineStats {
            forgotten: self.stats.forgotten + self.list.forgotten(),
            ..self.stats
        }
    }

    /// Begins anew with the same list: counts and statistics are 0, the window is empty.
    pub fn reset(&mut self) {
        self.list = WatchList::new(self.symbols, &self.patterns).limited_to(self.chain_bytes);
        self.since.fill(None);
        self.now = None;
        self.stats = OnlineStats::default();
        if let Some(window) = &mut self.window {
            window.clear();
        }
    }

    /// Changes the list of episodes.
    ///
    /// An episode that was watched before goes on counting: nothing is lost, nothing counted twice.
    /// A new one is counted from the window's first complete tick on, as if it had been watched since
    /// then: its count is the offline count of the events in the window, and of all that follow;
    /// [`WatchedEpisode::since`] says from where. (An episode that left the list and comes back is new.)
    ///
    /// Takes the time of pushing the window's events once more.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no window, or an episode may last as long as the window;
    /// `Mismatch` for an unknown symbol; `InsufficientData` when the window holds so many events that
    /// it does not span an episode that is to go on, or not even one tick. The list then stays as it was.
    pub fn watch(&mut self, patterns: &[Pattern]) -> Result<()> {
        let Some(window) = &self.window else {
            return Err(Error::argument(
                "the watch list of a miner without a window cannot change: open it with a window",
            ));
        };
        check_symbols(self.symbols, patterns)?;
        check_spans(window.length(), patterns)?;
        let before: HashMap<&Pattern, usize> = self.patterns.iter().zip(0..).collect();
        let kept: Vec<Option<usize>> = patterns.iter().map(|p| before.get(p).copied()).collect();
        let kept_spans = kept.iter().flatten().map(|&i| self.patterns[i].span());
        let longest = kept_spans.max().unwrap_or(0);
        if let (Some(now), Some(from)) = (self.now, window.complete_from())
            && from > now - longest
        {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "window of events: complete for the last {} ticks, expected more than {longest}; allow more events",
                    now - from + 1
                ),
            ));
        }

        let since = window.complete_from();
        let mut list = WatchList::new(self.symbols, patterns).limited_to(self.chain_bytes);
        for (tick, symbol) in window.iter() {
            list.observe(tick, symbol);
        }
        // Chains that started before the window are too old to go on: an episode that is kept needs
        // of its past only what it had counted.
        for (i, old) in kept.iter().enumerate() {
            if let Some(old) = *old {
                list.set_tally(i, self.list.tally(old));
            }
        }
        self.since = (kept.iter())
            .map(|old| old.map_or(since, |i| self.since[i]))
            .collect();
        self.patterns = patterns.to_vec();
        self.stats.forgotten += self.list.forgotten();
        self.list = list;
        Ok(())
    }
}

fn check_symbols(symbols: usize, patterns: &[Pattern]) -> Result<()> {
    for (i, pattern) in patterns.iter().enumerate() {
        if let Some(s) = pattern.symbols().iter().find(|&&s| s as usize >= symbols) {
            return Err(Error::mismatch(format!(
                "watched episode {i} has symbol {s}, but there are {symbols} symbols"
            )));
        }
    }
    Ok(())
}

fn check_spans(window_ticks: i64, patterns: &[Pattern]) -> Result<()> {
    for (i, pattern) in patterns.iter().enumerate() {
        if pattern.span() >= window_ticks {
            return Err(Error::argument(format!(
                "watched episode {i} may last {} ticks: expected less than the window's {window_ticks}",
                pattern.span()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
