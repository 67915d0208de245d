//! Measures from f64 sums on one device: Euclidean distance, covariance and phase locking; their kernels and what these take.

use std::ops::Range;
use std::sync::Arc;

use betz_base::Result;
use betz_device::cuda::{Buffer, Context, Kernel};
use betz_kernels::Sample;
use betz_kernels::network as kernels;
use betz_kernels::network::{NetworkSumPrepare, NetworkSums};

use super::shape::int;
use super::walker::{Edges, Sizes, States, WalkRequest, begin_walk};
use crate::block::direct;
use crate::spec::Measure;
use crate::window::{Chunk, Window};

/// Nodes along a side of a tile.
pub(super) const SIDE: usize = 64;

/// Most windows of a tile whose sums slide from the first one's, and most samples that they go through.
const MOST_AT_ONCE: usize = 128;
const MOST_STEPS: usize = 1 << 16;

const THREADS: u32 = 256;

/// Warps of a block.
const WARPS: usize = 8;

/// Blocks of the walk on a multiprocessor at once.
const RESIDENT: u32 = 1;

/// Products in a second of a fast device.
const RATE: f64 = 4e12;

/// The measure by its number in the kernel, and the sums of a pair; `None` for one that is not made of sums.
pub(crate) fn kind(measure: Measure) -> Option<(u32, usize)> {
    Some(match measure {
        Measure::Euclidean { .. } => (0, 1),
        Measure::Covariance => (1, 1),
        Measure::PhaseLocking => (2, 2),
        Measure::ImaginaryPhaseLocking => (3, 2),
        Measure::PhaseConsistency => (4, 2),
        _ => return None,
    })
}

/// Sizes of a chunk.
#[derive(Debug, Clone, Copy)]
struct SumShape {
    nodes: usize,
    padded: usize,
    parts: usize,
    instants: usize,
    window: Window,
    windows: usize,
    direct: bool,
    /// Windows of a tile at a time.
    at_once: usize,
}

impl SumShape {
    fn new(nodes: usize, parts: usize, chunk: &Chunk) -> Self {
        let (w, s) = (chunk.window.length, chunk.window.step);
        let direct = direct(chunk);
        let further = if direct { w } else { 2 * s };
        let at_once = MOST_STEPS.saturating_sub(w) / further + 1;
        Self {
            nodes,
            padded: nodes.div_ceil(SIDE) * SIDE,
            parts,
            instants: chunk.samples(),
            window: chunk.window,
            windows: chunk.windows,
            direct,
            at_once: at_once.min(MOST_AT_ONCE),
        }
    }

    fn runs(&self) -> usize {
        self.windows.div_ceil(self.at_once)
    }

    /// Samples that the windows of a run go through.
    fn steps(&self) -> usize {
        let (w, s) = (self.window.length, self.window.step);
        let further = if self.direct { w } else { 2 * s };
        w + (self.at_once.min(self.windows) - 1) * further
    }

    /// The part of sums of squares that sums are off by at most: every addition rounds once, and so do its numbers.
    fn unit(&self) -> f64 {
        4.0 * (self.steps() + 8) as f64 * f64::EPSILON
    }

    /// Bytes of all but the edge buffer.
    fn bytes(&self, sample: usize) -> u64 {
        let blocks = self.padded / SIDE;
        let cells = (self.windows * self.padded) as u64;
        (self.instants * self.nodes * sample) as u64
            + (self.instants * self.padded * self.parts * 8) as u64
            + (self.runs() * self.padded * 8) as u64
            // Means and states.
            + cells * (8 + 1)
            + (blocks * (blocks + 1) / 2) as u64 * 4
            // Rows, and the totals of their sums.
            + (self.windows * self.nodes) as u64 * 4
            + (self.windows * self.nodes / 1000) as u64
    }
}

/// Kernels for samples of one type.
pub(super) struct Sums {
    context: Arc<Context>,
    parts: usize,
    prepare: Kernel,
    walk: Kernel,
}

/// Inputs of a chunk's walk.
pub(super) struct SumInput {
    shape: SumShape,
    values: Buffer<f64>,
    squares: Buffer<f64>,
    means: Buffer<f64>,
    pub(super) states: States,
}

impl Sums {
    pub(super) fn open<T: Sample>(
        context: &Arc<Context>,
        (number, parts): (u32, usize),
    ) -> Result<Self> {
        let options = [
            format!("-DINPUT={}", T::VALUE),
            format!("-DMEASURE={number}"),
        ];
        Ok(Self {
            context: Arc::clone(context),
            parts,
            prepare: context.load::<NetworkSumPrepare<'_, T>>(&options, 0)?,
            walk: context.load::<NetworkSums<'_>>(&options, 0)?,
        })
    }

    /// Memory and time of a chunk of so many nodes.
    pub(super) fn sizes<T>(&self, nodes: usize, chunk: &Chunk) -> Sizes {
        let shape = SumShape::new(nodes, self.parts, chunk);
        let pairs = SIDE * SIDE;
        Sizes {
            blocks: shape.padded / SIDE,
            bytes: shape.bytes(size_of::<T>()),
            tile_slots: pairs * shape.windows + shape.runs() * WARPS * kernels::SLOT_RUN,
            tile_seconds: (pairs * shape.parts * shape.parts) as f64
                * (shape.steps() * shape.runs()) as f64
                / RATE,
        }
    }

    pub(super) fn prepare<T: Sample>(
        &self,
        nodes: usize,
        samples: &Buffer<T>,
        chunk: &Chunk,
    ) -> Result<SumInput> {
        let context = &self.context;
        let shape = SumShape::new(nodes, self.parts, chunk);
        let cells = shape.windows * shape.padded;
        let mut input = SumInput {
            shape,
            values: context.alloc(shape.instants * shape.padded * shape.parts)?,
            squares: context.alloc(shape.runs() * shape.padded)?,
            means: context.alloc(cells)?,
            states: States::new(context, nodes, shape.padded, shape.windows)?,
        };
        let blocks = shape.padded.div_ceil(kernels::NODE_THREADS as usize);
        self.prepare.launch(
            (blocks as u32, shape.runs() as u32, 1),
            kernels::NODE_THREADS,
            NetworkSumPrepare {
                samples: samples.read(),
                nodes: int(nodes)?,
                padded: int(shape.padded)?,
                parts: int(shape.parts)?,
                length: int(shape.window.length)?,
                step: int(shape.window.step)?,
                windows: int(shape.windows)?,
                at_once: int(shape.at_once)?,
                values: input.values.write(),
                squares: input.squares.write(),
                means: input.means.write(),
                state: input.states.state.write(),
                odd: input.states.odd.update(),
            },
        )?;
        Ok(input)
    }

    /// Walks the tiles in `range`; what was counted.
    pub(super) fn walk(
        &self,
        input: &SumInput,
        tiles: &Buffer<u32>,
        range: Range<usize>,
        asked: &WalkRequest,
        edges: &mut Edges,
    ) -> Result<Buffer<u64>> {
        let shape = input.shape;
        let threshold = self.context.upload(&asked.thresholds)?;
        let items = range.len() * shape.runs();
        let (mut tally, blocks) = begin_walk(&self.context, edges, items, RESIDENT)?;
        self.walk.launch(
            (blocks, 1, 1),
            THREADS,
            NetworkSums {
                values: input.values.read(),
                squares: input.squares.read(),
                means: input.means.read(),
                state: input.states.state.read(),
                nodes: int(shape.nodes)?,
                padded: int(shape.padded)?,
                parts: int(shape.parts)?,
                length: int(shape.window.length)?,
                step: int(shape.window.step)?,
                windows: int(shape.windows)?,
                at_once: int(shape.at_once)?,
                direct: i32::from(shape.direct),
                tiles: tiles.read(),
                first: range.start as u32,
                count: range.len() as u32,
                threshold: threshold.read(),
                unit: shape.unit(),
                sign: asked.sign,
                keys: edges.keys.update(),
                slots: edges.values.update(),
                tally: tally.update(),
            },
        )?;
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Rows;

    #[test]
    fn runs_are_short_where_windows_are_long() {
        let shape = |length, step, windows| {
            let chunk = Chunk {
                start: 0,
                windows,
                window: Window::new(length, step),
                first: 0,
                rows: Rows::ALL,
            };
            SumShape::new(100, 1, &chunk)
        };
        let usual = shape(200, 1, 801);
        assert_eq!((usual.at_once, usual.runs(), usual.steps()), (128, 7, 454));
        assert!(usual.unit() < 1e-12 && usual.padded == 128);
        let long = shape(60_000, 20_000, 50);
        assert!(!long.direct && long.at_once == 1 && long.steps() == 60_000);
        let huge = shape(1 << 19, 1 << 19, 2);
        assert!(huge.direct && huge.at_once == 1 && huge.steps() == 1 << 19);
        assert!(shape(50, 40, 100).direct);
    }
}
