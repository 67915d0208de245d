//! Distances between samples and nodes.

use betz_base::{Result, memory};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::Samples;

/// Nodes whose distances are found together.
const LANES: usize = 8;

/// Distance between a sample and the weights of a node, and between the weights of two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Metric {
    /// √Σ(x − w)².
    #[default]
    Euclidean,
    /// Σ|x − w|.
    Manhattan,
    /// The largest |x − w|.
    Chebyshev,
    /// 1 − x·w/(‖x‖‖w‖), from 0 to 2; 1 if one of them is zero.
    Cosine,
    /// The cosine distance after each side has lost its own mean: 1 − Pearson's correlation. 1 if one of them is
    /// constant.
    Correlation,
}

impl Metric {
    /// Every metric by its name in options and files.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("euclidean", Self::Euclidean),
        ("manhattan", Self::Manhattan),
        ("chebyshev", Self::Chebyshev),
        ("cosine", Self::Cosine),
        ("correlation", Self::Correlation),
    ];

    /// Name in options and files.
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, metric)| *metric == self);
        found.map_or("", |(name, _)| name)
    }

    /// Distance of two lists of equally many numbers, in f64.
    pub fn distance(self, x: &[f32], w: &[f32]) -> f64 {
        let target = Target::new(self, x);
        let (mut mean, count) = (0.0, x.len() as f64);
        if self == Self::Correlation {
            mean = w.iter().map(|w| f64::from(*w)).sum::<f64>() / count;
        }
        let (mut sum, mut squares) = (0.0, 0.0);
        for (x, w) in target.x.iter().zip(w) {
            self.add(&mut sum, &mut squares, *x, f64::from(*w) - mean);
        }
        self.finish(sum, squares, target.length)
    }

    #[inline(always)]
    fn add(self, sum: &mut f64, squares: &mut f64, x: f64, w: f64) {
        match self {
            Self::Euclidean => *sum += (x - w) * (x - w),
            Self::Manhattan => *sum += (x - w).abs(),
            Self::Chebyshev => *sum = sum.max((x - w).abs()),
            Self::Cosine | Self::Correlation => {
                *sum += x * w;
                *squares += w * w;
            }
        }
    }

    #[inline(always)]
    fn finish(self, sum: f64, squares: f64, length: f64) -> f64 {
        match self {
            Self::Euclidean => sum.sqrt(),
            Self::Manhattan | Self::Chebyshev => sum,
            Self::Cosine | Self::Correlation => {
                let lengths = length * squares.sqrt();
                if lengths > 0.0 {
                    (1.0 - sum / lengths).max(0.0)
                } else {
                    1.0
                }
            }
        }
    }
}

/// A sample as its distances are found: without its mean for a correlation.
struct Target {
    x: Vec<f64>,
    /// Its Euclidean length.
    length: f64,
}

impl Target {
    fn new(metric: Metric, x: &[f32]) -> Self {
        let mut x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        if metric == Metric::Correlation {
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            x.iter_mut().for_each(|x| *x -= mean);
        }
        let length = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        Self { x, length }
    }
}

/// Weights by dimension, (dims, padded nodes), as [`nearest`] reads them.
pub(super) struct Planes {
    values: Vec<f32>,
    nodes: usize,
    padded: usize,
}

impl Planes {
    pub(super) fn new(weights: &[f32], dims: usize) -> Result<Self> {
        let nodes = weights.len() / dims;
        let padded = nodes.next_multiple_of(LANES);
        let mut values = memory::filled("weights", 0.0, padded * dims)?;
        for (node, weights) in weights.chunks_exact(dims).enumerate() {
            for (d, w) in weights.iter().enumerate() {
                values[d * padded + node] = *w;
            }
        }
        Ok(Self {
            values,
            nodes,
            padded,
        })
    }
}

/// Weights by dimension, (dims, padded nodes); a whole number of lanes.
#[derive(Clone, Copy)]
pub(super) struct PlanesView<'a> {
    pub(super) values: &'a [f32],
    pub(super) nodes: usize,
    pub(super) padded: usize,
}

impl Planes {
    fn view(&self) -> PlanesView<'_> {
        PlanesView {
            values: &self.values,
            nodes: self.nodes,
            padded: self.padded,
        }
    }
}

/// The nearest node of every sample and its distance, in f64; of nodes equally near the lowest.
pub(super) fn winners(
    metric: Metric,
    samples: Samples<'_>,
    planes: &Planes,
) -> Result<Vec<(u32, f64)>> {
    let mut found = memory::filled("winners", (0, 0.0), samples.count())?;
    found
        .par_iter_mut()
        .enumerate()
        .for_each_init(Arch::new, |arch, (s, found)| {
            let (node, distance) = nearest(*arch, metric, samples.row(s), planes.view());
            *found = (node as u32, distance);
        });
    Ok(found)
}

/// The distance of every sample from every node, (samples, nodes): that of [`Metric::distance`] to the last bit.
pub(super) fn distances(metric: Metric, samples: Samples<'_>, planes: &Planes) -> Result<Vec<f64>> {
    let count = samples.count().saturating_mul(planes.nodes);
    memory::plan("distances", count as u128 * 8)?;
    let mut found = memory::filled("distances", 0.0, count)?;
    found
        .par_chunks_mut(planes.nodes)
        .enumerate()
        .for_each_init(Arch::new, |arch, (s, found)| {
            let target = Target::new(metric, samples.row(s));
            arch.dispatch(AllDistances {
                nodes: Nearest {
                    metric,
                    planes: planes.view(),
                    target: &target,
                },
                found,
            });
        });
    Ok(found)
}

/// The nearest node and its distance, which is that of [`Metric::distance`] to the last bit.
pub(super) fn nearest(
    arch: Arch,
    metric: Metric,
    x: &[f32],
    planes: PlanesView<'_>,
) -> (usize, f64) {
    let target = Target::new(metric, x);
    arch.dispatch(Nearest {
        metric,
        planes,
        target: &target,
    })
}

struct Nearest<'a> {
    metric: Metric,
    planes: PlanesView<'a>,
    target: &'a Target,
}

impl WithSimd for Nearest<'_> {
    type Output = (usize, f64);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (usize, f64) {
        let mut best = (usize::MAX, f64::INFINITY);
        self.each(|node, distance| {
            if distance < best.1 {
                best = (node, distance);
            }
        });
        // Distances beyond f64 are equal.
        if best.0 == usize::MAX {
            (0, f64::INFINITY)
        } else {
            best
        }
    }
}

struct AllDistances<'a> {
    nodes: Nearest<'a>,
    found: &'a mut [f64],
}

impl WithSimd for AllDistances<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.nodes
            .each(|node, distance| self.found[node] = distance);
    }
}

impl Nearest<'_> {
    /// Every node and its distance, in ascending order.
    #[inline(always)]
    fn each(&self, take: impl FnMut(usize, f64)) {
        // One loop per metric, so that the choice is outside of it.
        match self.metric {
            Metric::Euclidean => self.search(Metric::Euclidean, take),
            Metric::Manhattan => self.search(Metric::Manhattan, take),
            Metric::Chebyshev => self.search(Metric::Chebyshev, take),
            Metric::Cosine => self.search(Metric::Cosine, take),
            Metric::Correlation => self.search(Metric::Correlation, take),
        }
    }

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // by index over arrays of known length: these become vectors
    fn search(&self, metric: Metric, mut take: impl FnMut(usize, f64)) {
        let (dims, padded) = (self.target.x.len(), self.planes.padded);
        for chunk in (0..self.planes.nodes).step_by(LANES) {
            let lanes = |d: usize| &self.planes.values[d * padded + chunk..][..LANES];
            let mut means = [0.0_f64; LANES];
            if metric == Metric::Correlation {
                for d in 0..dims {
                    for (mean, w) in means.iter_mut().zip(lanes(d)) {
                        *mean += f64::from(*w);
                    }
                }
                means.iter_mut().for_each(|mean| *mean /= dims as f64);
            }
            let (mut sums, mut squares) = ([0.0_f64; LANES], [0.0_f64; LANES]);
            for (d, x) in self.target.x.iter().enumerate() {
                let weights = lanes(d);
                for l in 0..LANES {
                    let w = f64::from(weights[l]) - means[l];
                    metric.add(&mut sums[l], &mut squares[l], *x, w);
                }
            }
            for lane in 0..LANES.min(self.planes.nodes - chunk) {
                let distance = metric.finish(sums[lane], squares[lane], self.target.length);
                take(chunk + lane, distance);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle;
    use betz_base::random::Random;

    #[test]
    fn winners_of_every_metric_are_the_oracles() {
        let mut random = Random::new(6);
        for (nodes, dims) in [(1, 1), (7, 1), (8, 5), (53, 12)] {
            // Quarters, so that there are ties, zeros and constant rows.
            let mut quarters = |n: usize| -> Vec<f32> {
                (0..n)
                    .map(|_| (random.uniform() * 5.0).floor() as f32 / 4.0)
                    .collect()
            };
            let (values, weights) = (quarters(40 * dims), quarters(nodes * dims));
            let samples = Samples::new(&values, dims).unwrap();
            let planes = Planes::new(&weights, dims).unwrap();
            for (name, metric) in Metric::NAMES {
                assert_eq!(metric.name(), name);
                let found = winners(metric, samples, &planes).unwrap();
                let all = distances(metric, samples, &planes).unwrap();
                for (x, all) in samples.rows().zip(all.chunks_exact(nodes)) {
                    for (w, distance) in weights.chunks_exact(dims).zip(all) {
                        assert!((distance - oracle::distance(metric, x, w)).abs() < 1e-12);
                        assert_eq!(distance.to_bits(), metric.distance(x, w).to_bits());
                    }
                }
                for (x, (node, distance)) in samples.rows().zip(found) {
                    let all: Vec<f64> = (weights.chunks_exact(dims))
                        .map(|w| oracle::distance(metric, x, w))
                        .collect();
                    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
                    let node = node as usize;
                    assert!(
                        (all[node] - least).abs() < 1e-12,
                        "{metric:?}: {node} of {all:?}"
                    );
                    assert!((distance - least).abs() < 1e-12);
                    let own = metric.distance(x, &weights[node * dims..][..dims]);
                    assert_eq!(own.to_bits(), distance.to_bits());
                    // Of the distances that are equal here the lowest node has it.
                    let of = |k: usize| metric.distance(x, &weights[k * dims..][..dims]);
                    assert!((0..node).all(|k| of(k) > distance), "{metric:?}");
                }
            }
        }
    }
}
