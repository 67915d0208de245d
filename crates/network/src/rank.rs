//! Panels of ranks: ranks change with the window, so that every window is summed from zero.

use crate::block::{BLOCK, BlockOut, PanelOptions};
use crate::step::{Steps, put_scales};
use crate::window::Chunk;

/// A node's samples of one window in order, kept up from window to window.
#[derive(Default)]
struct SortedWindow {
    /// (sample, instant)
    list: Vec<(f64, u32)>,
}

impl SortedWindow {
    fn find(&self, item: (f64, u32)) -> usize {
        self.list
            .partition_point(|at| at.0.total_cmp(&item.0).then(at.1.cmp(&item.1)).is_lt())
    }

    fn leave(&mut self, item: (f64, u32)) {
        let at = self.find(item);
        self.list.remove(at);
    }

    fn enter(&mut self, item: (f64, u32)) {
        let at = self.find(item);
        self.list.insert(at, item);
    }
}

/// Writes the ranks of a block: twice the deviation from the mean rank, a whole number, to a scale
/// that is common to all nodes.
pub(crate) fn prepare(
    chunk: &Chunk,
    making: PanelOptions,
    used: usize,
    samples: &[f64],
    squares: &[f64],
    out: &mut BlockOut<'_>,
) {
    let (w, s, windows) = (chunk.window.length, chunk.window.step, chunk.windows);
    let count = w as f64;
    // Without ties Σ(2·rank − W − 1)² = (W³ − W)/3.
    let scale = 1.0 / ((count * count * count - count) / 3.0).sqrt();
    out.scale.fill(scale);
    let sample = |t: usize, c: usize| -> (f64, u32) {
        // −0 and 0 are equal samples.
        (samples[t * BLOCK + c] + 0.0, t as u32)
    };
    let mut ordered: Vec<SortedWindow> = (0..used).map(|_| SortedWindow::default()).collect();
    // (instant, node) of one window.
    let mut ranks = vec![0.0; w * BLOCK];
    for q in 0..windows {
        let from = q * s;
        let mut inverse = [0.0_f32; BLOCK];
        for (c, ordered) in ordered.iter_mut().enumerate() {
            if q > 0 && 4 * s < w {
                (from - s..from).for_each(|t| ordered.leave(sample(t, c)));
                (from + w - s..from + w).for_each(|t| ordered.enter(sample(t, c)));
            } else {
                ordered.list.clear();
                ordered.list.extend((from..from + w).map(|t| sample(t, c)));
                ordered
                    .list
                    .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            }
            let mut below = 0;
            let mut sum = 0.0;
            for equal in ordered.list.chunk_by(|a, b| a.0 == b.0) {
                let twice = (2 * below + equal.len()) as f64 - count;
                for (_, t) in equal {
                    ranks[(*t as usize - from) * BLOCK + c] = twice;
                }
                sum += equal.len() as f64 * twice * twice;
                below += equal.len();
            }
            if squares[q * BLOCK + c] > 0.0 && sum > 0.0 {
                inverse[c] = (1.0 / (sum.sqrt() * scale)) as f32;
            }
        }
        put_scales(making.arch, q, &inverse, out);
        let scales = [scale; BLOCK];
        let mut steps = Steps::new(making, out);
        let (rows, _) = ranks.as_chunks::<BLOCK>();
        for (e, row) in rows.iter().enumerate() {
            steps.put(q * w + e, row, &scales, false);
        }
    }
}
