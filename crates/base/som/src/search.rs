//! The nearest node of every sample: a blocked product with a running maximum.
//!
//! The nearest node has the largest x·w − ½‖w‖². Samples are packed once into panels as high as two or
//! three SIMD registers, nodes for each search into groups of a few; a tile of the product is a panel
//! times a group, kept in registers over all dimensions, and compared with the best of its samples
//! before the next one is begun. Scores are never stored. Nodes ascend and only a larger score wins,
//! so that of equals the lowest has it. A sample's winner does not depend on which thread had it.

use betz_base::{Result, memory};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Most SIMD registers that hold one dimension of a panel.
const MOST_REGISTERS: usize = 3;
/// Most lanes that a register of f32 has.
const MOST_LANES: usize = 16;
/// Dimensions of one sum in registers.
const SUM_DIMS: usize = 128;
/// Panels that a task has: they stay in the second cache while nodes go by.
const TASK_PANELS: usize = 8;
/// Bytes of nodes that all panels of a task meet before the next ones.
const NODE_BYTES: usize = 256 << 10;

/// Samples, packed.
pub(super) struct Search {
    arch: Arch,
    shape: Shape,
    samples: usize,
    dims: usize,
    /// For each panel: (dimension, sample); those beyond the last sample are zero.
    packed: Vec<f32>,
}

/// Samples of a panel and nodes of a group.
#[derive(Debug, Clone, Copy)]
struct Shape {
    rows: usize,
    columns: usize,
}

/// Nodes, packed.
pub(super) struct Nodes {
    /// For each group: (dimension, node).
    packed: Vec<f32>,
    /// ½‖w‖², and infinity beyond the last node.
    halves: Vec<f32>,
}

/// Result of a search for each sample.
#[derive(Debug, Default)]
pub(super) struct NearestNodes {
    /// The nearest node.
    pub(super) winners: Vec<u32>,
    /// Its x·w − ½‖w‖².
    pub(super) scores: Vec<f32>,
    /// The next best score, of whichever node.
    pub(super) seconds: Vec<f32>,
}

impl Search {
    /// Packs (samples, dims).
    pub(super) fn new(values: &[f32], dims: usize) -> Result<Self> {
        Self::with_arch(values, dims, Arch::new())
    }

    fn with_arch(values: &[f32], dims: usize, arch: Arch) -> Result<Self> {
        let shape = arch.dispatch(OfRegisters);
        let samples = values.len() / dims;
        let panel = shape.rows * dims;
        let len = samples.div_ceil(shape.rows) * panel;
        memory::plan("packed samples", len as u128 * 4)?;
        let mut packed = memory::filled("packed samples", 0.0_f32, len)?;
        (packed.par_chunks_mut(panel))
            .zip(values.par_chunks(shape.rows * dims))
            .for_each(|(panel, values)| {
                for (r, sample) in values.chunks_exact(dims).enumerate() {
                    for (d, value) in sample.iter().enumerate() {
                        panel[d * shape.rows + r] = *value;
                    }
                }
            });
        Ok(Self {
            arch,
            shape,
            samples,
            dims,
            packed,
        })
    }

    /// Packs (nodes, dims) for this search.
    pub(super) fn pack(&self, weights: &[f32], nodes: &mut Nodes) {
        let columns = self.shape.columns;
        let count = weights.len() / self.dims;
        let groups = count.div_ceil(columns);
        nodes.packed.clear();
        nodes.packed.resize(groups * columns * self.dims, 0.0);
        nodes.halves.clear();
        nodes.halves.resize(groups * columns, f32::INFINITY);
        (nodes.packed.par_chunks_mut(columns * self.dims))
            .zip(nodes.halves.par_chunks_mut(columns))
            .zip(weights.par_chunks(columns * self.dims))
            .for_each(|((packed, halves), weights)| {
                for (c, weight) in weights.chunks_exact(self.dims).enumerate() {
                    let mut sum = 0.0_f64;
                    for (d, &w) in weight.iter().enumerate() {
                        packed[d * columns + c] = w;
                        sum += f64::from(w) * f64::from(w);
                    }
                    halves[c] = (0.5 * sum) as f32;
                }
            });
    }

    /// Finds every sample's winner on rayon's current pool.
    pub(super) fn find(&self, nodes: &Nodes, found: &mut NearestNodes) {
        let rows = self.shape.rows;
        found.winners.resize(self.samples, 0);
        found.scores.resize(self.samples, 0.0);
        found.seconds.resize(self.samples, 0.0);
        let task = TASK_PANELS * rows;
        (self.packed.par_chunks(task * self.dims))
            .zip(found.winners.par_chunks_mut(task))
            .zip(found.scores.par_chunks_mut(task))
            .zip(found.seconds.par_chunks_mut(task))
            .for_each(|(((panels, winners), scores), seconds)| {
                self.arch.dispatch(Task {
                    panels,
                    nodes,
                    dims: self.dims,
                    shape: self.shape,
                    winners,
                    scores,
                    seconds,
                });
            });
    }
}

impl Nodes {
    pub(super) fn new() -> Self {
        Self {
            packed: Vec::new(),
            halves: Vec::new(),
        }
    }

    /// The largest ‖w‖.
    pub(super) fn longest(&self) -> f64 {
        let halves = self.halves.iter().filter(|h| h.is_finite());
        let most = halves.fold(0.0_f32, |most, &half| most.max(half));
        (2.0 * f64::from(most)).sqrt()
    }
}

struct OfRegisters;

impl WithSimd for OfRegisters {
    type Output = Shape;

    fn with_simd<S: Simd>(self, _: S) -> Shape {
        // Sums, a panel's dimension and one weight. Of 16 registers one is left free: with 3 x 4 none is,
        // and the compiler keeps two sums in memory.
        let (registers, columns) = if S::REGISTER_COUNT >= 32 {
            (3, 8)
        } else {
            (2, 6)
        };
        Shape {
            rows: registers * S::F32_LANES,
            columns,
        }
    }
}

/// Some panels against all nodes.
struct Task<'a> {
    panels: &'a [f32],
    nodes: &'a Nodes,
    dims: usize,
    shape: Shape,
    winners: &'a mut [u32],
    scores: &'a mut [f32],
    seconds: &'a mut [f32],
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.shape.columns {
            8 => self.run::<S, 3, 8>(simd),
            _ => self.run::<S, 2, 6>(simd),
        }
    }
}

impl Task<'_> {
    #[inline(always)]
    fn run<S: Simd, const REGISTERS: usize, const COLUMNS: usize>(self, simd: S) {
        let rows = self.shape.rows;
        let panel = rows * self.dims;
        let group = COLUMNS * self.dims;
        let low = simd.splat_f32s(f32::NEG_INFINITY);
        let mut best = [[low; REGISTERS]; TASK_PANELS];
        let mut second = [[low; REGISTERS]; TASK_PANELS];
        let mut winner = [[simd.splat_u32s(0); REGISTERS]; TASK_PANELS];
        let at_once = (NODE_BYTES / 4 / group).max(1);
        let chunks = self.nodes.packed.chunks(at_once * group);
        for (chunk, nodes) in chunks.enumerate() {
            for (p, panel) in self.panels.chunks_exact(panel).enumerate() {
                for (g, weights) in nodes.chunks_exact(group).enumerate() {
                    let first = (chunk * at_once + g) * COLUMNS;
                    let sums = tile::<S, REGISTERS, COLUMNS>(simd, panel, weights);
                    let halves = &self.nodes.halves[first..first + COLUMNS];
                    for (c, (sums, half)) in sums.into_iter().zip(halves).enumerate() {
                        let half = simd.splat_f32s(*half);
                        let index = simd.splat_u32s((first + c) as u32);
                        for (r, sum) in sums.into_iter().enumerate() {
                            let score = simd.sub_f32s(sum, half);
                            let (old, next) = (best[p][r], second[p][r]);
                            let wins = simd.greater_than_f32s(score, old);
                            let loser = simd.select_f32s(wins, old, score);
                            let higher = simd.greater_than_f32s(loser, next);
                            second[p][r] = simd.select_f32s(higher, loser, next);
                            best[p][r] = simd.select_f32s(wins, score, old);
                            winner[p][r] = simd.select_u32s(wins, index, winner[p][r]);
                        }
                    }
                }
            }
        }
        let mut lanes = [0.0_f32; MOST_REGISTERS * MOST_LANES];
        let mut indices = [0_u32; MOST_REGISTERS * MOST_LANES];
        for (p, winners) in self.winners.chunks_mut(rows).enumerate() {
            let scores = &mut self.scores[p * rows..][..winners.len()];
            let seconds = &mut self.seconds[p * rows..][..winners.len()];
            {
                let (heads, _) = S::as_mut_simd_f32s(&mut lanes[..rows]);
                heads.copy_from_slice(&best[p]);
            }
            scores.copy_from_slice(&lanes[..scores.len()]);
            {
                let (heads, _) = S::as_mut_simd_f32s(&mut lanes[..rows]);
                heads.copy_from_slice(&second[p]);
            }
            seconds.copy_from_slice(&lanes[..seconds.len()]);
            let (heads, _) = S::as_mut_simd_u32s(&mut indices[..rows]);
            heads.copy_from_slice(&winner[p]);
            winners.copy_from_slice(&indices[..winners.len()]);
        }
    }
}

/// A panel times a group, over all dimensions.
#[inline(always)]
fn tile<S: Simd, const REGISTERS: usize, const COLUMNS: usize>(
    simd: S,
    panel: &[f32],
    weights: &[f32],
) -> [[S::f32s; REGISTERS]; COLUMNS] {
    let zero = [[simd.splat_f32s(0.0); REGISTERS]; COLUMNS];
    let (panel, _) = S::as_simd_f32s(panel);
    let (panel, _) = panel.as_chunks::<REGISTERS>();
    let (weights, _) = weights.as_chunks::<COLUMNS>();
    let mut total = zero;
    for (i, (panel, weights)) in panel
        .chunks(SUM_DIMS)
        .zip(weights.chunks(SUM_DIMS))
        .enumerate()
    {
        let mut sums = zero;
        for (left, right) in panel.iter().zip(weights) {
            for (sums, &right) in sums.iter_mut().zip(right) {
                let right = simd.splat_f32s(right);
                for (sum, &left) in sums.iter_mut().zip(left) {
                    *sum = simd.mul_add_f32s(left, right, *sum);
                }
            }
        }
        if i == 0 {
            total = sums;
        } else {
            for (totals, sums) in total.iter_mut().zip(sums) {
                for (total, sum) in totals.iter_mut().zip(sums) {
                    *total = simd.add_f32s(*total, sum);
                }
            }
        }
    }
    total
}

/// Bound of the error of a score, for ‖x‖ and the largest ‖w‖: one rounding for each multiply-add of a
/// sum in registers, for each of their sums, and for what x and w were rounded to when they were centred.
pub(super) fn error_bound(dims: usize, x: f64, w: f64) -> f64 {
    let roundings = dims.min(SUM_DIMS) + dims.div_ceil(SUM_DIMS) + 8;
    roundings as f64 * f64::from(f32::EPSILON) * 0.5 * (x * w + 0.5 * w * w)
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_base::random::Random;

    fn archs() -> Vec<Arch> {
        #[allow(unused_mut)]
        let mut archs = vec![Arch::new(), Arch::Scalar];
        #[cfg(target_arch = "x86_64")]
        archs.extend(pulp::x86::V3::try_new().map(Arch::V3));
        archs
    }

    #[test]
    fn equals_plain_loops_for_every_shape_and_kind_of_register() {
        let mut random = Random::new(1);
        for arch in archs() {
            for (samples, dims, nodes) in [
                (1, 1, 1),
                (2, 3, 5),
                (47, 12, 64),
                (49, 131, 9),
                (500, 7, 33),
            ] {
                // Eighths: sums are exact, and ties are ties.
                let mut draw = |n: usize| -> Vec<f32> {
                    let one = |_| ((random.uniform() * 16.0) as i32 - 8) as f32 / 8.0;
                    (0..n).map(one).collect()
                };
                let (x, w) = (draw(samples * dims), draw(nodes * dims));
                let search = Search::with_arch(&x, dims, arch).unwrap();
                let (mut packed, mut found) = (Nodes::new(), NearestNodes::default());
                search.pack(&w, &mut packed);
                search.find(&packed, &mut found);
                for (s, x) in x.chunks(dims).enumerate() {
                    let scores: Vec<f64> = w
                        .chunks(dims)
                        .map(|w| {
                            let terms =
                                x.iter().zip(w).map(|(x, w)| (f64::from(*x), f64::from(*w)));
                            terms.map(|(x, w)| x * w - 0.5 * w * w).sum()
                        })
                        .collect();
                    let (mut best, mut second) = (0, f64::NEG_INFINITY);
                    for (i, &score) in scores.iter().enumerate().skip(1) {
                        if score > scores[best] {
                            second = second.max(scores[best]);
                            best = i;
                        } else {
                            second = second.max(score);
                        }
                    }
                    assert_eq!(found.winners[s], best as u32, "{arch:?}, sample {s}");
                    assert_eq!(f64::from(found.scores[s]), scores[best]);
                    assert_eq!(f64::from(found.seconds[s]), second, "{arch:?}, sample {s}");
                }
            }
        }
    }
}
