//! Batch training on the CPU's threads.

use betz_base::{Result, memory};

use super::metric::{self, Metric, Planes};
use super::search::{NearestNodes, Nodes, Search, error_bound};
use super::smooth::Smoother;
use super::trainer::{NO_MASS, PassSums, Trainer};
use super::{Grid, Map, Samples};

/// Samples, and the nearest node of each.
pub(super) struct Winners {
    samples: Vec<f32>,
    dims: usize,
    /// None for metrics that are not Euclidean.
    search: Option<Search>,
    metric: Metric,
    nodes: Nodes,
    found: NearestNodes,
    exact: bool,
}

impl Winners {
    /// Takes samples, (samples, dims), which are centred for a Euclidean metric.
    pub(super) fn new(samples: Vec<f32>, dims: usize, metric: Metric, exact: bool) -> Result<Self> {
        let search = match metric {
            Metric::Euclidean => Some(Search::new(&samples, dims)?),
            _ => None,
        };
        Ok(Self {
            search,
            samples,
            metric,
            dims,
            nodes: Nodes::new(),
            found: NearestNodes::default(),
            exact,
        })
    }

    /// The winners of the last search.
    pub(super) fn all(&self) -> &[u32] {
        &self.found.winners
    }

    /// Finds the winners among `weights`; how many f64 decided.
    pub(super) fn search(&mut self, weights: &[f32]) -> Result<usize> {
        let Some(search) = &self.search else {
            let planes = Planes::new(weights, self.dims)?;
            let samples = Samples::new(&self.samples, self.dims)?;
            let found = metric::winners(self.metric, samples, &planes)?;
            self.found.winners.clear();
            self.found
                .winners
                .extend(found.into_iter().map(|(node, _)| node));
            return Ok(0);
        };
        search.pack(weights, &mut self.nodes);
        search.find(&self.nodes, &mut self.found);
        Ok(if self.exact { self.recheck(weights) } else { 0 })
    }

    /// Decides in f64 where the best two scores are closer than their errors.
    fn recheck(&mut self, weights: &[f32]) -> usize {
        let longest = self.nodes.longest();
        let mut rechecked = 0;
        for (s, x) in self.samples.chunks_exact(self.dims).enumerate() {
            let length = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let bound = 2.0 * error_bound(self.dims, length, longest);
            let (score, second) = (self.found.scores[s], self.found.seconds[s]);
            if f64::from(score) - f64::from(second) > bound {
                continue;
            }
            rechecked += 1;
            self.found.winners[s] = nearest(x, weights, self.dims);
        }
        rechecked
    }
}

/// The nearest of `weights` in f64, the lowest of equals.
pub(super) fn nearest(x: &[f32], weights: &[f32], dims: usize) -> u32 {
    let (mut best, mut least) = (0, f64::INFINITY);
    for (node, w) in weights.chunks_exact(dims).enumerate() {
        let apart = |(x, w): (&f32, &f32)| (f64::from(*x) - f64::from(*w)).powi(2);
        let squared: f64 = x.iter().zip(w).map(apart).sum();
        if squared < least {
            (best, least) = (node, squared);
        }
    }
    best as u32
}

/// [`Trainer`] on rayon's current pool. Sums are added up in the order of the samples: the same bits on any
/// number of threads.
pub(super) struct OnCpu {
    grid: Grid,
    dims: usize,
    winners: Winners,
    weights: Vec<f32>,
    /// (nodes, dims).
    sums: Vec<f64>,
    counts: Vec<u32>,
    /// (nodes, dims + 1): sums and counts as they are spread.
    weighted: Vec<f32>,
    smoother: Smoother,
}

impl OnCpu {
    /// Takes samples and weights, (samples, dims) and (nodes, dims), for a map of the shape and metric of `map`.
    pub(super) fn new(
        map: &Map,
        samples: Vec<f32>,
        weights: Vec<f32>,
        exact: bool,
    ) -> Result<Self> {
        let (nodes, dims) = (map.grid().nodes(), map.dims());
        Ok(Self {
            grid: map.grid().clone(),
            dims,
            winners: Winners::new(samples, dims, map.metric(), exact)?,
            weights,
            sums: memory::filled("sums", 0.0, nodes * dims)?,
            counts: memory::filled("hits", 0, nodes)?,
            weighted: memory::filled("sums", 0.0, nodes * (dims + 1))?,
            smoother: Smoother::default(),
        })
    }

    /// Sums and counts by winner; the sum of distances.
    fn sum(&mut self) -> f64 {
        let dims = self.dims;
        self.sums.fill(0.0);
        self.counts.fill(0);
        let mut distance = 0.0;
        let samples = self.winners.samples.chunks_exact(dims);
        for (x, &winner) in samples.zip(&self.winners.found.winners) {
            let winner = winner as usize;
            let (mut squared, w) = (0.0, &self.weights[winner * dims..][..dims]);
            for ((sum, &x), &w) in self.sums[winner * dims..][..dims].iter_mut().zip(x).zip(w) {
                *sum += f64::from(x);
                squared += (x - w) * (x - w);
            }
            self.counts[winner] += 1;
            distance += match self.winners.metric {
                Metric::Euclidean => f64::from(squared).sqrt(),
                metric => metric.distance(x, w),
            };
        }
        distance
    }
}

impl Trainer for OnCpu {
    fn epoch(&mut self, radius: f64) -> Result<PassSums> {
        let rechecked = self.winners.search(&self.weights)?;
        let distance = self.sum();
        let (dims, width) = (self.dims, self.dims + 1);
        for (k, row) in self.weighted.chunks_exact_mut(width).enumerate() {
            for (to, sum) in row.iter_mut().zip(&self.sums[k * dims..][..dims]) {
                *to = *sum as f32;
            }
            row[dims] = self.counts[k] as f32;
        }
        let spread = (self.smoother).smooth(&self.grid, radius, &self.weighted, width);
        for (weights, row) in (self.weights.chunks_exact_mut(dims)).zip(spread.chunks_exact(width))
        {
            let mass = row[dims];
            if mass > NO_MASS {
                for (w, sum) in weights.iter_mut().zip(row) {
                    *w = sum / mass;
                }
            }
        }
        Ok(PassSums {
            distance,
            rechecked,
        })
    }

    fn weights(&self, to: &mut [f32]) -> Result<()> {
        to.copy_from_slice(&self.weights);
        Ok(())
    }

    fn hits(&self) -> Result<Vec<u32>> {
        Ok(self.counts.clone())
    }
}
