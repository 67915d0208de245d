//! The definition in plain f64 loops: what every other implementation is tested against.
//!
//! Cost: spikes × steps for the responses, steps × features² for Γ, and the whole response matrix
//! in memory. For tests.

use super::{NormalEquations, add_output_sums, paired_steps};
use crate::psc::oracle;
use betz_base::error::Result;
use betz_recording::DatasetView;
use betz_runtime::psc::{FilterBank, LowPass};

/// Γ, Υ and the sums, straight from directly convolved responses.
///
/// # Errors
/// As [`LowPass::check`].
pub fn normal_equations<'d>(
    data: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    delay_steps: i64,
) -> Result<NormalEquations> {
    let data = &data.into();
    let responses = oracle::responses(data, bank, low_pass)?;
    let columns = data.steps_in_segments();
    let (features, outputs) = (data.channels() * bank.len(), data.outputs.len());
    let mut sums = NormalEquations::zeros(features, outputs);
    add_output_sums(data, delay_steps, &mut sums);
    let row = |i: usize| &responses[i * columns..(i + 1) * columns];
    let mut segment_column = 0;
    for segment in data.segments {
        if let Some((first, last)) = paired_steps(segment, delay_steps) {
            let column_of = |t: i64| segment_column + (t - segment.start) as usize;
            let paired = column_of(first)..column_of(last);
            for i in 0..features {
                for j in 0..features {
                    let products = row(i)[paired.clone()].iter().zip(&row(j)[paired.clone()]);
                    sums.gram[i * features + j] += products.map(|(a, b)| a * b).sum::<f64>();
                }
                for t in first..last {
                    let a = row(i)[column_of(t)];
                    let x = (t - delay_steps) as usize * outputs;
                    sums.feature_sum[i] += a;
                    for (o, x) in data.behavior[x..x + outputs].iter().enumerate() {
                        sums.upsilon[i * outputs + o] += a * f64::from(*x);
                    }
                }
            }
        }
        segment_column += segment.len();
    }
    Ok(sums)
}
