//! A filter as kernels take it.

use betz_runtime::psc::{Filter, FilterBank};

/// One filter about kernels' normalised distance m/τ: h[m] = scale·(m/τ)^n e^(−m/τ).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// 1/τ, a step.
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

    /// `struct Filter` of the kernels, as 32-bit words.
    pub(crate) fn words(&self) -> [u32; 8] {
        let loss = -(-self.rate).exp_m1();
        let (rate, scale) = (self.rate.to_bits(), self.scale.to_bits());
        [
            (self.rate as f32).to_bits(),
            (loss as f32).to_bits(),
            (self.scale as f32).to_bits(),
            self.order,
            rate as u32,
            (rate >> 32) as u32,
            scale as u32,
            (scale >> 32) as u32,
        ]
    }
}

/// The shapes of `bank` at `step_seconds`.
pub(crate) fn shapes(bank: &FilterBank, step_seconds: f64) -> Vec<Shape> {
    bank.filters()
        .iter()
        .map(|&f| Shape::new(f, step_seconds))
        .collect()
}
