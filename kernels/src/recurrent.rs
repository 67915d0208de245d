//! `recurrent_train.cu`.

use crate::arguments::n;

include!(concat!(env!("OUT_DIR"), "/recurrent.rs"));

/// Threads of a block of the kernels that have no number of their own below.
pub const THREADS: u32 = 256;

/// Rows and columns of a tile of a product.
pub const TILE: u32 = 32;

/// Threads of a block of [`RecurrentInputSide`], [`RecurrentBelow`] and [`RecurrentGradients`].
pub const PRODUCT_THREADS: u32 = 1024;

/// Threads of a block of [`RecurrentForward`] and [`RecurrentBackward`] for a layer of `units`.
pub const fn layer_threads(units: u32) -> u32 {
    let columns = 3 * units;
    if units <= 64 {
        columns
    } else if columns < 768 {
        columns / 32 * 32
    } else {
        768
    }
}
