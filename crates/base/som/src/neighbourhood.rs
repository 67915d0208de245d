//! Neighbourhoods of the online rule: the nodes around a winner, and their shares of its move.

use betz_base::{Result, memory};

use super::online_cuda::ScaleTable;
use super::{Grid, Lattice};

/// Share of the learning rate of a node at distance d from the winner, for a radius r.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Neighbourhood {
    /// 1 for d² < r² and for the winner itself: the step function of the paper's Listing 3.3, an open disc. At r = 1 it
    /// moves one node.
    #[default]
    Disc,
    /// 1 for d ≤ r: a disc with its edge. At r = 1 it moves five nodes of a square grid.
    ClosedDisc,
    /// 1 in the square |Δx|, |Δy|, |Δz| ≤ r: the rectangular window of the paper's text (its width 5 is r = 2).
    Window,
    /// exp(−d²/2r²), cut off at 4 r.
    Gaussian,
    /// 1 − d/(r + 1) where that is above 0: a triangle.
    Triangle,
    /// (1 − d²/r²) exp(−d²/2r²), cut off at 4 r: nodes further than r are repelled, but not out of the range
    /// of the data.
    MexicanHat,
}

/// A run of nodes in one row, as seen from the winner.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reach {
    /// Layers above the winner, and rows below it; negative to the other side.
    pub(super) up: isize,
    pub(super) down: isize,
    /// Columns from the winner to the first node. Of an even winner's row; of an odd one's.
    pub(super) first: [isize; 2],
    pub(super) scales: [Vec<f32>; 2],
}

/// N of a node (|Δx|, |Δy|, |Δz|) from the winner.
pub(super) fn neighbourhood(shape: Neighbourhood, apart: [f64; 3], radius: f64) -> f64 {
    let squared: f64 = apart.iter().map(|d| d * d).sum();
    let inside = |yes: bool| if yes { 1.0 } else { 0.0 };
    let gaussian = |of: f64| {
        if radius == 0.0 {
            inside(squared == 0.0)
        } else if squared > 16.0 * radius * radius {
            0.0
        } else {
            of * (-0.5 * squared / (radius * radius)).exp()
        }
    };
    match shape {
        Neighbourhood::Disc => inside(squared == 0.0 || squared < radius * radius - 1e-9),
        Neighbourhood::ClosedDisc => inside(squared <= radius * radius + 1e-9),
        Neighbourhood::Window => inside(apart.iter().copied().fold(0.0, f64::max) <= radius + 1e-9),
        Neighbourhood::Triangle => (1.0 - squared.sqrt() / (radius + 1.0)).max(0.0),
        Neighbourhood::Gaussian => gaussian(1.0),
        Neighbourhood::MexicanHat => gaussian(1.0 - squared / (radius * radius).max(1e-300)),
    }
}

/// α N by difference of place from the winner, for a learning rate and a radius; none for nodes at positions of their own.
pub(super) fn reaches(grid: &Grid, shape: Neighbourhood, rate: f64, radius: f64) -> Vec<Reach> {
    let mut scales = Vec::new();
    if grid.has_positions() {
        return scales;
    }
    let furthest = match shape {
        Neighbourhood::Disc | Neighbourhood::ClosedDisc | Neighbourhood::Window => radius,
        Neighbourhood::Triangle => radius + 1.0,
        Neighbourhood::Gaussian | Neighbourhood::MexicanHat => 4.0 * radius,
    };
    let (rows, columns) = (grid.rows() as isize, grid.columns() as isize);
    let torus = grid.is_torus();
    // On a torus each node is met once, by the shorter way.
    let span = |length: isize, far: f64| {
        let far = (far.ceil() as isize + 1).min(length);
        if torus {
            ((-far).max(-(length - 1) / 2), far.min(length / 2))
        } else {
            ((-far).max(1 - length), far.min(length - 1))
        }
    };
    let height = grid.row_height();
    let (up, down) = span(rows, furthest / height);
    let (left, right) = span(columns, furthest);
    let (lowest, highest) = span(grid.layers() as isize, furthest);
    let lines = (lowest..=highest).flat_map(|up_to| (up..=down).map(move |d| (up_to, d)));
    for (up, down) in lines {
        let mut reach = Reach {
            up,
            down,
            first: [0; 2],
            scales: [Vec::new(), Vec::new()],
        };
        for parity in 0..2 {
            let shift = match grid.lattice() {
                Lattice::Rectangular => 0.0,
                // From an even row, rows of the other kind lie half a node to the right.
                Lattice::Hexagonal if down % 2 == 0 => 0.0,
                Lattice::Hexagonal if parity == 0 => 0.5,
                Lattice::Hexagonal => -0.5,
            };
            let scale = |right: isize| {
                let mut x = (right as f64 + shift).abs();
                if torus {
                    x = x.min((columns as f64 - x).abs());
                }
                let y = down.unsigned_abs() as f64 * height;
                let apart = [x, y, up.unsigned_abs() as f64];
                (rate * neighbourhood(shape, apart, radius)) as f32
            };
            let inside = (left..=right).filter(|&right| scale(right) != 0.0);
            let (first, last) = inside.fold((isize::MAX, isize::MIN), |(low, high), at| {
                (low.min(at), high.max(at))
            });
            if first <= last {
                reach.first[parity] = first;
                reach.scales[parity] = (first..=last).map(scale).collect();
            }
        }
        scales.push(reach);
    }
    scales
}

/// Runs of a plane as a table: a device reads one entry for each node.
pub(super) fn table(grid: &Grid, reaches: &[Reach]) -> Result<ScaleTable> {
    let parities = match grid.lattice() {
        Lattice::Rectangular => 1,
        Lattice::Hexagonal => 2,
    };
    let rows = || {
        reaches
            .iter()
            .flat_map(|reach| (0..parities).map(move |p| (reach, p)))
    };
    let ends = |(reach, parity): (&Reach, usize)| {
        (
            reach.first[parity],
            reach.first[parity] + reach.scales[parity].len() as isize,
        )
    };
    let met = || {
        rows()
            .filter(|(reach, parity)| !reach.scales[*parity].is_empty())
            .map(ends)
    };
    let left = met().map(|(first, _)| first).min().unwrap_or(0);
    let width = (met().map(|(_, end)| end).max().unwrap_or(0) - left) as usize;
    let height = reaches.len();
    let mut scales = memory::filled("a map's neighbourhood", f32::NAN, parities * height * width)?;
    for (row, reach) in reaches.iter().enumerate() {
        for parity in 0..parities {
            let at = (parity * height + row) * width;
            let from = (reach.first[parity] - left).max(0) as usize;
            let run = &reach.scales[parity];
            if !run.is_empty() {
                scales[at + from..at + from + run.len()].copy_from_slice(run);
            }
        }
    }
    Ok(ScaleTable {
        up: reaches.first().map_or(0, |reach| reach.down),
        height,
        left,
        width,
        scales,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_disc_moves_the_nodes_of_the_listing() {
        let moved = |shape, radius: f64, layers| {
            let grid = Grid::new(9, 9, Lattice::Rectangular, false).unwrap();
            let grid = grid.with_layers(layers).unwrap();
            let middle = grid.nodes() / 2;
            let near = (0..grid.nodes())
                .filter(|&n| neighbourhood(shape, grid.apart(middle, n), radius) > 0.0);
            near.count()
        };
        for (shape, radius, plane, body) in [
            (Neighbourhood::Disc, 0.0, 1, 1),
            (Neighbourhood::Disc, 1.0, 1, 1),
            (Neighbourhood::Disc, 2.0, 9, 27),
            (Neighbourhood::ClosedDisc, 1.0, 5, 7),
            (Neighbourhood::ClosedDisc, 2.0, 13, 33),
            (Neighbourhood::Window, 2.0, 25, 125),
        ] {
            let found = (moved(shape, radius, 1), moved(shape, radius, 9));
            assert_eq!(found, (plane, body), "{shape:?} {radius}");
        }
    }
}
