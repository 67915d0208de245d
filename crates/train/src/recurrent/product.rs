//! Products of small matrices on one thread.
//!
//! Each number of a product is one sum in the order of k, by fused multiply-adds, whatever the tile that it was
//! computed in: a network comes out with the same bits on every processor.

use super::real::Real;
use pulp::{Arch, Simd, WithSimd};

/// Rows of B that are gone through at a time: what a strip of them takes stays in the second cache.
const DEPTH: usize = 256;

/// Columns that a product must have a multiple of.
pub(super) const COLUMNS: usize = 16;

/// The left factor of a product, row-major in memory with rows of `stride` numbers.
#[derive(Clone, Copy)]
pub(super) enum Left<'a, T> {
    /// A itself.
    Plain(&'a [T], usize),
    /// The matrix of which A is the transpose.
    Transposed(&'a [T], usize),
}

impl<'a, T> Left<'a, T> {
    /// A without its first `rows` rows and `depth` columns.
    #[inline(always)]
    fn from(self, rows: usize, depth: usize) -> Self {
        match self {
            Self::Plain(a, stride) => Self::Plain(&a[rows * stride + depth..], stride),
            Self::Transposed(a, stride) => Self::Transposed(&a[depth * stride + rows..], stride),
        }
    }
}

/// C ← A·B, or C ← C + A·B: A of (`rows`, `depth`), B and C row-major with `columns` columns.
pub(super) struct Product<'a, T> {
    pub(super) rows: usize,
    pub(super) depth: usize,
    /// A multiple of [`COLUMNS`].
    pub(super) columns: usize,
    pub(super) left: Left<'a, T>,
    pub(super) right: &'a [T],
    pub(super) to: &'a mut [T],
    /// Whether the product is added to what `to` holds.
    pub(super) add: bool,
}

impl<T: Real> Product<'_, T> {
    pub(super) fn compute(self, arch: Arch) {
        debug_assert!(self.columns.is_multiple_of(COLUMNS));
        arch.dispatch(self);
    }
}

impl<T: Real> WithSimd for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        if self.depth == 0 && !self.add {
            self.to[..self.rows * self.columns].fill(T::default());
        }
        // A tile's sums fill the registers: 24 of 32, or 12 of 16.
        if S::F32_LANES == 16 {
            self.in_strips::<64>();
        } else {
            self.in_strips::<16>();
        }
    }
}

impl<T: Real> Product<'_, T> {
    #[inline(always)]
    fn in_strips<const WIDE: usize>(self) {
        let columns = self.columns;
        for first in (0..self.depth).step_by(DEPTH) {
            let depth = DEPTH.min(self.depth - first);
            let right = &self.right[first * columns..];
            let (left, add) = (self.left.from(0, first), self.add || first > 0);
            let wide = columns - columns % WIDE;
            for column in (0..wide).step_by(WIDE) {
                let (right, to) = (&right[column..], &mut self.to[column..]);
                strip::<T, WIDE>((self.rows, depth, columns), left, right, to, add);
            }
            for column in (wide..columns).step_by(COLUMNS) {
                let (right, to) = (&right[column..], &mut self.to[column..]);
                strip::<T, COLUMNS>((self.rows, depth, columns), left, right, to, add);
            }
        }
    }
}

#[inline(always)]
fn strip<T: Real, const WIDTH: usize>(
    (rows, depth, columns): (usize, usize, usize),
    left: Left<'_, T>,
    right: &[T],
    to: &mut [T],
    add: bool,
) {
    let mut row = 0;
    while row + 6 <= rows {
        let to = &mut to[row * columns..];
        tile::<T, 6, WIDTH>((depth, columns), left.from(row, 0), right, to, add);
        row += 6;
    }
    while row < rows {
        let to = &mut to[row * columns..];
        tile::<T, 1, WIDTH>((depth, columns), left.from(row, 0), right, to, add);
        row += 1;
    }
}

#[inline(always)]
fn tile<T: Real, const ROWS: usize, const WIDTH: usize>(
    (depth, columns): (usize, usize),
    left: Left<'_, T>,
    right: &[T],
    to: &mut [T],
    add: bool,
) {
    let mut sums = [[T::default(); WIDTH]; ROWS];
    if add {
        for (sums, to) in sums.iter_mut().zip(to.chunks(columns)) {
            sums.copy_from_slice(&to[..WIDTH]);
        }
    }
    match left {
        Left::Plain(a, stride) => {
            let rows: [&[T]; ROWS] = std::array::from_fn(|i| &a[i * stride..][..depth]);
            for k in 0..depth {
                let Some(right) = right[k * columns..].first_chunk::<WIDTH>() else {
                    return;
                };
                for (sums, row) in sums.iter_mut().zip(&rows) {
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = row[k].multiply_add(*right, *sum);
                    }
                }
            }
        }
        Left::Transposed(a, stride) => {
            for k in 0..depth {
                let Some(right) = right[k * columns..].first_chunk::<WIDTH>() else {
                    return;
                };
                let Some(left) = a[k * stride..].first_chunk::<ROWS>() else {
                    return;
                };
                for (sums, left) in sums.iter_mut().zip(left) {
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = left.multiply_add(*right, *sum);
                    }
                }
            }
        }
    }
    for (sums, to) in sums.iter().zip(to.chunks_mut(columns)) {
        to[..WIDTH].copy_from_slice(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archs() -> Vec<Arch> {
        let mut archs = vec![Arch::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            archs.extend(pulp::x86::V3::try_new().map(Arch::V3));
            archs.extend(pulp::x86::V4::try_new().map(Arch::V4));
        }
        archs
    }

    #[test]
    fn products_are_those_of_plain_loops_and_alike_on_every_processor() {
        let mut state = 7u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        for (rows, depth, columns) in [(1, 1, 16), (7, 300, 80), (13, 5, 64), (6, 0, 16), (20, 64, 192)] {
            let a: Vec<f32> = (0..rows * depth + 8).map(|_| random()).collect();
            let b: Vec<f32> = (0..depth * columns).map(|_| random()).collect();
            let start: Vec<f32> = (0..rows * columns).map(|_| random()).collect();
            for add in [false, true] {
                for transposed in [false, true] {
                    let at = |i: usize, k: usize| match transposed {
                        true => a[k * rows + i],
                        false => a[i * depth + k],
                    };
                    let mut plain: Vec<f32> = start.clone();
                    for (i, row) in plain.chunks_mut(columns).enumerate() {
                        for (j, sum) in row.iter_mut().enumerate() {
                            *sum = if add { *sum } else { 0.0 };
                            for k in 0..depth {
                                *sum = at(i, k).mul_add(b[k * columns + j], *sum);
                            }
                        }
                    }
                    for arch in archs() {
                        let mut to = start.clone();
                        Product {
                            rows,
                            depth,
                            columns,
                            left: match transposed {
                                true => Left::Transposed(&a, rows),
                                false => Left::Plain(&a, depth),
                            },
                            right: &b,
                            to: &mut to,
                            add,
                        }
                        .compute(arch);
                        assert_eq!(to, plain, "{rows} {depth} {columns} {add} {transposed}");
                    }
                }
            }
        }
    }
}
