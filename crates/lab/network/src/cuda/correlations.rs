//! Pearson correlations on one device: their kernels and what these take.

use std::ops::Range;
use std::sync::Arc;

use betz_base::Result;
use betz_device::cuda::{Buffer, Context, Kernel, MOST_BLOCKS};
use betz_kernels::Sample;
use betz_kernels::network as kernels;
use betz_kernels::network::{
    NetworkMoments, NetworkPanels, NetworkRecheck, NetworkScales, NetworkWalk,
};

use super::shape::{STRETCH, Shape, int};
use super::walker::{Edges, Sizes, States, WalkRequest};
use crate::window::Chunk;

/// Pairs times windows in a second of a fast device.
const RATE: f64 = 4e12;

/// Windows that a thread makes moments of; the first costs as much as a whole window.
const MOMENT_RUN: usize = 64;

/// Windows that a thread makes steps for.
const PANEL_RUN: usize = 8;

/// Blocks of the walk on a multiprocessor at once.
const RESIDENT: u32 = 2;

/// Kernels for samples of one type.
pub(super) struct Correlations {
    context: Arc<Context>,
    moments: Kernel,
    scales: Kernel,
    panels: Kernel,
    walk: Kernel,
    recheck: Kernel,
}

/// Inputs of a chunk's walk.
pub(super) struct CorrelationInput<T> {
    shape: Shape,
    samples: Buffer<T>,
    fill: Buffer<f64>,
    mean: Buffer<f64>,
    scale: Buffer<f64>,
    ratio: Buffer<f32>,
    factor: Buffer<f32>,
    bound: Buffer<f32>,
    anchor: Buffer<u32>,
    panels: Buffer<u32>,
    pub(super) states: States,
}

/// The size from which pairs are brought out of the walk, in the window with the least threshold.
fn least(asked: &WalkRequest) -> f64 {
    asked.lowest() - asked.margin
}

/// A window's sum of squares is at least the square of this, so that the sum of products of a pair that is brought out
/// is at least 2, with room for rounding.
fn unit(asked: &WalkRequest) -> f64 {
    (2.0001 / least(asked).max(kernels::LEAST)).sqrt()
}

impl Correlations {
    pub(super) fn open<T: Sample>(context: &Arc<Context>) -> Result<Self> {
        let options = [format!("-DINPUT={}", T::VALUE)];
        let walk_bytes = kernels::WALK_SHARED_BYTES;
        Ok(Self {
            context: Arc::clone(context),
            moments: context.load::<NetworkMoments<'_, T>>(&options, 0)?,
            scales: context.load::<NetworkScales<'_>>(&options, 0)?,
            panels: context.load::<NetworkPanels<'_, T>>(&options, 0)?,
            walk: context.load::<NetworkWalk<'_, T>>(&options, walk_bytes)?,
            recheck: context.load::<NetworkRecheck<'_, T>>(&options, 0)?,
        })
    }

    /// Memory and time of a chunk of so many nodes.
    pub(super) fn sizes<T>(nodes: usize, chunk: &Chunk) -> Sizes {
        let shape = Shape::new(nodes, chunk);
        Sizes {
            blocks: shape.blocks(),
            bytes: shape.bytes(size_of::<T>()),
            tile_slots: shape.tile_slots(),
            tile_seconds: (kernels::BLOCK * kernels::BLOCK * shape.windows) as f64 / RATE,
        }
    }

    pub(super) fn prepare<T: Sample>(
        &self,
        nodes: usize,
        samples: Buffer<T>,
        asked: &WalkRequest,
    ) -> Result<CorrelationInput<T>> {
        let context = &self.context;
        let shape = Shape::new(nodes, &asked.chunk);
        let (cells, stretched) = (shape.cells(), shape.stretches() * shape.padded);
        let mut squares: Buffer<f64> = context.alloc(cells)?;
        let mut prepared = CorrelationInput {
            shape,
            samples,
            fill: context.alloc(shape.padded)?,
            mean: context.alloc(cells)?,
            scale: context.alloc(stretched)?,
            ratio: context.alloc(stretched)?,
            factor: context.alloc(cells)?,
            bound: context.alloc(cells / 32)?,
            anchor: context.alloc(shape.blocks() * shape.windows.div_ceil(32))?,
            panels: context.alloc(shape.panel_words())?,
            states: States::new(context, shape.nodes, shape.padded, shape.windows)?,
        };
        let p = &mut prepared;
        let (nodes, padded) = (int(shape.nodes)?, int(shape.padded)?);
        let (length, step) = (int(shape.window.length)?, int(shape.window.step)?);
        let (windows, stretch) = (int(shape.windows)?, int(STRETCH)?);
        let blocks = shape.blocks() as u32;
        let runs = |run: usize| shape.windows.div_ceil(run) as u32;
        debug_assert!(runs(1) <= MOST_BLOCKS);
        self.moments.launch(
            (blocks, runs(MOMENT_RUN), 1),
            kernels::NODE_THREADS,
            NetworkMoments {
                samples: p.samples.read(),
                instants: int(shape.instants)?,
                nodes,
                padded,
                length,
                step,
                windows,
                run: int(MOMENT_RUN)?,
                fill: p.fill.write(),
                mean: p.mean.write(),
                squares: squares.write(),
                state: p.states.state.write(),
                odd: p.states.odd.update(),
            },
        )?;
        self.scales.launch(
            (blocks, 1, 1),
            kernels::NODE_THREADS,
            NetworkScales {
                squares: squares.read(),
                padded,
                step,
                windows,
                stretch,
                unit: unit(asked),
                scale: p.scale.write(),
                ratio: p.ratio.write(),
                factor: p.factor.write(),
                bound: p.bound.write(),
                anchor: p.anchor.write(),
                state: p.states.state.update(),
                odd: p.states.odd.update(),
            },
        )?;
        if !shape.direct {
            self.write_panels(p)?;
        }
        Ok(prepared)
    }

    fn write_panels<T: Sample>(&self, p: &mut CorrelationInput<T>) -> Result<()> {
        let shape = p.shape;
        let runs = shape.windows.div_ceil(PANEL_RUN) as u32;
        self.panels.launch(
            (shape.blocks() as u32, runs, 1),
            kernels::NODE_THREADS,
            NetworkPanels {
                samples: p.samples.read(),
                nodes: int(shape.nodes)?,
                padded: int(shape.padded)?,
                length: int(shape.window.length)?,
                step: int(shape.window.step)?,
                windows: int(shape.windows)?,
                run: int(PANEL_RUN)?,
                stretch: int(STRETCH)?,
                fill: p.fill.read(),
                mean: p.mean.read(),
                scale: p.scale.read(),
                factor: p.factor.read(),
                steps: int(shape.stages * kernels::STAGE_STEPS)?,
                anchor: p.anchor.update(),
                panels: p.panels.write(),
            },
        )
    }

    /// Walks the tiles in `range`; what was counted.
    pub(super) fn walk<T: Sample>(
        &self,
        prepared: &CorrelationInput<T>,
        tiles: &Buffer<u32>,
        range: Range<usize>,
        asked: &WalkRequest,
        edges: &mut Edges,
    ) -> Result<Buffer<u64>> {
        let shape = prepared.shape;
        let mut given = [0_u64; kernels::TALLY];
        given[kernels::NEXT_TILE] = range.start as u64;
        given[kernels::CAPACITY] = edges.keys.len() as u64;
        let mut tally = self.context.upload(&given)?;
        let bars = asked.thresholds.iter().map(|t| (t - asked.margin) as f32);
        let bars = self.context.upload(&bars.collect::<Vec<_>>())?;
        let resident = self.context.info().multiprocessors.max(1) * RESIDENT;
        let blocks = u32::try_from(range.len()).unwrap_or(u32::MAX).min(resident);
        self.walk.launch(
            (blocks, 1, 1),
            kernels::WALK_THREADS,
            NetworkWalk {
                samples: prepared.samples.read(),
                nodes: int(shape.nodes)?,
                padded: int(shape.padded)?,
                length: int(shape.window.length)?,
                step: int(shape.window.step)?,
                windows: int(shape.windows)?,
                stretch: int(STRETCH)?,
                fill: prepared.fill.read(),
                mean: prepared.mean.read(),
                scale: prepared.scale.read(),
                ratio: prepared.ratio.read(),
                factor: prepared.factor.read(),
                bound: prepared.bound.read(),
                anchor: prepared.anchor.read(),
                panels: prepared.panels.read(),
                stages: int(shape.stages)?,
                tiles: tiles.read(),
                last: range.end as u32,
                direct: i32::from(shape.direct),
                least: bars.read(),
                all: i32::from(least(asked) < kernels::LEAST),
                sign: asked.sign,
                keys: edges.keys.update(),
                values: edges.values.update(),
                tally: tally.update(),
            },
        )?;
        Ok(tally)
    }

    /// Decides what is near the threshold, and counts on.
    pub(super) fn recheck<T: Sample>(
        &self,
        prepared: &CorrelationInput<T>,
        asked: &WalkRequest,
        edges: &mut Edges,
        tally: &mut Buffer<u64>,
        slots: u64,
    ) -> Result<()> {
        let shape = prepared.shape;
        let most = self.context.info().multiprocessors.max(1) * 8;
        let thresholds = self.context.upload(&asked.thresholds)?;
        let blocks = u32::try_from(slots.div_ceil(256)).unwrap_or(u32::MAX);
        self.recheck.launch(
            (blocks.clamp(1, most), 1, 1),
            256,
            NetworkRecheck {
                samples: prepared.samples.read(),
                nodes: int(shape.nodes)?,
                length: int(shape.window.length)?,
                step: int(shape.window.step)?,
                thresholds: thresholds.read(),
                highest: asked.thresholds.iter().copied().fold(-1.0, f64::max),
                margin: asked.margin,
                sign: asked.sign,
                keys: edges.keys.update(),
                values: edges.values.update(),
                tally: tally.update(),
            },
        )
    }
}
