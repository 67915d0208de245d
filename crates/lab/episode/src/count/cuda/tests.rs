//! The device's counts against the oracle, the CPU's and the reference; skipped, with a word,
//! where no CUDA device works.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::DeviceEvents;
use super::DeviceStream;
use super::events::EventLayout;
use super::siblings::Split;
use crate::cases::{
    Case, assert_met, bursts, cuda_cases, device, events, far_events, random_case, random_pattern,
    reference,
};
use crate::count::{CountJob, InMemory, LatestStart, Strategy, count_on_devices, latest_start_on};
use crate::events::Events;
use crate::mine::{MineOptions, mine, mine_by};
use crate::pattern::{Interval, Pattern};
use betz_device::Device;
use betz_device::cuda::Context;

/// Counts with the time cut in `cells` and tables of `slots`.
fn count(
    context: &Arc<Context>,
    events: &Events,
    patterns: &[Pattern],
    (cells, wide, slots): (usize, bool, usize),
) -> Vec<u64> {
    let held = vec![true; events.symbols()];
    DeviceEvents::upload_symbols(context, events, &held, Some(EventLayout { cells, wide }))
        .unwrap()
        .count_with(patterns, &(), slots)
        .unwrap()
}

#[test]
fn cuda_counts_agree_with_the_oracle_on_random_cases() {
    let Some((_, context)) = device() else { return };
    for seed in 0..cuda_cases(4_000) {
        let case = random_case(seed, 14, 12);
        let expected = case.oracle_counts();
        let shape = (1 + seed as usize % 9, seed % 2 == 0, 1 + seed as usize % 3);
        assert_eq!(
            count(&context, &case.events, &case.patterns, shape),
            expected,
            "case {seed}, (cells, wide, slots) {shape:?}: {:?} in {:?}",
            case.patterns,
            case.events.iter().collect::<Vec<_>>()
        );
    }
}

/// Dense bursts, repeated symbols, long intervals: many chains, long tables, many parts.
#[test]
fn cuda_counts_agree_with_the_cpu_on_larger_cases() {
    let Some((device, context)) = device() else {
        return;
    };
    for seed in 0..24 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let longest = [3, 10, 400][seed as usize % 3];
        let Case { events, patterns } = bursts(&mut rng, 500..6_000, longest);
        let job = CountJob::new(&events, &patterns);
        let expected = LatestStart.count(&job).unwrap();
        for shape in [(1, false, 1), (7, true, 1), (40, false, 2), (200, true, 64)] {
            let counts = count(&context, &events, &patterns, shape);
            assert_eq!(counts, expected, "case {seed}, {shape:?}");
        }
        assert_eq!(
            count_on_devices(device.contexts(), &job).unwrap(),
            expected,
            "case {seed}"
        );
    }
}

/// Many short patterns share runs; a strategy keeps its events and notices others.
#[test]
fn cuda_strategy_follows_the_events_it_is_given() {
    let Some((device, _)) = device() else { return };
    let strategy = latest_start_on(&device);
    assert_eq!(strategy.name(), "latest-start");
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for seed in 0..6 {
        let case = random_case(seed, 900, 1);
        let symbols = case.events.symbols() as u32;
        let patterns: Vec<Pattern> = (0..700)
            .map(|_| random_pattern(&mut rng, symbols, 3))
            .collect();
        let job = CountJob::new(&case.events, &patterns);
        let expected = LatestStart.count(&job).unwrap();
        for _ in 0..2 {
            assert_eq!(strategy.count(&job).unwrap(), expected, "case {seed}");
        }
    }
}

/// Candidates dealt over devices: many pieces, few, one; again on events that are there already.
#[test]
fn cuda_counts_do_not_depend_on_the_number_of_devices() {
    let Some((one, _)) = device() else { return };
    if let Err(error) = Device::cuda(1) {
        eprintln!("skipped: expected two devices: {}", error.message());
        return;
    }
    let all = Device::cuda_all().unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(19);
    let Case { events, .. } = bursts(&mut rng, 3_000..6_000, 10);
    let symbols = events.symbols() as u32;
    for number in [9_000, 700, 1] {
        let patterns: Vec<Pattern> = (0..number)
            .map(|_| random_pattern(&mut rng, symbols, 4))
            .collect();
        let job = CountJob::new(&events, &patterns);
        let expected = LatestStart.count(&job).unwrap();
        assert_eq!(
            count_on_devices(one.contexts(), &job).unwrap(),
            expected,
            "{number}"
        );
        assert_eq!(
            count_on_devices(all.contexts(), &job).unwrap(),
            expected,
            "{number}"
        );
        let strategy = latest_start_on(&all);
        for _ in 0..2 {
            assert_eq!(strategy.count(&job).unwrap(), expected, "{number}");
        }
    }
}

/// The same ticks far from the origin and spread beyond 32 bits.
#[test]
fn cuda_counts_do_not_depend_on_the_width_of_ticks() {
    let Some((device, _)) = device() else { return };
    for factor in [1, 1 << 33] {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let events = far_events(&mut rng, 3, factor);
        let edge = Interval::new(factor, 5 * factor).unwrap();
        let patterns: Vec<Pattern> = (0..3)
            .map(|s| Pattern::uniform(vec![s, (s + 1) % 3, s], edge).unwrap())
            .collect();
        let job = CountJob::new(&events, &patterns);
        let expected = LatestStart.count(&job).unwrap();
        assert!(expected.iter().all(|&n| n > 10));
        assert_eq!(count_on_devices(device.contexts(), &job).unwrap(), expected);
    }
}

#[test]
fn cuda_refuses_a_symbol_that_is_not_there() {
    let Some((device, context)) = device() else {
        return;
    };
    let case = events(2, vec![(0, 0), (1, 1)]);
    let pattern = Pattern::new(vec![2], vec![]).unwrap();
    let error = DeviceEvents::upload(&context, &case)
        .unwrap()
        .count(std::slice::from_ref(&pattern), &())
        .unwrap_err();
    assert_eq!(error.kind(), betz_base::ErrorKind::Mismatch);
    let error = count_on_devices(device.contexts(), &CountJob::new(&case, &[pattern])).unwrap_err();
    assert_eq!(error.kind(), betz_base::ErrorKind::Mismatch);
}

#[test]
fn cuda_gives_the_reference_counts_of_the_64_neuron_set() {
    let Some((device, context)) = device() else {
        return;
    };
    let Some((Case { events, patterns }, expected)) = reference() else {
        return;
    };
    let job = CountJob::new(&events, &patterns);
    assert_eq!(count_on_devices(device.contexts(), &job).unwrap(), expected);
    let there = DeviceEvents::upload(&context, &events).unwrap();
    assert_eq!(there.count(&patterns, &()).unwrap(), expected);
}

/// Continuations of common prefixes at once: side by side, overlapping and nested intervals, windows
/// of more events than a warp has lanes, delays beyond all time, parts of the time.
#[test]
fn cuda_siblings_agree_with_the_cpu() {
    let Some((_, context)) = device() else { return };
    let interval = |low, high| Interval::new(low, high).unwrap();
    let edges = [(0, 1), (1, 3), (3, 4), (4, 7), (0, 4), (2, 30)];
    let mut at_once = 0_u64;
    for seed in 0..cuda_cases(200) {
        let largest = [24, 400, 3_000][seed as usize % 3];
        let case = random_case(seed, largest, 5);
        let symbols = case.events.symbols() as u32;
        let number = 1 + seed as usize % edges.len();
        // A tick beyond what an event of the stream can hold beside its symbol.
        let later = if seed % 5 == 4 { (1 << 61) - 10_000 } else { 0 };
        let mut patterns = Vec::new();
        for prefix in &case.patterns {
            for &(low, high) in &edges[..number] {
                for s in 0..symbols {
                    let mut intervals = prefix.intervals().to_vec();
                    let mut names = prefix.symbols().to_vec();
                    intervals.push(interval(later + low, later + high));
                    names.push(s);
                    patterns.push(Pattern::new(names, intervals).unwrap());
                }
            }
        }
        let job = CountJob::new(&case.events, &patterns);
        let expected = LatestStart.count(&job).unwrap();
        let Some(split) = Split::new(&job, 0, context.shared_bytes()) else {
            continue;
        };
        let stream = DeviceStream::upload(&context, &case.events).unwrap();
        let held = vec![true; case.events.symbols()];
        for (cells, wide) in [(1, false), (9, true), (100, false)] {
            let layout = Some(EventLayout { cells, wide });
            let there =
                DeviceEvents::upload_symbols(&context, &case.events, &held, layout).unwrap();
            let mut counts = vec![u64::MAX; patterns.len()];
            split.count(&there, &stream, &job, &mut counts).unwrap();
            for &i in &split.rest {
                assert_eq!(counts[i], u64::MAX);
                counts[i] = expected[i];
            }
            assert_eq!(counts, expected, "case {seed}, {cells} cells, wide {wide}");
            at_once += (patterns.len() - split.rest.len()) as u64;
        }
    }
    assert_met("patterns counted at once", at_once, 1_000);
}

/// Levelwise mining on a device, with hundreds of prefixes, against the CPU.
#[test]
fn cuda_mining_finds_what_the_cpu_finds() {
    let Some((device, _)) = device() else { return };
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let pairs = (0..20_000)
        .map(|_| (rng.random_range(0..60_000), rng.random_range(0..24)))
        .collect();
    let events = events(24, pairs);
    let intervals = [(0, 4), (4, 8)].map(|(low, high)| Interval::new(low, high).unwrap());
    let mut options = MineOptions::new(intervals.to_vec(), 20);
    options.max_size = Some(4);
    let expected = mine(&events, &options, &()).unwrap();
    let counter = InMemory {
        events: &events,
        strategy: &*latest_start_on(&device),
    };
    let got = mine_by(&counter, &options, &()).unwrap();
    assert!(got.episodes == expected.episodes);
    assert!(got.levels[2].candidates > 20_000, "{:?}", got.levels);
    assert_eq!(got.ran.device, device.name());
}

/// A device that nobody named does not take work too small to gain, and the strategy says so.
#[test]
fn cuda_strategies_say_where_they_counted() {
    let auto = Device::auto();
    if auto.is_cpu() {
        eprintln!("skipped: {}", auto.fallback().unwrap_or("no device"));
        return;
    }
    let train = events(2, (0..40_000).map(|t| (t, t as u32 % 2)).collect());
    let pair = Pattern::uniform(vec![0, 1], Interval::new(0, 1).unwrap()).unwrap();
    let many = vec![pair; (1 << 30) / train.len() + 1];
    let strategy = latest_start_on(&auto);
    for (patterns, place) in [
        (&many[..1], "cpu".to_owned()),
        (&many, format!("cpu and {}", auto.name())),
    ] {
        let counts = strategy.count(&CountJob::new(&train, patterns)).unwrap();
        assert!(counts.iter().all(|&n| n == 20_000));
        assert_eq!(strategy.ran().device, place);
    }
}
