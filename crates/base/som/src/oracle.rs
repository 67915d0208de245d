//! Plain f64 loops: what the fast ways are tested against.

use super::{Grid, Metric, Samples};

/// The nearest of `weights`, (nodes, dims), and the squared distance; of equals the lowest.
pub fn nearest(x: &[f32], weights: &[f64]) -> (usize, f64) {
    let (mut best, mut least) = (0, f64::INFINITY);
    for (node, w) in weights.chunks_exact(x.len()).enumerate() {
        let squared: f64 = x
            .iter()
            .zip(w)
            .map(|(x, w)| (f64::from(*x) - w).powi(2))
            .sum();
        if squared < least {
            (best, least) = (node, squared);
        }
    }
    (best, least)
}

/// Distance of two lists of numbers, by the definition of `metric`.
pub fn distance(metric: Metric, x: &[f32], w: &[f32]) -> f64 {
    let wide = |v: &[f32]| -> Vec<f64> { v.iter().map(|v| f64::from(*v)).collect() };
    let (mut x, mut w) = (wide(x), wide(w));
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let apart: Vec<f64> = x.iter().zip(&w).map(|(x, w)| (x - w).abs()).collect();
    match metric {
        Metric::Euclidean => return dot(&apart, &apart).sqrt(),
        Metric::Manhattan => return apart.iter().sum(),
        Metric::Chebyshev => return apart.into_iter().fold(0.0, f64::max),
        Metric::Cosine => {}
        Metric::Correlation => {
            for side in [&mut x, &mut w] {
                let mean = side.iter().sum::<f64>() / side.len() as f64;
                side.iter_mut().for_each(|v| *v -= mean);
            }
        }
    }
    let lengths = (dot(&x, &x) * dot(&w, &w)).sqrt();
    if lengths > 0.0 {
        1.0 - dot(&x, &w) / lengths
    } else {
        1.0
    }
}

/// The nearest of `weights`, (nodes, dims), by `metric`; of equals the lowest.
pub fn nearest_by(metric: Metric, x: &[f32], weights: &[f64]) -> usize {
    let (mut best, mut least) = (0, f64::INFINITY);
    for (node, w) in weights.chunks_exact(x.len()).enumerate() {
        let w: Vec<f32> = w.iter().map(|w| *w as f32).collect();
        let distance = distance(metric, x, &w);
        if distance < least {
            (best, least) = (node, distance);
        }
    }
    best
}

/// One epoch of batch training with a Gaussian of `radius` over all pairs of nodes, and winners by `metric`.
pub fn batch_epoch(
    grid: &Grid,
    metric: Metric,
    weights: &mut [f64],
    samples: Samples<'_>,
    radius: f64,
) {
    let (nodes, dims) = (grid.nodes(), samples.dims());
    let mut sums = vec![0.0; nodes * dims];
    let mut counts = vec![0.0; nodes];
    for x in samples.rows() {
        let winner = match metric {
            Metric::Euclidean => nearest(x, weights).0,
            _ => nearest_by(metric, x, weights),
        };
        counts[winner] += 1.0;
        for (sum, x) in sums[winner * dims..][..dims].iter_mut().zip(x) {
            *sum += f64::from(*x);
        }
    }
    for k in 0..nodes {
        let (mut mass, mut total) = (0.0, vec![0.0; dims]);
        for c in 0..nodes {
            let h = (-0.5 * grid.squared_distance(k, c) / (radius * radius)).exp();
            mass += h * counts[c];
            for (total, sum) in total.iter_mut().zip(&sums[c * dims..][..dims]) {
                *total += h * sum;
            }
        }
        if mass > 1e-12 {
            for (w, total) in weights[k * dims..][..dims].iter_mut().zip(total) {
                *w = total / mass;
            }
        }
    }
}

/// Kohonen's online rule for one sample: w += h·(x − w), `scale` being h for a squared distance on the map.
#[cfg(test)]
pub(crate) fn online_step(
    grid: &Grid,
    metric: Metric,
    weights: &mut [f64],
    x: &[f32],
    scale: impl Fn(usize, usize) -> f64,
) {
    let winner = match metric {
        Metric::Euclidean => nearest(x, weights).0,
        _ => nearest_by(metric, x, weights),
    };
    for node in 0..grid.nodes() {
        let h = scale(node, winner);
        for (w, x) in weights[node * x.len()..][..x.len()].iter_mut().zip(x) {
            *w += h * (f64::from(*x) - *w);
        }
    }
}
