//! The test of counted episodes as a user asks for it: the rules that the command line and Python share.

use super::{
    ChainOptions, ChainTest, PartOptions, Significance, SignificanceOptions, Surrogate, Workers,
    chains_by, significance_by, significance_in_chunks_by,
};
use crate::clock::Clock;
use crate::count::LongEvents;
use crate::events::Events;
use crate::frequency::Frequency;
use crate::pattern::{Episode, Pattern};
use betz_base::error::{Error, Result};
use betz_base::progress::Progress;

/// Dithering moves events by up to this many times the longest delay, unless told otherwise.
const DITHER: i64 = 4;
/// Parts are shifted against the rest by at least, and at most, this many times the longest delay.
const SHIFTS: (i64, i64) = (20, 200);

/// Options of a test of episodes that were counted or mined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpisodeTest {
    /// Number of surrogates, at least 1.
    pub surrogates: u32,
    /// Events of a surrogate are moved by up to this many seconds; `None` for four times the longest delay.
    pub dither_seconds: Option<f64>,
    /// True to shuffle each symbol's intervals between events instead.
    pub shuffle: bool,
    /// Seed of the surrogates.
    pub seed: u64,
    /// The false discovery rate that episodes must reach to be kept; `None` keeps all.
    pub fdr: Option<f64>,
    /// True to test every part, too ([`chains`](super::chains)); needs `fdr`.
    pub parts: bool,
    /// The definition of the counts.
    pub frequency: Frequency,
}

/// The user's names of the options, for messages.
#[derive(Debug, Clone, Copy)]
pub struct TestNames {
    /// Of the number of surrogates.
    pub surrogates: &'static str,
    /// Of the largest distance by which events are moved.
    pub dither: &'static str,
    /// Of the choice of shuffled intervals.
    pub shuffle: &'static str,
    /// Of the false discovery rate.
    pub fdr: &'static str,
    /// Of the test of parts.
    pub parts: &'static str,
}

/// The events that surrogates are made of.
#[derive(Clone, Copy)]
pub enum TestEvents<'a> {
    /// They are in memory.
    Held(&'a Events),
    /// They are read in chunks; the counts of surrogates may take this many bytes.
    Chunks(&'a LongEvents, u64),
}

impl TestEvents<'_> {
    /// The clock of the events.
    pub fn clock(self) -> Clock {
        match self {
            Self::Held(events) => events.clock(),
            Self::Chunks(events, _) => crate::count::Counter::alphabet(events).clock(),
        }
    }
}

impl EpisodeTest {
    /// Checks the options, before any events are read.
    ///
    /// # Errors
    /// `InvalidArgument`, by the user's `names`.
    pub fn check(&self, names: &TestNames) -> Result<()> {
        let refuse = |message: String| Err(Error::argument(message));
        if self.surrogates == 0 {
            return refuse(format!("{}: expected at least 1, got 0", names.surrogates));
        }
        if let Some(fdr) = self.fdr {
            if !(fdr > 0.0 && fdr <= 1.0) {
                return refuse(format!(
                    "{}: expected a rate above 0 and up to 1, got {fdr}",
                    names.fdr
                ));
            }
            // No p, and so no q, is below 1 / (surrogates + 1).
            if fdr * (f64::from(self.surrogates) + 1.0) < 1.0 - 1e-9 {
                return refuse(format!(
                    "{} {fdr}: expected {} of at least {:.0}, because q is never below 1 / (surrogates + 1), got {}",
                    names.fdr,
                    names.surrogates,
                    (1.0 / fdr - 1e-9).ceil() - 1.0,
                    self.surrogates
                ));
            }
        } else if self.parts {
            return refuse(format!(
                "{}: expected {} beside it, got none",
                names.parts, names.fdr
            ));
        }
        if let Some(seconds) = self.dither_seconds {
            if !(seconds > 0.0 && seconds.is_finite()) {
                return refuse(format!(
                    "{}: expected a finite number of seconds above 0, got {seconds}",
                    names.dither
                ));
            }
            if self.shuffle {
                return refuse(format!(
                    "{}: expected no {} beside it, got both",
                    names.shuffle, names.dither
                ));
            }
        }
        if self.parts && self.frequency != Frequency::NonOverlapped {
            return refuse(format!(
                "{}: expected the count of non-overlapped occurrences, got {}; test against surrogates without it",
                names.parts,
                self.frequency.name()
            ));
        }
        Ok(())
    }

    /// Checks the options on a clock and in events, if they are `held` in memory, before anything is counted. `longest` is
    /// the longest delay that an episode may have, in ticks.
    ///
    /// # Errors
    /// `InvalidArgument`, by the user's `names`; as [`PartOptions::check`].
    pub fn check_on(
        &self,
        names: &TestNames,
        clock: Clock,
        held: Option<&Events>,
        longest: i64,
    ) -> Result<()> {
        let surrogate = self.surrogate(clock, longest);
        let surrogate = surrogate.map_err(|e| e.at(names.dither))?;
        surrogate.check().map_err(|e| {
            let tick = clock.tick_seconds();
            e.at(format!("{}, in ticks of {tick} s", names.dither))
        })?;
        match held.filter(|_| self.parts) {
            Some(events) => {
                let shifts = self.shifts(longest);
                shifts.check(events).map_err(|e| e.at(names.parts))
            }
            None => Ok(()),
        }
    }

    /// The kind of surrogates for episodes whose longest delay is `longest`.
    fn surrogate(&self, clock: Clock, longest: i64) -> Result<Surrogate> {
        if self.shuffle {
            return Ok(Surrogate::ShuffleIntervals);
        }
        Ok(Surrogate::Dither {
            delta: match self.dither_seconds {
                Some(seconds) => clock.ticks_floor(seconds)?,
                None => longest.saturating_mul(DITHER),
            },
        })
    }

    fn shifts(&self, longest: i64) -> PartOptions {
        PartOptions {
            shifts: self.surrogates,
            least: longest.saturating_mul(SHIFTS.0),
            most: longest.saturating_mul(SHIFTS.1),
            seed: self.seed,
        }
    }

    /// The test of `episodes`, of which single symbols are left out: every surrogate keeps their counts. Events and parts
    /// are moved according to the longest delay of these episodes.
    ///
    /// # Errors
    /// `InvalidArgument` if the clock cannot express the distance by which events are moved.
    pub fn prepare(&self, clock: Clock, episodes: &[Episode]) -> Result<PreparedTest> {
        let patterns = episodes.iter().map(|e| &e.pattern);
        let patterns: Vec<Pattern> = patterns.filter(|p| p.size() > 1).cloned().collect();
        let delays = patterns.iter().flat_map(Pattern::intervals);
        let longest = delays.map(|delay| delay.high).max().unwrap_or(1);
        Ok(PreparedTest {
            options: *self,
            surrogate: self.surrogate(clock, longest)?,
            shifts: self.shifts(longest),
            patterns,
        })
    }
}

/// A test of certain episodes ([`EpisodeTest::prepare`]).
pub struct PreparedTest {
    options: EpisodeTest,
    /// The kind of surrogates.
    pub surrogate: Surrogate,
    /// The shifts of parts, if parts are tested.
    pub shifts: PartOptions,
    /// The episodes of two symbols or more.
    pub patterns: Vec<Pattern>,
}

impl PreparedTest {
    /// If more than one of the episodes must reach the smallest p for any of them to pass: how many.
    pub fn needed(&self) -> Option<u64> {
        // q <= fdr for the k smallest of m p-values needs p <= fdr k / m, and p is at least 1 / (surrogates + 1).
        let least = self.options.fdr? * (f64::from(self.options.surrogates) + 1.0);
        let needed = (self.patterns.len() as f64 / least - 1e-9).ceil();
        (needed > 1.0).then_some(needed as u64)
    }

    /// Number of segments that are too short for the test of parts; 0 if parts are not tested.
    pub fn left_out(&self, events: &Events) -> usize {
        match self.options.parts && !self.patterns.is_empty() {
            true => self.shifts.left_out(events),
            false => 0,
        }
    }

    /// Tests the episodes: one entry for each of `patterns`, `None` for those that cannot be chains because their parts are
    /// none.
    fn test(
        &self,
        workers: Workers<'_>,
        events: TestEvents<'_>,
        progress: &dyn Progress,
    ) -> Result<Vec<Option<ChainTest>>> {
        let Self {
            options, patterns, ..
        } = self;
        let chosen = SignificanceOptions {
            surrogate: self.surrogate,
            surrogates: options.surrogates,
            seed: options.seed,
            frequency: options.frequency,
        };
        let tested = match events {
            TestEvents::Held(events) if options.parts => {
                let chains = ChainOptions {
                    surrogate: self.surrogate,
                    draws: options.surrogates,
                    shifts: (self.shifts.least, self.shifts.most),
                    rate: options.fdr.unwrap_or(1.0),
                    seed: options.seed,
                };
                return chains_by(workers, events, patterns, &chains, progress);
            }
            TestEvents::Held(events) => {
                significance_by(workers, events, patterns, &chosen, progress)?
            }
            TestEvents::Chunks(events, memory) => significance_in_chunks_by(
                workers.team,
                events,
                patterns,
                &chosen,
                memory,
                progress,
            )?,
        };
        let row = |surrogates: Significance| {
            Some(ChainTest {
                surrogates,
                parts: None,
                passed: options.fdr.is_none_or(|fdr| surrogates.q <= fdr),
            })
        };
        Ok(tested.into_iter().map(row).collect())
    }

    /// Tests `episodes`, which it was prepared for, and keeps those that pass, if there is a rate to reach.
    ///
    /// # Errors
    /// As [`significance_by`], [`chains_by`] and [`significance_in_chunks_by`].
    pub fn run(
        &self,
        workers: Workers<'_>,
        events: TestEvents<'_>,
        episodes: &mut Vec<Episode>,
        progress: &dyn Progress,
    ) -> Result<TestedEpisodes> {
        let tests = self.test(workers, events, progress)?;
        let number = tests.iter().flatten().count();
        let mut tests = tests.into_iter();
        let row = |e: &Episode| match e.pattern.size() > 1 {
            true => tests.next().flatten(),
            false => None,
        };
        let mut rows: Vec<Option<ChainTest>> = episodes.iter().map(row).collect();
        if self.options.fdr.is_some() {
            let passed: Vec<bool> = (rows.iter())
                .map(|row| row.as_ref().is_some_and(|test| test.passed))
                .collect();
            keep(&mut rows, &passed);
            keep(episodes, &passed);
        }
        Ok(TestedEpisodes {
            rows,
            number,
            dither_seconds: match self.surrogate {
                Surrogate::Dither { delta } => Some(events.clock().seconds(delta)),
                Surrogate::ShuffleIntervals => None,
            },
        })
    }
}

/// The result of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestedEpisodes {
    /// One entry for each episode that is left; `None` for single symbols, and for episodes that cannot be chains because
    /// their parts are none.
    pub rows: Vec<Option<ChainTest>>,
    /// Number of episodes tested together.
    pub number: usize,
    /// Largest distance by which events were moved; `None` if intervals were shuffled.
    pub dither_seconds: Option<f64>,
}

impl TestedEpisodes {
    /// If none of several episodes has passed: the number of surrogates that it takes.
    pub fn none_passed(&self, test: &EpisodeTest, names: &TestNames) -> Option<String> {
        let fdr = test.fdr?;
        // q <= fdr for the k smallest of m p-values needs p <= fdr k / m, and p is at least 1 / (surrogates + 1).
        (self.rows.is_empty() && self.number > 0).then(|| {
            format!(
                "no episode passes; to tell k of {} at {} {fdr} from chance takes {:.0}/k surrogates or more, and there were {}",
                self.number,
                names.fdr,
                (self.number as f64 / fdr).ceil(),
                test.surrogates
            )
        })
    }
}

fn keep<T>(items: &mut Vec<T>, passed: &[bool]) {
    let mut passed = passed.iter();
    items.retain(|_| passed.next().is_some_and(|&passed| passed));
}
