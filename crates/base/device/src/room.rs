//! A device, and how much of its memory a work may take.

use crate::cuda::Context;
use betz_base::error::Result;

/// A device and the bytes of its memory that are to be had.
#[derive(Clone, Copy)]
pub struct Room<'a> {
    /// The device.
    pub context: &'a Context,
    /// Bytes of its memory that may be taken.
    pub memory: u64,
}

impl<'a> Room<'a> {
    /// Bytes that are free now, within the device's cap.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn of(context: &'a Context) -> Result<Self> {
        let memory = context.available_memory()?;
        Ok(Self { context, memory })
    }
}

impl std::fmt::Debug for Room<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of a device", self.memory)
    }
}
