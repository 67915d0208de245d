//! Every strategy against the oracle, the public reference counts and the default strategy.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use betz_episode::cases::{
    bursts, check_known_counts, check_largest_ticks, check_random_cases, check_reference,
    check_thresholds, check_unknown_symbols, random_case,
};
use betz_episode::count::{CountJob, InMemory, count};
use betz_episode::{Interval, MineOptions, mine, mine_by};

#[test]
fn strategies_agree_with_the_oracle_on_random_cases() {
    check_random_cases(&strategies());
}

#[test]
fn strategies_give_known_counts() {
    let all = strategies();
    check_known_counts(&all);
    check_largest_ticks(&all);
    check_reference(&all);
}

#[test]
fn a_threshold_never_changes_a_count_at_or_above_it() {
    check_thresholds(&strategies());
}

#[test]
fn a_symbol_that_is_not_there_is_refused() {
    check_unknown_symbols(&strategies());
}

#[test]
fn strategies_agree_on_bursts() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..20 {
        let case = bursts(&mut rng, 100..1500, 30);
        let expected = count(&case.events, &case.patterns).unwrap();
        let job = CountJob::new(&case.events, &case.patterns);
        for strategy in strategies() {
            assert_eq!(
                strategy.count(&job).unwrap(),
                expected,
                "{}",
                strategy.name()
            );
        }
    }
}

#[test]
fn mining_by_any_strategy_finds_the_same() {
    for seed in 0..40 {
        let case = random_case(seed, 24, 0);
        let intervals = vec![Interval::new(0, 2).unwrap(), Interval::new(1, 4).unwrap()];
        let mut options = MineOptions::new(intervals, 1 + seed % 4);
        options.max_size = Some(3);
        let expected = mine(&case.events, &options, &()).unwrap().episodes;
        for strategy in strategies() {
            let counter = InMemory {
                events: &case.events,
                strategy: &*strategy,
            };
            let found = mine_by(&counter, &options, &()).unwrap().episodes;
            assert_eq!(found, expected, "{} on case {seed}", strategy.name());
        }
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_names_there_are() {
    let error = strategy_on("fastest", &Device::cpu()).err().unwrap();
    assert_eq!(
        error.message(),
        "no strategy \"fastest\": expected one of latest-start, serial, two-pass, local-tracking, \
         local-tracking-atomic, local-tracking-flags, map-concat, hybrid"
    );
}
