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
    let norm = |f: &betz_runtime::psc::Filter| {
        let impulse = f.impulse(case.data.step_seconds, longest.max(2));
        impulse.iter().map(|h| h * h).sum::<f64>().sqrt()
    };
    case.bank.filters().iter().map(norm).collect()
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
