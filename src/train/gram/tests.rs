//! Every path against the oracle, on one list of cases.

use super::*;
use crate::train::cases::{self, Case};

/// Largest error of Γ, Υ and Σa: Γ_ij relative to √(Γ_ii Γ_jj), the others to what their factors
/// could reach.
pub(super) fn worst(expected: &NormalEquations, got: &NormalEquations) -> f64 {
    assert_eq!(expected.steps, got.steps);
    assert_eq!(expected.gram.len(), got.gram.len());
    let (n, m) = (expected.features, expected.outputs);
    let tiny = f64::MIN_POSITIVE;
    let norm = |i: usize| expected.gram[i * n + i].sqrt();
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
        assert_eq!(expected.output_sum[o], got.output_sum[o]);
        assert_eq!(expected.output_sq_sum[o], got.output_sq_sum[o]);
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
    let error = worst(&expected, &got);
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
