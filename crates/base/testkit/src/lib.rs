//! Helpers that tests of several crates share. No library depends on it.

#![allow(clippy::unwrap_used)] // tests stop where something fails

pub mod npy;

use std::path::{Path, PathBuf};

pub use betz_base::random::Random;

/// The path of a recording among the shared data, which `BETZ_SHARED` names, or which lie beside the checkout. `None`,
/// with a word on standard error, if it is not there.
pub fn shared(file: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("BETZ_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data"),
        PathBuf::from,
    );
    let path = folder.join(file);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

/// The first CUDA device. `None`, with a word on standard error, without one.
#[cfg(feature = "cuda")]
pub fn device() -> Option<betz_device::Device> {
    betz_device::Device::cuda(0)
        .map_err(|error| eprintln!("skipped: {}", error.message()))
        .ok()
}

/// The context of the first CUDA device. `None`, with a word on standard error, without one.
#[cfg(feature = "cuda")]
pub fn context() -> Option<std::sync::Arc<betz_device::cuda::Context>> {
    betz_device::cuda::Context::open(0)
        .map_err(|error| eprintln!("skipped: {}", error.message()))
        .ok()
}
