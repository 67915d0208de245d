//! Elementary functions with the same bits on every system: those of the crate `libm`, compiled with Betz. A system's own library
//! differs from another's in the last bit of some results (`exp` of Windows and of glibc in one of a thousand arguments).
//!
//! Steps, models and training use these; what only people read may use the system's.

/// The base of the natural logarithm to the power of `x`.
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// 2 to the power of `x`.
pub fn exp2(x: f64) -> f64 {
    libm::exp2(x)
}

/// exp(`x`) − 1, exact near 0.
pub fn exp_m1(x: f64) -> f64 {
    libm::expm1(x)
}

/// The natural logarithm of `x`.
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// ln(1 + `x`), exact near 0.
pub fn ln_1p(x: f64) -> f64 {
    libm::log1p(x)
}

/// The logarithm of `x` to base 2.
pub fn log2(x: f64) -> f64 {
    libm::log2(x)
}

/// The logarithm of `x` to base 10.
pub fn log10(x: f64) -> f64 {
    libm::log10(x)
}

/// `x` to the power of `exponent`.
pub fn powf(x: f64, exponent: f64) -> f64 {
    libm::pow(x, exponent)
}

/// The sine of `x` radians.
pub fn sin(x: f64) -> f64 {
    libm::sin(x)
}

/// The cosine of `x` radians.
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

/// The tangent of `x` radians.
pub fn tan(x: f64) -> f64 {
    libm::tan(x)
}

/// The whole number nearest to `x`; halves go away from 0.
pub fn round_f32(x: f32) -> f32 {
    libm::roundf(x)
}

/// The methods of `f64` that `core` lacks and whose results are the same everywhere, for code without the standard library.
pub trait Float {
    /// The least whole number that is not below it.
    fn ceil(self) -> Self;
    /// The largest whole number that is not above it.
    fn floor(self) -> Self;
    /// Its power to a whole number.
    fn powi(self, exponent: i32) -> Self;
    /// The nearest whole number; halves go away from 0.
    fn round(self) -> Self;
    /// Its square root.
    fn sqrt(self) -> Self;
}

impl Float for f64 {
    fn ceil(self) -> Self {
        libm::ceil(self)
    }

    fn floor(self) -> Self {
        libm::floor(self)
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

    fn sqrt(self) -> Self {
        libm::sqrt(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_those_of_the_system_to_rounding() {
        // MinGW's powers are off by 1.5e-14.
        let most = if cfg!(windows) { 1e-13 } else { 1e-14 };
        let near = |own: f64, system: f64| {
            assert!(
                (own - system).abs() <= most * system.abs(),
                "{own} {system}"
            );
        };
        for i in 1..20_000 {
            let x = f64::from(i) * 0.003_7 - 30.0;
            near(exp(x), x.exp());
            near(exp2(x), x.exp2());
            near(exp_m1(x), x.exp_m1());
            near(sin(x), x.sin());
            near(cos(x), x.cos());
            near(tan(x), x.tan());
            let positive = f64::from(i) * 0.01;
            near(ln(positive), positive.ln());
            near(log2(positive), positive.log2());
            near(log10(positive), positive.log10());
            near(ln_1p(positive), positive.ln_1p());
            near(powf(positive, x), positive.powf(x));
        }
    }

    /// The bits of one build on every system: a sum over many arguments.
    #[test]
    fn bits_are_those_of_every_system() {
        let mut hash = crate::hash::Fnv1a::new();
        for i in 1..20_000 {
            let (x, positive) = (f64::from(i) * 0.003_7 - 30.0, f64::from(i) * 0.01);
            let values = [
                exp(x),
                exp2(x),
                exp_m1(x),
                sin(x),
                cos(x),
                tan(x),
                ln(positive),
                log2(positive),
                log10(positive),
                ln_1p(positive),
                powf(positive, x),
            ];
            values.iter().for_each(|value| hash.number(*value));
        }
        assert_eq!(hash.finish(), 0x17a7_bc1f_1826_6fe2);
    }
}
