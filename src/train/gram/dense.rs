//! Γ from responses: every step of every feature, multiplied block by block.
//!
//! A block of steps is filtered (f32, from f64 states), multiplied with its own transpose on the
//! lower triangle (f32, [`BLOCK_STEPS`] products a sum), and added to Γ in f64, so that rounding
//! does not grow with the length of the recording. No more than one block is in memory.

use faer::linalg::matmul::triangular::{BlockStructure, matmul};
use faer::{Accum, MatMut, MatRef, Par};

use super::{NormalEquations, add_output_sums};
use crate::error::Result;
use crate::progress::{self, Progress};
use crate::psc::{Block, FilterBank, LowPass, Responses};
use crate::recording::Dataset;

/// Steps that are multiplied in f32 before they are added to Γ in f64.
pub const BLOCK_STEPS: usize = 2048;

/// Γ, Υ and the sums by the dense path, on rayon's current pool.
///
/// Allocates features × [`BLOCK_STEPS`] and features² f32 beside the result.
///
/// # Errors
/// As [`Responses::new`]; [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted).
pub fn normal_equations(
    data: &Dataset,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    delay_steps: i64,
    progress: &dyn Progress,
) -> Result<NormalEquations> {
    let mut responses = Responses::new(data, bank, low_pass)?.paired(delay_steps);
    let (features, outputs) = (responses.features(), data.outputs.len());
    let mut sums = NormalEquations::zeros(features, outputs);
    add_output_sums(data, delay_steps, &mut sums);
    let total = sums.steps;
    let mut done = 0;
    let mut product = vec![0.0_f32; features * features];
    let mut block = Block::<f32>::default();
    while responses.next_block(BLOCK_STEPS, &mut block) {
        progress::check(progress, "gram")?;
        multiply_lower(&block.values, features, &mut product);
        for i in 0..features {
            let row = i * features;
            let lower = sums.gram[row..=row + i].iter_mut();
            for (g, p) in lower.zip(&product[row..=row + i]) {
                *g += f64::from(*p);
            }
        }
        add_behavior(&block, data, delay_steps, &mut sums);
        done += block.steps.len() as u64;
        progress.update("gram", done, total);
    }
    for i in 0..features {
        for j in 0..i {
            sums.gram[j * features + i] = sums.gram[i * features + j];
        }
    }
    Ok(sums)
}

/// The lower triangle of A·Aᵀ for A row-major (features, columns).
fn multiply_lower(a: &[f32], features: usize, product: &mut [f32]) {
    let columns = a.len() / features.max(1);
    let a = MatRef::from_row_major_slice(a, features, columns);
    matmul(
        MatMut::from_row_major_slice_mut(product, features, features),
        BlockStructure::TriangularLower,
        Accum::Replace,
        a,
        BlockStructure::Rectangular,
        a.transpose(),
        BlockStructure::Rectangular,
        1.0,
        Par::rayon(0),
    );
}

/// Adds the block's part of Υ and Σa, in f64.
fn add_behavior(block: &Block<f32>, data: &Dataset, delay_steps: i64, sums: &mut NormalEquations) {
    let (columns, outputs) = (block.steps.len(), sums.outputs);
    for (feature, row) in block.values.chunks_exact(columns).enumerate() {
        let upsilon = &mut sums.upsilon[feature * outputs..(feature + 1) * outputs];
        let mut sum = 0.0;
        for (&a, &step) in row.iter().zip(&block.steps) {
            let a = f64::from(a);
            sum += a;
            let x = (step as i64 - delay_steps) as usize * outputs;
            for (u, x) in upsilon.iter_mut().zip(&data.behavior[x..x + outputs]) {
                *u += a * f64::from(*x);
            }
        }
        sums.feature_sum[feature] += sum;
    }
}
