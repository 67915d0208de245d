//! A·B of matrices in host memory, in blocks that fit the device (CUSUMMA, [`partition`]).
//!
//! [`partition`]: crate::partition

use rayon::prelude::*;

use super::context::Context;
use super::feed::{FEED_PIECES, Feed};
use super::memory::Buffer;
use super::pinned::PinnedBuffer;
use crate::matrix::{Precision, ProductShape};
use crate::partition::{ProductPlan, plan_product};
use betz_base::error::{Error, ErrorKind, Result};

/// Bytes that buffers are rounded up by, together.
const FIXED_BYTES: u64 = 64 << 10;

/// Longest sum that is made in one product where there is a choice.
const MOST_LENGTH: u64 = 8192;

/// Host memory that the last product left for the next.
#[derive(Default)]
struct ProductStaging(Vec<PinnedBuffer<f32>>);

impl Context {
    /// A·B in f32: A of m × k, B of k × n, the result m × n, all row-major without gaps in host memory.
    ///
    /// Sums are in f32, over at most 8,192 terms in one product and then block after block; with
    /// [`Precision::Tf32`] the factors are rounded to 11 bits. Two runs give the same bits on the same
    /// device with the same memory cap. Blocks of the factors are copied while the device computes with
    /// those before.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] when the factors do not have those sizes, [`ErrorKind::InvalidArgument`]
    /// when a side is zero; [`ErrorKind::DeviceMemory`], naming the smallest that works, when the
    /// memory cap is too small; those of the device.
    pub fn product(
        &self,
        shape: ProductShape,
        a: &[f32],
        b: &[f32],
        precision: Precision,
    ) -> Result<Vec<f32>> {
        let ProductShape { m, n, k } = shape;
        if (Some(a.len()), Some(b.len())) != (m.checked_mul(k), k.checked_mul(n)) {
            return Err(Error::mismatch(format!(
                "product: expected factors of {m} × {k} and {k} × {n}, got {} and {} values",
                a.len(),
                b.len()
            )));
        }
        let plan = plan(m, n, k, self.available_memory()?)?;
        let (rows, columns) = (plan.m_max as usize, plan.n_max as usize);
        let length = plan.k_max as usize;
        let mut staging = self.take_slot::<ProductStaging>();
        let mut left = Feed::new(self, rows * length, &mut staging.0)?;
        let mut right = Feed::new(self, length * columns, &mut staging.0)?;
        let mut block: Buffer<f32> = self.alloc(rows * columns)?;
        let mut product = vec![0.0; m * n];
        for i in (0..m).step_by(rows) {
            let rows = i..m.min(i + rows);
            for j in (0..n).step_by(columns) {
                let columns = j..n.min(j + columns);
                for l in (0..k).step_by(length) {
                    let terms = l..k.min(l + length);
                    left.send(rows.len() * terms.len(), |target| {
                        pack(a, k, rows.start, terms.clone(), target);
                        Ok(())
                    })?;
                    right.send(terms.len() * columns.len(), |target| {
                        pack(b, n, terms.start, columns.clone(), target);
                        Ok(())
                    })?;
                    self.product_f32(
                        precision,
                        ProductShape {
                            m: rows.len(),
                            n: columns.len(),
                            k: terms.len(),
                        },
                        left.piece(),
                        right.piece(),
                        if l == 0 { 0.0 } else { 1.0 },
                        &mut block,
                    )?;
                    left.release()?;
                    right.release()?;
                }
                let width = columns.len();
                self.download_pieces(&block, rows.len() * width, |from, values| {
                    for (at, &value) in (from..).zip(values) {
                        product[(rows.start + at / width) * n + columns.start + at % width] = value;
                    }
                    Ok(())
                })?;
            }
        }
        left.keep(&mut staging.0);
        right.keep(&mut staging.0);
        self.put_slot(staging);
        Ok(product)
    }
}

/// The plan within `memory` bytes: operands are there [`FEED_PIECES`] times.
fn plan(m: usize, n: usize, k: usize, memory: u64) -> Result<ProductPlan> {
    // The planner counts every element once, so give it what holds even if all were operands.
    let elements = memory.saturating_sub(FIXED_BYTES) / (4 * FEED_PIECES as u64);
    let mut plan = plan_product(m as u64, n as u64, k as u64, elements).map_err(|e| {
        if e.kind() != ErrorKind::DeviceMemory {
            return e;
        }
        let least = FIXED_BYTES + 3 * 4 * FEED_PIECES as u64;
        Error::device_memory("product", least, memory)
    })?;
    plan.k_max = plan.k_max.min(MOST_LENGTH);
    Ok(plan)
}

/// Copies rows from `first` on, columns `columns`, of a matrix `width` wide.
fn pack(
    matrix: &[f32],
    width: usize,
    first: usize,
    columns: std::ops::Range<usize>,
    target: &mut [f32],
) {
    target
        .par_chunks_mut(columns.len())
        .enumerate()
        .with_min_len((1 << 16) / columns.len().max(1) + 1)
        .for_each(|(row, target)| {
            let start = (first + row) * width;
            target.copy_from_slice(&matrix[start + columns.start..start + columns.end]);
        });
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn plans_fit_and_the_smallest_is_named() {
        for (m, n, k) in [(1, 1, 1), (3, 500, 7), (2000, 1000, 40_000)] {
            let error = plan(m, n, k, 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeviceMemory);
            let least = FIXED_BYTES + 24;
            assert_eq!(error.needed_bytes(), Some(least));
            for memory in [least, least + 100, 10 << 20, 4 << 30] {
                let plan = plan(m, n, k, memory).unwrap();
                let operands = (plan.m_max + plan.n_max) * plan.k_max * FEED_PIECES as u64;
                let bytes = 4 * (operands + plan.m_max * plan.n_max) + FIXED_BYTES;
                assert!(bytes <= memory, "{plan:?}, {memory}");
            }
        }
    }

    /// Against sums in f64, whole and cut down to a few kilobytes.
    #[test]
    fn products_equal_sums_in_f64_under_any_cap() {
        let Ok(context) = Context::open(0) else {
            eprintln!("product: skipped: no CUDA device");
            return;
        };
        struct CapLifted<'a>(&'a Context);
        impl Drop for CapLifted<'_> {
            fn drop(&mut self) {
                self.0.set_memory_cap(None);
            }
        }
        let _uncapped = CapLifted(&context);
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        for (m, n, k) in [
            (1, 1, 1),
            (5, 3, 2),
            (64, 96, 300),
            (130, 1, 9000),
            (77, 201, 1025),
        ] {
            let mut values =
                |len| -> Vec<f32> { (0..len).map(|_| rng.random::<f32>() - 0.3).collect() };
            let (a, b) = (values(m * k), values(k * n));
            for (cap, precision, tolerance) in [
                (None, Precision::F32, 2e-6),
                (Some(FIXED_BYTES + 4000), Precision::F32, 2e-6),
                (Some(FIXED_BYTES + 200_000), Precision::F32, 2e-6),
                (Some(FIXED_BYTES + 200_000), Precision::Tf32, 2e-3),
            ] {
                context.set_memory_cap(cap);
                let run = || {
                    context
                        .product(ProductShape { m, n, k }, &a, &b, precision)
                        .unwrap()
                };
                let got = run();
                assert_eq!(got, run(), "not the same bits twice");
                for i in 0..m {
                    for j in 0..n {
                        let (mut sum, mut size) = (0.0f64, 0.0f64);
                        for l in 0..k {
                            let term = f64::from(a[i * k + l]) * f64::from(b[l * n + j]);
                            sum += term;
                            size += term.abs();
                        }
                        let error = (f64::from(got[i * n + j]) - sum).abs() / size.max(1e-30);
                        assert!(error <= tolerance, "{m} {n} {k} {cap:?}: {error:e}");
                    }
                }
            }
        }
        context.set_memory_cap(Some(1000));
        let error = context.product(
            ProductShape { m: 1, n: 1, k: 1 },
            &[1.0],
            &[2.0],
            Precision::F32,
        );
        assert_eq!(error.unwrap_err().kind(), ErrorKind::DeviceMemory);
        context.set_memory_cap(None);
        let product = context.product(
            ProductShape { m: 1, n: 1, k: 1 },
            &[1.0],
            &[2.0],
            Precision::F32,
        );
        assert_eq!(product.unwrap(), [2.0]);
        assert!(
            context
                .product(
                    ProductShape { m: 2, n: 1, k: 1 },
                    &[1.0],
                    &[2.0],
                    Precision::F32
                )
                .is_err()
        );
    }
}
