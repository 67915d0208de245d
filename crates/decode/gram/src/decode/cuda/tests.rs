//! Batch decoding on a device against the CPU's.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::*;
use crate::decode::tests::{counted, data, decoder};
use crate::psc::tests::{banks, cases, dataset, datasets, low_passes};
use betz_recording::{Dataset, OutputInfo, Segment};
use betz_runtime::model::{DecoderParts, Limits};
use betz_runtime::psc::{Filter, FilterBank, LowPass};
use betz_testkit::context;

/// Largest relative error of estimates: twice the rounding of f32.
const TOLERANCE: f32 = 2e-7;

/// Creates a decoder for `data` with weights of either sign.
fn any_decoder(data: &Dataset, bank: FilterBank, low_pass: Option<LowPass>, n: usize) -> Decoder {
    let features = data.channels() * bank.len();
    let weights = (0..features * n).map(|i| ((i * 37 % 101) as f64 - 47.0) * 0.1);
    let output = |o| OutputInfo::from(format!("x{o}").as_str());
    let names = data.channel_names.iter().rev().cloned().collect();
    let outputs = (0..n).map(output).collect();
    // Every other output has a range.
    let range = |o: usize| OutputRange {
        low: if o % 2 == 1 { -3.0 } else { f32::NEG_INFINITY },
        high: if o % 2 == 1 { 7.0 } else { f32::INFINITY },
    };
    Decoder::new(DecoderParts {
        low_pass,
        limits: Limits {
            ranges: (0..n).map(range).collect(),
            ..Limits::default()
        },
        weights: weights.collect(),
        intercept: (0..n).map(|o| o as f64 - 0.5).collect(),
        ..DecoderParts::linear(data.step_seconds, bank, names, outputs)
    })
    .unwrap()
}

/// Decodes with plenty of memory, whatever cap another test has set.
fn decode(context: &Context, decoder: &Decoder, data: &Dataset) -> Result<Vec<f32>> {
    decode_within(
        Room {
            context,
            memory: 1 << 40,
        },
        decoder,
        &data.view(),
    )
}

fn close(expected: &[f32], got: &[f32], what: &str) {
    assert_eq!(expected.len(), got.len());
    let finite = expected.iter().filter(|v| !v.is_nan());
    let largest = finite.fold(1.0f32, |m, v| m.max(v.abs()));
    for (i, (e, g)) in expected.iter().zip(got).enumerate() {
        assert_eq!(e.is_nan(), g.is_nan(), "{what}: value {i}: {e} {g}");
        assert!(
            e.is_nan() || (e - g).abs() <= TOLERANCE * largest,
            "{what}: value {i}: {e} {g}, the largest {largest}"
        );
    }
}

#[test]
fn counts_and_signals_are_decoded_as_on_the_cpu() {
    let Some(context) = context() else { return };
    let mut signal = counted();
    let values = (0..signal.spikes.len()).map(|i| (i as f32 * 0.7).sin() * 3.0);
    signal.spikes.weights = values.collect();
    for data in [counted(), signal] {
        let decoder = decoder(None);
        let expected = super::super::decode(&decoder, &data).unwrap();
        close(
            &expected,
            &decode(&context, &decoder, &data).unwrap(),
            "counts",
        );
    }
}

#[test]
fn equals_the_cpus_estimates_in_every_case() {
    let Some(context) = context() else { return };
    let mut runner = TestRunner::new(cases(48));
    let strategy = (datasets(), banks(), low_passes(), 1usize..7);
    let outcome = runner.run(&strategy, |(data, bank, low_pass, outputs)| {
        let decoder = any_decoder(&data, bank, low_pass, outputs);
        let expected = super::super::decode(&decoder, &data).unwrap();
        let got = decode(&context, &decoder, &data).unwrap();
        close(&expected, &got, "one slice");
        let again = decode(&context, &decoder, &data).unwrap();
        let same = got
            .iter()
            .zip(&again)
            .all(|(a, b)| a.to_bits() == b.to_bits());
        prop_assert!(same, "not the same bits twice");
        Ok::<(), TestCaseError>(())
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
    for low_pass in [None, Some((3, 40.0)), Some((8, 2.0))] {
        let low_pass = low_pass.map(|(order, cutoff_hz)| LowPass { order, cutoff_hz });
        let (data, decoder) = (data(), decoder(low_pass));
        let expected = super::super::decode(&decoder, &data).unwrap();
        close(
            &expected,
            &decode(&context, &decoder, &data).unwrap(),
            "by hand",
        );
    }
}

/// Trials over many tiles, with a cap that cuts them into slices.
#[test]
fn slices_of_time_do_not_show() {
    let Some(context) = context() else { return };
    let segments = [
        (3, 4),
        (10, 4096),
        (4100, 21_000),
        (21_000, 21_001),
        (21_050, 40_011),
    ];
    let segments = segments.map(|(start, stop)| Segment { start, stop });
    let spikes = (0..30_000u64).map(|i| ((i * i * 7 % 40_100) as i64, (i * 13 % 9) as u32));
    let data = dataset(0.001, 9, segments.to_vec(), 40_100, spikes.collect());
    let filters = [(0.0002, 2), (0.01, 1), (0.05, 4), (3.0, 0)];
    let filters = filters.map(|(tau_seconds, order)| Filter { tau_seconds, order });
    let bank = FilterBank::new(filters.to_vec()).unwrap();
    for low_pass in [None, Some((4, 6.0))] {
        let low_pass = low_pass.map(|(order, cutoff_hz)| LowPass { order, cutoff_hz });
        let decoder = any_decoder(&data, bank.clone(), low_pass, 3);
        let expected = super::super::decode(&decoder, &data).unwrap();
        for memory in [1 << 40, 3_000_000, 800_000] {
            let got = decode_within(
                Room {
                    context: &context,
                    memory,
                },
                &decoder,
                &data.view(),
            )
            .unwrap();
            close(&expected, &got, &format!("{memory} bytes"));
        }
        let error = decode_within(
            Room {
                context: &context,
                memory: 1000,
            },
            &decoder,
            &data.view(),
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceMemory);
        let got = decode(&context, &decoder, &data).unwrap();
        close(&expected, &got, "after a failure");
    }
}

#[test]
fn what_is_damaged_is_refused_and_the_device_stays_usable() {
    let Some(context) = context() else { return };
    let (data, decoder) = (data(), decoder(None));
    let expected = decode(&context, &decoder, &data).unwrap();
    let mut unknown = data.clone();
    unknown.spikes.channels[7] = 99;
    let mut unordered = data.clone();
    unordered.spikes.ticks.swap(100, 101);
    unordered.spikes.ticks[100] += 1;
    let mut another = data.clone();
    another.step_seconds = 0.002;
    for (broken, kind, word) in [
        (unknown, ErrorKind::InvalidRecording, "99"),
        (unordered, ErrorKind::InvalidRecording, "order"),
        (another, ErrorKind::Mismatch, "step"),
    ] {
        let error = decode(&context, &decoder, &broken).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.message().contains(word), "{error}");
    }
    let again = decode(&context, &decoder, &data).unwrap();
    close(&expected, &again, "after failures");
}
