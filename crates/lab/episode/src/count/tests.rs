//! The walk in tiles and parts, and siblings counted at once, against the oracle.

use super::count;
use super::greedy::GreedyChoice;
use super::siblings::Siblings;
use super::trie::Trie;
use super::walk::{Walk, WalkOutput};
use crate::cases::random_case;
use crate::oracle;
use crate::pattern::{Interval, Pattern};

#[test]
fn tiles_and_parts_of_any_size_give_the_same_counts() {
    for seed in 0..4_000 {
        let case = random_case(seed, 40, 30);
        let mut sorted: Vec<&Pattern> = case.patterns.iter().collect();
        sorted.sort_by(|a, b| a.prefix_key().cmp(b.prefix_key()));
        let expected: Vec<u64> = sorted
            .iter()
            .map(|p| match seed % 8 {
                0 => oracle::count(&case.events, p),
                _ => count(&case.events, std::slice::from_ref(*p)).unwrap()[0],
            })
            .collect();
        let tile = 1 + seed as usize % 9;
        let mut walk = Walk::new(
            &case.events,
            &sorted,
            WalkOutput::Counts,
            i64::MIN,
            i64::MAX,
            tile,
        );
        while walk.advance() {}
        assert_eq!(walk.counts(), expected, "case {seed}, tiles of {tile}");

        let cut = seed as i64 % 60;
        let mut taken = vec![GreedyChoice::default(); sorted.len()];
        for (from, to) in [(i64::MIN, cut), (cut, cut + 7), (cut + 7, i64::MAX)] {
            let mut walk = Walk::new(
                &case.events,
                &sorted,
                WalkOutput::Occurrences,
                from,
                to,
                tile,
            );
            while walk.advance() {}
            for (greedy, found) in taken.iter_mut().zip(walk.occurrences()) {
                greedy.extend(&found.ends, &found.starts);
            }
        }
        let counts: Vec<u64> = taken.iter().map(|g| g.count).collect();
        assert_eq!(counts, expected, "case {seed} cut at {cut}");
    }
}

#[test]
fn siblings_counted_at_once_agree_with_the_oracle() {
    let interval = |low, high| Interval::new(low, high).unwrap();
    let mut at_once = 0;
    for seed in 0..1_500 {
        let case = random_case(seed, 24, 3);
        let symbols = case.events.symbols() as u32;
        // Side by side, overlapping, with the same lower bound, more than three in a row.
        let edges = [(0, 1), (1, 3), (3, 4), (4, 7), (0, 4), (2, 5), (5, 6)];
        let mut patterns = Vec::new();
        for prefix in &case.patterns {
            for (low, high) in edges {
                for s in 0..symbols {
                    let tail = prefix.intervals().iter().copied();
                    let edges = tail.chain([interval(low, high)]).collect();
                    let names = prefix.symbols().iter().copied().chain([s]).collect();
                    patterns.push(Pattern::new(names, edges).unwrap());
                }
            }
        }
        patterns.sort_by(|a, b| a.prefix_key().cmp(b.prefix_key()));
        let plan = Siblings::plan(&Trie::new(patterns.iter()), &case.events);
        at_once += plan.iter().flatten().count();
        let counts = count(&case.events, &patterns).unwrap();
        for (pattern, count) in patterns.iter().zip(counts) {
            assert_eq!(
                count,
                oracle::count(&case.events, pattern),
                "case {seed}: {pattern:?}"
            );
        }
    }
    assert!(at_once > 1_000, "{at_once} nodes counted at once");
}
