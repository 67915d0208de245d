//! The papers' strategies on a device against the oracle, the CPU's counts and the reference, also
//! with lists too short and lists too long; skipped, with a word, where no CUDA device works.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::local_tracking::{self, Limits};
use super::map_concat::{self, SegmentCut};
use super::{serial, two_pass};
use crate::{Compaction, strategies, strategy_on, two_pass as on_cpu};
use betz_device::Device;
use betz_episode::cases::{
    Case, assert_met, bursts, cuda_cases, device, events, far_events, random_case, random_pattern,
    reference,
};
use betz_episode::count::device::{DeviceEvents, DeviceStream, EventLayout};
use betz_episode::count::{CountJob, LatestStart, Strategy};
use betz_episode::{Interval, Pattern, oracle};

#[test]
fn cuda_strategies_agree_with_the_oracle_on_random_cases() {
    let Some((device, _)) = device() else { return };
    let names: Vec<&str> = strategies().iter().map(|s| s.name()).collect();
    assert_eq!(names.len(), 8);
    for seed in 0..cuda_cases(3_000) {
        let case = random_case(seed, 14, 12);
        let expected = case.oracle_counts();
        for name in &names {
            let strategy = strategy_on(name, &device).unwrap();
            let counts = strategy
                .count(&CountJob::new(&case.events, &case.patterns))
                .unwrap();
            assert_eq!(strategy.ran().device, device.name());
            assert_eq!(
                counts,
                expected,
                "{name} on case {seed}: {:?} in {:?}",
                case.patterns,
                case.events.iter().collect::<Vec<_>>()
            );
        }
    }
}

/// Dense bursts and long intervals, in lists of one tick, in any number of segments, in batches of
/// one episode and less.
#[test]
fn cuda_strategies_count_again_what_does_not_fit() {
    let Some((_, context)) = device() else { return };
    let (mut recounted, mut dense) = (0, 0_u64);
    for seed in 0..cuda_cases(24) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // The race checker takes seconds for each thousand.
        let largest = if cuda_cases(24) < 24 { 301 } else { 2_000 };
        let longest = [3, 10, 200][seed as usize % 3];
        let Case { events, patterns } = bursts(&mut rng, 300..largest, longest);
        let job = CountJob::new(&events, &patterns);
        let expected = LatestStart.count(&job).unwrap();
        dense += u64::from(longest == 200);
        let stream = DeviceStream::upload(&context, &events).unwrap();
        for capacity in [1, 8, 1024] {
            let counts = serial::count(&stream, &job, capacity).unwrap();
            assert_eq!(
                counts, expected,
                "serial on case {seed}, lists of {capacity}"
            );
        }
        for segments in [1, 2, 3, 17, 200] {
            let shape = SegmentCut {
                segments: Some(segments),
                capacity: 1 + segments % 2,
            };
            let done = map_concat::count(&stream, &job, shape).unwrap();
            assert_eq!(
                done.counts, expected,
                "map-concat on case {seed}, {segments} segments"
            );
            recounted += done.recounted;
        }
        let bounds = two_pass::upper_bounds(&stream, &job).unwrap();
        for ((pattern, bound), count) in patterns.iter().zip(bounds).zip(&expected) {
            assert_eq!(bound, on_cpu::upper_bound(&events, pattern), "case {seed}");
            assert!(bound >= *count);
        }
        for (wide, entries, places, portion) in [
            (false, 1 << 20, 1 << 22, 1),
            (true, 3_000, 30_000, 3),
            (false, 50, 100, 2),
        ] {
            let held = vec![true; events.symbols()];
            let there = DeviceEvents::upload_symbols(
                &context,
                &events,
                &held,
                Some(EventLayout { cells: 4, wide }),
            )
            .unwrap();
            let limits = Limits {
                entries,
                places,
                portion,
            };
            for compaction in Compaction::ALL {
                assert_eq!(
                    local_tracking::count(&there, compaction, &job, limits).unwrap(),
                    expected,
                    "{compaction:?} on case {seed}, {limits:?}"
                );
            }
        }
    }
    assert_met("cases with long intervals", dense, 1);
    assert_met("unmatched boundaries", recounted, 1);
}

/// An event every tick, two delays of up to three ticks: the published merge has nothing to match.
#[test]
fn cuda_map_concat_counts_unmatched_boundaries_again() {
    let Some((_, context)) = device() else { return };
    let train = events(1, (0..40).map(|t| (t, 0)).collect());
    let edge = Interval::new(1, 3).unwrap();
    let patterns = [Pattern::uniform(vec![0, 0, 0], edge).unwrap()];
    let job = CountJob::new(&train, &patterns);
    let expected = oracle::count(&train, &patterns[0]);
    let stream = DeviceStream::upload(&context, &train).unwrap();
    let mut recounted = 0;
    for segments in 1..=40 {
        let shape = SegmentCut {
            segments: Some(segments),
            capacity: 2,
        };
        let done = map_concat::count(&stream, &job, shape).unwrap();
        assert_eq!(done.counts, [expected], "{segments} segments");
        recounted += done.recounted;
    }
    assert!(recounted > 0, "the trap was not met");
}

/// Long episodes, thousands of episodes, far and widely spread ticks.
#[test]
fn cuda_strategies_agree_with_the_cpu_on_many_and_on_long_episodes() {
    let Some((device, _)) = device() else { return };
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for (n, size, factor) in [(9_000, 3, 1), (5, 70, 1), (3, 256, 1), (40, 9, 1_i64 << 33)] {
        let events = far_events(&mut rng, 4, factor);
        let patterns: Vec<Pattern> = (0..n)
            .map(|_| {
                let pattern = random_pattern(&mut rng, 4, size);
                let edges = pattern.intervals().iter();
                let edges = edges.map(|i| Interval::new(i.low * factor, i.high * factor).unwrap());
                Pattern::new(pattern.symbols().to_vec(), edges.collect()).unwrap()
            })
            .collect();
        let job = CountJob::new(&events, &patterns);
        let expected = LatestStart.count(&job).unwrap();
        for strategy in strategies() {
            let there = strategy_on(strategy.name(), &device).unwrap();
            assert!(
                there.count(&job).unwrap() == expected,
                "{} on {n} episodes of {size}, factor {factor}",
                strategy.name()
            );
        }
    }
}

#[test]
fn cuda_strategies_respect_a_threshold_and_refuse_what_the_cpu_refuses() {
    let Some((device, _)) = device() else { return };
    let foreign = [Pattern::new(vec![9], vec![]).unwrap()];
    for strategy in strategies() {
        let there = strategy_on(strategy.name(), &device).unwrap();
        for seed in 0..cuda_cases(60) {
            let case = random_case(seed, 30, 6);
            let expected = LatestStart
                .count(&CountJob::new(&case.events, &case.patterns))
                .unwrap();
            for threshold in [1, 2, 3] {
                let mut job = CountJob::new(&case.events, &case.patterns);
                job.threshold = Some(threshold);
                for (got, want) in there.count(&job).unwrap().into_iter().zip(&expected) {
                    assert!(
                        got == *want || (got < threshold && *want < threshold),
                        "{} on case {seed}: {got} for {want} at threshold {threshold}",
                        strategy.name()
                    );
                }
            }
        }
        let case = events(2, vec![(0, 0), (1, 1)]);
        let error = there.count(&CountJob::new(&case, &foreign)).unwrap_err();
        assert_eq!(error.kind(), betz_base::ErrorKind::Mismatch);
        assert!(there.count(&CountJob::new(&case, &[])).unwrap().is_empty());
    }
}

#[test]
fn cuda_strategies_give_the_reference_counts_of_the_64_neuron_set() {
    let Some((device, _)) = device() else { return };
    let Some((Case { events, patterns }, expected)) = reference() else {
        return;
    };
    for strategy in strategies() {
        let there = strategy_on(strategy.name(), &device).unwrap();
        let counts = there.count(&CountJob::new(&events, &patterns)).unwrap();
        assert_eq!(counts, expected, "{}", strategy.name());
        assert_eq!(there.ran().device, device.name());
    }
}

/// Candidates dealt over devices; again on events that are there already.
#[test]
fn cuda_strategies_count_the_same_on_all_devices() {
    if let Err(error) = Device::cuda(1) {
        eprintln!("skipped: expected two devices: {}", error.message());
        return;
    }
    let serial = strategy_on("serial", &Device::cuda_all().unwrap()).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(19);
    let Case { events, .. } = bursts(&mut rng, 3_000..6_000, 10);
    let symbols = events.symbols() as u32;
    for number in [9_000, 700, 1] {
        let patterns: Vec<Pattern> = (0..number)
            .map(|_| random_pattern(&mut rng, symbols, 4))
            .collect();
        let job = CountJob::new(&events, &patterns);
        let expected = LatestStart.count(&job).unwrap();
        for _ in 0..2 {
            assert_eq!(serial.count(&job).unwrap(), expected, "{number}");
        }
    }
}
