//! Components: the features of a group's spikes, merged to a bounded number of means.

use super::{MAX_FEATURES, SpikeFeatures};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Spikes that the means are found from; all spikes are assigned afterwards.
const SAMPLE: usize = 4096;

/// Passes of Lloyd's algorithm.
const PASSES: usize = 8;

/// Components of one electrode group, without rates.
#[derive(Debug, Clone, Default)]
pub(super) struct Clusters {
    pub(super) columns: Vec<u32>,
    /// Standard deviation of each used column.
    pub(super) deviations: Vec<f64>,
    /// (component, column).
    pub(super) means: Vec<f64>,
    /// Variance of the members, (component, column).
    pub(super) variances: Vec<f64>,
    /// (spike, component) of every member.
    pub(super) members: Vec<(usize, usize)>,
}

impl Clusters {
    pub(super) fn components(&self) -> usize {
        self.means.len() / self.columns.len().max(1)
    }

    /// Merges the features of `spikes` to at most `most` components; spikes with a feature that is not finite are left
    /// out.
    pub(super) fn new(features: &SpikeFeatures, spikes: &[usize], most: usize, seed: u64) -> Self {
        let used = |c: &u32| {
            let column = *c as usize;
            spikes.iter().any(|&i| features.of(i)[column].is_finite())
        };
        let columns: Vec<u32> = (0..features.columns.min(MAX_FEATURES) as u32)
            .filter(used)
            .collect();
        let d = columns.len();
        let row = |i: usize| {
            columns
                .iter()
                .map(move |&c| f64::from(features.of(i)[c as usize]))
        };
        let spikes: Vec<usize> = (spikes.iter().copied())
            .filter(|&i| d > 0 && row(i).all(f64::is_finite))
            .collect();
        if spikes.is_empty() {
            return Self::default();
        }
        let n = spikes.len() as f64;
        let (mut mean, mut square) = (vec![0.0; d], vec![0.0; d]);
        for &i in &spikes {
            mean.iter_mut().zip(row(i)).for_each(|(m, a)| *m += a / n);
        }
        for &i in &spikes {
            for ((s, a), m) in square.iter_mut().zip(row(i)).zip(&mean) {
                *s += (a - m).powi(2) / n;
            }
        }
        let deviations: Vec<f64> = (square.iter().zip(&mean))
            .map(|(s, m)| s.sqrt().max(1e-6 * m.abs()).max(1e-12))
            .collect();
        let scaled: Vec<f64> = (spikes.iter())
            .flat_map(|&i| {
                row(i)
                    .zip(&deviations)
                    .map(|(a, s)| a / s)
                    .collect::<Vec<_>>()
            })
            .collect();
        let (centres, labels) = merge(&scaled, d, most.max(1), seed);
        let k = centres.len() / d;
        let (mut means, mut variances) = (vec![0.0; k * d], vec![0.0; k * d]);
        let mut sizes = vec![0.0_f64; k];
        for (&i, &label) in spikes.iter().zip(&labels) {
            sizes[label] += 1.0;
            let own = &mut means[label * d..][..d];
            own.iter_mut().zip(row(i)).for_each(|(m, a)| *m += a);
        }
        for (own, size) in means.chunks_exact_mut(d).zip(&sizes) {
            own.iter_mut().for_each(|m| *m /= size.max(1.0));
        }
        for (&i, &label) in spikes.iter().zip(&labels) {
            let both = variances[label * d..][..d]
                .iter_mut()
                .zip(&means[label * d..][..d]);
            for ((v, m), a) in both.zip(row(i)) {
                *v += (a - m).powi(2) / sizes[label];
            }
        }
        Self {
            deviations,
            means,
            variances,
            members: spikes.into_iter().zip(labels).collect(),
            columns,
        }
    }
}

/// Centres of `rows` of `d` numbers, and the nearest centre of each row. Every row is a centre if there are at most
/// `most`. Otherwise, k-means++ (Arthur & Vassilvitskii 2007) on a sample. Empty components are dropped.
fn merge(rows: &[f64], d: usize, most: usize, seed: u64) -> (Vec<f64>, Vec<usize>) {
    let n = rows.len() / d;
    if n <= most {
        return (rows.to_vec(), (0..n).collect());
    }
    let count = n.min(SAMPLE.max(most));
    let sample: Vec<&[f64]> = (0..count)
        .map(|i| &rows[i * n / count * d..][..d])
        .collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut centres = sample[random.random_range(0..count)].to_vec();
    let mut nearest = vec![f64::INFINITY; count];
    while centres.len() < most * d {
        let last = centres[centres.len() - d..].to_vec();
        let mut total = 0.0;
        for (near, row) in nearest.iter_mut().zip(&sample) {
            *near = near.min(distance(row, &last));
            total += *near;
        }
        if total <= 0.0 {
            break;
        }
        let mut left = random.random::<f64>() * total;
        let chosen = nearest.iter().position(|near| {
            left -= near;
            left <= 0.0 && *near > 0.0
        });
        let Some(chosen) = chosen else { break };
        centres.extend_from_slice(sample[chosen]);
    }
    for _ in 0..PASSES {
        let (mut sums, mut sizes) = (vec![0.0; centres.len()], vec![0.0; centres.len() / d]);
        for row in &sample {
            let k = closest(row, &centres, d);
            sizes[k] += 1.0;
            (sums[k * d..][..d].iter_mut().zip(*row)).for_each(|(s, x)| *s += x);
        }
        for (k, size) in sizes.iter().enumerate().filter(|(_, size)| **size > 0.0) {
            for (centre, sum) in centres[k * d..][..d].iter_mut().zip(&sums[k * d..][..d]) {
                *centre = sum / size;
            }
        }
    }
    let mut labels: Vec<usize> = rows
        .chunks_exact(d)
        .map(|row| closest(row, &centres, d))
        .collect();
    let mut kept = labels.clone();
    kept.sort_unstable();
    kept.dedup();
    for label in &mut labels {
        *label = kept.binary_search(label).unwrap_or(0);
    }
    let centres = kept
        .iter()
        .flat_map(|k| centres[k * d..][..d].to_vec())
        .collect();
    (centres, labels)
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

fn closest(row: &[f64], centres: &[f64], d: usize) -> usize {
    let mut best = (f64::INFINITY, 0);
    for (k, centre) in centres.chunks_exact(d).enumerate() {
        let away = distance(row, centre);
        if away < best.0 {
            best = (away, k);
        }
    }
    best.1
}
