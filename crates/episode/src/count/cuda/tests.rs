//! The device's counts against the oracle, the CPU's and the reference; skipped, with a word,
//! where no CUDA device works.

use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::DeviceEvents;
use super::events::EventLayout;
use crate::cases::{Case, bursts, events, far_events, random_case, random_pattern, reference};
use crate::count::{CountJob, LatestStart, Strategy, count_on, strategy_on};
use crate::{Events, Interval, Pattern, oracle};
use betz_device::Device;
use betz_device::cuda::Context;

pub(super) fn device() -> Option<(Device, Arc<Context>)> {
    match Device::cuda(0) {
        Ok(device) => {
            let context = Arc::clone(&device.contexts()[0]);
            Some((device, context))
        }
        Err(error) => {
            eprintln!("skipped: {}", error.message());
            None
        }
    }
}

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
    let cases = match std::env::var("BETZ_CUDA_CASES") {
        Ok(n) => n.parse().unwrap(),
        Err(_) => 4_000,
    };
    for seed in 0..cases {
        let case = random_case(seed, 14, 12);
        let expected: Vec<u64> = case
            .patterns
            .iter()
            .map(|p| oracle::count(&case.events, p))
            .collect();
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
            count_on(&device, &job).unwrap().counts,
            expected,
            "case {seed}"
        );
    }
}

/// Many short patterns share runs; a strategy keeps its events and notices others.
#[test]
fn cuda_strategy_follows_the_events_it_is_given() {
    let Some((device, _)) = device() else { return };
    let strategy = strategy_on("latest-start", &device).unwrap();
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
        assert_eq!(count_on(&one, &job).unwrap().counts, expected, "{number}");
        assert_eq!(count_on(&all, &job).unwrap().counts, expected, "{number}");
        for name in ["latest-start", "serial"] {
            let strategy = strategy_on(name, &all).unwrap();
            for _ in 0..2 {
                assert_eq!(strategy.count(&job).unwrap(), expected, "{name}, {number}");
            }
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
        assert_eq!(count_on(&device, &job).unwrap().counts, expected);
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
    let error = count_on(&device, &CountJob::new(&case, &[pattern])).unwrap_err();
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
    assert_eq!(count_on(&device, &job).unwrap().counts, expected);
    let there = DeviceEvents::upload(&context, &events).unwrap();
    assert_eq!(there.count(&patterns, &()).unwrap(), expected);
}
