//! Every strategy against the oracle, and against the public reference counts.

use super::cases::{alphabet, events, random_case, reference, trials};
use super::count::{CountJob, Strategy, strategies};
use super::events::max_tick;
use super::*;

#[test]
fn strategies_agree_with_the_oracle_on_random_cases() {
    let strategies = strategies();
    let cases: u64 = if std::env::var_os("BETZ_EXHAUSTIVE").is_some() {
        1_000_000
    } else {
        100_000
    };
    let mut counted = 0;
    for seed in 0..cases / 4 {
        let case = random_case(seed, 14, 4);
        let expected: Vec<u64> = case
            .patterns
            .iter()
            .map(|p| oracle::count(&case.events, p))
            .collect();
        for strategy in &strategies {
            let counts = strategy
                .count(&CountJob::new(&case.events, &case.patterns))
                .unwrap();
            assert_eq!(
                counts,
                expected,
                "{} on case {seed}: {:?} in {:?}",
                strategy.name(),
                case.patterns,
                case.events.iter().collect::<Vec<_>>()
            );
        }
        counted += case.patterns.len();
    }
    assert!(counted >= 100_000);
}

#[test]
fn a_threshold_never_changes_a_count_at_or_above_it() {
    for seed in 0..2_000 {
        let case = random_case(seed, 30, 6);
        let expected = count::count(&case.events, &case.patterns).unwrap();
        for strategy in strategies() {
            for threshold in [1, 2, 3] {
                let mut job = CountJob::new(&case.events, &case.patterns);
                job.threshold = Some(threshold);
                for (got, want) in strategy.count(&job).unwrap().into_iter().zip(&expected) {
                    assert!(
                        got == *want || (got < threshold && *want < threshold),
                        "{} on case {seed}: {got} for {want} at threshold {threshold}",
                        strategy.name()
                    );
                }
            }
        }
    }
}

#[test]
fn tiles_and_parts_of_any_size_give_the_same_counts() {
    use super::count::greedy::Greedy;
    use super::count::walk::{Walk, Wanted};
    for seed in 0..4_000 {
        let case = random_case(seed, 40, 30);
        let mut sorted: Vec<&Pattern> = case.patterns.iter().collect();
        sorted.sort_by(|a, b| a.prefix_key().cmp(b.prefix_key()));
        let expected: Vec<u64> = sorted
            .iter()
            .map(|p| count::Serial.count(&CountJob::new(&case.events, std::slice::from_ref(p))))
            .map(|n| n.unwrap()[0])
            .collect();
        let tile = 1 + seed as usize % 9;
        let mut walk = Walk::new(
            &case.events,
            &sorted,
            Wanted::Counts,
            i64::MIN,
            i64::MAX,
            tile,
        );
        while walk.advance() {}
        assert_eq!(walk.counts(), expected, "case {seed}, tiles of {tile}");

        let cut = seed as i64 % 60;
        let mut taken = vec![Greedy::default(); sorted.len()];
        for (from, to) in [(i64::MIN, cut), (cut, cut + 7), (cut + 7, i64::MAX)] {
            let mut walk = Walk::new(&case.events, &sorted, Wanted::Occurrences, from, to, tile);
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
    use super::count::{siblings::Siblings, trie::Trie};
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
        let counts = count::count(&case.events, &patterns).unwrap();
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

/// Ticks that fill the packed word: a window's upper bound lies beyond what packs.
#[test]
fn counts_near_the_largest_tick_are_those_near_tick_0() {
    let symbols = 64_u32;
    let ceiling = max_tick(symbols as usize);
    let edge = Interval::new(0, 20).unwrap();
    let patterns: Vec<Pattern> = (0..symbols)
        .map(|s| Pattern::uniform(vec![0, s], edge).unwrap())
        .collect();
    let pairs: Vec<(i64, u32)> = (0..400).map(|i| (i, (i * i % 64) as u32)).collect();
    let shifted = |by: i64| {
        let labels = (0..symbols).map(|s| s.to_string()).collect();
        let alphabet = Alphabet::new(labels, Clock::from_tick_seconds(1e-3).unwrap()).unwrap();
        let pairs: Vec<(i64, u32)> = pairs.iter().map(|&(t, s)| (t + by, s)).collect();
        Events::from_pairs(alphabet, pairs.into_iter(), 0).unwrap()
    };
    let (near, far) = (shifted(0), shifted(ceiling - 399));
    assert_eq!(far.last_tick(), ceiling);
    let expected = count::Serial
        .count(&CountJob::new(&near, &patterns))
        .unwrap();
    assert!(expected.iter().sum::<u64>() > 50);
    for strategy in strategies() {
        let counts = strategy.count(&CountJob::new(&far, &patterns)).unwrap();
        assert_eq!(counts, expected, "{}", strategy.name());
    }
}

#[test]
fn known_small_counts() {
    // The papers' example: A -(5,10]-> B -(10,15]-> C, Fig. 3 of Patnaik et al.
    let (a, b, c) = (0, 1, 2);
    let pairs = vec![
        (1, a),
        (2, a),
        (8, b),
        (10, a),
        (13, a),
        (15, a),
        (18, b),
        (20, c),
    ];
    let paper = Pattern::new(
        vec![a, b, c],
        vec![
            Interval::new(5, 10).unwrap(),
            Interval::new(10, 15).unwrap(),
        ],
    )
    .unwrap();
    // One symbol: tied events are one tick, and one tick holds one occurrence.
    let single = Pattern::new(vec![a], vec![]).unwrap();
    let case = events(3, pairs);
    let tied = events(1, vec![(0, a), (0, a), (0, a), (1, a)]);
    let pair = Pattern::uniform(vec![a, a], Interval::new(0, 5).unwrap()).unwrap();
    for s in strategies() {
        let n = |e, p: &Pattern| s.count(&CountJob::new(e, std::slice::from_ref(p))).unwrap()[0];
        assert_eq!(n(&case, &paper), 1, "{}", s.name());
        assert_eq!(n(&case, &single), 5, "{}", s.name());
        assert_eq!(n(&tied, &single), 2, "{}", s.name());
        assert_eq!(n(&tied, &pair), 1, "{}", s.name());
    }
}

#[test]
fn a_symbol_that_is_not_there_is_refused() {
    let case = events(2, vec![(0, 0), (1, 1)]);
    let pattern = Pattern::new(vec![2], vec![]).unwrap();
    for s in strategies() {
        let error = s
            .count(&CountJob::new(&case, std::slice::from_ref(&pattern)))
            .unwrap_err();
        assert_eq!(error.kind(), betz_base::ErrorKind::Mismatch);
    }
    assert_eq!(alphabet(2).symbol("c"), None);
}

#[test]
fn the_reference_counts_of_the_64_neuron_set_come_out_by_every_strategy() {
    let Some((case, expected)) = reference() else {
        return;
    };
    for strategy in strategies() {
        let job = CountJob::new(&case.events, &case.patterns);
        assert_eq!(
            strategy.count(&job).unwrap(),
            expected,
            "{}",
            strategy.name()
        );
    }
}

#[test]
fn spikes_outside_the_segments_do_not_count() {
    let ticks = vec![5, 9, 100, 104, 199, 200, 204];
    let channels = vec![0, 1, 0, 1, 0, 0, 1];
    let pair = [Pattern::uniform(vec![0, 1], Interval::new(0, 5).unwrap()).unwrap()];
    let cut = |segments: &[(i64, i64)]| trials(2, 300, segments, ticks.clone(), channels.clone());
    let all = cut(&[(0, 300)]);
    assert_eq!(
        (all.len(), count::count(&all, &pair).unwrap()),
        (7, vec![3])
    );
    assert_eq!(all.iter().map(|e| e.0).collect::<Vec<_>>(), ticks);
    let one = cut(&[(100, 201)]);
    assert_eq!(
        (one.len(), count::count(&one, &pair).unwrap()),
        (4, vec![1])
    );
    assert_eq!((one.first_tick(), one.recording_tick(0)), (0, 100));
    assert_eq!(one.segment_bounds(), [(0, 100)]);
    // The interval is not held against a gap that is not there.
    let long = Pattern::uniform(vec![0, 1], Interval::new(0, 100_000).unwrap()).unwrap();
    assert!(long.check(&one).is_ok());
    let two = cut(&[(0, 100), (100, 300)]);
    assert!(long.check(&two).is_err());
    assert_eq!(two.segment_bounds(), [(0, 99), (60_100, 60_299)]);
}
