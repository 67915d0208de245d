//! One device: its kernels, its share of the tiles, its edge buffer.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use betz_base::progress::check;
use betz_base::{Error, ErrorKind, Progress, Result};
use betz_device::cuda::{Buffer, Context, Kernel, MOST_BLOCKS};
use betz_kernels::Sample;
use betz_kernels::network as kernels;
use betz_kernels::network::{
    NetworkMoments, NetworkPanels, NetworkRecheck, NetworkScales, NetworkWalk,
};

use super::order::{Order, Piece};
use super::shape::{SLOT_BYTES, STRETCH, Shape, int, most_windows, tiles};
use super::{DeviceCount, Limits};
use crate::engine::too_many;
use crate::window::{Chunk, Rows, Window};

/// Pairs times windows of one launch: about a second of a fast device, so that a request to stop is heard.
const LAUNCH: f64 = 4e12;

/// Windows that a thread makes moments of; the first costs as much as a whole window.
const MOMENT_RUN: usize = 64;

/// Windows that a thread makes steps for.
const PANEL_RUN: usize = 8;

/// Blocks of the walk on a multiprocessor at once.
const RESIDENT: u32 = 2;

/// A request to a walker.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkRequest {
    pub(super) chunk: Chunk,
    pub(super) threshold: f64,
    pub(super) margin: f64,
    /// 0 both, 1 positive, −1 negative.
    pub(super) sign: i32,
    /// More edges than this are refused.
    pub(super) most: u64,
    /// Bring the slots and what is undefined to the host.
    pub(super) fetch: bool,
}

/// The result of a walker.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    /// The edges of each walk.
    pub(super) pieces: Vec<Piece>,
    /// (window, node, state) that are not 0, by window, then node.
    pub(super) states: Vec<(u32, u32, u8)>,
    pub(super) count: DeviceCount,
}

/// The edge buffer.
struct Edges {
    keys: Buffer<u64>,
    values: Buffer<f32>,
}

/// Kernels of one device for samples of one type.
pub(super) struct Walker {
    context: Arc<Context>,
    moments: Kernel,
    scales: Kernel,
    panels: Kernel,
    walk: Kernel,
    recheck: Kernel,
    order: Order,
    nodes: usize,
    share: (usize, usize),
    limits: Limits,
    /// Most slots that there is room for beside a chunk.
    most_slots: usize,
    edges: Option<Edges>,
}

/// Inputs of a chunk's walk.
struct WalkInput<T> {
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
    state: Buffer<u8>,
    odd: Buffer<u32>,
}

/// The size from which pairs are brought out of the walk.
fn least(asked: &WalkRequest) -> f64 {
    asked.threshold - asked.margin
}

/// A window's sum of squares is at least the square of this, so that the sum of products of a pair that is brought out
/// is at least 2, with room for rounding.
fn unit(asked: &WalkRequest) -> f64 {
    (2.0001 / least(asked).max(kernels::LEAST)).sqrt()
}

impl Walker {
    /// Compiles the kernels for samples of type `T`. `share`: the device's number of how many.
    pub(super) fn open<T: Sample>(
        context: &Arc<Context>,
        nodes: usize,
        share: (usize, usize),
        limits: Limits,
    ) -> Result<Self> {
        let options = [format!("-DINPUT={}", T::VALUE)];
        let walk_bytes = kernels::WALK_SHARED_BYTES;
        Ok(Self {
            context: Arc::clone(context),
            moments: context.load::<NetworkMoments<'_, T>>(&options, 0)?,
            scales: context.load::<NetworkScales<'_>>(&options, 0)?,
            panels: context.load::<NetworkPanels<'_, T>>(&options, 0)?,
            walk: context.load::<NetworkWalk<'_, T>>(&options, walk_bytes)?,
            recheck: context.load::<NetworkRecheck<'_, T>>(&options, 0)?,
            order: Order::open(context)?,
            nodes,
            share,
            limits,
            most_slots: 0,
            edges: None,
        })
    }

    /// Most windows of a chunk, up to `most`, that fit with room for the slots of one tile.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`] when one does not.
    pub(super) fn windows<T>(&mut self, window: Window, most: usize) -> Result<usize> {
        let room = self.context.available_memory()?;
        // A row, which is a window and a first node, has a number of 32 bits.
        let of_rows = u32::MAX as usize / self.nodes.max(1);
        let mut windows = most.min(most_windows(window)).min(of_rows).max(1);
        loop {
            let chunk = Chunk {
                start: 0,
                windows,
                window,
                first: 0,
                rows: Rows::ALL,
            };
            let shape = Shape::new(self.nodes, &chunk);
            let fixed = shape.bytes(size_of::<T>());
            let least = fixed + shape.tile_slots() as u64 * SLOT_BYTES;
            // Allocations are rounded up; half the rest for slots keeps much of them in one walk.
            if least + least / 16 <= room {
                let slots = (room - room / 16 - fixed) / SLOT_BYTES;
                self.most_slots = usize::try_from(slots)
                    .unwrap_or(usize::MAX)
                    .min(self.limits.most_slots)
                    .max(shape.tile_slots());
                return Ok(windows);
            }
            if windows == 1 {
                return Err(Error::new(
                    ErrorKind::DeviceMemory,
                    format!(
                        "network on cuda:{}: expected room for {} bytes, got {room}",
                        self.context.number(),
                        least + least / 16
                    ),
                )
                .with_needed_bytes(least + least / 16)
                .with_available_bytes(room));
            }
            windows = windows.div_ceil(2);
        }
    }

    /// Walks this device's share of a chunk.
    pub(super) fn find<T: Sample>(
        &mut self,
        samples: &[T],
        asked: &WalkRequest,
        progress: &dyn Progress,
    ) -> Result<WalkResult> {
        let mut found = WalkResult::default();
        let shape = Shape::new(self.nodes, &asked.chunk);
        let own = tiles(shape.blocks(), self.share);
        if own.is_empty() {
            return Ok(found);
        }
        let started = Instant::now();
        let samples = self.context.upload(samples)?;
        let tiles = self.context.upload(&own)?;
        self.context.synchronize()?;
        found.count.upload = started.elapsed().as_secs_f64();
        let started = Instant::now();
        let prepared = self.prepare(shape, samples, asked)?;
        self.context.synchronize()?;
        found.count.prepare = started.elapsed().as_secs_f64();
        if asked.fetch {
            found.states = self.states(&prepared)?;
        }
        let pairs_of_tile = (kernels::BLOCK * kernels::BLOCK * shape.windows) as f64;
        let at_once = ((LAUNCH / pairs_of_tile) as usize).max(1);
        // Last first.
        let mut todo: Vec<Range<usize>> = (0..own.len())
            .step_by(at_once)
            .map(|from| from..own.len().min(from + at_once))
            .rev()
            .collect();
        while let Some(range) = todo.pop() {
            check(progress, "correlation")?;
            let mut edges = match self.edges.take() {
                Some(edges) => edges,
                None => self.buffer(self.limits.slots.max(shape.tile_slots()))?,
            };
            let started = Instant::now();
            let (mut tally, slots) =
                self.walk(&prepared, &tiles, range.clone(), asked, &mut edges)?;
            found.count.walk += started.elapsed().as_secs_f64();
            found.count.walks += 1;
            if slots > edges.keys.len() as u64 {
                todo.extend(self.make_room(edges, slots, range)?);
                continue;
            }
            let started = Instant::now();
            let counted = self.recheck(&prepared, asked, &mut edges, &mut tally, slots)?;
            found.count.recheck += started.elapsed().as_secs_f64();
            found.count.edges += counted[kernels::KEPT];
            found.count.rechecked += counted[kernels::RECHECKED];
            found.count.rebuilt += counted[kernels::REBUILT];
            found.count.doubtful += counted[kernels::DOUBTFUL];
            // Doubtful pairs may turn out to be no edges.
            if found.count.edges - found.count.doubtful > asked.most {
                return Err(too_many(asked.most));
            }
            if asked.fetch {
                let Edges { keys, values } = &mut edges;
                let piece = self.order.fetch(shape, keys, values, slots as usize)?;
                found.pieces.push(piece);
            }
            self.edges = Some(edges);
        }
        Ok(found)
    }

    /// Ranges of tiles to walk again, the last first, because `range` needs more slots than `edges` has: with a larger
    /// buffer, or in two halves.
    fn make_room(
        &mut self,
        edges: Edges,
        slots: u64,
        range: Range<usize>,
    ) -> Result<Vec<Range<usize>>> {
        if edges.keys.len() < self.most_slots {
            // Freed first: both together need not fit.
            drop(edges);
            let wanted = usize::try_from(slots + slots / 8).unwrap_or(usize::MAX);
            self.edges = Some(self.buffer(wanted)?);
            return Ok(vec![range]);
        }
        self.edges = Some(edges);
        if range.len() > 1 {
            let middle = range.start + range.len() / 2;
            return Ok(vec![middle..range.end, range.start..middle]);
        }
        Err(Error::new(
            ErrorKind::DeviceMemory,
            format!("network on a CUDA device: expected room for {slots} edges of a tile"),
        ))
    }

    /// An edge buffer of so many slots, as far as there is room.
    fn buffer(&self, slots: usize) -> Result<Edges> {
        let slots = slots.min(self.most_slots);
        Ok(Edges {
            keys: self.context.alloc(slots)?,
            values: self.context.alloc(slots)?,
        })
    }

    fn prepare<T: Sample>(
        &self,
        shape: Shape,
        samples: Buffer<T>,
        asked: &WalkRequest,
    ) -> Result<WalkInput<T>> {
        let context = &self.context;
        let (cells, stretched) = (shape.cells(), shape.stretches() * shape.padded);
        let mut squares: Buffer<f64> = context.alloc(cells)?;
        let mut prepared = WalkInput {
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
            state: context.alloc(cells)?,
            odd: context.zeros(1)?,
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
                state: p.state.write(),
                odd: p.odd.update(),
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
                state: p.state.update(),
                odd: p.odd.update(),
            },
        )?;
        if !shape.direct {
            self.write_panels(p)?;
        }
        Ok(prepared)
    }

    fn write_panels<T: Sample>(&self, p: &mut WalkInput<T>) -> Result<()> {
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

    /// Walks the tiles in `range`; what was counted, and the slots taken.
    fn walk<T: Sample>(
        &self,
        prepared: &WalkInput<T>,
        tiles: &Buffer<u32>,
        range: Range<usize>,
        asked: &WalkRequest,
        edges: &mut Edges,
    ) -> Result<(Buffer<u64>, u64)> {
        let shape = prepared.shape;
        let mut given = [0_u64; kernels::TALLY];
        given[kernels::NEXT_TILE] = range.start as u64;
        given[kernels::CAPACITY] = edges.keys.len() as u64;
        let mut tally = self.context.upload(&given)?;
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
                least: least(asked) as f32,
                sign: asked.sign,
                keys: edges.keys.update(),
                values: edges.values.update(),
                tally: tally.update(),
            },
        )?;
        let slots = self.context.download(&tally, kernels::TALLY)?[kernels::SLOTS];
        Ok((tally, slots))
    }

    /// Decides what is near the threshold; the counts.
    fn recheck<T: Sample>(
        &self,
        prepared: &WalkInput<T>,
        asked: &WalkRequest,
        edges: &mut Edges,
        tally: &mut Buffer<u64>,
        slots: u64,
    ) -> Result<Vec<u64>> {
        let shape = prepared.shape;
        let most = self.context.info().multiprocessors.max(1) * 8;
        let blocks = u32::try_from(slots.div_ceil(256)).unwrap_or(u32::MAX);
        self.recheck.launch(
            (blocks.clamp(1, most), 1, 1),
            256,
            NetworkRecheck {
                samples: prepared.samples.read(),
                nodes: int(shape.nodes)?,
                length: int(shape.window.length)?,
                step: int(shape.window.step)?,
                threshold: asked.threshold,
                margin: asked.margin,
                sign: asked.sign,
                keys: edges.keys.update(),
                values: edges.values.update(),
                tally: tally.update(),
            },
        )?;
        self.context.download(tally, kernels::TALLY)
    }

    /// The (window, node)s that have a state.
    fn states<T>(&self, prepared: &WalkInput<T>) -> Result<Vec<(u32, u32, u8)>> {
        if self.context.download(&prepared.odd, 1)?[0] == 0 {
            return Ok(Vec::new());
        }
        let shape = prepared.shape;
        let state = self.context.download(&prepared.state, shape.cells())?;
        let mut states = Vec::new();
        for (q, row) in state.chunks_exact(shape.padded).enumerate() {
            let nodes = row[..shape.nodes].iter().enumerate();
            let odd = nodes.filter(|(_, state)| **state != 0);
            states.extend(odd.map(|(node, state)| (q as u32, node as u32, *state)));
        }
        Ok(states)
    }
}
