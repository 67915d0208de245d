//! `scan.cu`.

use crate::arguments::{In, InOut, Out, kernel, n};

kernel! {
    /// Each block's stretch of `values` becomes its exclusive sums, `totals` the stretches' sums.
    SCAN, scan_blocks:
    struct ScanBlocks<'a> {
        values: InOut<'a, u32>,
        count: u32,
        totals: Out<'a, u32>,
    }
    needs |own, blocks| {
        values: n(own.count),
        totals: n(blocks.0),
    }
}

kernel! {
    /// Adds to each block's stretch of `values` its offset.
    SCAN, scan_add:
    struct ScanAdd<'a> {
        values: InOut<'a, u32>,
        count: u32,
        offsets: In<'a, u32>,
    }
    needs |own, blocks| {
        values: n(own.count),
        offsets: n(blocks.0),
    }
}
