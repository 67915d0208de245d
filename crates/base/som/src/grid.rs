//! Where nodes lie, how far they are from each other, and which are neighbours.

use std::sync::Arc;

use betz_base::{Error, Result};

use super::positions::Positions;

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

/// The nodes of a map, counted row by row, and layer by layer in three dimensions.
///
/// ```
/// use betz_som::{Grid, Lattice};
///
/// let grid = Grid::new(3, 4, Lattice::Rectangular, true)?;
/// assert_eq!(grid.squared_distance(0, 3), 1.0); // around the torus
/// assert_eq!(grid.neighbours(0).count(), 8);
/// let cube = grid.with_layers(5)?;
/// assert_eq!((cube.nodes(), cube.neighbours(0).count()), (60, 26));
/// let line = Grid::at_positions(&[0.0, 1.0, 2.5], 1)?;
/// assert_eq!(line.neighbours(1).collect::<Vec<_>>(), [0, 2]);
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    layers: usize,
    rows: usize,
    columns: usize,
    lattice: Lattice,
    torus: bool,
    positions: Option<Arc<Positions>>,
}

impl Grid {
    /// `rows` times `columns` nodes; on a `torus` the first follows the last in every direction.
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
            layers: 1,
            rows,
            columns,
            lattice,
            torus,
            positions: None,
        })
    }

    /// The same grid `layers` times, one above the other: a map in three dimensions. A torus also joins the first
    /// layer and the last.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for no layer, more than [`MAX_NODES`]
    /// nodes, or nodes at positions of their own.
    pub fn with_layers(self, layers: usize) -> Result<Self> {
        let (rows, columns) = (self.rows, self.columns);
        if self.positions.is_some() {
            return Err(Error::argument(
                "map: expected rows and columns to stack in layers, got a list of positions",
            ));
        }
        if layers == 0 || (rows * columns).saturating_mul(layers) > MAX_NODES {
            return Err(Error::argument(format!(
                "map: expected 1 to {MAX_NODES} nodes, got {layers} x {rows} x {columns}"
            )));
        }
        Ok(Self { layers, ..self })
    }

    /// Nodes at positions of their own: (nodes, `dims`) numbers, with one to three for each node. Two nodes touch if no
    /// third one lies inside the sphere around the middle between them (Gabriel and Sokal 1969), so that positions of
    /// a square or hexagonal grid have the neighbours of that grid.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for no node, more than
    /// [`MAX_POSITIONS`](crate::MAX_POSITIONS), no whole node, or a number that is not finite.
    pub fn at_positions(values: &[f64], dims: usize) -> Result<Self> {
        let positions = Positions::new(values, dims)?;
        Ok(Self {
            layers: 1,
            rows: 1,
            columns: positions.places().len(),
            lattice: Lattice::Rectangular,
            torus: false,
            positions: Some(Arc::new(positions)),
        })
    }

    /// Number of layers; 1 for a map in two dimensions.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Number of rows of a layer; 1 for nodes at positions of their own.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns of a layer; all nodes for those at positions of their own.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.layers * self.rows * self.columns
    }

    /// Squares or hexagons.
    pub fn lattice(&self) -> Lattice {
        self.lattice
    }

    /// True if the first follows the last.
    pub fn is_torus(&self) -> bool {
        self.torus
    }

    /// True if the nodes lie at positions of their own.
    pub fn has_positions(&self) -> bool {
        self.positions.is_some()
    }

    /// True for rows and columns of one layer.
    pub(crate) fn is_plane(&self) -> bool {
        self.layers == 1 && self.positions.is_none()
    }

    /// (layer, row, column) of a node.
    pub(crate) fn coordinates(&self, node: usize) -> (usize, usize, usize) {
        let line = node / self.columns;
        (line / self.rows, line % self.rows, node % self.columns)
    }

    /// (x, y, z) of a node, in widths of a node or in the unit of the positions.
    pub fn place(&self, node: usize) -> [f64; 3] {
        if let Some(positions) = &self.positions {
            return positions.places()[node];
        }
        let (layer, row, column) = self.coordinates(node);
        match self.lattice {
            Lattice::Rectangular => [column as f64, row as f64, layer as f64],
            Lattice::Hexagonal => [
                column as f64 + 0.5 * (row % 2) as f64,
                row as f64 * HEXAGON_ROW,
                layer as f64,
            ],
        }
    }

    /// Height of a row, in widths of a node.
    pub(crate) fn row_height(&self) -> f64 {
        match self.lattice {
            Lattice::Rectangular => 1.0,
            Lattice::Hexagonal => HEXAGON_ROW,
        }
    }

    /// (|Δx|, |Δy|, |Δz|) between two nodes, the shorter way on a torus.
    pub(crate) fn apart(&self, a: usize, b: usize) -> [f64; 3] {
        let (a, b) = (self.place(a), self.place(b));
        let around = [
            self.columns as f64,
            self.rows as f64 * self.row_height(),
            self.layers as f64,
        ];
        let mut apart = [0.0; 3];
        for (axis, apart) in apart.iter_mut().enumerate() {
            *apart = (a[axis] - b[axis]).abs();
            if self.torus {
                *apart = apart.min(around[axis] - *apart).abs();
            }
        }
        apart
    }

    /// Squared distance on the map, in widths of a node or in the unit of the positions.
    pub fn squared_distance(&self, a: usize, b: usize) -> f64 {
        self.apart(a, b).iter().map(|d| d * d).sum()
    }

    /// Longest extent of the map: nodes of the longest side, or the largest range of the positions.
    pub(crate) fn extent(&self) -> f64 {
        match &self.positions {
            Some(positions) => positions
                .ranges()
                .iter()
                .map(|(l, h)| h - l)
                .fold(0.0, f64::max),
            None => self.layers.max(self.rows).max(self.columns) as f64,
        }
    }

    /// Each axis of the map with its length, the longest first: columns, rows, layers where they are equally long.
    pub(crate) fn axes(&self) -> [(usize, f64); 3] {
        let lengths = match &self.positions {
            Some(positions) => positions.ranges().map(|(low, high)| high - low),
            None => [self.columns, self.rows, self.layers].map(|n| (n - 1) as f64),
        };
        let mut axes = [0, 1, 2].map(|axis| (axis, lengths[axis]));
        axes.sort_by(|a, b| b.1.total_cmp(&a.1));
        axes
    }

    /// The place of a node along each axis (columns, rows, layers), from -1 to 1; 0 on an axis without length.
    pub(crate) fn share(&self, node: usize) -> [f64; 3] {
        let part = |at: f64, low: f64, high: f64| {
            if high > low {
                2.0 * (at - low) / (high - low) - 1.0
            } else {
                0.0
            }
        };
        if let Some(positions) = &self.positions {
            let (place, ranges) = (positions.places()[node], positions.ranges());
            return [0, 1, 2].map(|d| part(place[d], ranges[d].0, ranges[d].1));
        }
        let (layer, row, column) = self.coordinates(node);
        let of = |at: usize, count: usize| part(at as f64, 0.0, (count - 1) as f64);
        [
            of(column, self.columns),
            of(row, self.rows),
            of(layer, self.layers),
        ]
    }

    /// The nodes that touch `node`, each once.
    pub fn neighbours(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        let mut found = Vec::with_capacity(8);
        if let Some(positions) = &self.positions {
            found.extend(positions.neighbours(node).iter().map(|n| *n as usize));
            return found.into_iter();
        }
        let (layer, row, column) = self.coordinates(node);
        let above: &[isize] = if self.layers > 1 { &[-1, 0, 1] } else { &[0] };
        for &up in above {
            let Some(layer) = along(layer, up, self.layers, self.torus) else {
                continue;
            };
            for &(down, right) in self.offsets(row) {
                let row = along(row, down, self.rows, self.torus);
                let column = along(column, right, self.columns, self.torus);
                if let (Some(row), Some(column)) = (row, column) {
                    let other = (layer * self.rows + row) * self.columns + column;
                    // On a small torus the same node lies on both sides, and a node beside itself.
                    if other != node && !found.contains(&other) {
                        found.push(other);
                    }
                }
            }
        }
        found.into_iter()
    }

    /// (rows down, columns right) of a node of `row` and of those that touch it in its layer.
    fn offsets(&self, row: usize) -> &'static [(isize, isize)] {
        match (self.lattice, row % 2) {
            (Lattice::Rectangular, _) => &[
                (-1, -1),
                (-1, 0),
                (-1, 1),
                (0, -1),
                (0, 0),
                (0, 1),
                (1, -1),
                (1, 0),
                (1, 1),
            ],
            (Lattice::Hexagonal, 0) => {
                &[(-1, -1), (-1, 0), (0, -1), (0, 0), (0, 1), (1, -1), (1, 0)]
            }
            (Lattice::Hexagonal, _) => &[(-1, 0), (-1, 1), (0, -1), (0, 0), (0, 1), (1, 0), (1, 1)],
        }
    }
}

fn along(at: usize, by: isize, length: usize, torus: bool) -> Option<usize> {
    let to = at as isize + by;
    if (0..length as isize).contains(&to) {
        return Some(to as usize);
    }
    torus.then(|| to.rem_euclid(length as isize) as usize)
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
    fn neighbours_in_three_dimensions_are_the_nodes_at_a_width() {
        for (lattice, reach, most) in [
            (Lattice::Rectangular, 3.0, 26),
            // The six of a layer, and seven in each of the layers beside it.
            (Lattice::Hexagonal, 2.0, 20),
        ] {
            for torus in [false, true] {
                let grid = Grid::new(4, 5, lattice, torus).unwrap();
                let grid = grid.with_layers(5).unwrap();
                for a in 0..grid.nodes() {
                    let mut near: Vec<_> = grid.neighbours(a).collect();
                    near.sort_unstable();
                    let expected: Vec<_> = (0..grid.nodes())
                        .filter(|&b| b != a && grid.squared_distance(a, b) < reach + 1e-9)
                        .collect();
                    assert_eq!(near, expected, "{grid:?}, node {a}");
                    assert!(near.len() == most || !torus && near.len() < most);
                }
            }
        }
    }

    #[test]
    fn positions_of_a_grid_have_its_neighbours() {
        for (lattice, layers) in [
            (Lattice::Rectangular, 1),
            (Lattice::Rectangular, 3),
            (Lattice::Hexagonal, 1),
        ] {
            let grid = Grid::new(4, 5, lattice, false).unwrap();
            let grid = grid.with_layers(layers).unwrap();
            let places: Vec<f64> = (0..grid.nodes()).flat_map(|n| grid.place(n)).collect();
            let listed = Grid::at_positions(&places, 3).unwrap();
            for node in 0..grid.nodes() {
                let mut own: Vec<_> = grid.neighbours(node).collect();
                own.sort_unstable();
                assert_eq!(listed.neighbours(node).collect::<Vec<_>>(), own, "{grid:?}");
                // Every second row of hexagons reaches half a node further.
                if lattice == Lattice::Rectangular {
                    assert_eq!(grid.share(node), listed.share(node));
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
        let grid = Grid::new(3, 4, Lattice::Rectangular, true).unwrap();
        for layers in [0, usize::MAX, MAX_NODES] {
            assert!(grid.clone().with_layers(layers).is_err());
        }
        for (values, dims) in [
            (vec![], 2),
            (vec![1.0], 2),
            (vec![1.0], 0),
            (vec![1.0; 4], 4),
            (vec![1.0, f64::NAN], 2),
        ] {
            assert!(Grid::at_positions(&values, dims).is_err(), "{values:?}");
        }
        let listed = Grid::at_positions(&[1.0, 2.0], 2).unwrap();
        assert!(listed.with_layers(2).is_err());
        assert_eq!(
            Grid::new(1, 1, Lattice::Rectangular, true)
                .unwrap()
                .neighbours(0)
                .count(),
            0
        );
    }
}
