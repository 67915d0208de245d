#![allow(
    clippy::needless_range_loop,
    reason = "matrices by index, as they are written"
)]

use super::*;
use betz_base::ErrorKind;
use betz_gram::cases;
use betz_gram::gram;
use betz_gram::psc::oracle;
use betz_gram::solve::{FeatureNames, MaskPolicy, Solver, solve};
use betz_recording::Dataset;

/// A recording whose spikes say something about its outputs.
fn data() -> Dataset {
    let spikes = cases::random_spikes(11, 4, 1500, 4000);
    let mut data = cases::dataset(4, &[(0, 700), (710, 1500)], spikes, 2);
    data.step_seconds = 0.05;
    let mut felt = vec![0.0_f32; data.steps];
    for (&tick, &channel) in data.spikes.ticks.iter().zip(&data.spikes.channels) {
        felt[tick as usize] += channel as f32 - 1.5;
    }
    let mut state = 0.0;
    for (step, row) in data.behavior.chunks_exact_mut(2).enumerate() {
        state = 0.8 * state + felt[step];
        row[0] += state;
        row[1] += (0.3 * state).sin();
    }
    data
}

/// Latents of `targets(data)`, the sums they come from, and responses a, (feature, column).
fn made(data: &Dataset, most: usize) -> (Latents, NormalEquations, Solution, Vec<f64>) {
    let bank = cases::bank(&[(0.06, 0), (0.1, 1)]);
    let of = targets(&data.view());
    let sums = gram::oracle::normal_equations(of.view(&data.view()), &bank, None, 0).unwrap();
    let names = FeatureNames {
        channels: &data.channel_names,
        bank: &bank,
    };
    let solution = solve(&sums, 3.0, Solver::Cholesky, MaskPolicy::Refuse, names).unwrap();
    let latents = Latents::new(&sums, &solution, most).unwrap();
    let responses = oracle::responses(data, &bank, None).unwrap();
    (latents, sums, solution, responses)
}

/// z of every column from responses, in plain loops: (latent, column).
fn latents_of(latents: &Latents, responses: &[f64], columns: usize) -> Vec<f64> {
    let mut z = vec![0.0; latents.count * columns];
    for (k, row) in z.chunks_exact_mut(columns).enumerate() {
        for (column, z) in row.iter_mut().enumerate() {
            *z = latents.intercept[k];
            for (f, weights) in latents.weights.chunks_exact(latents.count).enumerate() {
                *z += weights[k] * responses[f * columns + column];
            }
        }
    }
    z
}

/// Eigenvalues and eigenvectors (columns of `v`) of a symmetric matrix by Jacobi's rotations.
fn jacobi(mut a: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let n = a.len();
    let mut v: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect())
        .collect();
    for _ in 0..100 {
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q] == 0.0 {
                    continue;
                }
                let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let t = if theta == 0.0 { 1.0 } else { t };
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for row in &mut a {
                    (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
                }
                for k in 0..n {
                    (a[p][k], a[q][k]) = (c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]);
                }
                for row in &mut v {
                    (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
                }
            }
        }
    }
    ((0..n).map(|i| a[i][i]).collect(), v)
}

#[test]
fn latents_have_mean_zero_and_covariance_one() {
    let data = data();
    let (latents, _, _, responses) = made(&data, 4);
    assert_eq!(latents.count, 4);
    let columns = data.steps_in_segments();
    let z = latents_of(&latents, &responses, columns);
    for i in 0..4 {
        let row = &z[i * columns..][..columns];
        assert!(row.iter().sum::<f64>().abs() < 1e-8 * columns as f64);
        for j in 0..4 {
            let other = &z[j * columns..][..columns];
            let covariance: f64 =
                row.iter().zip(other).map(|(a, b)| a * b).sum::<f64>() / columns as f64;
            let expected = f64::from(u8::from(i == j));
            assert!(
                (covariance - expected).abs() < 1e-8,
                "{i}, {j}: {covariance}"
            );
        }
    }
    assert!(latents.variances.is_sorted_by(|a, b| a >= b));
}

#[test]
fn latents_are_the_principal_components_of_the_predictions() {
    let data = data();
    let (latents, sums, solution, responses) = made(&data, 5);
    let (columns, m) = (data.steps_in_segments(), sums.outputs);
    // Predictions of standardised targets at every step, about their means.
    let squares = sums.output_total_squares();
    let predictions: Vec<Vec<f64>> = (0..m)
        .map(|o| {
            let deviation = (squares[o] / columns as f64).sqrt();
            let mut row = vec![0.0; columns];
            for (f, weights) in solution.weights.chunks_exact(m).enumerate() {
                let a = &responses[f * columns..][..columns];
                row.iter_mut()
                    .zip(a)
                    .for_each(|(p, a)| *p += weights[o] / deviation * a);
            }
            let mean = row.iter().sum::<f64>() / columns as f64;
            row.iter_mut().for_each(|p| *p -= mean);
            row
        })
        .collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let covariance = predictions.iter();
    let covariance = covariance
        .map(|a| predictions.iter().map(|b| dot(a, b)).collect())
        .collect();
    let (values, vectors) = jacobi(covariance);
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    let z = latents_of(&latents, &responses, columns);
    for (k, &component) in order.iter().take(5).enumerate() {
        let variance = values[component] / columns as f64;
        assert!((latents.variances[k] - variance).abs() < 1e-9 * variance);
        let expected: Vec<f64> = (0..columns)
            .map(|t| {
                (0..m)
                    .map(|o| vectors[o][component] * predictions[o][t])
                    .sum::<f64>()
                    / variance.sqrt()
            })
            .collect();
        let got = &z[k * columns..][..columns];
        let sign = dot(&expected, got).signum();
        for (e, g) in expected.iter().zip(got) {
            assert!(
                (sign * e - g).abs() < 1e-7,
                "latent {k}: {g}, expected {}",
                sign * e
            );
        }
    }
}

#[test]
fn no_more_latents_than_there_is_to_say() {
    let data = data();
    let (latents, sums, solution, _) = made(&data, 64);
    // 8 features give predictions of rank 8 at most.
    assert_eq!(latents.count, 8);
    let mut still = sums;
    still.output_sq_sum = (still.output_sum.iter())
        .map(|s| s * s / still.steps as f64)
        .collect();
    let error = Latents::new(&still, &solution, 4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
    let nothing = Solution {
        weights: vec![0.0; solution.weights.len()],
        ..solution.clone()
    };
    let error = Latents::new(&made(&data, 1).1, &nothing, 4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
    let spoilt = Solution {
        weights: vec![f64::NAN; solution.weights.len()],
        ..solution
    };
    let error = Latents::new(&made(&data, 1).1, &spoilt, 4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NonFinite);
}

#[test]
fn a_run_over_the_recording_gives_the_latents_of_its_responses() {
    let mut data = data();
    // More segments than one thread takes at a time.
    data.segments = (0..40)
        .map(|i| betz_recording::Segment {
            start: i * 37 + 3,
            stop: i * 37 + 30,
        })
        .collect();
    let (latents, _, _, responses) = made(&data, 3);
    let bank = cases::bank(&[(0.06, 0), (0.1, 1)]);
    let z = filter_latents(&latents, &data.view(), &bank, None).unwrap();
    let columns = data.steps_in_segments();
    let expected = latents_of(&latents, &responses, columns);
    let mut column = 0;
    for step in 0..data.steps {
        let inside = data
            .segments
            .iter()
            .any(|s| s.start as usize <= step && step < s.stop as usize);
        for k in 0..3 {
            let got = f64::from(z[step * 3 + k]);
            if inside {
                assert!(
                    (got - expected[k * columns + column]).abs() < 1e-5,
                    "step {step}"
                );
            } else {
                assert!(got.is_nan());
            }
        }
        column += usize::from(inside);
    }
    let counts = |step: usize| {
        data.segments
            .iter()
            .any(|s| s.start as usize <= step && step < s.stop as usize)
    };
    let mut norms: Vec<f64> = (0..columns)
        .map(|c| {
            (0..2)
                .map(|k| expected[k * columns + c].powi(2))
                .sum::<f64>()
                .sqrt()
        })
        .collect();
    norms.sort_by(f64::total_cmp);
    let median = quantile_of_norms(&z, (3, 2), counts, 0.5).unwrap();
    assert!((median - norms[(columns as f64 / 2.0 - 0.5).round() as usize]).abs() < 1e-2 * median);
    assert_eq!(quantile_of_norms(&z, (3, 2), |_| false, 0.5), None);
}
