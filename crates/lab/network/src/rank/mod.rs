//! Rank measures as sums of products of small whole numbers: Spearman's of twice the ranks about their mean, Kendall's of
//! the signs of all pairs of samples. Sums are exact, so a value is that of plain f64 loops to the last bit, on any
//! registers, and nothing is decided twice.

mod kendall;
mod order;
mod spearman;
#[cfg(test)]
mod tests;
mod tile;

use crate::engine::{self, Counts, TileEdges};
use crate::oracle::{self, UndefinedReason};
use crate::scan::{Emit, PairEstimate, Room, Scan, Tile};
use crate::signal::Signal;
use crate::spec::{Measure, Sign};
use crate::tile::{Arch, Run};
use crate::tiling::{Tiling, above_diagonal, units};
use crate::window::Chunk;
use rayon::prelude::*;
use tile::{HEIGHT, LANES, PARTS, ROWS, RankArch, RankFilter, RankHit, RankWalk, TileWords, Words};

/// Longest window of Kendall's measure: twice as many pairs of samples would not fit into 32 bits.
pub(crate) const LONGEST_KENDALL: usize = 32_768;

/// Rounding of a sum in f32 before it is compared with a limit, with room to spare.
const SLACK: f64 = 1e-6;

/// The same where ranks do not fit into 16 bits and lose their last ones.
const SHIFTED_SLACK: f64 = 3e-4;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RankMeasure {
    Spearman,
    Kendall,
}

impl RankMeasure {
    pub(crate) fn of(measure: Measure) -> Option<Self> {
        match measure {
            Measure::Spearman => Some(Self::Spearman),
            Measure::Kendall => Some(Self::Kendall),
            _ => None,
        }
    }
}

/// The words of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Words of the first window (each, if `direct`).
    first: usize,
    /// Words of the pairs of samples that enter with a further window; as many leave.
    further: usize,
    /// Pairs of samples in these.
    new_pairs: usize,
    /// Every window starts from zero.
    direct: bool,
    /// Bits that ranks lose to fit into 16.
    shift: u32,
    /// Steps of products that 32 bits hold.
    fit: usize,
}

impl Shape {
    fn new(measure: RankMeasure, chunk: &Chunk) -> Self {
        let (w, s) = (chunk.window.length, chunk.window.step);
        match measure {
            RankMeasure::Spearman => {
                let shift = ((w - 1) as u64 >> 15)
                    .checked_ilog2()
                    .map_or(0, |bits| bits + 1);
                let largest = ((w - 1) as u64 >> shift) + u64::from(shift > 0);
                // Without a shift, sums stay below Σ(2·rank − W − 1)² = (W³ − W)/3.
                let fit = match (w as u64).pow(3) / 3 < 1 << 31 && shift == 0 {
                    true => usize::MAX,
                    false => (((1 << 31) - 1) / (2 * largest * largest)).max(1) as usize,
                };
                Self {
                    first: w.div_ceil(2),
                    further: 0,
                    new_pairs: 0,
                    direct: true,
                    shift,
                    fit,
                }
            }
            RankMeasure::Kendall => {
                let (all, new) = match s < w {
                    true => (kendall::all_pairs(w), kendall::new_pairs(w, s)),
                    false => (kendall::all_pairs(w), usize::MAX / 2),
                };
                let direct = chunk.windows == 1 || 2 * new >= all;
                Self {
                    first: all.div_ceil(32),
                    further: if direct { 0 } else { new.div_ceil(32) },
                    new_pairs: new,
                    direct,
                    shift: 0,
                    fit: usize::MAX,
                }
            }
        }
    }

    /// Words of a node in all windows.
    fn words(&self, windows: usize) -> usize {
        tile::steps(self.first, self.further, self.direct, windows)
    }
}

/// Words that a tile's walk takes per pair of nodes in all windows of `chunk`, and the bytes of all nodes' words.
pub(crate) fn cost(measure: RankMeasure, chunk: &Chunk, nodes: usize) -> (f64, u128) {
    let words = Shape::new(measure, chunk).words(chunk.windows);
    let lists = match measure {
        RankMeasure::Spearman => 1,
        // With equal samples.
        RankMeasure::Kendall => 2,
    };
    let padded = nodes.next_multiple_of(LANES) as u128;
    let bytes = padded * (words * lists * 4 + chunk.windows * 16) as u128;
    // While they are made, each thread has the samples' order and ranks.
    let room = rayon::current_num_threads() * chunk.samples() * LANES * 8;
    (words as f64, bytes + room as u128)
}

/// Most windows in a chunk.
pub(crate) fn chunk_windows(measure: RankMeasure, length: usize, step: usize) -> usize {
    /// Words of a node.
    const WORDS: usize = 4096;
    match measure {
        RankMeasure::Spearman => WORDS / length.div_ceil(2),
        RankMeasure::Kendall => {
            let new = if step < length {
                kendall::new_pairs(length, step)
            } else {
                usize::MAX / 64
            };
            (2 * WORDS / new.div_ceil(16)).max(WORDS / kendall::all_pairs(length).div_ceil(32))
        }
    }
    .clamp(1, 256)
}

/// The words of [`LANES`] nodes.
pub(crate) struct Block {
    /// (step, lane)
    words: Vec<u32>,
    /// Empty where no two samples of a window are equal.
    masks: Vec<u32>,
    /// (window, lane): the sum of squares of the numbers that are multiplied, 0 where constant.
    squares: Vec<[i64; LANES]>,
}

/// All words of a chunk of windows.
pub(crate) struct RankPanels<'a> {
    signal: &'a Signal<'a>,
    chunk: Chunk,
    measure: RankMeasure,
    arch: RankArch,
    sign: Sign,
    shape: Shape,
    blocks: Vec<Block>,
    /// Of each block, (window, lane): 1/√squares with the requested sign, 0 where undefined.
    scales: Vec<Vec<f32>>,
    /// Masks of nodes without equal samples, if others have some.
    full: Vec<u32>,
    /// (window, node, why), by node.
    pub(crate) undefined: Vec<(u32, u32, UndefinedReason)>,
}

impl<'a> RankPanels<'a> {
    /// Reads the chunk's samples and makes its words, on rayon's current pool.
    pub(crate) fn new(
        signal: &'a Signal<'a>,
        chunk: Chunk,
        measure: RankMeasure,
        (arch, sign): (Arch, Sign),
    ) -> Self {
        let shape = Shape::new(measure, &chunk);
        let nodes = signal.nodes();
        let blocks = nodes.next_multiple_of(HEIGHT).div_ceil(LANES);
        let made = order::each_block(
            signal,
            &chunk,
            blocks,
            #[inline(always)]
            |order, used| {
                let mut block = match measure {
                    RankMeasure::Spearman => spearman::prepare(order, &chunk, &shape, used),
                    RankMeasure::Kendall => kendall::prepare(order, &chunk, &shape, used),
                };
                let undefined = undefined(order, &mut block, used);
                (block, undefined)
            },
        );
        let mut panels = Self {
            signal,
            chunk,
            measure,
            arch: RankArch::of(arch),
            sign,
            shape,
            blocks: Vec::with_capacity(blocks),
            scales: Vec::with_capacity(blocks),
            full: Vec::new(),
            undefined: Vec::new(),
        };
        for (at, (block, undefined)) in made.into_iter().enumerate() {
            let node = |(lane, q, why)| (q, (at * LANES) as u32 + lane, why);
            panels.undefined.extend(undefined.into_iter().map(node));
            panels.scales.push(scales(&block, sign));
            panels.blocks.push(block);
        }
        if panels.blocks.iter().any(|block| !block.masks.is_empty()) {
            panels.full = panels.full_masks();
        }
        panels
    }

    /// The masks of nodes without equal samples: every pair of samples counts.
    fn full_masks(&self) -> Vec<u32> {
        let w = self.chunk.window.length;
        let shape = self.shape;
        let mut words = Vec::with_capacity(shape.words(self.chunk.windows) * LANES);
        let mut put = |pairs: usize| {
            for at in 0..pairs.div_ceil(32) {
                let bits = (pairs - at * 32).min(32);
                words.extend([u32::MAX >> (32 - bits); LANES]);
            }
        };
        for q in 0..self.chunk.windows {
            if q == 0 || shape.direct {
                put(kendall::all_pairs(w));
            } else {
                put(shape.new_pairs);
                put(shape.new_pairs);
            }
        }
        words
    }

    fn squares(&self, q: usize, node: usize) -> i64 {
        self.blocks[node / LANES].squares[q][node % LANES]
    }

    /// The value of a sum; `None` where a node is undefined.
    fn value(&self, hit: &RankHit, i: usize, j: usize) -> Option<f64> {
        let q = hit.window as usize;
        let (a, b) = (self.squares(q, i), self.squares(q, j));
        (a > 0 && b > 0).then(|| {
            let sum = hit.sum as f64 * (1_u64 << (2 * self.shape.shift)) as f64;
            oracle::rank_value(sum, a as f64, b as f64)
        })
    }

    /// Bound of the error of a value.
    fn bound(&self) -> f64 {
        if self.shape.shift > 0 {
            SHIFTED_SLACK
        } else {
            0.0
        }
    }

    /// Puts every pair of a tile whose size in window q may reach `least[q]` behind `hits`.
    fn hits(&self, (i, j): Tile, least: impl Fn(usize) -> f64, hits: &mut Vec<RankHit>) {
        let windows = self.chunk.windows;
        let slack = SLACK + self.bound();
        let mut limits = Vec::with_capacity(windows * HEIGHT);
        for q in 0..windows {
            for node in i * HEIGHT..(i + 1) * HEIGHT {
                let spread = (self.squares(q, node) as f64).sqrt();
                limits.push(match spread > 0.0 {
                    true => ((least(q) - slack) * spread / self.unit()) as f32,
                    false => f32::INFINITY,
                });
            }
        }
        let (block, lane) = (j * self.arch.width() / LANES, j * self.arch.width() % LANES);
        let walk = RankWalk {
            words: self.words(i, block, lane),
            first: self.shape.first,
            further: self.shape.further,
            direct: self.shape.direct,
            windows,
        };
        let filter = RankFilter {
            limits: &limits,
            scales: &self.scales[block][lane..],
            magnitude: self.sign == Sign::Both,
        };
        // SAFETY: `RankArch::of` has asked the processor.
        #[allow(unsafe_code)]
        unsafe {
            tile::hits(self.arch, &walk, &filter, hits);
        }
    }

    /// By how much products of shifted ranks are too small.
    fn unit(&self) -> f64 {
        (1_u64 << (2 * self.shape.shift)) as f64
    }

    /// The words of the tile of row block `i` and of the columns from `lane` of `block` on.
    fn words(&self, i: usize, block: usize, lane: usize) -> TileWords<'_> {
        let place = |part: usize| {
            let node = i * HEIGHT + part * ROWS;
            (&self.blocks[node / LANES], node % LANES)
        };
        let rows: [Words<'_>; PARTS] = std::array::from_fn(|part| {
            let (block, lane) = place(part);
            &block.words[lane..]
        });
        let columns = &self.blocks[block];
        if self.measure == RankMeasure::Spearman {
            return TileWords::Ranks {
                rows,
                columns: &columns.words[lane..],
                fit: self.shape.fit,
            };
        }
        let tied = |block: &Block| !block.masks.is_empty();
        if !tied(columns) && (0..PARTS).all(|part| !tied(place(part).0)) {
            return TileWords::Signs {
                rows,
                columns: &columns.words[lane..],
                all: kendall::all_pairs(self.chunk.window.length) as i32,
            };
        }
        TileWords::TiedSigns {
            rows,
            columns: &columns.words[lane..],
            row_masks: std::array::from_fn(|part| {
                let (block, lane) = place(part);
                &self.masks(block)[lane..]
            }),
            column_masks: &self.masks(columns)[lane..],
        }
    }

    fn masks<'b>(&'b self, block: &'b Block) -> &'b [u32] {
        if block.masks.is_empty() {
            &self.full
        } else {
            &block.masks
        }
    }

    fn tiling(&self) -> Tiling {
        Tiling {
            nodes: self.signal.nodes(),
            height: HEIGHT,
            width: self.arch.width(),
            steps: self.shape.words(self.chunk.windows),
            windows: self.chunk.windows,
            only: self.chunk.rows,
        }
    }

    /// Nodes of a pair of tile (row block, column block), if it is one above the diagonal.
    fn nodes_of(&self, (i, j): Tile, place: u32) -> Option<(usize, usize)> {
        let width = self.arch.width();
        let (a, b) = (
            i * HEIGHT + place as usize / width,
            j * width + place as usize % width,
        );
        (b > a && b < self.signal.nodes()).then_some((a, b))
    }

    /// The f64 value of a pair from its samples.
    fn recompute(&self, q: usize, i: usize, j: usize, room: &mut Room) -> Option<f64> {
        let (start, w) = (self.chunk.start_of(q), self.chunk.window.length);
        room.read_pair(self.signal, (i as u32, j as u32), start, w);
        match self.measure {
            RankMeasure::Spearman => oracle::spearman(&room.x, &room.y),
            RankMeasure::Kendall => oracle::kendall(&room.x, &room.y),
        }
    }

    /// Sizes of all defined pairs in all windows, in `bins` equal parts of 0 to 1.
    pub(crate) fn histogram(&self, bins: usize) -> Vec<u64> {
        let tiling = self.tiling();
        let count = |(mut counts, mut hits): (Vec<u64>, Vec<RankHit>),
                     unit: &crate::tiling::Unit| {
            for j in unit.columns.0..unit.columns.1 {
                for i in (unit.rows.0..unit.rows.1).filter(|i| above_diagonal(&tiling, *i, j)) {
                    hits.clear();
                    self.hits((i, j), |_| f64::NEG_INFINITY, &mut hits);
                    for hit in &hits {
                        let value = self.nodes_of((i, j), hit.place);
                        let value = value.and_then(|(a, b)| self.value(hit, a, b));
                        if let Some(size) = value.map(|v| self.sign.size(v)).filter(|v| *v >= 0.0) {
                            counts[((size * bins as f64) as usize).min(bins - 1)] += 1;
                        }
                    }
                }
            }
            (counts, hits)
        };
        (units(&tiling).par_iter())
            .fold(|| (vec![0; bins], Vec::new()), count)
            .map(|(counts, _)| counts)
            .reduce(
                || vec![0; bins],
                |mut a, b| {
                    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                    a
                },
            )
    }
}

/// (lane, window, why) of what is undefined; its squares become 0.
fn undefined(
    order: &order::Order,
    block: &mut Block,
    used: usize,
) -> Vec<(u32, u32, UndefinedReason)> {
    let mut undefined = Vec::new();
    for lane in 0..used {
        for (q, squares) in block.squares.iter_mut().enumerate() {
            let why = match squares[lane] {
                _ if order.not_finite[q][lane] => UndefinedReason::NonFinite,
                0 => UndefinedReason::Constant,
                _ => continue,
            };
            squares[lane] = 0;
            undefined.push((lane as u32, q as u32, why));
        }
    }
    undefined
}

fn scales(block: &Block, sign: Sign) -> Vec<f32> {
    let of = |squares: &i64| match (squares, sign) {
        (0, _) => 0.0,
        (squares, Sign::Negative) => -1.0 / (*squares as f64).sqrt() as f32,
        (squares, _) => 1.0 / (*squares as f64).sqrt() as f32,
    };
    (block.squares.iter())
        .flat_map(|lanes| lanes.iter().map(of))
        .collect()
}

impl Scan for RankPanels<'_> {
    fn tiling(&self) -> Tiling {
        self.tiling()
    }

    fn tile(&self, tile: Tile, least: &[f64], room: &mut Room, emit: Emit<'_>) {
        let mut hits = std::mem::take(&mut room.rank_hits);
        hits.clear();
        self.hits(tile, |q| least[q], &mut hits);
        for hit in &hits {
            if let Some((a, b)) = self.nodes_of(tile, hit.place)
                && let Some(value) = self.value(hit, a, b)
            {
                emit(PairEstimate::new(
                    hit.window as usize,
                    (a, b),
                    value,
                    self.bound(),
                ));
            }
        }
        room.rank_hits = hits;
    }

    fn size(&self, value: f64) -> f64 {
        self.sign.size(value)
    }

    fn exact(&self, q: usize, i: u32, j: u32, room: &mut Room) -> Option<(f64, i16)> {
        Some((self.recompute(q, i as usize, j as usize, room)?, 0))
    }
}

impl TileEdges for RankPanels<'_> {
    fn tiling(&self) -> Tiling {
        self.tiling()
    }

    fn tile(&self, tile: Tile, cut: &engine::Cut, room: &mut Room, counts: &mut Counts) -> u64 {
        let mut hits = std::mem::take(&mut room.rank_hits);
        hits.clear();
        self.hits(tile, |q| cut.thresholds[q], &mut hits);
        let before = room.hits.values.len();
        for hit in &hits {
            let Some((a, b)) = self.nodes_of(tile, hit.place) else {
                continue;
            };
            let q = hit.window as usize;
            let mut value = self.value(hit, a, b);
            if self.shape.shift > 0 && value.is_some() {
                counts.rechecked += 1;
                value = self.recompute(q, a, b, room);
            }
            if let Some(value) = value.filter(|v| cut.keeps(q, *v)) {
                room.hits.counts[q] += 1;
                room.hits.values.push(value as f32);
                room.hits.runs.push(Run {
                    begin: hit.window,
                    place: hit.place as u16,
                    windows: 1,
                });
            }
        }
        room.rank_hits = hits;
        (room.hits.values.len() - before) as u64
    }
}

pub(crate) use kendall::{all_pairs, new_pairs};
pub(crate) use tile::RankHit as Hit;
