//! Products on CUDA devices, which share the blocks of C: the next block goes to whoever is free.
//!
//! Blocks of the factors are copied while a device computes with those before.

use std::sync::{Arc, Mutex};

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{Progress, Quiet};

use super::plan::MultiplyPlan;
use super::{Blocks, Product, Real, TakeBlock};
use crate::cuda::{Buffer, Context, FEED_PIECES, Feed, PinnedBuffer, Value};
use crate::matrix::{Precision, ProductShape, SecondFactor};

/// Bytes that buffers are rounded up by, together.
pub(super) const FIXED_BYTES: u64 = 64 << 10;

/// A number whose matrices are multiplied on a device.
pub trait DeviceReal: Value + Default {
    /// c ← a·b + beta·c, row-major: a is m × k.
    ///
    /// # Errors
    /// The errors of the device.
    #[doc(hidden)]
    fn product(
        context: &Context,
        precision: Precision,
        shape: ProductShape,
        factors: (&Buffer<Self>, SecondFactor<&Buffer<Self>>),
        beta: bool,
        c: &mut Buffer<Self>,
    ) -> Result<()>;
}

impl DeviceReal for f32 {
    fn product(
        context: &Context,
        precision: Precision,
        shape: ProductShape,
        (a, b): (&Buffer<Self>, SecondFactor<&Buffer<Self>>),
        beta: bool,
        c: &mut Buffer<Self>,
    ) -> Result<()> {
        context.product_f32(precision, shape, a, b, f32::from(u8::from(beta)), c)
    }
}

impl DeviceReal for f64 {
    fn product(
        context: &Context,
        _precision: Precision,
        shape: ProductShape,
        (a, b): (&Buffer<Self>, SecondFactor<&Buffer<Self>>),
        beta: bool,
        c: &mut Buffer<Self>,
    ) -> Result<()> {
        context.product_f64(shape, a, b, f64::from(u8::from(beta)), c)
    }
}

/// Host memory that the last product left for the next.
struct ProductStaging<T: Value>(Vec<PinnedBuffer<T>>);

impl<T: Value> Default for ProductStaging<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Computes all blocks on `contexts`; the plan holds for the one with the least memory.
pub(super) fn run<T: Real>(
    contexts: &[Arc<Context>],
    product: &Product<'_, T>,
    take: &Mutex<&mut TakeBlock<'_, T>>,
    progress: &dyn Progress,
) -> Result<MultiplyPlan> {
    let mut least = u64::MAX;
    for context in contexts {
        // Start the library before planning memory, because it takes some itself.
        context.start_blas()?;
        least = least.min(context.available_memory()?);
    }
    let copies = FEED_PIECES as u64;
    let plan = MultiplyPlan::for_devices(product, least, FIXED_BYTES, copies, contexts.len())?;
    let blocks = Blocks::new(&plan);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (contexts.iter().enumerate())
            .map(|(i, context)| {
                let blocks = &blocks;
                scope.spawn(move || {
                    let quiet = Quiet(progress);
                    let progress = if i == 0 { progress } else { &quiet };
                    share(context, product, blocks, take, progress)
                })
            })
            .collect();
        let panicked = || Error::new(ErrorKind::Internal, "a device's thread panicked");
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|_| Err(panicked())))
            .collect::<Vec<Result<()>>>()
            .into_iter()
            .collect::<Result<Vec<()>>>()
    })?;
    Ok(plan)
}

/// Computes blocks on one device until none are left.
fn share<T: Real>(
    context: &Context,
    product: &Product<'_, T>,
    blocks: &Blocks<'_>,
    take: &Mutex<&mut TakeBlock<'_, T>>,
    progress: &dyn Progress,
) -> Result<()> {
    let plan = blocks.plan;
    let mut staging = context.take_slot::<ProductStaging<T>>();
    let mut left = Feed::new(context, plan.m_max * plan.k_max, &mut staging.0)?;
    let mut right = Feed::new(context, plan.k_max * plan.n_max, &mut staging.0)?;
    let mut block: Buffer<T> = context.alloc(plan.m_max * plan.n_max)?;
    let mut values = vec![T::default(); plan.m_max * plan.n_max];
    while let Some((rows, columns)) = blocks.take() {
        let (m, n) = (rows.len(), columns.len());
        for first in (0..plan.k).step_by(plan.k_max) {
            let terms = first..plan.k.min(first + plan.k_max);
            let k = terms.len();
            left.send(m * k, |target| {
                product.a.read(rows.clone(), terms.clone(), target)
            })?;
            let second = match product.b {
                Some(b) => {
                    right.send(k * n, |target| {
                        b.read(terms.clone(), columns.clone(), target)
                    })?;
                    SecondFactor::Plain(right.piece())
                }
                // On the diagonal, both factors are the same rows of A.
                None if rows == columns => SecondFactor::Transposed(left.piece()),
                None => {
                    right.send(n * k, |target| {
                        product.a.read(columns.clone(), terms.clone(), target)
                    })?;
                    SecondFactor::Transposed(right.piece())
                }
            };
            let factors = (left.piece(), second);
            let shape = ProductShape { m, n, k };
            T::product(
                context,
                product.precision,
                shape,
                factors,
                first > 0,
                &mut block,
            )?;
            left.release()?;
            right.release()?;
        }
        let values = &mut values[..m * n];
        context.download_into(&block, 0, values)?;
        blocks.finish((&rows, &columns), values, take, progress)?;
    }
    left.keep(&mut staging.0);
    right.keep(&mut staging.0);
    context.put_slot(staging);
    Ok(())
}
