//! A map as a picture.

use std::io::Write;
use std::path::Path;

use betz::file::write_atomically;
use betz::som::{Grid, Lattice, Map, Samples};
use betz::{Error, ErrorKind, Result};

use crate::picture;

/// Pixels of the longer side, about.
const SIDE: usize = 720;

/// Values that become black and white.
pub(super) struct Ranges {
    low: f32,
    high: f32,
}

impl Ranges {
    pub(super) fn of(samples: Samples<'_>) -> Self {
        let all = samples.values().iter();
        let (low, high) = all.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), v| {
            (low.min(*v), high.max(*v))
        });
        Self { low, high }
    }

    fn level(&self, value: f32) -> u8 {
        let part =
            (f64::from(value) - f64::from(self.low)) / (f64::from(self.high) - f64::from(self.low));
        if part.is_finite() {
            (part.clamp(0.0, 1.0) * 255.0).round() as u8
        } else {
            128
        }
    }
}

/// Squares of a picture.
struct Picture {
    /// Side of a node.
    side: usize,
    width: usize,
    height: usize,
    /// Upper left corner of each node: (x, y).
    corners: Vec<(usize, usize)>,
}

impl Picture {
    fn of(grid: &Grid) -> Self {
        if grid.has_positions() {
            return Self::of_positions(grid);
        }
        let lines = grid.rows() * grid.layers();
        let side = (SIDE / lines.max(grid.columns())).clamp(1, 48);
        let shift = match grid.lattice() {
            Lattice::Hexagonal => side / 2,
            Lattice::Rectangular => 0,
        };
        // A gap of half a node between layers.
        let gap = side.div_ceil(2);
        let corner = |node: usize| {
            let (line, column) = (node / grid.columns(), node % grid.columns());
            let (layer, row) = (line / grid.rows(), line % grid.rows());
            (column * side + row % 2 * shift, line * side + layer * gap)
        };
        Self {
            side,
            width: grid.columns() * side + shift,
            height: lines * side + (grid.layers() - 1) * gap,
            corners: (0..grid.nodes()).map(corner).collect(),
        }
    }

    /// The first two numbers of each position; the second grows downwards.
    fn of_positions(grid: &Grid) -> Self {
        let places: Vec<[f64; 3]> = (0..grid.nodes()).map(|n| grid.place(n)).collect();
        let range = |axis: usize| {
            let all = places.iter().map(|place| place[axis]);
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(v), high.max(v))
            })
        };
        let ((left, right), (top, bottom)) = (range(0), range(1));
        let side = (SIDE / (grid.nodes() as f64).sqrt().ceil() as usize).clamp(2, 48);
        let longer = (right - left).max(bottom - top);
        let scale = if longer > 0.0 {
            (SIDE - side) as f64 / longer
        } else {
            0.0
        };
        let pixels = |length: f64| (length * scale).round() as usize;
        Self {
            side,
            width: pixels(right - left) + side,
            height: pixels(bottom - top) + side,
            corners: (places.iter())
                .map(|place| (pixels(place[0] - left), pixels(place[1] - top)))
                .collect(),
        }
    }
}

/// Nodes as squares (rows of hexagons shifted by half a square, layers one below the other): their weights as colours where there are three, else
/// their heights, low ones bright.
pub(super) fn draw(map: &Map, ranges: &Ranges, path: &Path) -> Result<()> {
    let grid = map.grid();
    let colors: Vec<[u8; 3]> = if map.dims() == 3 {
        let of = |node: usize| [0, 1, 2].map(|d| ranges.level(map.node(node)[d]));
        (0..grid.nodes()).map(of).collect()
    } else {
        let heights = map.heights();
        let most = heights.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        let of = |h: &f32| [255 - (h / most * 255.0).round().clamp(0.0, 255.0) as u8; 3];
        heights.iter().map(of).collect()
    };
    let Picture {
        side,
        width,
        height,
        corners,
    } = Picture::of(grid);
    let mut pixels = vec![255_u8; width * height * 3];
    for ((x, y), color) in corners.into_iter().zip(&colors) {
        for line in pixels.chunks_exact_mut(width * 3).skip(y).take(side) {
            for pixel in line[x * 3..][..side * 3].chunks_exact_mut(3) {
                pixel.copy_from_slice(color);
            }
        }
    }
    let size = (width as u32, height as u32);
    let bytes = picture::png::encode(&pixels, size, None, None).map_err(|e| {
        Error::new(
            ErrorKind::Internal,
            format!("drawing {}: {e}", path.display()),
        )
    })?;
    write_atomically(path, |file| file.write_all(&bytes))
}
