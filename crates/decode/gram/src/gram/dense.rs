//! Γ from responses: every step of every feature, multiplied block by block.
//!
//! A block of steps is filtered (f32, from f64 states), multiplied with its own transpose on the
//! lower triangle (f32, a stretch of 128 steps a sum, see `product`), and added to Γ in f64, so that rounding
//! does not grow with the length of the recording. No more than one block is in memory.
//!
//! Each block is multiplied about a response c near its mean, which is put back in f64:
//! Σ a_i a_j = Σ (a_i − c_i)(a_j − c_j) + c_i Σa_j + c_j Σ(a_i − c_i). The f32 products then round in proportion to
//! what a response varies by, which the weights follow from, and not to its distance from zero. Any c gives the same
//! sums, so blocks, chunks and recordings add up whatever their means are. c is one of the responses, so that whole numbers
//! stay whole, and their sums exact.

use rayon::prelude::*;

use super::product::LowerProduct;
use super::{NormalEquations, add_output_sums, check, paired_steps};
use crate::parts::{FILTERING, GRAM, UPSILON};
use crate::psc::{Block, Responses};
use betz_base::error::Result;
use betz_base::progress::{self, Progress};
use betz_recording::{DatasetView, Segment};
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
    let responses = Responses::new(data, bank, low_pass)?.paired(delay_steps);
    sums_of(responses, data, delay_steps, progress)
}

/// The same over the paired steps of `counted` alone. The filters run through the segments of `data`, so that steps before
/// those that count are their history.
///
/// Each of `counted` lies in a segment. They ascend, and their paired steps do not overlap.
///
/// # Errors
/// As [`normal_equations`](super::normal_equations).
pub fn normal_equations_within<'d>(
    data: impl Into<DatasetView<'d>>,
    counted: &[Segment],
    (bank, low_pass): (&FilterBank, Option<LowPass>),
    delay_steps: i64,
    progress: &dyn Progress,
) -> Result<NormalEquations> {
    let data = &data.into();
    check(data)?;
    let paired = (counted.iter()).filter_map(|segment| paired_steps(segment, delay_steps));
    let runs = paired.map(|(first, stop)| first as usize..stop as usize);
    let responses = Responses::new(data, bank, low_pass)?
        .paired(delay_steps)
        .only(runs.collect());
    let counted = &data.with_segments(counted);
    sums_of(responses, counted, delay_steps, progress)
}

/// The sums over the steps of `responses`, which are the paired ones of `data`'s segments.
fn sums_of(
    mut responses: Responses<'_>,
    data: &DatasetView<'_>,
    delay_steps: i64,
    progress: &dyn Progress,
) -> Result<NormalEquations> {
    let (features, outputs) = (responses.features(), data.outputs.len());
    let mut sums = NormalEquations::zeros(features, outputs);
    add_output_sums(data, delay_steps, &mut sums);
    let total = sums.steps;
    let mut done = 0;
    let mut product = LowerProduct::new(features);
    let mut block = Block::<f32>::default();
    while progress::time(progress, FILTERING, || {
        responses.next_block(BLOCK_STEPS, &mut block)
    }) {
        progress::check(progress, "gram")?;
        let means = progress::time(progress, UPSILON, || {
            add_behavior(&block, data, delay_steps, &mut sums)
        });
        progress::time(progress, GRAM, || {
            product.multiply_about(&block.values, &means.centre);
            product.add_to(&mut sums.gram);
            means.put_back(&mut sums.gram);
        });
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

/// Responses of a block of which the one nearest to the mean becomes its constant.
const CANDIDATES: usize = 16;

/// The constants that responses of a block are multiplied about, and their sums.
struct BlockMeans {
    /// c, one per feature: a response near the mean.
    centre: Vec<f32>,
    /// Σa of the block.
    sums: Vec<f64>,
    /// Σ(a − c) of the block.
    rest: Vec<f64>,
}

impl BlockMeans {
    /// Of responses `values`, (features, `columns`), whose sums are `sums`.
    fn new(sums: Vec<f64>, values: &[f32], columns: usize) -> Self {
        let steps = columns as f64;
        let near = |(row, sum): (&[f32], &f64)| {
            let mean = (sum / steps) as f32;
            let some = row.iter().step_by(columns.div_ceil(CANDIDATES)).copied();
            let nearer = |a: &f32, b: &f32| (a - mean).abs().total_cmp(&(b - mean).abs());
            some.min_by(nearer).unwrap_or(0.0)
        };
        let rows = values.chunks_exact(columns).zip(&sums);
        let centre: Vec<f32> = rows.map(near).collect();
        let rest = sums.iter().zip(&centre);
        let rest = rest.map(|(sum, c)| sum - f64::from(*c) * steps).collect();
        Self { centre, sums, rest }
    }

    /// Adds c_i Σa_j + c_j Σ(a_i − c_i) to the lower triangle of `gram`.
    fn put_back(&self, gram: &mut [f64]) {
        let (arch, features) = (pulp::Arch::new(), self.centre.len());
        let rows = gram.par_chunks_exact_mut(features.max(1)).enumerate();
        rows.with_min_len(16).for_each(|(i, row)| {
            let (centre, rest) = (f64::from(self.centre[i]), self.rest[i]);
            if centre == 0.0 && rest == 0.0 {
                return;
            }
            arch.dispatch(|| {
                let others = self.sums[..=i].iter().zip(&self.centre[..=i]);
                for (value, (sum, c)) in row[..=i].iter_mut().zip(others) {
                    *value += centre * sum + rest * f64::from(*c);
                }
            });
        });
    }
}

/// Adds the block's part of Υ and Σa, in f64; returns its means.
fn add_behavior(
    block: &Block<f32>,
    data: &DatasetView<'_>,
    delay_steps: i64,
    sums: &mut NormalEquations,
) -> BlockMeans {
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
    let own = products.iter().step_by(1 + outputs).copied();
    BlockMeans::new(own.collect(), &block.values, columns)
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
