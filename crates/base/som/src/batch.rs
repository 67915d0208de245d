//! Batch training: winners of all samples, sums by winner, the sums spread over the map.
//!
//! w_k ← Σ_i h(k, c_i) x_i / Σ_i h(k, c_i), c_i the winner of sample i and h a Gaussian of their distance on the
//! map, whose radius shrinks from epoch to epoch (Kohonen 2001, section 3.6). Winners are those of the map's metric; the
//! mean is the same for all of them.

use betz_base::{Error, ErrorKind, Result, memory};

use betz_device::{Device, Placement, Ran, Work};

use super::cpu::OnCpu;
use super::cuda::OnCuda;
use super::samples::{Centre, Samples};
use super::trainer::{PLANE_ALONE, Trainer};
use super::{Grid, Map, Metric};

/// Multiply-adds of a training from which it gains by a device that is not open: a few seconds of one core.
const GAINS: f64 = 1e11;

/// Options of batch training.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchOptions {
    /// Rounds over all samples.
    pub epochs: usize,
    /// Radius (standard deviation) of the first epoch's Gaussian, in nodes; 0: a third of the longest side.
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

/// Report of an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epoch {
    /// Radius of its Gaussian, in nodes.
    pub radius: f64,
    /// Mean distance of samples from their winners, with the weights before the epoch.
    pub quantisation_error: f64,
    /// Samples that f32 could not decide (0 unless asked to be exact).
    pub rechecked: usize,
}

/// Batch training, an epoch at a time.
///
/// ```
/// use betz_device::Device;
/// use betz_som::{Batch, BatchOptions, Grid, Lattice, Map, Samples};
///
/// let values: Vec<f32> = (0..300).map(|i| (i * 7 % 11) as f32).collect();
/// let samples = Samples::new(&values, 3)?;
/// let map = Map::on_plane(Grid::new(4, 5, Lattice::Hexagonal, false)?, samples)?;
/// let mut batch = Batch::new(&map, samples, &BatchOptions::default(), &Device::cpu())?;
/// let first = batch.epoch()?.quantisation_error;
/// for _ in 1..30 {
///     batch.epoch()?;
/// }
/// // What a picture of the training shows: the codebook, its U-matrix, hits, and errors by epoch.
/// let stage = batch.stage()?;
/// assert_eq!(stage.map.heights().len(), 20);
/// assert_eq!(stage.hits.iter().sum::<u32>(), 100);
/// assert!(stage.epochs.len() == 30 && stage.epochs[29].quantisation_error < first);
/// # Ok::<(), betz_base::Error>(())
/// ```
pub struct Batch {
    grid: Grid,
    metric: Metric,
    dims: usize,
    samples: usize,
    centre: Centre,
    options: BatchOptions,
    first_radius: f64,
    epochs: Vec<Epoch>,
    ran: Ran,
    trainer: Box<dyn Trainer + Send>,
}

/// Training as it stands between two epochs.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The codebook; [`Map::heights`] is its U-matrix.
    pub map: Map,
    /// Samples that each node won in the last epoch, with the weights before it; zeros before the first.
    pub hits: Vec<u32>,
    /// Reports of the epochs until now.
    pub epochs: Vec<Epoch>,
}

impl Batch {
    /// Prepares to train `map` on `samples`, which both are copied, on `device`: on one CUDA device where it is named
    /// (of several the first), or where `auto` finds one and the work is worth opening it. Winners of `exact` training
    /// are the same on any; otherwise sums of products differ in their last bits, and with them samples that lie as
    /// near to one node as to another. Maps of several layers or of positions, and metrics that are not Euclidean, are
    /// trained on the CPU.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for samples of other dimensions, [`ErrorKind::InvalidArgument`] for options that
    /// make no sense, [`ErrorKind::OutOfMemory`]; [`ErrorKind::DeviceMemory`] and others of a device that was named.
    pub fn new(
        map: &Map,
        samples: Samples<'_>,
        options: &BatchOptions,
        device: &Device,
    ) -> Result<Self> {
        map.check(samples)?;
        let (grid, metric) = (map.grid().clone(), map.metric());
        let first_radius = if options.first_radius == 0.0 {
            (grid.extent() / 3.0).max(options.last_radius)
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
        let centre = match metric {
            Metric::Euclidean => Centre::of(samples),
            // The others are found in f64, and angles change with the centre.
            _ => Centre::none(dims),
        };
        let weights = centre.inward(map.weights());
        if weights.iter().any(|w| !w.is_finite()) {
            return Err(Error::new(
                ErrorKind::NonFinite,
                "map: expected weights near the samples, got some beyond what a product in f32 holds",
            ));
        }
        let inward = centre.inward(samples.values());
        let products = samples.count() as f64 * nodes as f64 * dims as f64 * options.epochs as f64;
        let work = Work::Amount {
            amount: products,
            gains_from: GAINS,
        };
        let placement = if metric == Metric::Euclidean && grid.is_plane() {
            Placement::decide(device, work)
        } else {
            Placement::cpu_instead(device, PLANE_ALONE)
        };
        let trainer = Self::trainer(&placement, map, inward, weights, options.exact)?;
        Ok(Self {
            grid,
            metric,
            dims,
            samples: samples.count(),
            centre,
            options: options.clone(),
            first_radius,
            epochs: memory::room("epochs", options.epochs)?,
            ran: placement.ran(""),
            trainer,
        })
    }

    fn trainer(
        placement: &Placement,
        map: &Map,
        samples: Vec<f32>,
        weights: Vec<f32>,
        exact: bool,
    ) -> Result<Box<dyn Trainer + Send>> {
        let dims = map.dims();
        if let Some(context) = placement.contexts().first() {
            let grid = map.grid().clone();
            let opened = OnCuda::new(context, grid, dims, &samples, &weights, exact);
            if let Some(cuda) = placement.or_cpu(opened)? {
                return Ok(Box::new(cuda));
            }
        }
        Ok(Box::new(OnCpu::new(map, samples, weights, exact)?))
    }

    /// Placement of the training.
    pub fn ran(&self) -> &Ran {
        &self.ran
    }

    /// The next round over all samples.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn epoch(&mut self) -> Result<Epoch> {
        let last = self.options.epochs.max(2) - 1;
        let part = self.epochs.len().min(last) as f64 / last as f64;
        let radius = self.first_radius * (self.options.last_radius / self.first_radius).powf(part);
        let passed = self.trainer.epoch(radius)?;
        let epoch = Epoch {
            radius,
            quantisation_error: passed.distance * self.centre.scale() / self.samples as f64,
            rechecked: passed.rechecked,
        };
        self.epochs.push(epoch);
        Ok(epoch)
    }

    /// Reports of the epochs until now.
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// The map as it is now.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`], those of the device.
    pub fn map(&self) -> Result<Map> {
        let mut inward = memory::filled("weights", 0.0, self.grid.nodes() * self.dims)?;
        self.trainer.weights(&mut inward)?;
        let mut weights = memory::filled("weights", 0.0, inward.len())?;
        self.centre.outward(&inward, &mut weights);
        Ok(Map::new(self.grid.clone(), self.dims, weights)?.with_metric(self.metric))
    }

    /// All that there is to see of the training now.
    ///
    /// # Errors
    /// As [`Batch::map`].
    pub fn stage(&self) -> Result<Stage> {
        Ok(Stage {
            map: self.map()?,
            hits: self.trainer.hits()?,
            epochs: self.epochs.clone(),
        })
    }
}
