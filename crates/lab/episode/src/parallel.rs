//! Parallel episodes: symbols that occur in any order within a span (Mannila, Toivonen and Verkamo 1997).
//!
//! Events are followed tick by tick. The latest occurrence that ends by a tick takes the latest events of every symbol, as
//! many as the episode has of it, and starts with the earliest of these. Latest starts do not decrease from tick to tick,
//! which gives all three counts in one pass, as for serial episodes.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use rayon::prelude::*;

use crate::alphabet::Alphabet;
use crate::clock::MAX_TICK;
use crate::events::Events;
use crate::frequency::Frequency;
use crate::label::read_label;
use crate::pattern::{MAX_SYMBOLS, excerpt, read_lines};
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};

/// A parallel episode: a multiset of symbols, and the longest time from its first to its last event.
///
/// An occurrence takes one event for each symbol. Of a symbol that repeats, it takes events of as many different ticks.
/// Events of different symbols may lie in one tick.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParallelEpisode {
    /// In ascending order.
    symbols: Vec<u32>,
    span: i64,
}

/// The first and the last tick of an occurrence.
struct Occurrence {
    start: i64,
    end: i64,
}

impl ParallelEpisode {
    /// The episode of `symbols`, in any order, whose first and last events are at most `span` ticks apart.
    ///
    /// # Errors
    /// `InvalidArgument` for no symbol, more than [`MAX_SYMBOLS`], or a span outside 0 to 2⁶¹.
    pub fn new(mut symbols: Vec<u32>, span: i64) -> Result<Self> {
        if symbols.is_empty() || symbols.len() > MAX_SYMBOLS {
            return Err(Error::argument(format!(
                "a parallel episode: expected 1 to {MAX_SYMBOLS} symbols, got {}",
                symbols.len()
            )));
        }
        if !(0..MAX_TICK).contains(&span) {
            return Err(Error::argument(format!(
                "a parallel episode: expected a span of 0 to 2^61 ticks, got {span}"
            )));
        }
        symbols.sort_unstable();
        Ok(Self { symbols, span })
    }

    /// The symbols, in ascending order.
    pub fn symbols(&self) -> &[u32] {
        &self.symbols
    }

    /// Most ticks from the first to the last event of an occurrence.
    pub fn span(&self) -> i64 {
        self.span
    }

    /// Reads `{A B C} within 0.02`: labels in any order, and the span in seconds. Labels may stand in quotes, as in
    /// [`Pattern::parse`](crate::Pattern::parse).
    ///
    /// # Errors
    /// `InvalidArgument`, naming the part that is not understood or the label that is not in `alphabet`.
    pub fn parse(text: &str, alphabet: &Alphabet) -> Result<Self> {
        let text = text.trim();
        let error = |expected: &str, got: &str| {
            Error::argument(format!(
                "parallel episode {}: expected {expected}, got {}",
                excerpt(text),
                excerpt(got)
            ))
        };
        let form = "`{A B C} within SECONDS`";
        let braced = text
            .strip_prefix('{')
            .and_then(|rest| rest.rsplit_once('}'));
        let (mut labels, tail) = braced.ok_or_else(|| error(form, text))?;
        let seconds = tail.trim_start().strip_prefix("within");
        let seconds = seconds.filter(|s| s.starts_with(char::is_whitespace));
        let seconds = seconds.ok_or_else(|| error("`within SECONDS` after the labels", tail))?;
        let span = (seconds.trim().parse::<f64>().ok())
            .filter(|s| s.is_finite() && *s >= 0.0)
            .ok_or_else(|| error("seconds of at least 0 after `within`", seconds.trim()))?;
        let mut symbols = Vec::new();
        labels = labels.trim();
        while !labels.is_empty() {
            let (label, rest) = read_label(labels)
                .map_err(|e| e.at(format!("parallel episode {}", excerpt(text))))?;
            if !(rest.is_empty() || rest.starts_with(char::is_whitespace)) {
                return Err(error("labels with blanks between them", labels));
            }
            let symbol = alphabet
                .symbol(&label)
                .ok_or_else(|| error(&alphabet.instead_of(&label), &label))?;
            symbols.push(symbol);
            labels = rest.trim_start();
        }
        let ticks = alphabet.clock().ticks_floor(span);
        ticks
            .and_then(|span| Self::new(symbols, span))
            .map_err(|e| e.at(format!("parallel episode {}", excerpt(text))))
    }

    /// The text form, which [`ParallelEpisode::parse`] reads back.
    pub fn display<'a>(&'a self, alphabet: &'a Alphabet) -> impl fmt::Display + 'a {
        let labels = self.symbols.iter().map(|&s| alphabet.written(s));
        let labels = labels.collect::<Vec<_>>().join(" ");
        format!(
            "{{{labels}}} within {}",
            alphabet.clock().seconds(self.span)
        )
    }

    /// Checks that `events` can hold this episode: its symbols exist, and its span is shorter than the gap between a
    /// recording's segments.
    ///
    /// # Errors
    /// `Mismatch`, naming the symbol or the span.
    pub fn check(&self, events: &Events) -> Result<()> {
        let known = events.symbols();
        if let Some(s) = self.symbols.iter().find(|&&s| s as usize >= known) {
            return Err(Error::mismatch(format!(
                "a parallel episode has symbol {s}, but there are {known} symbols"
            )));
        }
        match events.segment_gap() {
            Some(gap) if self.span >= gap => {
                let clock = events.clock();
                Err(Error::mismatch(format!(
                    "within {} s is too long for a recording of several segments: expected less than {} s",
                    clock.seconds(self.span),
                    clock.seconds(gap)
                )))
            }
            _ => Ok(()),
        }
    }

    /// The number of occurrences.
    fn count(&self, events: &Events, frequency: Frequency) -> Result<u64> {
        Ok(match frequency {
            Frequency::NonOverlapped => {
                let mut count = 0;
                let mut last = None;
                // The earliest end leaves the most room for the rest.
                self.visit_latest(events, self.span, |o| {
                    if last.is_none_or(|last| last < o.start) {
                        last = Some(o.end);
                        count += 1;
                    }
                });
                count
            }
            Frequency::Minimal { span } => {
                let mut count = 0;
                let mut last = None;
                // The first end of each start is the minimal one.
                let span = span.map_or(self.span, |span| span.min(self.span));
                self.visit_latest(events, span, |o| {
                    count += u64::from(last != Some(o.start));
                    last = Some(o.start);
                });
                count
            }
            Frequency::Windows { width } => {
                let mut count = 0;
                let mut counted_to = i64::MIN;
                // The number of ticks in the union of all (end − width, start].
                self.visit_latest(events, self.span.min(width - 1), |o| {
                    count += (o.start - counted_to.max(o.end - width)).max(0) as u64;
                    counted_to = o.start;
                });
                count
            }
            Frequency::Distinct | Frequency::Total { .. } => {
                return Err(undefined(frequency));
            }
        })
    }

    /// Calls `visit` with the latest start for every tick that ends an occurrence of at most `span` ticks, in ascending
    /// order.
    fn visit_latest(&self, events: &Events, span: i64, mut visit: impl FnMut(Occurrence)) {
        struct Kind<'e> {
            ticks: Cow<'e, [i64]>,
            /// Number of events that an occurrence takes.
            needed: usize,
            /// Number of ticks so far.
            passed: usize,
        }
        let same = self.symbols.chunk_by(|a, b| a == b);
        let mut kinds: Vec<Kind<'_>> = same
            .map(|same| {
                let ticks = events.ticks_of(same[0]);
                let ticks = match ticks.windows(2).all(|pair| pair[0] < pair[1]) {
                    true => Cow::Borrowed(ticks),
                    false => {
                        let mut once = ticks.to_vec();
                        once.dedup();
                        Cow::Owned(once)
                    }
                };
                Kind {
                    ticks,
                    needed: same.len(),
                    passed: 0,
                }
            })
            .collect();
        loop {
            let next = kinds.iter().filter_map(|k| k.ticks.get(k.passed)).min();
            let Some(&end) = next else {
                return;
            };
            let mut start = Some(end);
            for kind in &mut kinds {
                kind.passed += usize::from(kind.ticks.get(kind.passed) == Some(&end));
                let first = kind.passed.checked_sub(kind.needed).map(|i| kind.ticks[i]);
                start = start.zip(first).map(|(a, b)| a.min(b));
            }
            if let Some(start) = start.filter(|start| end - start <= span) {
                visit(Occurrence { start, end });
            }
        }
    }
}

/// The refusal of a frequency that has no definition for parallel episodes.
fn undefined(frequency: Frequency) -> Error {
    Error::argument(format!(
        "{}: not defined for parallel episodes; expected non-overlapped, minimal or windows",
        frequency.name()
    ))
}

impl Frequency {
    /// Checks that this frequency is defined for parallel episodes.
    ///
    /// # Errors
    /// `InvalidArgument` for distinct occurrences and total frequency, which are defined by the order of an episode.
    pub fn check_parallel(self) -> Result<()> {
        match self {
            Self::NonOverlapped | Self::Minimal { .. } | Self::Windows { .. } => Ok(()),
            Self::Distinct | Self::Total { .. } => Err(undefined(self)),
        }
    }

    /// Counts parallel episodes by this definition, in rayon's current threads.
    ///
    /// # Errors
    /// As [`check_parallel`](Self::check_parallel), [`check`](Self::check) and [`ParallelEpisode::check`];
    /// `Interrupted` if `progress` says so.
    ///
    /// ```
    /// use betz_episode::{Alphabet, Clock, Events, Frequency, ParallelEpisode};
    ///
    /// # fn main() -> betz_base::Result<()> {
    /// let alphabet = Alphabet::new(vec!["A".into(), "B".into()], Clock::from_tick_seconds(0.001)?)?;
    /// //                             A  B  B  A
    /// let events = Events::new(alphabet, &[0, 1, 5, 7], &[0, 1, 1, 0])?;
    /// let both = [ParallelEpisode::new(vec![1, 0], 2)?];
    /// let count = |frequency: Frequency| frequency.count_parallel(&events, &both, &());
    /// assert_eq!(count(Frequency::NonOverlapped)?, [2]); // 0 → 1 and 5 → 7
    /// assert_eq!(count(Frequency::Windows { width: 3 })?, [3]); // from tick −1, 0 and 5
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_parallel(
        self,
        events: &Events,
        episodes: &[ParallelEpisode],
        progress: &dyn Progress,
    ) -> Result<Vec<u64>> {
        self.check_parallel()?;
        self.check(events)?;
        let count = |episode: &ParallelEpisode| {
            progress::check(progress, "counting")?;
            episode.check(events)?;
            episode.count(events, self)
        };
        episodes.par_iter().map(count).collect()
    }
}

/// Reads a list of parallel episodes, one per line in the form of [`ParallelEpisode::parse`], as
/// [`read_patterns`](crate::read_patterns) reads serial ones.
///
/// # Errors
/// As [`read_patterns`](crate::read_patterns).
pub fn read_parallel(path: &Path, alphabet: &Alphabet) -> Result<Vec<ParallelEpisode>> {
    read_lines(path, |line| ParallelEpisode::parse(line, alphabet))
}
