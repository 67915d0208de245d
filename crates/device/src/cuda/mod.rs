//! Everything that talks to CUDA: one [`Context`] a device, kernels compiled when first needed,
//! memory, and the libraries' handles, each made once and reused.

mod blas;
mod compile;
mod context;
mod feed;
mod kernel;
mod library;
mod memory;
mod pinned;
mod product;
mod scan;
mod solver;
mod sort;

pub use compile::{compile, nvrtc_version};
pub use context::{Context, device_count};
pub use memory::{Buffer, Value};
pub use pinned::PinnedBuffer;

pub use context::probe;
pub use feed::{FEED_PIECES, Feed};
pub use kernel::{Kernel, MOST_BLOCKS};
pub use solver::Factor;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

use betz_base::error::{Error, ErrorKind};

/// A driver error while doing `what`.
fn driver_error(what: &str, error: DriverError) -> Error {
    let kind = match error.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => ErrorKind::DeviceMemory,
        CUresult::CUDA_ERROR_NO_DEVICE
        | CUresult::CUDA_ERROR_INVALID_DEVICE
        | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
        | CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        | CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => ErrorKind::DeviceUnavailable,
        _ => ErrorKind::DeviceFailure,
    };
    Error::new(kind, format!("{what}: {error}"))
}
