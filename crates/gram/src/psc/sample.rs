//! The two kinds of number a response comes in.

use betz_fourier::Real;

/// f32 or f64. States and sums behind a response are f64 either way.
pub trait Sample: Real + Default {
    /// What is left out of a response that is cut short (of its sum of one).
    const TAIL: f64;
    /// The nearest value.
    fn rounded(value: f64) -> Self;
    /// Itself, exactly.
    fn exact(self) -> f64;
}

impl Sample for f32 {
    const TAIL: f64 = 1e-8;
    #[inline(always)]
    fn rounded(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn exact(self) -> f64 {
        self.into()
    }
}

impl Sample for f64 {
    const TAIL: f64 = 1e-15;
    #[inline(always)]
    fn rounded(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn exact(self) -> f64 {
        self
    }
}
