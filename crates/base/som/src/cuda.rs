//! Batch training on a CUDA device: products by cuBLAS in f32, all else by `map_train.cu`. Samples and weights stay
//! there; an epoch gives back two numbers.

use std::sync::Arc;

use betz_base::{Error, Result};
use betz_device::cuda::{Buffer, Context, Kernel};
use betz_device::{Precision, ProductShape, SecondFactor};
use betz_kernels::map as kernels;
use betz_kernels::map::{
    MapNearest, MapPrepare, MapSpreadColumns, MapSpreadRows, MapSums, MapTotal, MapUpdate,
};

use super::smooth::{Kernels, kernels as gaussians};
use super::trainer::{NO_MASS, PassSums, Trainer};
use super::{Grid, Lattice};

/// Products of samples and nodes that are kept at once: half a gigabyte of them.
const MOST_PRODUCTS: usize = 1 << 27;

/// [`Trainer`] on one device. Sums are made in f64 in the order of the samples: two runs give the same bits.
pub(super) struct OnCuda {
    context: Arc<Context>,
    launches: Launches,
    grid: Grid,
    dims: usize,
    samples: usize,
    exact: bool,
    /// Samples that are multiplied at once, and how many.
    parts: Vec<(Buffer<f32>, usize)>,
    products: Buffer<f32>,
    winners: Buffer<u32>,
    distances: Buffer<f64>,
    total: Buffer<f64>,
    rechecked: Buffer<u32>,
    weights: Buffer<f32>,
    transposed: Buffer<f32>,
    halves: Buffer<f32>,
    /// (nodes, dims + 1).
    sums: Buffer<f64>,
    like: Buffer<f32>,
    unlike: Option<Buffer<f32>>,
    spread: Buffer<f32>,
    passed: bool,
}

struct Launches {
    prepare: Kernel,
    nearest: Kernel,
    total: Kernel,
    sums: Kernel,
    rows: Kernel,
    columns: Kernel,
    update: Kernel,
}

impl OnCuda {
    /// Takes centred samples and weights, (samples, dims) and (nodes, dims), to the device.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory), with the bytes it takes; those of the device.
    pub(super) fn new(
        context: &Arc<Context>,
        grid: Grid,
        dims: usize,
        samples: &[f32],
        weights: &[f32],
        exact: bool,
    ) -> Result<Self> {
        Self::with_products(context, grid, dims, samples, weights, exact, MOST_PRODUCTS)
    }

    pub(super) fn with_products(
        context: &Arc<Context>,
        grid: Grid,
        dims: usize,
        samples: &[f32],
        weights: &[f32],
        exact: bool,
        most_products: usize,
    ) -> Result<Self> {
        let (nodes, count, width) = (grid.nodes(), samples.len() / dims, dims + 1);
        let hexagonal = grid.lattice() == Lattice::Hexagonal;
        int(count)?;
        int(nodes)?;
        int(width)?;
        let at_once = (most_products / nodes).clamp(1, count);
        let spread = nodes as u64 * width as u64 * 4;
        let bytes = samples.len() as u64 * 4
            + at_once as u64 * nodes as u64 * 4
            + count as u64 * 12
            + spread * (if hexagonal { 5 } else { 4 })
            + weights.len() as u64 * 8;
        let (needed, room) = (bytes + bytes / 16, context.available_memory()?);
        if needed > room {
            return Err(Error::device_memory("training a map", needed, room));
        }
        // Asked for here, so that a library that is not there is told before the first epoch.
        context.start_blas()?;
        let launches = Launches {
            prepare: context.load::<MapPrepare<'_>>(&[], 0)?,
            nearest: context.load::<MapNearest<'_>>(&[], 0)?,
            total: context.load::<MapTotal<'_>>(&[], 0)?,
            sums: context.load::<MapSums<'_>>(&[], 0)?,
            rows: context.load::<MapSpreadRows<'_>>(&[], 0)?,
            columns: context.load::<MapSpreadColumns<'_>>(&[], 0)?,
            update: context.load::<MapUpdate<'_>>(&[], 0)?,
        };
        let mut parts = Vec::with_capacity(count.div_ceil(at_once));
        for part in samples.chunks(at_once * dims) {
            parts.push((context.upload(part)?, part.len() / dims));
        }
        Ok(Self {
            context: Arc::clone(context),
            launches,
            grid,
            dims,
            samples: count,
            exact,
            parts,
            products: context.alloc(at_once * nodes)?,
            winners: context.zeros(count)?,
            distances: context.zeros(count)?,
            total: context.alloc(1)?,
            rechecked: context.zeros(1)?,
            weights: context.upload(weights)?,
            transposed: context.alloc(weights.len())?,
            halves: context.alloc(nodes)?,
            sums: context.zeros(nodes * width)?,
            like: context.alloc(nodes * width)?,
            unlike: if hexagonal {
                Some(context.alloc(nodes * width)?)
            } else {
                None
            },
            spread: context.alloc(nodes * width)?,
            passed: false,
        })
    }

    /// Winners and distances of all samples, and sums by winner.
    fn search_and_sum(&mut self) -> Result<()> {
        let (nodes, dims) = (self.grid.nodes(), self.dims);
        let launches = &self.launches;
        launches.prepare.launch(
            blocks(nodes.div_ceil(8), 1)?,
            kernels::THREADS,
            MapPrepare {
                weights: self.weights.read(),
                nodes: int(nodes)?,
                dims: int(dims)?,
                transposed: self.transposed.write(),
                halves: self.halves.write(),
            },
        )?;
        self.context.clear(&mut self.rechecked)?;
        let mut first = 0;
        for (samples, count) in &self.parts {
            self.context.product_f32(
                Precision::F32,
                ProductShape {
                    m: *count,
                    n: nodes,
                    k: dims,
                },
                samples,
                SecondFactor::Plain(&self.transposed),
                0.0,
                &mut self.products,
            )?;
            launches.nearest.launch(
                blocks(*count, 1)?,
                kernels::THREADS,
                MapNearest {
                    samples: samples.read(),
                    products: self.products.read(),
                    transposed: self.transposed.read(),
                    halves: self.halves.read(),
                    count: int(*count)?,
                    nodes: int(nodes)?,
                    dims: int(dims)?,
                    exact: i32::from(self.exact),
                    winners: self.winners.update().skip(first),
                    distances: self.distances.update().skip(first),
                    rechecked: self.rechecked.update(),
                },
            )?;
            launches.sums.launch(
                blocks(nodes, (dims + 1).div_ceil(kernels::SUM_DIMS as usize))?,
                kernels::THREADS,
                MapSums {
                    samples: samples.read(),
                    winners: self.winners.read().skip(first),
                    count: int(*count)?,
                    nodes: int(nodes)?,
                    dims: int(dims)?,
                    first_samples: i32::from(first == 0),
                    sums: self.sums.update(),
                },
            )?;
            first += count;
        }
        launches.total.launch(
            (1, 1, 1),
            kernels::THREADS,
            MapTotal {
                values: self.distances.read(),
                count: int(self.samples)?,
                total: self.total.write(),
            },
        )
    }

    /// The sums over the map, and the weights that they make.
    fn spread(&mut self, radius: f64) -> Result<()> {
        let (nodes, width) = (self.grid.nodes(), self.dims + 1);
        let (rows, columns) = (int(self.grid.rows())?, int(self.grid.columns())?);
        let spread = blocks(nodes, width.div_ceil(kernels::SPREAD_THREADS as usize))?;
        let launches = &self.launches;
        let Kernels {
            along,
            right,
            left,
            across,
            ..
        } = gaussians(&self.grid, radius);
        let along = self.context.upload(&along)?;
        launches.rows.launch(
            spread,
            kernels::SPREAD_THREADS,
            MapSpreadRows {
                from: self.sums.read(),
                even: along.read(),
                odd: along.read(),
                rows,
                columns,
                width: int(width)?,
                to: self.like.write(),
            },
        )?;
        if let Some(unlike) = &mut self.unlike {
            let (right, left) = (self.context.upload(&right)?, self.context.upload(&left)?);
            launches.rows.launch(
                spread,
                kernels::SPREAD_THREADS,
                MapSpreadRows {
                    from: self.sums.read(),
                    even: right.read(),
                    odd: left.read(),
                    rows,
                    columns,
                    width: int(width)?,
                    to: unlike.write(),
                },
            )?;
        }
        let across = self.context.upload(&across)?;
        launches.columns.launch(
            spread,
            kernels::SPREAD_THREADS,
            MapSpreadColumns {
                like: self.like.read(),
                unlike: self.unlike.as_ref().unwrap_or(&self.like).read(),
                down: across.read(),
                rows,
                columns,
                width: int(width)?,
                to: self.spread.write(),
            },
        )?;
        launches.update.launch(
            blocks((nodes * self.dims).div_ceil(kernels::THREADS as usize), 1)?,
            kernels::THREADS,
            MapUpdate {
                spread: self.spread.read(),
                nodes: int(nodes)?,
                dims: int(self.dims)?,
                least: NO_MASS,
                weights: self.weights.update(),
            },
        )
    }
}

impl Trainer for OnCuda {
    fn epoch(&mut self, radius: f64) -> Result<PassSums> {
        self.search_and_sum()?;
        self.spread(radius)?;
        self.passed = true;
        let distance = self.context.download(&self.total, 1)?;
        let rechecked = self.context.download(&self.rechecked, 1)?;
        Ok(PassSums {
            distance: distance[0],
            rechecked: rechecked[0] as usize,
        })
    }

    fn weights(&self, to: &mut [f32]) -> Result<()> {
        to.copy_from_slice(&self.context.download(&self.weights, to.len())?);
        Ok(())
    }

    fn hits(&self) -> Result<Vec<u32>> {
        let mut hits = vec![0; self.grid.nodes()];
        if self.passed {
            for winner in self.context.download(&self.winners, self.samples)? {
                hits[winner as usize] += 1;
            }
        }
        Ok(hits)
    }
}

/// Numbers as kernels take them.
fn int(number: usize) -> Result<i32> {
    i32::try_from(number).map_err(|_| {
        Error::argument(format!(
            "training a map on a device: expected samples, nodes and numbers below 2^31 each, got {number}"
        ))
    })
}

fn blocks(x: usize, y: usize) -> Result<(u32, u32, u32)> {
    Ok((int(x)? as u32, int(y)? as u32, 1))
}

#[cfg(test)]
mod tests {
    use betz_device::Device;

    use super::super::{Batch, BatchOptions, Map, Samples};
    use super::*;
    use betz_base::random::Random;
    use betz_testkit::context;

    /// Maps and data: (rows, columns, lattice, torus, samples, dims).
    const CASES: [(usize, usize, Lattice, bool, usize, usize); 7] = [
        (1, 1, Lattice::Rectangular, false, 5, 2),
        (1, 9, Lattice::Rectangular, false, 300, 1),
        (6, 5, Lattice::Rectangular, true, 257, 3),
        (7, 4, Lattice::Hexagonal, false, 1000, 33),
        (8, 9, Lattice::Hexagonal, true, 400, 12),
        (20, 30, Lattice::Rectangular, false, 40, 700),
        (40, 33, Lattice::Rectangular, false, 3000, 24),
    ];

    fn values(random: &mut Random, samples: usize, dims: usize) -> Vec<f32> {
        let one = |i: usize| ((i / dims) % 5) as f32 * 3.0 + random.uniform() as f32;
        (0..samples * dims).map(one).collect()
    }

    #[test]
    fn cuda_epochs_are_those_of_the_cpu_on_all_cases() {
        if context().is_none() {
            return;
        }
        let device = Device::cuda(0).unwrap();
        let mut random = Random::new(9);
        for (rows, columns, lattice, torus, count, dims) in CASES {
            let what = format!("{rows} x {columns} {lattice:?}, torus {torus}, {count} of {dims}");
            let values = values(&mut random, count, dims);
            let samples = Samples::new(&values, dims).unwrap();
            let grid = Grid::new(rows, columns, lattice, torus).unwrap();
            let map = Map::on_plane(grid, samples).unwrap();
            // Exact: the same winners, so that only the order of f32's sums differs.
            let options = BatchOptions {
                epochs: 1,
                exact: true,
                ..BatchOptions::default()
            };
            let mut now = map;
            for epoch in 0..4 {
                let mut cpu = Batch::new(&now, samples, &options, &Device::cpu()).unwrap();
                let mut cuda = Batch::new(&now, samples, &options, &device).unwrap();
                assert_eq!(cuda.ran().device, "cuda:0");
                let (a, b) = (cpu.epoch().unwrap(), cuda.epoch().unwrap());
                let apart = (a.quantisation_error - b.quantisation_error).abs();
                assert!(apart <= 1e-6 * a.quantisation_error, "{what}: {a:?} {b:?}");
                let (a, b) = (cpu.stage().unwrap(), cuda.stage().unwrap());
                assert_eq!(a.hits, b.hits, "{what}, epoch {epoch}");
                for (x, y) in a.map.weights().iter().zip(b.map.weights()) {
                    assert!((x - y).abs() <= 2e-5 * (1.0 + x.abs()), "{what}: {x} {y}");
                }
                now = a.map;
            }
        }
    }

    #[test]
    fn cuda_ties_go_to_the_lowest_node_and_parts_change_nothing() {
        let Some(context) = context() else { return };
        let grid = Grid::new(5, 8, Lattice::Rectangular, false).unwrap();
        // Eighths: products are exact, and nodes k and k + 20 are the same.
        let mut random = Random::new(4);
        let mut eighths = |n: usize| -> Vec<f32> {
            let one = |_| ((random.uniform() * 16.0) as i32 - 8) as f32 / 8.0;
            (0..n).map(one).collect()
        };
        let (samples, half) = (eighths(333 * 6), eighths(20 * 6));
        let weights = [half.clone(), half].concat();
        let mut runs = Vec::new();
        for (exact, most) in [
            (false, 1 << 20),
            (true, 1 << 20),
            (false, 40 * 100),
            (false, 1),
        ] {
            let mut cuda =
                OnCuda::with_products(&context, grid.clone(), 6, &samples, &weights, exact, most)
                    .unwrap();
            let passed = cuda.epoch(1.5).unwrap();
            let hits = cuda.hits().unwrap();
            assert!(hits[20..].iter().all(|hits| *hits == 0), "{hits:?}");
            assert_eq!(hits.iter().sum::<u32>(), 333);
            assert_eq!(passed.rechecked, if exact { 333 } else { 0 });
            let mut now = vec![0.0; weights.len()];
            cuda.weights(&mut now).unwrap();
            runs.push((passed.distance, hits, now));
        }
        assert!(runs.iter().all(|run| *run == runs[0]));
    }
}
