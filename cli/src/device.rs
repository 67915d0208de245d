//! `--device`: which device was asked for, and which is used.

use betz::Result;
use betz::device::{Device, DeviceSpec};

/// The device that `spec` asks for, by name. An explicit `cuda` that cannot be had is an error;
/// `auto` falls back to the CPU.
pub(crate) fn chosen(spec: &str) -> Result<String> {
    let spec: DeviceSpec = spec.parse()?;
    Ok(Device::open(spec)?.name())
}

/// As [`chosen`], for the real-time session, which runs on the CPU whatever the device: a step
/// costs less than the trip to a GPU.
pub(crate) fn for_session(spec: &str) -> Result<String> {
    chosen(spec)?;
    Ok("cpu".to_string())
}
