//! The same sums on a CUDA device.

use super::NormalEquations;
use crate::search::MOST_RIDGES;
use betz_base::error::Result;
use betz_device::Placement;
use betz_device::cuda::{Buffer, Context};
use betz_gram::gram::cuda::DeviceSums;
use betz_gram::solve::Solver;
use betz_gram::solve::cuda::{self, DeviceSolution};

/// A fold's Γ and the sums of everything else.
pub(super) struct OnDevice<'a> {
    context: &'a Context,
    rest: DeviceSums,
    gram: Buffer<f64>,
}

impl<'a> OnDevice<'a> {
    /// `None` without a device, or where they do not fit beside what a solution takes.
    ///
    /// # Errors
    /// Returns the errors of the device that [`Placement::or_cpu`] passes on.
    pub(super) fn new(
        placement: &'a Placement,
        fold: &NormalEquations,
        rest: &NormalEquations,
    ) -> Result<Option<Self>> {
        let Some(context) = placement.contexts().first() else {
            return Ok(None);
        };
        let upload = || {
            let (n, m) = (rest.features, rest.outputs);
            // Two Γ; the weights of all ridges and their product.
            let grams = 16 * (n as u64).pow(2);
            let weights = 16 * (n * m * MOST_RIDGES) as u64;
            if !cuda::fits(context, n, m, grams + weights)? {
                return Ok(None);
            }
            Ok(Some(Self {
                context,
                rest: DeviceSums::upload(context, rest)?,
                gram: context.upload(&fold.gram)?,
            }))
        };
        Ok(placement.or_cpu(upload())?.flatten())
    }

    /// As [`cuda::solve`].
    pub(super) fn solve(&self, ridge: f64, solver: Solver) -> Result<Option<DeviceSolution>> {
        cuda::solve(self.context, &self.rest, ridge, solver)
    }

    /// The fold's Γ times `weights`, features × `columns`, row-major.
    pub(super) fn gram_times(&self, weights: &[f64], columns: usize) -> Result<Vec<f64>> {
        let (context, n) = (self.context, self.rest.features);
        if weights.is_empty() {
            return Ok(Vec::new());
        }
        let weights = context.upload(&transposed(weights, columns))?;
        let mut product = context.alloc(n * columns)?;
        context.symmetric_times(n, columns, &self.gram, &weights, &mut product)?;
        Ok(transposed(&context.download(&product, n * columns)?, n))
    }
}

/// The transpose of rows of `width` values.
fn transposed(values: &[f64], width: usize) -> Vec<f64> {
    let column = |c: usize| values.iter().skip(c).step_by(width);
    (0..width).flat_map(column).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transpose_has_columns_for_rows() {
        assert_eq!(
            transposed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3),
            [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
        );
        assert!(transposed(&[], 3).is_empty());
    }

    #[test]
    fn a_device_solves_folds_as_the_cpu_does() {
        let Ok(device) = betz_device::Device::cuda(0) else {
            eprintln!("no CUDA device: folds are not solved on one");
            return;
        };
        let compared = super::super::tests::compare(&Placement::on(&device));
        assert!(compared >= 12, "{compared}");
    }
}
