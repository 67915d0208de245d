//! A filter bank on a device.

use super::coefficients::{Shape, shapes};
use crate::device::cuda::{Buffer, Context};
use crate::error::Result;
use crate::psc::FilterBank;

/// A filter that decays faster a step wants the kernels' variant for brief filters.
const BRIEF_RATE: f64 = 0.4;

/// Distance, in τ, beyond which a spike has left no trace in f64.
pub(super) const WINDOW_TAUS: f32 = 60.0;

/// The filters of a bank as the kernels read them.
pub(crate) struct Filters {
    pub(super) shapes: Vec<Shape>,
    /// Largest order in the bank.
    pub(super) order: usize,
    /// `struct Filter` of every filter.
    pub(super) table: Buffer<u32>,
}

impl Filters {
    pub(super) fn new(context: &Context, bank: &FilterBank, step_seconds: f64) -> Result<Self> {
        let shapes = shapes(bank, step_seconds);
        let words: Vec<u32> = shapes.iter().flat_map(Shape::words).collect();
        Ok(Self {
            order: shapes.iter().map(|s| s.order).max().unwrap_or(0) as usize,
            table: context.upload(&words)?,
            shapes,
        })
    }

    /// Compile-time constants of `spike_states.cuh`.
    pub(super) fn options(&self, chunk_blocks: usize) -> Vec<String> {
        let mut options = vec![
            format!("-DORDER={}", self.order),
            format!("-DBLOCKS={chunk_blocks}"),
        ];
        if self.shapes.iter().any(|s| s.rate > BRIEF_RATE) {
            options.push("-DBRIEF".to_owned());
        }
        options
    }

    /// Steps after which a spike has left no trace.
    pub(super) fn reach_steps(&self) -> f64 {
        let slowest = self.shapes.iter().map(|s| s.rate).fold(f64::MAX, f64::min);
        (f64::from(WINDOW_TAUS) / slowest).ceil()
    }
}
