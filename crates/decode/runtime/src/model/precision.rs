//! Numbers that the matrices of networks are rounded to.

use alloc::vec;
use alloc::vec::Vec;
use betz_base::float;

/// Numbers that matrices are rounded to. What a step reads then is less; its arithmetic stays f32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WeightPrecision {
    /// float32
    #[default]
    F32,
    /// bfloat16: half the memory, if a matrix has a multiple of 32 columns.
    Bf16,
    /// Whole numbers of −127 to 127 times a scale per column: a quarter of the memory, if it has a multiple of 64 columns
    /// and the build has the feature `layers`.
    Int8,
}

impl WeightPrecision {
    /// `f32`, `bf16` or `int8`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }

    /// Rounds `matrix`, of rows of so many `columns`, to the nearest of these numbers.
    pub fn round(self, matrix: &mut [f32], columns: usize) {
        match self {
            Self::F32 => {}
            Self::Bf16 => matrix.iter_mut().for_each(|v| *v = to_bfloat16(*v)),
            Self::Int8 => to_bytes(matrix, columns.max(1)),
        }
    }
}

/// The nearest bfloat16 number, of two the even one.
fn to_bfloat16(value: f32) -> f32 {
    let bits = value.to_bits();
    let up = 0x7FFF + (bits >> 16 & 1);
    f32::from_bits(bits.wrapping_add(up) & 0xFFFF_0000)
}

/// Rounds to whole numbers of −127 to 127 times a scale per column.
fn to_bytes(matrix: &mut [f32], columns: usize) {
    let mut most = vec![0.0f32; columns];
    for row in matrix.chunks_exact(columns) {
        let pairs = most.iter_mut().zip(row);
        pairs.for_each(|(most, value)| *most = most.max(value.abs()));
    }
    // Of 16 bits, rounded up: products with whole numbers up to 127 are exact.
    let scale = |most: f32| {
        let bits = (most / 127.0).to_bits();
        f32::from_bits(bits.saturating_add(0xFF) & !0xFF)
    };
    let scales: Vec<f32> = most.into_iter().map(scale).collect();
    for row in matrix.chunks_exact_mut(columns) {
        for (value, &scale) in row.iter_mut().zip(&scales) {
            *value = match scale > 0.0 {
                true => float::round_f32(*value / scale).clamp(-127.0, 127.0) * scale,
                false => 0.0,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfloat16_is_the_nearest() {
        let (one, two) = (1.0, f32::from_bits(0x3F81_0000));
        for (value, expected) in [
            (one, one),
            (f32::from_bits(0x3F80_8000), one),
            (f32::from_bits(0x3F80_8001), two),
            (-f32::from_bits(0x3F80_FFFF), -two),
            (0.0, 0.0),
        ] {
            let mut matrix = [value];
            WeightPrecision::Bf16.round(&mut matrix, 1);
            assert_eq!(matrix, [expected]);
            WeightPrecision::F32.round(&mut matrix, 1);
            assert_eq!(matrix, [expected]);
        }
    }

    #[test]
    fn bytes_times_a_scale_are_near_and_use_their_range() {
        let matrix: Vec<f32> = (0..300).map(|i| (i * 37 % 101) as f32 - 50.3).collect();
        let mut rounded = matrix.clone();
        WeightPrecision::Int8.round(&mut rounded, 3);
        for column in 0..3 {
            let values = || matrix.iter().skip(column).step_by(3);
            let got = || rounded.iter().skip(column).step_by(3);
            let most = values().fold(0.0f32, |most, v| most.max(v.abs()));
            let scale = got().fold(0.0f32, |most, v| most.max(v.abs())) / 127.0;
            assert!((scale * 127.0 / most - 1.0).abs() < 2e-5);
            for (got, value) in got().zip(values()) {
                assert!((got - value).abs() <= 0.51 * scale);
                assert_eq!((got / scale).round() * scale, *got);
            }
        }
        let mut zeros = [0.0; 4];
        WeightPrecision::Int8.round(&mut zeros, 2);
        assert_eq!(zeros, [0.0; 4]);
    }
}
