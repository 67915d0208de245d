//! Sums by node, spread over the map by a Gaussian: two passes of one dimension.
//!
//! exp(−(Δx² + Δy²)/2σ²) is a product, so rows are smoothed first and columns of the result next. Rows of
//! hexagons are half a node apart from their neighbours: each row is smoothed once for rows like it and once
//! for the others.

use rayon::prelude::*;

use super::grid::{Grid, Lattice};

/// Radii beyond which a Gaussian is 0: 1.5·10⁻⁸ of its peak.
const REACH: f64 = 6.0;

/// Room for smoothing maps of one size.
#[derive(Debug, Default)]
pub(super) struct Smoother {
    like: Vec<f32>,
    unlike: Vec<f32>,
    smoothed: Vec<f32>,
}

impl Smoother {
    /// (nodes, width) numbers, each node's spread with a Gaussian of standard deviation `radius`.
    pub(super) fn smooth(
        &mut self,
        grid: &Grid,
        radius: f64,
        values: &[f32],
        width: usize,
    ) -> &[f32] {
        let (rows, columns) = (grid.rows(), grid.columns());
        let line = columns * width;
        let hexagonal = grid.lattice() == Lattice::Hexagonal;
        let Kernels {
            along,
            right,
            left,
            across,
        } = kernels(grid, radius);
        spread_rows(values, &mut self.like, line, columns, width, &along);
        if hexagonal {
            self.unlike.resize(values.len(), 0.0);
            (self.unlike.par_chunks_mut(line))
                .zip(values.par_chunks(line))
                .enumerate()
                .for_each(|(row, (to, from))| {
                    // A target in an even row lies half a node left of an odd one's.
                    let kernel = if row % 2 == 0 { &right } else { &left };
                    spread_row(from, to, columns, width, kernel);
                });
        }
        self.smoothed.resize(values.len(), 0.0);
        let (like, unlike) = (&self.like, &self.unlike);
        self.smoothed
            .par_chunks_mut(line)
            .enumerate()
            .for_each(|(to, sum)| {
                sum.fill(0.0);
                for from in 0..rows {
                    let weight = across[to * rows + from];
                    if weight == 0.0 {
                        continue;
                    }
                    let same = !hexagonal || to % 2 == from % 2;
                    let source = if same { like } else { unlike };
                    for (sum, value) in sum.iter_mut().zip(&source[from * line..][..line]) {
                        *sum += weight * value;
                    }
                }
            });
        &self.smoothed
    }
}

/// The Gaussians of a map, (target, source) each.
pub(super) struct Kernels {
    /// Weights between columns.
    pub(super) along: Vec<f32>,
    /// Weights between columns, to a row of even number from one of odd number, whose nodes lie half a node further right;
    /// empty but for hexagons.
    pub(super) right: Vec<f32>,
    /// The other way.
    pub(super) left: Vec<f32>,
    /// Weights between rows.
    pub(super) across: Vec<f32>,
}

/// Kernels of standard deviation `radius`.
pub(super) fn kernels(grid: &Grid, radius: f64) -> Kernels {
    let (rows, columns) = (grid.rows(), grid.columns());
    let wraps = |length: usize| grid.is_torus().then_some(length as f64);
    let shifted = |shift| match grid.lattice() {
        Lattice::Hexagonal => kernel(columns, radius, shift, 1.0, wraps(columns)),
        Lattice::Rectangular => Vec::new(),
    };
    Kernels {
        along: kernel(columns, radius, 0.0, 1.0, wraps(columns)),
        right: shifted(0.5),
        left: shifted(-0.5),
        across: kernel(rows, radius, 0.0, grid.row_height(), wraps(rows)),
    }
}

/// For each target and source along an axis of `length`: the Gaussian of (target + shift − source)·spacing, the
/// shorter way where the axis `wraps`.
fn kernel(length: usize, radius: f64, shift: f64, spacing: f64, wraps: Option<f64>) -> Vec<f32> {
    let mut kernel = vec![0.0; length * length];
    for (to, line) in kernel.chunks_exact_mut(length).enumerate() {
        for (from, value) in line.iter_mut().enumerate() {
            let mut apart = (to as f64 + shift - from as f64).abs();
            if let Some(around) = wraps {
                apart = apart.min((around - apart).abs());
            }
            let apart = apart * spacing / radius;
            if apart < REACH {
                *value = (-0.5 * apart * apart).exp() as f32;
            }
        }
    }
    kernel
}

fn spread_rows(
    from: &[f32],
    to: &mut Vec<f32>,
    line: usize,
    columns: usize,
    width: usize,
    kernel: &[f32],
) {
    to.resize(from.len(), 0.0);
    (to.par_chunks_mut(line))
        .zip(from.par_chunks(line))
        .for_each(|(to, from)| spread_row(from, to, columns, width, kernel));
}

fn spread_row(from: &[f32], to: &mut [f32], columns: usize, width: usize, kernel: &[f32]) {
    for (sum, weights) in to.chunks_exact_mut(width).zip(kernel.chunks_exact(columns)) {
        sum.fill(0.0);
        for (value, &weight) in from.chunks_exact(width).zip(weights) {
            if weight != 0.0 {
                for (sum, value) in sum.iter_mut().zip(value) {
                    *sum += weight * value;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_base::random::Random;

    #[test]
    fn equals_the_sum_over_all_pairs_of_nodes() {
        let mut random = Random::new(2);
        for lattice in [Lattice::Rectangular, Lattice::Hexagonal] {
            for torus in [false, true] {
                for (rows, columns) in [(1, 1), (4, 1), (6, 5), (8, 9)] {
                    let Ok(grid) = Grid::new(rows, columns, lattice, torus) else {
                        continue;
                    };
                    let values: Vec<f32> = (0..grid.nodes() * 3)
                        .map(|_| random.uniform() as f32)
                        .collect();
                    for radius in [0.3, 0.8, 2.5, 40.0] {
                        let mut smoother = Smoother::default();
                        let smoothed = smoother.smooth(&grid, radius, &values, 3);
                        for a in 0..grid.nodes() {
                            for d in 0..3 {
                                let expected: f64 = (0..grid.nodes())
                                    .map(|b| {
                                        let squared = grid.squared_distance(a, b);
                                        (-0.5 * squared / (radius * radius)).exp()
                                            * f64::from(values[b * 3 + d])
                                    })
                                    .sum();
                                let got = f64::from(smoothed[a * 3 + d]);
                                assert!(
                                    (got - expected).abs() < 1e-5 * (1.0 + expected),
                                    "{grid:?}, radius {radius}, node {a}: {got} for {expected}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}
