//! A block's samples, and mean and sum of squares of each of its nodes in each window, in f64.

use crate::block::BLOCK;
use crate::oracle::UndefinedReason;
use crate::signal::Signal;
use crate::window::Chunk;

/// A sum of squares this much smaller than what has gone through its running sum is summed anew.
const REFRESH: f64 = 1e-6;

/// A worker's buffers: samples (instant, node), and mean and sum of squares (window, node).
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) samples: Vec<f64>,
    pub(crate) mean: Vec<f64>,
    pub(crate) squares: Vec<f64>,
    /// Roots of the weights of a window's samples; empty where all are 1.
    pub(crate) roots: Vec<f64>,
    /// Rows of one node's samples for which it is not finite: (instant, node).
    bad: Vec<(u32, u32)>,
}

pub(crate) type Row = [f64; BLOCK];

#[inline(always)]
pub(crate) fn row(of: &[f64], at: usize) -> &Row {
    let (rows, _) = of.as_chunks::<BLOCK>();
    &rows[at]
}

/// Reads the block's samples; a non-finite one is replaced by the node's first finite one and noted.
#[inline(always)]
pub(crate) fn read(
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
struct RunningSums {
    origin: Row,
    sum: Row,
    squares: Row,
    /// Largest `squares` since they were summed anew.
    peak: Row,
}

impl RunningSums {
    #[inline(always)]
    fn over(samples: &[f64], from: usize, to: usize) -> Self {
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

/// Counts equal samples that end at `x`.
#[inline(always)]
fn lengthen_runs(run: &mut Row, before: &Row, x: &Row) {
    for c in 0..BLOCK {
        run[c] = if x[c] == before[c] { run[c] + 1.0 } else { 1.0 };
    }
}

/// Marks a sum of squares as undefined; its size stays, for the rule of the anchors.
fn keep_size(sum: f64, why: UndefinedReason) -> f64 {
    match why {
        UndefinedReason::Constant => -0.0,
        UndefinedReason::NonFinite if sum.is_nan() => f64::NEG_INFINITY,
        UndefinedReason::NonFinite => -sum.abs().max(f64::MIN_POSITIVE),
    }
}

/// Mean and sum of squares of each window and node, and which are undefined.
#[inline(always)]
pub(crate) fn moments(
    chunk: &Chunk,
    scratch: &mut Scratch,
    first: usize,
    used: usize,
    undefined: &mut Vec<(u32, u32, UndefinedReason)>,
) {
    let (w, s, windows) = (chunk.window.length, chunk.window.step, chunk.windows);
    let (samples, bad) = (&scratch.samples, &scratch.bad);
    let (mean, squares) = (&mut scratch.mean, &mut scratch.squares);
    mean.clear();
    mean.resize(windows * BLOCK, 0.0);
    squares.clear();
    squares.resize(windows * BLOCK, 0.0);
    // Equal samples that end here, and the last that was not finite (counted from 1).
    let mut run = [0.0; BLOCK];
    let mut last_bad = [0_usize; BLOCK];
    let (mut seen, mut next_bad) = (0, 0);
    let mut running: Option<RunningSums> = None;
    for q in 0..windows {
        let (from, to) = (q * s, q * s + w);
        for t in seen.max(from)..to {
            if t == 0 || t == from && seen < from {
                run = [1.0; BLOCK];
            } else {
                lengthen_runs(&mut run, row(samples, t - 1), row(samples, t));
            }
        }
        seen = to;
        while let Some(&(t, c)) = bad.get(next_bad).filter(|(t, _)| (*t as usize) < to) {
            last_bad[c as usize] = t as usize + 1;
            next_bad += 1;
        }
        let mut now = match running.take() {
            Some(mut now) if 2 * s < w => {
                (to - s..to).for_each(|t| now.enter(row(samples, t)));
                (from - s..from).for_each(|t| now.leave(row(samples, t)));
                now
            }
            _ => RunningSums::over(samples, from, to),
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
                let why = match sums[c] {
                    _ if last_bad[c] > from => Some(UndefinedReason::NonFinite),
                    _ if constant => Some(UndefinedReason::Constant),
                    sum if !sum.is_finite() => Some(UndefinedReason::NonFinite),
                    sum if sum <= 0.0 => Some(UndefinedReason::Constant),
                    _ => None,
                };
                if let Some(why) = why {
                    undefined.push((q as u32, (first + c) as u32, why));
                    sums[c] = keep_size(sums[c], why);
                }
            }
        }
        running = Some(now);
    }
}
