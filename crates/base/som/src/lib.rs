//! Self-organising maps: Kohonen's online rule, and batch training as blocked products.

mod batch;
mod cpu;
mod cuda;
mod grid;
mod metric;
mod neighbourhood;
mod online;
mod online_cuda;
pub mod oracle;
mod positions;
mod quality;
mod samples;
mod search;
mod smooth;
mod start;
mod trainer;

use betz_base::{Error, Result};
use betz_device::Device;

pub use batch::{Batch, BatchOptions, Epoch, Stage};
pub use grid::{Grid, Lattice, MAX_NODES};
pub use metric::Metric;
pub use neighbourhood::Neighbourhood;
pub use online::{Fade, FadeShape, Online, OnlineOptions};
pub use positions::MAX_POSITIONS;
pub use quality::Quality;
pub use samples::Samples;

/// A grid of nodes, each with a weight for every dimension of the data.
///
/// ```
/// use betz_device::Device;
/// use betz_som::{BatchOptions, Grid, Lattice, Map, Samples};
///
/// // Two heaps of points: they land far apart on the map.
/// let values: Vec<f32> = (0..200).flat_map(|i| [(i % 2 * 10) as f32, (i % 7) as f32 * 0.1]).collect();
/// let samples = Samples::new(&values, 2)?;
/// let grid = Grid::new(1, 6, Lattice::Rectangular, false)?;
/// let mut map = Map::on_plane(grid, samples)?;
/// map.train(samples, &BatchOptions::default(), &Device::cpu(), &())?;
/// let winners = map.winners(samples)?;
/// assert!(winners[0].abs_diff(winners[1]) >= 3);
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    grid: Grid,
    metric: Metric,
    dims: usize,
    weights: Vec<f32>,
}

/// Node of every sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assignment {
    /// Nearest node of each sample.
    pub winners: Vec<u32>,
    /// Distance of each sample from it.
    pub distances: Vec<f32>,
}

impl Map {
    /// A map of given weights, (nodes, dims).
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when they are not as many as the nodes have,
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for one that is not finite.
    pub fn new(grid: Grid, dims: usize, weights: Vec<f32>) -> Result<Self> {
        if dims == 0 || grid.nodes().checked_mul(dims) != Some(weights.len()) {
            return Err(Error::mismatch(format!(
                "map: expected {} nodes of {dims} weights each, got {} weights",
                grid.nodes(),
                weights.len()
            )));
        }
        if let Some(at) = weights.iter().position(|w| !w.is_finite()) {
            return Err(Error::argument(format!(
                "node {}, weight {}: expected a finite number, got {}",
                at / dims,
                at % dims,
                weights[at]
            )));
        }
        Ok(Self {
            grid,
            metric: Metric::Euclidean,
            dims,
            weights,
        })
    }

    /// The same map with another distance between samples and nodes.
    #[must_use]
    pub fn with_metric(self, metric: Metric) -> Self {
        Self { metric, ..self }
    }

    /// A map whose nodes lie evenly on the plane of the samples' first two principal components, two standard
    /// deviations to each side of the mean: the start of batch training, without chance. A map in three dimensions
    /// spans three components.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub fn on_plane(grid: Grid, samples: Samples<'_>) -> Result<Self> {
        let weights = start::plane(&grid, samples)?;
        Ok(Self {
            grid,
            metric: Metric::Euclidean,
            dims: samples.dims(),
            weights,
        })
    }

    /// A map of weights drawn evenly between each dimension's smallest and largest value, as Galbraith 2010,
    /// section 3.1.1, begins.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub fn at_random(grid: Grid, samples: Samples<'_>, seed: u64) -> Result<Self> {
        let weights = start::random(&grid, samples, seed)?;
        Ok(Self {
            grid,
            metric: Metric::Euclidean,
            dims: samples.dims(),
            weights,
        })
    }

    /// Grid of the map's nodes.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Distance between samples and nodes.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Dimensions of a node.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// All weights, (nodes, dims).
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// The weights of one node.
    pub fn node(&self, node: usize) -> &[f32] {
        &self.weights[node * self.dims..][..self.dims]
    }

    /// The component plane of a dimension: its weight at every node.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a dimension there is not.
    pub fn plane(&self, dim: usize) -> Result<Vec<f32>> {
        if dim >= self.dims {
            return Err(Error::argument(format!(
                "component plane: expected a dimension below {}, got {dim}",
                self.dims
            )));
        }
        Ok(self
            .weights
            .iter()
            .skip(dim)
            .step_by(self.dims)
            .copied()
            .collect())
    }

    /// Each node's mean distance from its neighbours: the U-matrix (Ultsch and Siemon 1990), a number a node.
    pub fn heights(&self) -> Vec<f32> {
        (0..self.grid.nodes())
            .map(|a| {
                let (mut sum, mut count) = (0.0, 0);
                for b in self.grid.neighbours(a) {
                    sum += self.between(a, b);
                    count += 1;
                }
                (sum / f64::from(count.max(1))) as f32
            })
            .collect()
    }

    /// Distance between the weights of two nodes.
    pub fn between(&self, a: usize, b: usize) -> f64 {
        self.metric.distance(self.node(a), self.node(b))
    }

    /// Batch training; see [`Batch`] to look at the map between epochs.
    ///
    /// # Errors
    /// The errors of [`Batch::new`] and [`Batch::epoch`].
    pub fn train(
        &mut self,
        samples: Samples<'_>,
        options: &BatchOptions,
        device: &Device,
        progress: &dyn betz_base::Progress,
    ) -> Result<Vec<Epoch>> {
        let mut batch = Batch::new(self, samples, options, device)?;
        for done in 0..options.epochs {
            betz_base::progress::check(progress, "training the map")?;
            batch.epoch()?;
            progress.update("training the map", done as u64 + 1, options.epochs as u64);
        }
        *self = batch.map()?;
        Ok(batch.epochs().to_vec())
    }

    /// Every sample's nearest node; of nodes equally near the lowest. Exact: where f32 cannot tell two nodes
    /// apart, f64 does.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for samples of other dimensions,
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub fn winners(&self, samples: Samples<'_>) -> Result<Vec<u32>> {
        quality::winners(self, samples)
    }

    /// Every sample's nearest node, as [`Map::winners`], and its distance from it.
    ///
    /// # Errors
    /// As [`Map::winners`].
    pub fn assign(&self, samples: Samples<'_>) -> Result<Assignment> {
        let winners = self.winners(samples)?;
        let mut distances = betz_base::memory::room("distances", winners.len())?;
        for (x, winner) in samples.rows().zip(&winners) {
            distances.push(self.metric.distance(x, self.node(*winner as usize)) as f32);
        }
        Ok(Assignment { winners, distances })
    }

    /// The distance of every sample from every node, (samples, nodes), in f64.
    ///
    /// # Errors
    /// As [`Map::winners`].
    pub fn distances(&self, samples: Samples<'_>) -> Result<Vec<f64>> {
        self.check(samples)?;
        let planes = metric::Planes::new(&self.weights, self.dims)?;
        metric::distances(self.metric, samples, &planes)
    }

    /// Number of samples that each node wins.
    ///
    /// # Errors
    /// As [`Map::winners`].
    pub fn hits(&self, samples: Samples<'_>) -> Result<Vec<u32>> {
        let mut hits = vec![0; self.grid.nodes()];
        for winner in self.winners(samples)? {
            hits[winner as usize] += 1;
        }
        Ok(hits)
    }

    /// Quality of the map as a picture of the samples.
    ///
    /// # Errors
    /// As [`Map::winners`].
    pub fn quality(&self, samples: Samples<'_>) -> Result<Quality> {
        quality::quality(self, samples)
    }

    /// Samples that are evenly spread, row by row: as many as that many products of a sample's number and a weight, and a
    /// hundred at least. The quality of a map can be measured on them.
    pub fn evenly(&self, samples: Samples<'_>, products: usize) -> Vec<f32> {
        let each = self.grid.nodes().saturating_mul(samples.dims());
        let most = (products / each).clamp(100, samples.count().max(100));
        let every = samples.count().div_ceil(most).max(1);
        samples.rows().step_by(every).flatten().copied().collect()
    }

    pub(crate) fn check(&self, samples: Samples<'_>) -> Result<()> {
        if samples.dims() == self.dims {
            return Ok(());
        }
        Err(Error::mismatch(format!(
            "map: expected samples of {} numbers, got {}",
            self.dims,
            samples.dims()
        )))
    }

    pub(crate) fn weights_mut(&mut self) -> &mut [f32] {
        &mut self.weights
    }
}
