//! The order of a node's samples: whole numbers that compare as the samples do.

use rayon::prelude::*;

use super::tile::LANES;
use crate::signal::Signal;
use crate::window::Chunk;

/// The samples of [`LANES`] nodes in a chunk as numbers that compare as they do: equal samples have equal numbers.
pub(super) struct Order {
    /// (instant, lane)
    pub(super) codes: Vec<[i32; LANES]>,
    /// (window, lane): one of the samples is not finite.
    pub(super) not_finite: Vec<[bool; LANES]>,
}

impl Order {
    /// The order of the nodes `first..first + used`.
    pub(super) fn new(signal: &Signal<'_>, chunk: &Chunk, first: usize, used: usize) -> Self {
        let samples = chunk.samples();
        let mut codes = vec![[0; LANES]; samples];
        let mut not_finite = vec![[false; LANES]; chunk.windows];
        let mut column = vec![0.0; samples];
        let mut sorted: Vec<(f64, u32)> = Vec::with_capacity(samples);
        for lane in 0..used {
            signal.column(first + lane, chunk.start, &mut column);
            sorted.clear();
            // −0 and 0 are equal samples. What is not finite stands for 0: its windows are left out.
            sorted.extend((0..).zip(&column).map(|(t, value)| {
                let value = if value.is_finite() { value + 0.0 } else { 0.0 };
                (value, t)
            }));
            sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let mut code = 0;
            for (at, (value, t)) in sorted.iter().enumerate() {
                if at > 0 && sorted[at - 1].0 != *value {
                    code += 1;
                }
                codes[*t as usize][lane] = code;
            }
            mark(&column, chunk, |q| not_finite[q][lane] = true);
        }
        Self { codes, not_finite }
    }
}

/// Calls `f` with every window that has a sample that is not finite.
fn mark(column: &[f64], chunk: &Chunk, mut f: impl FnMut(usize)) {
    let (w, s) = (chunk.window.length, chunk.window.step);
    let mut next = 0;
    for (t, _) in (column.iter().enumerate()).filter(|(_, value)| !value.is_finite()) {
        // Windows q with q·s ≤ t < q·s + w.
        let from = (t + 1).saturating_sub(w).div_ceil(s).max(next);
        for q in from..(t / s + 1).min(chunk.windows) {
            f(q);
            next = q + 1;
        }
    }
}

/// Calls `prepare` for each block of [`LANES`] nodes and returns its results in order.
pub(super) fn each_block<T: Send>(
    signal: &Signal<'_>,
    chunk: &Chunk,
    blocks: usize,
    prepare: impl Fn(&Order, usize) -> T + Sync,
) -> Vec<T> {
    let nodes = signal.nodes();
    let vectors = pulp::Arch::new();
    (0..blocks)
        .into_par_iter()
        .map(|block| {
            let first = (block * LANES).min(nodes);
            let used = LANES.min(nodes - first);
            let order = Order::new(signal, chunk, first, used);
            vectors.dispatch(|| prepare(&order, used))
        })
        .collect()
}
