//! Products of small matrices on one thread.
//!
//! Each number of a product is one sum in the order of k, by fused multiply-adds, whatever the tile that it was
//! computed in: a network comes out with the same bits on every processor.

use super::real::Real;
use pulp::{Arch, Simd, WithSimd};

/// Rows of B that are gone through at a time: what a strip of them takes stays in the second cache.
const DEPTH: usize = 256;

/// Columns that a product must have a multiple of, and so units of a layer.
pub(crate) const COLUMNS: usize = 16;

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
    /// True if the product is added to the values in `to`.
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
    fn with_simd<S: Simd>(self, simd: S) {
        if self.depth == 0 && !self.add {
            self.to[..self.rows * self.columns].fill(T::default());
        }
        // The sums of a tile fill the registers: 24 of 32, or 12 of 16.
        if S::REGISTER_COUNT >= 32 {
            self.in_strips::<S, 4>(simd);
        } else {
            self.in_strips::<S, 2>(simd);
        }
    }
}

impl<T: Real> Product<'_, T> {
    #[inline(always)]
    fn in_strips<S: Simd, const WIDE: usize>(self, simd: S) {
        let columns = self.columns;
        let lanes = columns / T::vectors::<S>(&self.to[..columns]).len().max(1);
        for first in (0..self.depth).step_by(DEPTH) {
            let strip = Strip {
                rows: self.rows,
                depth: DEPTH.min(self.depth - first),
                columns,
                left: self.left.from(0, first),
                add: self.add || first > 0,
            };
            let right = &self.right[first * columns..];
            let wide = columns - columns % (WIDE * lanes);
            for column in (0..wide).step_by(WIDE * lanes) {
                strip.compute::<S, WIDE>(simd, &right[column..], &mut self.to[column..]);
            }
            for column in (wide..columns).step_by(lanes) {
                strip.compute::<S, 1>(simd, &right[column..], &mut self.to[column..]);
            }
        }
    }
}

/// Some columns of a product, over a part of its depth.
struct Strip<'a, T> {
    rows: usize,
    depth: usize,
    columns: usize,
    left: Left<'a, T>,
    add: bool,
}

impl<T: Real> Strip<'_, T> {
    /// `right` and `to` begin at the strip's first column.
    #[inline(always)]
    fn compute<S: Simd, const WIDTH: usize>(&self, simd: S, right: &[T], to: &mut [T]) {
        let mut row = 0;
        while row + 6 <= self.rows {
            self.tile::<S, 6, WIDTH>(simd, row, right, to);
            row += 6;
        }
        while row < self.rows {
            self.tile::<S, 1, WIDTH>(simd, row, right, to);
            row += 1;
        }
    }

    /// Arrays of known length throughout: a loop that is not unrolled keeps the sums in memory.
    #[inline(always)]
    fn tile<S: Simd, const ROWS: usize, const WIDTH: usize>(
        &self,
        simd: S,
        row: usize,
        right: &[T],
        to: &mut [T],
    ) {
        let mut sums = [[T::splat(simd, T::default()); WIDTH]; ROWS];
        let to = &mut to[row * self.columns..];
        if self.add {
            for (i, sums) in sums.iter_mut().enumerate() {
                let to = T::vectors::<S>(&to[i * self.columns..]);
                if let Some(to) = to.first_chunk::<WIDTH>() {
                    *sums = *to;
                }
            }
        }
        let (a, along, across) = match self.left.from(row, 0) {
            Left::Plain(a, stride) => (a, 1, stride),
            Left::Transposed(a, stride) => (a, stride, 1),
        };
        for k in 0..self.depth {
            let right = T::vectors::<S>(&right[k * self.columns..]);
            let (Some(right), a) = (right.first_chunk::<WIDTH>(), &a[k * along..]) else {
                return;
            };
            for (i, sums) in sums.iter_mut().enumerate() {
                let left = T::splat(simd, a[i * across]);
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = T::multiply_add(simd, left, *right, *sum);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            let to = T::vectors_mut::<S>(&mut to[i * self.columns..]);
            if let Some(to) = to.first_chunk_mut::<WIDTH>() {
                *to = *sums;
            }
        }
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
        for (rows, depth, columns) in [
            (1, 1, 16),
            (7, 300, 80),
            (13, 5, 64),
            (6, 0, 16),
            (20, 64, 192),
        ] {
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
