//! Every case of the CPU's suite on a device, against the same oracle.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::*;
use crate::psc::oracle;
use crate::psc::tests::{banks, cases, dataset, datasets, low_passes, peaks, worst};
use betz_base::ErrorKind;
use betz_recording::Dataset;
use betz_runtime::psc::Filter;

/// What responses may be off by; see `worst`.
const TOLERANCE: f64 = 1e-5;

/// The first device, or a word on why the test is skipped.
fn device(test: &str) -> Option<Arc<Context>> {
    Context::open(0)
        .map_err(|e| eprintln!("{test}: skipped: {}", e.message()))
        .ok()
}

/// Counts of every channel and step, row-major (channels, steps).
fn counts(data: &Dataset) -> Vec<u16> {
    let mut counts = vec![0; data.channels() * data.steps];
    for (&t, &c) in data.spikes.ticks.iter().zip(&data.spikes.channels) {
        counts[c as usize * data.steps + t as usize] += 1;
    }
    counts
}

/// What is inside segments, in the oracle's layout; everything else has to be zero.
fn inside(data: &Dataset, rows: &[f32]) -> Vec<f64> {
    let mut values = vec![];
    for row in rows.chunks_exact(data.steps) {
        let mut outside = row.to_vec();
        for s in &data.segments {
            let steps = s.start as usize..s.stop as usize;
            values.extend(row[steps.clone()].iter().map(|&v| f64::from(v)));
            outside[steps].fill(0.0);
        }
        assert!(outside.iter().all(|&v| v == 0.0));
    }
    values
}

/// Every sample type in turn.
fn each_type(counts: &[u16], mut check: impl FnMut(Samples<'_>)) {
    let bytes: Vec<u8> = counts.iter().map(|&c| c as u8).collect();
    let floats: Vec<f32> = counts.iter().map(|&c| f32::from(c)).collect();
    check(Samples::U8(&bytes));
    check(Samples::U16(counts));
    check(Samples::F32(&floats));
}

#[test]
fn both_methods_equal_the_oracle_in_every_case() {
    let Some(context) = device("responses") else {
        return;
    };
    let mut runner = TestRunner::new(cases(48));
    let strategy = (datasets(), banks(), low_passes());
    let outcome = runner.run(&strategy, |(data, bank, low_pass)| {
        let expected = oracle::responses(&data, &bank, low_pass).unwrap();
        let columns = data.steps_in_segments();
        let longest = data.segments.iter().map(Segment::len).max().unwrap_or(0);
        let floor = peaks(&bank, data.step_seconds, longest);
        for method in [
            Method::Recursion,
            Method::Transform,
            Method::TransformOf(128),
        ] {
            let mut error = 0.0f64;
            each_type(&counts(&data), |samples| {
                let run = || {
                    responses_within(
                        Room {
                            context: &context,
                            memory: 1 << 40,
                        },
                        samples,
                        data.steps,
                        &data.segments,
                        Filters {
                            bank: &bank,
                            low_pass,
                        },
                        data.step_seconds,
                        method,
                    )
                    .unwrap()
                };
                let got = run();
                assert_eq!(got, run(), "{method:?}: not the same bits twice");
                let got = inside(&data, &got).into_iter();
                error = error.max(worst(&expected, got, columns, &floor));
            });
            prop_assert!(error < TOLERANCE, "{method:?}: {error:e}");
        }
        Ok::<(), TestCaseError>(())
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
}

/// Some trials, one over many tiles, and a bank from brief to slow.
fn long_recording() -> (Dataset, FilterBank) {
    let segments = [
        (3, 4),
        (10, 4096),
        (4100, 21_000),
        (21_000, 21_001),
        (21_050, 30_011),
    ];
    let segments = segments.map(|(start, stop)| Segment { start, stop });
    let spikes = (0..9000u64).map(|i| ((i * i * 7 % 30_100) as i64, (i * 13 % 5) as u32));
    let data = dataset(0.001, 5, segments.to_vec(), 30_100, spikes.collect());
    let filters = [(0.0002, 2), (0.01, 1), (0.05, 4), (3.0, 0), (40.0, 1)];
    let filters = filters.map(|(tau_seconds, order)| Filter { tau_seconds, order });
    (data, FilterBank::new(filters.to_vec()).unwrap())
}

#[test]
fn tiles_groups_and_slices_do_not_show() {
    let Some(context) = device("tiles") else {
        return;
    };
    let (data, bank) = long_recording();
    for low_pass in [None, Some((8, 4.0)), Some((3, 60.0)), Some((5, 499.0))] {
        let low_pass = low_pass.map(|(order, cutoff_hz)| LowPass { order, cutoff_hz });
        let expected = crate::psc::responses::<f64>(&data, &bank, low_pass).unwrap();
        let columns = expected.steps.len();
        let floor = peaks(&bank, data.step_seconds, columns);
        for method in [Method::Recursion, Method::Transform] {
            // The whole at once; two channels at a time; slices of time. Transforms of the slowest
            // filter are long.
            let least = match method {
                Method::Transform => 3_000_000,
                _ => 1_400_000,
            };
            for memory in [1 << 40, 6_000_000, least] {
                each_type(&counts(&data), |samples| {
                    let got = responses_within(
                        Room {
                            context: &context,
                            memory,
                        },
                        samples,
                        data.steps,
                        &data.segments,
                        Filters {
                            bank: &bank,
                            low_pass,
                        },
                        data.step_seconds,
                        method,
                    )
                    .unwrap_or_else(|e| panic!("{method:?}, {memory} bytes: {e}"));
                    let got = inside(&data, &got).into_iter();
                    let error = worst(&expected.values, got, columns, &floor);
                    assert!(
                        error < TOLERANCE,
                        "{method:?}, {memory} bytes, {low_pass:?}: {error:e}"
                    );
                });
            }
        }
    }
}

#[test]
fn parts_fit_and_the_least_is_named() {
    let (data, bank) = long_recording();
    let size = 1 + 4 * bank.len();
    let parts = |memory| Parts::new(memory, data.channels(), data.steps, size, &bank, 0);
    assert_eq!(parts(1 << 40).unwrap().channels, data.channels());
    assert!((1..5).contains(&parts(6_000_000).unwrap().channels));
    let sliced = parts(1_000_000).unwrap();
    assert!(sliced.channels == 1 && sliced.steps < data.steps && sliced.steps % TILE == 0);
    let error = parts(1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMemory);
    let least = error.needed_bytes().unwrap();
    assert_eq!(parts(least).unwrap().steps, TILE);
    assert!(parts(least - 2).is_err());
}

#[test]
fn a_failure_leaves_the_device_usable() {
    let Some(context) = device("failure") else {
        return;
    };
    let (data, bank) = long_recording();
    let counts = counts(&data);
    let run = |samples, memory, method| {
        responses_within(
            Room {
                context: &context,
                memory,
            },
            samples,
            data.steps,
            &data.segments,
            Filters {
                bank: &bank,
                low_pass: None,
            },
            data.step_seconds,
            method,
        )
    };
    for method in [Method::Recursion, Method::Transform] {
        let before = run(Samples::U16(&counts), 1 << 40, method).unwrap();
        let error = run(Samples::U16(&counts), 1000, method).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceMemory);
        let error = run(Samples::U16(&counts[1..]), 1 << 40, method).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert_eq!(run(Samples::U16(&counts), 1 << 40, method).unwrap(), before);
    }
}
