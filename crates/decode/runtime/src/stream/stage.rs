//! The filters of a bank on a model's clock, and how those of one order lie side by side.

use core::ops::Range;

use crate::psc::Filter;

/// One filter of the bank on the model's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage {
    pub(super) decay: f64,
    /// −dt/τ, whose exponential is `decay`.
    pub(super) log_decay: f64,
    pub(super) order: u32,
}

impl Stage {
    pub(super) fn new(filter: &Filter, step_seconds: f64) -> Self {
        Self {
            decay: filter.decay(step_seconds),
            log_decay: filter.log_decay(step_seconds),
            order: filter.order,
        }
    }
}

/// The filters of one order, which lie side by side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) order: u32,
    pub(super) first: usize,
    pub(super) end: usize,
}

impl Group {
    /// The filters, in the model's order.
    pub(super) fn filters(&self) -> Range<usize> {
        self.first..self.end
    }

    /// Lanes: filters × latents.
    #[inline(always)]
    pub(super) fn lanes(&self, latents: usize) -> usize {
        (self.end - self.first) * latents
    }

    /// States: (order + 1) × lanes.
    #[inline(always)]
    pub(super) fn states(&self, latents: usize) -> usize {
        (self.order as usize + 1) * self.lanes(latents)
    }
}
