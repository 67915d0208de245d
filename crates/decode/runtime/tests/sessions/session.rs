//! A session gives what its decoder means, and the same bits however it is driven.

#![allow(clippy::unwrap_used, clippy::expect_used)] // tests stop where something fails

use std::time::Duration;

use super::common::{counts, decoder, open, oracle, rng, run, spikes};
use betz_base::ErrorKind;
use betz_runtime::model::{Decoder, LowPass};
use betz_runtime::stream::{Clamp, Session, SessionConfig, UnknownChannels};

/// (channels, outputs, bank, low-pass): every order, every specialised row length, odd ones too.
type Case = (usize, usize, &'static [(f64, u32)], Option<LowPass>);

const CASES: &[Case] = &[
    (1, 1, &[(0.05, 0)], None),
    (70, 2, &[(0.05, 1)], None),
    (5, 3, &[(0.1, 2)], None),
    (5, 4, &[(0.1, 3)], None),
    (5, 1, &[(0.1, 4)], None),
    (
        130,
        2,
        &[
            (0.02, 0),
            (0.05, 1),
            (0.1, 2),
            (0.2, 3),
            (0.4, 4),
            (1.0, 0),
            (0.03, 2),
            (0.3, 1),
        ],
        None,
    ),
    (9, 4, &[(0.02, 1), (0.2, 0)], None),
    (9, 5, &[(0.02, 1), (0.2, 0), (0.1, 4)], None),
    (7, 2, &[(0.001, 0), (0.001, 1)], None), // a step much longer than τ
    (
        7,
        2,
        &[(0.05, 1)],
        Some(LowPass {
            order: 5,
            cutoff_hz: 6.0,
        }),
    ),
    (
        7,
        3,
        &[(0.05, 1), (0.1, 0)],
        Some(LowPass {
            order: 2,
            cutoff_hz: 1.0,
        }),
    ),
];

fn cases() -> impl Iterator<Item = (Decoder, Vec<u16>)> {
    CASES
        .iter()
        .enumerate()
        .map(|(i, &(channels, outputs, bank, low_pass))| {
            let rng = &mut rng(i as u64);
            let decoder = decoder(rng, channels, outputs, bank, low_pass);
            let counts = counts(rng, 150, channels);
            (decoder, counts)
        })
}

#[test]
fn gives_what_the_decoder_means() {
    for (case, (decoder, counts)) in cases().enumerate() {
        let expected = oracle(&decoder, &counts);
        let largest = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        let close = |got: &[f32], how: &str| {
            for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
                let error = (f64::from(*got) - expected).abs() / largest;
                assert!(
                    error < 2e-7,
                    "case {case}, {how}, value {i}: {got}, expected {expected}"
                );
            }
        };
        close(&run(&mut open(&decoder), &counts), "counts");
        let mut session = open(&decoder);
        let mut out = vec![0.0; decoder.outputs().len()];
        let by_list: Vec<f32> = (counts.chunks(decoder.channels()))
            .flat_map(|tick| {
                session.step_spikes(&spikes(tick), &mut out).unwrap();
                out.clone()
            })
            .collect();
        close(&by_list, "list");
        assert_eq!(
            session.stats().spikes,
            counts.iter().map(|c| u64::from(*c)).sum::<u64>()
        );
    }
}

#[test]
fn same_bits_in_any_portions_after_reset_and_in_a_clone() {
    for (decoder, counts) in cases() {
        let (channels, outputs) = (decoder.channels(), decoder.outputs().len());
        let mut session = open(&decoder);
        let whole = run(&mut session, &counts);
        session.reset();
        assert_eq!(run(&mut session, &counts), whole, "after reset");
        for portion in [1, 2, 7, 64, 149] {
            let mut session = open(&decoder);
            let parts: Vec<f32> = (counts.chunks(portion * channels))
                .flat_map(|part| run(&mut session, part))
                .collect();
            assert_eq!(parts, whole, "in portions of {portion}");
        }
        for cut in [1, 63, 64, 148] {
            let mut session = open(&decoder);
            run(&mut session, &counts[..cut * channels]);
            let mut clone = session.clone();
            // The original goes on elsewhere and must not be felt in the clone.
            run(&mut session, &counts);
            assert_eq!(
                run(&mut clone, &counts[cut * channels..]),
                whole[cut * outputs..]
            );
        }
    }
}

#[test]
fn lists_and_counts_of_single_spikes_give_the_same_bits() {
    for (decoder, mut counts) in cases() {
        counts.iter_mut().for_each(|count| *count = (*count).min(1));
        let whole = run(&mut open(&decoder), &counts);
        let mut session = open(&decoder);
        let mut out = vec![0.0; decoder.outputs().len()];
        for (tick, expected) in counts
            .chunks(decoder.channels())
            .zip(whole.chunks(out.len()))
        {
            session.step_spikes(&spikes(tick), &mut out).unwrap();
            assert_eq!(out, expected);
        }
    }
}

/// After the last spike the states go to exactly zero, and never through denormal numbers.
#[test]
fn silence_ends_at_the_intercept_without_denormals() {
    for (case, (decoder, counts)) in cases().enumerate() {
        let mut session = open(&decoder);
        run(&mut session, &counts);
        let mut out = vec![0.0; decoder.outputs().len()];
        let mut bytes = vec![0; session.checkpoint_len()];
        let mut all_zero = false;
        for _ in 0..100_000 {
            session.step_spikes(&[], &mut out).unwrap();
            session.checkpoint_into(&mut bytes).unwrap();
            let words = &bytes[20 + 8 * 13..bytes.len() - 4 - 8 * out.len()];
            let states = words
                .as_chunks::<8>()
                .0
                .iter()
                .map(|b| f64::from_le_bytes(*b));
            assert!(states.clone().all(|s| !s.is_subnormal()), "case {case}");
            all_zero = states.clone().all(|s| s == 0.0);
            if all_zero {
                break;
            }
        }
        assert!(all_zero, "case {case}: states never came to rest");
        let intercept: Vec<f32> = decoder.intercept().iter().map(|v| *v as f32).collect();
        assert_eq!(out, intercept);
    }
}

#[test]
fn unknown_channels_are_counted_or_refused() {
    let rng = &mut rng(1);
    let decoder = decoder(rng, 4, 2, &[(0.05, 1)], None);
    let (mut ignoring, mut reference) = (open(&decoder), open(&decoder));
    let mut refusing = Session::open(
        &decoder,
        SessionConfig {
            unknown_channels: UnknownChannels::Refuse,
            ..SessionConfig::default()
        },
    )
    .unwrap();
    let (mut out, mut expected, mut third) = ([0.0; 2], [0.0; 2], [0.0; 2]);
    for _ in 0..10 {
        ignoring
            .step_spikes(&[4, 1, u32::MAX, 3], &mut out)
            .unwrap();
        reference.step_spikes(&[1, 3], &mut expected).unwrap();
        let before = refusing.checkpoint().unwrap();
        let mut untouched = [7.0; 2];
        let error = refusing.step_spikes(&[1, 4], &mut untouched).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.message().contains("channel 4"), "{error}");
        assert_eq!(
            (untouched, refusing.checkpoint().unwrap()),
            ([7.0; 2], before)
        );
        refusing.step_spikes(&[1, 3], &mut third).unwrap();
        assert_eq!((out, third), (expected, expected));
    }
    let stats = ignoring.stats();
    assert_eq!(
        (stats.ticks, stats.spikes, stats.unknown_channel_spikes),
        (10, 20, 20)
    );
    assert_eq!(refusing.stats().unknown_channel_spikes, 0);
}

#[test]
fn wrong_shapes_are_refused_and_change_nothing() {
    let rng = &mut rng(2);
    let decoder = decoder(rng, 4, 2, &[(0.05, 0)], None);
    let mut session = open(&decoder);
    session.step_counts(&[1, 2, 3, 4], &mut [0.0; 2]).unwrap();
    let before = session.checkpoint().unwrap();
    let (mut right, mut short, mut long) = ([7.0; 2], [7.0; 1], [7.0; 3]);
    for error in [
        session.step_counts(&[0; 3], &mut right),
        session.step_counts(&[0; 5], &mut right),
        session.step_counts(&[0; 4], &mut short),
        session.step_spikes(&[0], &mut long),
        session.step_spikes(&[0], &mut []),
    ] {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Mismatch);
    }
    assert_eq!((right, short, long), ([7.0; 2], [7.0; 1], [7.0; 3]));
    assert_eq!(session.checkpoint().unwrap(), before);
}

#[test]
fn outputs_are_clamped() {
    let rng = &mut rng(3);
    let decoder = decoder(rng, 9, 2, &[(0.05, 0)], None);
    let counts = counts(rng, 200, 9);
    let clamp = [
        Clamp {
            low: -0.5,
            high: f32::INFINITY,
        },
        Clamp {
            low: 0.0,
            high: 0.25,
        },
    ];
    let config = SessionConfig {
        clamp: Some(clamp.to_vec()),
        ..SessionConfig::default()
    };
    let clamped = run(
        &mut Session::open(&decoder, config.clone()).unwrap(),
        &counts,
    );
    let free = run(&mut open(&decoder), &counts);
    assert_ne!(clamped, free);
    for (i, (clamped, free)) in clamped.iter().zip(free).enumerate() {
        let Clamp { low, high } = clamp[i % 2];
        assert_eq!(*clamped, free.clamp(low, high));
    }
    let with = |clamp: Vec<Clamp>| SessionConfig {
        clamp: Some(clamp),
        ..config.clone()
    };
    let bad = |config| Session::open(&decoder, config).unwrap_err().kind();
    assert_eq!(bad(with(vec![clamp[0]])), ErrorKind::Mismatch);
    for (low, high) in [(1.0, 0.0), (f32::NAN, 0.0), (0.0, f32::NAN)] {
        assert_eq!(
            bad(with(vec![clamp[0], Clamp { low, high }])),
            ErrorKind::InvalidArgument
        );
    }
}

#[test]
fn masked_channels_take_no_part() {
    let rng = &mut rng(4);
    let whole = decoder(rng, 6, 2, &[(0.05, 1), (0.1, 0)], None);
    let counts = counts(rng, 100, 6);
    let mask = vec![true, false, true, true, false, true];
    let config = SessionConfig {
        channel_mask: Some(mask.clone()),
        ..SessionConfig::default()
    };
    let masked = run(&mut Session::open(&whole, config.clone()).unwrap(), &counts);
    let short = SessionConfig {
        channel_mask: Some(vec![true; 5]),
        ..config
    };
    assert_eq!(
        Session::open(&whole, short).unwrap_err().kind(),
        ErrorKind::Mismatch
    );
    let mut parts = whole.into_parts();
    for (row, takes_part) in parts.weights.chunks_mut(4).zip(&mask) {
        if !takes_part {
            row.fill(0.0);
        }
    }
    let whole = Decoder::new(parts).unwrap();
    assert_eq!(run(&mut open(&whole), &counts), masked);
}

#[test]
fn statistics_count_and_can_be_off() {
    let rng = &mut rng(5);
    let decoder = decoder(rng, 6, 2, &[(0.05, 1)], None);
    let counts = counts(rng, 100, 6);
    let with = |statistics, deadline| {
        Session::open(
            &decoder,
            SessionConfig {
                statistics,
                deadline,
                ..SessionConfig::default()
            },
        )
    };
    // Every step takes longer than nothing and less than an hour.
    let mut missing = with(true, Some(Duration::ZERO)).unwrap();
    let mut keeping = with(true, Some(Duration::from_secs(3600))).unwrap();
    let mut off = with(false, None).unwrap();
    let outputs = [&mut missing, &mut keeping, &mut off].map(|session| run(session, &counts));
    assert!(outputs[0] == outputs[1] && outputs[1] == outputs[2]);
    let (missing, keeping, off) = (missing.stats(), keeping.stats(), off.stats());
    assert_eq!(
        (
            missing.deadline_misses,
            keeping.deadline_misses,
            off.deadline_misses
        ),
        (100, 0, 0)
    );
    assert_eq!((missing.latency.steps, off.latency.steps), (100, 0));
    assert_eq!((missing.ticks, off.ticks), (100, 100));
    assert_eq!(missing.spikes, off.spikes);
    let l = keeping.latency;
    assert!(
        0.0 < l.p50_us && l.p50_us <= l.p99_us && l.p99_us <= l.p99_9_us && l.p99_9_us <= l.max_us
    );
    assert_eq!(
        with(false, Some(Duration::ZERO)).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    let mut cleared = with(true, None).unwrap();
    run(&mut cleared, &counts);
    cleared.clear_stats();
    assert_eq!(cleared.stats(), betz_runtime::stream::Stats::default());
}

#[test]
fn a_decoder_that_makes_no_sense_is_not_made() {
    let mut parts = decoder(&mut rng(6), 3, 1, &[(0.05, 1)], None).into_parts();
    parts.weights.pop();
    let error = Decoder::new(parts).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidModel);
}

#[test]
fn a_session_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Session>();
    is_send::<betz_runtime::stream::Swapper>();
    is_send::<betz_runtime::stream::SpikeProducer>();
    is_send::<betz_runtime::stream::SpikeConsumer>();
}
