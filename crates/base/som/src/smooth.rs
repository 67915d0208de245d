//! Sums by node, spread over the map by a Gaussian: a pass for each dimension.
//!
//! exp(−(Δx² + Δy² + Δz²)/2σ²) is a product, so rows are smoothed first, columns of the result next, and then its
//! layers. Rows of hexagons are half a node apart from their neighbours: each row is smoothed once for rows like it and
//! once for the others. Nodes at positions of their own have no such order: there all pairs are summed.

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
    /// Layers before they are spread over each other.
    layered: Vec<f32>,
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
        if grid.has_positions() {
            self.smoothed.resize(values.len(), 0.0);
            spread_positions(grid, radius, values, width, &mut self.smoothed);
            return &self.smoothed;
        }
        let (rows, columns) = (grid.rows(), grid.columns());
        let line = columns * width;
        let hexagonal = grid.lattice() == Lattice::Hexagonal;
        let Kernels {
            along,
            right,
            left,
            across,
            above,
        } = kernels(grid, radius);
        spread_rows(values, &mut self.like, line, columns, width, &along);
        if hexagonal {
            self.unlike.resize(values.len(), 0.0);
            (self.unlike.par_chunks_mut(line))
                .zip(values.par_chunks(line))
                .enumerate()
                .for_each(|(row, (to, from))| {
                    // A target in an even row lies half a node left of an odd one's.
                    let kernel = if row % rows % 2 == 0 { &right } else { &left };
                    spread_row(from, to, columns, width, kernel);
                });
        }
        self.smoothed.resize(values.len(), 0.0);
        let (like, unlike) = (&self.like, &self.unlike);
        self.smoothed
            .par_chunks_mut(line)
            .enumerate()
            .for_each(|(row, sum)| {
                sum.fill(0.0);
                let (first, to) = (row / rows * rows, row % rows);
                for from in 0..rows {
                    let weight = across[to * rows + from];
                    if weight == 0.0 {
                        continue;
                    }
                    let same = !hexagonal || to % 2 == from % 2;
                    let source = if same { like } else { unlike };
                    for (sum, value) in sum.iter_mut().zip(&source[(first + from) * line..][..line])
                    {
                        *sum += weight * value;
                    }
                }
            });
        let layers = grid.layers();
        if layers > 1 {
            std::mem::swap(&mut self.layered, &mut self.smoothed);
            self.smoothed.resize(values.len(), 0.0);
            let (layer, layered) = (rows * line, &self.layered);
            (self.smoothed.par_chunks_mut(line))
                .enumerate()
                .for_each(|(row, sum)| {
                    sum.fill(0.0);
                    let (to, at) = (row / rows, row % rows * line);
                    for (from, &weight) in above[to * layers..][..layers].iter().enumerate() {
                        if weight != 0.0 {
                            let source = &layered[from * layer + at..][..line];
                            for (sum, value) in sum.iter_mut().zip(source) {
                                *sum += weight * value;
                            }
                        }
                    }
                });
        }
        &self.smoothed
    }
}

/// The same for nodes at positions of their own, from all nodes to all nodes.
fn spread_positions(grid: &Grid, radius: f64, values: &[f32], width: usize, to: &mut [f32]) {
    (to.par_chunks_mut(width)).enumerate().for_each(|(k, sum)| {
        sum.fill(0.0);
        for (c, values) in values.chunks_exact(width).enumerate() {
            let squared = grid.squared_distance(k, c) / (radius * radius);
            if squared < REACH * REACH {
                let weight = (-0.5 * squared).exp() as f32;
                for (sum, value) in sum.iter_mut().zip(values) {
                    *sum += weight * value;
                }
            }
        }
    });
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
    /// Weights between layers.
    pub(super) above: Vec<f32>,
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
        above: kernel(grid.layers(), radius, 0.0, 1.0, wraps(grid.layers())),
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

    fn compare(grid: &Grid, smoother: &mut Smoother, random: &mut Random) {
        let values: Vec<f32> = (0..grid.nodes() * 3)
            .map(|_| random.uniform() as f32)
            .collect();
        for radius in [0.3, 0.8, 2.5, 40.0] {
            let smoothed = smoother.smooth(grid, radius, &values, 3);
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

    #[test]
    fn equals_the_sum_over_all_pairs_of_nodes() {
        let mut random = Random::new(2);
        for lattice in [Lattice::Rectangular, Lattice::Hexagonal] {
            for torus in [false, true] {
                for (layers, rows, columns) in [
                    (1, 1, 1),
                    (1, 4, 1),
                    (1, 6, 5),
                    (1, 8, 9),
                    (4, 3, 2),
                    (3, 4, 5),
                ] {
                    let Ok(grid) = Grid::new(rows, columns, lattice, torus) else {
                        continue;
                    };
                    let grid = grid.with_layers(layers).unwrap();
                    // Twice: what it keeps from one map to the next changes nothing.
                    let mut smoother = Smoother::default();
                    compare(&grid, &mut smoother, &mut random);
                    compare(&grid, &mut smoother, &mut random);
                }
            }
        }
        let places: Vec<f64> = (0..60).map(|_| 5.0 * random.uniform()).collect();
        let listed = Grid::at_positions(&places, 3).unwrap();
        compare(&listed, &mut Smoother::default(), &mut random);
    }
}
