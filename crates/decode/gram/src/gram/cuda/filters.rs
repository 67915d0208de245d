//! A filter bank on a device.

use super::coefficients::{Shape, shapes};
use crate::psc::cuda::DeviceBank;
use betz_base::error::Result;
use betz_device::cuda::{Buffer, Context};
use betz_kernels::Filter;
use betz_runtime::psc::FilterBank;

/// Distance, in τ, beyond which a spike has left no trace in f64.
pub(super) const WINDOW_TAUS: f32 = 60.0;

/// The filters of a bank as the kernels read them.
pub(crate) struct Filters {
    pub(super) shapes: Vec<Shape>,
    /// Largest order in the bank.
    pub(super) order: usize,
    /// Every filter as the kernels have it.
    pub(super) table: Buffer<Filter>,
    /// Compile-time constants that follow from the bank.
    options: Vec<String>,
}

impl Filters {
    pub(super) fn new(context: &Context, bank: &FilterBank, step_seconds: f64) -> Result<Self> {
        let on_device = DeviceBank::new(context, bank, step_seconds)?;
        Ok(Self {
            shapes: shapes(bank, step_seconds),
            order: on_device.order,
            table: on_device.filter,
            options: on_device.options,
        })
    }

    /// Compile-time constants of `spike_states.cuh`.
    pub(super) fn options(&self, chunk_blocks: usize) -> Vec<String> {
        let blocks = format!("-DBLOCKS={chunk_blocks}");
        self.options.iter().cloned().chain([blocks]).collect()
    }

    /// Steps after which a spike has left no trace.
    pub(super) fn reach_steps(&self) -> f64 {
        let slowest = self.shapes.iter().map(|s| s.rate).fold(f64::MAX, f64::min);
        (f64::from(WINDOW_TAUS) / slowest).ceil()
    }
}
