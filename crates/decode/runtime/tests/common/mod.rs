//! Decoders and spikes for the tests of `stream`.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test binary uses what it needs

use betz_base::output::OutputInfo;
use betz_runtime::model::{Decoder, DecoderParts, LowPass};
use betz_runtime::psc::{Filter, FilterBank, LowPassFilter, SampledFilter};
use betz_runtime::stream::{Session, SessionConfig};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub type Rng = ChaCha8Rng;

pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// A decoder of random weights; `filters` are (τ in seconds, order).
pub fn decoder(
    rng: &mut Rng,
    channels: usize,
    outputs: usize,
    filters: &[(f64, u32)],
    low_pass: Option<LowPass>,
) -> Decoder {
    let filters: Vec<Filter> = (filters.iter())
        .map(|&(tau_seconds, order)| Filter { tau_seconds, order })
        .collect();
    let features = channels * filters.len();
    let bank = FilterBank::new(filters).unwrap();
    let names = (0..channels).map(|c| format!("c{c}")).collect();
    let infos = (0..outputs)
        .map(|o| OutputInfo {
            name: format!("o{o}"),
            unit: "mm".into(),
        })
        .collect();
    Decoder::new(DecoderParts {
        low_pass,
        weights: (0..features * outputs)
            .map(|_| rng.random_range(-1.0..1.0))
            .collect(),
        intercept: (0..outputs).map(|_| rng.random_range(-5.0..5.0)).collect(),
        ..DecoderParts::linear(0.01, bank, names, infos)
    })
    .unwrap()
}

/// A filter of `length` samples of either sign, the first `start` steps after a spike.
pub fn sampled(rng: &mut Rng, length: usize, start: i64) -> SampledFilter {
    let samples = (0..length).map(|_| rng.random_range(-0.1..0.2)).collect();
    SampledFilter::new(format!("s{length}@{start}"), samples, 0.01, start).unwrap()
}

/// `decoder` with `sampled` behind its filters, and random weights for them.
pub fn with_sampled(rng: &mut Rng, decoder: Decoder, sampled: Vec<SampledFilter>) -> Decoder {
    let mut parts = decoder.into_parts();
    let width = parts.bank.len() * parts.latents();
    let more = sampled.len() * parts.latents();
    let mut weights = Vec::new();
    for row in parts.weights.chunks_exact(width) {
        weights.extend_from_slice(row);
        weights.extend((0..more).map(|_| rng.random_range(-1.0..1.0)));
    }
    parts.weights = weights;
    parts.bank = FilterBank::with_sampled(parts.bank.filters().to_vec(), sampled).unwrap();
    Decoder::new(parts).unwrap()
}

/// Counts, (ticks, channels) row-major: mostly nothing, seldom several.
pub fn counts(rng: &mut Rng, ticks: usize, channels: usize) -> Vec<u16> {
    (0..ticks * channels)
        .map(|_| match rng.random_range(0..100) {
            0..85 => 0,
            85..97 => 1,
            97..99 => 2,
            _ => rng.random_range(0..9),
        })
        .collect()
}

/// The channels of one tick's counts, one entry per spike.
pub fn spikes(counts: &[u16]) -> Vec<u32> {
    (counts.iter().enumerate())
        .flat_map(|(channel, &count)| std::iter::repeat_n(channel as u32, count.into()))
        .collect()
}

/// A session of `decoder`, as it is by default.
pub fn open(decoder: &Decoder) -> Session {
    Session::open(decoder, SessionConfig::default()).unwrap()
}

/// True if two sets of estimates differ by at most rounding.
pub fn close(a: &[f32], b: &[f32], tolerance: f32) -> bool {
    (a.iter().zip(b)).all(|(a, b)| (a - b).abs() <= tolerance * (1.0 + a.abs()))
}

/// All ticks of `counts` in one go.
pub fn run(session: &mut Session, counts: &[u16]) -> Vec<f32> {
    let (channels, outputs) = (session.channels(), session.outputs());
    let mut out = vec![0.0; counts.len() / channels * outputs];
    let rows = counts.chunks_exact(channels);
    for (counts, out) in rows.zip(out.chunks_exact_mut(outputs)) {
        session.step_counts(counts, out).unwrap();
    }
    out
}

/// A clone, and a checkpoint restored with the model's file, give the bits of the session that ran `first`.
pub fn goes_on_bit_for_bit(decoder: &Decoder, first: &[u16], second: &[u16]) {
    let mut session = open(decoder);
    run(&mut session, first);
    let bytes = session.checkpoint().unwrap();
    let mut copy = session.clone();
    let expected = run(&mut session, second);
    assert_eq!(run(&mut copy, second), expected);
    let again = Decoder::from_bytes(&decoder.to_bytes().unwrap()).unwrap();
    assert_eq!(&again, decoder);
    let mut restored = open(&again);
    restored.restore(&bytes).unwrap();
    assert_eq!(run(&mut restored, second), expected);
}

/// Reference decoder in plain loops: its outputs, or its latents if it has a head. Every feature is computed by its
/// impulse response, low-passed and weighted.
pub fn oracle(decoder: &Decoder, counts: &[u16]) -> Vec<f64> {
    let (channels, outputs) = (decoder.channels(), decoder.latents());
    let ticks = counts.len() / channels;
    let mut estimates: Vec<f64> = (0..ticks)
        .flat_map(|_| decoder.intercept().to_vec())
        .collect();
    let bank = decoder.bank();
    let recursive = bank.filters().iter();
    let recursive = recursive.map(|filter| filter.impulse(decoder.step_seconds(), ticks));
    let samples = |filter: &SampledFilter| (0..ticks).map(|m| filter.at(m as i64)).collect();
    let impulses: Vec<Vec<f64>> = recursive
        .chain(bank.sampled().iter().map(samples))
        .collect();
    for (f, impulse) in impulses.iter().enumerate() {
        for channel in 0..channels {
            let mut low_pass = (decoder.low_pass())
                .map(|l| LowPassFilter::new(l, decoder.step_seconds(), 1).unwrap());
            for t in 0..ticks {
                let mut response = [0.0];
                for u in 0..=t {
                    response[0] += impulse[t - u] * f64::from(counts[u * channels + channel]);
                }
                if let Some(low_pass) = &mut low_pass {
                    low_pass.step(&mut response);
                }
                for o in 0..outputs {
                    let feature = channel * decoder.bank().len() + f;
                    estimates[t * outputs + o] +=
                        decoder.weights()[feature * outputs + o] * response[0];
                }
            }
        }
    }
    estimates
}
