//! Everything that talks to CUDA: one [`Context`] per device, kernels compiled when first needed,
//! memory, and the libraries' handles, each made once and reused.

mod blas;
mod compile;
mod context;
mod error;
mod feed;
mod fourier;
mod kernel;
mod library;
mod memory;
mod phases;
mod pinned;
mod scan;
mod solver;
mod sort;

pub use compile::{compile, nvrtc_version};
pub use context::{Context, device_count};
pub use memory::{Buffer, Value};
pub use pinned::PinnedBuffer;

pub use context::probe;
pub use feed::{FEED_PIECES, Feed};
pub use fourier::{BlockTransforms, has_transforms};
pub use kernel::{Kernel, MOST_BLOCKS};
pub use solver::Factor;
