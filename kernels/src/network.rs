//! `network_prepare.cu`, `network_walk.cu` and `network_order.cu`.

use crate::arguments::{In, InOut, Out, kernel, n};
use crate::layout::Sample;

/// Nodes of a block of panels.
pub const BLOCK: usize = 128;

/// Threads of a block of [`NetworkWalk`].
pub const WALK_THREADS: u32 = 256;

/// Threads of a block of the other kernels that have a thread a node.
pub const NODE_THREADS: u32 = 128;

/// Steps of a stage: panels have whole ones.
pub const STAGE_STEPS: usize = 8;

/// Words of a step of a block's panel: what is added, what is taken away, each as two f16.
pub const STEP_WORDS: usize = 2 * BLOCK;

/// Bytes of dynamic shared memory of [`NetworkWalk`]: four stages of two panels.
pub const WALK_SHARED_BYTES: usize = 4 * 2 * STAGE_STEPS * STEP_WORDS * 4;

/// Slots of the edge buffer that a warp takes at once.
pub const SLOT_RUN: usize = 512;

/// Edges of a row that a warp brings into order.
pub const SHORT_ROW: usize = 32;

/// The key of a slot without an edge.
pub const EMPTY: u64 = u64::MAX;

/// Most windows of a chunk, most nodes: what a key has room for, and a tile's number.
pub const MOST_WINDOWS: usize = 1 << 10;
/// Most nodes.
pub const MOST_NODES: usize = 65_535 * BLOCK;

/// Where `tally` has what: the next tile, slots taken, tiles that began anew.
pub const NEXT_TILE: usize = 0;
/// Slots taken, whether or not there was room.
pub const SLOTS: usize = 1;
/// Tiles that began anew in a window.
pub const REBUILT: usize = 2;
/// Edges.
pub const KEPT: usize = 3;
/// Slots that were decided in f64.
pub const RECHECKED: usize = 4;
/// Of the edges those that the host must decide.
pub const DOUBTFUL: usize = 5;
/// Given: slots that there is room for.
pub const CAPACITY: usize = 6;
/// Numbers in `tally`.
pub const TALLY: usize = 7;

/// A threshold below this is none: [`NetworkWalk`] looks at every pair.
pub const LEAST: f64 = 1e-3;

/// A window in which a node is constant (`state`).
pub const CONSTANT: u8 = 1;
/// One in which it is not finite.
pub const NOT_FINITE: u8 = 2;
/// One whose sums f32 cannot hold.
pub const EXTREME: u8 = 3;

kernel! {
    /// Mean and sum of squares of every window and node.
    NETWORK_PREPARE, network_moments:
    struct NetworkMoments<'a, T: Sample = "INPUT"> {
        samples: In<'a, T>,
        instants: i32,
        nodes: i32,
        padded: i32,
        length: i32,
        step: i32,
        windows: i32,
        run: i32,
        fill: Out<'a, f64>,
        mean: Out<'a, f64>,
        squares: Out<'a, f64>,
        state: Out<'a, u8>,
        odd: InOut<'a, u32>,
    }
    needs |own, blocks| {
        samples: (n(own.windows).saturating_sub(1) * n(own.step) + n(own.length)).max(n(own.instants)) * n(own.nodes),
        fill: n(own.padded),
        mean: n(own.padded) * n(own.windows),
        squares: n(own.padded) * n(own.windows),
        state: n(own.padded) * n(own.windows),
        odd: 1,
    }
}

kernel! {
    /// Scales, factors, and where blocks begin anew.
    NETWORK_PREPARE, network_scales:
    struct NetworkScales<'a> {
        squares: In<'a, f64>,
        padded: i32,
        step: i32,
        windows: i32,
        stretch: i32,
        unit: f64,
        scale: Out<'a, f64>,
        ratio: Out<'a, f32>,
        factor: Out<'a, f32>,
        bound: Out<'a, f32>,
        anchor: Out<'a, u32>,
        state: InOut<'a, u8>,
        odd: InOut<'a, u32>,
    }
    needs |own, blocks| {
        squares: n(own.padded) * n(own.windows),
        scale: n(own.padded) * n(own.windows).div_ceil(n(own.stretch).max(1)),
        ratio: n(own.padded) * n(own.windows).div_ceil(n(own.stretch).max(1)),
        factor: n(own.padded) * n(own.windows),
        bound: n(own.padded) / 32 * n(own.windows),
        anchor: n(blocks.0) * n(own.windows).div_ceil(32),
        state: n(own.padded) * n(own.windows),
        odd: 1,
    }
}

kernel! {
    /// The steps from each window to the next.
    NETWORK_PREPARE, network_panels:
    struct NetworkPanels<'a, T: Sample = "INPUT"> {
        samples: In<'a, T>,
        nodes: i32,
        padded: i32,
        length: i32,
        step: i32,
        windows: i32,
        run: i32,
        stretch: i32,
        fill: In<'a, f64>,
        mean: In<'a, f64>,
        scale: In<'a, f64>,
        factor: In<'a, f32>,
        steps: i32,
        anchor: InOut<'a, u32>,
        panels: Out<'a, u32>,
    }
    needs |own, blocks| {
        samples: (n(own.windows).saturating_sub(1) * n(own.step) + n(own.length)) * n(own.nodes),
        fill: n(own.padded),
        mean: n(own.padded) * n(own.windows),
        scale: n(own.padded) * n(own.windows).div_ceil(n(own.stretch).max(1)),
        factor: n(own.padded) * n(own.windows),
        anchor: n(blocks.0) * n(own.windows).div_ceil(32),
        panels: n(blocks.0) * n(own.steps) * STEP_WORDS as u128,
    }
}

kernel! {
    /// Tiles of pairs through all windows of a chunk.
    NETWORK_WALK, network_walk:
    struct NetworkWalk<'a, T: Sample = "INPUT"> {
        samples: In<'a, T>,
        nodes: i32,
        padded: i32,
        length: i32,
        step: i32,
        windows: i32,
        stretch: i32,
        fill: In<'a, f64>,
        mean: In<'a, f64>,
        scale: In<'a, f64>,
        ratio: In<'a, f32>,
        factor: In<'a, f32>,
        bound: In<'a, f32>,
        anchor: In<'a, u32>,
        panels: In<'a, u32>,
        stages: i32,
        tiles: In<'a, u32>,
        last: u32,
        direct: i32,
        least: f32,
        sign: i32,
        keys: InOut<'a, u64>,
        values: InOut<'a, f32>,
        tally: InOut<'a, u64>,
    }
    needs |own, blocks| {
        samples: (n(own.windows).saturating_sub(1) * n(own.step) + n(own.length)) * n(own.nodes),
        fill: n(own.padded),
        mean: n(own.padded) * n(own.windows),
        scale: n(own.padded) * n(own.windows).div_ceil(n(own.stretch).max(1)),
        ratio: n(own.padded) * n(own.windows).div_ceil(n(own.stretch).max(1)),
        factor: n(own.padded) * n(own.windows),
        bound: n(own.padded) / 32 * n(own.windows),
        anchor: n(own.padded) / BLOCK as u128 * n(own.windows).div_ceil(32),
        panels: n(own.padded) / BLOCK as u128 * n(own.stages) * (STAGE_STEPS * STEP_WORDS) as u128,
        tiles: n(own.last),
        values: own.keys.len() as u128,
        tally: TALLY as u128,
    }
}

kernel! {
    /// What is near the threshold, decided in f64.
    NETWORK_WALK, network_recheck:
    struct NetworkRecheck<'a, T: Sample = "INPUT"> {
        samples: In<'a, T>,
        nodes: i32,
        length: i32,
        step: i32,
        threshold: f64,
        margin: f64,
        sign: i32,
        keys: InOut<'a, u64>,
        values: InOut<'a, f32>,
        tally: InOut<'a, u64>,
    }
    needs |own, blocks| {
        values: own.keys.len() as u128,
        tally: TALLY as u128,
    }
}

kernel! {
    /// Slots per row, a row being a window and a first node.
    NETWORK_ORDER, network_rows:
    struct NetworkRows<'a> {
        keys: In<'a, u64>,
        slots: u64,
        nodes: i32,
        rows: InOut<'a, u32>,
    }
    needs |own, blocks| {
        keys: n(own.slots),
    }
}

kernel! {
    /// Every slot in its row.
    NETWORK_ORDER, network_place:
    struct NetworkPlace<'a> {
        keys: In<'a, u64>,
        values: In<'a, f32>,
        slots: u64,
        nodes: i32,
        rows: InOut<'a, u32>,
        placed: Out<'a, u64>,
    }
    needs |own, blocks| {
        keys: n(own.slots),
        values: n(own.slots),
    }
}

kernel! {
    /// Rows of up to [`SHORT_ROW`] edges by their second node; the numbers of the others.
    NETWORK_ORDER, network_short_rows:
    struct NetworkShortRows<'a> {
        ends: In<'a, u32>,
        all: u64,
        placed: In<'a, u64>,
        ordered: Out<'a, u64>,
        long_rows: Out<'a, u32>,
        count: InOut<'a, u32>,
    }
    needs |own, blocks| {
        ends: n(own.all),
        ordered: own.placed.len() as u128,
        long_rows: own.placed.len() as u128 / (SHORT_ROW as u128 + 1),
        count: 1,
    }
}

kernel! {
    /// The rows of more edges by their second node.
    NETWORK_ORDER, network_long_rows:
    struct NetworkLongRows<'a> {
        ends: In<'a, u32>,
        placed: In<'a, u64>,
        nodes: i32,
        long_rows: In<'a, u32>,
        count: In<'a, u32>,
        ordered: Out<'a, u64>,
    }
    needs |own, blocks| {
        ordered: own.placed.len() as u128,
        count: 1,
    }
}
