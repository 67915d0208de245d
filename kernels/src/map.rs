//! `map_train.cu`.

use crate::arguments::{In, InOut, Out, kernel, n};

/// Threads of a block of these kernels, [`SPREAD_THREADS`] aside.
pub const THREADS: u32 = 256;

/// Dimensions of a block of [`MapSums`].
pub const SUM_DIMS: u32 = 2 * THREADS;

/// Threads of a block of [`MapSpreadRows`] and [`MapSpreadColumns`].
pub const SPREAD_THREADS: u32 = 128;

kernel! {
    /// Nodes as the product takes them, and ½‖w‖² of each.
    MAP_TRAIN, map_prepare:
    struct MapPrepare<'a> {
        weights: In<'a, f32>,
        nodes: i32,
        dims: i32,
        transposed: Out<'a, f32>,
        halves: Out<'a, f32>,
    }
    needs |own, blocks| {
        weights: n(own.nodes) * n(own.dims),
        transposed: n(own.nodes) * n(own.dims),
        halves: n(own.nodes),
    }
}

kernel! {
    /// The winner of each sample, and its distance from it.
    MAP_TRAIN, map_nearest:
    struct MapNearest<'a> {
        samples: In<'a, f32>,
        products: In<'a, f32>,
        transposed: In<'a, f32>,
        halves: In<'a, f32>,
        count: i32,
        nodes: i32,
        dims: i32,
        exact: i32,
        winners: InOut<'a, u32>,
        distances: InOut<'a, f64>,
        rechecked: InOut<'a, u32>,
    }
    needs |own, blocks| {
        samples: n(own.count) * n(own.dims),
        products: n(own.count) * n(own.nodes),
        transposed: n(own.nodes) * n(own.dims),
        halves: n(own.nodes),
        winners: n(own.count),
        distances: n(own.count),
        rechecked: 1,
    }
}

kernel! {
    /// The sum of all values.
    MAP_TRAIN, map_total:
    struct MapTotal<'a> {
        values: In<'a, f64>,
        count: i32,
        total: Out<'a, f64>,
    }
    needs |own, blocks| {
        values: n(own.count),
        total: 1,
    }
}

kernel! {
    /// Sums and counts of samples by winner, a row of dims + 1 a node.
    MAP_TRAIN, map_sums:
    struct MapSums<'a> {
        samples: In<'a, f32>,
        winners: In<'a, u32>,
        count: i32,
        nodes: i32,
        dims: i32,
        first_samples: i32,
        sums: InOut<'a, f64>,
    }
    needs |own, blocks| {
        samples: n(own.count) * n(own.dims),
        winners: n(own.count),
        sums: n(own.nodes) * (n(own.dims) + 1),
    }
}

kernel! {
    /// The Gaussian along rows.
    MAP_TRAIN, map_spread_rows:
    struct MapSpreadRows<'a> {
        from: In<'a, f64>,
        even: In<'a, f32>,
        odd: In<'a, f32>,
        rows: i32,
        columns: i32,
        width: i32,
        to: Out<'a, f32>,
    }
    needs |own, blocks| {
        from: n(own.rows) * n(own.columns) * n(own.width),
        even: n(own.columns) * n(own.columns),
        odd: n(own.columns) * n(own.columns),
        to: n(own.rows) * n(own.columns) * n(own.width),
    }
}

kernel! {
    /// The Gaussian across rows.
    MAP_TRAIN, map_spread_columns:
    struct MapSpreadColumns<'a> {
        like: In<'a, f32>,
        unlike: In<'a, f32>,
        down: In<'a, f32>,
        rows: i32,
        columns: i32,
        width: i32,
        to: Out<'a, f32>,
    }
    needs |own, blocks| {
        like: n(own.rows) * n(own.columns) * n(own.width),
        unlike: n(own.rows) * n(own.columns) * n(own.width),
        down: n(own.rows) * n(own.rows),
        to: n(own.rows) * n(own.columns) * n(own.width),
    }
}

kernel! {
    /// The weights that the spread sums make.
    MAP_TRAIN, map_update:
    struct MapUpdate<'a> {
        spread: In<'a, f32>,
        nodes: i32,
        dims: i32,
        least: f32,
        weights: InOut<'a, f32>,
    }
    needs |own, blocks| {
        spread: n(own.nodes) * (n(own.dims) + 1),
        weights: n(own.nodes) * n(own.dims),
    }
}
