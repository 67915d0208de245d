//! Devices that heavy work runs on: the CPU's threads, one CUDA device, or all of them.
//!
//! CUDA is loaded at run time. A machine without a driver, a library or a device is no error for
//! [`DeviceSpec::Auto`], which then stays on the CPU and keeps the reason; asking for CUDA by name
//! where it cannot be had is an error that says why. Nothing here knows what the work is about.
//!
//! ```
//! use betz_device::{Device, DeviceSpec};
//!
//! # fn main() -> betz_base::Result<()> {
//! let device = Device::open("auto".parse::<DeviceSpec>()?)?;
//! assert!(!device.is_explicit()); // `auto` leaves the choice to the work
//! println!("{}: {}", device.name(), device.fallback().unwrap_or("ready"));
//! # Ok(())
//! # }
//! ```

mod cache;
pub mod cost;
#[cfg_attr(not(feature = "cuda"), path = "cuda/absent.rs")]
pub mod cuda;
mod device;
mod matrix;
#[cfg(feature = "multiply")]
pub mod multiply;
pub mod partition;
mod placement;
mod probe;
mod room;

pub use device::{Device, DeviceSpec};
pub use matrix::{
    Batch, Element, Matrices, Precision, ProductShape, SecondFactor, StridedMatrices,
    TransformShape,
};
pub use placement::{DeferredPlacement, Placement, Ran, Work};
pub use probe::{CudaDevice, Probe, probe};
pub use room::Room;
