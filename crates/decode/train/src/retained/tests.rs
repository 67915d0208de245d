#![allow(
    clippy::needless_range_loop,
    reason = "matrices by index, as they are written"
)]

use super::*;
use betz_base::ErrorKind;
use betz_gram::cases;
use betz_gram::solve::{FeatureNames, MaskPolicy, Solver, solve};
use betz_gram::{GramPath, gram};
use betz_recording::Dataset;
use betz_runtime::model::{Blanking, DecoderParts, Limits};

const RIDGE: f64 = 0.7;

fn data() -> Dataset {
    let spikes = cases::random_spikes(4, 7, 900, 3000);
    cases::dataset(7, &[(0, 400), (410, 900)], spikes, 2)
}

fn filters() -> betz_runtime::psc::FilterBank {
    cases::bank(&[(0.004, 0), (0.01, 1), (0.03, 2)])
}

fn retained(data: &Dataset) -> StoredStatistics {
    let sums = gram::normal_equations(data, &filters(), None, 0, GramPath::Event, &())
        .unwrap()
        .0;
    StoredStatistics { sums, ridge: RIDGE }
}

/// Trained on the channels for which `mask` is true.
fn trained(data: &Dataset, mask: &[bool]) -> DecoderParts {
    let mut sums = retained(data).sums;
    // A channel that is silent takes no part under a ridge: its weights are 0.
    let n = sums.features;
    for f in (0..n).filter(|f| !mask[f / 3]) {
        for j in 0..n {
            sums.gram[f * n + j] = 0.0;
            sums.gram[j * n + f] = 0.0;
        }
        sums.upsilon[f * 2..][..2].fill(0.0);
        sums.feature_sum[f] = 0.0;
    }
    let bank = filters();
    let names = FeatureNames {
        channels: &data.channel_names,
        bank: &bank,
    };
    let solution = solve(&sums, RIDGE, Solver::Cholesky, MaskPolicy::Refuse, names).unwrap();
    let (names, outputs) = (data.channel_names.clone(), data.outputs.clone());
    DecoderParts {
        weights: solution.weights,
        intercept: solution.intercept,
        channel_mask: mask.to_vec(),
        limits: Limits {
            blanking: Some(Blanking {
                least: 0,
                most: 50,
                mean_counts: (0..7)
                    .map(|c| if mask[c] { 1.0 + c as f64 } else { 0.0 })
                    .collect(),
            }),
            ..Limits::default()
        },
        ..DecoderParts::linear(data.step_seconds, bank, names, outputs)
    }
}

#[test]
fn what_is_left_equals_training_without_each_channel_pairs_and_half() {
    let data = data();
    let all = [true; 7];
    let decoder = Decoder::new(trained(&data, &all)).unwrap();
    let remover = Remover::new(&decoder, &retained(&data)).unwrap();
    let mut sets: Vec<Vec<usize>> = (0..7).map(|c| vec![c]).collect();
    sets.extend((0..7).map(|c| vec![c, (c + 3) % 7]));
    sets.extend([
        vec![0, 2, 4, 6],
        vec![1, 1, 3, 5],
        vec![],
        vec![0, 1, 2, 3, 4, 5],
    ]);
    for gone in sets {
        let mut mask = all;
        gone.iter().for_each(|&c| mask[c] = false);
        let expected = trained(&data, &mask);
        let got = remover.without(&gone).unwrap();
        assert_eq!(got.channel_mask(), mask);
        let size = expected.weights.iter().fold(0.0_f64, |s, w| s.max(w.abs()));
        for (g, e) in got.weights().iter().zip(&expected.weights) {
            assert!(
                (g - e).abs() <= 1e-8 * size,
                "without {gone:?}: {g}, expected {e}"
            );
        }
        for (g, e) in got.intercept().iter().zip(&expected.intercept) {
            assert!(
                (g - e).abs() <= 1e-8 * e.abs().max(1.0),
                "without {gone:?}: {g}, expected {e}"
            );
        }
        let blanking = got.limits().blanking.as_ref().unwrap();
        let lost: u64 = (0..7).filter(|&c| !mask[c]).map(|c| 1 + c as u64).sum();
        assert_eq!(blanking.most, 50 - lost);
        assert!((0..7).all(|c| mask[c] || blanking.mean_counts[c] == 0.0));
    }
}

#[test]
fn both_ways_give_the_same() {
    let data = data();
    let decoder = Decoder::new(trained(&data, &[true; 7])).unwrap();
    let remover = Remover::new(&decoder, &retained(&data)).unwrap();
    let (stay, go): (Vec<usize>, Vec<usize>) = (0..21).partition(|f| f / 3 != 2 && f / 3 != 5);
    let phi = betz_linear::Mat::from_fn(21, 2, |i, o| decoder.weights()[i * 2 + o]);
    let (a, b) = remover.both(&phi, &stay, &go);
    for i in 0..stay.len() {
        for o in 0..2 {
            assert!((a[(i, o)] - b[(i, o)]).abs() < 1e-9 * phi[(0, 0)].abs().max(1.0));
        }
    }
}

#[test]
fn removing_again_starts_from_what_is_masked() {
    let data = data();
    let mut mask = [true; 7];
    mask[4] = false;
    let decoder = Decoder::new(trained(&data, &mask)).unwrap();
    let got = Remover::new(&decoder, &retained(&data))
        .unwrap()
        .without(&[1])
        .unwrap();
    mask[1] = false;
    let expected = trained(&data, &mask);
    for (g, e) in got.weights().iter().zip(&expected.weights) {
        assert!((g - e).abs() < 1e-8 * expected.weights[0].abs().max(1.0));
    }
}

#[test]
fn channels_that_are_not_there_and_all_channels_are_refused() {
    let data = data();
    let decoder = Decoder::new(trained(&data, &[true; 7])).unwrap();
    let remover = Remover::new(&decoder, &retained(&data)).unwrap();
    for channels in [vec![7], (0..7).collect(), vec![usize::MAX]] {
        let error = remover.without(&channels).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    let mut other = retained(&data);
    other.sums = NormalEquations::zeros(20, 2);
    assert_eq!(
        Remover::new(&decoder, &other).err().unwrap().kind(),
        ErrorKind::Mismatch
    );
    assert_eq!(
        StoredStatistics::read(&decoder).unwrap_err().kind(),
        ErrorKind::InsufficientData
    );
}

#[test]
fn sums_travel_as_bytes() {
    let data = data();
    let retained = retained(&data);
    let bytes = retained.to_bytes();
    assert_eq!(Some(bytes.len()), StoredStatistics::size(21, 2));
    assert_eq!(StoredStatistics::from_bytes(&bytes).unwrap(), retained);
    let mut parts = trained(&data, &[true; 7]);
    parts.attachments.push(retained.attachment());
    let decoder = Decoder::new(parts).unwrap();
    let read = Decoder::from_bytes(&decoder.to_bytes().unwrap()).unwrap();
    assert_eq!(StoredStatistics::read(&read).unwrap(), retained);
}

#[test]
fn bytes_that_are_no_sums_are_refused() {
    let bytes = retained(&data()).to_bytes();
    for length in [0, 5, bytes::HEAD, bytes.len() - 1] {
        assert!(StoredStatistics::from_bytes(&bytes[..length]).is_err());
    }
    let with = |at: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        StoredStatistics::from_bytes(&bytes).unwrap_err().kind()
    };
    assert_eq!(with(0, &9_u32.to_le_bytes()), ErrorKind::UnsupportedVersion);
    assert_eq!(with(4, &u32::MAX.to_le_bytes()), ErrorKind::InvalidModel);
    assert_eq!(with(4, &0_u32.to_le_bytes()), ErrorKind::InvalidModel);
    assert_eq!(with(8, &u32::MAX.to_le_bytes()), ErrorKind::InvalidModel);
    assert_eq!(with(16, &0_u64.to_le_bytes()), ErrorKind::InvalidModel);
    assert_eq!(with(24, &f64::NAN.to_le_bytes()), ErrorKind::InvalidModel);
    assert_eq!(
        with(40, &f64::INFINITY.to_le_bytes()),
        ErrorKind::InvalidModel
    );
    assert_eq!(StoredStatistics::size(usize::MAX, 1), None);
}
