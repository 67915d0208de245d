//! Kohonen's online rule, as Galbraith 2010, chapter 3, has it: a sample at a time.
//!
//! The winner c of a sample x is the nearest node; every node k moves by w_k += α N(k, c) (x − w_k). The paper
//! names five neighbourhoods N and uses one, the disc of Listing 3.3, with α = 0.05. Its listings count the winner from
//! 1 where they mean 0; here it counts from 0.

use betz_base::{Error, Result, memory};
use betz_device::{Device, Placement, Ran, Work};
use pulp::{Arch, Simd, WithSimd};

use super::metric::{self, PlanesView};
use super::neighbourhood::{Neighbourhood, Reach, neighbourhood, reaches, table};
use super::online_cuda::OnlineOnCuda;
use super::samples::Samples;
use super::trainer::PLANE_ALONE;
use super::{Grid, Map, Metric, start};

/// Nodes whose distances are found together.
const LANES: usize = 16;
/// Least numbers of a map by which a device gains, and least products of a sample and a map (benches/record/sorting.md).
const GAINS_FROM_NUMBERS: usize = 1 << 13;
const GAINS: f64 = 4e9;

/// Course of a number from its first value to its last over the passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FadeShape {
    /// It stays at the first.
    #[default]
    Constant,
    /// In equal differences.
    Linear,
    /// In equal ratios.
    Geometric,
    /// One less each pass, not below the last: the paper's viewer.
    OnePerPass,
}

/// A number that changes from pass to pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fade {
    /// In the first pass.
    pub first: f64,
    /// Value in the last pass.
    pub last: f64,
    /// Course from the first value to the last.
    pub shape: FadeShape,
}

impl Fade {
    /// The same in every pass.
    pub fn constant(value: f64) -> Self {
        Self {
            first: value,
            last: value,
            shape: FadeShape::Constant,
        }
    }

    /// In a pass, of so many.
    pub fn at(&self, pass: usize, passes: usize) -> f64 {
        let part = pass as f64 / (passes.max(2) - 1) as f64;
        match self.shape {
            FadeShape::Constant => self.first,
            FadeShape::Linear => self.first + (self.last - self.first) * part,
            FadeShape::Geometric => self.first * (self.last / self.first).powf(part),
            FadeShape::OnePerPass => (self.first - pass as f64).max(self.last),
        }
    }
}

/// Options of the online rule.
#[derive(Debug, Clone, PartialEq)]
pub struct OnlineOptions {
    /// Rounds over all samples, in their order.
    pub passes: usize,
    /// Learning rate α, above 0 and at most 1.
    pub rate: Fade,
    /// Radius of the neighbourhood, in nodes, 0 or more.
    pub radius: Fade,
    /// Its shape.
    pub neighbourhood: Neighbourhood,
}

impl Default for OnlineOptions {
    /// The paper's viewer: α = 0.05, a disc of 16 nodes, one node less each pass.
    fn default() -> Self {
        Self {
            passes: 16,
            rate: Fade::constant(0.05),
            radius: Fade {
                first: 16.0,
                last: 1.0,
                shape: FadeShape::OnePerPass,
            },
            neighbourhood: Neighbourhood::Disc,
        }
    }
}

/// The online rule at work on a map.
pub struct Online<'a> {
    samples: Samples<'a>,
    options: OnlineOptions,
    grid: Grid,
    metric: Metric,
    nodes: usize,
    /// Nodes with room to whole lanes; those beyond the last are infinitely far.
    padded: usize,
    /// (dims, padded).
    planes: Vec<f32>,
    ranges: Vec<(f32, f32)>,
    arch: Arch,
    /// N by difference of place, for this pass: (layers up, rows down, columns right) from the winner; empty for nodes
    /// at positions of their own.
    scales: Vec<Reach>,
    /// Learning rate and radius of this pass.
    rate: f64,
    radius: f64,
    pass: usize,
    next: usize,
    ran: Ran,
    cuda: Option<OnlineOnCuda>,
}

impl<'a> Online<'a> {
    /// Prepares to train `map` on `device`: copies its weights. A CUDA device is used where it is named (of several the first), or
    /// where `auto` finds one and the map is large enough to gain; the weights have the same bits on any.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for samples of other dimensions,
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for options that make no sense,
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory); those of a device that was named.
    pub fn new(
        map: &Map,
        samples: Samples<'a>,
        options: &OnlineOptions,
        device: &Device,
    ) -> Result<Self> {
        map.check(samples)?;
        if options.passes == 0 {
            return Err(Error::argument("passes: expected one at least, got 0"));
        }
        for pass in [0, options.passes - 1] {
            let rate = options.rate.at(pass, options.passes);
            if !(rate > 0.0 && rate <= 1.0) {
                return Err(Error::argument(format!(
                    "learning rate: expected above 0 and at most 1, got {rate} in pass {pass}"
                )));
            }
            let radius = options.radius.at(pass, options.passes);
            if !(radius.is_finite() && radius >= 0.0) {
                return Err(Error::argument(format!(
                    "radius: expected nodes, 0 or more, got {radius} in pass {pass}"
                )));
            }
        }
        let grid = map.grid().clone();
        let (nodes, dims) = (grid.nodes(), map.dims());
        let padded = nodes.next_multiple_of(LANES);
        let mut planes = memory::filled("weights", f32::INFINITY, padded * dims)?;
        for (node, weights) in map.weights().chunks_exact(dims).enumerate() {
            for (d, w) in weights.iter().enumerate() {
                planes[d * padded + node] = *w;
            }
        }
        let numbers = nodes * dims;
        let amount = (numbers as f64) * samples.count() as f64 * options.passes as f64;
        let work = Work::Amount {
            amount: if numbers < GAINS_FROM_NUMBERS {
                0.0
            } else {
                amount
            },
            gains_from: GAINS,
        };
        let placement = if map.metric() == Metric::Euclidean && grid.is_plane() {
            Placement::decide(device, work)
        } else {
            Placement::cpu_instead(device, PLANE_ALONE)
        };
        let mut online = Self {
            samples,
            options: options.clone(),
            grid,
            metric: map.metric(),
            nodes,
            padded,
            planes,
            ranges: start::ranges(samples),
            arch: Arch::new(),
            scales: Vec::new(),
            rate: 0.0,
            radius: 0.0,
            pass: 0,
            next: 0,
            ran: Ran::default(),
            cuda: None,
        };
        online.reach();
        if let Some(context) = placement.contexts().first() {
            online.cuda = placement.or_cpu(OnlineOnCuda::new(
                context,
                map.grid(),
                samples,
                &online.planes,
                &online.ranges,
                options.neighbourhood == Neighbourhood::MexicanHat,
                table(map.grid(), &online.scales)?,
            ))?;
        }
        online.ran = placement.ran("");
        Ok(online)
    }

    /// Placement of the training.
    pub fn ran(&self) -> &Ran {
        &self.ran
    }

    /// Presents up to `samples` more samples, not beyond the end of a pass; how many it was. 0: all passes are
    /// done.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn present(&mut self, samples: usize) -> Result<usize> {
        if self.pass == self.options.passes {
            return Ok(0);
        }
        let until = self.samples.count().min(self.next.saturating_add(samples));
        let presented = until - self.next;
        if let Some(cuda) = &mut self.cuda {
            cuda.present(self.next, presented)?;
        } else {
            for s in self.next..until {
                let x = self.samples.row(s);
                let winner = self.winner(x);
                self.learn(x, winner);
            }
        }
        self.next = until;
        if until == self.samples.count() {
            self.next = 0;
            self.pass += 1;
            if self.pass < self.options.passes {
                self.reach();
                if self.cuda.is_some() {
                    let table = table(&self.grid, &self.scales)?;
                    self.cuda
                        .as_mut()
                        .map_or(Ok(()), |cuda| cuda.follow(table))?;
                }
            }
        }
        Ok(presented)
    }

    /// Passes that are done.
    pub fn passes(&self) -> usize {
        self.pass
    }

    /// Writes the weights as they are now into `map`, which has the shape that training began with.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn write(&self, map: &mut Map) -> Result<()> {
        let dims = map.dims();
        let on_device = self.cuda.as_ref().map(OnlineOnCuda::planes).transpose()?;
        let planes = on_device.as_ref().unwrap_or(&self.planes);
        for (node, weights) in map.weights_mut().chunks_exact_mut(dims).enumerate() {
            for (d, w) in weights.iter_mut().enumerate() {
                *w = planes[d * self.padded + node];
            }
        }
        Ok(())
    }

    /// Learning rate, radius and neighbourhood of this pass.
    fn reach(&mut self) {
        self.rate = self.options.rate.at(self.pass, self.options.passes);
        self.radius = self.options.radius.at(self.pass, self.options.passes);
        let shape = self.options.neighbourhood;
        self.scales = reaches(&self.grid, shape, self.rate, self.radius);
    }

    fn winner(&self, x: &[f32]) -> usize {
        if self.metric != Metric::Euclidean {
            let planes = PlanesView {
                values: &self.planes,
                nodes: self.nodes,
                padded: self.padded,
            };
            return metric::nearest(self.arch, self.metric, x, planes).0;
        }
        self.arch.dispatch(Nearest {
            planes: &self.planes,
            padded: self.padded,
            x,
        })
    }

    fn learn(&mut self, x: &[f32], winner: usize) {
        if self.grid.has_positions() {
            return self.learn_at_positions(x, winner);
        }
        let (layer, row, column) = self.grid.coordinates(winner);
        let hat = self.options.neighbourhood == Neighbourhood::MexicanHat;
        let layers = self.grid.layers() as isize;
        let (rows, columns) = (self.grid.rows() as isize, self.grid.columns() as isize);
        let torus = self.grid.is_torus();
        let along = |to: isize, length: isize| {
            ((0..length).contains(&to) || torus).then(|| to.rem_euclid(length))
        };
        for reach in &self.scales {
            let to = along(row as isize + reach.down, rows);
            let (Some(to), Some(above)) = (to, along(layer as isize + reach.up, layers)) else {
                continue;
            };
            let to = above * rows + to;
            let parity = row % 2;
            let (first, scales) = (reach.first[parity], &reach.scales[parity]);
            let from = column as isize + first;
            // Nodes in the row without going around, then those that go around.
            for (begin, around) in [(from, 0), (from, columns), (from, -columns)] {
                if around != 0 && !self.grid.is_torus() {
                    break;
                }
                let begin = begin + around;
                let low = begin.max(0);
                let high = (begin + scales.len() as isize).min(columns);
                if low >= high {
                    continue;
                }
                let scales = &scales[(low - begin) as usize..(high - begin) as usize];
                let at = (to * columns + low) as usize;
                for (d, &x) in x.iter().enumerate() {
                    let weights = &mut self.planes[d * self.padded + at..][..scales.len()];
                    for (w, scale) in weights.iter_mut().zip(scales) {
                        *w += scale * (x - *w);
                    }
                    if hat {
                        let (low, high) = self.ranges[d];
                        weights.iter_mut().for_each(|w| *w = w.clamp(low, high));
                    }
                }
            }
        }
        debug_assert!(winner < self.nodes);
    }

    fn learn_at_positions(&mut self, x: &[f32], winner: usize) {
        let (shape, radius) = (self.options.neighbourhood, self.radius);
        for node in 0..self.nodes {
            let near = neighbourhood(shape, self.grid.apart(winner, node), radius);
            let scale = (self.rate * near) as f32;
            if scale == 0.0 {
                continue;
            }
            for (d, &x) in x.iter().enumerate() {
                let w = &mut self.planes[d * self.padded + node];
                *w += scale * (x - *w);
                if shape == Neighbourhood::MexicanHat {
                    let (low, high) = self.ranges[d];
                    *w = w.clamp(low, high);
                }
            }
        }
    }
}

/// The nearest node of planes of weights, sixteen at a time.
struct Nearest<'a> {
    planes: &'a [f32],
    padded: usize,
    x: &'a [f32],
}

impl WithSimd for Nearest<'_> {
    type Output = usize;

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // by index over arrays of known length: these become vectors
    fn with_simd<S: Simd>(self, _: S) -> usize {
        let mut least = [f32::INFINITY; LANES];
        let mut places = [0_u32; LANES];
        for chunk in 0..self.padded / LANES {
            let mut squared = [0.0_f32; LANES];
            for (d, &x) in self.x.iter().enumerate() {
                let at = d * self.padded + chunk * LANES;
                let weights = &self.planes[at..at + LANES];
                for l in 0..LANES {
                    let apart = weights[l] - x;
                    squared[l] += apart * apart;
                }
            }
            for l in 0..LANES {
                let nearer = squared[l] < least[l];
                least[l] = if nearer { squared[l] } else { least[l] };
                places[l] = if nearer { chunk as u32 } else { places[l] };
            }
        }
        let (mut best, mut place) = (f32::INFINITY, usize::MAX);
        for l in 0..LANES {
            let at = places[l] as usize * LANES + l;
            if least[l] < best || (least[l] == best && at < place) {
                (best, place) = (least[l], at);
            }
        }
        if best.is_finite() { place } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lattice, oracle};
    use betz_base::random::Random;

    /// Planes, bodies and lists of nodes.
    fn grids() -> Vec<Grid> {
        let mut grids = Vec::new();
        for (lattice, torus) in [
            (Lattice::Rectangular, false),
            (Lattice::Rectangular, true),
            (Lattice::Hexagonal, false),
            (Lattice::Hexagonal, true),
        ] {
            grids.push(Grid::new(6, 7, lattice, torus).unwrap());
            let layer = Grid::new(4, 3, lattice, torus).unwrap();
            grids.push(layer.with_layers(5).unwrap());
        }
        let mut random = Random::new(8);
        let places: Vec<f64> = (0..33 * 2).map(|_| 6.0 * random.uniform()).collect();
        grids.push(Grid::at_positions(&places, 2).unwrap());
        grids
    }

    fn one_pass(neighbourhood: Neighbourhood, radius: f64) -> OnlineOptions {
        OnlineOptions {
            passes: 1,
            rate: Fade::constant(0.2),
            radius: Fade::constant(radius),
            neighbourhood,
        }
    }

    /// One pass over 30 samples, and the same by the oracle.
    fn compare(grid: &Grid, metric: Metric, shape: Neighbourhood, radius: f64) {
        let mut random = Random::new(3);
        let values: Vec<f32> = (0..90).map(|_| random.uniform() as f32).collect();
        let samples = Samples::new(&values, 3).unwrap();
        let map = Map::at_random(grid.clone(), samples, 4).unwrap();
        let mut map = map.with_metric(metric);
        let mut expected: Vec<f64> = map.weights().iter().map(|w| f64::from(*w)).collect();
        let options = one_pass(shape, radius);
        let mut online = Online::new(&map, samples, &options, &Device::cpu()).unwrap();
        let ranges = start::ranges(samples);
        for x in samples.rows() {
            assert_eq!(online.present(1).unwrap(), 1);
            oracle::online_step(grid, metric, &mut expected, x, |a, b| {
                0.2 * neighbourhood(shape, grid.apart(a, b), radius)
            });
            if shape == Neighbourhood::MexicanHat {
                for (i, w) in expected.iter_mut().enumerate() {
                    let (low, high) = ranges[i % 3];
                    *w = w.clamp(f64::from(low), f64::from(high));
                }
            }
        }
        assert_eq!(online.present(1).unwrap(), 0);
        online.write(&mut map).unwrap();
        for (i, (got, expected)) in map.weights().iter().zip(&expected).enumerate() {
            assert!(
                (f64::from(*got) - expected).abs() < 1e-4,
                "{grid:?} {metric:?} {shape:?} {radius}: weight {i}: {got} for {expected}"
            );
        }
    }

    #[test]
    fn every_neighbourhood_is_the_oracles() {
        for grid in grids() {
            for shape in [
                Neighbourhood::Disc,
                Neighbourhood::ClosedDisc,
                Neighbourhood::Window,
                Neighbourhood::Gaussian,
                Neighbourhood::Triangle,
                Neighbourhood::MexicanHat,
            ] {
                for radius in [0.0, 1.0, 2.4, 9.0] {
                    compare(&grid, Metric::Euclidean, shape, radius);
                }
            }
        }
    }

    #[test]
    fn every_metric_is_the_oracles() {
        for grid in grids() {
            for (_, metric) in Metric::NAMES {
                compare(&grid, metric, Neighbourhood::Gaussian, 1.4);
            }
        }
    }

    #[test]
    fn the_table_of_a_device_moves_nodes_as_the_runs_do() {
        let values: Vec<f32> = (0..120).map(|i| (i * 31 % 97) as f32 / 97.0).collect();
        let samples = Samples::new(&values, 2).unwrap();
        let way = |by: isize, length: isize, torus: bool| match by {
            _ if !torus => by,
            by if by > length / 2 => by - length,
            by if by < -((length - 1) / 2) => by + length,
            by => by,
        };
        for (lattice, torus) in [
            (Lattice::Rectangular, false),
            (Lattice::Rectangular, true),
            (Lattice::Hexagonal, false),
            (Lattice::Hexagonal, true),
        ] {
            for shape in [
                Neighbourhood::Disc,
                Neighbourhood::MexicanHat,
                Neighbourhood::Triangle,
            ] {
                for radius in [0.0, 1.0, 2.4, 9.0] {
                    let grid = Grid::new(6, 7, lattice, torus).unwrap();
                    let mut map = Map::at_random(grid.clone(), samples, 4).unwrap();
                    let options = one_pass(shape, radius);
                    let mut online = Online::new(&map, samples, &options, &Device::cpu()).unwrap();
                    let table = table(&grid, &online.scales).unwrap();
                    let mut expected = map.weights().to_vec();
                    for x in samples.rows() {
                        let (_, row, column) = grid.coordinates(online.winner(x));
                        let parity = if lattice == Lattice::Hexagonal {
                            row % 2
                        } else {
                            0
                        };
                        for (node, weights) in expected.chunks_exact_mut(2).enumerate() {
                            let (_, r, c) = grid.coordinates(node);
                            let down = way(r as isize - row as isize, 6, torus) - table.up;
                            let right = way(c as isize - column as isize, 7, torus) - table.left;
                            let (down, right) = (down as usize, right as usize);
                            if down >= table.height || right >= table.width {
                                continue;
                            }
                            let at = (parity * table.height + down) * table.width + right;
                            let scale = table.scales[at];
                            if scale.is_nan() {
                                continue;
                            }
                            for (d, w) in weights.iter_mut().enumerate() {
                                *w += scale * (x[d] - *w);
                                if shape == Neighbourhood::MexicanHat {
                                    *w = w.clamp(online.ranges[d].0, online.ranges[d].1);
                                }
                            }
                        }
                        assert_eq!(online.present(1).unwrap(), 1);
                    }
                    online.write(&mut map).unwrap();
                    assert!(map.weights() == expected, "{grid:?}, {shape:?}, {radius}");
                }
            }
        }
    }

    #[test]
    fn fades_end_where_they_should() {
        for shape in [FadeShape::Linear, FadeShape::Geometric] {
            let fade = Fade {
                first: 8.0,
                last: 2.0,
                shape,
            };
            assert!((fade.at(0, 5) - 8.0).abs() < 1e-12 && (fade.at(4, 5) - 2.0).abs() < 1e-12);
        }
        let viewer = OnlineOptions::default().radius;
        assert_eq!((viewer.at(3, 99), viewer.at(50, 99)), (13.0, 1.0));
    }
}
