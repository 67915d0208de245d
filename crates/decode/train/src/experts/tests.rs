#![allow(
    clippy::needless_range_loop,
    reason = "matrices by index, as they are written"
)]

use super::*;
use betz_gram::cases;

/// Latents in two clouds, one a half of the time.
fn clouds() -> (betz_recording::Dataset, Vec<f32>) {
    let mut data = cases::dataset(1, &[(0, 4000)], vec![], 1);
    data.step_seconds = 0.1;
    let z = (0..4000)
        .flat_map(|step: usize| {
            let side = if (step / 50).is_multiple_of(2) {
                -1.5
            } else {
                1.5
            };
            let noise =
                |k: usize| (((step * 7919 + k * 104_729) % 1000) as f32 / 500.0 - 1.0) * 0.8;
            [side + noise(1), noise(2)]
        })
        .collect();
    (data, z)
}

fn walk<'a>(data: &'a betz_recording::Dataset, z: &'a [f32]) -> Walk<'a> {
    Walk {
        data: data.view(),
        latents: 2,
        row: 2,
        z,
        delay_steps: 0,
        radius: 100.0,
        placement: None,
    }
}

#[test]
fn the_discriminant_is_that_of_the_definition() {
    let (data, z) = clouds();
    let cluster_of = |step: usize| step / 50 % 2;
    let walk = walk(&data, &z);
    let found = Discriminant::fit(walk, 0.1, 2, &cluster_of, &|s| s < 3000, &()).unwrap();
    // In plain loops: [z; h ∗ z] of each step, means, covariance within.
    let rho = (-1.0_f64).exp();
    let mut state = [0.0; 2];
    let mut rows = Vec::new();
    for z in z.chunks_exact(2).take(3000) {
        for (s, z) in state.iter_mut().zip(z) {
            *s = rho * *s + (1.0 - rho) * f64::from(*z);
        }
        rows.push([f64::from(z[0]), f64::from(z[1]), state[0], state[1]]);
    }
    let mean = |k: usize| {
        let mine: Vec<&[f64; 4]> = rows
            .iter()
            .enumerate()
            .filter(|(s, _)| cluster_of(*s) == k)
            .map(|r| r.1)
            .collect();
        std::array::from_fn::<f64, 4, _>(|i| {
            mine.iter().map(|r| r[i]).sum::<f64>() / mine.len() as f64
        })
    };
    let means = [mean(0), mean(1)];
    let mut within = [[0.0; 4]; 4];
    for (step, row) in rows.iter().enumerate() {
        let mean = means[cluster_of(step)];
        for i in 0..4 {
            for j in 0..4 {
                within[i][j] += (row[i] - mean[i]) * (row[j] - mean[j]) / 3000.0;
            }
        }
    }
    let shrink = SHRINKAGE * (0..4).map(|i| within[i][i]).sum::<f64>() / 4.0;
    (0..4).for_each(|i| within[i][i] += shrink);
    for k in 0..2 {
        let b = &found.weights[k * 4..][..4];
        for i in 0..4 {
            let product: f64 = (0..4).map(|j| within[i][j] * b[j]).sum();
            assert!(
                (product - means[k][i]).abs() < 1e-4,
                "{product}, expected {}",
                means[k][i]
            );
        }
        let half: f64 = (0..4).map(|i| means[k][i] * b[i]).sum::<f64>() / 2.0;
        assert!((found.bias[k] - (0.5_f64.ln() - half)).abs() < 1e-3);
    }
}

#[test]
fn gates_choose_and_soften() {
    let (data, z) = clouds();
    let cluster_of = |step: usize| step / 50 % 2;
    let discriminant =
        Discriminant::fit(walk(&data, &z), 0.1, 2, &cluster_of, &|_| true, &()).unwrap();
    let n = 40;
    let steps = |from: usize| -> Vec<f32> {
        let rows = &z[from * 2..][..n * 2];
        (0..2)
            .flat_map(|k| rows.iter().skip(k).step_by(2).copied())
            .collect()
    };
    let sharp = discriminant.gate(1.0);
    let soft = discriminant.gate(0.05);
    for (from, right) in [(0, 0), (50, 1), (200, 0)] {
        let z = steps(from);
        let mut features = vec![0.0; sharp.width() * n];
        sharp.fill(&z, &z, n, &mut features);
        let p = |features: &[f32], k: usize, column: usize| features[(2 + k) * n + column];
        for column in 0..n {
            assert!(p(&features, right, column) > 0.9);
            let sum: f32 = (0..2).map(|k| p(&features, k, column)).sum();
            assert!((sum - 1.0).abs() < 1e-5);
            for k in 0..2 {
                for i in 0..2 {
                    let product = p(&features, k, column) * z[i * n + column];
                    assert_eq!(features[(4 + k * 2 + i) * n + column], product);
                }
            }
        }
        assert_eq!(features[..2 * n], z);
        let mut softer = vec![0.0; soft.width() * n];
        soft.fill(&z, &z, n, &mut softer);
        assert!((0..n).all(|c| p(&softer, right, c) < p(&features, right, c)));
    }
}

#[test]
fn clusters_are_found_and_counted() {
    // Three places, and a label that never changes.
    let labels: Vec<f32> = (0..3000)
        .flat_map(|i: usize| {
            let angle = (i % 3) as f32 * 2.1;
            let wobble = ((i * 31) % 17) as f32 * 0.01;
            [100.0 * angle.cos() + wobble, angle.sin() - wobble, 7.0]
        })
        .collect();
    let rows: Vec<usize> = (0..3000).collect();
    let clusters = Clusters::find(&labels, 3, &rows, 3, 1);
    assert_eq!(clusters.len(), 3);
    let of = |i: usize| clusters.of(&labels[i * 3..][..3]);
    for i in 0..3000 {
        assert_eq!(of(i), of(i % 3), "row {i}");
    }
    assert!(of(0) != of(1) && of(1) != of(2) && of(0) != of(2));
    assert_eq!(Clusters::find(&labels, 3, &rows, 3, 1), clusters);
    // No more clusters than different rows.
    let same = vec![1.0; 300];
    assert_eq!(
        Clusters::find(&same, 3, &(0..100).collect::<Vec<_>>(), 5, 0).len(),
        1
    );
    assert_eq!(Clusters::find(&same, 3, &[], 5, 0).len(), 0);
}
