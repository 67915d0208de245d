//! Counts of one chunk of time, and the counts that all chunks make together.

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Progress;
use betz_base::team::Shard;

use super::ShardEvents;
use crate::alphabet::Alphabet;
use crate::clock::Clock;
use crate::count::greedy::GreedyChoice;
use crate::count::passage::Passage;
use crate::pattern::{Episode, Pattern};

/// The counts of given episodes in one shard of a recording's time, as a function of the past.
#[derive(Debug, Clone)]
pub struct CountPart {
    /// Its name in messages.
    pub(super) name: String,
    pub(super) shard: Shard,
    pub(super) whole: Whole,
    /// First tick of the recording in it, and first after it.
    pub(super) ticks: (i64, i64),
    pub(super) events: u64,
    pub(super) passages: Vec<Passage>,
}

/// The facts that all shards share.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    pub(super) recording: u64,
    pub(super) tick_seconds: f64,
    pub(super) ticks: i64,
    pub(super) segments: u64,
    pub(super) labels: Vec<String>,
    pub(super) patterns: Vec<Pattern>,
}

/// Counts over a whole recording.
#[derive(Debug, Clone)]
pub struct JoinedCounts {
    /// Labels and clock.
    pub alphabet: Alphabet,
    /// The episodes in their file's order, with their counts.
    pub episodes: Vec<Episode>,
    /// Events of the recording.
    pub events: u64,
}

impl CountPart {
    /// Counts `patterns` in `events`, the `shard` of the recording with the hash `recording`.
    ///
    /// # Errors
    /// As [`ShardEvents::pass`].
    pub fn count(
        shard: Shard,
        recording: u64,
        events: &ShardEvents,
        patterns: Vec<Pattern>,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let (passages, number) = events.pass(&patterns, progress)?;
        let outline = events.outline();
        Ok(Self {
            name: format!("shard {shard}"),
            shard,
            whole: Whole {
                recording,
                tick_seconds: outline.tick_seconds,
                ticks: outline.ticks,
                segments: outline.segments.len() as u64,
                labels: outline.channel_names.clone(),
                patterns,
            },
            ticks: events.ticks(),
            events: number,
            passages,
        })
    }

    /// The shard that it counts.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Its chunk of the recording in seconds.
    pub fn seconds(&self) -> (f64, f64) {
        let tick = self.whole.tick_seconds;
        (self.ticks.0 as f64 * tick, self.ticks.1 as f64 * tick)
    }

    /// Events in its chunk.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Number of episodes that it counts.
    pub fn episodes(&self) -> usize {
        self.passages.len()
    }

    /// The counts over the whole recording; its shards may come in any order.
    ///
    /// # Errors
    /// `Mismatch` naming the shard and what differs, for shards of another recording or other episodes, one that is there
    /// twice or missing; `InsufficientData` if no shard has an event.
    pub fn join(parts: Vec<Self>) -> Result<JoinedCounts> {
        let Some(first) = parts.first() else {
            return Err(Error::argument("expected shards of counts, got none"));
        };
        for part in &parts[1..] {
            first.same(part)?;
        }
        let of = first.shard.of();
        let whole = first.whole.clone();
        let numbered = parts
            .into_iter()
            .map(|p| (p.shard.number(), p.name.clone(), p));
        let mut tallies = vec![GreedyChoice::default(); whole.patterns.len()];
        let (mut next, mut events) = (0, 0_u64);
        let beyond =
            |what: &str| Error::mismatch(format!("expected {what} within 64 bits, got more"));
        for (name, part) in Shard::in_order(of, numbered)? {
            if part.ticks.0 != next {
                return Err(Error::mismatch(format!(
                    "{name}: expected the chunk from tick {next} on, got that from {} on",
                    part.ticks.0
                )));
            }
            next = part.ticks.1;
            events = (events.checked_add(part.events)).ok_or_else(|| beyond("events"))?;
            for (tally, passage) in tallies.iter_mut().zip(&part.passages) {
                *tally = passage.after(*tally).ok_or_else(|| beyond("counts"))?;
            }
        }
        if next != whole.ticks {
            return Err(Error::mismatch(format!(
                "expected shards up to tick {}, the recording's end, got them up to {next}",
                whole.ticks
            )));
        }
        if events == 0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "no events: expected at least one",
            ));
        }
        let clock = Clock::from_tick_seconds(whole.tick_seconds)?;
        let episodes = whole.patterns.into_iter().zip(tallies);
        Ok(JoinedCounts {
            alphabet: Alphabet::new(whole.labels, clock)?,
            episodes: episodes
                .map(|(pattern, tally)| Episode {
                    pattern,
                    count: tally.count,
                })
                .collect(),
            events,
        })
    }

    /// Refuses `other` if it belongs to another whole.
    fn same(&self, other: &Self) -> Result<()> {
        let (a, b) = (&self.whole, &other.whole);
        let differs = |what: &str, got: String, expected: String| {
            (got != expected).then(|| format!("{what} {got} instead of {expected}"))
        };
        let number = |what: &str, got: u64, expected: u64| {
            differs(what, got.to_string(), expected.to_string())
        };
        let listed = |same: bool, what: &str| (!same).then(|| format!("other {what}"));
        let seconds = |w: &Whole| w.tick_seconds.to_string();
        let hash = |w: &Whole| format!("{:016x}", w.recording);
        let shards = (self.shard.of() as u64, other.shard.of() as u64);
        let difference = number("shards", shards.1, shards.0)
            .or_else(|| differs("ticks of seconds", seconds(b), seconds(a)))
            .or_else(|| differs("ticks", b.ticks.to_string(), a.ticks.to_string()))
            .or_else(|| number("segments", b.segments, a.segments))
            .or_else(|| listed(a.labels == b.labels, "channels"))
            .or_else(|| differs("a recording of hash", hash(b), hash(a)))
            .or_else(|| {
                let episodes = (a.patterns.len() as u64, b.patterns.len() as u64);
                number("episodes", episodes.1, episodes.0)
            })
            .or_else(|| listed(a.patterns == b.patterns, "episodes"));
        match difference {
            None => Ok(()),
            Some(difference) => Err(Error::mismatch(format!(
                "{}: expected a shard of the same counts as {}, got {difference}",
                other.name, self.name
            ))),
        }
    }
}
