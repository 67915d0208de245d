//! Plain f64 loops: what the fast ways are tested against.

use super::{Grid, Samples};

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

/// One epoch of batch training with a Gaussian of `radius` over all pairs of nodes.
pub fn batch_epoch(grid: &Grid, weights: &mut [f64], samples: Samples<'_>, radius: f64) {
    let (nodes, dims) = (grid.nodes(), samples.dims());
    let mut sums = vec![0.0; nodes * dims];
    let mut counts = vec![0.0; nodes];
    for x in samples.rows() {
        let (winner, _) = nearest(x, weights);
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
    weights: &mut [f64],
    x: &[f32],
    scale: impl Fn(usize, usize) -> f64,
) {
    let (winner, _) = nearest(x, weights);
    for node in 0..grid.nodes() {
        let h = scale(node, winner);
        for (w, x) in weights[node * x.len()..][..x.len()].iter_mut().zip(x) {
            *w += h * (f64::from(*x) - *w);
        }
    }
}
