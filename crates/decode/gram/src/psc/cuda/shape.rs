//! A filter as kernels take it.

use betz_kernels as kernels;
use betz_runtime::psc::{Filter, FilterBank};

/// One filter about kernels' normalised distance m/τ: h[m] = scale·(m/τ)^n e^(−m/τ).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// 1/τ, per step.
    pub(crate) rate: f64,
    pub(crate) scale: f64,
    pub(crate) order: u32,
}

impl Shape {
    pub(crate) fn new(filter: Filter, step_seconds: f64) -> Self {
        // The decay that `Filter` itself uses: its logarithm is exact to f64's resolution.
        let rate = -filter.decay(step_seconds).ln();
        Self {
            rate,
            scale: filter.scale(step_seconds) / rate.powi(filter.order as i32),
            order: filter.order,
        }
    }

    /// The same as the kernels have it.
    pub(crate) fn filter(&self) -> kernels::Filter {
        kernels::Filter {
            rate: self.rate as f32,
            loss: -(-self.rate).exp_m1() as f32,
            scale: self.scale as f32,
            order: self.order as i32,
            exact_rate: self.rate,
            exact_scale: self.scale,
        }
    }
}

/// The shapes of `bank` at `step_seconds`.
pub(crate) fn shapes(bank: &FilterBank, step_seconds: f64) -> Vec<Shape> {
    bank.filters()
        .iter()
        .map(|&f| Shape::new(f, step_seconds))
        .collect()
}
