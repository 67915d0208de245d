//! The candidates of the next size.

use std::collections::HashSet;

use betz_base::error::{Error, Result};
use betz_base::memory;

use crate::pattern::{Episode, Interval, Pattern};

/// Most bytes for making and counting a candidate: the candidate, its node, tail and state in two walks at once, and
/// its entry in the list of frequent episodes, which is copied when it grows.
pub(crate) const BYTES_PER_CANDIDATE: u128 = 1400;

/// The episodes of one symbol more that can be frequent, given the `frequent` ones of one size. After symbols they are
/// every pair at each of `intervals`; after longer episodes, those whose first and last parts, all but one symbol, are
/// `frequent`. [`mine`](super::mine()) counts the same ones next, in the same order. Without frequent episodes there are
/// none.
///
/// # Errors
/// `InvalidArgument` for episodes of several sizes, or symbols without an interval or with the same one twice;
/// `OutOfMemory`.
///
/// ```
/// use betz_episode::{Episode, Interval, Pattern, next_candidates};
///
/// # fn main() -> betz_base::Result<()> {
/// let symbols = [0, 1].map(|s| Pattern::new(vec![s], vec![]).map(|pattern| Episode { pattern, count: 9 }));
/// let symbols = symbols.into_iter().collect::<betz_base::Result<Vec<_>>>()?;
/// let pairs = next_candidates(&symbols, &[Interval::new(0, 5)?])?;
/// assert_eq!(pairs.len(), 4); // each of the two after each
/// # Ok(())
/// # }
/// ```
pub fn next_candidates(frequent: &[Episode], intervals: &[Interval]) -> Result<Vec<Pattern>> {
    let Some(first) = frequent.first() else {
        return Ok(Vec::new());
    };
    let size = first.pattern.size();
    if let Some(other) = frequent.iter().find(|e| e.pattern.size() != size) {
        return Err(Error::argument(format!(
            "candidates: expected frequent episodes of one size, got {size} and {}",
            other.pattern.size()
        )));
    }
    let mut sorted = frequent.to_vec();
    sorted.sort_by(|a, b| a.pattern.prefix_key().cmp(b.pattern.prefix_key()));
    sorted.dedup_by(|a, b| a.pattern == b.pattern);
    let plan = |candidates: u128| {
        memory::plan(
            format_args!(
                "{candidates} candidates of size {} (a higher threshold leaves fewer)",
                size + 1
            ),
            candidates * BYTES_PER_CANDIDATE,
        )
    };
    if size > 1 {
        let joins = || {
            sorted
                .iter()
                .map(|head| (head, continuations(&sorted, &head.pattern)))
        };
        plan(joins().map(|(_, tails)| tails.len() as u128).sum())?;
        return joins()
            .flat_map(|(head, tails)| tails.iter().map(|tail| head.pattern.joined(&tail.pattern)))
            .collect();
    }
    if intervals.is_empty() {
        return Err(Error::argument(
            "candidates: expected an interval at least for pairs, got none",
        ));
    }
    check_intervals(intervals)?;
    plan(sorted.len() as u128 * sorted.len() as u128 * intervals.len() as u128)?;
    let mut intervals = intervals.to_vec();
    intervals.sort_unstable();
    pairs(&sorted, &sorted, &intervals)
}

/// The symbols `seconds` after each of `firsts`, at each of `intervals`: in the order of prefixes.
pub(crate) fn pairs(
    firsts: &[Episode],
    seconds: &[Episode],
    intervals: &[Interval],
) -> Result<Vec<Pattern>> {
    let mut pairs = Vec::with_capacity(firsts.len() * intervals.len() * seconds.len());
    for first in firsts {
        for &interval in intervals {
            for second in seconds {
                let pair = [first, second].map(|e| e.pattern.symbols()[0]);
                pairs.push(Pattern::new(pair.to_vec(), vec![interval])?);
            }
        }
    }
    Ok(pairs)
}

/// The episodes, of those sorted by prefix, that begin with all but the first symbol of `head`.
pub(crate) fn continuations<'a>(sorted: &'a [Episode], head: &Pattern) -> &'a [Episode] {
    let suffix = head.size() - 1;
    let compare = |e: &Episode| e.pattern.prefix_key().take(suffix).cmp(head.suffix_key(1));
    let from = sorted.partition_point(|e| compare(e).is_lt());
    let to = from + sorted[from..].partition_point(|e| compare(e).is_eq());
    &sorted[from..to]
}

/// Checks a set of intervals: each is one, and there once.
pub(crate) fn check_intervals(intervals: &[Interval]) -> Result<()> {
    for interval in intervals {
        interval.check()?;
    }
    let distinct: HashSet<_> = intervals.iter().collect();
    if distinct.len() != intervals.len() {
        return Err(Error::argument(
            "an interval is given twice: expected different intervals",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::random_case;
    use crate::count;
    use crate::mine::{MineOptions, mine};

    #[test]
    fn from_size_to_size_they_are_the_searchs() {
        for seed in 0..20 {
            let events = random_case(seed, 150, 0).events;
            let intervals = vec![Interval::new(2, 5).unwrap(), Interval::new(0, 3).unwrap()];
            let mut options = MineOptions::new(intervals.clone(), 4);
            options.max_size = Some(4);
            let expected = mine(&events, &options, &()).unwrap();
            let symbols = 0..events.symbols() as u32;
            let mut candidates: Vec<Pattern> = symbols
                .map(|s| Pattern::new(vec![s], vec![]).unwrap())
                .collect();
            let mut found = Vec::new();
            for level in &expected.levels {
                assert_eq!(candidates.len() as u64, level.candidates);
                let counts = count::count(&events, &candidates).unwrap();
                let mut frequent: Vec<Episode> = (candidates.into_iter().zip(counts))
                    .map(|(pattern, count)| Episode { pattern, count })
                    .filter(|e| e.count >= 4)
                    .collect();
                found.extend(frequent.clone());
                // No order of theirs makes a difference.
                frequent.reverse();
                candidates = next_candidates(&frequent, &intervals).unwrap();
            }
            assert_eq!(found, expected.episodes, "seed {seed}");
        }
        let episode = |symbols: Vec<u32>| Episode {
            pattern: Pattern::uniform(symbols, Interval::new(0, 3).unwrap()).unwrap(),
            count: 9,
        };
        let mixed = [episode(vec![0]), episode(vec![0, 1])];
        assert!(next_candidates(&mixed, &[]).is_err());
        assert!(next_candidates(&mixed[..1], &[]).is_err());
        assert!(next_candidates(&[], &[]).unwrap().is_empty());
        let twice = [Interval::new(0, 3).unwrap(); 2];
        assert!(next_candidates(&mixed[..1], &twice).is_err());
    }
}
