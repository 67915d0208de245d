//! Levelwise mining: every frequent episode, size by size.
//!
//! The count never grows when an episode gets longer at either end (a contiguous part of an episode,
//! with the same intervals, occurs wherever the episode does). This holds for every
//! [`Frequency`](crate::Frequency) but that of distinct occurrences, by which nothing is mined. So an episode of size N is frequent
//! only if its first N − 1 symbols and its last N − 1 symbols are, intervals included: candidates are
//! made by joining frequent episodes on suffix = prefix, which leaves out nothing. That is the upper
//! bound which prunes before anything is counted: the count is at most the lesser of the two parts'
//! counts, and a candidate is made only if both reach the threshold.
//!
//! Candidates come in the order of their prefixes and are counted in batches of which the strategy
//! walks the prefixes depth first, so memory stays bounded by the frequent episodes themselves plus
//! one batch, and a level can stop between batches.

use std::collections::HashSet;
use std::time::Instant;

use rayon::prelude::*;

use crate::candidates::{BYTES_PER_CANDIDATE, check_intervals, continuations, pairs};
use crate::count::{Counter, InMemory, LatestStart};
use crate::events::Events;
use crate::pattern::{Episode, Interval, Pattern};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::memory;
use betz_base::progress::Progress;
use betz_device::Ran;

/// Candidates counted at once. A device needs thousands of prefixes at once.
const BATCH: usize = 1 << 19;

/// Options of a search.
pub struct MineOptions {
    /// The set I: every edge takes each of these intervals in turn. Overlaps are allowed.
    pub intervals: Vec<Interval>,
    /// Episodes with a count of at least this much are frequent (≥, as in the papers' problem
    /// statement). At least 1.
    pub threshold: u64,
    /// No episode has more symbols than this; `None` goes on until a level has no frequent one.
    pub max_size: Option<usize>,
}

impl MineOptions {
    /// Episodes over `intervals` with counts of at least `threshold`, any size.
    pub fn new(intervals: Vec<Interval>, threshold: u64) -> Self {
        Self {
            intervals,
            threshold,
            max_size: None,
        }
    }

    fn check(&self) -> Result<()> {
        if self.threshold == 0 {
            return Err(Error::argument(
                "threshold 0: expected at least 1 (every episode is frequent at 0)",
            ));
        }
        if self.max_size == Some(0) {
            return Err(Error::argument("largest size 0: expected at least 1"));
        }
        check_intervals(&self.intervals)
    }
}

/// Statistics of one level of the search.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Symbols in its episodes.
    pub size: usize,
    /// Candidates made by the join (of size 1: the symbols).
    pub candidates: u64,
    /// Number of candidates counted: all, unless the search was interrupted.
    pub counted: u64,
    /// Number of frequent ones among those.
    pub frequent: u64,
    /// Seconds it took.
    pub seconds: f64,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MiningResult {
    /// The frequent episodes, by size, and in the order of their prefixes within a size.
    pub episodes: Vec<Episode>,
    /// One entry per level.
    pub levels: Vec<Level>,
    /// False when the search was interrupted: every episode listed is frequent and its count exact,
    /// but the last level's list is not complete.
    pub complete: bool,
    /// The device that counted, and the reason if another was meant to.
    pub ran: Ran,
}

impl MiningResult {
    /// Up to this size every frequent episode is listed; if [`MiningResult::complete`] is false, some or all of the
    /// longer ones are missing.
    pub fn complete_size(&self) -> usize {
        let last = self.levels.last().map_or(0, |level| level.size);
        last - usize::from(!self.complete && last > 0)
    }

    /// The episodes that are not a contiguous part of a longer one listed.
    pub fn maximal(&self) -> Vec<&Episode> {
        let mut parts: HashSet<Pattern> = HashSet::new();
        for Episode { pattern, .. } in &self.episodes {
            // Parts that are there have had their own parts taken.
            let mut rest = vec![pattern.clone()];
            while let Some(whole) = rest.pop() {
                for part in [whole.without_last(), whole.without_first()] {
                    if let Some(part) = part.filter(|part| !parts.contains(part)) {
                        parts.insert(part.clone());
                        rest.push(part);
                    }
                }
            }
        }
        self.episodes
            .iter()
            .filter(|e| !parts.contains(&e.pattern))
            .collect()
    }
}

/// Finds every episode whose count reaches the threshold: exactly those, no more and no less. Counts with the default
/// strategy; [`mine_by`] with any other, and in events that are not in memory.
///
/// Runs in rayon's current threads. When `progress` cancels, what was found so far comes back with
/// [`MiningResult::complete`] false. Stages are named `size 1`, `size 2`, …, in candidates.
///
/// # Errors
/// `InvalidArgument` for a threshold or size of 0 or repeated intervals; `Mismatch` for an interval
/// that does not fit the events.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use betz_episode::{Events, Interval, MineOptions, mine};
/// use betz_simulate::network::{NetworkConfig, simulate};
///
/// let network = simulate(&NetworkConfig { seconds: 5.0, ..NetworkConfig::sym26() }, 1)?;
/// let events = Events::from_recording(&network.recording)?;
/// let delays = Interval::from_seconds(0.004, 0.006, events.clock())?;
/// let mined = mine(&events, &MineOptions::new(vec![delays], 30), &())?;
/// for episode in mined.maximal() {
///     println!("{} × {}", episode.count, episode.pattern.display(events.alphabet()));
/// }
/// assert!(mined.complete);
/// # Ok(())
/// # }
/// ```
pub fn mine(
    events: &Events,
    options: &MineOptions,
    progress: &dyn Progress,
) -> Result<MiningResult> {
    mine_within(usize::MAX, events, options, progress)
}

/// [`mine`] in at most `max_bytes` besides the events.
///
/// # Errors
/// As [`mine`]; `OutOfMemory` where that is not enough.
pub(crate) fn mine_within(
    max_bytes: usize,
    events: &Events,
    options: &MineOptions,
    progress: &dyn Progress,
) -> Result<MiningResult> {
    let counter = InMemory {
        events,
        strategy: &LatestStart,
    };
    search(&counter, options, max_bytes, progress)
}

/// [`mine`] with `counter`, whose events may be in memory or in a file: an [`InMemory`] counts by any strategy, and by
/// any [`Frequency`](crate::Frequency), which is a strategy, too.
///
/// # Errors
/// As [`mine`], and those of the counter; `InvalidArgument` as
/// [`Frequency::check_search`](crate::Frequency::check_search).
pub fn mine_by(
    counter: &dyn Counter,
    options: &MineOptions,
    progress: &dyn Progress,
) -> Result<MiningResult> {
    search(counter, options, usize::MAX, progress)
}

fn search(
    counter: &dyn Counter,
    options: &MineOptions,
    max_bytes: usize,
    progress: &dyn Progress,
) -> Result<MiningResult> {
    options.check()?;
    counter.frequency().check_search()?;
    let mut mined = MiningResult {
        complete: true,
        ..MiningResult::default()
    };
    // Where the episodes of the last size begin.
    let mut last = 0;
    for size in 1..=options.max_size.unwrap_or(usize::MAX) {
        let started = Instant::now();
        let shorter = &mined.episodes[last..];
        let mut level = LevelSearch {
            counter,
            options,
            progress,
            max_bytes: max_bytes as u128,
            listed: mined.episodes.len(),
            size,
            stage: format!("size {size}"),
            total: 0,
            done: 0,
            found: Vec::new(),
            interrupted: false,
        };
        match size {
            1 => level.count_symbols(counter.alphabet().len() as u32)?,
            2 => level.count_pairs(shorter)?,
            _ => level.count_joined(shorter)?,
        }
        mined.levels.push(Level {
            size,
            candidates: level.total,
            counted: level.done,
            frequent: level.found.len() as u64,
            seconds: started.elapsed().as_secs_f64(),
        });
        mined.complete = !level.interrupted;
        last = mined.episodes.len();
        let episodes = last + level.found.len();
        memory::plan(
            format_args!("{episodes} frequent episodes (a higher threshold leaves fewer)"),
            episodes as u128 * size_of::<Episode>() as u128,
        )?;
        mined.episodes.extend(level.found);
        if last == mined.episodes.len() || !mined.complete {
            break;
        }
    }
    mined.ran = counter.ran();
    Ok(mined)
}

/// One level of the search.
struct LevelSearch<'a> {
    counter: &'a dyn Counter,
    options: &'a MineOptions,
    progress: &'a dyn Progress,
    /// Bytes for episodes and candidates at most.
    max_bytes: u128,
    /// Frequent episodes of smaller sizes.
    listed: usize,
    size: usize,
    stage: String,
    total: u64,
    done: u64,
    found: Vec<Episode>,
    interrupted: bool,
}

impl LevelSearch<'_> {
    fn count_symbols(&mut self, symbols: u32) -> Result<()> {
        self.plan(symbols as usize)?;
        let candidates: Vec<Pattern> = (0..symbols)
            .map(|s| Pattern::new(vec![s], Vec::new()))
            .collect::<Result<_>>()?;
        self.total = candidates.len() as u64;
        self.count(&candidates)
    }

    /// Every frequent symbol after every frequent symbol, at every interval.
    fn count_pairs(&mut self, symbols: &[Episode]) -> Result<()> {
        let mut intervals = self.options.intervals.clone();
        intervals.sort_unstable();
        let each = intervals.len() * symbols.len();
        self.total = symbols.len() as u64 * each as u64;
        for firsts in symbols.chunks((self.batch() / each.max(1)).max(1)) {
            self.plan(firsts.len() * each)?;
            self.count(&pairs(firsts, symbols, &intervals)?)?;
        }
        Ok(())
    }

    /// Joins the episodes, which are sorted by prefix, on suffix = prefix.
    fn count_joined(&mut self, shorter: &[Episode]) -> Result<()> {
        memory::plan(
            format_args!(
                "{}: joining {} episodes (a higher threshold leaves fewer)",
                self.stage,
                shorter.len()
            ),
            shorter.len() as u128 * size_of::<(&Episode, &[Episode])>() as u128,
        )?;
        let joins: Vec<(&Episode, &[Episode])> = shorter
            .par_iter()
            .map(|head| (head, continuations(shorter, &head.pattern)))
            .collect();
        self.total = joins.iter().map(|(_, tails)| tails.len() as u64).sum();
        let at_once = self.batch();
        let mut rest = joins.as_slice();
        while !rest.is_empty() && !self.interrupted {
            let mut size = 0;
            let heads = rest.iter().take_while(|(_, tails)| {
                let fits = size < at_once;
                size += tails.len();
                fits
            });
            let (batch, after) = rest.split_at(heads.count());
            self.plan(batch.iter().map(|(_, tails)| tails.len()).sum())?;
            let candidates: Vec<Pattern> = batch
                .par_iter()
                .flat_map_iter(|(head, tails)| {
                    tails.iter().map(|tail| head.pattern.joined(&tail.pattern))
                })
                .collect::<Result<_>>()?;
            self.count(&candidates)?;
            rest = after;
        }
        Ok(())
    }

    /// Candidates counted at once: a quarter of the memory, but no fewer than a few.
    fn batch(&self) -> usize {
        let most = self.max_bytes / 4 / BYTES_PER_CANDIDATE;
        usize::try_from(most).unwrap_or(BATCH).clamp(256, BATCH)
    }

    /// Refuses a batch of so many candidates if there is no memory to make and count it.
    fn plan(&self, candidates: usize) -> Result<()> {
        // Symbols, intervals, and what an allocator adds to each list.
        let each = size_of::<Episode>() + 20 * self.size + 2 * 16;
        let episodes = (self.listed + self.found.len()) as u128 * each as u128;
        let bytes = candidates as u128 * BYTES_PER_CANDIDATE + episodes;
        if bytes > self.max_bytes {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!(
                    "{}: expected at most {} bytes for episodes and candidates, {candidates} candidates and {} frequent episodes take {bytes}; use a higher threshold, a smaller largest size or more bytes",
                    self.stage,
                    self.max_bytes,
                    self.listed + self.found.len()
                ),
            ));
        }
        memory::plan(
            format_args!(
                "{}: {candidates} candidates, {} frequent so far (a higher threshold leaves fewer)",
                self.stage,
                self.found.len()
            ),
            candidates as u128 * BYTES_PER_CANDIDATE,
        )
    }

    /// Counts a batch, which was planned, and keeps the frequent ones.
    ///
    /// An interrupted batch is dropped whole: what was found so far is all of what was counted.
    fn count(&mut self, candidates: &[Pattern]) -> Result<()> {
        if candidates.is_empty() || self.interrupted {
            return Ok(());
        }
        let batch = Batch {
            level: self.progress,
            stage: &self.stage,
            before: self.done,
            total: self.total,
        };
        let threshold = Some(self.options.threshold);
        let counts = self.counter.count(candidates, threshold, &batch);
        let counts = match counts {
            Err(e) if e.kind() == ErrorKind::Interrupted => {
                self.interrupted = true;
                return Ok(());
            }
            other => other?,
        };
        self.done += candidates.len() as u64;
        let frequent = candidates
            .iter()
            .zip(counts)
            .filter(|&(_, count)| count >= self.options.threshold)
            .map(|(pattern, count)| Episode {
                pattern: pattern.clone(),
                count,
            });
        self.found.extend(frequent);
        Ok(())
    }
}

/// A batch's progress as part of its level's.
struct Batch<'a> {
    level: &'a dyn Progress,
    stage: &'a str,
    before: u64,
    total: u64,
}

impl Progress for Batch<'_> {
    fn update(&self, _stage: &str, done: u64, _total: u64) {
        self.level
            .update(self.stage, (self.before + done).min(self.total), self.total);
    }

    fn cancelled(&self) -> bool {
        self.level.cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{random_case, random_interval};
    use crate::oracle;
    use betz_base::progress::StopAfter;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Every pattern of up to `size` symbols, by brute force.
    fn all_patterns(symbols: u32, intervals: &[Interval], size: usize) -> Vec<Pattern> {
        let mut all: Vec<Pattern> = (0..symbols)
            .map(|s| Pattern::new(vec![s], vec![]).unwrap())
            .collect();
        let mut from = 0;
        for _ in 1..size {
            let to = all.len();
            for i in from..to {
                for &interval in intervals {
                    for s in 0..symbols {
                        let mut names = all[i].symbols().to_vec();
                        let mut edges = all[i].intervals().to_vec();
                        names.push(s);
                        edges.push(interval);
                        all.push(Pattern::new(names, edges).unwrap());
                    }
                }
            }
            from = to;
        }
        all
    }

    #[test]
    fn exactly_the_frequent_episodes_are_found() {
        let mut longest = 0;
        for seed in 0..300 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed + 1_000_000);
            let case = random_case(seed, 24, 0);
            let mut intervals: Vec<Interval> = (0..rng.random_range(1..=3))
                .map(|_| random_interval(&mut rng, 3))
                .collect();
            intervals.sort_unstable();
            intervals.dedup();
            let threshold = rng.random_range(1..=4);
            let size = 4 - usize::from(case.events.symbols() > 2 || intervals.len() > 2);
            let mut options = MineOptions::new(intervals.clone(), threshold);
            options.max_size = Some(size);
            let mined = mine(&case.events, &options, &()).unwrap();
            assert!(mined.complete);
            let mut expected: Vec<(Pattern, u64)> =
                all_patterns(case.events.symbols() as u32, &intervals, size)
                    .into_iter()
                    .map(|p| {
                        let count = oracle::count(&case.events, &p);
                        (p, count)
                    })
                    .filter(|&(_, count)| count >= threshold)
                    .collect();
            let mut got: Vec<(Pattern, u64)> = mined
                .episodes
                .into_iter()
                .map(|e| (e.pattern, e.count))
                .collect();
            expected.sort();
            got.sort();
            assert_eq!(got, expected, "case {seed}");
            longest = longest.max(got.iter().map(|e| e.0.size()).max().unwrap_or(0));
        }
        assert_eq!(longest, 4);
    }

    #[test]
    fn an_interrupted_search_returns_what_it_found() {
        let case = random_case(11, 24, 0);
        let options = MineOptions::new(vec![Interval::new(0, 8).unwrap()], 1);
        let all = mine(&case.events, &options, &()).unwrap();
        let some = mine(&case.events, &options, &StopAfter::new(3)).unwrap();
        assert!(all.complete && !some.complete);
        assert!(some.episodes.len() < all.episodes.len());
        assert!(some.episodes.iter().all(|e| all.episodes.contains(e)));
        let last = some.levels.last().unwrap();
        assert!(last.counted < last.candidates);
        assert_eq!(some.complete_size() + 1, last.size);
        let whole = |mined: &MiningResult, size| {
            let sizes = mined.episodes.iter().map(|e| e.pattern.size());
            sizes.filter(|&s| s <= size).count()
        };
        let size = some.complete_size();
        assert_eq!(whole(&some, size), whole(&all, size));
        assert_eq!(all.complete_size(), all.levels.len());
    }

    #[test]
    fn maximal_episodes_hold_all_others() {
        let case = random_case(11, 24, 0);
        let options = MineOptions::new(vec![Interval::new(0, 3).unwrap()], 2);
        let mined = mine(&case.events, &options, &()).unwrap();
        let maximal = mined.maximal();
        let within = |part: &Pattern, whole: &Pattern| {
            (0..=whole.size().saturating_sub(part.size())).any(|i| {
                whole.symbols()[i..].starts_with(part.symbols())
                    && whole
                        .intervals()
                        .get(i..)
                        .unwrap_or(&[])
                        .starts_with(part.intervals())
            })
        };
        for e in &mined.episodes {
            let held = maximal.iter().filter(|m| within(&e.pattern, &m.pattern));
            assert!(held.count() >= 1, "{:?}", e.pattern);
        }
        for m in &maximal {
            let held = maximal.iter().filter(|o| within(&m.pattern, &o.pattern));
            assert_eq!(held.count(), 1, "{:?}", m.pattern);
        }
    }

    #[test]
    fn a_given_list_need_not_hold_the_parts_between() {
        let edge = Interval::new(0, 3).unwrap();
        let other = Interval::new(0, 4).unwrap();
        let pattern = |symbols: &[u32]| Pattern::uniform(symbols.to_vec(), edge).unwrap();
        let whole = pattern(&[1, 2, 3, 4]);
        let lists = [
            pattern(&[1, 2]),
            pattern(&[2, 3]),
            pattern(&[4]),
            whole.clone(),
            pattern(&[1, 3]),
            Pattern::uniform(vec![1, 2], other).unwrap(),
            pattern(&[0]),
        ];
        let mined = MiningResult {
            episodes: lists.map(|pattern| Episode { pattern, count: 1 }).to_vec(),
            ..MiningResult::default()
        };
        let maximal: Vec<&Pattern> = mined.maximal().iter().map(|e| &e.pattern).collect();
        let kept: Vec<&Pattern> = mined.episodes[3..].iter().map(|e| &e.pattern).collect();
        assert_eq!(maximal, kept);
    }

    #[test]
    fn senseless_options_are_refused() {
        let case = random_case(1, 10, 0);
        let edge = Interval::new(0, 3).unwrap();
        let refuse = |options: &MineOptions| {
            let error = mine(&case.events, options, &()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        };
        refuse(&MineOptions::new(vec![edge], 0));
        refuse(&MineOptions::new(vec![edge, edge], 1));
        refuse(&MineOptions::new(vec![Interval { low: -1, high: 3 }], 1));
        let mut options = MineOptions::new(vec![edge], 1);
        options.max_size = Some(0);
        refuse(&options);
    }
}
