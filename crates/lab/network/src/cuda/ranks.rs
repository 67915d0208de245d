//! Rank measures on one device: their kernels and what these take.

use std::ops::Range;
use std::sync::Arc;

use betz_base::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, Kernel};
use betz_kernels::Sample;
use betz_kernels::network as kernels;
use betz_kernels::network::{BLOCK, NetworkRankWalk, NetworkRanks, NetworkSigns};

use super::shape::int;
use super::walker::{Edges, Sizes, States, WalkRequest, begin_walk};
use crate::oracle::TIE;
use crate::rank::{RankMeasure, all_pairs, new_pairs};
use crate::window::{Chunk, Window};

/// Windows that a warp slides through; the first costs as much as many others.
const RUN: usize = 128;

/// Windows of a tile that are walked before those of the next where sums do not slide: panels of so many stay in a device's
/// cache.
const GROUP: usize = 8;

/// Blocks of the walk on a multiprocessor at once.
const RESIDENT: u32 = 2;

/// Warps of one.
const WARPS: usize = kernels::RANK_WALK_THREADS as usize / 32;

/// Bytes of two panels that are multiplied in a second of a fast device.
const RATE: f64 = 5e14;

/// Rounding of sums in f32 before f64 decides, with room to spare.
const SLACK: f64 = 1e-6;

/// The form of the numbers that are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// f16 in f32 sums.
    Halves = 0,
    /// Two bytes each; sums modulo 2^32.
    Bytes = 1,
    /// One byte each, in sums that slide.
    Signs = 2,
}

impl Form {
    fn of(measure: RankMeasure, length: usize) -> Self {
        match measure {
            RankMeasure::Kendall => Self::Signs,
            // Half of what f32 counts without a gap.
            RankMeasure::Spearman if largest_sum(length) < 1 << 23 => Self::Halves,
            RankMeasure::Spearman => Self::Bytes,
        }
    }
}

/// Σ(2·rank − W − 1)² of ranks without ties.
fn largest_sum(length: usize) -> u64 {
    let w = length as u64;
    (w * w * w - w) / 3
}

/// Sizes of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RankShape {
    form: Form,
    nodes: usize,
    /// Nodes, up to whole blocks.
    padded: usize,
    instants: usize,
    window: Window,
    windows: usize,
    /// Every window's sums begin at zero.
    direct: bool,
    /// Half stages of a panel for the first window, and for every further one.
    first_steps: usize,
    steps: usize,
}

impl RankShape {
    fn new(measure: RankMeasure, nodes: usize, chunk: &Chunk) -> Self {
        /// Bytes of a node in half a stage.
        const STEP: usize = kernels::NODE_WORDS * 2;
        let (w, s) = (chunk.window.length, chunk.window.step);
        let form = Form::of(measure, w);
        let (direct, first_steps, steps) = match form {
            Form::Halves => (true, (2 * w).div_ceil(STEP), (2 * w).div_ceil(STEP)),
            // Whole stages for either half.
            Form::Bytes => (true, 4 * w.div_ceil(2 * STEP), 4 * w.div_ceil(2 * STEP)),
            Form::Signs => {
                let all = all_pairs(w);
                let direct = chunk.windows == 1 || s >= w || 2 * new_pairs(w, s) >= all;
                let further = if direct { all } else { 2 * new_pairs(w, s) };
                (direct, all.div_ceil(STEP), further.div_ceil(STEP))
            }
        };
        Self {
            form,
            nodes,
            padded: nodes.div_ceil(BLOCK) * BLOCK,
            instants: chunk.samples(),
            window: chunk.window,
            windows: chunk.windows,
            direct,
            first_steps,
            steps,
        }
    }

    fn first_stages(&self) -> usize {
        self.first_steps.div_ceil(2)
    }

    fn stages(&self) -> usize {
        self.steps.div_ceil(2)
    }

    /// Stages of a panel.
    fn all_stages(&self) -> usize {
        self.first_stages() + (self.windows - 1) * self.stages()
    }

    fn panel_words(&self) -> usize {
        self.padded * self.all_stages() * kernels::NODE_WORDS
    }

    /// Panels: rows and columns have one each where what leaves is taken away.
    fn panels(&self) -> usize {
        if self.form == Form::Signs { 2 } else { 1 }
    }

    /// (window, node)s.
    fn cells(&self) -> usize {
        self.windows * self.padded
    }

    fn bounds(&self) -> usize {
        self.cells() / kernels::BOUND_NODES
    }

    /// Windows of a tile at a time.
    fn group(&self) -> usize {
        if self.direct { GROUP } else { self.windows }
    }

    /// Bytes of all but the edge buffer.
    fn bytes(&self, sample: usize) -> u64 {
        let blocks = self.padded / BLOCK;
        self.instants as u64 * self.nodes as u64 * sample as u64
            + (self.panels() * self.panel_words()) as u64 * 4
            // Squares and states.
            + self.cells() as u64 * (8 + 1)
            + self.bounds() as u64 * 4
            + (blocks * (blocks + 1) / 2) as u64 * 4
            // Rows, and the totals of their sums.
            + (self.windows * self.nodes) as u64 * 4
            + (self.windows * self.nodes / 1000) as u64
    }

    /// Slots that one tile may take, in as many blocks as there are groups.
    fn tile_slots(&self) -> usize {
        let groups = self.windows.div_ceil(self.group());
        BLOCK * BLOCK * self.windows + groups * WARPS * kernels::SLOT_RUN
    }

    /// Bytes of shared memory for a block that prepares samples of so many bytes.
    fn shared_bytes(&self, sample: usize) -> usize {
        let w = self.window.length;
        kernels::RANK_NODES
            * match self.form {
                Form::Halves | Form::Bytes => w * (sample + 2),
                Form::Signs if self.direct => w * sample,
                Form::Signs => (w + self.window.step) * sample,
            }
    }
}

/// Kernels for samples of one type.
pub(super) struct Ranks {
    context: Arc<Context>,
    measure: RankMeasure,
    prepare: Kernel,
    walk: Kernel,
}

/// Inputs of a chunk's walk.
pub(super) struct RankInput {
    shape: RankShape,
    rows: Buffer<u32>,
    /// `None`: those of the rows.
    columns: Option<Buffer<u32>>,
    squares: Buffer<f64>,
    bound: Buffer<f32>,
    pub(super) states: States,
}

impl Ranks {
    /// # Errors
    /// [`ErrorKind::DeviceMemory`] where a block has no room for a window's samples; those of the device.
    pub(super) fn open<T: Sample>(
        context: &Arc<Context>,
        measure: RankMeasure,
        window: Window,
    ) -> Result<Self> {
        // Two windows: the sums of one alone never slide.
        let chunk = Chunk {
            start: 0,
            windows: 2,
            window,
            first: 0,
            rows: crate::window::Rows::ALL,
        };
        let shape = RankShape::new(measure, 1, &chunk);
        let (bytes, room) = (shape.shared_bytes(size_of::<T>()), context.shared_bytes());
        if bytes > room {
            return Err(Error::new(
                ErrorKind::DeviceMemory,
                format!(
                    "ranks on cuda:{}: expected {bytes} bytes of shared memory for windows of {} samples, got {room}",
                    context.number(),
                    window.length
                ),
            ));
        }
        let options = [format!("-DINPUT={}", T::VALUE)];
        let form = [format!("-DFORM={}", shape.form as u8)];
        let prepare = match measure {
            RankMeasure::Spearman => context.load::<NetworkRanks<'_, T>>(&options, bytes)?,
            RankMeasure::Kendall => context.load::<NetworkSigns<'_, T>>(&options, bytes)?,
        };
        Ok(Self {
            context: Arc::clone(context),
            measure,
            prepare,
            walk: context.load::<NetworkRankWalk<'_>>(&form, kernels::RANK_WALK_SHARED_BYTES)?,
        })
    }

    /// Memory and time of a chunk of so many nodes.
    pub(super) fn sizes<T>(&self, nodes: usize, chunk: &Chunk) -> Sizes {
        let shape = RankShape::new(self.measure, nodes, chunk);
        let products = if shape.form == Form::Bytes { 2 } else { 1 };
        let stage = (BLOCK * BLOCK * kernels::NODE_WORDS * 4) as f64;
        Sizes {
            blocks: shape.padded / BLOCK,
            bytes: shape.bytes(size_of::<T>()),
            tile_slots: shape.tile_slots(),
            tile_seconds: stage * (products * shape.all_stages()) as f64 / RATE,
        }
    }

    /// The panels of a chunk's samples.
    pub(super) fn prepare<T: Sample>(
        &self,
        nodes: usize,
        samples: &Buffer<T>,
        chunk: &Chunk,
    ) -> Result<RankInput> {
        let context = &self.context;
        let shape = RankShape::new(self.measure, nodes, chunk);
        let columns = match shape.panels() {
            1 => None,
            _ => Some(context.alloc(shape.panel_words())?),
        };
        let mut input = RankInput {
            shape,
            rows: context.alloc(shape.panel_words())?,
            columns,
            squares: context.alloc(shape.cells())?,
            bound: context.zeros(shape.bounds())?,
            states: States::new(context, nodes, shape.padded, shape.windows)?,
        };
        let i = &mut input;
        let blocks = (
            (shape.padded / kernels::RANK_NODES) as u32,
            shape.windows.div_ceil(RUN) as u32,
            1,
        );
        let (nodes, padded) = (int(nodes)?, int(shape.padded)?);
        let (length, step) = (int(shape.window.length)?, int(shape.window.step)?);
        let (windows, run) = (int(shape.windows)?, int(RUN)?);
        let stages = int(shape.stages())?;
        let threads = 32 * kernels::RANK_NODES as u32;
        match &mut i.columns {
            None => self.prepare.launch(
                blocks,
                threads,
                NetworkRanks {
                    samples: samples.read(),
                    nodes,
                    padded,
                    length,
                    step,
                    windows,
                    run,
                    split: i32::from(shape.form == Form::Bytes),
                    stages,
                    panels: i.rows.write(),
                    squares: i.squares.write(),
                    bound: i.bound.update(),
                    state: i.states.state.write(),
                    odd: i.states.odd.update(),
                },
            )?,
            Some(columns) => self.prepare.launch(
                blocks,
                threads,
                NetworkSigns {
                    samples: samples.read(),
                    nodes,
                    padded,
                    length,
                    step,
                    windows,
                    run,
                    direct: i32::from(shape.direct),
                    first_stages: int(shape.first_stages())?,
                    stages,
                    rows: i.rows.write(),
                    columns: columns.write(),
                    squares: i.squares.write(),
                    bound: i.bound.update(),
                    state: i.states.state.write(),
                    odd: i.states.odd.update(),
                },
            )?,
        }
        Ok(input)
    }

    /// Walks the tiles in `range`; what was counted.
    pub(super) fn walk(
        &self,
        input: &RankInput,
        tiles: &Buffer<u32>,
        range: Range<usize>,
        asked: &WalkRequest,
        edges: &mut Edges,
    ) -> Result<Buffer<u64>> {
        let shape = input.shape;
        let items = range.len() * shape.windows.div_ceil(shape.group());
        let (mut tally, blocks) = begin_walk(&self.context, edges, items, RESIDENT)?;
        // As `oracle::reaches` has it.
        let tie = if asked.strict { TIE } else { -TIE };
        let limit: Vec<f64> = asked.thresholds.iter().map(|t| t + tie).collect();
        let least: Vec<f32> = limit.iter().map(|t| (t - SLACK) as f32).collect();
        let (limit, least) = (self.context.upload(&limit)?, self.context.upload(&least)?);
        self.walk.launch(
            (blocks, 1, 1),
            kernels::RANK_WALK_THREADS,
            NetworkRankWalk {
                nodes: int(shape.nodes)?,
                padded: int(shape.padded)?,
                windows: int(shape.windows)?,
                group: int(shape.group())?,
                direct: i32::from(shape.direct),
                squares: input.squares.read(),
                bound: input.bound.read(),
                rows: input.rows.read(),
                columns: input.columns.as_ref().unwrap_or(&input.rows).read(),
                first_stages: int(shape.first_stages())?,
                stages: int(shape.stages())?,
                first_steps: int(shape.first_steps)?,
                steps: int(shape.steps)?,
                tiles: tiles.read(),
                first: range.start as u32,
                count: range.len() as u32,
                limit: limit.read(),
                strict: i32::from(asked.strict),
                least: least.read(),
                sign: asked.sign,
                keys: edges.keys.update(),
                values: edges.values.update(),
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

    fn shape(measure: RankMeasure, (length, step): (usize, usize), windows: usize) -> RankShape {
        let chunk = Chunk {
            start: 0,
            windows,
            window: Window::new(length, step),
            first: 0,
            rows: Rows::ALL,
        };
        RankShape::new(measure, 300, &chunk)
    }

    #[test]
    fn sums_of_the_longest_window_fit_into_31_bits() {
        assert!(largest_sum(kernels::LONGEST_RANKS) < 1 << 31);
        assert!(largest_sum(kernels::LONGEST_RANKS + 1) >= 1 << 31);
        let form = |length| Form::of(RankMeasure::Spearman, length);
        assert_eq!((form(293), form(294)), (Form::Halves, Form::Bytes));
        assert_eq!(Form::of(RankMeasure::Kendall, 294), Form::Signs);
    }

    #[test]
    fn sizes_follow_the_windows() {
        // 200 f16 are 12.5 halves of a stage; 398 signs come and go, of 19,900.
        let ranks = shape(RankMeasure::Spearman, (200, 1), 801);
        assert_eq!(
            (ranks.steps, ranks.stages(), ranks.all_stages()),
            (13, 7, 801 * 7)
        );
        let signs = shape(RankMeasure::Kendall, (200, 1), 801);
        assert!(!signs.direct && signs.group() == 801);
        assert_eq!(
            (signs.first_stages(), signs.steps, signs.stages()),
            (311, 13, 7)
        );
        assert_eq!(signs.bytes(1) / ranks.bytes(1), 2);
        // Too far apart to slide.
        let apart = shape(RankMeasure::Kendall, (200, 70), 5);
        assert!(apart.direct && apart.first_steps == apart.steps);
        assert_eq!(shape(RankMeasure::Spearman, (300, 1), 1).stages(), 10);
        assert_eq!((apart.padded, apart.bounds()), (384, 5 * 6));
    }
}
