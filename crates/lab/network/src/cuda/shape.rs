//! Sizes of what a chunk takes on a device.

use betz_base::{Error, ErrorKind, Result};
use betz_kernels::network::{BLOCK, SLOT_RUN, STAGE_STEPS, STEP_WORDS};

use crate::block::direct;
use crate::window::{Chunk, Window};

/// Windows between two scales of a node; a multiple of 32.
pub(super) const STRETCH: usize = 64;

/// Most steps of a walk from zero: the kernel's rule of the anchors counts on it.
const MOST_STEPS: usize = 8192;

/// Bytes of a slot of the edge buffer: key and value; placed in its row; and its share of a list of long rows.
pub(super) const SLOT_BYTES: u64 = 12 + 8 + 1;

/// Warps of a block of the walk.
const WARPS: usize = 8;

/// A size as the kernels take it.
pub(super) fn int(value: usize) -> Result<i32> {
    i32::try_from(value).map_err(|_| {
        Error::new(
            ErrorKind::DeviceMemory,
            format!(
                "network on a CUDA device: expected sizes up to {}, got {value}",
                i32::MAX
            ),
        )
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) nodes: usize,
    /// Nodes, up to whole blocks.
    pub(super) padded: usize,
    pub(super) instants: usize,
    pub(super) window: Window,
    pub(super) windows: usize,
    /// Every window begins anew.
    pub(super) direct: bool,
    /// Stages of a block's panel.
    pub(super) stages: usize,
}

impl Shape {
    pub(super) fn new(nodes: usize, chunk: &Chunk) -> Self {
        let direct = direct(chunk);
        let steps = if direct {
            0
        } else {
            (chunk.windows - 1) * chunk.window.step
        };
        Self {
            nodes,
            padded: nodes.div_ceil(BLOCK) * BLOCK,
            instants: chunk.samples(),
            window: chunk.window,
            windows: chunk.windows,
            direct,
            stages: steps.div_ceil(STAGE_STEPS),
        }
    }

    pub(super) fn blocks(&self) -> usize {
        self.padded / BLOCK
    }

    pub(super) fn stretches(&self) -> usize {
        self.windows.div_ceil(STRETCH)
    }

    /// (window, node)s.
    pub(super) fn cells(&self) -> usize {
        self.windows * self.padded
    }

    pub(super) fn panel_words(&self) -> usize {
        self.blocks() * self.stages * STAGE_STEPS * STEP_WORDS
    }

    /// Tiles with a pair above the diagonal.
    pub(super) fn tiles(&self) -> usize {
        self.blocks() * (self.blocks() + 1) / 2
    }

    /// Bytes of all but the edge buffer.
    pub(super) fn bytes(&self, sample: usize) -> u64 {
        let cells = self.cells() as u64;
        // Moments, state, factor; bound.
        let of_windows = cells * (8 + 8 + 1 + 4) + cells / 8;
        let of_stretches = (self.stretches() * self.padded) as u64 * (8 + 4);
        let anchors = (self.blocks() * self.windows.div_ceil(32)) as u64 * 4;
        self.instants as u64 * self.nodes as u64 * sample as u64
            + self.padded as u64 * 8
            + of_windows
            + of_stretches
            + anchors
            + self.panel_words() as u64 * 4
            + self.tiles() as u64 * 4
            // Rows, and the totals of their sums.
            + (self.windows * self.nodes) as u64 * 4
            + (self.windows * self.nodes / 1000) as u64
    }

    /// Slots that one tile may take.
    pub(super) fn tile_slots(&self) -> usize {
        BLOCK * BLOCK * self.windows + WARPS * SLOT_RUN
    }
}

/// Most windows of a chunk by its steps.
pub(super) fn most_windows(window: Window) -> usize {
    if 2 * window.step >= window.length {
        return usize::MAX;
    }
    (MOST_STEPS / (2 * window.step)).max(1)
}

/// All tiles with a pair above the diagonal, the densest first: those near the diagonal, where nodes are
/// neighbours; every `of`-th from the `at`-th on.
pub(super) fn tiles(blocks: usize, (at, of): (usize, usize)) -> Vec<u32> {
    let all = (0..blocks)
        .flat_map(|apart| (0..blocks - apart).map(move |row| ((row << 16) | (row + apart)) as u32));
    all.skip(at).step_by(of.max(1)).collect()
}

/// Pairs of nodes, the first before the second, in a tile with so many nodes along a side.
pub(super) fn pairs_of(tile: u32, side: usize, nodes: usize) -> u64 {
    let nodes_of = |block: u32| side.min(nodes.saturating_sub(block as usize * side)) as u64;
    let (row, column) = (tile >> 16, tile & 0xffff);
    if row == column {
        return nodes_of(row) * nodes_of(row).saturating_sub(1) / 2;
    }
    nodes_of(row) * nodes_of(column)
}

/// The same tiles, square after square: blocks that work at the same time share their panels.
pub(super) fn square_tiles(blocks: usize, (at, of): (usize, usize)) -> Vec<u32> {
    /// Blocks along a square.
    const SIDE: usize = 16;
    let mut all: Vec<u32> = tiles(blocks, (0, 1));
    let square = |tile: u32| {
        (
            (tile >> 16) as usize / SIDE,
            (tile & 0xffff) as usize / SIDE,
        )
    };
    all.sort_unstable_by_key(|tile| (square(*tile), *tile));
    all.into_iter().skip(at).step_by(of.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Rows;

    #[test]
    fn every_tile_is_dealt_once() {
        let mut all = tiles(7, (0, 1));
        assert_eq!(all.len(), 28);
        let mut dealt: Vec<u32> = (0..3).flat_map(|at| tiles(7, (at, 3))).collect();
        all.sort_unstable();
        dealt.sort_unstable();
        assert_eq!(all, dealt);
        assert!(all.iter().all(|t| t >> 16 <= t & 0xffff && t & 0xffff < 7));
        assert!(tiles(0, (0, 1)).is_empty());
        for nodes in [1, 128, 129, 300] {
            let pairs = tiles(3, (0, 1))
                .into_iter()
                .map(|tile| pairs_of(tile, BLOCK, nodes));
            assert_eq!(pairs.sum::<u64>() as usize, nodes * (nodes - 1) / 2);
        }
        let mut squares: Vec<u32> = (0..2).flat_map(|at| square_tiles(40, (at, 2))).collect();
        squares.sort_unstable();
        let mut all = tiles(40, (0, 1));
        all.sort_unstable();
        assert_eq!(squares, all);
        assert_eq!(square_tiles(40, (0, 1))[16 * 17 / 2], 16);
    }

    #[test]
    fn sizes_follow_the_windows() {
        let window = Window::new(200, 1);
        let chunk = |windows| Chunk {
            start: 0,
            windows,
            window,
            first: 0,
            rows: Rows::ALL,
        };
        let one = Shape::new(300, &chunk(1));
        assert!(one.direct && one.panel_words() == 0);
        assert_eq!((one.padded, one.blocks(), one.tiles()), (384, 3, 6));
        let many = Shape::new(300, &chunk(801));
        assert_eq!(
            (many.stages, many.stretches(), many.instants),
            (100, 13, 1000)
        );
        assert!(many.bytes(1) > one.bytes(1));
        // The memory of the headline is panels, moments and little else.
        let headline = Shape::new(22_360, &chunk(801)).bytes(1);
        assert!((500e6..700e6).contains(&(headline as f64)), "{headline}");
        assert_eq!(most_windows(window), 4096);
        assert_eq!(most_windows(Window::new(9, 5)), usize::MAX);
    }
}
