//! Each frequency against the oracle; which of them never grow with an episode.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use std::ops::Range;

use betz_base::error::ErrorKind;
use betz_base::team::Alone;
use betz_episode::count::{CountJob, InMemory, Strategy, TeamStrategy};
use betz_episode::significance::{SignificanceOptions, Surrogate, significance};
use betz_episode::{
    Alphabet, Clock, Events, Frequency, Interval, MineOptions, Pattern, mine_by, oracle,
};
use betz_recording::{Recording, Segment, SpikeForm, Spikes};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Events and some episodes to count in them.
struct Case {
    events: Events,
    patterns: Vec<Pattern>,
}

fn labels(symbols: u32) -> Vec<String> {
    (0..symbols).map(|s| format!("n{s}")).collect()
}

/// Events of (tick, symbol) pairs in any order, on a clock of one millisecond.
fn events(symbols: u32, mut pairs: Vec<(i64, u32)>) -> Events {
    pairs.sort_by_key(|pair| pair.0);
    let (ticks, names): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
    let clock = Clock::from_tick_seconds(1e-3).unwrap();
    Events::new(
        Alphabet::new(labels(symbols), clock).unwrap(),
        &ticks,
        &names,
    )
    .unwrap()
}

fn random_interval(rng: &mut ChaCha8Rng) -> Interval {
    let low = match rng.random_bool(0.4) {
        true => 0,
        false => rng.random_range(0..4),
    };
    Interval::new(low, low + rng.random_range(1..=5)).unwrap()
}

/// Few symbols, so that they repeat, and few ticks, so that they tie.
fn random_case(seed: u64, number: Range<usize>, patterns: usize) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let symbols = rng.random_range(1..=4_u32);
    let n = rng.random_range(number);
    let ticks = rng.random_range(1..=3 * n as i64);
    let pairs = (0..n).map(|_| (rng.random_range(0..ticks), rng.random_range(0..symbols)));
    let pairs = pairs.collect();
    let pattern = |_| {
        let size = rng.random_range(1..=5);
        let names = (0..size).map(|_| rng.random_range(0..symbols)).collect();
        let edges = (1..size).map(|_| random_interval(&mut rng)).collect();
        Pattern::new(names, edges).unwrap()
    };
    Case {
        patterns: (0..patterns).map(pattern).collect(),
        events: events(symbols, pairs),
    }
}

/// All frequencies; spans that leave out some, all or no occurrences.
fn frequencies(span: i64) -> [Frequency; 8] {
    [
        Frequency::NonOverlapped,
        Frequency::Minimal { span: None },
        Frequency::Minimal { span: Some(span) },
        Frequency::Windows { width: span },
        Frequency::Windows { width: span + 1 },
        Frequency::Distinct,
        Frequency::Total { span: None },
        Frequency::Total { span: Some(span) },
    ]
}

fn counted(events: &Events, patterns: &[Pattern], frequency: Frequency) -> Vec<u64> {
    frequency.count(&CountJob::new(events, patterns)).unwrap()
}

fn check(case: &Case, span: i64, met: &mut [u64; 8]) {
    for (frequency, met) in frequencies(span).into_iter().zip(met) {
        let counts = counted(&case.events, &case.patterns, frequency);
        for (pattern, &count) in case.patterns.iter().zip(&counts) {
            assert_eq!(
                count,
                oracle::frequency(&case.events, pattern, frequency),
                "{frequency:?} of {pattern:?} in {:?}",
                case.events.iter().collect::<Vec<_>>()
            );
            *met += u64::from(count > 1 && pattern.size() > 2);
        }
    }
}

#[test]
fn each_counts_what_its_definition_says() {
    let mut met = [0; 8];
    for seed in 0..2_000 {
        check(&random_case(seed, 1..17, 6), 1 + seed as i64 % 11, &mut met);
    }
    assert!(met.iter().all(|&n| n > 200), "{met:?}");
}

#[test]
fn delays_at_the_ends_of_an_interval() {
    // (2, 4] after 10: 12 is out, 13 and 14 are in, 15 is out.
    let pair = [Pattern::uniform(vec![0, 1], Interval::new(2, 4).unwrap()).unwrap()];
    for (delay, inside) in [(2, 0), (3, 1), (4, 1), (5, 0)] {
        let case = events(2, vec![(10, 0), (10, 0), (10 + delay, 1), (10 + delay, 1)]);
        for frequency in frequencies(4).into_iter().filter(|f| f.name() != "windows") {
            assert_eq!(counted(&case, &pair, frequency), [inside], "{frequency:?}");
        }
        // A window holds events that are less than its width apart.
        for width in 1..9 {
            let windows = counted(&case, &pair, Frequency::Windows { width });
            assert_eq!(windows, [inside * (width - delay).max(0) as u64]);
        }
    }
}

#[test]
fn all_but_distinct_never_grow_with_an_episode() {
    let mut grown = 0;
    for seed in 0..2_000 {
        let case = random_case(seed, 1..25, 4);
        for pattern in &case.patterns {
            let parts = [pattern.without_first(), pattern.without_last()];
            for part in parts.into_iter().flatten() {
                let pair = [pattern.clone(), part];
                for frequency in frequencies(1 + seed as i64 % 9) {
                    let counts = counted(&case.events, &pair, frequency);
                    match frequency.is_anti_monotone() {
                        true => assert!(counts[0] <= counts[1], "{frequency:?} of {pair:?}"),
                        false => grown += u64::from(counts[0] > counts[1]),
                    }
                }
            }
        }
    }
    assert!(grown > 100, "{grown}");
}

#[test]
fn a_search_finds_what_is_frequent_and_nothing_else() {
    let mut found = 0;
    let mut rng = ChaCha8Rng::seed_from_u64(1997);
    for seed in 0..100 {
        let case = random_case(seed, 5..31, 0);
        let symbols = case.events.symbols() as u32;
        let mut options = MineOptions::new(vec![random_interval(&mut rng)], 3);
        options.max_size = Some(3);
        let mut all: Vec<Pattern> = Vec::new();
        for size in 1..=3_u32 {
            for i in 0..symbols.pow(size) {
                let symbol = |k: u32| i / symbols.pow(size - 1 - k) % symbols;
                let names = (0..size).map(symbol).collect();
                all.push(Pattern::uniform(names, options.intervals[0]).unwrap());
            }
        }
        for frequency in frequencies(6).into_iter().filter(|f| f.is_anti_monotone()) {
            let strategy = TeamStrategy::new(&Alone, Box::new(frequency));
            let counter = InMemory {
                events: &case.events,
                strategy: &strategy,
            };
            let mined = mine_by(&counter, &options, &()).unwrap();
            let expected: Vec<(&Pattern, u64)> = (all.iter())
                .map(|p| (p, oracle::frequency(&case.events, p, frequency)))
                .filter(|e| e.1 >= 3)
                .collect();
            let mined: Vec<(&Pattern, u64)> = mined
                .episodes
                .iter()
                .map(|e| (&e.pattern, e.count))
                .collect();
            assert_eq!(mined, expected, "seed {seed}, {frequency:?}");
            found += mined.iter().filter(|e| e.0.size() == 3).count();
        }
    }
    assert!(found > 1_000, "{found}");
}

#[test]
fn a_search_by_distinct_occurrences_is_refused() {
    let case = random_case(1, 10..20, 0);
    let options = MineOptions::new(vec![Interval::new(0, 3).unwrap()], 1);
    let strategy = TeamStrategy::new(&Alone, Box::new(Frequency::Distinct));
    let counter = InMemory {
        events: &case.events,
        strategy: &strategy,
    };
    let error = mine_by(&counter, &options, &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("distinct: expected episodes"));
}

#[test]
fn counts_beyond_64_bits_stay_at_the_largest() {
    // n events in a row have n choose k chains of k.
    let row = |n: i64| events(1, (0..n).map(|t| (t, 0)).collect());
    let of =
        |size: usize| Pattern::uniform(vec![0; size], Interval::new(0, 1_000).unwrap()).unwrap();
    let count = |n, size| counted(&row(n), &[of(size)], Frequency::Distinct)[0];
    assert_eq!(count(40, 20), 137_846_528_820);
    assert_eq!(count(67, 33), 14_226_520_737_620_288_370); // the largest below 2^64 in this row of Pascal's triangle
    assert_eq!(count(68, 34), u64::MAX);
    assert_eq!(count(400, 200), u64::MAX);
    assert_eq!(count(258, 256), 258 * 257 / 2);
}

#[test]
fn windows_stay_within_a_trial() {
    let recording = Recording {
        tick_seconds: 1e-3,
        ticks: 300,
        spikes: Spikes::new(vec![5, 6, 99, 100], vec![0, 1, 0, 1]),
        channel_names: labels(2),
        behavior: None,
        segments: [(0, 100), (100, 300)]
            .map(|(start, stop)| Segment { start, stop })
            .to_vec(),
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    };
    let cut = Events::from_recording(&recording).unwrap();
    let pair = [Pattern::uniform(vec![0, 1], Interval::new(0, 5).unwrap()).unwrap()];
    assert_eq!(counted(&cut, &pair, Frequency::Windows { width: 3 }), [2]);
    // 60 s lie between trials.
    let longest = Frequency::Windows { width: 60_000 };
    assert_eq!(counted(&cut, &pair, longest), [59_999]);
    let longer = Frequency::Windows { width: 60_001 };
    let error = longer.count(&CountJob::new(&cut, &pair)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
}

/// Surrogates are counted by the same definition, on any number of threads.
#[test]
fn surrogates_are_counted_by_the_same_definition() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for seed in 0..20 {
        let case = random_case(seed, 20..60, 6);
        for frequency in frequencies(8) {
            let options = SignificanceOptions {
                surrogate: match rng.random_bool(0.5) {
                    true => Surrogate::ShuffleIntervals,
                    false => Surrogate::Dither { delta: 6 },
                },
                surrogates: rng.random_range(1..6),
                seed,
                frequency,
            };
            let found = significance(&case.events, &case.patterns, &options, &()).unwrap();
            let surrogates: Vec<Events> = (0..u64::from(options.surrogates))
                .map(|i| options.surrogate.make(&case.events, seed, i).unwrap())
                .collect();
            for (pattern, row) in case.patterns.iter().zip(found) {
                let observed = oracle::frequency(&case.events, pattern, frequency);
                let counts: Vec<u64> = (surrogates.iter())
                    .map(|events| oracle::frequency(events, pattern, frequency))
                    .collect();
                let reached = counts.iter().filter(|&&count| count >= observed).count();
                let n = f64::from(options.surrogates);
                assert_eq!(row.observed, observed);
                assert_eq!(row.expected, counts.iter().sum::<u64>() as f64 / n);
                assert_eq!(row.p, (1 + reached) as f64 / (1.0 + n), "{frequency:?}");
            }
        }
    }
}

#[test]
fn counts_too_large_for_sums_of_squares_are_refused() {
    let row = events(1, (0..400).map(|t| (t, 0)).collect());
    let chain = [Pattern::uniform(vec![0; 200], Interval::new(0, 1_000).unwrap()).unwrap()];
    let options = SignificanceOptions {
        surrogate: Surrogate::ShuffleIntervals,
        surrogates: 2,
        seed: 1,
        frequency: Frequency::Distinct,
    };
    let error = significance(&row, &chain, &options, &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(
        error.message().contains("expected counts below 2^63 / 2"),
        "{error}"
    );
}
