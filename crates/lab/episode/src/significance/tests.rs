//! Calibration on independent symbols, power on embedded chains; fixed seeds throughout.

use betz_base::progress::StopAfter;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};

use super::*;
use crate::cases::events;
use crate::pattern::Interval;
use betz_simulate::network::{NetworkConfig, simulate};

/// Independent symbols at 20 Hz for `seconds`, in ticks of 10 µs.
fn poisson(symbols: usize, seconds: i64, seed: u64) -> Events {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut pairs = Vec::new();
    for s in 0..symbols as u32 {
        let mut tick = 0;
        loop {
            let wait: f64 = Exp1.sample(&mut rng);
            tick += 1 + (wait * 5_000.0) as i64;
            if tick >= seconds * 100_000 {
                break;
            }
            pairs.push((tick, s));
        }
    }
    events(symbols, pairs)
}

/// All pairs and some triples of different symbols, chosen without looking at any count.
fn patterns(symbols: u32) -> Vec<Pattern> {
    let edge = Interval::new(400, 1400).unwrap();
    let mut list = Vec::new();
    for a in 0..symbols {
        for b in (0..symbols).filter(|&b| b != a) {
            list.push(Pattern::uniform(vec![a, b], edge).unwrap());
            let c = (a + b + 1) % symbols;
            if c != a && c != b {
                list.push(Pattern::uniform(vec![a, b, c], edge).unwrap());
            }
        }
    }
    list
}

fn surrogate_options(surrogate: Surrogate, surrogates: u32, seed: u64) -> SignificanceOptions {
    SignificanceOptions {
        surrogate,
        surrogates,
        seed,
        frequency: Frequency::NonOverlapped,
    }
}

fn part_options(shifts: u32, least: i64, most: i64, seed: u64) -> PartOptions {
    PartOptions {
        shifts,
        least,
        most,
        seed,
    }
}

/// Under the null, p is uniform: the share of p ≤ x is near x, over recordings.
fn assert_uniform(p: &[f64], up_to: f64, what: &str) {
    let points = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9];
    for x in points.into_iter().filter(|&x| x <= up_to) {
        let share = p.iter().filter(|&&v| v <= x).count() as f64 / p.len() as f64;
        // Binomial, widened by 2 since episodes of one recording share events.
        let tolerance = 2.0 * 4.0 * (x * (1.0 - x) / p.len() as f64).sqrt();
        assert!((share - x).abs() < tolerance, "{what}: p <= {x} in {share}");
    }
}

#[test]
fn p_is_uniform_on_independent_symbols() {
    let list = patterns(8);
    for surrogate in [
        Surrogate::Dither { delta: 5000 },
        Surrogate::ShuffleIntervals,
    ] {
        let mut p = Vec::new();
        let mut discoveries = 0;
        for seed in 0..6 {
            let options = surrogate_options(surrogate, 59, seed);
            let found = significance(&poisson(8, 60, seed), &list, &options, &()).unwrap();
            discoveries += found.iter().filter(|s| s.q <= 0.05).count();
            for s in &found {
                assert!((s.observed as f64 - s.expected).abs() < 6.0 * s.std.max(1.0));
            }
            p.extend(found.iter().map(|s| s.p));
        }
        assert_uniform(&p, 1.0, &format!("{surrogate:?}"));
        assert_eq!(discoveries, 0);
    }
}

#[test]
fn a_parts_p_is_uniform_on_independent_pairs() {
    let mut list = patterns(8);
    list.retain(|p| p.size() == 2);
    let mut p = Vec::new();
    let mut full = 0;
    for seed in 0..8 {
        let options = part_options(80, 10_000, 200_000, seed);
        let found = part_significance(&poisson(8, 60, seed), &list, &options, &()).unwrap();
        full += found.iter().filter(|e| e.shifts == 80).count();
        p.extend(found.iter().map(|e| e.p));
        assert!(
            found
                .iter()
                .all(|e| e.weakest == (0..1) || e.weakest == (1..2))
        );
    }
    // About half are given up at the first look, and few but those below p = 1/2 go on.
    assert!(full > p.len() / 4 && full < p.len() * 3 / 4, "{full}");
    // A test that is given up early has a p that is too large, not too small.
    assert_uniform(&p, 0.25, "parts");
}

#[test]
fn embedded_chains_are_significant_and_what_is_hung_on_them_is_told_apart() {
    let config = NetworkConfig {
        seconds: 20.0,
        ..NetworkConfig::sym26()
    };
    let simulated = simulate(&config, 3).unwrap();
    let events = Events::from_recording(&simulated.recording).unwrap();
    let chain = &simulated.chains[1];
    let edge = Interval::new(chain.delay_ticks.0, chain.delay_ticks.1).unwrap();
    let uniform = |nodes: Vec<u32>| Pattern::uniform(nodes, edge).unwrap();
    let stranger = (0..26)
        .find(|s| simulated.chains.iter().all(|c| !c.nodes.contains(s)))
        .unwrap();
    let whole = uniform(chain.nodes.clone());
    let lead = uniform([&[stranger], &chain.nodes[..]].concat());
    let tail = uniform([&chain.nodes[..], &[stranger]].concat());
    let mut nodes = chain.nodes.clone();
    nodes[2] = stranger;
    let replaced = uniform(nodes);
    let backward = uniform(chain.nodes.iter().rev().copied().collect());
    let list = [whole, lead, tail, replaced, backward];
    for surrogate in [
        Surrogate::Dither { delta: 2000 },
        Surrogate::ShuffleIntervals,
    ] {
        let options = surrogate_options(surrogate, 39, 1);
        let found = significance(&events, &list, &options, &()).unwrap();
        assert_eq!(found[0].p, 1.0 / 40.0);
        assert!(found[0].observed as f64 > found[0].expected + 10.0 * found[0].std);
        // Independent symbols hardly make them either; that is what this null says, and no more.
        assert!(found[1..4].iter().all(|s| s.p < 0.05), "{found:?}");
        assert!(found[4].p > 0.05);
    }
    let options = part_options(39, 5_000, 50_000, 1);
    let parts = part_significance(&events, &list, &options, &()).unwrap();
    let last = chain.nodes.len();
    assert_eq!((parts[0].p, parts[0].shifts), (1.0 / 40.0, 39));
    for (found, weakest) in parts[1..4].iter().zip([0..1, last..last + 1, 2..3]) {
        assert!(found.p > 0.1 && found.weakest == weakest, "{found:?}");
    }
}

#[test]
fn threads_do_not_change_the_result_and_senseless_options_are_refused() {
    let data = poisson(4, 10, 1);
    let list = patterns(4);
    let options = surrogate_options(Surrogate::Dither { delta: 2000 }, 7, 1);
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build()
            .unwrap()
            .install(|| significance(&data, &list, &options, &()).unwrap())
    };
    assert_eq!(run(1), run(3));
    let none = SignificanceOptions {
        surrogates: 0,
        ..options
    };
    assert!(significance(&data, &list, &none, &()).is_err());
    for (shifts, least, most) in [(0, 1, 2), (5, 0, 2), (5, 3, 2)] {
        let options = part_options(shifts, least, most, 0);
        assert!(part_significance(&data, &list, &options, &()).is_err());
    }
    let stopped = significance(&data, &list, &options, &StopAfter::new(0)).unwrap_err();
    assert_eq!(stopped.kind(), betz_base::ErrorKind::Interrupted);
}

#[test]
fn chains_are_tested_size_by_size() {
    let config = NetworkConfig {
        neurons: 10,
        chain_lengths: vec![4],
        ..NetworkConfig::sym64(40.0)
    };
    let simulated = simulate(&config, 3).unwrap();
    let events = Events::from_recording(&simulated.recording).unwrap();
    let edge = Interval::new(400, 600).unwrap();
    let chain = &simulated.chains[0].nodes;
    let lone = (0..10).find(|n| !chain.contains(n)).unwrap();
    let pattern = |nodes: &[u32]| Pattern::uniform(nodes.to_vec(), edge).unwrap();
    let hung_on = [chain[0], chain[1], chain[2], lone];
    let patterns = [
        pattern(&chain[..1]),
        pattern(&chain[..2]),
        pattern(&chain[1..3]),
        pattern(&[chain[2], lone]),
        pattern(&chain[..3]),
        pattern(&[chain[1], chain[2], lone]),
        pattern(&hung_on),
        pattern(chain),
    ];
    let options = ChainOptions {
        surrogate: Surrogate::Dither { delta: 2000 },
        draws: 99,
        shifts: (10_000, 100_000),
        rate: 0.05,
        seed: 1,
    };
    let found = chains(&events, &patterns, &options, &()).unwrap();
    let passed: Vec<Option<bool>> = found.iter().map(|t| t.as_ref().map(|t| t.passed)).collect();
    // A single symbol is not tested, nor is what has a part that did not pass; the last pattern is,
    // although one of its parts is not among the patterns.
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(passed, [None, yes, yes, no, yes, None, None, yes]);
    assert_eq!(found[3].as_ref().unwrap().parts, None);
    for rate in [0.0, -1.0, 1.1, f64::NAN] {
        let refused = chains(&events, &patterns, &ChainOptions { rate, ..options }, &());
        assert!(refused.is_err(), "{rate}");
    }
}

/// The work done and all of the work, each time that they were told.
#[derive(Default)]
struct ProgressLog(std::sync::Mutex<Vec<(u64, u64)>>);

impl Progress for ProgressLog {
    fn update(&self, _stage: &str, done: u64, total: u64) {
        self.0.lock().unwrap().push((done, total));
    }
}

/// The time that was expected to be left is what was left, from a quarter of the work on, though some tests never began.
#[test]
fn what_is_left_of_tests_of_chains_is_told() {
    let config = NetworkConfig {
        neurons: 10,
        chain_lengths: vec![4],
        ..NetworkConfig::sym64(40.0)
    };
    let simulated = simulate(&config, 3).unwrap();
    let events = Events::from_recording(&simulated.recording).unwrap();
    let edge = Interval::new(400, 600).unwrap();
    let chain = &simulated.chains[0].nodes;
    let pattern = |nodes: &[u32]| Pattern::uniform(nodes.to_vec(), edge).unwrap();
    let mut patterns: Vec<Pattern> = (2..=4).map(|size| pattern(&chain[..size])).collect();
    patterns.extend([
        pattern(&chain[1..3]),
        pattern(&chain[2..]),
        pattern(&chain[1..]),
    ]);
    // Chance, of which nothing longer is tested.
    let others: Vec<u32> = (0..10).filter(|n| !chain.contains(n)).collect();
    patterns.extend((2..=6).map(|size| pattern(&others[..size])));
    let options = ChainOptions {
        surrogate: Surrogate::Dither { delta: 2000 },
        draws: 99,
        shifts: (10_000, 100_000),
        rate: 0.05,
        seed: 1,
    };
    let told = ProgressLog::default();
    let found = chains(&events, &patterns, &options, &told).unwrap();
    assert!((0..6).all(|i| found[i].as_ref().unwrap().passed));
    assert!((7..patterns.len()).all(|i| found[i].is_none()));
    let told = told.0.into_inner().unwrap();
    let &(end, total) = told.last().unwrap();
    assert_eq!(end, total);
    for (done, total) in told.iter().filter(|(done, _)| *done >= end / 4) {
        let (left, expected) = ((end - done) as f64, (total - done) as f64);
        let close = (expected - left).abs() <= 0.3 * left + 0.01 * end as f64;
        assert!(close, "{done} of {total}, {end} in the end");
    }
}

/// Equal trials, in which a shift by one of them comes back to where it began.
#[test]
fn chains_in_equal_trials_are_told_apart() {
    use rand::RngExt;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let length = 1000;
    let segments: Vec<(i64, i64)> = (0..150).map(|i| (i * length, (i + 1) * length)).collect();
    let mut pairs = Vec::new();
    for &(start, stop) in &segments {
        for _ in 0..4 {
            let tick = rng.random_range(start..stop - 20);
            pairs.extend([(tick, 0), (tick + 5, 1), (tick + 10, 2)]);
            pairs.push((rng.random_range(start..stop), 3));
        }
    }
    pairs.sort_unstable();
    let (ticks, channels) = pairs.into_iter().unzip();
    let events = crate::cases::trials(4, 150 * length, &segments, ticks, channels);
    let edge = Interval::new(4, 6).unwrap();
    let list = [vec![0, 1, 2], vec![0, 1, 3]].map(|s| Pattern::uniform(s, edge).unwrap());
    let options = part_options(999, 120, 1200, 1);
    let found = part_significance(&events, &list, &options, &()).unwrap();
    assert_eq!((found[0].p, found[0].shifts), (1.0 / 1000.0, 999));
    assert!(found[1].p > 0.1, "{found:?}");
    let long = PartOptions {
        least: 400,
        ..options
    };
    let error = part_significance(&events, &list, &long, &()).unwrap_err();
    assert!(error.message().contains("segment 0 lasts 1 s"), "{error}");
}

/// The copy's symbols take one bit more of a packed event than those of the events.
#[test]
fn parts_are_tested_up_to_the_largest_tick() {
    let mut rows = String::new();
    for i in 0..64_000_i64 {
        // A day of 64 symbols, each followed by the next.
        rows += &format!("s{:02},{}\n", i % 64, i as f64 * 86_400.0 * 2.0 / 64_000.0);
    }
    let read = Events::parse_csv(rows.as_bytes(), crate::Order::Required).unwrap();
    let ceiling = crate::events::max_tick_of_doubled(64);
    let alphabet = || read.alphabet().clone();
    let late = Events::new(
        alphabet(),
        &[ceiling - 900_000, ceiling - 5, ceiling],
        &[1, 0, 1],
    );
    assert!(Events::new(alphabet(), &[ceiling + 1], &[0]).is_err());
    let second = (1.0 / read.clock().tick_seconds()) as i64;
    for (events, edge, least) in [
        (
            read,
            Interval::new(second, 4 * second).unwrap(),
            60 * second,
        ),
        (late.unwrap(), Interval::new(1, 9).unwrap(), 100),
    ] {
        let list = [Pattern::uniform(vec![0, 1], edge).unwrap()];
        let options = part_options(3, least, 2 * least, 1);
        part_significance(&events, &list, &options, &()).unwrap();
    }
}

#[test]
fn nothing_is_made_where_there_is_nothing_to_test() {
    let data = poisson(4, 10, 1);
    struct UnusedProgress;
    impl Progress for UnusedProgress {
        fn cancelled(&self) -> bool {
            panic!("a surrogate was about to be made");
        }
    }
    let surrogates = surrogate_options(Surrogate::Dither { delta: 2000 }, 7, 1);
    assert!(
        significance(&data, &[], &surrogates, &UnusedProgress)
            .unwrap()
            .is_empty()
    );
    for (delta, surrogates) in [(0, 7), (9, 0)] {
        let options = surrogate_options(Surrogate::Dither { delta }, surrogates, 1);
        assert!(significance(&data, &[], &options, &UnusedProgress).is_err());
    }
    // Chains: without any of several symbols segments may be as short as they like.
    let short = ChainOptions {
        surrogate: Surrogate::Dither { delta: 9 },
        draws: 7,
        shifts: (1 << 40, 1 << 41),
        rate: 0.1,
        seed: 1,
    };
    let single = [Pattern::new(vec![0], Vec::new()).unwrap()];
    for list in [&single[..], &[]] {
        let tests = chains(&data, list, &short, &UnusedProgress).unwrap();
        assert_eq!(tests, vec![None; list.len()]);
        let no_draws = ChainOptions { draws: 0, ..short };
        let unmoved = ChainOptions {
            surrogate: Surrogate::Dither { delta: 0 },
            ..short
        };
        for options in [no_draws, unmoved] {
            let refused = chains(&data, list, &options, &UnusedProgress).unwrap_err();
            assert_eq!(refused.kind(), betz_base::ErrorKind::InvalidArgument);
        }
    }
    assert!(chains(&data, &patterns(2), &short, &UnusedProgress).is_err());
}
