//! The numbers that a network computes with: f32 to train, f64 to check gradients.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

use betz_runtime::model;

pub(super) trait Real:
    Copy
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + 'static
{
    const ONE: Self;

    fn from_f32(value: f32) -> Self;
    fn to_f64(self) -> f64;
    /// self·factor + term, rounded once: the same bits with and without vectors.
    fn multiply_add(self, factor: Self, term: Self) -> Self;
    fn sigmoid(self) -> Self;
    fn tanh(self) -> Self;
}

impl Real for f32 {
    const ONE: Self = 1.0;

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn multiply_add(self, factor: Self, term: Self) -> Self {
        self.mul_add(factor, term)
    }

    #[inline(always)]
    fn sigmoid(self) -> Self {
        model::sigmoid(self)
    }

    #[inline(always)]
    fn tanh(self) -> Self {
        model::tanh(self)
    }
}

#[cfg(test)]
impl Real for f64 {
    const ONE: Self = 1.0;

    fn from_f32(value: f32) -> Self {
        f64::from(value)
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn multiply_add(self, factor: Self, term: Self) -> Self {
        self.mul_add(factor, term)
    }

    fn sigmoid(self) -> Self {
        1.0 / (1.0 + (-self).exp())
    }

    fn tanh(self) -> Self {
        f64::tanh(self)
    }
}
