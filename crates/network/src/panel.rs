//! What the kernel multiplies: for one chunk of windows, blocks of nodes as step-major panels.
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
//! 2s multiply-adds a pair and window, means included, with no difference of large numbers. A panel
//! holds W centred samples of the first window and then 2s vectors a window (−q in row panels, so that
//! every step is a multiply-add); where 2s ≥ W, W centred samples for every window. Means and sums of
//! squares are f64; f32 comes last.
//!
//! Rounding adds up over a walk, and what a burst leaves behind would swamp quiet windows after it.
//! So a block is flagged in a window where the sum of squares of one of its nodes has fallen below a
//! quarter of the largest since the last flag: a tile of that block starts from zero there.

use rayon::prelude::*;

use crate::engine::Tiling;
use crate::oracle::Undefined;
use crate::signal::Signal;
use crate::tile::Arch;
use crate::window::Chunk;

/// Nodes prepared together; a multiple of the height and width of every tile.
pub(crate) const BLOCK: usize = 96;

/// A fall of the sum of squares by this factor asks for a start from zero.
const FALL: f64 = 4.0;

/// A sum of squares this much smaller than what has gone through its running sum is summed anew.
const REFRESH: f64 = 1e-6;

/// Scaled sums of squares beyond this (or below its inverse) do not go through f32 sums: such windows
/// of a node are correlated in f64, pair by pair.
const EXTREME: f64 = 1e24;

/// No scaled number in a panel is larger: sums of products stay finite whatever the samples are.
const LARGEST: f64 = 1e14;

/// Bound of the error of a correlation from f32 sums, with room to spare: drift over a chunk's steps is
/// below 1e-5 at worst (2⁻²⁵·√8192 times the 4 that the flags allow), 4e-6 was seen.
const MARGIN: f64 = 3e-5;

/// What to do differently, for tests that must fail when a rule is dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Start from zero after a fall of the sum of squares.
    pub(crate) anchors: bool,
    /// Decide pairs close to the threshold in f64.
    pub(crate) recheck: bool,
    /// Decide everything up to the threshold in f64, however far below; otherwise only what is close to it.
    pub(crate) one_sided: bool,
    /// How close is close, and how far below the threshold pairs are looked at.
    pub(crate) margin: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            anchors: true,
            recheck: true,
            one_sided: true,
            margin: MARGIN,
        }
    }
}

/// How panels are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making {
    pub(crate) arch: Arch,
    pub(crate) rules: Rules,
    /// Rows get the opposite sign.
    pub(crate) negative: bool,
    /// Keep means and sums of squares.
    pub(crate) moments: bool,
    /// Of ranks within each window.
    pub(crate) ranked: bool,
}

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
    /// (block, window, node): 1/√(sum of squares) in the node's scale, 0 where undefined.
    row_scale: Vec<f32>,
    column_scale: Vec<f32>,
    /// (row block, window).
    row_max: Vec<f32>,
    row_anchor: Vec<u8>,
    column_anchor: Vec<u8>,
    /// For each node what its samples are multiplied with, and what stands for a non-finite one.
    scale: Vec<f64>,
    fill: Vec<f64>,
    /// Row panels have the opposite sign: large sums are strong negative correlations.
    pub(crate) negative: bool,
    /// Ranks stand for the samples.
    pub(crate) ranked: bool,
    /// If asked for, (block, window, node).
    means: Vec<f64>,
    squares: Vec<f64>,
    /// (window, node, why), by node.
    pub(crate) undefined: Vec<(u32, u32, Undefined)>,
    /// (window, node) that f32 cannot hold, by node.
    pub(crate) extreme: Vec<(u32, u32)>,
}

/// True when a walk from zero in every window is no more work than sliding.
pub(crate) fn direct(chunk: &Chunk) -> bool {
    chunk.windows == 1 || chunk.window.step >= chunk.window.length.div_ceil(2)
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
fn steps(chunk: &Chunk, ranked: bool) -> (usize, usize) {
    let (w, s) = (chunk.window.length, chunk.window.step);
    (w, if ranked || direct(chunk) { w } else { 2 * s })
}

/// Bytes of the panels of `chunk`.
pub(crate) fn bytes(chunk: &Chunk, nodes: usize, ranked: bool) -> u128 {
    let (first, further) = steps(chunk, ranked);
    let padded = (nodes.div_ceil(BLOCK) * BLOCK) as u128;
    let windows = chunk.windows as u128;
    padded * ((first as u128 + further as u128 * (windows - 1)) + windows) * 8
}

/// One block's share of [`Panels`] to write.
pub(crate) struct BlockOut<'a> {
    rows: &'a mut [f32],
    columns: &'a mut [f32],
    pub(crate) row_scale: &'a mut [f32],
    pub(crate) column_scale: &'a mut [f32],
    pub(crate) row_max: &'a mut [f32],
    row_anchor: &'a mut [u8],
    column_anchor: &'a mut [u8],
    pub(crate) scale: &'a mut [f64],
    fill: &'a mut [f64],
}

impl<'a> BlockOut<'a> {
    fn split(panels: &'a mut Panels, blocks: usize) -> Vec<Self> {
        let len = |of: usize| of / blocks;
        let (row_blocks, column_blocks) = (
            len(panels.row_anchor.len()),
            len(panels.column_anchor.len()),
        );
        let (panel, scales) = (len(panels.rows.len()), len(panels.row_scale.len()));
        let mut rows = panels.rows.chunks_mut(panel);
        let mut columns = panels.columns.chunks_mut(panel);
        let mut row_scale = panels.row_scale.chunks_mut(scales);
        let mut column_scale = panels.column_scale.chunks_mut(scales);
        let mut row_max = panels.row_max.chunks_mut(row_blocks);
        let mut row_anchor = panels.row_anchor.chunks_mut(row_blocks);
        let mut column_anchor = panels.column_anchor.chunks_mut(column_blocks);
        let mut scale = panels.scale.chunks_mut(BLOCK);
        let mut fill = panels.fill.chunks_mut(BLOCK);
        let next = |_| {
            Some(Self {
                rows: rows.next()?,
                columns: columns.next()?,
                row_scale: row_scale.next()?,
                column_scale: column_scale.next()?,
                row_max: row_max.next()?,
                row_anchor: row_anchor.next()?,
                column_anchor: column_anchor.next()?,
                scale: scale.next()?,
                fill: fill.next()?,
            })
        };
        (0..blocks).filter_map(next).collect()
    }
}

/// What is left of a block besides its panels.
#[derive(Default)]
struct Exceptions {
    undefined: Vec<(u32, u32, Undefined)>,
    extreme: Vec<(u32, u32)>,
    means: Vec<f64>,
    squares: Vec<f64>,
}

impl Panels {
    /// Reads the chunk's samples and makes its panels, on rayon's current pool.
    pub(crate) fn new(signal: &Signal<'_>, chunk: Chunk, making: Making) -> Self {
        let Making { arch, negative, .. } = making;
        let nodes = signal.nodes();
        let (first, further) = steps(&chunk, making.ranked);
        let windows = chunk.windows;
        let steps = first + further * (windows - 1);
        let blocks = nodes.div_ceil(BLOCK);
        let padded = blocks * BLOCK;
        let (row_blocks, column_blocks) = (padded / arch.rows(), padded / arch.columns());
        let mut panels = Self {
            arch,
            chunk,
            nodes,
            steps,
            first,
            further,
            direct: making.ranked || direct(&chunk),
            rows: vec![0.0; padded * steps],
            columns: vec![0.0; padded * steps],
            row_scale: vec![0.0; padded * windows],
            column_scale: vec![0.0; padded * windows],
            row_max: vec![0.0; row_blocks * windows],
            row_anchor: vec![0; row_blocks * windows],
            column_anchor: vec![0; column_blocks * windows],
            scale: vec![1.0; padded],
            fill: vec![0.0; padded],
            negative,
            ranked: making.ranked,
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

    /// The scales of tile (row block, column block) that make correlations of its sums.
    pub(crate) fn filter<'a>(
        &'a self,
        i: usize,
        j: usize,
        least: &'a [f32],
        magnitude: bool,
    ) -> crate::tile::Filter<'a> {
        let windows = self.chunk.windows;
        let (rows, columns) = (self.arch.rows() * windows, self.arch.columns() * windows);
        crate::tile::Filter {
            row_scale: &self.row_scale[i * rows..][..rows],
            column_scale: &self.column_scale[j * columns..][..columns],
            row_max: &self.row_max[i * windows..][..windows],
            least,
            magnitude,
        }
    }

    /// Centred and scaled samples of window `q` of tile (row block, column block) into `out`: rows,
    /// then columns (those of `others`, which may lie later).
    pub(crate) fn rebuild(
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
        self.centred(signal, q, i * rows, rows, self.negative, left);
        others.centred(signal, q, j * columns, columns, false, right);
    }

    fn centred(
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
                out[step * width + c] = scaled(value - mean, scale);
            }
        }
    }
}

#[inline(always)]
fn scaled(centred: f64, scale: f64) -> f32 {
    // Not `clamp`, which would let NaN through (means overflow where samples are near f64's largest).
    (centred * scale).max(-LARGEST).min(LARGEST) as f32
}

/// A worker's room: samples (instant, node), and mean and sum of squares (window, node).
#[derive(Debug, Default)]
struct Scratch {
    samples: Vec<f64>,
    mean: Vec<f64>,
    squares: Vec<f64>,
    /// Rows of one node's samples for which it is not finite: (instant, node).
    bad: Vec<(u32, u32)>,
}

pub(crate) type Row = [f64; BLOCK];

#[inline(always)]
fn row(of: &[f64], at: usize) -> &Row {
    let (rows, _) = of.as_chunks::<BLOCK>();
    &rows[at]
}

#[inline(always)]
fn prepare(
    signal: &Signal<'_>,
    chunk: &Chunk,
    making: Making,
    block: usize,
    scratch: &mut Scratch,
    out: &mut BlockOut<'_>,
) -> Exceptions {
    let (first, used) = (block * BLOCK, BLOCK.min(signal.nodes() - block * BLOCK));
    let mut exceptions = Exceptions::default();
    read(signal, chunk, first, used, scratch, out.fill);
    moments(chunk, scratch, first, used, &mut exceptions.undefined);
    if making.ranked {
        crate::rank::prepare(chunk, making, used, &scratch.samples, &scratch.squares, out);
        return exceptions;
    }
    exceptions.extreme = scales(chunk, scratch, first, used, making, out);
    write(chunk, scratch, making, out);
    if making.moments {
        exceptions.means = scratch.mean.clone();
        exceptions.squares = scratch.squares.clone();
    }
    exceptions
}

/// Reads the block's samples; a non-finite one is replaced by the node's first finite one and noted.
#[inline(always)]
fn read(
    signal: &Signal<'_>,
    chunk: &Chunk,
    first: usize,
    used: usize,
    scratch: &mut Scratch,
    fill: &mut [f64],
) {
    let samples = chunk.samples();
    scratch.samples.clear();
    scratch.samples.resize(samples * BLOCK, 0.0);
    scratch.bad.clear();
    let (rows, _) = scratch.samples.as_chunks_mut::<BLOCK>();
    for (t, row) in rows.iter_mut().enumerate() {
        signal.read(chunk.start + t, first, &mut row[..used]);
        // 0·x is 0 unless x is not finite: one sum instead of a test of each.
        let check: f64 = row.iter().map(|v| v * 0.0).sum();
        if check != 0.0 || check.is_nan() {
            let bad = row.iter().enumerate().filter(|(_, v)| !v.is_finite());
            scratch.bad.extend(bad.map(|(c, _)| (t as u32, c as u32)));
        }
    }
    fill.fill(0.0);
    if scratch.bad.is_empty() {
        return;
    }
    for (c, fill) in fill.iter_mut().enumerate() {
        *fill = rows
            .iter()
            .map(|row| row[c])
            .find(|v| v.is_finite())
            .unwrap_or(0.0);
    }
    for &(t, c) in &scratch.bad {
        rows[t as usize][c as usize] = fill[c as usize];
    }
}

/// Running sums of the block's nodes about a point near their means.
struct Running {
    origin: Row,
    sum: Row,
    squares: Row,
    /// Largest `squares` since they were summed anew.
    peak: Row,
}

impl Running {
    #[inline(always)]
    fn anew(samples: &[f64], from: usize, to: usize) -> Self {
        let count = (to - from) as f64;
        let first = *row(samples, from);
        let mut sum = [0.0; BLOCK];
        for t in from..to {
            let x = row(samples, t);
            for c in 0..BLOCK {
                sum[c] += x[c] - first[c];
            }
        }
        let mut origin = [0.0; BLOCK];
        for c in 0..BLOCK {
            origin[c] = first[c] + sum[c] / count;
        }
        let mut new = Self {
            origin,
            sum: [0.0; BLOCK],
            squares: [0.0; BLOCK],
            peak: [0.0; BLOCK],
        };
        for t in from..to {
            let x = row(samples, t);
            for c in 0..BLOCK {
                let v = x[c] - origin[c];
                new.sum[c] += v;
                new.squares[c] += v * v;
            }
        }
        new.peak = new.squares;
        new
    }

    #[inline(always)]
    fn enter(&mut self, x: &Row) {
        for c in 0..BLOCK {
            let v = x[c] - self.origin[c];
            self.sum[c] += v;
            self.squares[c] += v * v;
            self.peak[c] = if self.peak[c] > self.squares[c] {
                self.peak[c]
            } else {
                self.squares[c]
            };
        }
    }

    #[inline(always)]
    fn leave(&mut self, x: &Row) {
        for c in 0..BLOCK {
            let v = x[c] - self.origin[c];
            self.sum[c] -= v;
            self.squares[c] -= v * v;
        }
    }

    /// One node summed anew.
    #[cold]
    #[inline(never)]
    fn refresh(&mut self, samples: &[f64], from: usize, to: usize, c: usize) {
        let first = row(samples, from)[c];
        let sum: f64 = (from..to).map(|t| row(samples, t)[c] - first).sum();
        self.origin[c] = first + sum / (to - from) as f64;
        let centred = (from..to).map(|t| row(samples, t)[c] - self.origin[c]);
        (self.sum[c], self.squares[c]) = centred.fold((0.0, 0.0), |(s, q), v| (s + v, q + v * v));
        self.peak[c] = self.squares[c];
    }
}

/// Mean and sum of squares of each window and node, and which are undefined.
#[inline(always)]
fn moments(
    chunk: &Chunk,
    scratch: &mut Scratch,
    first: usize,
    used: usize,
    undefined: &mut Vec<(u32, u32, Undefined)>,
) {
    let (w, s, windows) = (chunk.window.length, chunk.window.step, chunk.windows);
    let Scratch {
        samples,
        mean,
        squares,
        bad,
    } = scratch;
    mean.clear();
    mean.resize(windows * BLOCK, 0.0);
    squares.clear();
    squares.resize(windows * BLOCK, 0.0);
    // Equal samples that end here, and the last that was not finite (counted from 1).
    let mut run = [0.0; BLOCK];
    let mut last_bad = [0_usize; BLOCK];
    let (mut seen, mut next_bad) = (0, 0);
    let mut running: Option<Running> = None;
    for q in 0..windows {
        let (from, to) = (q * s, q * s + w);
        for t in seen.max(from)..to {
            let x = row(samples, t);
            if t == 0 || t == from && seen < from {
                run = [1.0; BLOCK];
                continue;
            }
            let before = row(samples, t - 1);
            for c in 0..BLOCK {
                run[c] = if x[c] == before[c] { run[c] + 1.0 } else { 1.0 };
            }
        }
        seen = to;
        while let Some(&(t, c)) = bad.get(next_bad).filter(|(t, _)| (*t as usize) < to) {
            last_bad[c as usize] = t as usize + 1;
            next_bad += 1;
        }
        let slid = running.take().filter(|_| 2 * s < w);
        let mut now = match slid {
            Some(mut now) => {
                for t in to - s..to {
                    now.enter(row(samples, t));
                }
                for t in from - s..from {
                    now.leave(row(samples, t));
                }
                now
            }
            None => Running::anew(samples, from, to),
        };
        let (means, sums) = (
            &mut mean[q * BLOCK..][..BLOCK],
            &mut squares[q * BLOCK..][..BLOCK],
        );
        let mut stale = false;
        for c in 0..BLOCK {
            let shift = now.sum[c] / w as f64;
            means[c] = now.origin[c] + shift;
            sums[c] = now.squares[c] - now.sum[c] * shift;
            // Written so that NaN counts as stale.
            stale |= !(sums[c] >= REFRESH * now.peak[c] && run[c] < w as f64);
        }
        if stale || next_bad > 0 {
            for c in 0..used {
                let constant = run[c] >= w as f64;
                if !(sums[c] >= REFRESH * now.peak[c]) && !constant {
                    now.refresh(samples, from, to, c);
                    let shift = now.sum[c] / w as f64;
                    means[c] = now.origin[c] + shift;
                    sums[c] = now.squares[c] - now.sum[c] * shift;
                }
                let why = if last_bad[c] > from {
                    Some(Undefined::NonFinite)
                } else if constant {
                    Some(Undefined::Constant)
                } else if !sums[c].is_finite() {
                    Some(Undefined::NonFinite)
                } else if sums[c] <= 0.0 {
                    Some(Undefined::Constant)
                } else {
                    None
                };
                if let Some(why) = why {
                    undefined.push((q as u32, (first + c) as u32, why));
                    // The size stays, for the rule of the anchors.
                    sums[c] = match why {
                        Undefined::Constant => -0.0,
                        Undefined::NonFinite if sums[c].is_nan() => f64::NEG_INFINITY,
                        Undefined::NonFinite => -sums[c].abs().max(f64::MIN_POSITIVE),
                    };
                }
            }
        }
        running = Some(now);
    }
}

/// Writes the scales of window q.
#[inline(always)]
pub(crate) fn put_scales(
    arch: Arch,
    windows: usize,
    q: usize,
    inverse: &[f32; BLOCK],
    out: &mut BlockOut<'_>,
) {
    let (rows, columns) = (arch.rows(), arch.columns());
    for (b, values) in inverse.chunks_exact(rows).enumerate() {
        out.row_scale[(b * windows + q) * rows..][..rows].copy_from_slice(values);
        out.row_max[b * windows + q] = values.iter().fold(0.0, |a: f32, v| a.max(*v));
    }
    for (b, values) in inverse.chunks_exact(columns).enumerate() {
        out.column_scale[(b * windows + q) * columns..][..columns].copy_from_slice(values);
    }
}

/// The scale of each node (1/√ of a middling sum of squares: one largest row scale then bounds a whole
/// block well), the scales of its windows, the flags.
#[inline(always)]
fn scales(
    chunk: &Chunk,
    scratch: &Scratch,
    first: usize,
    used: usize,
    making: Making,
    out: &mut BlockOut<'_>,
) -> Vec<(u32, u32)> {
    let Making { arch, rules, .. } = making;
    let windows = chunk.windows;
    let (rows, columns) = (arch.rows(), arch.columns());
    let stride = (windows / 15).max(1);
    let mut some = Vec::with_capacity(windows / stride + 1);
    for (c, scale) in out.scale.iter_mut().enumerate().take(used) {
        some.clear();
        some.extend(
            (0..windows)
                .step_by(stride)
                .map(|q| scratch.squares[q * BLOCK + c])
                .filter(|v| *v > 0.0),
        );
        if some.is_empty() {
            // Undefined wherever it was looked at: any defined window will do.
            some.extend(
                (0..windows)
                    .map(|q| scratch.squares[q * BLOCK + c])
                    .find(|v| *v > 0.0),
            );
        }
        some.sort_unstable_by(f64::total_cmp);
        *scale = some.get(some.len() / 2).map_or(1.0, |v| 1.0 / v.sqrt());
    }
    let mut extreme = Vec::new();
    let mut squared = [0.0; BLOCK];
    for c in 0..used {
        squared[c] = out.scale[c] * out.scale[c];
    }
    // For each height and width of blocks its own history of peaks.
    let mut peaks = [[0.0_f64; BLOCK]; 2];
    let mut spoilt = [[false; BLOCK]; 2];
    for q in 0..windows {
        let sums = row(&scratch.squares, q);
        let mut inverse = [0.0_f32; BLOCK];
        let mut odd = false;
        for c in 0..BLOCK {
            let size = sums[c] * squared[c];
            let within = size <= EXTREME && size >= 1.0 / EXTREME;
            inverse[c] = if within {
                (1.0 / size.sqrt()) as f32
            } else {
                0.0
            };
            odd |= !within;
        }
        let mut too_large = [false; BLOCK];
        if odd {
            for c in 0..used {
                let size = sums[c] * squared[c];
                too_large[c] = !(size.abs() <= EXTREME);
                if sums[c] > 0.0 && inverse[c] == 0.0 {
                    extreme.push((q as u32, (first + c) as u32));
                }
            }
        }
        put_scales(arch, windows, q, &inverse, out);
        if chunk.windows == 1 || direct(chunk) || !rules.anchors {
            continue;
        }
        let sides = [
            (rows, &mut *out.row_anchor),
            (columns, &mut *out.column_anchor),
        ];
        for (side, (width, flags)) in sides.into_iter().enumerate() {
            let (peaks, spoilt) = (&mut peaks[side], &mut spoilt[side]);
            for (b, from) in (0..BLOCK).step_by(width).enumerate() {
                let mut fell = false;
                for c in from..from + width {
                    let size = sums[c].abs();
                    peaks[c] = peaks[c].max(size);
                    fell |= inverse[c] > 0.0 && (peaks[c] > FALL * size || spoilt[c]);
                    spoilt[c] |= too_large[c];
                }
                if fell {
                    // The first window is summed from zero anyway.
                    flags[b * windows + q] = u8::from(q > 0);
                    for c in from..from + width {
                        peaks[c] = sums[c].abs();
                        spoilt[c] = too_large[c];
                    }
                }
            }
        }
    }
    extreme.sort_unstable_by_key(|&(q, node)| (node, q));
    extreme
}

/// Where the steps of a block go.
pub(crate) struct Steps<'a> {
    rows: &'a mut [f32],
    columns: &'a mut [f32],
    height: usize,
    width: usize,
    steps: usize,
    negative: bool,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(making: Making, out: &'a mut BlockOut<'_>) -> Self {
        Self {
            steps: out.rows.len() / BLOCK,
            rows: out.rows,
            columns: out.columns,
            height: making.arch.rows(),
            width: making.arch.columns(),
            negative: making.negative,
        }
    }

    /// One step: `values` times their scales; the row panel gets the sign of the product.
    #[inline(always)]
    pub(crate) fn put(&mut self, step: usize, values: &Row, scale: &Row, negative_rows: bool) {
        let mut rounded = [0.0_f32; BLOCK];
        for c in 0..BLOCK {
            rounded[c] = scaled(values[c], scale[c]);
        }
        for (b, values) in rounded.chunks_exact(self.width).enumerate() {
            self.columns[(b * self.steps + step) * self.width..][..self.width]
                .copy_from_slice(values);
        }
        if negative_rows != self.negative {
            for value in &mut rounded {
                *value = -*value;
            }
        }
        for (b, values) in rounded.chunks_exact(self.height).enumerate() {
            self.rows[(b * self.steps + step) * self.height..][..self.height]
                .copy_from_slice(values);
        }
    }
}

/// The panels of a block from its samples and means.
#[inline(always)]
fn write(chunk: &Chunk, scratch: &Scratch, making: Making, out: &mut BlockOut<'_>) {
    let (w, s, windows) = (chunk.window.length, chunk.window.step, chunk.windows);
    let scale = *row(out.scale, 0);
    let scale = &scale;
    let mut out = Steps::new(making, out);
    let centred = |t: usize, mean: &Row| -> Row {
        let x = row(&scratch.samples, t);
        let mut u = [0.0; BLOCK];
        for c in 0..BLOCK {
            u[c] = x[c] - mean[c];
        }
        u
    };
    let summed = if direct(chunk) { windows } else { 1 };
    for q in 0..summed {
        let mean = row(&scratch.mean, q);
        for e in 0..w {
            out.put(q * w + e, &centred(q * s + e, mean), scale, false);
        }
    }
    if direct(chunk) {
        return;
    }
    let g = s as f64 / w as f64;
    let root = (1.0 + g * g).sqrt();
    let (plus, minus) = (root - g, root + g);
    let (alpha, beta) = {
        let (a, b) = (g, plus - 1.0 + g);
        let length = a.hypot(b);
        (a / length, b / length)
    };
    let (plus, minus) = (plus.sqrt(), minus.sqrt());
    let h = 1.0 / (s as f64).sqrt();
    // Householder: I − f·v vᵀ with v = (1 … 1)·h − e₀; vᵀu = h·Σu − u₀, |v|² = 2 − 2h.
    let f = if s > 1 {
        2.0 / (2.0 - 2.0 * h) * h
    } else {
        0.0
    };
    for q in 1..windows {
        let mean = row(&scratch.mean, q - 1);
        let old = (q - 1) * s;
        let new = old + w;
        let base = w + (q - 1) * 2 * s;
        let (first_new, first_old) = (centred(new, mean), centred(old, mean));
        let (mut a, mut d) = (first_new, first_old);
        for e in 1..s {
            let (n, o) = (
                row(&scratch.samples, new + e),
                row(&scratch.samples, old + e),
            );
            for c in 0..BLOCK {
                a[c] += n[c] - mean[c];
                d[c] += o[c] - mean[c];
            }
        }
        for e in 1..s {
            let (mut n, mut o) = (centred(new + e, mean), centred(old + e, mean));
            for c in 0..BLOCK {
                n[c] -= f * (a[c] * h - first_new[c]);
                o[c] -= f * (d[c] * h - first_old[c]);
            }
            out.put(base + e, &n, scale, false);
            out.put(base + s + e, &o, scale, true);
        }
        let (mut p, mut o) = ([0.0; BLOCK], [0.0; BLOCK]);
        for c in 0..BLOCK {
            let (a, d) = (a[c] * h, d[c] * h);
            p[c] = plus * (alpha * a + beta * d);
            o[c] = minus * (alpha * d - beta * a);
        }
        out.put(base, &p, scale, false);
        out.put(base + s, &o, scale, true);
    }
}
