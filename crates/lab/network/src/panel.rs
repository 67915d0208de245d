//! The factors of the kernel: for one chunk of windows, blocks of nodes as step-major panels.
//!
//! With u = x − x̄(k), x̄ the mean of window k, the sums of products of the next window are
//!
//! C(k+1) = C(k) + Σ_new u uᵀ − Σ_old u uᵀ − (1/W)·D Dᵀ,  D = Σ_new u − Σ_old u.
//!
//! An orthogonal H that maps (1 … 1)/√s to the first axis turns the s new and the s old samples so
//! that only their first components a (new) and d (old) are coupled, by [[1−g, g], [g, −1−g]] with
//! g = s/W and eigenvalues −g ± √(1+g²). Along its eigenvectors
//!
//! C(k+1) = C(k) + Σ_{e<s} p_e p_eᵀ − Σ_{e<s} q_e q_eᵀ :
//!
//! 2s multiply-adds per pair and window, means included, with no difference of large numbers. A panel
//! holds W centred samples of the first window and then 2s vectors per window (−q in row panels, so that
//! every step is a multiply-add); where 2s ≥ W, W centred samples for every window. Means and sums of
//! squares are f64; f32 comes last.
//!
//! Rounding adds up over a walk, and what a burst leaves behind would swamp quiet windows after it.
//! So a block is flagged in a window where the sum of squares of one of its nodes has fallen so far
//! below the largest since the last flag that the rounding since then could come near the margin
//! within which f64 decides ([`crate::block::falls`]): a tile of that block starts from zero there.

use rayon::prelude::*;

use crate::block::{BLOCK, BlockOut, PanelOptions, SampleTransform, direct};
use crate::moments::{Scratch, moments, read};
use crate::oracle::UndefinedReason;
use crate::signal::Signal;
use crate::step::{round_scaled, scales, write};
use crate::tile::{Arch, GROUP};
use crate::tiling::Tiling;
use crate::window::Chunk;

/// All panels of a chunk of windows.
#[derive(Debug)]
pub(crate) struct Panels {
    pub(crate) arch: Arch,
    pub(crate) chunk: Chunk,
    pub(crate) nodes: usize,
    pub(crate) steps: usize,
    pub(crate) first: usize,
    pub(crate) further: usize,
    pub(crate) direct: bool,
    /// (row block, step, row); (column block, step, column).
    rows: Vec<f32>,
    columns: Vec<f32>,
    /// (node, window), padded to whole groups: 1/√(sum of squares) in the node's scale, 0 where undefined.
    scales: Vec<f32>,
    /// (row block, group of windows), and (column block, group, column): see [`crate::tile::Filter`].
    row_least: Vec<f32>,
    row_norm: Vec<f32>,
    column_least: Vec<f32>,
    column_norm: Vec<f32>,
    row_anchor: Vec<u8>,
    column_anchor: Vec<u8>,
    /// For each node what its samples are multiplied with, and what stands for a non-finite one.
    scale: Vec<f64>,
    fill: Vec<f64>,
    /// Row panels have the opposite sign: large sums are strong negative correlations.
    pub(crate) negative: bool,
    pub(crate) of: SampleTransform,
    /// If asked for, (block, window, node).
    means: Vec<f64>,
    squares: Vec<f64>,
    /// (window, node, why), by node.
    pub(crate) undefined: Vec<(u32, u32, UndefinedReason)>,
    /// (window, node) that f32 cannot hold, by node.
    pub(crate) extreme: Vec<(u32, u32)>,
}

/// Least values of a pair in each window of a chunk, padded to whole groups.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    least: Vec<f32>,
    of_group: Vec<f32>,
    clear: Vec<f32>,
}

impl Limits {
    /// Values that reach `least` but not `clear` are doubtful.
    pub(crate) fn new(
        arch: Arch,
        least: impl Iterator<Item = f32>,
        clear: impl Iterator<Item = f32>,
    ) -> Self {
        let padded = |of: &mut dyn Iterator<Item = f32>| {
            // Not a limit for anything: even what is undefined, 0, would reach it.
            let mut of: Vec<f32> = of
                .map(|l| if l > 0.0 { l } else { f32::NEG_INFINITY })
                .collect();
            of.resize(of.len().next_multiple_of(GROUP), f32::INFINITY);
            of
        };
        let (mut least, mut clear) = (least, clear);
        let least = padded(&mut least);
        let of_group = (least.chunks_exact(arch.group()))
            .map(|group| group.iter().fold(f32::INFINITY, |a, b| a.min(*b)))
            .collect();
        Self {
            least,
            of_group,
            clear: padded(&mut clear),
        }
    }

    /// Everything is doubtful.
    pub(crate) fn all_doubtful(&self) -> Self {
        Self {
            clear: vec![f32::INFINITY; self.clear.len()],
            ..self.clone()
        }
    }
}

/// Most windows in a chunk: as many as amortise the first one, as few as keep rounding and memory low.
pub(crate) fn chunk_windows(length: usize, step: usize) -> usize {
    const STEPS: usize = 8192;
    let step = step.min(length);
    let steps = if step >= length.div_ceil(2) {
        length
    } else {
        2 * step
    };
    (STEPS / steps.max(1)).clamp(1, 256)
}

/// Steps of a panel.
fn steps(chunk: &Chunk, of: SampleTransform) -> (usize, usize) {
    let (w, s) = (chunk.window.length, chunk.window.step);
    (
        w,
        if of.starts_from_zero() || direct(chunk) {
            w
        } else {
            2 * s
        },
    )
}

/// Bytes of the panels of `chunk`.
pub(crate) fn bytes(chunk: &Chunk, nodes: usize, of: SampleTransform) -> u128 {
    let (first, further) = steps(chunk, of);
    let padded = (nodes.div_ceil(BLOCK) * BLOCK) as u128;
    let windows = chunk.windows as u128;
    padded * ((first as u128 + further as u128 * (windows - 1)) + windows) * 8
}

impl<'a> BlockOut<'a> {
    fn split(panels: &'a mut Panels, blocks: usize) -> Vec<Self> {
        let len = |of: usize| of / blocks;
        let (row_blocks, column_blocks) = (
            len(panels.row_anchor.len()),
            len(panels.column_anchor.len()),
        );
        let panel = len(panels.rows.len());
        let scales = len(panels.scales.len());
        let (row_groups, column_groups) =
            (len(panels.row_least.len()), len(panels.column_least.len()));
        let mut rows = panels.rows.chunks_mut(panel);
        let mut columns = panels.columns.chunks_mut(panel);
        let mut scales = panels.scales.chunks_mut(scales);
        let mut row_least = panels.row_least.chunks_mut(row_groups);
        let mut row_norm = panels.row_norm.chunks_mut(row_groups);
        let mut column_least = panels.column_least.chunks_mut(column_groups);
        let mut column_norm = panels.column_norm.chunks_mut(column_groups);
        let mut row_anchor = panels.row_anchor.chunks_mut(row_blocks);
        let mut column_anchor = panels.column_anchor.chunks_mut(column_blocks);
        let mut scale = panels.scale.chunks_mut(BLOCK);
        let mut fill = panels.fill.chunks_mut(BLOCK);
        let next = |_| {
            Some(Self {
                rows: rows.next()?,
                columns: columns.next()?,
                scales: scales.next()?,
                row_least: row_least.next()?,
                row_norm: row_norm.next()?,
                column_least: column_least.next()?,
                column_norm: column_norm.next()?,
                row_anchor: row_anchor.next()?,
                column_anchor: column_anchor.next()?,
                scale: scale.next()?,
                fill: fill.next()?,
            })
        };
        (0..blocks).filter_map(next).collect()
    }
}

/// Results of preparing a block, besides its panels.
#[derive(Default)]
struct Exceptions {
    undefined: Vec<(u32, u32, UndefinedReason)>,
    extreme: Vec<(u32, u32)>,
    means: Vec<f64>,
    squares: Vec<f64>,
}

impl Panels {
    /// Reads the chunk's samples and makes its panels, on rayon's current pool.
    pub(crate) fn new(signal: &Signal<'_>, chunk: Chunk, making: PanelOptions) -> Self {
        let PanelOptions { arch, negative, .. } = making;
        let nodes = signal.nodes();
        let (first, further) = steps(&chunk, making.of);
        let windows = chunk.windows;
        let steps = first + further * (windows - 1);
        let blocks = nodes.div_ceil(BLOCK);
        let padded = blocks * BLOCK;
        let (row_blocks, column_blocks) = (padded / arch.rows(), padded / arch.columns());
        let groups = windows.div_ceil(arch.group());
        let mut panels = Self {
            arch,
            chunk,
            nodes,
            steps,
            first,
            further,
            direct: making.of.starts_from_zero() || direct(&chunk),
            rows: vec![0.0; padded * steps],
            columns: vec![0.0; padded * steps],
            scales: vec![0.0; padded * windows.next_multiple_of(GROUP)],
            row_least: vec![f32::INFINITY; row_blocks * groups],
            row_norm: vec![0.0; row_blocks * groups],
            column_least: vec![f32::INFINITY; padded * groups],
            column_norm: vec![0.0; padded * groups],
            row_anchor: vec![0; row_blocks * windows],
            column_anchor: vec![0; column_blocks * windows],
            scale: vec![1.0; padded],
            fill: vec![0.0; padded],
            negative,
            of: making.of,
            means: Vec::new(),
            squares: Vec::new(),
            undefined: Vec::new(),
            extreme: Vec::new(),
        };
        if blocks == 0 {
            return panels;
        }
        let mut parts = BlockOut::split(&mut panels, blocks);
        let vectors = pulp::Arch::new();
        let exceptions: Vec<Exceptions> = (parts.par_iter_mut().enumerate())
            .map_init(Scratch::default, |scratch, (block, out)| {
                vectors.dispatch(|| prepare(signal, &chunk, making, block, scratch, out))
            })
            .collect();
        drop(parts);
        for part in exceptions {
            panels.undefined.extend(part.undefined);
            panels.extreme.extend(part.extreme);
            panels.means.extend(part.means);
            panels.squares.extend(part.squares);
        }
        panels
    }

    /// Mean of a node in window q, and the sum of squared deviations: −0 where constant, negative
    /// where not finite. Only if asked for.
    pub(crate) fn moments(&self, q: usize, node: usize) -> (f64, f64) {
        let at = (node / BLOCK * self.chunk.windows + q) * BLOCK + node % BLOCK;
        (self.means[at], self.squares[at])
    }

    pub(crate) fn tiling(&self) -> Tiling {
        Tiling {
            nodes: self.nodes,
            height: self.arch.rows(),
            width: self.arch.columns(),
            steps: self.steps,
            windows: self.chunk.windows,
            only: self.chunk.rows,
        }
    }

    /// The walk of tile (row block, column block).
    pub(crate) fn walk(&self, i: usize, j: usize) -> crate::tile::Walk<'_> {
        self.walk_with(self, i, j)
    }

    /// The walk of row block i of these panels and column block j of `others`, of the same shape.
    pub(crate) fn walk_with<'a>(
        &'a self,
        others: &'a Self,
        i: usize,
        j: usize,
    ) -> crate::tile::Walk<'a> {
        let windows = self.chunk.windows;
        let (rows, columns) = (
            self.arch.rows() * self.steps,
            self.arch.columns() * self.steps,
        );
        crate::tile::Walk {
            rows: &self.rows[i * rows..][..rows],
            columns: &others.columns[j * columns..][..columns],
            first: self.first,
            further: self.further,
            direct: self.direct,
            windows,
            row_anchor: &self.row_anchor[i * windows..][..windows],
            column_anchor: &others.column_anchor[j * windows..][..windows],
        }
    }

    /// Windows of a node's scales: all, padded to whole groups.
    pub(crate) fn stride(&self) -> usize {
        self.chunk.windows.next_multiple_of(GROUP)
    }

    /// The factor that turns a node's sums in window q into correlations; 0 if undefined, or too large or small.
    pub(crate) fn scale(&self, q: usize, node: usize) -> f32 {
        self.scales[node * self.stride() + q]
    }

    /// The filter of tile (row block, column block).
    pub(crate) fn filter<'a>(
        &'a self,
        i: usize,
        j: usize,
        limits: &'a Limits,
        magnitude: bool,
    ) -> crate::tile::Filter<'a> {
        let (stride, groups) = (
            self.stride(),
            self.chunk.windows.div_ceil(self.arch.group()),
        );
        let (rows, columns) = (self.arch.rows(), self.arch.columns());
        let of_columns = columns * groups;
        crate::tile::Filter {
            row_scale: &self.scales[i * rows * stride..][..rows * stride],
            column_scale: &self.scales[j * columns * stride..][..columns * stride],
            stride,
            row_least: &self.row_least[i * groups..][..groups],
            row_norm: &self.row_norm[i * groups..][..groups],
            column_least: &self.column_least[j * of_columns..][..of_columns],
            column_norm: &self.column_norm[j * of_columns..][..of_columns],
            least: &limits.least,
            least_of_group: &limits.of_group,
            clear: &limits.clear,
            magnitude,
            negative: self.negative,
        }
    }

    /// Writes [`Panels::rebuild`] into `buffer` for the kernel, which reads it until the next call.
    pub(crate) fn rebuilder<'a>(
        &'a self,
        others: &'a Self,
        signal: &'a Signal<'_>,
        (i, j): (usize, usize),
        buffer: &'a mut Vec<f32>,
    ) -> impl FnMut(usize) -> (*const f32, *const f32) {
        move |q| {
            self.rebuild(others, signal, (i, j, q), buffer);
            let (rows, columns) = buffer.split_at(self.first * self.arch.rows());
            (rows.as_ptr(), columns.as_ptr())
        }
    }

    /// Centred and scaled samples of window `q` of tile (row block, column block) into `out`: rows,
    /// then columns (those of `others`, which may lie later).
    fn rebuild(
        &self,
        others: &Self,
        signal: &Signal<'_>,
        (i, j, q): (usize, usize, usize),
        out: &mut Vec<f32>,
    ) {
        let w = self.chunk.window.length;
        let (rows, columns) = (self.arch.rows(), self.arch.columns());
        out.clear();
        out.resize(w * (rows + columns), 0.0);
        let (left, right) = out.split_at_mut(w * rows);
        self.write_centred(signal, q, i * rows, rows, self.negative, left);
        others.write_centred(signal, q, j * columns, columns, false, right);
    }

    fn write_centred(
        &self,
        signal: &Signal<'_>,
        q: usize,
        first: usize,
        width: usize,
        negate: bool,
        out: &mut [f32],
    ) {
        let w = self.chunk.window.length;
        let mut samples = vec![0.0; w];
        for c in 0..width.min(self.nodes - first) {
            let node = first + c;
            signal.column(node, self.chunk.start_of(q), &mut samples);
            let fill = self.fill[node];
            for value in &mut samples {
                if !value.is_finite() {
                    *value = fill;
                }
            }
            // About the first sample, so that a large offset costs no digits.
            let origin = samples[0];
            let mean = origin + samples.iter().map(|v| v - origin).sum::<f64>() / w as f64;
            let scale = if negate {
                -self.scale[node]
            } else {
                self.scale[node]
            };
            for (step, value) in samples.iter().enumerate() {
                out[step * width + c] = round_scaled(value - mean, scale);
            }
        }
    }
}
#[inline(always)]
fn prepare(
    signal: &Signal<'_>,
    chunk: &Chunk,
    making: PanelOptions,
    block: usize,
    scratch: &mut Scratch,
    out: &mut BlockOut<'_>,
) -> Exceptions {
    let (first, used) = (block * BLOCK, BLOCK.min(signal.nodes() - block * BLOCK));
    let mut exceptions = Exceptions::default();
    read(signal, chunk, first, used, scratch, out.fill);
    moments(chunk, scratch, first, used, &mut exceptions.undefined);
    if let SampleTransform::Tapered(taper) = making.of {
        crate::taper::weigh(chunk, taper, scratch);
    }
    exceptions.extreme = scales(chunk, scratch, first, used, making, out);
    write(chunk, scratch, making, out);
    if making.moments {
        exceptions.means = scratch.mean.clone();
        exceptions.squares = scratch.squares.clone();
    }
    exceptions
}
