//! A block's scales and the steps of its panels, rounded to f32 at the very end.

use crate::block::{BLOCK, BlockOut, PanelOptions, direct, falls};
use crate::moments::{Row, Scratch, row};
use crate::tile::Arch;
use crate::window::Chunk;

/// Scaled sums of squares beyond this (or below its inverse) do not go through f32 sums: such windows
/// of a node are correlated in f64, pair by pair.
const EXTREME: f64 = 1e24;

/// No scaled number in a panel is larger: sums of products stay finite whatever the samples are.
const LARGEST: f64 = 1e14;

#[inline(always)]
pub(crate) fn round_scaled(centred: f64, scale: f64) -> f32 {
    // Not `clamp`, which would let NaN through (means overflow where samples are near f64's largest).
    (centred * scale).max(-LARGEST).min(LARGEST) as f32
}

/// Writes the scales of window q.
#[inline(always)]
pub(crate) fn put_scales(arch: Arch, q: usize, inverse: &[f32; BLOCK], out: &mut BlockOut<'_>) {
    let (rows, columns) = (arch.rows(), arch.columns());
    let stride = out.scales.len() / BLOCK;
    for (c, scale) in inverse.iter().enumerate() {
        out.scales[c * stride + q] = *scale;
    }
    let (g, groups) = (q / arch.group(), out.column_least.len() / BLOCK);
    for (b, values) in inverse.chunks_exact(rows).enumerate() {
        let least = &mut out.row_least[b * groups + g];
        // 1/0 is +∞: such nodes are never wanted.
        *least = least.min(1.0 / values.iter().fold(0.0, |a: f32, v| a.max(*v)));
    }
    for (b, values) in inverse.chunks_exact(columns).enumerate() {
        let least = &mut out.column_least[(b * groups + g) * columns..][..columns];
        for (least, scale) in least.iter_mut().zip(values) {
            *least = least.min(1.0 / scale);
        }
    }
}

/// The scale of each node: 1/√ of a middling sum of squares, so that one largest row scale bounds a whole block well.
fn node_scales(scratch: &Scratch, windows: usize, used: usize, scales: &mut [f64]) {
    let stride = (windows / 15).max(1);
    let mut some = Vec::with_capacity(windows / stride + 1);
    for (c, scale) in scales.iter_mut().enumerate().take(used) {
        some.clear();
        some.extend(
            (0..windows)
                .step_by(stride)
                .map(|q| scratch.squares[q * BLOCK + c])
                .filter(|v| *v > 0.0),
        );
        if some.is_empty() {
            // UndefinedReason wherever it was looked at: any defined window will do.
            some.extend(
                (0..windows)
                    .map(|q| scratch.squares[q * BLOCK + c])
                    .find(|v| *v > 0.0),
            );
        }
        some.sort_unstable_by(f64::total_cmp);
        *scale = some.get(some.len() / 2).map_or(1.0, |v| 1.0 / v.sqrt());
    }
}

/// The largest sums of squares of each node since its block was last flagged.
struct PeakHistory {
    peaks: Row,
    /// Nodes with a sum that is too large for f32.
    spoilt: [bool; BLOCK],
    /// Window of the last flag of each block.
    begun: [usize; BLOCK],
}

impl Default for PeakHistory {
    fn default() -> Self {
        Self {
            peaks: [0.0; BLOCK],
            spoilt: [false; BLOCK],
            begun: [0; BLOCK],
        }
    }
}

impl PeakHistory {
    /// Flags the blocks of `width` nodes of which one has fallen too far in window q.
    #[inline(always)]
    fn flag(
        &mut self,
        q: usize,
        width: usize,
        (sums, inverse, too_large): (&Row, &[f32; BLOCK], &[bool; BLOCK]),
        falls: &[f64],
        flags: &mut [u8],
    ) {
        for (b, from) in (0..BLOCK).step_by(width).enumerate() {
            let mut fell = false;
            let fall = falls[q - self.begun[b]];
            for c in from..from + width {
                let size = sums[c].abs();
                self.peaks[c] = self.peaks[c].max(size);
                fell |= inverse[c] > 0.0 && (self.peaks[c] > fall * size || self.spoilt[c]);
                self.spoilt[c] |= too_large[c];
            }
            if fell {
                // The first window is summed from zero anyway.
                flags[b * falls.len() + q] = u8::from(q > 0);
                self.begun[b] = q;
                for c in from..from + width {
                    self.peaks[c] = sums[c].abs();
                    self.spoilt[c] = too_large[c];
                }
            }
        }
    }
}

/// Writes the scale of each node, the scales of its windows, and the flags; returns the (window, node)s that f32 cannot
/// hold.
#[inline(always)]
pub(crate) fn scales(
    chunk: &Chunk,
    scratch: &Scratch,
    first: usize,
    used: usize,
    making: PanelOptions,
    out: &mut BlockOut<'_>,
) -> Vec<(u32, u32)> {
    let PanelOptions { arch, rules, .. } = making;
    let windows = chunk.windows;
    let (rows, columns) = (arch.rows(), arch.columns());
    node_scales(scratch, windows, used, out.scale);
    let mut extreme = Vec::new();
    let mut squared = [0.0; BLOCK];
    for c in 0..used {
        squared[c] = out.scale[c] * out.scale[c];
    }
    // One for each height and width of blocks.
    let mut histories = [PeakHistory::default(), PeakHistory::default()];
    let falls = falls(chunk);
    for q in 0..windows {
        let sums = row(&scratch.squares, q);
        let mut inverse = [0.0_f32; BLOCK];
        let mut odd = false;
        for c in 0..BLOCK {
            let size = sums[c] * squared[c];
            let within = (1.0 / EXTREME..=EXTREME).contains(&size);
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
        put_scales(arch, q, &inverse, out);
        if chunk.windows == 1 || direct(chunk) || making.of.starts_from_zero() || !rules.anchors {
            continue;
        }
        let sides = [
            (rows, &mut *out.row_anchor),
            (columns, &mut *out.column_anchor),
        ];
        for (side, (width, flags)) in sides.into_iter().enumerate() {
            histories[side].flag(q, width, (sums, &inverse, &too_large), &falls, flags);
        }
    }
    extreme.sort_unstable_by_key(|&(q, node)| (node, q));
    extreme
}

/// Writer of the steps of a block.
pub(crate) struct Steps<'a> {
    rows: &'a mut [f32],
    columns: &'a mut [f32],
    height: usize,
    width: usize,
    steps: usize,
    negative: bool,
    row_norm: &'a mut [f32],
    column_norm: &'a mut [f32],
    /// Windows of a group, and Σ of the squares of this group's steps.
    group: usize,
    squares: [f32; BLOCK],
}

impl<'a> Steps<'a> {
    pub(crate) fn new(making: PanelOptions, out: &'a mut BlockOut<'_>) -> Self {
        Self {
            steps: out.rows.len() / BLOCK,
            rows: out.rows,
            columns: out.columns,
            height: making.arch.rows(),
            width: making.arch.columns(),
            negative: making.negative,
            row_norm: out.row_norm,
            column_norm: out.column_norm,
            group: making.arch.group(),
            squares: [0.0; BLOCK],
        }
    }

    /// The norms of the group that window q is in, from the steps put since the group before.
    #[inline(always)]
    fn norms(&mut self, q: usize) {
        let (g, groups) = (q / self.group, self.column_norm.len() / BLOCK);
        // Rounded up, and by more than what f32 sums of these steps may be off.
        let norms = self.squares.map(|v| v.sqrt() * (1.0 + 1e-4));
        for (b, values) in norms.chunks_exact(self.height).enumerate() {
            self.row_norm[b * groups + g] = values.iter().fold(0.0, |a: f32, v| a.max(*v));
        }
        for (b, values) in norms.chunks_exact(self.width).enumerate() {
            self.column_norm[(b * groups + g) * self.width..][..self.width].copy_from_slice(values);
        }
        self.squares = [0.0; BLOCK];
    }

    /// One step: `values` times their scales; the row panel gets the sign of the product.
    #[inline(always)]
    pub(crate) fn put(&mut self, step: usize, values: &Row, scale: &Row, negative_rows: bool) {
        let mut rounded = [0.0_f32; BLOCK];
        for c in 0..BLOCK {
            rounded[c] = round_scaled(values[c], scale[c]);
            self.squares[c] += rounded[c] * rounded[c];
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
pub(crate) fn write(
    chunk: &Chunk,
    scratch: &Scratch,
    making: PanelOptions,
    out: &mut BlockOut<'_>,
) {
    let (w, s, windows) = (chunk.window.length, chunk.window.step, chunk.windows);
    let scale = *row(out.scale, 0);
    let scale = &scale;
    let mut out = Steps::new(making, out);
    let anew = direct(chunk) || making.of.starts_from_zero();
    let summed = if anew { windows } else { 1 };
    for q in 0..summed {
        let mean = row(&scratch.mean, q);
        for e in 0..w {
            let mut u = centre(scratch, q * s + e, mean);
            if let Some(root) = scratch.roots.get(e) {
                u.iter_mut().for_each(|u| *u *= root);
            }
            out.put(q * w + e, &u, scale, false);
        }
    }
    if !anew {
        out.squares = [0.0; BLOCK];
        slide(chunk, scratch, scale, &mut out);
    }
}

/// The samples of instant `t`, less `mean`.
#[inline(always)]
fn centre(scratch: &Scratch, t: usize, mean: &Row) -> Row {
    let x = row(&scratch.samples, t);
    std::array::from_fn(|c| x[c] - mean[c])
}

/// The steps from each window to the next; see [`crate::panel`] for the formulas.
#[inline(always)]
fn slide(chunk: &Chunk, scratch: &Scratch, scale: &Row, out: &mut Steps<'_>) {
    let (w, s, windows) = (chunk.window.length, chunk.window.step, chunk.windows);
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
        let (first_new, first_old) = (centre(scratch, new, mean), centre(scratch, old, mean));
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
            let (mut n, mut o) = (
                centre(scratch, new + e, mean),
                centre(scratch, old + e, mean),
            );
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
        if (q + 1).is_multiple_of(out.group) || q + 1 == windows {
            out.norms(q);
        }
    }
}
