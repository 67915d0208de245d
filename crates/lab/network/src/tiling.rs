//! Tiles of pairs of nodes, and units of tiles for threads.

use crate::window::Rows;

/// Panels of a unit's rows, and of its columns, stay in this much of the second cache.
const CACHED: usize = 512 << 10;

/// Tiles that are walked by one thread: row blocks times column blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    pub(crate) rows: (usize, usize),
    pub(crate) columns: (usize, usize),
}

/// Sizes of the tiles that pairs of nodes are cut into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tiling {
    pub(crate) nodes: usize,
    /// Nodes down and across a tile.
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Steps of a panel.
    pub(crate) steps: usize,
    pub(crate) windows: usize,
    /// The pairs to cut; begins and ends with a tile.
    pub(crate) only: Rows,
}

impl Tiling {
    /// Pairs of a tile.
    pub(crate) fn pairs(&self) -> usize {
        self.height * self.width
    }

    /// The sums of a tile's pairs, window by window.
    pub(crate) fn by_window<'a>(
        &self,
        sums: &'a [f32],
    ) -> impl Iterator<Item = (usize, &'a [f32])> {
        sums.chunks_exact(self.pairs())
            .take(self.windows)
            .enumerate()
    }
}

/// All tiles of `tiling.only` with a pair above the diagonal, in units; by rows, then columns.
pub(crate) fn units(tiling: &Tiling) -> Vec<Unit> {
    let (height, width) = (tiling.height, tiling.width);
    let Rows { from, to } = tiling.only;
    let (begin, end) = (from / height, to.min(tiling.nodes).div_ceil(height));
    let columns = tiling.nodes.div_ceil(width);
    let rows = end.saturating_sub(begin);
    let mut row_group = (CACHED / (tiling.steps * height * 4)).clamp(1, (1 << 16) / height);
    let mut column_group = (CACHED / (tiling.steps * width * 4)).clamp(1, (1 << 16) / width);
    let wanted = 8 * rayon::current_num_threads();
    loop {
        let count = rows.div_ceil(row_group) * columns.div_ceil(column_group) / 2;
        if count >= wanted || row_group * column_group <= 4 {
            break;
        }
        if column_group == 1 || row_group > 1 && row_group * height >= column_group * width {
            row_group = row_group.div_ceil(2);
        } else {
            column_group = column_group.div_ceil(2);
        }
    }
    let mut units = Vec::new();
    for i in (begin..end).step_by(row_group) {
        for j in (0..columns).step_by(column_group) {
            let unit = Unit {
                rows: (i, (i + row_group).min(end)),
                columns: (j, (j + column_group).min(columns)),
            };
            if above_diagonal(tiling, unit.rows.0, unit.columns.1 - 1) {
                units.push(unit);
            }
        }
    }
    units
}

/// True when tile (row block, column block) has a pair i < j.
pub(crate) fn above_diagonal(tiling: &Tiling, i: usize, j: usize) -> bool {
    ((j + 1) * tiling.width).min(tiling.nodes) > i * tiling.height + 1
}
