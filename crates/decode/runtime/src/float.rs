//! Functions of floating-point numbers that `core` lacks. With the standard library they are methods of `f64`.

/// The functions that preparing a model, and variances, need. Results may differ from those of a system's library in the last
/// bit.
pub(crate) trait Float {
    fn ceil(self) -> Self;
    fn exp(self) -> Self;
    fn exp_m1(self) -> Self;
    fn floor(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn powf(self, exponent: Self) -> Self;
    fn powi(self, exponent: i32) -> Self;
    fn round(self) -> Self;
    fn sin(self) -> Self;
    fn sqrt(self) -> Self;
    fn tan(self) -> Self;
}

impl Float for f64 {
    fn ceil(self) -> Self {
        libm::ceil(self)
    }

    fn exp(self) -> Self {
        libm::exp(self)
    }

    fn exp_m1(self) -> Self {
        libm::expm1(self)
    }

    fn floor(self) -> Self {
        libm::floor(self)
    }

    fn ln(self) -> Self {
        libm::log(self)
    }

    fn ln_1p(self) -> Self {
        libm::log1p(self)
    }

    fn powf(self, exponent: Self) -> Self {
        libm::pow(self, exponent)
    }

    fn powi(self, exponent: i32) -> Self {
        // Squares in the order of the compiler's own function: the same bits.
        let (mut power, mut square, mut left) = (1.0, self, exponent.unsigned_abs());
        while left > 0 {
            if left % 2 == 1 {
                power *= square;
            }
            left /= 2;
            square *= square;
        }
        if exponent < 0 { 1.0 / power } else { power }
    }

    fn round(self) -> Self {
        libm::round(self)
    }

    fn sin(self) -> Self {
        libm::sin(self)
    }

    fn sqrt(self) -> Self {
        libm::sqrt(self)
    }

    fn tan(self) -> Self {
        libm::tan(self)
    }
}
