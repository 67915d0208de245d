#![allow(
    clippy::needless_range_loop,
    reason = "matrices by index, as they are written"
)]

use super::choose::Weights;
use super::*;
use crate::lift::Cosines;
use betz_base::ErrorKind;
use betz_gram::NormalEquations;
use betz_gram::cases;
use betz_recording::Dataset;

const LATENTS: usize = 3;

/// A recording of steps of `step_seconds` with latents, a row of which is one longer than is used; NaN
/// outside segments.
fn recording(step_seconds: f64, segments: &[(i64, i64)]) -> (Dataset, Vec<f32>) {
    let mut data = cases::dataset(1, segments, vec![], 2);
    data.step_seconds = step_seconds;
    let mut z = vec![f32::NAN; data.steps * (LATENTS + 1)];
    for segment in &data.segments {
        for step in segment.start as usize..segment.stop as usize {
            for (k, z) in z[step * (LATENTS + 1)..][..LATENTS + 1]
                .iter_mut()
                .enumerate()
            {
                *z = ((step * (k + 2)) as f32 * 0.037).sin() * (1.0 + k as f32);
            }
        }
    }
    (data, z)
}

fn walk<'a>(data: &'a Dataset, z: &'a [f32], delay_steps: i64) -> Walk<'a> {
    Walk {
        data: data.view(),
        latents: LATENTS,
        row: LATENTS + 1,
        z,
        delay_steps,
        radius: 2.5,
        placement: None,
    }
}

/// The definition, a step at a time in f64: [g − ḡ; h ∗ (g − ḡ)] of every step, `None` outside segments.
fn plain(
    walk: Walk<'_>,
    cosines: &Cosines,
    mean: &[f64],
    filters: &[f64],
) -> Vec<Option<Vec<f64>>> {
    let mut rows = vec![None; walk.data.steps];
    let width = cosines.width();
    for segment in walk.data.segments {
        let mut states = vec![vec![0.0; width]; filters.len()];
        for step in segment.start as usize..segment.stop as usize {
            let z: Vec<f64> = walk.z[step * walk.row..][..LATENTS]
                .iter()
                .map(|v| f64::from(*v))
                .collect();
            let norm = z.iter().map(|v| v * v).sum::<f64>().sqrt();
            let z: Vec<f64> = z
                .iter()
                .map(|v| v * f64::min(1.0, walk.radius / norm))
                .collect();
            let mut g = z.clone();
            for (unit, phase) in cosines.phase.iter().enumerate() {
                let omega = &cosines.omega[unit * LATENTS..][..LATENTS];
                let turns: f64 = omega.iter().zip(&z).map(|(w, z)| f64::from(*w) * z).sum();
                g.push((std::f64::consts::TAU * (turns + f64::from(*phase))).cos());
            }
            g.iter_mut().zip(mean).for_each(|(g, m)| *g -= m);
            let mut row = g.clone();
            for (state, tau) in states.iter_mut().zip(filters) {
                let rho = (-walk.data.step_seconds / tau).exp();
                for (s, g) in state.iter_mut().zip(&g) {
                    *s = rho * *s + (1.0 - rho) * g;
                }
                row.extend_from_slice(state);
            }
            rows[step] = Some(row);
        }
    }
    rows
}

/// Sums in plain f64 over every `stride`-th paired step that counts.
fn plain_sums(
    walk: Walk<'_>,
    rows: &[Option<Vec<f64>>],
    stride: usize,
    counts: impl Fn(usize) -> bool,
) -> NormalEquations {
    let features = rows.iter().flatten().next().unwrap().len();
    let mut sums = NormalEquations::zeros(features, 2);
    for segment in walk.data.segments {
        let Some((first, stop)) = betz_gram::gram::paired_steps(segment, walk.delay_steps) else {
            continue;
        };
        for step in (first as usize..stop as usize)
            .step_by(stride)
            .filter(|&s| counts(s))
        {
            let row = rows[step].as_ref().unwrap();
            let truth = (step as i64 - walk.delay_steps) as usize * 2;
            sums.steps += 1;
            for (i, a) in row.iter().enumerate() {
                sums.feature_sum[i] += a;
                for (j, b) in row.iter().enumerate() {
                    sums.gram[i * features + j] += a * b;
                }
                for o in 0..2 {
                    sums.upsilon[i * 2 + o] += a * f64::from(walk.data.behavior[truth + o]);
                }
            }
            for o in 0..2 {
                let x = f64::from(walk.data.behavior[truth + o]);
                sums.output_sum[o] += x;
                sums.output_sq_sum[o] += x * x;
            }
        }
    }
    sums
}

fn close(got: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let size = expected.iter().fold(0.0_f64, |s, v| s.max(v.abs()));
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            (g - e).abs() <= tolerance * size,
            "{what}[{i}]: {g}, expected {e}"
        );
    }
}

#[test]
fn sums_and_estimates_are_those_of_the_definition() {
    // One block and several; steps as they are and every fifth; delays both ways.
    let long: &[(i64, i64)] = &[(2, 2500), (2500, 2501), (2600, 6000)];
    let trials: &[(i64, i64)] = &[(0, 20), (20, 47), (50, 90)];
    // Where all steps of a segment count, or its first ones, filtered features are not multiplied with each other.
    for (step_seconds, segments, stride, delay, first) in [
        (0.1, trials, 1, 0, 0),
        (0.1, trials, 1, 0, 100),
        (0.1, trials, 1, 0, 25),
        (0.1, trials, 1, 3, 0),
        (0.1, trials, 1, -3, 100),
        (0.004, long, 5, -2, 0),
        (0.03, long, 1, 0, 0),
        (0.03, long, 1, 0, 6000),
    ] {
        let (data, z) = recording(step_seconds, segments);
        let walk = walk(&data, &z, delay);
        let cosines = Cosines::draw(2, LATENTS, 9);
        let filters = [0.1, 0.5];
        let counts = |step: usize| match first {
            0 => step / 10 % 3 != 1,
            first => step < first,
        };
        let zero = vec![0.0; cosines.width()];
        let means =
            plain_sums(walk, &plain(walk, &cosines, &zero, &[]), stride, counts).feature_mean();
        let mean = mean_of(walk, &cosines, &counts, &()).unwrap();
        close(&mean, &means, 1e-5, "means");
        let rows = plain(walk, &cosines, &mean, &filters);
        let pass = Pass::new(walk, &cosines, &mean, &filters);
        let sums = pass.sums(&counts, &()).unwrap();
        assert_same_sums(&sums, &plain_sums(walk, &rows, stride, counts));
        assert_plain_estimates(&pass, &rows, &data, counts);
    }
}

fn assert_same_sums(sums: &NormalEquations, expected: &NormalEquations) {
    assert_eq!(sums.steps, expected.steps);
    close(&sums.gram, &expected.gram, 1e-5, "gram");
    // Features about their mean leave little of products with outputs far from 0: what is left
    // is as exact as a cosine and its mean are in f32, step for step.
    let rounding = 2e-7 * (sums.steps as f64).sqrt();
    for (i, (got, e)) in sums.upsilon.iter().zip(&expected.upsilon).enumerate() {
        let own = expected.gram[i / 2 * (sums.features + 1)];
        let tolerance = 1e-5 * own.sqrt() + rounding;
        assert!(
            (got - e).abs() <= tolerance * expected.output_sq_sum[i % 2].sqrt(),
            "upsilon[{i}]: {got}, expected {e}"
        );
    }
    close(&sums.output_sum, &expected.output_sum, 1e-12, "outputs");
    close(
        &sums.output_sq_sum,
        &expected.output_sq_sum,
        1e-12,
        "squares",
    );
    assert!(
        sums.feature_sum
            .iter()
            .zip(&expected.feature_sum)
            .all(|(g, e)| (g - e).abs() < 1e-2)
    );
}

/// Estimates of the steps that count are products of their plain `rows` with the weights, and no other is written.
fn assert_plain_estimates(
    pass: &Pass<'_>,
    rows: &[Option<Vec<f64>>],
    data: &Dataset,
    counts: impl Fn(usize) -> bool + Sync,
) {
    let features = rows.iter().flatten().next().unwrap().len();
    let weights: Vec<f64> = (0..features * 2)
        .map(|i| ((i * 7) % 5) as f64 - 2.0)
        .collect();
    let mut estimates = vec![f32::NAN; data.steps * 2];
    let wanted = |step: usize| {
        data.segments
            .iter()
            .any(|s| s.start as usize <= step && step < s.stop as usize)
            && counts(step)
    };
    pass.estimate((&weights, &[0.5, -3.0]), &wanted, &mut estimates, &())
        .unwrap();
    for (step, row) in estimates.chunks_exact(2).enumerate() {
        if !wanted(step) {
            assert!(row.iter().all(|v| v.is_nan()));
            continue;
        }
        let features = rows[step].as_ref().unwrap();
        for (o, c) in [0.5, -3.0].iter().enumerate() {
            let terms = features
                .iter()
                .enumerate()
                .map(|(f, g)| g * weights[f * 2 + o]);
            let expected = c + terms.sum::<f64>();
            assert!((f64::from(row[o]) - expected).abs() < 1e-3, "step {step}");
        }
    }
}

#[test]
fn the_readout_solves_the_normal_equations() {
    let (data, z) = recording(0.1, &[(0, 400)]);
    let walk = walk(&data, &z, 0);
    let cosines = Cosines::draw(0, LATENTS, 8);
    let mean = mean_of(walk, &cosines, &|_| true, &()).unwrap();
    let pass = Pass::new(walk, &cosines, &mean, &[0.1]);
    let sums = pass.sums(&|_| true, &()).unwrap();
    let subset: Vec<usize> = vec![0, 2, 5, 11, 13, 20];
    let Weights { weights, intercept } = ridge_readout(&sums, &subset, 1e-3).unwrap();
    let (n, mean) = (sums.features, sums.feature_mean());
    let gram: Vec<f64> = (0..n * n)
        .map(|i| sums.gram[i] - sums.feature_sum[i / n] * mean[i % n])
        .collect();
    let upsilon = sums.centred_upsilon();
    let ridge = 1e-3 * subset.iter().map(|&f| gram[f * n + f]).sum::<f64>() / 6.0;
    for f in 0..n {
        for o in 0..2 {
            if !subset.contains(&f) {
                assert_eq!(weights[f * 2 + o], 0.0);
                continue;
            }
            let product: f64 = (0..n).map(|j| gram[f * n + j] * weights[j * 2 + o]).sum();
            let left = product + ridge * weights[f * 2 + o] - upsilon[f * 2 + o];
            assert!(left.abs() < 1e-8 * upsilon[o].abs().max(1.0));
        }
    }
    // The mean estimate is the mean of the truth.
    for o in 0..2 {
        let estimate: f64 = (0..n)
            .map(|f| sums.feature_mean()[f] * weights[f * 2 + o])
            .sum();
        assert!((estimate + intercept[o] - sums.output_mean()[o]).abs() < 1e-9);
    }
}

#[test]
fn what_is_left_is_what_estimates_leave() {
    let (data, z) = recording(0.1, &[(0, 300), (300, 700)]);
    let walk = walk(&data, &z, 0);
    let cosines = Cosines::draw(0, LATENTS, 8);
    let (trains, holds) = (|step: usize| step < 300, |step: usize| step >= 300);
    let mean = mean_of(walk, &cosines, &trains, &()).unwrap();
    let pass = Pass::new(walk, &cosines, &mean, &[0.1]);
    let (train, held) = (
        pass.sums(&trains, &()).unwrap(),
        pass.sums(&holds, &()).unwrap(),
    );
    let subsets = [(0..11).collect::<Vec<_>>(), (0..train.features).collect()];
    let kappas = [1e-3, 1e-1];
    let candidates = best_of(&train, &held, &subsets, &kappas).unwrap();
    assert_eq!(candidates.len(), 4);
    for (i, candidate) in candidates.iter().enumerate() {
        assert_eq!((candidate.subset, candidate.kappa), (i / 2, kappas[i % 2]));
        let found = ridge_readout(&train, &subsets[i / 2], kappas[i % 2]).unwrap();
        let mut estimates = vec![f32::NAN; data.steps * 2];
        pass.estimate(
            (&found.weights, &found.intercept),
            &holds,
            &mut estimates,
            &(),
        )
        .unwrap();
        for o in 0..2 {
            let left: f64 = (300..700)
                .map(|step| {
                    (f64::from(data.behavior[step * 2 + o]) - f64::from(estimates[step * 2 + o]))
                        .powi(2)
                })
                .sum();
            let all = held.output_sq_sum[o];
            assert!(
                (candidate.residual[o] - left).abs() < 2e-5 * all,
                "{} and {left}",
                candidate.residual[o]
            );
        }
    }
    let nothing = NormalEquations::zeros(4, 2);
    let error = best_of(&nothing, &held, &[vec![0, 1]], &kappas).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
    // Features that are copies of each other are passed over at no ridge, not refused.
    let copies = NormalEquations {
        steps: 10,
        gram: vec![4.0; 16],
        upsilon: vec![1.0; 8],
        output_sq_sum: vec![9.0; 2],
        ..nothing
    };
    let held = copies.clone();
    let left = best_of(&copies, &held, &[vec![0, 1]], &[0.0, 0.5]).unwrap();
    assert!(left[0].residual.iter().all(|r| *r > 8.0) && left[1].residual[0] < 9.0);
}

#[test]
fn sums_on_cuda_are_those_of_the_cpu() {
    let Ok(context) = betz_device::cuda::Context::open(0) else {
        eprintln!("sums_on_cuda_are_those_of_the_cpu: skipped: no device");
        return;
    };
    // More than are sent at a time; trials, one of which is left out, and a delay.
    let segments = [(5, 9_000), (9_010, 9_400), (9_400, 21_500)];
    for delay in [0, 3, -2] {
        let (data, z) = recording(0.1, &segments);
        let walk = walk(&data, &z, delay);
        let cosines = Cosines::draw(1, LATENTS, 29);
        let counts = |step: usize| !(9_010..9_400).contains(&step);
        let mean = mean_of(walk, &cosines, &counts, &()).unwrap();
        let pass = Pass::new(walk, &cosines, &mean, &[0.3]);
        let expected = pass.sums(&counts, &()).unwrap();
        let wants = pass.sampled(&counts);
        let got = cuda::sums(&context, &pass, &wants, &()).unwrap();
        assert_eq!(got.steps, expected.steps);
        close(&got.gram, &expected.gram, 2e-5, "Γ");
        close(&got.upsilon, &expected.upsilon, 2e-5, "Υ");
        close(&got.feature_sum, &expected.feature_sum, 2e-5, "Σa");
        close(&got.output_sum, &expected.output_sum, 1e-6, "Σx");
        close(&got.output_sq_sum, &expected.output_sq_sum, 1e-6, "Σx²");
    }
}

#[test]
fn a_device_is_taken_where_it_is_named_and_gains() {
    let cpu = betz_device::Placement::cpu();
    assert!(cuda::chosen(&cpu, 10_000, 1_000_000).is_none());
}
