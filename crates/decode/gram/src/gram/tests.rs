//! Every path against the oracle, on one list of cases.

use proptest::prelude::*;

use super::*;
use crate::cases::{self, Case};
use betz_base::ErrorKind;
use betz_recording::Dataset;

/// Norm of one spike's response to each filter, with the longest segment ahead of it.
pub(super) fn scales(case: &Case) -> Vec<f64> {
    let longest = case
        .data
        .segments
        .iter()
        .map(Segment::len)
        .max()
        .unwrap_or(0);
    let norm = |f: usize| {
        let impulse =
            crate::psc::oracle::impulse(&case.bank, f, case.data.step_seconds, longest.max(2)).1;
        impulse.iter().map(|h| h * h).sum::<f64>().sqrt()
    };
    (0..case.bank.len()).map(norm).collect()
}

/// Largest error of Γ, Υ and Σa: Γ_ij relative to |a_i|·|a_j| = √(Γ_ii Γ_jj), the others to what
/// their factors could reach. A response that is small beside that of one spike (`scales`; it came
/// in a segment's last steps, or long before the paired ones) counts as 1/200 of it: f32 sums know
/// it no better.
pub(super) fn worst(expected: &NormalEquations, got: &NormalEquations, scales: &[f64]) -> f64 {
    assert_eq!(expected.steps, got.steps);
    assert_eq!(expected.gram.len(), got.gram.len());
    let (n, m) = (expected.features, expected.outputs);
    let tiny = f64::MIN_POSITIVE;
    let own = |i: usize| expected.gram[i * n + i].sqrt();
    let largest: Vec<f64> = (scales.iter().enumerate())
        .map(|(f, &scale)| (f..n).step_by(scales.len()).map(own).fold(scale, f64::max))
        .collect();
    let norm = |i: usize| own(i).max(5e-3 * largest[i % scales.len()]);
    let mut worst: f64 = 0.0;
    for i in 0..n {
        for j in 0..n {
            let error = (expected.gram[i * n + j] - got.gram[i * n + j]).abs();
            worst = worst.max(error / (norm(i) * norm(j)).max(tiny));
            assert_eq!(got.gram[i * n + j], got.gram[j * n + i], "symmetry");
        }
        for o in 0..m {
            let error = (expected.upsilon[i * m + o] - got.upsilon[i * m + o]).abs();
            worst = worst.max(error / (norm(i) * expected.output_sq_sum[o].sqrt()).max(tiny));
        }
        let error = (expected.feature_sum[i] - got.feature_sum[i]).abs();
        worst = worst.max(error / (norm(i) * (expected.steps as f64).sqrt()).max(tiny));
    }
    for o in 0..m {
        let (sum, square) = (expected.output_sum[o], expected.output_sq_sum[o]);
        assert!((sum - got.output_sum[o]).abs() <= 1e-12 * sum.abs());
        assert!((square - got.output_sq_sum[o]).abs() <= 1e-12 * square);
    }
    worst
}

fn compare(case: &Case, path: GramPath, low_pass: Option<LowPass>, tolerance: f64) {
    let Case {
        name,
        data,
        bank,
        delay_steps,
    } = case;
    let expected = oracle::normal_equations(data, bank, low_pass, *delay_steps).unwrap();
    let (got, used) = normal_equations(data, bank, low_pass, *delay_steps, path, &()).unwrap();
    assert_eq!(used, path, "{name}");
    let error = worst(&expected, &got, &scales(case));
    assert!(error <= tolerance, "{name}, {}: {error:e}", path.name());
}

#[test]
fn dense_equals_the_oracle() {
    for case in cases::all() {
        compare(&case, GramPath::Dense, None, 1e-5);
    }
}

#[test]
fn dense_equals_the_oracle_behind_a_low_pass() {
    let low_pass = LowPass {
        order: 2,
        cutoff_hz: 40.0,
    };
    for case in cases::all() {
        compare(&case, GramPath::Dense, Some(low_pass), 1e-5);
    }
}

#[test]
fn sampled_filters_equal_the_oracle() {
    let low_pass = LowPass {
        order: 2,
        cutoff_hz: 40.0,
    };
    for case in cases::sampled() {
        compare(&case, GramPath::Dense, None, 1e-5);
        compare(&case, GramPath::Dense, Some(low_pass), 1e-5);
        // Left open, it is the dense path; the other says why it is not.
        let (data, bank) = (&case.data, &case.bank);
        let by = |path| normal_equations(data, bank, None, case.delay_steps, path, &());
        assert_eq!(by(GramPath::Auto).unwrap().1, GramPath::Dense);
        let refused = by(GramPath::Event).unwrap_err();
        assert!(refused.message().contains("sampled"), "{refused}");
    }
}

#[test]
fn event_equals_the_oracle() {
    for case in cases::all() {
        compare(&case, GramPath::Event, None, 1e-5);
    }
}

#[test]
fn a_busy_regular_channel_among_silent_ones_keeps_its_digits() {
    for case in cases::busy_regular() {
        compare(&case, GramPath::Event, None, 2e-6);
        compare(&case, GramPath::Dense, None, 2e-6);
    }
}

/// Features and their lags over a coarse range of everything; sizes kept small for speed.
fn random_case() -> impl Strategy<Value = Case> {
    let filter = (0u32..=4, prop_oneof![0.05f64..2.0, 2.0..30.0, 30.0..3000.0]);
    let banks = prop::collection::vec(filter, 1..4);
    let segments = prop::collection::vec(
        (0i64..4, prop_oneof![Just(1i64), 2i64..12, 20i64..300]),
        1..5,
    );
    let delays = prop_oneof![Just(0i64), -20i64..20];
    (
        banks,
        segments,
        delays,
        1u32..41,
        0usize..400,
        0u8..3,
        any::<u64>(),
    )
        .prop_map(
            |(filters, pieces, delay_steps, channels, count, kind, seed)| {
                let mut segments = Vec::new();
                let mut at = 0;
                for (gap, len) in pieces {
                    segments.push((at + gap, at + gap + len));
                    at += gap + len;
                }
                let mut spikes = cases::random_spikes(seed, channels, at, count);
                for spike in &mut spikes {
                    match kind {
                        // Ties: few steps have all the spikes.
                        1 => spike.0 -= spike.0 % 17,
                        // Bursts: few channels fire in a few stretches.
                        2 => {
                            *spike = (
                                spike.0 - spike.0 % 100 + spike.0 % 7,
                                spike.1 % channels.min(3),
                            )
                        }
                        _ => {}
                    }
                }
                let mut filters: Vec<_> = filters.into_iter().map(|(n, tau)| (tau, n)).collect();
                filters.dedup();
                Case {
                    name: format!(
                        "{filters:?} {segments:?} delay {delay_steps} kind {kind} seed {seed}"
                    ),
                    data: cases::dataset(channels as usize, &segments, spikes, 2),
                    bank: cases::bank(&filters),
                    delay_steps,
                }
            },
        )
}

fn exhaustive() -> u32 {
    if std::env::var_os("BETZ_EXHAUSTIVE").is_some() {
        3000
    } else {
        96
    }
}

/// Normal samples on every channel and step, as each channel's `value` of them; behaviour as of [`cases::dataset`].
pub(super) fn signal(
    channels: usize,
    segments: &[(i64, i64)],
    seed: u64,
    value: impl Fn(usize, f64) -> f64,
) -> Dataset {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let steps = segments.last().map_or(0, |s| s.1);
    let all = (0..steps).flat_map(|t| (0..channels as u32).map(move |c| (t, c)));
    let mut data = cases::dataset(channels, segments, all.collect(), 2);
    // The sum of twelve uniform numbers.
    let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
    let channels = data.spikes.channels.iter();
    data.spikes.weights = channels
        .map(|&c| value(c as usize, normal()) as f32)
        .collect();
    data
}

/// Largest error of Γ_c and Υ_c, relative to what their factors vary by: what weights are solved from.
pub(super) fn worst_about_means(expected: &NormalEquations, got: &NormalEquations) -> f64 {
    assert_eq!(expected.steps, got.steps);
    let (n, m) = (expected.features, expected.outputs);
    let centred = |sums: &NormalEquations, i: usize, j: usize| {
        sums.gram[i * n + j] - sums.feature_sum[i] * sums.feature_mean()[j]
    };
    let varies: Vec<f64> = (0..n).map(|i| centred(expected, i, i).sqrt()).collect();
    let behaves: Vec<f64> = expected
        .output_total_squares()
        .iter()
        .map(|s| s.sqrt())
        .collect();
    let (upsilon, own) = (expected.centred_upsilon(), got.centred_upsilon());
    let mut worst: f64 = 0.0;
    for i in 0..n {
        for j in 0..n {
            let error = (centred(expected, i, j) - centred(got, i, j)).abs();
            worst = worst.max(error / (varies[i] * varies[j]));
        }
        for o in 0..m {
            let error = (upsilon[i * m + o] - own[i * m + o]).abs();
            worst = worst.max(error / (varies[i] * behaves[o]));
        }
    }
    worst
}

/// No weight depends on where a channel's zero is, on its unit, or on a few outliers.
#[test]
fn what_varies_is_known_wherever_zero_is() {
    let instant = cases::bank(&[(1.0 / 40.0, 0)]);
    let filters = cases::bank(&[(1.0 / 40.0, 0), (20.0, 0), (60.0, 1)]);
    // Longer than a block, and no more: the oracle takes the square of it.
    let segments = [(0, dense::BLOCK_STEPS as i64 + 60), (2160, 2600)];
    for (offset, bank, tolerance) in [
        (0.0, &instant, 1e-6),
        (1e3, &instant, 1e-6),
        (1e4, &instant, 1e-5),
        (-32_768.0, &instant, 1e-5),
        // Sums about zero in f64 know a variance no better than f32 knows such values.
        (1e6, &instant, 5e-3),
        // Responses are rounded to f32 about zero.
        (0.0, &filters, 2e-5),
        (10.0, &filters, 2e-5),
        (1e4, &filters, 2e-4),
    ] {
        for (scale, delays) in [(1e-6, &[0][..]), (1.0, &[0, 7]), (1e3, &[7])] {
            let value = |c: usize, normal: f64| {
                let outlier = if c == 3 && normal > 2.5 { 50.0 } else { 1.0 };
                scale * (offset * (1.0 + c as f64 / 7.0) + outlier * normal)
            };
            let data = signal(12, &segments, 5, value);
            // Without memory, the oracle sees values about the first one: its own sums would round as they grow with offsets.
            let mut about_first = data.clone();
            let first = data.spikes.weights[..12].to_vec();
            if bank.len() == 1 {
                let weights = about_first.spikes.weights.iter_mut();
                weights.enumerate().for_each(|(i, w)| *w -= first[i % 12]);
            }
            for &delay in delays {
                let expected = oracle::normal_equations(&about_first, bank, None, delay).unwrap();
                let got = dense::normal_equations(&data, bank, None, delay, &()).unwrap();
                let error = worst_about_means(&expected, &got);
                assert!(
                    error <= tolerance,
                    "offset {offset}, scale {scale}: {error:e}"
                );
            }
        }
    }
}

/// A mean that moves costs no digits.
#[test]
fn what_varies_is_known_when_the_mean_drifts() {
    let bank = cases::bank(&[(1.0 / 40.0, 0)]);
    let mut data = signal(6, &[(0, 20_000)], 6, |_, normal| normal);
    for (weight, tick) in data.spikes.weights.iter_mut().zip(&data.spikes.ticks) {
        *weight += if *tick < 7000 { 0.0 } else { 5e3 };
    }
    // Of the steps behind the drift alone, taken from the whole.
    let of = |start: i64| {
        let data = Dataset {
            segments: vec![Segment {
                start,
                stop: 20_000,
            }],
            ..data.clone()
        };
        dense::normal_equations(&data, &bank, None, 0, &()).unwrap()
    };
    let expected = oracle::normal_equations(&data, &bank, None, 0).unwrap();
    assert!(worst_about_means(&expected, &of(0)) < 1e-6);
    let late = Dataset {
        segments: vec![Segment {
            start: 8000,
            stop: 20_000,
        }],
        ..data.clone()
    };
    let expected = oracle::normal_equations(&late, &bank, None, 0).unwrap();
    assert!(worst_about_means(&expected, &of(8000)) < 1e-6);
}

/// Counts vary by less than their mean behind slow filters: spikes alone know them well enough.
#[test]
fn events_know_what_busy_counts_vary_by() {
    let bank = cases::bank(&[(50.0, 0), (500.0, 1)]);
    let data = cases::dataset(
        8,
        &[(0, 20_000)],
        cases::random_spikes(9, 8, 20_000, 16_000),
        2,
    );
    let expected = oracle::normal_equations(&data, &bank, None, 0).unwrap();
    let got = event::normal_equations(&data, &bank, 0, &()).unwrap();
    let error = worst_about_means(&expected, &got);
    assert!(error < 1e-3, "{error:e}");
    let got = dense::normal_equations(&data, &bank, None, 0, &()).unwrap();
    let error = worst_about_means(&expected, &got);
    assert!(error < 1e-4, "{error:e}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: exhaustive(), ..ProptestConfig::default() })]

    #[test]
    fn both_paths_equal_the_oracle_on_random_cases(case in random_case()) {
        compare(&case, GramPath::Event, None, 2e-5);
        compare(&case, GramPath::Dense, None, 2e-5);
    }
}

#[test]
fn the_event_path_does_not_depend_on_the_number_of_threads() {
    for case in cases::all()
        .iter()
        .filter(|c| c.name.contains("tile") || c.name == "delay")
    {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let path = GramPath::Event;
            let run =
                || normal_equations(&case.data, &case.bank, None, case.delay_steps, path, &());
            pool.install(run).unwrap().0
        };
        assert_eq!(with(1), with(3), "{}", case.name);
    }
}

#[test]
fn sums_of_segments_add_up_and_come_apart() {
    let case = cases::all()
        .into_iter()
        .find(|c| c.name == "delay")
        .unwrap();
    let of = |segments: &[Segment]| {
        let data = Dataset {
            segments: segments.to_vec(),
            ..case.data.clone()
        };
        oracle::normal_equations(&data, &case.bank, None, case.delay_steps).unwrap()
    };
    let whole = of(&case.data.segments);
    let (first, rest) = case.data.segments.split_at(2);
    let mut sum = of(first);
    sum.add(&of(rest)).unwrap();
    assert!(worst(&whole, &sum, &scales(&case)) < 1e-14);
    sum.subtract(&of(rest)).unwrap();
    assert!(worst(&of(first), &sum, &scales(&case)) < 1e-12);
    assert!(sum.subtract(&whole).is_err());
    assert!(sum.add(&NormalEquations::zeros(1, 2)).is_err());
}

#[test]
fn auto_takes_dense_for_busy_bins_and_events_for_sparse_ticks() {
    let bank = cases::bank(&[(10.0, 1)]);
    let of = |spikes, low_pass| {
        let spikes = cases::random_spikes(1, 30, 2000, spikes);
        let data = cases::dataset(30, &[(0, 2000)], spikes, 1);
        normal_equations(&data, &bank, low_pass, 0, GramPath::Auto, &())
            .unwrap()
            .1
    };
    assert_eq!(of(200, None), GramPath::Event);
    assert_eq!(of(200_000, None), GramPath::Dense);
    let low_pass = LowPass {
        order: 2,
        cutoff_hz: 40.0,
    };
    assert_eq!(of(200, Some(low_pass)), GramPath::Dense);
    // Values at every step: few channels would be quicker by events.
    let data = signal(2, &[(0, 2000)], 1, |_, normal| 1e4 + normal);
    let (sums, path) = normal_equations(&data, &bank, None, 0, GramPath::Auto, &()).unwrap();
    let expected = oracle::normal_equations(&data, &bank, None, 0).unwrap();
    assert_eq!(path, GramPath::Dense);
    assert!(worst_about_means(&expected, &sums) < 1e-3);
}

#[test]
fn the_event_path_has_no_low_pass() {
    let case = &cases::all()[0];
    let low_pass = Some(LowPass {
        order: 2,
        cutoff_hz: 40.0,
    });
    let error = normal_equations(&case.data, &case.bank, low_pass, 0, GramPath::Event, &());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
}
