//! Bins one by one beside the same bins offline.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{NetworkSpec, Plan, Signal, Threshold};

fn counts(channels: usize, bins: usize, seed: u64) -> Vec<u16> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..bins)
        .flat_map(|_| {
            let common: u16 = rng.random_range(0..4);
            (0..channels)
                .map(|c| match c % 7 {
                    0 => 0,
                    1 => common,
                    2 => 65_535 - common,
                    k => common.saturating_sub(k as u16 / 3) + rng.random_range(0..2),
                })
                .collect::<Vec<u16>>()
        })
        .collect()
}

#[test]
fn edges_are_those_of_the_recorded_bins() {
    for (n, length, step, threshold) in [
        (1, 5, 1, 0.5),
        (30, 20, 1, 0.4),
        (70, 33, 4, 0.0),
        (30, 10, 25, 1.0),
        (90, 40, 3, 0.7),
    ] {
        let all = counts(n, 130, n as u64);
        for sign in [Sign::Both, Sign::Positive, Sign::Negative] {
            for strict in [false, true] {
                let window = Window { length, step };
                let mut live = Live::new(LiveSpec {
                    channels: n,
                    window,
                    threshold,
                    sign,
                    strict,
                    max_edges: usize::MAX,
                })
                .unwrap();
                // Bins 60 to 69 are lost.
                let signal = Signal::new(&all, n)
                    .unwrap()
                    .with_segments(vec![0..60, 70..130])
                    .unwrap();
                let spec = NetworkSpec::pearson(window)
                    .threshold(Threshold::Absolute(threshold))
                    .sign(sign)
                    .strict(strict);
                let offline = Plan::new(&spec, &signal)
                    .unwrap()
                    .run(&signal, &())
                    .unwrap();
                let mut windows = offline.windows();
                for (bin, counts) in all.chunks_exact(n).enumerate() {
                    if (60..70).contains(&bin) {
                        continue;
                    }
                    if bin == 70 {
                        live.gap(10);
                    }
                    if live.push(counts).unwrap() {
                        let (got, expected) = (live.newest().unwrap(), windows.next().unwrap());
                        assert_eq!((got.index, got.start), (expected.index, expected.start));
                        assert_eq!(
                            (got.i, got.j),
                            (expected.i, expected.j),
                            "{n} channels, window {}",
                            got.index
                        );
                        assert_eq!((got.undefined, got.why), (expected.undefined, expected.why));
                        for (a, b) in got.r.iter().zip(expected.r) {
                            assert!((a - b).abs() <= 1e-5);
                        }
                    }
                }
                assert!(windows.next().is_none());
                assert_eq!(live.windows(), offline.len());
            }
        }
    }
}

/// Sums change from 32 to 64 bits in the middle, and back behind a gap.
#[test]
fn large_counts_among_small_ones_are_exact() {
    let n = 40;
    let window = Window::new(25, 3);
    let mut all = counts(n, 150, 9);
    for (bin, counts) in all.chunks_exact_mut(n).enumerate() {
        for (c, count) in counts.iter_mut().enumerate() {
            *count = match (bin, c) {
                (60..=64, 0..=20) => *count,
                _ => *count % 7,
            };
        }
    }
    let signal = Signal::new(&all, n)
        .unwrap()
        .with_segments(vec![0..100, 100..150])
        .unwrap();
    let spec = NetworkSpec::pearson(window).threshold(Threshold::Absolute(0.3));
    let plan = Plan::new(&spec, &signal).unwrap();
    let offline = plan.run(&signal, &()).unwrap();
    let mut live = Live::new(LiveSpec {
        channels: n,
        window,
        threshold: 0.3,
        sign: Sign::Both,
        strict: false,
        max_edges: usize::MAX,
    })
    .unwrap();
    assert!(small_counts(25) < 65_535 && small_counts(1 << 15) > 200);
    let mut widths = Vec::new();
    for (bin, counts) in all.chunks_exact(n).enumerate() {
        if bin == 100 {
            live.gap(0);
        }
        if live.push(counts).unwrap() {
            let got = live.newest().unwrap();
            let expected = offline.window(got.index).unwrap();
            assert_eq!((got.i, got.j), (expected.i, expected.j), "bin {bin}");
            assert_eq!(got.undefined, expected.undefined);
            widths.push(live.is_wide);
        }
    }
    widths.dedup();
    assert_eq!(widths, [false, true, false]);
}

#[test]
fn edges_beyond_the_most_are_counted() {
    let spec = |max_edges| LiveSpec {
        channels: 30,
        window: Window::new(10, 1),
        threshold: 0.2,
        sign: Sign::Both,
        strict: false,
        max_edges,
    };
    let mut all = Live::new(spec(usize::MAX)).unwrap();
    let mut some = Live::new(spec(5)).unwrap();
    for counts in counts(30, 40, 3).chunks_exact(30) {
        all.push(counts).unwrap();
        some.push(counts).unwrap();
    }
    let (all_of, some_of) = (all.newest().unwrap(), some.newest().unwrap());
    assert!(all_of.i.len() > 5);
    assert_eq!(
        (some.found(), all.found()),
        (all_of.i.len(), all_of.i.len())
    );
    assert_eq!((some_of.i, some_of.j), (&all_of.i[..5], &all_of.j[..5]));
}

#[test]
fn what_cannot_be_is_refused() {
    let window = Window::new(10, 1);
    let spec = LiveSpec {
        channels: 4,
        window,
        threshold: 0.5,
        sign: Sign::Both,
        strict: false,
        max_edges: 6,
    };
    let mut live = Live::new(spec).unwrap();
    assert!(live.newest().is_none());
    assert!(live.push(&[0; 3]).is_err());
    for spec in [
        LiveSpec {
            channels: 0,
            ..spec
        },
        LiveSpec {
            channels: MOST_CHANNELS + 1,
            ..spec
        },
        LiveSpec {
            threshold: f64::NAN,
            ..spec
        },
        LiveSpec {
            window: Window::new(1, 1),
            ..spec
        },
        LiveSpec {
            window: Window::new(1 << 16, 1),
            ..spec
        },
        LiveSpec {
            window: Window::new(5, 0),
            ..spec
        },
    ] {
        assert!(Live::new(spec).is_err(), "{spec:?}");
    }
}
