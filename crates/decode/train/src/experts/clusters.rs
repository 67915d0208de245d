//! k-means of steps by their labels.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Most steps that clusters are found from.
const MOST_STEPS: usize = 10_000;

/// Most rounds of moving centres.
const ROUNDS: usize = 25;

/// Centres in standardised labels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Clusters {
    width: usize,
    /// Mean and one over the standard deviation of each label; 0 for one that does not change.
    scale: Vec<(f32, f32)>,
    /// (cluster, label) row-major.
    centres: Vec<f32>,
}

impl Clusters {
    /// `count` clusters of the rows of `labels`, each of `width`, that `rows` numbers (at most 10,000 of
    /// them, evenly spread): k-means from centres far apart (Arthur & Vassilvitskii 2007).
    pub(crate) fn find(
        labels: &[f32],
        width: usize,
        rows: &[usize],
        count: usize,
        seed: u64,
    ) -> Self {
        let every = rows.len().div_ceil(MOST_STEPS).max(1);
        let rows: Vec<usize> = rows.iter().copied().step_by(every).collect();
        let scale = scale(labels, width, &rows);
        let mut clusters = Self {
            width,
            scale,
            centres: Vec::new(),
        };
        let points: Vec<f32> = rows
            .iter()
            .flat_map(|&row| clusters.standardised(&labels[row * width..][..width]))
            .collect();
        clusters.spread(&points, count, seed);
        for _ in 0..ROUNDS {
            if !clusters.round(&points) {
                break;
            }
        }
        clusters
    }

    /// Number of clusters: fewer than asked for where there are not as many different rows.
    pub(crate) fn len(&self) -> usize {
        self.centres.len() / self.width.max(1)
    }

    /// The cluster of a row of labels.
    pub(crate) fn of(&self, labels: &[f32]) -> usize {
        let point: Vec<f32> = self.standardised(labels).collect();
        self.nearest(&point).0
    }

    fn standardised<'a>(&'a self, labels: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
        (labels.iter().zip(&self.scale)).map(|(v, (mean, scale))| (v - mean) * scale)
    }

    fn nearest(&self, point: &[f32]) -> (usize, f32) {
        let centres = self.centres.chunks_exact(self.width).enumerate();
        centres.fold((0, f32::INFINITY), |(best, least), (k, centre)| {
            let distance = distance(point, centre);
            if distance < least {
                (k, distance)
            } else {
                (best, least)
            }
        })
    }

    /// First centres: each a point taken with a chance that grows with the square of its distance to
    /// those there are.
    fn spread(&mut self, points: &[f32], count: usize, seed: u64) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let rows = points.len() / self.width;
        let mut away = vec![f32::INFINITY; rows];
        let mut chosen = if rows == 0 {
            None
        } else {
            Some(random.random_range(0..rows))
        };
        while let Some(row) = chosen {
            let centre = &points[row * self.width..][..self.width];
            self.centres.extend_from_slice(centre);
            if self.len() == count {
                return;
            }
            for (away, point) in away.iter_mut().zip(points.chunks_exact(self.width)) {
                *away = away.min(distance(point, centre));
            }
            let total: f64 = away.iter().map(|a| f64::from(*a)).sum();
            if total <= 0.0 {
                return;
            }
            let mut left = random.random::<f64>() * total;
            chosen = away.iter().position(|a| {
                left -= f64::from(*a);
                *a > 0.0 && left <= 0.0
            });
            // Rounding may leave a rest behind the last point.
            chosen = chosen.or_else(|| away.iter().rposition(|a| *a > 0.0));
        }
    }

    /// Centres move to the means of their points; says whether any point went elsewhere or centre moved.
    fn round(&mut self, points: &[f32]) -> bool {
        let (width, count) = (self.width, self.len());
        if count == 0 {
            return false;
        }
        let of: Vec<usize> = (points.par_chunks_exact(width))
            .with_min_len(256)
            .map(|point| self.nearest(point).0)
            .collect();
        let mut sums = vec![0.0_f64; count * width];
        let mut members = vec![0_u64; count];
        for (&k, point) in of.iter().zip(points.chunks_exact(width)) {
            members[k] += 1;
            let sum = &mut sums[k * width..][..width];
            sum.iter_mut()
                .zip(point)
                .for_each(|(s, v)| *s += f64::from(*v));
        }
        let mut moved = false;
        for ((centre, sum), &count) in (self.centres.chunks_exact_mut(width))
            .zip(sums.chunks_exact(width))
            .zip(&members)
        {
            // A centre without points stays where it is.
            if count == 0 {
                continue;
            }
            for (c, s) in centre.iter_mut().zip(sum) {
                let mean = (s / count as f64) as f32;
                moved |= (mean - *c).abs() > 1e-4;
                *c = mean;
            }
        }
        moved
    }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Mean and one over the standard deviation of each label over `rows`.
fn scale(labels: &[f32], width: usize, rows: &[usize]) -> Vec<(f32, f32)> {
    let count = rows.len().max(1) as f64;
    (0..width)
        .map(|i| {
            let values = rows.iter().map(|&row| f64::from(labels[row * width + i]));
            let mean = values.clone().sum::<f64>() / count;
            let variance = values.map(|v| (v - mean).powi(2)).sum::<f64>() / count;
            let scale = if variance > 1e-12 * mean * mean {
                variance.sqrt().recip()
            } else {
                0.0
            };
            (mean as f32, scale as f32)
        })
        .collect()
}
