//! Weights that training begins with.

use betz_base::{Result, memory};

use super::grid::Grid;
use super::samples::{Centre, Samples};
use betz_base::random::Random;

/// Samples that principal components are found from.
const LOOKED_AT: usize = 4096;
/// Steps of the iteration that finds them: their plane is a start, no result.
const STEPS: usize = 24;
/// Standard deviations to each side.
const SPAN: f64 = 2.0;

pub(super) fn plane(grid: &Grid, samples: Samples<'_>) -> Result<Vec<f32>> {
    let dims = samples.dims();
    let every = samples.count().div_ceil(LOOKED_AT).max(1);
    let centre = Centre::of(samples);
    let mut seen = memory::room("samples", samples.count().div_ceil(every) * dims)?;
    for row in samples.rows().step_by(every) {
        seen.extend(centre.inward(row));
    }
    // The longest side of the map takes the longest axis of the data.
    let sides = grid.axes();
    let body = sides[2].1 > 0.0;
    let axes = if body {
        components::<3>(&seen, dims).to_vec()
    } else {
        components::<2>(&seen, dims).to_vec()
    };
    let mut inward = memory::filled("weights", 0.0_f32, grid.nodes() * dims)?;
    for (node, weights) in inward.chunks_exact_mut(dims).enumerate() {
        let share = grid.share(node);
        for (d, w) in weights.iter_mut().enumerate() {
            let along = axes.iter().zip(&sides);
            let sum: f64 = along.map(|(axis, side)| share[side.0] * axis[d]).sum();
            *w = (SPAN * sum) as f32;
        }
    }
    let mut weights = memory::filled("weights", 0.0_f32, inward.len())?;
    centre.outward(&inward, &mut weights);
    Ok(weights)
}

/// The first `N` principal components of centred rows, each as long as its standard deviation: orthogonal
/// iteration from a fixed start.
fn components<const N: usize>(rows: &[f32], dims: usize) -> [Vec<f64>; N] {
    let mut random = Random::new(1);
    let mut axes = [(); N].map(|()| (0..dims).map(|_| random.normal()).collect::<Vec<f64>>());
    let count = (rows.len() / dims) as f64;
    let mut lengths = [0.0; N];
    for _ in 0..STEPS {
        orthonormal(&mut axes);
        let mut next = [(); N].map(|()| vec![0.0; dims]);
        for row in rows.chunks_exact(dims) {
            for (axis, next) in axes.iter().zip(&mut next) {
                let along: f64 = row.iter().zip(axis).map(|(x, a)| f64::from(*x) * a).sum();
                for (n, x) in next.iter_mut().zip(row) {
                    *n += along * f64::from(*x);
                }
            }
        }
        for ((axis, next), length) in axes.iter_mut().zip(next).zip(&mut lengths) {
            let variance = next.iter().map(|n| n * n).sum::<f64>().sqrt() / count;
            *length = variance.sqrt();
            *axis = next;
        }
    }
    orthonormal(&mut axes);
    for (axis, length) in axes.iter_mut().zip(lengths) {
        axis.iter_mut().for_each(|a| *a *= length);
    }
    axes
}

/// Gram and Schmidt; what has no length becomes zero.
fn orthonormal(axes: &mut [Vec<f64>]) {
    for k in 0..axes.len() {
        let (before, rest) = axes.split_at_mut(k);
        let axis = &mut rest[0];
        let length = axis.iter().map(|s| s * s).sum::<f64>();
        for other in before {
            let along: f64 = other.iter().zip(&*axis).map(|(a, b)| a * b).sum();
            for (s, f) in axis.iter_mut().zip(&*other) {
                *s -= along * f;
            }
        }
        // The rest of an axis that lay along those before it is rounding.
        if axis.iter().map(|s| s * s).sum::<f64>() < 1e-20 * length {
            axis.fill(0.0);
        }
        unit(axis);
    }
}

fn unit(axis: &mut [f64]) {
    let length = axis.iter().map(|a| a * a).sum::<f64>().sqrt();
    if length > 1e-150 {
        axis.iter_mut().for_each(|a| *a /= length);
    } else {
        axis.fill(0.0);
    }
}

pub(super) fn random(grid: &Grid, samples: Samples<'_>, seed: u64) -> Result<Vec<f32>> {
    let ranges = ranges(samples);
    let mut weights = memory::room("weights", grid.nodes() * samples.dims())?;
    let mut random = Random::new(seed);
    for _ in 0..grid.nodes() {
        for &(low, high) in &ranges {
            let (low, high) = (f64::from(low), f64::from(high));
            weights.push((low + (high - low) * random.uniform()) as f32);
        }
    }
    Ok(weights)
}

/// Smallest and largest value of each dimension.
pub(super) fn ranges(samples: Samples<'_>) -> Vec<(f32, f32)> {
    let mut ranges = vec![(f32::INFINITY, f32::NEG_INFINITY); samples.dims()];
    for row in samples.rows() {
        for ((low, high), &value) in ranges.iter_mut().zip(row) {
            *low = low.min(value);
            *high = high.max(value);
        }
    }
    ranges
}
