//! Counting by a team whose processes each read a chunk of a recording's time.

use std::sync::atomic::{AtomicU64, Ordering};

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::hash::Fnv1a;
use betz_base::progress::{Progress, Quiet};
use betz_base::team::Team;
use betz_device::Ran;

use super::greedy::GreedyChoice;
use super::passage::Passage;
use super::shard::ShardEvents;
use super::{Counter, LatestStart, Strategy};
use crate::alphabet::Alphabet;
use crate::pattern::Pattern;

/// Passages that the first process holds at once, of all processes together: some 60 MB if each has two steps.
pub(super) const AT_ONCE: usize = 1 << 20;

/// A recording of which every process of a team reads one chunk of time, in the order of ranks, from the recording's
/// beginning to its end. The first process adds up the passages of the chunks in that order, so that counts are those of
/// the whole, occurrences across seams included.
pub struct OverTime<'a> {
    team: &'a dyn Team,
    own: ShardEvents,
    /// Events that the last pass of all processes saw.
    seen: AtomicU64,
}

impl<'a> OverTime<'a> {
    /// `own` is this process' chunk.
    ///
    /// # Errors
    /// `Mismatch` if the chunks of all processes do not follow each other in one recording; those of the team.
    pub fn new(team: &'a dyn Team, own: ShardEvents) -> Result<Self> {
        let outline = own.outline();
        let mut hash = Fnv1a::new();
        for label in &outline.channel_names {
            hash.word(label.len() as u64);
            hash.bytes(label.as_bytes());
        }
        let whole = [
            outline.ticks as u64,
            outline.tick_seconds.to_bits(),
            outline.segments.len() as u64,
            hash.finish(),
        ];
        let (from, to) = own.ticks();
        let all = team.gather(&[&whole[..], &[from as u64, to as u64]].concat())?;
        let mut next = 0;
        for (rank, words) in all.iter().enumerate() {
            let (about, ends) = words.split_at(whole.len().min(words.len()));
            if about != whole {
                return Err(Error::mismatch(format!(
                    "rank {rank}: expected a chunk of the recording that rank {} reads, got one of other ticks, segments or \
                     channels",
                    team.rank()
                )));
            }
            match *ends {
                [from, to] if from == next => next = to,
                _ => {
                    return Err(Error::mismatch(format!(
                        "rank {rank}: expected the chunk from tick {next} on, got {ends:?}"
                    )));
                }
            }
        }
        if next != whole[0] {
            return Err(Error::mismatch(format!(
                "expected chunks up to tick {}, the recording's end, got them up to {next}",
                whole[0]
            )));
        }
        Ok(Self {
            team,
            own,
            seen: AtomicU64::new(0),
        })
    }

    /// Number of events in the last count of all processes, which goes through all of them.
    pub fn len(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// True before the first count: a count refuses a recording without events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counts that the passages of all processes through `patterns` make.
    fn put_together(&self, patterns: &[Pattern], own: &[Passage]) -> Result<Vec<u64>> {
        let mut words = vec![name_of(patterns)];
        own.iter().for_each(|passage| passage.put(&mut words));
        let parts = self.team.collect(&words)?;
        let mut tallies =
            vec![GreedyChoice::default(); if self.team.rank() == 0 { own.len() } else { 0 }];
        for (rank, part) in parts.iter().enumerate() {
            let differs = || {
                Error::mismatch(format!(
                    "rank {rank}: expected passages for the same {} episodes as the first rank, got others",
                    own.len()
                ))
            };
            let (name, mut rest) = part.split_first().ok_or_else(differs)?;
            if *name != words[0] {
                return Err(differs());
            }
            for tally in &mut tallies {
                let passage = Passage::take(&mut rest).ok_or_else(differs)?;
                *tally = passage.after(*tally).ok_or_else(|| {
                    Error::mismatch("expected counts within 64 bits, got more".to_owned())
                })?;
            }
            if !rest.is_empty() {
                return Err(differs());
            }
        }
        let counts: Vec<u64> = tallies.iter().map(|tally| tally.count).collect();
        Ok(self.team.gather(&counts)?.concat())
    }
}

impl Counter for OverTime<'_> {
    fn alphabet(&self) -> &Alphabet {
        self.own.alphabet()
    }

    /// One pass of every process over its chunk; the stage is `counting`, in patterns.
    fn count(
        &self,
        patterns: &[Pattern],
        _threshold: Option<u64>,
        progress: &dyn Progress,
    ) -> Result<Vec<u64>> {
        let (passages, events) = self.own.pass(patterns, &Quiet(progress))?;
        let mut seen = [i128::from(events)];
        self.team.add(&mut seen)?;
        let seen = u64::try_from(seen[0])
            .map_err(|_| Error::mismatch("expected events within 64 bits, got more".to_owned()))?;
        if seen == 0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "no events: expected at least one",
            ));
        }
        self.seen.store(seen, Ordering::Relaxed);
        let block = (AT_ONCE / self.team.size().max(1)).max(1);
        let mut counts = Vec::with_capacity(patterns.len());
        for (patterns, passages) in patterns.chunks(block).zip(passages.chunks(block)) {
            counts.extend(self.put_together(patterns, passages)?);
        }
        let total = counts.len() as u64;
        progress.update("counting", total, total);
        Ok(counts)
    }

    fn ran(&self) -> Ran {
        Ran::on_cpu(LatestStart.name())
    }
}

/// Tells lists of episodes from each other.
fn name_of(patterns: &[Pattern]) -> u64 {
    let mut hash = Fnv1a::new();
    hash.word(patterns.len() as u64);
    for pattern in patterns {
        hash.word(pattern.size() as u64);
        let symbols = pattern.symbols().iter().map(|s| u64::from(*s));
        symbols.for_each(|symbol| hash.word(symbol));
        for edge in pattern.intervals() {
            hash.word(edge.low as u64);
            hash.word(edge.high as u64);
        }
    }
    hash.finish()
}

#[cfg(test)]
mod tests {
    use betz_recording::{Recording, Spikes};

    use betz_base::team::threads::run_team;

    use super::*;
    use crate::cases::{random_case, reader, recording};

    fn chunk(recording: &Recording, from: i64, to: i64) -> ShardEvents {
        let mut cuts = vec![from, (from + to) / 2, to];
        cuts.dedup();
        ShardEvents::new(recording, cuts, reader(recording)).unwrap()
    }

    #[test]
    fn any_team_counts_what_the_oracle_does_wherever_chunks_meet() {
        for seed in 0..30 {
            let case = random_case(seed, 40, 12);
            let recording = recording(&case.events, Vec::new());
            let expected = case.oracle_counts();
            let end = recording.ticks;
            let two = (0..=end).step_by(3).map(|at| vec![0, at, end]);
            // As many as there are ticks, up to seven, and more than there are, with chunks of no time.
            let even = [1, 3, 4, 7].map(|of| (0..=of).map(|k| end * k / of).collect());
            let more = (0..=end.min(8)).flat_map(|t| [t, t]).chain([end]).collect();
            for bounds in two.chain(even).chain([more]) {
                let all = run_team(bounds.len() - 1, |team| {
                    let own = chunk(&recording, bounds[team.rank()], bounds[team.rank() + 1]);
                    let events = OverTime::new(team, own)?;
                    assert!(events.is_empty());
                    let counts = events.count(&case.patterns, None, &())?;
                    Result::Ok((counts, events.len()))
                });
                for counted in all {
                    let (counts, seen) = counted.unwrap();
                    assert_eq!(counts, expected, "seed {seed}, cuts {bounds:?}");
                    assert_eq!(seen, case.events.len() as u64);
                }
            }
        }
    }

    #[test]
    fn what_is_not_one_recording_in_order_is_refused_by_every_process() {
        let case = random_case(3, 60, 8);
        let whole = recording(&case.events, Vec::new());
        let end = whole.ticks;
        let longer = Recording {
            ticks: end + 1,
            ..whole.clone()
        };
        let refused = |recordings: [&Recording; 2], bounds: [(i64, i64); 2], words: &str| {
            for refused in run_team(2, |team| {
                let (from, to) = bounds[team.rank()];
                OverTime::new(team, chunk(recordings[team.rank()], from, to)).map(drop)
            }) {
                let error = refused.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Mismatch);
                assert!(error.message().contains(words), "{error}");
            }
        };
        refused([&whole, &longer], [(0, 5), (5, end)], "of other ticks");
        refused([&whole, &whole], [(0, 5), (6, end)], "from tick 5 on");
        refused([&whole, &whole], [(0, 5), (4, end)], "from tick 5 on");
        refused([&whole, &whole], [(0, 5), (5, end - 1)], "up to tick");
    }

    #[test]
    fn a_process_that_counts_other_episodes_is_refused() {
        let case = random_case(3, 60, 8);
        let whole = recording(&case.events, Vec::new());
        let end = whole.ticks;
        let mut swapped = case.patterns.clone();
        let other = (1..8).find(|&i| swapped[i] != swapped[0]).unwrap();
        swapped.swap(0, other);
        for others in [&swapped[..], &case.patterns[..7]] {
            let all = run_team(2, |team| {
                let (from, to) = [(0, 5), (5, end)][team.rank()];
                let events = OverTime::new(team, chunk(&whole, from, to))?;
                let patterns = [&case.patterns[..], others][team.rank()];
                let counted = events.count(patterns, None, &());
                if counted.is_err() {
                    // The other one waits for counts.
                    team.gather(&[])?;
                }
                counted
            });
            let error = all[0].as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            assert!(error.message().starts_with("rank 1: "), "{error}");
        }
    }

    #[test]
    fn a_recording_without_spikes_is_refused() {
        let case = random_case(3, 60, 8);
        let none = Recording {
            spikes: Spikes::default(),
            ..recording(&case.events, Vec::new())
        };
        let end = none.ticks;
        for refused in run_team(2, |team| {
            let (from, to) = [(0, 5), (5, end)][team.rank()];
            OverTime::new(team, chunk(&none, from, to))?.count(&case.patterns, None, &())
        }) {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InsufficientData);
        }
    }
}
