//! Serial episodes: an ordered list of symbols, a delay interval on each edge; and their text.

use std::fmt;
use std::path::Path;

use crate::alphabet::Alphabet;
use crate::clock::{Clock, MAX_TICK};
use crate::csv::{decode_text, without_mark};
use crate::events::Events;
use crate::label::read_label;
use betz_base::error::{Error, Result};
use betz_base::file::read_all;

/// Delays Δ with `low < Δ <= high`, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interval {
    /// Excluded lower bound; at least 0, so that order is strict.
    pub low: i64,
    /// Included upper bound; above `low`.
    pub high: i64,
}

impl Interval {
    /// The interval (low, high] in ticks.
    ///
    /// # Errors
    /// `InvalidArgument` unless 0 ≤ low < high < 2⁶¹.
    pub fn new(low: i64, high: i64) -> Result<Self> {
        let interval = Self { low, high };
        interval.check()?;
        Ok(interval)
    }

    /// Checks the bounds, which anybody can set.
    pub(super) fn check(&self) -> Result<()> {
        let Self { low, high } = *self;
        if low < 0 || high <= low || high >= MAX_TICK {
            return Err(Error::argument(format!(
                "interval ({low}, {high}] ticks: expected 0 <= low < high"
            )));
        }
        Ok(())
    }

    /// The interval (low, high] in seconds, on `clock`.
    ///
    /// # Errors
    /// `InvalidArgument` unless 0 ≤ low < high, both finite, with at least one tick inside.
    ///
    /// ```
    /// # fn main() -> betz_base::Result<()> {
    /// use betz_episode::{Clock, Interval};
    ///
    /// let clock = Clock::from_tick_seconds(0.001)?;
    /// let interval = Interval::from_seconds(0.004, 0.006, clock)?; // (4, 6] ms
    /// assert!(!interval.contains(4) && interval.contains(5) && interval.contains(6));
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_seconds(low: f64, high: f64, clock: Clock) -> Result<Self> {
        if !(low >= 0.0 && low < high && high.is_finite()) {
            return Err(Error::argument(format!(
                "interval ({low}, {high}] s: expected finite seconds with 0 <= low < high"
            )));
        }
        let ticks = Self::new(clock.ticks_floor(low)?, clock.ticks_floor(high)?);
        ticks.map_err(|_| {
            Error::argument(format!(
                "interval ({low}, {high}] s: expected a whole tick of {} s in it, got no whole tick",
                clock.tick_seconds()
            ))
        })
    }

    /// True when `delay` is inside.
    pub fn contains(&self, delay: i64) -> bool {
        self.low < delay && delay <= self.high
    }
}

/// A serial episode.
///
/// `intervals[k]` lies between `symbols[k]` and `symbols[k + 1]`; symbols may repeat. Ordered by
/// symbols first, then intervals, which puts patterns with a common prefix side by side only among
/// equal intervals; see [`Pattern::prefix_key`] for an order that does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern {
    symbols: Vec<u32>,
    intervals: Vec<Interval>,
}

/// An episode with its count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Episode {
    /// The episode.
    pub pattern: Pattern,
    /// Its number of occurrences: non-overlapped ones, unless another [`Frequency`](crate::Frequency) was asked for.
    pub count: u64,
}

/// Most symbols of an episode. Counting goes one level deeper for each, and strategies that follow every
/// partial occurrence take time by their square.
pub const MAX_SYMBOLS: usize = 256;

/// The first words of a long text, for messages.
pub(crate) fn excerpt(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?} …", &text[..end]),
        None => format!("{text:?}"),
    }
}

impl Pattern {
    /// A pattern of `symbols` with `intervals` on its edges.
    ///
    /// # Errors
    /// `InvalidArgument` for no symbol, more than [`MAX_SYMBOLS`], or as [`Interval::new`]; `Mismatch` if the number of
    /// intervals is not the number of symbols less one, or their sum is 2⁶¹ ticks or more.
    pub fn new(symbols: Vec<u32>, intervals: Vec<Interval>) -> Result<Self> {
        if symbols.is_empty() {
            return Err(Error::argument("an episode needs at least one symbol"));
        }
        if symbols.len() > MAX_SYMBOLS {
            return Err(Error::argument(format!(
                "an episode: expected at most {MAX_SYMBOLS} symbols, got {}",
                symbols.len()
            )));
        }
        if intervals.len() + 1 != symbols.len() {
            return Err(Error::mismatch(format!(
                "an episode of {} symbols needs {} intervals, got {}",
                symbols.len(),
                symbols.len() - 1,
                intervals.len()
            )));
        }
        for interval in &intervals {
            interval.check()?;
        }
        let span = intervals
            .iter()
            .try_fold(0_i64, |sum, i| sum.checked_add(i.high));
        if span.is_none_or(|s| s >= MAX_TICK) {
            return Err(Error::mismatch("an episode's intervals add up to too much"));
        }
        Ok(Self { symbols, intervals })
    }

    /// `symbols` with the same interval on every edge.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn uniform(symbols: Vec<u32>, interval: Interval) -> Result<Self> {
        let edges = symbols.len().saturating_sub(1);
        Self::new(symbols, vec![interval; edges])
    }

    /// The symbols, first to last.
    pub fn symbols(&self) -> &[u32] {
        &self.symbols
    }

    /// The intervals, one per edge.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Number of symbols ("nodes").
    pub fn size(&self) -> usize {
        self.symbols.len()
    }

    /// The longest that an occurrence can last, in ticks: Σ high.
    pub fn span(&self) -> i64 {
        self.intervals.iter().map(|i| i.high).sum()
    }

    /// The first symbol, then (interval, symbol) for each edge: sorting by this puts patterns that
    /// share a prefix next to each other.
    pub fn prefix_key(&self) -> impl Iterator<Item = (Interval, u32)> + '_ {
        const NONE: Interval = Interval { low: 0, high: 0 };
        std::iter::once(NONE)
            .chain(self.intervals.iter().copied())
            .zip(self.symbols.iter().copied())
    }

    /// The indices of `patterns`, sorted by [`Pattern::prefix_key`].
    pub(crate) fn prefix_order(patterns: &[Self]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..patterns.len()).collect();
        order.sort_by(|&a, &b| patterns[a].prefix_key().cmp(patterns[b].prefix_key()));
        order
    }

    /// [`Pattern::prefix_key`] of the pattern without its first `skip` symbols.
    pub(crate) fn suffix_key(&self, skip: usize) -> impl Iterator<Item = (Interval, u32)> + '_ {
        const NONE: Interval = Interval { low: 0, high: 0 };
        std::iter::once(NONE)
            .chain(self.intervals.iter().skip(skip).copied())
            .zip(self.symbols.iter().skip(skip).copied())
    }

    /// This pattern and the last symbol of `tail`, which begins with all but this one's first.
    pub(crate) fn joined(&self, tail: &Self) -> Result<Self> {
        let symbols = self.symbols.iter().chain(tail.symbols.last());
        let intervals = self.intervals.iter().chain(tail.intervals.last());
        Self::new(symbols.copied().collect(), intervals.copied().collect())
    }

    /// The pattern without its last symbol; `None` when nothing would be left.
    pub fn without_last(&self) -> Option<Self> {
        let last = self.size() - 1;
        (last > 0).then(|| Self {
            symbols: self.symbols[..last].to_vec(),
            intervals: self.intervals[..last - 1].to_vec(),
        })
    }

    /// The pattern without its first symbol; `None` when nothing would be left.
    pub fn without_first(&self) -> Option<Self> {
        (self.size() > 1).then(|| Self {
            symbols: self.symbols[1..].to_vec(),
            intervals: self.intervals[1..].to_vec(),
        })
    }

    /// Reads a pattern: labels separated by blanks, each edge either written out as
    /// `a3 -(0.004,0.006]-> a5` (seconds), or left out (or `->`), which takes `default`.
    ///
    /// A label may stand in quotes, and must if it would be misread: `"left 3"` (a blank), `"a->b"`
    /// or `"a-(b"` (an edge), `"#3"` (a comment, in a file), `""`, and one that begins with a quote.
    /// Inside quotes `\"`, `\\`, `\n` and `\r` are a quote, a backslash, and ends of lines.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the part that is not understood, the label that is not in
    /// `alphabet`, or the edge that has no interval.
    ///
    /// ```
    /// # fn main() -> betz_base::Result<()> {
    /// use betz_episode::{Alphabet, Clock, Pattern};
    ///
    /// let clock = Clock::from_tick_seconds(0.001)?;
    /// let alphabet = Alphabet::new(vec!["a3".into(), "left 3".into()], clock)?;
    /// let text = "a3 -(0.004,0.006]-> \"left 3\"";
    /// let pattern = Pattern::parse(text, &alphabet, None)?;
    /// assert_eq!(pattern.symbols(), [0, 1]);
    /// assert_eq!(pattern.display(&alphabet).to_string(), text);
    /// # Ok(())
    /// # }
    /// ```
    pub fn parse(text: &str, alphabet: &Alphabet, default: Option<Interval>) -> Result<Self> {
        let named = || format!("episode {}", excerpt(text));
        let mut symbols = Vec::new();
        let mut intervals = Vec::new();
        let mut edge: Option<Option<Interval>> = None;
        let mut rest = text.trim();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("-(") {
                let Some((bounds, after)) = after.split_once("]->") else {
                    return Err(Error::argument(format!(
                        "{}: expected an edge `-(low,high]->`, got {}",
                        named(),
                        excerpt(rest)
                    )));
                };
                refuse_edge(text, &symbols, edge)?;
                edge = Some(Some(parse_interval(bounds, alphabet.clock()).map_err(
                    |e| e.at(format!("{}, edge {}", named(), symbols.len())),
                )?));
                rest = after.trim_start();
            } else if let Some(after) = rest.strip_prefix("->") {
                refuse_edge(text, &symbols, edge)?;
                edge = Some(None);
                rest = after.trim_start();
            } else {
                let (label, after) = read_label(rest).map_err(|e| e.at(named()))?;
                let symbol = alphabet.symbol(&label).ok_or_else(|| {
                    Error::argument(format!(
                        "{}: no label {}: {}",
                        named(),
                        excerpt(&label),
                        alphabet.instead_of(&label)
                    ))
                })?;
                if !symbols.is_empty() {
                    let interval = edge.take().flatten().or(default).ok_or_else(|| {
                        Error::argument(format!(
                            "{}: the edge before {} has no interval, and none is given for all edges",
                            named(),
                            excerpt(&label)
                        ))
                    })?;
                    intervals.push(interval);
                }
                symbols.push(symbol);
                rest = after.trim_start();
            }
        }
        if edge.is_some() {
            return Err(Error::argument(format!(
                "{}: expected a label after the last edge, got none",
                named()
            )));
        }
        Self::new(symbols, intervals).map_err(|e| e.at(named()))
    }

    /// The text form, which [`Pattern::parse`] reads back to an equal pattern.
    pub fn display<'a>(&'a self, alphabet: &'a Alphabet) -> impl fmt::Display + 'a {
        Text {
            pattern: self,
            alphabet,
        }
    }

    /// Checks that `events` can hold this pattern: its symbols exist, and no interval is so long
    /// that it would reach across the gap between a recording's segments.
    ///
    /// # Errors
    /// `Mismatch`, naming the symbol or the interval.
    pub fn check(&self, events: &Events) -> Result<()> {
        self.check_in(events.alphabet(), events.segment_gap())
    }

    /// As [`check`](Self::check), for events of `alphabet` whose segments lie `gap` ticks apart.
    pub(crate) fn check_in(&self, alphabet: &Alphabet, gap: Option<i64>) -> Result<()> {
        let symbols = alphabet.len();
        if let Some(s) = self.symbols.iter().find(|&&s| s as usize >= symbols) {
            return Err(Error::mismatch(format!(
                "an episode has symbol {s}, but there are {symbols} symbols"
            )));
        }
        gap.map_or(Ok(()), |gap| self.check_gap(gap, alphabet.clock()))
    }

    /// Checks that no interval reaches across the `gap` between segments.
    pub(crate) fn check_gap(&self, gap: i64, clock: Clock) -> Result<()> {
        if let Some(i) = self.intervals.iter().find(|i| i.high >= gap) {
            return Err(Error::mismatch(format!(
                "interval ({}, {}] s is too long for a recording of several segments: expected less than {} s",
                clock.seconds(i.low),
                clock.seconds(i.high),
                clock.seconds(gap)
            )));
        }
        Ok(())
    }
}

/// An edge may not open the episode, nor follow another edge.
fn refuse_edge(text: &str, symbols: &[u32], edge: Option<Option<Interval>>) -> Result<()> {
    if symbols.is_empty() || edge.is_some() {
        return Err(Error::argument(format!(
            "episode {}: expected a label before an edge, got none",
            excerpt(text)
        )));
    }
    Ok(())
}

fn parse_interval(bounds: &str, clock: Clock) -> Result<Interval> {
    let number = |t: &str| {
        t.trim()
            .parse::<f64>()
            .map_err(|_| Error::argument(format!("expected `low,high` in seconds, got {bounds:?}")))
    };
    let (low, high) = bounds.split_once(',').ok_or_else(|| {
        Error::argument(format!("expected `low,high` in seconds, got {bounds:?}"))
    })?;
    Interval::from_seconds(number(low)?, number(high)?, clock)
}

struct Text<'a> {
    pattern: &'a Pattern,
    alphabet: &'a Alphabet,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = self.alphabet.clock();
        for (i, (interval, symbol)) in self.pattern.prefix_key().enumerate() {
            if i > 0 {
                let (low, high) = (clock.seconds(interval.low), clock.seconds(interval.high));
                write!(f, " -({low},{high}]-> ")?;
            }
            f.write_str(&self.alphabet.written(symbol))?;
        }
        Ok(())
    }
}

/// Reads a list of episodes, one per line in the form of [`Pattern::parse`]; blank lines and lines
/// that begin with `#` are skipped, and so is a byte order mark; lines that are not UTF-8 are Latin-1.
/// `-` is standard input. The order of the file is kept.
///
/// # Errors
/// `Io` when the file cannot be read; `InvalidArgument` with the line number for a line that is not
/// understood; `InsufficientData` when there is no episode.
pub fn read_patterns(
    path: &Path,
    alphabet: &Alphabet,
    default: Option<Interval>,
) -> Result<Vec<Pattern>> {
    read_lines(path, |line| Pattern::parse(line, alphabet, default))
}

/// Reads a list, one episode per line by `parse`.
pub(crate) fn read_lines<T>(path: &Path, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let text = read_all(path, None)?;
    let text = without_mark(&text).map_err(|e| e.at(path.display()))?;
    let mut episodes = Vec::new();
    for (i, line) in text.split(|&b| b == b'\n').enumerate() {
        let line = decode_text(line);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let episode =
            parse(line).map_err(|e| e.at(format!("{}, line {}", path.display(), i + 1)))?;
        episodes.push(episode);
    }
    if episodes.is_empty() {
        return Err(Error::new(
            betz_base::ErrorKind::InsufficientData,
            format!("{}: no episodes, expected one per line", path.display()),
        ));
    }
    Ok(episodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alphabet(tick: f64) -> Alphabet {
        let labels = ["a3", "a5", "e-5", "b"].map(String::from).to_vec();
        Alphabet::new(labels, Clock::from_tick_seconds(tick).unwrap()).unwrap()
    }

    #[test]
    fn text_goes_round() {
        for tick in [1e-12, 1e-9, 1e-5, 1.0 / 30_000.0, 1.0 / 24_414.062_5, 1e-3] {
            let alphabet = alphabet(tick);
            for (low, high) in [(4, 6), (0, 5), (5, 10), (1, 1_000_003), (7, 123_456)] {
                let interval = Interval::new(low, high).unwrap();
                let pattern = Pattern::uniform(vec![0, 1, 2, 0], interval).unwrap();
                let text = pattern.display(&alphabet).to_string();
                assert_eq!(
                    Pattern::parse(&text, &alphabet, None).unwrap(),
                    pattern,
                    "{text} at {tick}"
                );
            }
        }
        let alphabet = alphabet(1e-12);
        let text = "a3 -(0.004,0.006]-> a5 -(0,0.01]-> e-5";
        let pattern = Pattern::parse(text, &alphabet, None).unwrap();
        assert_eq!(
            pattern.intervals()[0],
            Interval {
                low: 4_000_000_000,
                high: 6_000_000_000
            }
        );
        assert_eq!(pattern.display(&alphabet).to_string(), text);
    }

    #[test]
    fn any_label_goes_round() {
        let labels = [
            "left 3",
            "->",
            "a->b",
            "a-(b",
            "#3",
            "",
            "\"",
            "\"q\"",
            "\\",
            "\\n",
            "two\nlines\r",
            " ",
            "a\u{a0}b",
            "x#",
            "b,\"c",
            "-",
            ">",
            "(0,1]",
            "a-",
            "\\\"",
        ];
        let clock = Clock::from_tick_seconds(1e-3).unwrap();
        let alphabet = Alphabet::new(labels.map(String::from).to_vec(), clock).unwrap();
        let edge = Interval::new(4, 6).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        let mut list = Vec::new();
        for a in 0..labels.len() as u32 {
            for b in 0..labels.len() as u32 {
                let pattern = Pattern::uniform(vec![a, b, a], edge).unwrap();
                let text = pattern.display(&alphabet).to_string();
                assert_eq!(
                    Pattern::parse(&text, &alphabet, None).unwrap(),
                    pattern,
                    "{text}"
                );
                let close = text.replace("] ", "]").replace("-> ", "->");
                if !labels[a as usize].contains("-> ") {
                    assert_eq!(
                        Pattern::parse(&close, &alphabet, None).unwrap(),
                        pattern,
                        "{close}"
                    );
                }
                list.push((text, pattern));
            }
        }
        let text: Vec<&str> = list.iter().map(|(t, _)| t.as_str()).collect();
        std::fs::write(&path, text.join("\n")).unwrap();
        let read = read_patterns(&path, &alphabet, None).unwrap();
        assert!(read.iter().eq(list.iter().map(|(_, p)| p)));
        for (text, part) in [
            ("\"left 3", "a quote that closes it"),
            ("\"left 3\"x", "a blank or an edge after"),
            ("\"a\\x\"", "after a backslash"),
            ("left 3", "no label \"left\""),
        ] {
            let error = Pattern::parse(text, &alphabet, None).unwrap_err();
            assert!(error.message().contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn bounds_are_checked_whoever_has_set_them() {
        for (low, high) in [(-1, 5), (5, 5), (0, MAX_TICK)] {
            let refused = Pattern::new(vec![0, 1], vec![Interval { low, high }]);
            assert_eq!(
                refused.unwrap_err().kind(),
                betz_base::ErrorKind::InvalidArgument
            );
        }
    }

    #[test]
    fn edges_may_be_left_out() {
        let alphabet = alphabet(1e-3);
        let default = Interval::new(0, 5).unwrap();
        let own = Interval::new(4, 6).unwrap();
        for text in ["a3 a5 -(0.004,0.006]-> b", "a3->a5-( 0.004 , 0.006 ]->b"] {
            let pattern = Pattern::parse(text, &alphabet, Some(default)).unwrap();
            assert_eq!(pattern.symbols(), [0, 1, 3]);
            assert_eq!(pattern.intervals(), [default, own]);
        }
        assert_eq!(Pattern::parse(" b ", &alphabet, None).unwrap().size(), 1);
    }

    #[test]
    fn nonsense_is_refused() {
        let alphabet = alphabet(1e-3);
        for (text, part) in [
            ("", "at least one symbol"),
            (
                "a3 zz",
                "no label \"zz\": expected one of 4 (a3, a5, e-5, b)",
            ),
            ("a3 e-55", "did you mean \"e-5\"?"),
            ("a3 a5", "no interval"),
            ("a3 -(0,0.01]->", "a label after"),
            ("-(0,0.01]-> a3", "a label before"),
            ("a3 -> -> a5", "a label before"),
            ("a3 -(0.01,0.01]-> a5", "0 <= low < high"),
            ("a3 -(-0.01,0.01]-> a5", "0 <= low < high"),
            ("a3 -(0,nan]-> a5", "0 <= low < high"),
            ("a3 -(0.0001,0.0002]-> a5", "no whole tick"),
            ("a3 -(x,0.01]-> a5", "low,high"),
            ("a3 -(0.01]-> a5", "low,high"),
            ("a3 -(0,0.01) a5", "expected an edge"),
        ] {
            let error = Pattern::parse(text, &alphabet, None).unwrap_err();
            assert!(error.message().contains(part), "{text:?}: {error}");
        }
    }
}
