//! Γ from responses: every step of every feature, multiplied block by block.
//!
//! A block of steps is filtered (f32, from f64 states), multiplied with its own transpose on the
//! lower triangle (f32, a stretch of 128 steps a sum, see `product`), and added to Γ in f64, so that rounding
//! does not grow with the length of the recording. No more than one block is in memory.

use rayon::prelude::*;

use super::product::LowerProduct;
use super::{NormalEquations, add_output_sums};
use crate::psc::{Block, Responses};
use betz_base::error::Result;
use betz_base::progress::{self, Progress};
use betz_recording::DatasetView;
use betz_runtime::psc::{FilterBank, LowPass};

/// Steps that are multiplied in f32 before they are added to Γ in f64.
pub const BLOCK_STEPS: usize = 2048;

/// Γ, Υ and the sums by the dense path, on rayon's current pool.
///
/// Allocates twice features × [`BLOCK_STEPS`] and half of features² f32 beside the result.
///
/// # Errors
/// As [`Responses::new`]; [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
pub fn normal_equations<'d>(
    data: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    delay_steps: i64,
    progress: &dyn Progress,
) -> Result<NormalEquations> {
    let data = &data.into();
    let mut responses = Responses::new(data, bank, low_pass)?.paired(delay_steps);
    let (features, outputs) = (responses.features(), data.outputs.len());
    let mut sums = NormalEquations::zeros(features, outputs);
    add_output_sums(data, delay_steps, &mut sums);
    let total = sums.steps;
    let mut done = 0;
    let mut product = LowerProduct::new(features);
    let mut block = Block::<f32>::default();
    while responses.next_block(BLOCK_STEPS, &mut block) {
        progress::check(progress, "gram")?;
        product.multiply(&block.values);
        product.add_to(&mut sums.gram);
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

/// Adds the block's part of Υ and Σa, in f64.
fn add_behavior(
    block: &Block<f32>,
    data: &DatasetView<'_>,
    delay_steps: i64,
    sums: &mut NormalEquations,
) {
    let (columns, outputs) = (block.steps.len(), sums.outputs);
    // The behaviour of the block, (1 + outputs, columns); a row of ones gives Σa.
    let mut x = vec![1.0; (1 + outputs) * columns];
    for (column, &step) in block.steps.iter().enumerate() {
        let row = (step as i64 - delay_steps) as usize * outputs;
        for (o, &value) in data.behavior[row..row + outputs].iter().enumerate() {
            x[(1 + o) * columns + column] = f64::from(value);
        }
    }
    let products: Vec<f64> = (block.values.par_chunks_exact(columns))
        .flat_map_iter(|a| x.chunks_exact(columns).map(|x| dot(a, x)))
        .collect();
    for (feature, row) in products.chunks_exact(1 + outputs).enumerate() {
        sums.feature_sum[feature] += row[0];
        let upsilon = &mut sums.upsilon[feature * outputs..(feature + 1) * outputs];
        upsilon.iter_mut().zip(&row[1..]).for_each(|(u, p)| *u += p);
    }
}

/// Σ a·x in f64, in eight sums that one SIMD register holds.
#[inline(always)]
pub fn dot(a: &[f32], x: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<8>();
    let (x, x_rest) = x.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, x) in a.iter().zip(x) {
        for i in 0..8 {
            sums[i] += f64::from(a[i]) * x[i];
        }
    }
    let rest = a_rest.iter().zip(x_rest).map(|(a, x)| f64::from(*a) * x);
    sums.iter().sum::<f64>() + rest.sum::<f64>()
}
