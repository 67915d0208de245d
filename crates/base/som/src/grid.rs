//! Where nodes lie, how far they are from each other, and which are neighbours.

use betz_base::{Error, Result};

/// Most nodes of a map: four million, 64 times those of Galbraith 2010.
pub const MAX_NODES: usize = 1 << 22;

/// Height of a row of hexagons, in widths: √3/2.
const HEXAGON_ROW: f64 = 0.866_025_403_784_438_6;

/// Layout of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lattice {
    /// Squares; eight neighbours.
    #[default]
    Rectangular,
    /// Hexagons, every second row half a node to the right; six neighbours.
    Hexagonal,
}

/// The nodes of a map, counted row by row.
///
/// ```
/// use betz_som::{Grid, Lattice};
///
/// let grid = Grid::new(3, 4, Lattice::Rectangular, true)?;
/// assert_eq!(grid.squared_distance(0, 3), 1.0); // around the torus
/// assert_eq!(grid.neighbours(0).count(), 8);
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    rows: usize,
    columns: usize,
    lattice: Lattice,
    torus: bool,
}

impl Grid {
    /// `rows` times `columns` nodes; on a `torus` the first follows the last in both directions.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for no nodes, more than
    /// [`MAX_NODES`], or a torus of hexagons with an odd number of rows.
    pub fn new(rows: usize, columns: usize, lattice: Lattice, torus: bool) -> Result<Self> {
        let nodes = rows.saturating_mul(columns);
        if nodes == 0 || nodes > MAX_NODES {
            return Err(Error::argument(format!(
                "map: expected 1 to {MAX_NODES} nodes, got {rows} x {columns}"
            )));
        }
        if torus && lattice == Lattice::Hexagonal && !rows.is_multiple_of(2) {
            return Err(Error::argument(format!(
                "map: expected an even number of rows for a torus of hexagons, got {rows}"
            )));
        }
        Ok(Self {
            rows,
            columns,
            lattice,
            torus,
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.rows * self.columns
    }

    /// Squares or hexagons.
    pub fn lattice(&self) -> Lattice {
        self.lattice
    }

    /// True if the first follows the last.
    pub fn is_torus(&self) -> bool {
        self.torus
    }

    /// (row, column) of a node.
    pub(crate) fn row_column(&self, node: usize) -> (usize, usize) {
        (node / self.columns, node % self.columns)
    }

    /// (x, y) of a node, in widths of a node.
    pub fn place(&self, node: usize) -> (f64, f64) {
        let (row, column) = self.row_column(node);
        match self.lattice {
            Lattice::Rectangular => (column as f64, row as f64),
            Lattice::Hexagonal => (
                column as f64 + 0.5 * (row % 2) as f64,
                row as f64 * HEXAGON_ROW,
            ),
        }
    }

    /// Height of a row, in widths of a node.
    pub(crate) fn row_height(&self) -> f64 {
        match self.lattice {
            Lattice::Rectangular => 1.0,
            Lattice::Hexagonal => HEXAGON_ROW,
        }
    }

    /// (|Δx|, |Δy|) between two nodes, the shorter way on a torus.
    pub(crate) fn apart(&self, a: usize, b: usize) -> (f64, f64) {
        let ((ax, ay), (bx, by)) = (self.place(a), self.place(b));
        let (mut dx, mut dy) = ((ax - bx).abs(), (ay - by).abs());
        if self.torus {
            dx = dx.min(self.columns as f64 - dx).abs();
            dy = dy.min(self.rows as f64 * self.row_height() - dy).abs();
        }
        (dx, dy)
    }

    /// Squared distance on the map, in widths of a node.
    pub fn squared_distance(&self, a: usize, b: usize) -> f64 {
        let (dx, dy) = self.apart(a, b);
        dx * dx + dy * dy
    }

    /// The nodes that touch `node`, each once.
    pub fn neighbours(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let (row, column) = self.row_column(node);
        let offsets: &[(isize, isize)] = match (self.lattice, row % 2) {
            (Lattice::Rectangular, _) => &[
                (-1, -1),
                (-1, 0),
                (-1, 1),
                (0, -1),
                (0, 1),
                (1, -1),
                (1, 0),
                (1, 1),
            ],
            (Lattice::Hexagonal, 0) => &[(-1, -1), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 0)],
            (Lattice::Hexagonal, _) => &[(-1, 0), (-1, 1), (0, -1), (0, 1), (1, 0), (1, 1)],
        };
        let mut found = [usize::MAX; 8];
        let mut count = 0;
        for &(down, right) in offsets {
            let row = self.along(row, down, self.rows);
            let column = self.along(column, right, self.columns);
            if let (Some(row), Some(column)) = (row, column) {
                let other = row * self.columns + column;
                // On a small torus the same node lies on both sides, and a node beside itself.
                if other != node && !found[..count].contains(&other) {
                    found[count] = other;
                    count += 1;
                }
            }
        }
        found.into_iter().take(count)
    }

    fn along(&self, at: usize, by: isize, length: usize) -> Option<usize> {
        let to = at as isize + by;
        if (0..length as isize).contains(&to) {
            return Some(to as usize);
        }
        self.torus.then(|| to.rem_euclid(length as isize) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_the_nodes_at_a_width() {
        for (lattice, reach) in [(Lattice::Rectangular, 2.0), (Lattice::Hexagonal, 1.0)] {
            for torus in [false, true] {
                let grid = Grid::new(6, 5, lattice, torus).unwrap();
                for a in 0..grid.nodes() {
                    let mut near: Vec<_> = grid.neighbours(a).collect();
                    near.sort_unstable();
                    let expected: Vec<_> = (0..grid.nodes())
                        .filter(|&b| b != a && grid.squared_distance(a, b) < reach + 1e-9)
                        .collect();
                    assert_eq!(near, expected, "{grid:?}, node {a}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for (rows, columns) in [(0, 3), (3, 0), (usize::MAX, 2), (1 << 12, 1 << 12)] {
            assert!(Grid::new(rows, columns, Lattice::Rectangular, false).is_err());
        }
        assert!(Grid::new(3, 4, Lattice::Hexagonal, true).is_err());
        assert_eq!(
            Grid::new(1, 1, Lattice::Rectangular, true)
                .unwrap()
                .neighbours(0)
                .count(),
            0
        );
    }
}
