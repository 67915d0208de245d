//! A map as a picture.

use std::io::Write;
use std::path::Path;

use betz::file::write_atomically;
use betz::som::{Lattice, Map, Samples};
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

/// Nodes as squares (rows of hexagons shifted by half a square): their weights as colours where there are three, else
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
    let side = (SIDE / grid.rows().max(grid.columns())).clamp(1, 48);
    let shift = match grid.lattice() {
        Lattice::Hexagonal => side / 2,
        Lattice::Rectangular => 0,
    };
    let (width, height) = (grid.columns() * side + shift, grid.rows() * side);
    let mut pixels = vec![255_u8; width * height * 3];
    for (y, line) in pixels.chunks_exact_mut(width * 3).enumerate() {
        let row = y / side;
        let from = if row % 2 == 1 { shift } else { 0 };
        for x in 0..grid.columns() * side {
            let color = colors[row * grid.columns() + x / side];
            line[(from + x) * 3..][..3].copy_from_slice(&color);
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
