//! `decode.cu` and `scores.cu`.

use crate::arguments::{In, InOut, Out, kernel, n, rows};
use crate::layout::{Filter, Mask, Part};

/// Words of a tile.
const THREADS: u128 = 128;

kernel! {
    /// Every spike adds its weights to the weighted trains.
    DECODE, decode_weigh:
    struct DecodeWeigh<'a> {
        spike: In<'a, u32>,
        // Read with `-DWEIGHTED` alone.
        weight: In<'a, f32>,
        starts: In<'a, u32>,
        weights: In<'a, f64>,
        rows: i32,
        steps: i32,
        trains: Out<'a, f64>,
        stride: u64,
    }
    needs |own, blocks| {
        starts: n(blocks.0) + 1,
        trains: rows(own.rows, own.stride, own.steps),
    }
}

kernel! {
    /// What each tile does to a filter at rest.
    DECODE, decode_tile_ends:
    struct DecodeTileEnds<'a> {
        trains: In<'a, f64>,
        stride: u64,
        steps: i32,
        mask: In<'a, Mask>,
        filter: In<'a, Filter>,
        outputs: i32,
        rows: i32,
        tiles: i32,
        at: Out<'a, f64>,
        words: Out<'a, f64>,
    }
    needs |own, blocks| {
        trains: rows(own.rows, own.stride, own.steps),
        mask: n(own.tiles) * THREADS,
        filter: n(own.rows) / n(own.outputs).max(1),
        at: n(own.tiles) * n(own.rows),
        words: n(own.tiles) * n(own.rows) * THREADS,
    }
}

kernel! {
    /// From what the tiles do by themselves to the states at their starts.
    DECODE, decode_carry:
    struct DecodeCarry<'a> {
        at: InOut<'a, f64>,
        words: In<'a, f64>,
        steps: i32,
        uncut: In<'a, u32>,
        tiles: i32,
        filter: In<'a, Filter>,
        outputs: i32,
        rows: i32,
        carry: InOut<'a, f64>,
    }
    needs |own, blocks| {
        at: n(own.tiles) * n(own.rows),
        words: n(own.tiles) * n(own.rows) * THREADS,
        uncut: n(own.tiles),
        filter: n(own.rows) / n(own.outputs).max(1),
        carry: n(own.rows),
    }
}

kernel! {
    /// Every filter's responses, summed for each output.
    DECODE, decode_sum:
    struct DecodeSum<'a> {
        trains: In<'a, f64>,
        stride: u64,
        steps: i32,
        mask: In<'a, Mask>,
        uncut: In<'a, u32>,
        filter: In<'a, Filter>,
        filters: i32,
        outputs: i32,
        tiles: i32,
        at: In<'a, f64>,
        words: In<'a, f64>,
        sums: Out<'a, f64>,
    }
    needs |own, blocks| {
        trains: rows(n2(own.filters, own.outputs), own.stride, own.steps),
        mask: n(own.tiles) * THREADS,
        uncut: n(own.tiles),
        filter: n(own.filters),
        at: n(own.tiles) * n(own.filters) * n(own.outputs),
        words: n(own.tiles) * n(own.filters) * n(own.outputs) * THREADS,
        sums: rows(own.outputs, own.stride, own.steps),
    }
}

kernel! {
    /// Sums and intercepts as estimates; not a number outside segments.
    DECODE, decode_estimates:
    struct DecodeEstimates<'a> {
        sums: In<'a, f64>,
        stride: u64,
        steps: i32,
        mask: In<'a, Mask>,
        last: In<'a, f64>,
        outputs: i32,
        estimates: Out<'a, f32>,
    }
    needs |own, blocks| {
        sums: rows(own.outputs, own.stride, own.steps),
        mask: n(own.steps).div_ceil(32),
        last: 3 * n(own.outputs),
        estimates: n(own.steps) * n(own.outputs),
    }
}

kernel! {
    /// What scores are made from, over parts of the steps.
    SCORES, score_parts:
    struct ScoreParts<'a> {
        truth: In<'a, f32>,
        estimate: In<'a, f32>,
        paired: In<'a, Mask>,
        steps: i32,
        part_steps: i32,
        outputs: i32,
        parts: Out<'a, Part>,
    }
    needs |own, blocks| {
        truth: n(own.steps) * n(own.outputs),
        estimate: n(own.steps) * n(own.outputs),
        paired: n(own.steps).div_ceil(32),
        parts: n(blocks.0) * n(blocks.1),
    }
}

/// A product of two numbers, as one.
fn n2(a: i32, b: i32) -> i64 {
    i64::from(a) * i64::from(b)
}
