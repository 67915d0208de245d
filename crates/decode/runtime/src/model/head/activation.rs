//! Functions of single values between the layers of a chain.

use super::arithmetic::{exponential, sigmoid, tanh};

/// A function of each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    /// max(x, 0)
    Relu,
    /// tanh x
    Tanh,
    /// 1/(1 + e^−x)
    Sigmoid,
    /// x/(1 + |x|)
    Softsign,
    /// x/(1 + e^−x)
    Silu,
    /// x·(1 + erf(x/√2))/2
    Gelu,
    /// x for x > 0, else e^x − 1
    Elu,
}

impl Activation {
    /// In the order of their numbers in a model file.
    pub(super) const ALL: [Self; 7] = [
        Self::Relu,
        Self::Tanh,
        Self::Sigmoid,
        Self::Softsign,
        Self::Silu,
        Self::Gelu,
        Self::Elu,
    ];

    /// The function's value at `x`.
    #[inline]
    pub(super) fn of(self, x: f32) -> f32 {
        match self {
            Self::Relu => x.max(0.0),
            Self::Tanh => tanh(x),
            Self::Sigmoid => sigmoid(x),
            Self::Softsign => x / (1.0 + x.abs()),
            Self::Silu => x * sigmoid(x),
            Self::Gelu => gelu(x),
            Self::Elu if x > 0.0 => x,
            Self::Elu => exponential(x) - 1.0,
        }
    }
}

/// erf by Abramowitz and Stegun 7.1.26, to 1.5e-7.
fn gelu(x: f32) -> f32 {
    let y = x.abs() * core::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * f64::from(y));
    let mut tail = 1.061_405_429;
    for next in [-1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592] {
        tail = tail * t + next;
    }
    // Half of 1 − erf y.
    let tail = 0.5 * tail * t * f64::from(exponential(-y * y));
    let part = if x > 0.0 { 1.0 - tail } else { tail };
    (f64::from(x) * part) as f32
}
