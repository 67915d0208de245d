//! `sort.cu`.

use crate::arguments::n;

include!(concat!(env!("OUT_DIR"), "/sort.rs"));

/// Threads of a block of either kernel.
pub const THREADS: u32 = 256;

/// Keys that a block takes.
pub const TILE: usize = 16 * THREADS as usize;

/// Most bits of a digit.
pub const MOST_BITS: u32 = 8;
