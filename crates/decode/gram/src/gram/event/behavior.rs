//! Υ and Σa from the spikes: the transposed filter, run backwards over the behaviour.
//!
//! z_j\[u\] = Σ_{t≥u} (t − u)ʲ·r^(t−u)·x\[t\] obeys z_j\[u\] = r·Σ_{i≤j} C(j, i)·z_i\[u + 1\], plus
//! x\[u\] for j = 0: the streaming recursion of the filter with time reversed. A spike at u adds
//! scale·z_n\[u\] to its channel's row of Υ; a column of ones beside the outputs gives Σa.

use rayon::prelude::*;

use crate::gram::{NormalEquations, paired_steps};
use betz_recording::DatasetView;
use betz_runtime::psc::{Filter, FilterBank, MAX_ORDER};

/// States below this are as good as zero, and zeros are faster than denormal numbers.
const SILENCE: f64 = 1e-280;

/// For each filter, Σ a·(1, x), row-major (channels, 1 + outputs). One pass over the steps and the
/// spikes per filter; filters run in parallel.
pub(super) fn sums(data: &DatasetView<'_>, bank: &FilterBank, delay_steps: i64) -> Vec<Vec<f64>> {
    (bank.filters().par_iter())
        .map(|&filter| of_filter(data, filter, delay_steps))
        .collect()
}

/// Puts the parts of all filters in their places.
pub(super) fn scatter(parts: &[Vec<f64>], sums: &mut NormalEquations) {
    let (filters, outputs) = (parts.len(), sums.outputs);
    for (f, part) in parts.iter().enumerate() {
        for (channel, row) in part.chunks_exact(outputs + 1).enumerate() {
            let feature = channel * filters + f;
            sums.feature_sum[feature] = row[0];
            sums.upsilon[feature * outputs..(feature + 1) * outputs].copy_from_slice(&row[1..]);
        }
    }
}

fn of_filter(data: &DatasetView<'_>, filter: Filter, delay_steps: i64) -> Vec<f64> {
    let columns = data.outputs.len() + 1;
    let (order, decay) = (filter.order as usize, filter.decay(data.step_seconds));
    let mut sums = vec![0.0; data.channels() * columns];
    // (state, column).
    let mut z = vec![0.0; (MAX_ORDER as usize + 1) * columns];
    for segment in data.segments {
        let Some((first, last)) = paired_steps(segment, delay_steps) else {
            continue;
        };
        z.fill(0.0);
        let mut spike = data.spikes.range(segment.start, last).end;
        for step in (segment.start..last).rev() {
            // Repeated addition of the lower neighbour is what the binomials amount to.
            for sweep in 1..=order {
                for j in (sweep..=order).rev() {
                    let (lower, own) = z.split_at_mut(j * columns);
                    let lower = &lower[(j - 1) * columns..];
                    own.iter_mut().zip(lower).for_each(|(z, l)| *z += l);
                }
            }
            for value in &mut z[..(order + 1) * columns] {
                *value *= decay;
                if value.abs() < SILENCE {
                    *value = 0.0;
                }
            }
            if step >= first {
                z[0] += 1.0;
                let row = (step - delay_steps) as usize * (columns - 1);
                let x = &data.behavior[row..row + columns - 1];
                for (z, x) in z[1..columns].iter_mut().zip(x) {
                    *z += f64::from(*x);
                }
            }
            while spike > 0 && data.spikes.ticks[spike - 1] == step {
                spike -= 1;
                let channel = data.spikes.channels[spike] as usize;
                let count = f64::from(data.spikes.weight(spike));
                let sums = &mut sums[channel * columns..(channel + 1) * columns];
                for (sum, z) in sums.iter_mut().zip(&z[order * columns..]) {
                    *sum += count * z;
                }
            }
        }
    }
    let scale = filter.scale(data.step_seconds);
    sums.iter_mut().for_each(|s| *s *= scale);
    sums
}
