//! Online against offline, at random cut points.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::cases::{Case, alphabet, random_case, random_pattern, remining};
use crate::count;
use crate::events::Events;
use crate::oracle;
use crate::pattern::Interval;

/// The case's events, shuffled within each tick.
fn shuffled(case: &Case, rng: &mut ChaCha8Rng) -> Vec<(i64, u32)> {
    let mut events: Vec<(i64, u32)> = case.events.iter().collect();
    for tie in events.chunk_by_mut(|a, b| a.0 == b.0) {
        tie.shuffle(rng);
    }
    events
}

/// Offline counts of a prefix of a stream.
fn offline(symbols: usize, events: &[(i64, u32)], patterns: &[Pattern]) -> Vec<u64> {
    if events.is_empty() {
        return vec![0; patterns.len()];
    }
    let (ticks, names): (Vec<i64>, Vec<u32>) = events.iter().copied().unzip();
    let events = Events::new(alphabet(symbols), &ticks, &names).unwrap();
    count::count(&events, patterns).unwrap()
}

#[test]
fn at_every_moment_the_counts_are_the_offline_counts_of_the_prefix() {
    let mut occurrences = 0;
    for seed in 0..6_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let case = random_case(seed, 40, 6);
        let stream = shuffled(&case, &mut rng);
        let symbols = case.events.symbols();
        let mut miner = OnlineMiner::new(symbols, &case.patterns).unwrap();
        let mut cut = 0;
        while cut < stream.len() {
            let next = (cut + rng.random_range(1..12)).min(stream.len());
            assert_eq!(
                miner.extend(stream[cut..next].iter().copied()),
                (next - cut) as u64
            );
            cut = next;
            let expected = offline(symbols, &stream[..cut], &case.patterns);
            let got: Vec<u64> = miner.counts().collect();
            assert_eq!(
                got,
                expected,
                "case {seed} at {cut}: {:?} in {stream:?}",
                miner.patterns()
            );
            occurrences += got.iter().sum::<u64>();
        }
    }
    assert!(occurrences > 100_000);
}

#[test]
fn small_cases_agree_with_the_definition() {
    for seed in 0..5_000 {
        let case = random_case(seed, 14, 4);
        let mut miner = OnlineMiner::new(case.events.symbols(), &case.patterns).unwrap();
        miner.extend(case.events.iter());
        for (pattern, count) in case.patterns.iter().zip(miner.counts()) {
            assert_eq!(count, oracle::count(&case.events, pattern), "case {seed}");
        }
    }
}

#[test]
fn a_list_that_changes_counts_each_episode_from_its_own_beginning() {
    let (mut kept, mut back_filled) = (0, 0);
    for seed in 0..1_500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let case = random_case(seed, 60, 12);
        let symbols = case.events.symbols();
        let stream = shuffled(&case, &mut rng);
        let longest = case.patterns.iter().map(Pattern::span).max().unwrap();
        let window = longest + 1 + rng.random_range(0..20);
        let most = if rng.random_bool(0.7) {
            1000
        } else {
            rng.random_range(1..30)
        };
        let mut miner =
            OnlineMiner::with_window(symbols, &case.patterns[..3], window, most).unwrap();
        for (i, &(tick, symbol)) in stream.iter().enumerate() {
            assert!(miner.push(tick, symbol));
            if rng.random_bool(0.1) {
                let mut list = case.patterns.clone();
                list.shuffle(&mut rng);
                list.truncate(rng.random_range(0..8));
                let before = miner.watched();
                match miner.watch(&list) {
                    Ok(()) => {
                        for new in miner.watched() {
                            match before.iter().find(|w| w.pattern == new.pattern) {
                                Some(old) => {
                                    kept += 1;
                                    assert_eq!(*old, new);
                                }
                                None => back_filled += new.count,
                            }
                        }
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::InsufficientData);
                        assert!(most < 1000);
                        assert_eq!(miner.watched(), before);
                    }
                }
            }
            for w in miner.watched() {
                let from = w.since.unwrap_or(i64::MIN);
                let first = stream.partition_point(|e| e.0 < from);
                let expected = offline(
                    symbols,
                    &stream[first.min(i + 1)..=i],
                    std::slice::from_ref(&w.pattern),
                );
                assert_eq!(w.count, expected[0], "case {seed} at {i}: {w:?}");
            }
        }
    }
    assert!(
        kept > 1_000 && back_filled > 1_000,
        "{kept} kept, {back_filled} counted"
    );
}

#[test]
fn memory_is_bounded_by_the_longest_low() {
    let edge = |low, high| Interval::new(low, high).unwrap();
    let patterns = [
        Pattern::new(vec![0, 0, 1], vec![edge(20, 30), edge(0, 5)]).unwrap(),
        Pattern::new(vec![0, 1], vec![edge(0, 1 << 40)]).unwrap(),
        Pattern::new(vec![1, 0, 1], vec![edge(3, 5), edge(7, 1000)]).unwrap(),
    ];
    let mut miner = OnlineMiner::new(2, &patterns).unwrap();
    for tick in 0..10_000 {
        for symbol in [0, 1, 0, 1] {
            miner.push(tick, symbol);
        }
        // Prefixes with children: 0 keeps 20 ticks, 0-0 none, 1 three, 1-0 seven; two more each.
        assert!(miner.list.chains() <= 22 + 2 + 5 + 9);
    }
    assert_eq!(miner.counts().len(), 3);
}

#[test]
fn what_cannot_be_taken_is_refused_and_counted() {
    let pair = Pattern::uniform(vec![0, 1], Interval::new(0, 5).unwrap()).unwrap();
    let mut miner = OnlineMiner::new(2, std::slice::from_ref(&pair)).unwrap();
    assert!(miner.push(-7, 0));
    assert!(!miner.push(-8, 0));
    assert!(!miner.push(-7, 2));
    assert!(!miner.push(i64::MIN, 0) && !miner.push(i64::MAX, 1));
    assert!(miner.push(-7, 1) && miner.push(-6, 1));
    assert_eq!(miner.counts().collect::<Vec<_>>(), [1]);
    let stats = OnlineStats {
        events: 3,
        late: 1,
        invalid: 3,
        forgotten: 0,
    };
    assert_eq!((miner.stats(), miner.now()), (stats, Some(-6)));
    miner.reset();
    assert_eq!((miner.stats(), miner.now()), (OnlineStats::default(), None));
    assert!(miner.push(-100, 1));
    assert_eq!(miner.counts().collect::<Vec<_>>(), [0]);
}

#[test]
fn senseless_lists_and_windows_are_refused() {
    let pair = Pattern::uniform(vec![0, 1], Interval::new(0, 5).unwrap()).unwrap();
    let list = std::slice::from_ref(&pair);
    let kind = |r: Result<OnlineMiner>| r.unwrap_err().kind();
    assert_eq!(kind(OnlineMiner::new(0, &[])), ErrorKind::InvalidArgument);
    assert_eq!(kind(OnlineMiner::new(1, list)), ErrorKind::Mismatch);
    for (ticks, events) in [(0, 1), (9, 0), (5, 10)] {
        let opened = OnlineMiner::with_window(2, list, ticks, events);
        assert_eq!(kind(opened), ErrorKind::InvalidArgument);
    }
    let mut fixed = OnlineMiner::new(2, list).unwrap();
    assert_eq!(
        fixed.watch(list).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn the_top_is_ordered_and_lists_nothing_twice() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let case = random_case(5, 40, 0);
    let symbols = case.events.symbols();
    let mut patterns: Vec<Pattern> = (0..20)
        .map(|i| random_pattern(&mut rng, symbols as u32, 1 + i % 3))
        .collect();
    patterns.extend_from_within(..);
    let mut miner = OnlineMiner::new(symbols, &patterns).unwrap();
    miner.extend(case.events.iter());
    let top = miner.top(8);
    assert_eq!(top.len(), 8);
    assert!(top.is_sorted_by(
        |a, b| a.count > b.count || a.count == b.count && a.pattern.size() >= b.pattern.size()
    ));
    for (i, w) in top.iter().enumerate() {
        assert!(top[..i].iter().all(|o| o.pattern != w.pattern));
    }
    assert_eq!(top[0].count, miner.counts().max().unwrap());
    assert!(miner.top(1000).len() <= 20);
}

#[test]
fn a_search_that_cannot_be_is_refused_before_it_begins() {
    let edge = Interval::new(0, 5).unwrap();
    let remining = ReminingOptions {
        every_ticks: 100,
        ..remining(400, edge)
    };
    assert!(remining.check().is_ok());
    let upside_down = Interval { low: 5, high: 0 };
    for intervals in [vec![], vec![edge, edge], vec![upside_down]] {
        let refused = ReminingOptions {
            intervals,
            ..remining.clone()
        };
        let error = refused.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().starts_with("re-mining: "), "{error}");
    }
}

#[test]
fn chains_beyond_the_budget_are_forgotten_and_counted() {
    let far = Interval::new(900, 1000).unwrap();
    let pair = Pattern::uniform(vec![0, 1], far).unwrap();
    let events: Vec<(i64, u32)> = (0..4000).map(|t| (t, u32::from(t % 10 == 9))).collect();
    let mut all = OnlineMiner::new(2, std::slice::from_ref(&pair)).unwrap();
    let mut few = all.clone().limited_to(100 * 16);
    all.extend(events.iter().copied());
    few.extend(events.iter().copied());
    assert_eq!(all.stats().forgotten, 0);
    assert!(all.list.chains() > 800 && few.list.chains() <= 101);
    assert!(few.stats().forgotten > 2000);
    // The oldest are forgotten, and those were wanted.
    assert!(few.counts().next() < all.counts().next());
    // Within the budget nothing is lost.
    let mut enough = few.clone().limited_to(4096 * 16);
    enough.reset();
    enough.extend(events.iter().copied());
    assert_eq!(enough.stats().forgotten, 0);
    assert!(enough.counts().eq(all.counts()));
}

#[test]
fn a_search_that_needs_more_memory_than_it_may_fails_and_the_list_stays() {
    let remining = ReminingOptions {
        threshold: 1,
        max_size: 4,
        ..remining(400, Interval::new(0, 90).unwrap())
    };
    let events: Vec<(i64, u32)> = (0..300).map(|t| (t, (t * 7 % 12) as u32)).collect();
    let search = |bytes| remining.search(12, &events, bytes, &());
    let error = search(1 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(
        error.message().contains("expected at most 1048576 bytes"),
        "{error}"
    );
    assert_eq!(search(1 << 30).unwrap().unwrap().len(), 10);

    let config = |max_bytes| MinerConfig {
        max_bytes,
        idle: std::time::Duration::from_micros(50),
        remining: Some(ReminingOptions {
            every_ticks: 200,
            ..remining.clone()
        }),
        ..MinerConfig::new(12, Vec::new())
    };
    let refused = open(config(Some(1000))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    // Half of what the window leaves is for the search: half a mebibyte.
    let (mut feed, handle) = open(config(Some(1_700_000))).unwrap();
    assert_eq!(feed.push_events(&events), events.len());
    // A search is due once the clock has gone on by `every_ticks` since the miner looked at it first.
    let mut tick = events.len() as i64;
    while handle.summary().remining_failures + handle.summary().remined == 0 {
        assert!(handle.is_running());
        tick += 100;
        feed.push_events(&[(tick, (tick % 12) as u32)]);
        handle.flush().unwrap();
    }
    let told = handle.snapshot();
    assert_eq!((told.summary.remined, told.watched.len()), (0, 0));
    assert!(told.remining_error.unwrap().contains("higher threshold"));
}
