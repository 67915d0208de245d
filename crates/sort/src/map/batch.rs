//! Batch training: winners of all samples, sums by winner, the sums spread over the map.
//!
//! w_k ← Σ_i h(k, c_i) x_i / Σ_i h(k, c_i), c_i the winner of sample i and h a Gaussian of their distance on the
//! map, whose radius shrinks from epoch to epoch (Kohonen 2001, section 3.6).

use betz_base::{Error, ErrorKind, Result, memory};

use super::Map;
use super::samples::{Centre, Samples};
use super::search::{Found, Nodes, Search, error_bound};
use super::smooth::Smoother;

/// Mass below which a node keeps its weights.
const NO_MASS: f32 = 1e-12;

/// How batch training goes.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchOptions {
    /// Rounds over all samples.
    pub epochs: usize,
    /// Radius (standard deviation) of the first epoch's Gaussian, in nodes; 0: a third of the longer side.
    pub first_radius: f64,
    /// Radius of the last epoch; between them it falls geometrically.
    pub last_radius: f64,
    /// Winners that f32 cannot tell apart are decided in f64: winners are those of exact arithmetic on the
    /// centred data, at some cost where many nodes are nearly equal.
    pub exact: bool,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            epochs: 30,
            first_radius: 0.0,
            last_radius: 0.6,
            exact: false,
        }
    }
}

/// What an epoch did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epoch {
    /// Radius of its Gaussian, in nodes.
    pub radius: f64,
    /// Mean distance of samples from their winners, with the weights before the epoch.
    pub quantisation_error: f64,
    /// Samples that f32 could not decide (0 unless asked to be exact).
    pub rechecked: usize,
}

/// Sums and counts of samples by winner: what a device hands back from an epoch.
#[derive(Debug, Clone, Default)]
pub struct NodeSums {
    /// (nodes, dims), of centred samples.
    pub sums: Vec<f64>,
    /// Samples of each node.
    pub counts: Vec<u64>,
    /// Σ of distances from the winner, in units of the centred data.
    pub distance: f64,
    /// Samples that were decided in f64.
    pub rechecked: usize,
}

/// The two expensive steps of an epoch, wherever they run: the winner of each sample, and sums by winner. It
/// holds the samples; weights come with each call.
pub trait SearchAndSum {
    /// Fills `sums`, which come cleared and of the right lengths, for `weights`, (nodes, dims), centred as the
    /// samples are.
    ///
    /// # Errors
    /// What the device has to say.
    fn search_and_sum(&mut self, weights: &[f32], sums: &mut NodeSums) -> Result<()>;
}

/// [`SearchAndSum`] on rayon's current pool. Sums are added up in the order of the samples: the same bits on any
/// number of threads.
pub struct OnCpu {
    samples: Vec<f32>,
    dims: usize,
    search: Search,
    nodes: Nodes,
    found: Found,
    exact: bool,
}

impl OnCpu {
    /// Takes centred samples, (samples, dims).
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub fn new(samples: Vec<f32>, dims: usize, exact: bool) -> Result<Self> {
        Ok(Self {
            search: Search::new(&samples, dims)?,
            samples,
            dims,
            nodes: Nodes::new(),
            found: Found::default(),
            exact,
        })
    }

    /// The winners of the last search.
    pub fn winners(&self) -> &[u32] {
        &self.found.winners
    }

    pub(super) fn search(&mut self, weights: &[f32]) -> usize {
        self.search.pack(weights, &mut self.nodes);
        self.search.find(&self.nodes, &mut self.found);
        if self.exact { self.recheck(weights) } else { 0 }
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

impl SearchAndSum for OnCpu {
    fn search_and_sum(&mut self, weights: &[f32], sums: &mut NodeSums) -> Result<()> {
        sums.rechecked = self.search(weights);
        let dims = self.dims;
        for (x, &winner) in self.samples.chunks_exact(dims).zip(&self.found.winners) {
            let winner = winner as usize;
            let (mut squared, w) = (0.0, &weights[winner * dims..][..dims]);
            for ((sum, &x), &w) in sums.sums[winner * dims..][..dims].iter_mut().zip(x).zip(w) {
                *sum += f64::from(x);
                squared += (x - w) * (x - w);
            }
            sums.counts[winner] += 1;
            sums.distance += f64::from(squared).sqrt();
        }
        Ok(())
    }
}

/// Batch training, an epoch at a time.
pub struct Batch<S = OnCpu> {
    grid: super::Grid,
    dims: usize,
    samples: usize,
    centre: Centre,
    options: BatchOptions,
    first_radius: f64,
    done: usize,
    weights: Vec<f32>,
    sums: NodeSums,
    weighted: Vec<f32>,
    smoother: Smoother,
    worker: S,
}

impl Batch<OnCpu> {
    /// Prepares to train `map` on `samples`: copies both, packs the samples.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for samples of other dimensions, [`ErrorKind::InvalidArgument`] for options that
    /// make no sense, [`ErrorKind::OutOfMemory`].
    pub fn new(map: &Map, samples: Samples<'_>, options: &BatchOptions) -> Result<Self> {
        Self::on(map, samples, options, |inward, dims| {
            OnCpu::new(inward, dims, options.exact)
        })
    }
}

impl<S: SearchAndSum> Batch<S> {
    /// [`Batch::new`] with a worker made of the centred samples, (samples, dims).
    ///
    /// # Errors
    /// As [`Batch::new`], and those of `worker`.
    pub fn on(
        map: &Map,
        samples: Samples<'_>,
        options: &BatchOptions,
        worker: impl FnOnce(Vec<f32>, usize) -> Result<S>,
    ) -> Result<Self> {
        map.check(samples)?;
        let grid = *map.grid();
        let longer = grid.rows().max(grid.columns()) as f64;
        let first_radius = if options.first_radius == 0.0 {
            (longer / 3.0).max(options.last_radius)
        } else {
            options.first_radius
        };
        let radius = |name: &str, radius: f64| {
            if radius.is_finite() && radius > 0.0 {
                return Ok(());
            }
            Err(Error::argument(format!(
                "{name} radius: expected nodes, above 0, got {radius}"
            )))
        };
        radius("first", first_radius)?;
        radius("last", options.last_radius)?;
        if options.epochs == 0 {
            return Err(Error::argument("epochs: expected one at least, got 0"));
        }
        let (nodes, dims) = (grid.nodes(), map.dims());
        let bytes = nodes as u128 * (dims as u128 * 32 + 16) + samples.values().len() as u128 * 8;
        memory::plan("training a map", bytes)?;
        let centre = Centre::of(samples);
        let weights = centre.inward(map.weights());
        if weights.iter().any(|w| !w.is_finite()) {
            return Err(Error::new(
                ErrorKind::NonFinite,
                "map: expected weights near the samples, got some beyond what a product in f32 holds",
            ));
        }
        Ok(Self {
            grid,
            dims,
            samples: samples.count(),
            worker: worker(centre.inward(samples.values()), dims)?,
            centre,
            options: options.clone(),
            first_radius,
            done: 0,
            weights,
            sums: NodeSums::default(),
            weighted: memory::filled("sums", 0.0, nodes * (dims + 1))?,
            smoother: Smoother::default(),
        })
    }

    /// The next round over all samples.
    ///
    /// # Errors
    /// Those of the worker.
    pub fn epoch(&mut self) -> Result<Epoch> {
        let nodes = self.grid.nodes();
        self.sums.sums.clear();
        self.sums.sums.resize(nodes * self.dims, 0.0);
        self.sums.counts.clear();
        self.sums.counts.resize(nodes, 0);
        self.sums.distance = 0.0;
        self.worker.search_and_sum(&self.weights, &mut self.sums)?;
        let last = self.options.epochs.max(2) - 1;
        let part = self.done.min(last) as f64 / last as f64;
        let radius = self.first_radius * (self.options.last_radius / self.first_radius).powf(part);
        let width = self.dims + 1;
        for (k, row) in self.weighted.chunks_exact_mut(width).enumerate() {
            let sums = &self.sums.sums[k * self.dims..][..self.dims];
            for (to, sum) in row.iter_mut().zip(sums) {
                *to = *sum as f32;
            }
            row[self.dims] = self.sums.counts[k] as f32;
        }
        let spread = (self.smoother).smooth(&self.grid, radius, &self.weighted, width);
        for (weights, row) in
            (self.weights.chunks_exact_mut(self.dims)).zip(spread.chunks_exact(width))
        {
            let mass = row[self.dims];
            if mass > NO_MASS {
                for (w, sum) in weights.iter_mut().zip(row) {
                    *w = sum / mass;
                }
            }
        }
        self.done += 1;
        Ok(Epoch {
            radius,
            quantisation_error: self.sums.distance * self.centre.scale() / self.samples as f64,
            rechecked: self.sums.rechecked,
        })
    }

    /// Writes the weights as they are now into `map`, which has the shape that training began with.
    pub fn write(&self, map: &mut Map) {
        self.centre.outward(&self.weights, map.weights_mut());
    }
}
