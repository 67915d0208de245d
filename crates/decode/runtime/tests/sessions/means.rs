//! Decoders of a signal, whose filters start at the mean of each channel.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_runtime::model::{Blanking, Decoder, DecoderParts, Head, Limits, LowPass};
use betz_runtime::stream::{Session, SessionConfig, StepStatus};
use rand::RngExt;

use crate::blend::{blend, blends};
use crate::common::{
    self, close, counts, goes_on_bit_for_bit, open, rng, run, sampled, spikes, with_sampled,
};
use crate::heads::{heads, with_head};

const CHANNELS: usize = 6;
const TICKS: usize = 120;
const MEANS: [f64; CHANNELS] = [3.0, -40.5, 1000.0, 0.0, 0.25, 7.0];

/// `decoder` and every member with `means`.
fn with_means(decoder: &Decoder, means: &[f64]) -> Decoder {
    let mut parts = decoder.clone().into_parts();
    if let Head::ModelBlend(blend) = &mut parts.head {
        for member in &mut blend.members {
            member.decoder = with_means(&member.decoder, means);
        }
    }
    Decoder::new(DecoderParts {
        channel_means: means.to_vec(),
        ..parts
    })
    .unwrap()
}

/// A linear decoder behind a low-pass, one with sampled filters, every head, and blends.
fn decoders() -> Vec<Decoder> {
    let low_pass = LowPass {
        order: 2,
        cutoff_hz: 5.0,
    };
    let filters = &[(0.02, 1), (0.3, 0), (0.08, 4)];
    let linear = |low_pass| common::decoder(&mut rng(80), CHANNELS, 3, filters, low_pass);
    let random = &mut rng(81);
    let samples = vec![sampled(random, 30, 2)];
    let mut all = vec![
        linear(Some(low_pass)),
        with_sampled(random, linear(None), samples),
    ];
    all.extend(heads().into_iter().map(|head| with_head(60, head)));
    all.extend(blends().iter().map(|members| blend(members).unwrap()));
    all
}

fn run_values(session: &mut Session, values: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; values.len() / CHANNELS * session.outputs()];
    let width = session.outputs();
    for (values, out) in values.chunks(CHANNELS).zip(out.chunks_mut(width)) {
        session.step_values(values, out).unwrap();
    }
    out
}

/// Distances from the means, in sixteenths, so that sums with the means are exact.
fn distances() -> Vec<f32> {
    let mut random = rng(82);
    (0..TICKS * CHANNELS)
        .map(|_| random.random_range(-24..24) as f32 / 16.0)
        .collect()
}

#[test]
fn distances_from_the_means_are_decoded() {
    let distances = distances();
    let values: Vec<f32> = (distances.iter().zip(MEANS.iter().cycle()))
        .map(|(distance, mean)| distance + *mean as f32)
        .collect();
    for decoder in decoders() {
        let expected = run_values(&mut open(&decoder), &distances);
        let decoder = with_means(&decoder, &MEANS);
        let mut session = open(&decoder);
        let got = run_values(&mut session, &values);
        assert!(close(&got, &expected, 1e-5), "{}", decoder.kind());
        session.reset();
        assert_eq!(run_values(&mut session, &values), got);
    }
}

#[test]
fn counts_bytes_and_spikes_are_values_like_others() {
    let counts = counts(&mut rng(83), TICKS, CHANNELS);
    let values: Vec<f32> = counts.iter().map(|&count| f32::from(count)).collect();
    for decoder in decoders() {
        let decoder = with_means(&decoder, &MEANS.map(|mean| mean / 100.0));
        let expected = run_values(&mut open(&decoder), &values);
        assert_eq!(run(&mut open(&decoder), &counts), expected);
        let mut session = open(&decoder);
        let mut out = vec![0.0; session.outputs()];
        for (counts, expected) in counts.chunks(CHANNELS).zip(expected.chunks(out.len())) {
            let mut fired = spikes(counts);
            fired.push(99);
            session.step_spikes(&fired, &mut out).unwrap();
            assert_eq!(out, expected);
        }
        assert_eq!(session.stats().unknown_channel_spikes, TICKS as u64);
        goes_on_bit_for_bit(&decoder, &counts[..300], &counts[300..]);
    }
}

#[test]
fn what_is_skipped_was_at_the_mean() {
    let values = distances();
    let at_mean: Vec<f32> = MEANS.iter().map(|mean| *mean as f32).collect();
    for decoder in decoders() {
        let decoder = with_means(&decoder, &MEANS);
        for ticks in [1, 23, 300] {
            let (mut skipped, mut stepped) = (open(&decoder), open(&decoder));
            run_values(&mut skipped, &values);
            run_values(&mut stepped, &values);
            skipped.skip(ticks);
            run_values(&mut stepped, &at_mean.repeat(ticks as usize));
            let [a, b] = [&mut skipped, &mut stepped].map(|s| run_values(s, &at_mean.repeat(5)));
            assert!(close(&a, &b, 2e-3), "{} {ticks}", decoder.kind());
        }
    }
}

#[test]
fn a_masked_channel_stays_at_its_mean() {
    let mut values: Vec<f32> = (distances().iter().zip(MEANS.iter().cycle()))
        .map(|(distance, mean)| distance + *mean as f32)
        .collect();
    for decoder in decoders() {
        let decoder = with_means(&decoder, &MEANS);
        let config = SessionConfig {
            channel_mask: Some(vec![true, true, false, true, true, true]),
            ..SessionConfig::default()
        };
        let masked = run_values(&mut Session::open(&decoder, config).unwrap(), &values);
        for row in values.chunks_mut(CHANNELS) {
            row[2] = MEANS[2] as f32;
        }
        let at_mean = run_values(&mut open(&decoder), &values);
        assert!(close(&masked, &at_mean, 1e-5), "{}", decoder.kind());
    }
}

#[test]
fn an_artefact_is_the_distance_of_its_mean_counts() {
    let plain = common::decoder(&mut rng(84), CHANNELS, 3, &[(0.1, 1)], None);
    let blanking = Blanking {
        least: 0,
        most: 50,
        mean_counts: vec![2.0; CHANNELS],
    };
    let decoder = Decoder::new(DecoderParts {
        limits: Limits {
            blanking: Some(blanking),
            ..Limits::default()
        },
        ..with_means(&plain, &[1.5; CHANNELS]).into_parts()
    })
    .unwrap();
    let (mut session, mut expected) = (open(&decoder), open(&plain));
    let (mut out, mut other) = ([0.0; 3], [0.0; 3]);
    for (count, distance) in [(3, 1.5), (90, 0.5), (1, -0.5), (0, -1.5)] {
        session.step_counts(&[count; CHANNELS], &mut out).unwrap();
        expected
            .step_values(&[distance; CHANNELS], &mut other)
            .unwrap();
        assert!(close(&out, &other, 1e-6), "{out:?}, not {other:?}");
        assert_eq!(session.status().contains(StepStatus::BLANKED), count == 90);
    }
}
