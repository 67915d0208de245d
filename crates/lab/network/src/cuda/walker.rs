//! One device: its kernels, its share of the tiles, its edge buffer.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use betz_base::progress::check;
use betz_base::{Error, ErrorKind, Progress, Result};
use betz_device::cuda::{Buffer, Context};
use betz_kernels::Sample;
use betz_kernels::network as kernels;

use super::correlations::{CorrelationInput, Correlations};
use super::order::{Order, Piece};
use super::ranks::{RankInput, Ranks};
use super::shape::{SLOT_BYTES, most_windows, pairs_of, square_tiles, tiles};
use super::sums::{self, SumInput, Sums};
use super::{DeviceCount, Limits};
use crate::engine::too_many;
use crate::rank::RankMeasure;
use crate::spec::NetworkSpec;
use crate::window::{Chunk, Rows, Window};

/// Seconds of one launch: a request to stop is heard after them.
const LAUNCH: f64 = 1.0;

/// A request to a walker.
#[derive(Debug, Clone)]
pub(super) struct WalkRequest {
    pub(super) chunk: Chunk,
    /// One per window.
    pub(super) thresholds: Vec<f64>,
    pub(super) margin: f64,
    /// More than the threshold.
    pub(super) strict: bool,
    /// 0 both, 1 positive, −1 negative.
    pub(super) sign: i32,
    /// More edges than this are refused.
    pub(super) most: u64,
    /// Bring the slots and what is undefined to the host.
    pub(super) fetch: bool,
    /// Walk no more tiles than these, spread over all.
    pub(super) most_tiles: usize,
}

impl WalkRequest {
    /// The least threshold of a window.
    pub(super) fn lowest(&self) -> f64 {
        self.thresholds
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min)
    }
}

/// The result of a walker.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    /// The edges of each walk.
    pub(super) pieces: Vec<Piece>,
    /// (window, node, state) that are not 0, by window, then node.
    pub(super) states: Vec<(u32, u32, u8)>,
    /// Pairs of the tiles that were walked.
    pub(super) pairs: u64,
    pub(super) count: DeviceCount,
}

/// The edge buffer.
pub(super) struct Edges {
    pub(super) keys: Buffer<u64>,
    pub(super) values: Buffer<f32>,
}

/// The counts that a walk begins with, and its blocks: `resident` on a multiprocessor at once, for so many items.
pub(super) fn begin_walk(
    context: &Context,
    edges: &Edges,
    items: usize,
    resident: u32,
) -> Result<(Buffer<u64>, u32)> {
    let mut given = [0_u64; kernels::TALLY];
    given[kernels::CAPACITY] = edges.keys.len() as u64;
    let tally = context.upload(&given)?;
    let at_once = context.info().multiprocessors.max(1) * resident;
    let blocks = u32::try_from(items).unwrap_or(u32::MAX).min(at_once);
    Ok((tally, blocks))
}

/// Memory and time of a chunk on a device.
pub(super) struct Sizes {
    /// Blocks of nodes.
    pub(super) blocks: usize,
    /// Bytes of all but the edge buffer.
    pub(super) bytes: u64,
    /// Slots that one tile may take.
    pub(super) tile_slots: usize,
    /// Seconds of a tile on a fast device, roughly.
    pub(super) tile_seconds: f64,
}

/// Why (window, node)s are undefined or not for f32, on the device.
pub(super) struct States {
    pub(super) state: Buffer<u8>,
    /// Number of states that are not 0.
    pub(super) odd: Buffer<u32>,
    nodes: usize,
    padded: usize,
}

impl States {
    pub(super) fn new(
        context: &Context,
        nodes: usize,
        padded: usize,
        windows: usize,
    ) -> Result<Self> {
        Ok(Self {
            state: context.alloc(padded * windows)?,
            odd: context.zeros(1)?,
            nodes,
            padded,
        })
    }

    /// (window, node, state) with a state other than 0.
    fn fetch(&self, context: &Context) -> Result<Vec<(u32, u32, u8)>> {
        if context.download(&self.odd, 1)?[0] == 0 {
            return Ok(Vec::new());
        }
        let state = context.download(&self.state, self.state.len())?;
        let mut states = Vec::new();
        for (q, row) in state.chunks_exact(self.padded).enumerate() {
            let nodes = row[..self.nodes].iter().enumerate();
            let odd = nodes.filter(|(_, state)| **state != 0);
            states.extend(odd.map(|(node, state)| (q as u32, node as u32, *state)));
        }
        Ok(states)
    }
}

/// The kernels of a measure.
enum Method {
    Correlations(Box<Correlations>),
    Ranks(Box<Ranks>),
    Sums(Box<Sums>),
}

/// Inputs of these kernels.
enum Input<T> {
    Correlations(Box<CorrelationInput<T>>),
    Ranks(Box<RankInput>),
    Sums(Box<SumInput>),
}

/// Kernels of one device for samples of one type.
pub(super) struct Walker {
    context: Arc<Context>,
    method: Method,
    order: Order,
    nodes: usize,
    share: (usize, usize),
    limits: Limits,
    /// Most slots that there is room for beside a chunk.
    most_slots: usize,
    edges: Option<Edges>,
}

impl Walker {
    /// Compiles the kernels of `spec` for samples of type `T`. `share`: the device's number of how many.
    pub(super) fn open<T: Sample>(
        context: &Arc<Context>,
        spec: &NetworkSpec,
        nodes: usize,
        share: (usize, usize),
        limits: Limits,
    ) -> Result<Self> {
        let ranks = RankMeasure::of(spec.measure);
        let method = match (ranks, sums::kind(spec.measure)) {
            (Some(measure), _) => {
                Method::Ranks(Box::new(Ranks::open::<T>(context, measure, spec.window)?))
            }
            (None, Some(kind)) => Method::Sums(Box::new(Sums::open::<T>(context, kind)?)),
            (None, None) => Method::Correlations(Box::new(Correlations::open::<T>(context)?)),
        };
        Ok(Self {
            context: Arc::clone(context),
            method,
            order: Order::open(context)?,
            nodes,
            share,
            limits,
            most_slots: 0,
            edges: None,
        })
    }

    fn sizes<T>(&self, chunk: &Chunk) -> Sizes {
        match &self.method {
            Method::Correlations(_) => Correlations::sizes::<T>(self.nodes, chunk),
            Method::Ranks(ranks) => ranks.sizes::<T>(self.nodes, chunk),
            Method::Sums(sums) => sums.sizes::<T>(self.nodes, chunk),
        }
    }

    /// Most windows of a chunk, up to `most`, that fit with room for the slots of one tile.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`] when one does not.
    pub(super) fn windows<T>(&mut self, window: Window, most: usize) -> Result<usize> {
        let room = self.context.available_memory()?;
        // A row, which is a window and a first node, has a number of 32 bits.
        let of_rows = u32::MAX as usize / self.nodes.max(1);
        let of_sums = match self.method {
            Method::Correlations(_) => most_windows(window),
            Method::Ranks(_) | Method::Sums(_) => usize::MAX,
        };
        let mut windows = most.min(of_sums).min(of_rows).max(1);
        loop {
            let chunk = Chunk {
                start: 0,
                windows,
                window,
                first: 0,
                rows: Rows::ALL,
            };
            let sizes = self.sizes::<T>(&chunk);
            let fixed = sizes.bytes;
            let least = fixed + sizes.tile_slots as u64 * SLOT_BYTES;
            // Allocations are rounded up; half the rest for slots keeps much of them in one walk.
            if least + least / 16 <= room {
                let slots = (room - room / 16).saturating_sub(fixed) / SLOT_BYTES;
                self.most_slots = usize::try_from(slots)
                    .unwrap_or(usize::MAX)
                    .min(self.limits.most_slots)
                    .max(sizes.tile_slots);
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
        let sizes = self.sizes::<T>(&asked.chunk);
        let own = match self.method {
            Method::Correlations(_) => tiles(sizes.blocks, self.share),
            Method::Ranks(_) | Method::Sums(_) => square_tiles(sizes.blocks, self.share),
        };
        if own.is_empty() {
            return Ok(found);
        }
        let apart = own.len().div_ceil(asked.most_tiles);
        let own: Vec<u32> = own.into_iter().step_by(apart).collect();
        let side = match self.method {
            Method::Sums(_) => sums::SIDE,
            _ => kernels::BLOCK,
        };
        let pairs = own.iter().map(|tile| pairs_of(*tile, side, self.nodes));
        found.pairs = pairs.sum();
        let started = Instant::now();
        let samples = self.context.upload(samples)?;
        let tiles = self.context.upload(&own)?;
        self.context.synchronize()?;
        found.count.upload = started.elapsed().as_secs_f64();
        let started = Instant::now();
        let input = self.prepare(samples, asked)?;
        self.context.synchronize()?;
        found.count.prepare = started.elapsed().as_secs_f64();
        if asked.fetch {
            found.states = match &input {
                Input::Correlations(input) => &input.states,
                Input::Ranks(input) => &input.states,
                Input::Sums(input) => &input.states,
            }
            .fetch(&self.context)?;
        }
        let at_once = ((LAUNCH / sizes.tile_seconds) as usize).max(1);
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
                None => self.buffer(self.limits.slots.max(sizes.tile_slots))?,
            };
            let started = Instant::now();
            let (mut tally, slots) = self.walk(&input, &tiles, range.clone(), asked, &mut edges)?;
            found.count.walk += started.elapsed().as_secs_f64();
            found.count.walks += 1;
            if slots > edges.keys.len() as u64 {
                todo.extend(self.make_room(edges, slots, range)?);
                continue;
            }
            let started = Instant::now();
            if let (Method::Correlations(of), Input::Correlations(input)) = (&self.method, &input) {
                of.recheck(input, asked, &mut edges, &mut tally, slots)?;
            }
            let counted = self.context.download(&tally, kernels::TALLY)?;
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
                let rows = (asked.chunk.windows, self.nodes);
                let piece = self.order.fetch(rows, keys, values, slots as usize)?;
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

    fn prepare<T: Sample>(&self, samples: Buffer<T>, asked: &WalkRequest) -> Result<Input<T>> {
        Ok(match &self.method {
            Method::Correlations(of) => {
                Input::Correlations(Box::new(of.prepare(self.nodes, samples, asked)?))
            }
            Method::Ranks(ranks) => Input::Ranks(Box::new(ranks.prepare(
                self.nodes,
                &samples,
                &asked.chunk,
            )?)),
            Method::Sums(sums) => Input::Sums(Box::new(sums.prepare(
                self.nodes,
                &samples,
                &asked.chunk,
            )?)),
        })
    }

    /// Walks the tiles in `range`; what was counted, and the slots taken.
    fn walk<T: Sample>(
        &self,
        input: &Input<T>,
        tiles: &Buffer<u32>,
        range: Range<usize>,
        asked: &WalkRequest,
        edges: &mut Edges,
    ) -> Result<(Buffer<u64>, u64)> {
        let tally = match (&self.method, input) {
            (Method::Correlations(of), Input::Correlations(input)) => {
                of.walk(input, tiles, range, asked, edges)?
            }
            (Method::Ranks(ranks), Input::Ranks(input)) => {
                ranks.walk(input, tiles, range, asked, edges)?
            }
            (Method::Sums(sums), Input::Sums(input)) => {
                sums.walk(input, tiles, range, asked, edges)?
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    "network on a CUDA device: expected the inputs of the plan's measure",
                ));
            }
        };
        let slots = self.context.download(&tally, kernels::TALLY)?[kernels::SLOTS];
        Ok((tally, slots))
    }
}
