//! Products on the CPU's threads: blocks one after another, each by all threads.

use std::sync::Mutex;

use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_linear::MatRef;

use super::matrix::MatrixSource;
use super::plan::MultiplyPlan;
use super::{Blocks, Product, Real, TakeBlock};

/// A number whose matrices are multiplied on the CPU.
pub trait HostReal: Copy + Default + Send + Sync {
    /// c += a b, all row-major: a is m × k, b is k × n.
    #[doc(hidden)]
    fn add_product(c: &mut [Self], a: &[Self], b: &[Self], sides: (usize, usize, usize));
}

impl HostReal for f32 {
    fn add_product(c: &mut [Self], a: &[Self], b: &[Self], (m, n, k): (usize, usize, usize)) {
        let a = MatRef::from_row_major_slice(a, m, k);
        let b = MatRef::from_row_major_slice(b, k, n);
        betz_linear::add_product_f32(c, a, b);
    }
}

impl HostReal for f64 {
    fn add_product(c: &mut [Self], a: &[Self], b: &[Self], (m, n, k): (usize, usize, usize)) {
        let a = MatRef::from_row_major_slice(a, m, k);
        let b = MatRef::from_row_major_slice(b, k, n);
        betz_linear::add_product(c, a, b);
    }
}

pub(super) fn run<T: Real>(
    product: &Product<'_, T>,
    plan: &MultiplyPlan,
    take: &Mutex<&mut TakeBlock<'_, T>>,
    progress: &dyn Progress,
) -> Result<()> {
    let blocks = Blocks::new(plan);
    let room = |rows: usize, columns: usize| vec![T::default(); rows * columns];
    let mut left = room(plan.m_max, plan.k_max);
    let mut right = room(plan.k_max, plan.n_max);
    let mut block = room(plan.m_max, plan.n_max);
    while let Some((rows, columns)) = blocks.take() {
        let (m, n) = (rows.len(), columns.len());
        let block = &mut block[..m * n];
        block.fill(T::default());
        for first in (0..plan.k).step_by(plan.k_max) {
            let terms = first..plan.k.min(first + plan.k_max);
            let (left, right) = (&mut left[..m * terms.len()], &mut right[..terms.len() * n]);
            product.a.read(rows.clone(), terms.clone(), left)?;
            match product.b {
                Some(b) => b.read(terms.clone(), columns.clone(), right)?,
                None => super::Transpose(product.a).read(terms.clone(), columns.clone(), right)?,
            }
            T::add_product(block, left, right, (m, n, terms.len()));
        }
        blocks.finish((&rows, &columns), block, take, progress)?;
    }
    Ok(())
}
