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

/// A device for one test at a time: a cap of its memory holds for all that use it.
#[cfg(feature = "cuda")]
pub struct Alone<T> {
    device: T,
    _turn: std::sync::MutexGuard<'static, ()>,
}

#[cfg(feature = "cuda")]
impl<T> std::ops::Deref for Alone<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.device
    }
}

#[cfg(feature = "cuda")]
fn alone<T>(open: impl FnOnce() -> betz_base::Result<T>) -> Option<Alone<T>> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    // A test that failed before leaves the device as it is.
    let turn = (TURN.lock()).unwrap_or_else(std::sync::PoisonError::into_inner);
    match open() {
        Ok(device) => Some(Alone {
            device,
            _turn: turn,
        }),
        Err(error) => {
            eprintln!("skipped: {}", error.message());
            None
        }
    }
}

/// The first CUDA device. `None`, with a word on standard error, without one.
#[cfg(feature = "cuda")]
pub fn device() -> Option<Alone<betz_device::Device>> {
    alone(|| betz_device::Device::cuda(0))
}

/// The context of the first CUDA device. `None`, with a word on standard error, without one.
#[cfg(feature = "cuda")]
pub fn context() -> Option<Alone<std::sync::Arc<betz_device::cuda::Context>>> {
    alone(|| betz_device::cuda::Context::open(0))
}
