//! Functions of f32 that are the same bits on every processor and device: multiply-adds, products and bit patterns only,
//! no system library. `kernels/spiking_math.cuh` has the same steps.

use std::hint::select_unpredictable as select;

/// Adding and taking away 1.5 · 2²³ rounds a number below 2²² to a whole one.
const ROUND: f32 = 12_582_912.0;

/// e^x, within 2 units in the last place; 0 below −87, e^88 above 88.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = select(x < -87.0, -87.0, x);
    let x = select(x > 88.0, 88.0, x);
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let whole = rounded - ROUND;
    // ln 2 in two parts, so that the rest is exact.
    let rest = whole.mul_add(-0.693_359_4, x);
    let rest = whole.mul_add(2.121_944_4e-4, rest);
    let mut p = 1.987_569_1e-4f32;
    p = p.mul_add(rest, 1.398_199_9e-3);
    p = p.mul_add(rest, 8.333_452e-3);
    p = p.mul_add(rest, 4.166_579_6e-2);
    p = p.mul_add(rest, 1.666_666_5e-1);
    p = p.mul_add(rest, 0.5);
    p = (p * rest).mul_add(rest, rest) + 1.0;
    let power = rounded.to_bits().wrapping_sub(ROUND.to_bits());
    p * f32::from_bits(power.wrapping_add(127) << 23)
}

/// cos x of an angle between −2π and 2π, within 10⁻⁶.
#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    // cos x = 1 − 2 sin²(x/2), and sin near its zeros is exact to the last digits.
    let half = 0.5 * x;
    let rounded = half.mul_add(std::f32::consts::FRAC_1_PI, ROUND);
    let whole = rounded - ROUND;
    let rest = whole.mul_add(-3.140_625, half);
    let rest = whole.mul_add(-9.676_536e-4, rest);
    let square = rest * rest;
    let mut p = 2.608_32e-6f32;
    p = p.mul_add(square, -1.981_069e-4);
    p = p.mul_add(square, 8.333_078e-3);
    p = p.mul_add(square, -1.666_666e-1);
    let sine = (p * square).mul_add(rest, rest);
    (sine * -2.0).mul_add(sine, 1.0)
}

/// x / (1 − e^(−x)), whose limit at 0 is 1.
#[inline(always)]
pub(crate) fn linoid(x: f32) -> f32 {
    let near = (x * (1.0 / 12.0)).mul_add(x, x.mul_add(0.5, 1.0));
    let far = x / (1.0 - exp(-x));
    select(x.abs() < 1e-2, near, far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_close_to_those_of_the_library() {
        for k in -8_700..=8_800 {
            let x = k as f32 * 0.01;
            let (got, exact) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((got / exact - 1.0).abs() < 2.5e-7, "{x}: {got} {exact}");
        }
        for k in -6_283..=6_283 {
            let x = k as f32 * 1e-3;
            let (got, exact) = (f64::from(cos(x)), f64::from(x).cos());
            assert!((got - exact).abs() < 1e-6, "{x}: {got} {exact}");
        }
        for k in -4_000..=4_000 {
            let x = k as f32 * 1e-2 + 1e-4;
            let wide = f64::from(x);
            let (got, exact) = (f64::from(linoid(x)), wide / -(-wide).exp_m1());
            assert!((got / exact - 1.0).abs() < 2e-5, "{x}: {got} {exact}");
        }
        assert_eq!((exp(-1e30), exp(0.0), linoid(0.0)), (exp(-87.0), 1.0, 1.0));
    }
}
