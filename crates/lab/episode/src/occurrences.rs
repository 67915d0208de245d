//! The occurrences behind a count: which events, for pictures.

use crate::count::{Chains, Ends, Followers, extend};
use crate::events::Events;
use crate::pattern::Pattern;
use betz_base::error::Result;

/// The ticks of the events of every occurrence in the largest non-overlapped set, in time order:
/// one list an occurrence, one tick per symbol. There are as many as the pattern's count.
///
/// Of the sets of that size, this is the one whose occurrences end earliest, and start latest for
/// their ends. Memory: 16 bytes for every valid end of every prefix, and 8 for every event returned.
///
/// # Errors
/// `Mismatch` for a pattern that does not fit the events.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use betz_episode::{Alphabet, Clock, Events, Interval, Pattern, occurrences};
///
/// let alphabet = Alphabet::new(vec!["A".into(), "B".into()], Clock::from_tick_seconds(0.001)?)?;
/// let events = Events::new(alphabet, &[0, 5, 20, 21, 24], &[0, 1, 0, 0, 1])?;
/// let pattern = Pattern::new(vec![0, 1], vec![Interval::new(0, 5)?])?;
/// assert_eq!(occurrences(&events, &pattern)?, [[0, 5], [21, 24]]);
/// # Ok(())
/// # }
/// ```
pub fn occurrences(events: &Events, pattern: &Pattern) -> Result<Vec<Vec<i64>>> {
    pattern.check(events)?;
    let symbols = pattern.symbols();
    let root = events.symbol_index(symbols[0]);
    let mut levels = vec![Ends {
        ends: root.ticks.to_vec(),
        starts: root.ticks.to_vec(),
    }];
    for (k, (&interval, &symbol)) in pattern.intervals().iter().zip(&symbols[1..]).enumerate() {
        let index = events.symbol_index(symbol);
        let followers = Followers {
            index,
            first: 0,
            last: index.ticks.len(),
        };
        let mut next = Ends::default();
        let prefix = Chains {
            ends: &levels[k].ends,
            starts: &levels[k].starts,
            fresh: 0,
            root: None,
        };
        extend(prefix, followers, interval, |end, start| {
            next.ends.push(end);
            next.starts.push(start);
        });
        levels.push(next);
    }
    let mut found = Vec::new();
    let mut last_end = i64::MIN;
    let whole = &levels[levels.len() - 1];
    for (&end, &start) in whole.ends.iter().zip(&whole.starts) {
        if start > last_end {
            found.push(trace(pattern, &levels, end));
            last_end = end;
        }
    }
    Ok(found)
}

/// The chain that ends at `end` and starts latest, by stepping back to each level's last valid end.
fn trace(pattern: &Pattern, levels: &[Ends], end: i64) -> Vec<i64> {
    let mut ticks = vec![end; pattern.size()];
    for k in (0..pattern.size() - 1).rev() {
        let limit = ticks[k + 1] - pattern.intervals()[k].low;
        let before = levels[k].ends.partition_point(|&t| t < limit);
        ticks[k] = levels[k].ends[before.saturating_sub(1)];
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::random_case;
    use crate::oracle;

    #[test]
    fn they_are_valid_apart_and_as_many_as_the_count() {
        let mut seen = 0;
        for seed in 0..5_000 {
            let case = random_case(seed, 20, 4);
            for pattern in &case.patterns {
                let found = occurrences(&case.events, pattern).unwrap();
                assert_eq!(found.len() as u64, oracle::count(&case.events, pattern));
                for ticks in &found {
                    for (tick, &symbol) in ticks.iter().zip(pattern.symbols()) {
                        assert!(case.events.ticks_of(symbol).contains(tick));
                    }
                    for (pair, interval) in ticks.windows(2).zip(pattern.intervals()) {
                        assert!(interval.contains(pair[1] - pair[0]));
                    }
                }
                for pair in found.windows(2) {
                    assert!(pair[0].last() < pair[1].first());
                }
                seen += found.len();
            }
        }
        assert!(seen > 10_000);
    }
}
