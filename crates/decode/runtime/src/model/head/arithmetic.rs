//! The inner loops of the heads: cosines, exponentials, sums of rows, dot products.
//!
//! Each loop is plain Rust over slices, multiplied and added apart (never fused), and what is summed is
//! summed in an order that no vector width changes. So the copies compiled for wider vectors give the same
//! bits as the baseline, and a recording decodes alike on every processor.

use crate::width::for_every_width;
use alloc::vec::Vec;

pub(super) use crate::width::Width;

for_every_width! {
    /// `sum[j] += Σ_k factors[k]·rows[k, j]`, k ascending for each j.
    fn add_rows(sum: &mut [f32], factors: &[f32], rows: &[f32]) {
        sum_rows(sum, factors, rows);
    }
}

/// Lanes of two bfloat16 vectors that lie side by side in one vector of words.
const PACKED: usize = 32;

/// Lanes of a block of packed rows, whose sums stay in registers; the last block may be half as wide.
const PACKED_BLOCK: usize = 2 * PACKED;

/// `rows`, each of `length`, as bfloat16 (the upper half of an f32): word i of 16 has lane i in its lower half and lane
/// i + 16 in its upper one. The rows of a block of lanes lie together, so that memory is read in its order. `None` if a
/// value is no bfloat16, or rows are no whole vectors of 32.
pub(super) fn pack(rows: &[f32], length: usize) -> Option<Vec<u32>> {
    let is_short = |value: &f32| value.to_bits() & 0xFFFF == 0;
    if length == 0 || !length.is_multiple_of(PACKED) || !rows.iter().all(is_short) {
        return None;
    }
    let mut words = Vec::with_capacity(rows.len() / 2);
    for at in (0..length).step_by(PACKED_BLOCK) {
        let block = at..length.min(at + PACKED_BLOCK);
        for row in rows.chunks_exact(length) {
            for lanes in row[block.clone()].chunks_exact(PACKED) {
                let (low, high) = lanes.split_at(PACKED / 2);
                let pair = |(low, high): (&f32, &f32)| low.to_bits() >> 16 | high.to_bits();
                words.extend(low.iter().zip(high).map(pair));
            }
        }
    }
    Some(words)
}

for_every_width! {
    /// [`add_rows`] of rows that are [packed](pack): the same sums to the bit, from half the memory.
    fn add_packed_rows(sum: &mut [f32], factors: &[f32], rows: &[u32]) {
        let mut rows = rows;
        for block in sum.chunks_mut(PACKED_BLOCK) {
            let (own, rest) = rows.split_at(factors.len() * block.len() / 2);
            rows = rest;
            match block.len() {
                PACKED_BLOCK => add_packed_block::<2>(block, factors, own),
                _ => add_packed_block::<1>(block, factors, own),
            }
        }
    }
}

/// `BLOCKS` × 32 sums, over the rows of one block.
#[inline(always)]
fn add_packed_block<const BLOCKS: usize>(sum: &mut [f32], factors: &[f32], rows: &[u32]) {
    const HALF: usize = PACKED / 2;
    let (sums, _) = sum.as_chunks_mut::<HALF>();
    // In two lists, which stay in registers.
    let mut low = [[0.0; HALF]; BLOCKS];
    let mut high = [[0.0; HALF]; BLOCKS];
    for (b, pair) in sums.chunks_exact(2).take(BLOCKS).enumerate() {
        (low[b], high[b]) = (pair[0], pair[1]);
    }
    let (rows, _) = rows.as_chunks::<HALF>();
    let (rows, _) = rows.as_chunks::<BLOCKS>();
    for (&factor, row) in factors.iter().zip(rows) {
        for (b, words) in row.iter().enumerate() {
            for (sum, word) in low[b].iter_mut().zip(words) {
                *sum += factor * f32::from_bits(word << 16);
            }
            for (sum, word) in high[b].iter_mut().zip(words) {
                *sum += factor * f32::from_bits(word & 0xFFFF_0000);
            }
        }
    }
    for (b, pair) in sums.chunks_exact_mut(2).take(BLOCKS).enumerate() {
        (pair[0], pair[1]) = (low[b], high[b]);
    }
}

/// Lanes of four vectors of bytes that lie side by side in one vector of words.
#[cfg(feature = "layers")]
const BYTES: usize = 64;

/// Rows of whole numbers of −127 to 127, times one scale per column.
#[cfg(feature = "layers")]
#[derive(Debug, Clone)]
pub(super) struct ByteRows {
    /// Word i of 16 has the lanes i, i + 16, i + 32 and i + 48 of a block, from its lowest byte up. The rows of a block lie
    /// together.
    words: Vec<u32>,
    scales: Vec<f32>,
}

#[cfg(feature = "layers")]
impl ByteRows {
    /// `rows`, each of `length`; `None` if a value is not exactly such a product, or rows are no whole vectors of 64. The
    /// largest absolute value of a column counts 127.
    pub(super) fn new(rows: &[f32], length: usize) -> Option<Self> {
        if length == 0 || rows.is_empty() || !length.is_multiple_of(BYTES) {
            return None;
        }
        let mut scales = vec![0.0f32; length];
        for row in rows.chunks_exact(length) {
            let pairs = scales.iter_mut().zip(row);
            pairs.for_each(|(most, value)| *most = most.max(value.abs()));
        }
        scales.iter_mut().for_each(|most| *most /= 127.0);
        let byte = |value: f32, scale: f32| {
            let whole = match scale > 0.0 {
                true => (value / scale + ROUND) - ROUND,
                false => 0.0,
            };
            (whole * scale == value).then_some(whole as i8 as u8)
        };
        let mut words = vec![0u32; rows.len() / 4];
        let count = rows.len() / length;
        for (r, row) in rows.chunks_exact(length).enumerate() {
            for (lane, (&value, &scale)) in row.iter().zip(&scales).enumerate() {
                let (block, lane) = (lane / BYTES, lane % BYTES);
                let word = &mut words[(block * count + r) * (BYTES / 4) + lane % (BYTES / 4)];
                *word |= u32::from(byte(value, scale)?) << (lane / (BYTES / 4) * 8);
            }
        }
        Some(Self { words, scales })
    }

    /// [`add_rows`] of these rows: the same sums to the bit, from a quarter of the memory.
    pub(super) fn add(&self, width: Width, sum: &mut [f32], factors: &[f32]) {
        add_byte_rows(width, sum, factors, &self.words, &self.scales);
    }
}

#[cfg(feature = "layers")]
for_every_width! {
    /// The sums of [`ByteRows::add`].
    fn add_byte_rows(sum: &mut [f32], factors: &[f32], words: &[u32], scales: &[f32]) {
        const QUARTER: usize = BYTES / 4;
        let (words, _) = words.as_chunks::<QUARTER>();
        let (scales, _) = scales.as_chunks::<QUARTER>();
        let (scales, _) = scales.as_chunks::<4>();
        let (sums, _) = sum.as_chunks_mut::<QUARTER>();
        let (sums, _) = sums.as_chunks_mut::<4>();
        let blocks = sums.iter_mut().zip(scales);
        for ((sums, scales), rows) in blocks.zip(words.chunks_exact(factors.len().max(1))) {
            // In lists of their own, which stay in registers.
            let [mut a, mut b, mut c, mut d] = *sums;
            for (&factor, words) in factors.iter().zip(rows) {
                add_quarter::<24>(&mut a, factor, words, &scales[0]);
                add_quarter::<16>(&mut b, factor, words, &scales[1]);
                add_quarter::<8>(&mut c, factor, words, &scales[2]);
                add_quarter::<0>(&mut d, factor, words, &scales[3]);
            }
            *sums = [a, b, c, d];
        }
    }
}

/// Adds one byte of each word, which `UP` bits to the left is the highest one, times its scale and `factor`.
#[cfg(feature = "layers")]
#[inline(always)]
fn add_quarter<const UP: u32>(
    sums: &mut [f32; BYTES / 4],
    factor: f32,
    words: &[u32; BYTES / 4],
    scales: &[f32; BYTES / 4],
) {
    for lane in 0..BYTES / 4 {
        let byte = (words[lane] << UP).cast_signed() >> 24;
        sums[lane] += factor * (byte as f32 * scales[lane]);
    }
}

for_every_width! {
    /// As [`add_rows`], then the cosine of each sum, in turns.
    fn cosines_of_rows(sum: &mut [f32], factors: &[f32], rows: &[f32]) {
        sum_rows(sum, factors, rows);
        sum.iter_mut().for_each(|u| *u = cosine(*u));
    }
}

for_every_width! {
    /// As [`add_rows`], then the softmax of the sums.
    fn softmax_of_rows(sum: &mut [f32], factors: &[f32], rows: &[f32]) {
        sum_rows(sum, factors, rows);
        let highest = sum.iter().fold(f32::NEG_INFINITY, |m, s| m.max(*s));
        sum.iter_mut().for_each(|s| *s = exponential(*s - highest));
        let total: f32 = sum.iter().sum();
        let factor = 1.0 / total;
        sum.iter_mut().for_each(|s| *s *= factor);
    }
}

for_every_width! {
    /// `out[c] += rows[c, ..]·values`: 16 partial sums, then pairs of them. Rows are as long as `values`,
    /// a multiple of 16.
    fn add_dots(out: &mut [f64], rows: &[f32], values: &[f32]) {
        let (values, _) = values.as_chunks::<16>();
        let (rows, _) = rows.as_chunks::<16>();
        if values.is_empty() {
            return;
        }
        for (out, row) in out.iter_mut().zip(rows.chunks_exact(values.len())) {
            let mut partial = [0.0f32; 16];
            for (a, b) in row.iter().zip(values) {
                for i in 0..16 {
                    partial[i] += a[i] * b[i];
                }
            }
            for half in [8, 4, 2, 1] {
                for i in 0..half {
                    partial[i] += partial[i + half];
                }
            }
            *out += f64::from(partial[0]);
        }
    }
}

/// In blocks of 64 sums, which stay in registers while the rows pass.
#[inline(always)]
fn sum_rows(sum: &mut [f32], factors: &[f32], rows: &[f32]) {
    let length = sum.len();
    let (blocks, rest) = sum.as_chunks_mut::<64>();
    let done = blocks.len() * 64;
    for (i, block) in blocks.iter_mut().enumerate() {
        let mut own = *block;
        for (&factor, row) in factors.iter().zip(rows.chunks_exact(length)) {
            let row = &row[i * 64..][..64];
            for (sum, value) in own.iter_mut().zip(row) {
                *sum += factor * value;
            }
        }
        *block = own;
    }
    if rest.is_empty() {
        return;
    }
    for (&factor, row) in factors.iter().zip(rows.chunks_exact(length)) {
        for (sum, value) in rest.iter_mut().zip(&row[done..]) {
            *sum += factor * value;
        }
    }
}

/// 1.5·2²³: adding and taking it off rounds an f32 below 2²² to the nearest integer, ties to even.
const ROUND: f32 = 12_582_912.0;

/// cos(2π·u) for |u| ≤ 2²⁰, to 1e-6: 1 − 2·sin²(π·r) with u = n + r, sin by an odd polynomial (Chebyshev
/// interpolation on |r| ≤ 1/2; without rounding the error is 3e-8).
#[inline(always)]
fn cosine(u: f32) -> f32 {
    let r = u - ((u + ROUND) - ROUND);
    let y = r * r;
    let mut sine = 0.077_655_91;
    sine = sine * y - 0.598_290_4;
    sine = sine * y + 2.550_077_4;
    sine = sine * y - 5.167_71;
    sine = sine * y + core::f32::consts::PI;
    sine *= r;
    1.0 - 2.0 * (sine * sine)
}

/// e^x for x ≤ 0, to 2e-7 of itself; 0 below e^−87.
#[inline(always)]
pub(super) fn exponential(x: f32) -> f32 {
    let powers = (x * core::f32::consts::LOG2_E).max(-127.0);
    let shifted = powers + ROUND;
    let r = powers - (shifted - ROUND);
    let mut value = 1.546_144_4e-4;
    value = value * r + 1.340_042_8e-3;
    value = value * r + 9.618_057e-3;
    value = value * r + 5.550_327e-2;
    value = value * r + 2.402_265e-1;
    value = value * r + 6.931_472e-1;
    value = value * r + 1.0;
    // The low bits of `shifted` are the integer itself; −127 makes the exponent's bits, and so 2^n, zero.
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits());
    value * f32::from_bits(exponent.wrapping_add(127) << 23)
}

/// The logistic function 1/(1 + e^−x), to 2e-7.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let tail = exponential(-x.abs());
    let numerator = if x >= 0.0 { 1.0 } else { tail };
    numerator / (1.0 + tail)
}

/// The hyperbolic tangent, to 3e-7.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let tail = exponential(-2.0 * x.abs());
    ((1.0 - tail) / (1.0 + tail)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from −1 to 1.
    fn random(mut state: u32) -> impl FnMut() -> f32 {
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        }
    }

    #[test]
    fn packed_rows_add_the_bits_of_single_ones_at_every_width() {
        let mut random = random(5);
        for columns in [32, 64, 96, 192, 320] {
            let mut rows: Vec<f32> = (0..9 * columns).map(|_| random()).collect();
            assert!(pack(&rows, columns).is_none());
            let round = |v: &mut f32| *v = f32::from_bits(v.to_bits() & 0xFFFF_0000);
            rows.iter_mut().for_each(round);
            assert!(pack(&rows, columns + 16).is_none());
            let packed = pack(&rows, columns).unwrap();
            let factors: Vec<f32> = (0..9).map(|_| random()).collect();
            let start: Vec<f32> = (0..columns).map(|_| random()).collect();
            let mut expected = start.clone();
            add_rows(Width::Baseline, &mut expected, &factors, &rows);
            for width in widths() {
                let mut sum = start.clone();
                add_packed_rows(width, &mut sum, &factors, &packed);
                assert_eq!(sum, expected, "{columns} columns, {width:?}");
            }
        }
    }

    #[cfg(feature = "layers")]
    #[test]
    fn rows_of_bytes_add_the_bits_of_single_ones_at_every_width() {
        let mut random = random(7);
        for columns in [64, 128, 192, 576] {
            // Scales of 16 bits make every product exact; the last column is zeros.
            let scales: Vec<f32> = (1..=columns)
                .map(|_| f32::from_bits((0.01 + random().abs()).to_bits() & !0xFF))
                .collect();
            let mut rows = Vec::new();
            for row in 0..9 {
                let whole = |v: f32| {
                    if row == 4 {
                        -127.0
                    } else {
                        (127.0 * v).round()
                    }
                };
                rows.extend(scales.iter().map(|scale| whole(random()) * scale));
                *rows.last_mut().unwrap() = 0.0;
            }
            let packed = ByteRows::new(&rows, columns).unwrap();
            let factors: Vec<f32> = (0..9).map(|_| random()).collect();
            let start: Vec<f32> = (0..columns).map(|_| random()).collect();
            let mut expected = start.clone();
            add_rows(Width::Baseline, &mut expected, &factors, &rows);
            for width in widths() {
                let mut sum = start.clone();
                packed.add(width, &mut sum, &factors);
                assert_eq!(sum, expected, "{columns} columns, {width:?}");
            }
            rows[3] += 1e-3;
            assert!(ByteRows::new(&rows, columns).is_none());
            assert!(ByteRows::new(&rows, columns - 1).is_none());
        }
    }

    #[test]
    fn sigmoid_and_tanh_are_close() {
        for i in -300_000..=300_000 {
            let x = i as f32 * 4.1e-4;
            let truth = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid(x)) - truth).abs() < 2e-7, "σ({x})");
            let truth = f64::from(x).tanh();
            assert!((f64::from(tanh(x)) - truth).abs() < 3e-7, "tanh {x}");
        }
        for (x, low, high) in [(f32::INFINITY, 1.0, 1.0), (f32::NEG_INFINITY, 0.0, -1.0)] {
            assert_eq!((sigmoid(x), tanh(x)), (low, high));
        }
        assert!(sigmoid(f32::NAN).is_finite());
    }

    fn widths() -> Vec<Width> {
        let mut widths = vec![Width::Baseline];
        #[cfg(target_arch = "x86_64")]
        match Width::detect() {
            Width::Avx512 => widths.extend([Width::Avx2, Width::Avx512]),
            Width::Avx2 => widths.push(Width::Avx2),
            Width::Baseline => {}
        }
        widths
    }

    /// Reassociated, the exponential becomes a staircase with which a network still trains; scores do not show it.
    #[test]
    fn cosine_and_exponential_are_close() {
        for i in -400_000..=400_000 {
            let u = i as f32 * 1.7e-4;
            let truth = (core::f64::consts::TAU * f64::from(u)).cos();
            assert!((f64::from(cosine(u)) - truth).abs() < 1e-6, "cos 2π·{u}");
            let x = -(i as f32).abs() * 2.1e-4;
            let truth = f64::from(x).exp();
            // The argument's own rounding counts |x|·6e-8.
            let tolerance = truth * (2e-7 + 1.3e-7 * f64::from(x.abs())) + 1e-37;
            let got = f64::from(exponential(x));
            assert!((got - truth).abs() <= tolerance, "e^{x}: {got} {truth}");
        }
        assert_eq!(exponential(f32::MIN), 0.0);
        assert_eq!(exponential(0.0), 1.0);
    }

    /// Bit for bit: the order of a sum does not depend on the processor.
    #[test]
    fn every_width_gives_the_same_bits() {
        let mut random = random(1);
        for (terms, length) in [(1, 16), (12, 256), (24, 24), (13, 272), (3, 80)] {
            let factors: Vec<f32> = (0..terms).map(|_| random()).collect();
            let rows: Vec<f32> = (0..terms * length).map(|_| random()).collect();
            let start: Vec<f32> = (0..length).map(|_| random()).collect();
            for function in [add_rows, cosines_of_rows, softmax_of_rows] {
                let results: Vec<Vec<f32>> = (widths().into_iter())
                    .map(|width| {
                        let mut sum = start.clone();
                        function(width, &mut sum, &factors, &rows);
                        sum
                    })
                    .collect();
                assert!(results.iter().all(|r| *r == results[0]), "{terms}×{length}");
            }
            let mut plain: Vec<f64> = start.iter().map(|s| f64::from(*s)).collect();
            for (j, sum) in plain.iter_mut().enumerate() {
                for k in 0..terms {
                    *sum += f64::from(factors[k]) * f64::from(rows[k * length + j]);
                }
            }
            let mut sum = start.clone();
            add_rows(Width::Baseline, &mut sum, &factors, &rows);
            for (got, expected) in sum.iter().zip(&plain) {
                assert!((f64::from(*got) - expected).abs() < 1e-5);
            }
            if length % 16 == 0 {
                let dots: Vec<Vec<f64>> = (widths().into_iter())
                    .map(|width| {
                        let mut out = vec![0.5; terms];
                        add_dots(width, &mut out, &rows, &start);
                        out
                    })
                    .collect();
                assert!(dots.iter().all(|d| *d == dots[0]));
                for (k, got) in dots[0].iter().enumerate() {
                    let row = &rows[k * length..][..length];
                    let truth: f64 = (row.iter().zip(&start))
                        .map(|(a, b)| f64::from(*a) * f64::from(*b))
                        .sum();
                    assert!((got - 0.5 - truth).abs() < 1e-4);
                }
            }
        }
    }
}
