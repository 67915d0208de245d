//! A digital line that two sources hear: how far the session's clocks place its changes from each other.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use betz_rigs::rig::MOST_LINES;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

/// Largest distance of a match, in seconds: arrivals are never that wrong.
pub const FARTHEST_SECONDS: f64 = 0.25;
/// Age in seconds at which a change has its match, if there is any: those of the other source have come.
const SETTLED: f64 = 2.0 * FARTHEST_SECONDS;
/// Age in seconds at which a change of the reference is forgotten.
const OLD: f64 = 4.0 * FARTHEST_SECONDS;
/// Changes of a line that are kept, and matches that the report is of.
const CHANGES: usize = 1 << 10;
const MATCHES: usize = 64;
/// Least number of matches: two always lie on some offset.
const LEAST: usize = 3;

/// A line of one source that is also a line of another, as `SOURCE:LINE=SOURCE:LINE` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedLine {
    /// Source and line, from 1, that the other is compared with.
    pub reference: (String, u8),
    /// The other source and its line.
    pub other: (String, u8),
}

impl FromStr for SharedLine {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let side = |side: &str| {
            let (source, line) = side.rsplit_once(':')?;
            let line = line
                .parse()
                .ok()
                .filter(|line| (1..=MOST_LINES).contains(line))?;
            (!source.is_empty()).then(|| (source.to_owned(), line))
        };
        let both = text
            .split_once('=')
            .and_then(|(a, b)| Some((side(a)?, side(b)?)));
        match both {
            Some((reference, other)) if reference.0 != other.0 => Ok(Self { reference, other }),
            Some(_) => Err("expected lines of two sources, got one source twice".into()),
            None => Err(format!(
                "expected SOURCE:LINE=SOURCE:LINE with lines 1 to {MOST_LINES}, such as nsp:1=probe:7"
            )),
        }
    }
}

impl fmt::Display for SharedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(a, at), (b, bt)] = [&self.reference, &self.other];
        write!(f, "{a}:{at}={b}:{bt}")
    }
}

impl Serialize for SharedLine {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SharedLine {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The time of the change of the same direction that is nearest to `at`, and nearer than half the way to the second nearest.
/// `known` are changes in the order of their times, in seconds, with true for those that go up.
pub fn nearest_change(known: &[(f64, bool)], at: f64, is_up: bool) -> Option<f64> {
    let after = known.partition_point(|(time, _)| *time < at);
    let of_direction = |k: &&(f64, bool)| k.1 == is_up;
    let before = known[..after].iter().rev().find(of_direction).map(|k| k.0);
    let after = known[after..].iter().find(of_direction).map(|k| k.0);
    let (best, second) = match (before, after) {
        (Some(before), Some(after)) if at - before <= after - at => (before, Some(after)),
        (Some(before), Some(after)) => (after, Some(before)),
        (before, after) => (before.or(after)?, None),
    };
    // Between two that are about as near, nobody can choose.
    let is_clear = second.is_none_or(|second| (best - at).abs() < 0.5 * (second - at).abs());
    ((best - at).abs() <= FARTHEST_SECONDS && is_clear).then_some(best)
}

/// Distance of two sources by a line that both hear, over its newest 64 matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct SharedLineReport {
    /// Time by which the session places the other source's changes behind those of the reference, in microseconds: the median.
    /// `None` before three matches.
    pub offset_us: Option<f64>,
    /// Largest distance of a match from that, and a row of either source, in microseconds.
    pub error_us: Option<f64>,
    /// Changes of the other source's line that were matched, and those that were not.
    pub matched: u64,
    /// Changes of the other source's line without a match.
    pub unmatched: u64,
    /// Largest distance that the plan allows, in microseconds.
    pub limit_us: f64,
    /// True if offset and error together are beyond that.
    pub is_beyond: bool,
}

/// Changes of a source's line by the host's clock, in seconds.
#[derive(Debug)]
struct LineSide {
    source: usize,
    line: u8,
    epoch: Option<u32>,
    row_seconds: f64,
    changes: Vec<(f64, bool)>,
}

impl LineSide {
    fn new(source: usize, line: u8) -> Self {
        Self {
            source,
            line,
            epoch: None,
            row_seconds: 0.0,
            changes: Vec::with_capacity(CHANGES),
        }
    }

    /// The number of changes before a time, which are the first ones.
    fn before(&self, time: f64) -> usize {
        self.changes.partition_point(|(at, _)| *at < time)
    }
}

/// A change of a line of a source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimedChange {
    pub(crate) source: usize,
    pub(crate) line: u8,
    pub(crate) epoch: u32,
    pub(crate) is_up: bool,
    /// Time by the host's clock, in seconds.
    pub(crate) at: f64,
    /// Length of a row of the source, in seconds.
    pub(crate) row_seconds: f64,
}

/// Follows a shared line while a session runs. Allocates nothing after it was made.
#[derive(Debug)]
pub(crate) struct SharedLineWatch {
    reference: LineSide,
    other: LineSide,
    limit: f64,
    offsets: VecDeque<f64>,
    sorted: Vec<f64>,
    matched: u64,
    unmatched: u64,
}

impl SharedLineWatch {
    /// Follows `line`, whose sources are at places of `sources`; warns beyond `limit` seconds. `None` for another source.
    pub(crate) fn new(line: &SharedLine, limit: f64, sources: &[&str]) -> Option<Self> {
        let side = |(name, line): &(String, u8)| {
            let source = sources.iter().position(|source| source == name)?;
            Some(LineSide::new(source, *line))
        };
        Some(Self {
            reference: side(&line.reference)?,
            other: side(&line.other)?,
            limit,
            offsets: VecDeque::with_capacity(MATCHES),
            sorted: Vec::with_capacity(MATCHES),
            matched: 0,
            unmatched: 0,
        })
    }

    /// Takes note of a change. Those of a source come in the order of their times.
    pub(crate) fn take(&mut self, change: &TimedChange) {
        let place = (change.source, change.line);
        let side = match place {
            _ if place == (self.reference.source, self.reference.line) => &mut self.reference,
            _ if place == (self.other.source, self.other.line) => &mut self.other,
            _ => return,
        };
        side.row_seconds = change.row_seconds;
        if side.epoch.replace(change.epoch) != Some(change.epoch) {
            // Another epoch has another clock.
            side.changes.clear();
            self.offsets.clear();
        }
        if side.changes.len() == CHANGES {
            side.changes.remove(0);
        }
        let at = (side.changes.last()).map_or(change.at, |last| last.0.max(change.at));
        side.changes.push((at, change.is_up));
        self.settle(change.at);
    }

    /// Matches the changes that are old enough at a host time.
    fn settle(&mut self, now: f64) {
        let settled = self.other.before(now - SETTLED);
        for (at, is_up) in self.other.changes.drain(..settled) {
            let Some(reference) = nearest_change(&self.reference.changes, at, is_up) else {
                self.unmatched += 1;
                continue;
            };
            self.matched += 1;
            if self.offsets.len() == MATCHES {
                self.offsets.pop_front();
            }
            self.offsets.push_back(at - reference);
        }
        let old = self.reference.before(now - OLD);
        self.reference.changes.drain(..old);
        self.sorted.clear();
        self.sorted.extend(&self.offsets);
        self.sorted.sort_unstable_by(f64::total_cmp);
    }

    /// Offset and error, both in seconds.
    fn distance(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.sorted.first()?, self.sorted.last()?);
        let offset = self.sorted[self.sorted.len() / 2];
        let spread = (last - offset).max(offset - first);
        let rows = self.reference.row_seconds + self.other.row_seconds;
        (self.sorted.len() >= LEAST).then_some((offset, spread + rows))
    }

    pub(crate) fn report(&self) -> SharedLineReport {
        let distance = self.distance();
        SharedLineReport {
            offset_us: distance.map(|(offset, _)| offset * 1e6),
            error_us: distance.map(|(_, error)| error * 1e6),
            matched: self.matched,
            unmatched: self.unmatched,
            limit_us: self.limit * 1e6,
            is_beyond: distance.is_some_and(|(offset, error)| offset.abs() + error > self.limit),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn shared_lines_are_named() {
        let shared: SharedLine = "nsp:1=probe:7".parse().unwrap();
        assert_eq!(
            (shared.reference.clone(), shared.other.clone()),
            (("nsp".into(), 1), ("probe".into(), 7))
        );
        assert_eq!(shared.to_string(), "nsp:1=probe:7");
        for odd in [
            "",
            "nsp:1",
            "nsp=probe",
            "nsp:0=probe:1",
            "nsp:1=probe:65",
            "nsp:1=nsp:2",
            ":1=b:1",
        ] {
            assert!(odd.parse::<SharedLine>().is_err(), "{odd}");
        }
    }

    #[test]
    fn a_change_that_two_others_are_near_to_is_not_matched() {
        let known = [(0.0, true), (0.1, false), (1.0, true), (2.0, true)];
        assert_eq!(nearest_change(&known, 0.98, true), Some(1.0));
        assert_eq!(
            nearest_change(&known, 0.98, false),
            None,
            "farther than arrivals are wrong"
        );
        assert_eq!(nearest_change(&known, 0.12, false), Some(0.1));
        let close = [(0.0, true), (0.02, true)];
        assert_eq!(nearest_change(&close, 0.009, true), None);
        assert_eq!(nearest_change(&[], 0.0, true), None);
    }

    /// Pulses of half a second at the reference, and `offset` later at the other source, which misses every `missing`th change.
    /// The two arrive in any order.
    fn follow(offset: f64, wander: f64, missing: usize) -> SharedLineReport {
        let line = "a:1=b:2".parse().unwrap();
        let mut watch = SharedLineWatch::new(&line, 1e-3, &["a", "b"]).unwrap();
        for k in 0..200_usize {
            let at = 5.0 + 0.5 * k as f64;
            let mut change = TimedChange {
                source: 0,
                line: 1,
                epoch: 0,
                is_up: k % 2 == 0,
                at,
                row_seconds: 1e-4,
            };
            let own = TimedChange {
                source: 1,
                line: 2,
                at: at + offset + wander * ((k % 3) as f64 - 1.0),
                ..change
            };
            let is_missing = missing > 0 && k % missing == 0;
            if k % 5 == 0 && !is_missing {
                watch.take(&own);
            }
            watch.take(&change);
            if k % 5 != 0 && !is_missing {
                watch.take(&own);
            }
            // Other lines and sources say nothing.
            change.line = 9;
            watch.take(&change);
        }
        watch.report()
    }

    #[test]
    fn the_offset_of_a_line_and_its_error_are_exact_and_warned_of_beyond_the_limit() {
        for (offset, wander, missing, is_beyond) in [
            (0.0, 0.0, 0, false),
            (0.0002, 0.0001, 0, false),
            (-0.0006, 0.0001, 7, false),
            (0.0006, 0.0003, 0, true),
            (-0.02, 0.0001, 0, true),
            (0.0, 0.0009, 4, true),
        ] {
            let told = follow(offset, wander, missing);
            let (at, error) = (told.offset_us.unwrap(), told.error_us.unwrap());
            assert!((at - 1e6 * offset).abs() < 0.01, "{told:?}");
            assert!((error - 1e6 * wander - 200.0).abs() < 0.01, "{told:?}");
            assert_eq!(told.is_beyond, is_beyond, "{told:?}");
            let changes = match missing {
                0 => 200,
                missing => 200 - 200_u64.div_ceil(missing as u64),
            };
            // The last ones are too young to be matched.
            assert!((changes - 2..=changes).contains(&told.matched), "{told:?}");
            assert_eq!(told.unmatched, 0);
        }
    }

    #[test]
    fn lines_that_hear_other_pulses_have_no_offset_and_a_new_epoch_begins_anew() {
        let far = follow(0.26, 0.0, 0);
        assert_eq!((far.offset_us, far.matched), (None, 0));
        assert!(far.unmatched > 190 && !far.is_beyond, "{far:?}");
        let line = "a:1=b:2".parse().unwrap();
        assert!(SharedLineWatch::new(&line, 1e-3, &["a", "c"]).is_none());
        let mut watch = SharedLineWatch::new(&line, 1e-3, &["a", "b"]).unwrap();
        let mut pulse = |k: u32, epoch: u32, offset: f64| {
            for (source, at) in [(0, f64::from(k)), (1, f64::from(k) + offset)] {
                watch.take(&TimedChange {
                    source,
                    line: 1 + source as u8,
                    epoch: if source == 1 { epoch } else { 0 },
                    is_up: true,
                    at,
                    row_seconds: 0.0,
                });
            }
            watch.report().offset_us.map(f64::round)
        };
        (0..10).for_each(|k| {
            pulse(k, 0, 0.005);
        });
        assert_eq!(pulse(10, 0, 0.005), Some(5000.0));
        assert_eq!(pulse(11, 1, 0.001), None);
        (12..16).for_each(|k| {
            pulse(k, 1, 0.001);
        });
        assert_eq!(pulse(16, 1, 0.001), Some(1000.0));
    }
}
