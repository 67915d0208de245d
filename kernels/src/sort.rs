//! `sort.cu`.

use crate::arguments::{In, Out, kernel, n};

/// Threads of a block of either kernel.
pub const THREADS: u32 = 256;

/// Keys that a block takes.
pub const TILE: usize = 16 * THREADS as usize;

/// Most bits of a digit.
pub const MOST_BITS: u32 = 8;

kernel! {
    /// Every tile's keys by their digit.
    SORT, sort_count:
    struct SortCount<'a> {
        keys: In<'a, u64>,
        count: u32,
        shift: u32,
        values: u32,
        counts: Out<'a, u32>,
    }
    needs |own, blocks| {
        keys: n(own.count),
        counts: n(own.values) * n(blocks.0),
    }
}

kernel! {
    /// Takes every tile's keys to where they belong.
    SORT, sort_place:
    struct SortPlace<'a> {
        keys: In<'a, u64>,
        count: u32,
        shift: u32,
        values: u32,
        places: In<'a, u32>,
        sorted: Out<'a, u64>,
    }
    needs |own, blocks| {
        keys: n(own.count),
        places: n(own.values) * n(blocks.0),
        sorted: n(own.count),
    }
}
