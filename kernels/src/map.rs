//! `map_train.cu` and `map_online.cu`.

use crate::arguments::n;

include!(concat!(env!("OUT_DIR"), "/map.rs"));

/// Threads of a block of these kernels, [`SPREAD_THREADS`] aside.
pub const THREADS: u32 = 256;

/// Dimensions of a block of [`MapSums`].
pub const SUM_DIMS: u32 = 2 * THREADS;

/// Threads of a block of [`MapSpreadRows`] and [`MapSpreadColumns`].
pub const SPREAD_THREADS: u32 = 128;

/// Most threads of a block of [`MapOnline`].
pub const ONLINE_THREADS: u32 = 1024;

/// Most blocks of a launch of [`MapOnline`].
pub const ONLINE_BLOCKS: u32 = 192;
