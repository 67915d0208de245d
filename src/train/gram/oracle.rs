//! The definition in plain f64 loops: what every other implementation is tested against.
//!
//! Cost: spikes × steps for the responses, steps × features² for Γ, and the whole response matrix
//! in memory. For tests.

use super::{NormalEquations, add_output_sums, paired_steps};
use crate::psc::{Filter, FilterBank};
use crate::recording::Dataset;

/// h[0..len] of `filter` on steps of `step_seconds`: m^n r^m with r = e^(−dt/τ), divided by its
/// sum over all m.
pub fn impulse(filter: Filter, step_seconds: f64, len: usize) -> Vec<f64> {
    let value = |m: usize| {
        let t = m as f64 * step_seconds;
        t.powi(filter.order as i32) * (-t / filter.tau_seconds).exp()
    };
    // Summed until what is left is below f64's resolution: past the peak at n·τ, terms fall
    // faster than e^(−t/2τ) from 10·n·τ on.
    let tau_steps = filter.tau_seconds / step_seconds;
    let enough = (tau_steps * (10.0 * f64::from(filter.order) + 80.0)).ceil() as usize + 2;
    let sum: f64 = (0..enough).map(value).sum();
    (0..len)
        .map(|m| if sum > 0.0 { value(m) / sum } else { 0.0 })
        .collect()
}

/// Responses of every feature, row-major (features, steps): each segment's spikes convolved with
/// each filter, directly, from zero state at the segment's start; zero outside segments.
pub fn responses(data: &Dataset, bank: &FilterBank) -> Vec<f64> {
    let steps = data.steps;
    let mut out = vec![0.0; data.channels() * bank.len() * steps];
    for (f, &filter) in bank.filters().iter().enumerate() {
        let longest = data.segments.iter().map(|s| s.len()).max().unwrap_or(0);
        let h = impulse(filter, data.step_seconds, longest);
        for segment in &data.segments {
            for i in data.spikes.range(segment.start, segment.stop) {
                let tick = data.spikes.ticks[i] as usize;
                let feature = data.spikes.channels[i] as usize * bank.len() + f;
                let row = &mut out[feature * steps..(feature + 1) * steps];
                for (a, h) in row[tick..segment.stop as usize].iter_mut().zip(&h) {
                    *a += h;
                }
            }
        }
    }
    out
}

/// Γ, Υ and the sums, from [`responses`] by their definition.
pub fn normal_equations(data: &Dataset, bank: &FilterBank, delay_steps: i64) -> NormalEquations {
    let a = responses(data, bank);
    from_responses(data, &a, data.channels() * bank.len(), delay_steps)
}

/// Γ, Υ and the sums of given responses, row-major (features, steps).
pub fn from_responses(
    data: &Dataset,
    responses: &[f64],
    features: usize,
    delay_steps: i64,
) -> NormalEquations {
    let outputs = data.outputs.len();
    let mut sums = NormalEquations::zeros(features, outputs);
    add_output_sums(data, delay_steps, &mut sums);
    let row = |i: usize| &responses[i * data.steps..(i + 1) * data.steps];
    for segment in &data.segments {
        let Some((first, last)) = paired_steps(segment, delay_steps) else {
            continue;
        };
        let paired = first as usize..last as usize;
        for i in 0..features {
            for j in 0..features {
                let products = row(i)[paired.clone()].iter().zip(&row(j)[paired.clone()]);
                sums.gram[i * features + j] += products.map(|(a, b)| a * b).sum::<f64>();
            }
            for t in first..last {
                let a = row(i)[t as usize];
                let x = (t - delay_steps) as usize * outputs;
                sums.feature_sum[i] += a;
                for (o, x) in data.behavior[x..x + outputs].iter().enumerate() {
                    sums.upsilon[i * outputs + o] += a * f64::from(*x);
                }
            }
        }
    }
    sums
}
