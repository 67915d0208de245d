//! The numbers that a network computes with: f32 to train, f64 to check gradients.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

use betz_runtime::model;
use pulp::Simd;

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

    /// A SIMD register of such numbers.
    type Vector<S: Simd>: Copy;

    fn from_f32(value: f32) -> Self;
    /// Every number of a register is `value`.
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S>;
    /// `numbers` as whole registers; what does not fill one is left out.
    fn vectors<S: Simd>(numbers: &[Self]) -> &[Self::Vector<S>];
    fn vectors_mut<S: Simd>(numbers: &mut [Self]) -> &mut [Self::Vector<S>];
    /// a·b + c, rounded once: the same bits on every processor.
    fn multiply_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    fn sigmoid(self) -> Self;
    fn tanh(self) -> Self;
}

impl Real for f32 {
    const ONE: Self = 1.0;

    type Vector<S: Simd> = S::f32s;

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn splat<S: Simd>(simd: S, value: Self) -> S::f32s {
        simd.splat_f32s(value)
    }

    #[inline(always)]
    fn vectors<S: Simd>(numbers: &[Self]) -> &[S::f32s] {
        S::as_simd_f32s(numbers).0
    }

    #[inline(always)]
    fn vectors_mut<S: Simd>(numbers: &mut [Self]) -> &mut [S::f32s] {
        S::as_mut_simd_f32s(numbers).0
    }

    #[inline(always)]
    fn multiply_add<S: Simd>(simd: S, a: S::f32s, b: S::f32s, c: S::f32s) -> S::f32s {
        simd.mul_add_f32s(a, b, c)
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

    type Vector<S: Simd> = f64;

    fn from_f32(value: f32) -> Self {
        f64::from(value)
    }

    fn splat<S: Simd>(_: S, value: Self) -> Self {
        value
    }

    fn vectors<S: Simd>(numbers: &[Self]) -> &[Self] {
        numbers
    }

    fn vectors_mut<S: Simd>(numbers: &mut [Self]) -> &mut [Self] {
        numbers
    }

    fn multiply_add<S: Simd>(_: S, a: Self, b: Self, c: Self) -> Self {
        a.mul_add(b, c)
    }

    fn sigmoid(self) -> Self {
        1.0 / (1.0 + (-self).exp())
    }

    fn tanh(self) -> Self {
        f64::tanh(self)
    }
}
