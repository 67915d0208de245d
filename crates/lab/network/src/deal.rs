//! Shares of several processes in a network: runs of windows, and blocks of rows within a run that processes share. A
//! tile's sums do not depend on who walks it, so edges are those of one process to the last bit.

use crate::plan::Plan;
use crate::spec::Threshold;
use crate::window::{Chunk, Rows};

/// Cuts lie between multiples of this many rows, which is a multiple of the rows of a tile on any registers: processes on
/// unlike processors leave no pair out.
const APART: usize = 12;

/// With this many runs per process, whole runs are even enough. Every process that takes part in a run makes all of its
/// panels.
const WHOLE: usize = 16;

/// Runs of windows that are shared out where they cannot be cut into rows, if there are as many windows: enough to be
/// about even, few enough for their beginnings, each of which is summed from zero, to cost little.
const RUNS: usize = 32;

impl Plan {
    /// True where the pairs of a window can be shared out: what is kept of a pair depends on no other pair.
    pub(crate) fn has_rows(&self) -> bool {
        matches!(self.spec.threshold, Threshold::Absolute(_))
            && !self.spec.measure.by_window()
            && self.placement().is_cpu()
    }

    /// The chunks of each of `size` processes, in the order of windows, then rows: about as much work each. With `rows`
    /// processes also share windows, and runs are those of [`Plan::run`].
    pub(crate) fn deal(&self, size: usize, rows: bool) -> Vec<Vec<Chunk>> {
        if !rows {
            let limit = (self.chunk_windows).min(self.grid.len().div_ceil(RUNS).max(1));
            return whole(&self.grid.chunks(limit), size);
        }
        let runs = self.chunks();
        if runs.len() >= WHOLE * size {
            return whole(&runs, size);
        }
        let costs: Vec<f64> = runs.iter().map(|run| self.steps_of(run)).collect();
        let all: f64 = costs.iter().sum();
        let mut cuts = vec![(0, 0)];
        for rank in 1..size {
            // Work before its first row.
            let mut left = all * rank as f64 / size as f64;
            let mut run = 0;
            while run + 1 < runs.len() && left >= costs[run] {
                left -= costs[run];
                run += 1;
            }
            let row = row_after((left / costs[run]).clamp(0.0, 1.0), self.nodes);
            cuts.push(if row < self.nodes {
                (run, row)
            } else {
                (run + 1, 0)
            });
        }
        cuts.push((runs.len(), 0));
        cuts.windows(2)
            .map(|ends| pieces(&runs, ends[0], ends[1]))
            .collect()
    }
}

fn whole(runs: &[Chunk], size: usize) -> Vec<Vec<Chunk>> {
    let share = |rank| betz_base::team::share(runs.len(), rank, size);
    (0..size).map(|rank| runs[share(rank)].to_vec()).collect()
}

/// The row, where rows may be cut, before which about `share` of all pairs i < j of `nodes` lie.
fn row_after(share: f64, nodes: usize) -> usize {
    // x rows have x·(N − ½) − x²/2 pairs.
    let half = nodes as f64 - 0.5;
    let pairs = share * nodes as f64 * (nodes as f64 - 1.0);
    let row = half - (half * half - pairs).max(0.0).sqrt();
    ((row / APART as f64).round() as usize * APART).min(nodes)
}

/// From (run, row) to (run, row).
fn pieces(runs: &[Chunk], from: (usize, usize), to: (usize, usize)) -> Vec<Chunk> {
    (from.0..runs.len().min(to.0 + 1))
        .map(|run| Chunk {
            rows: Rows {
                from: if run == from.0 { from.1 } else { 0 },
                to: if run == to.0 { to.1 } else { Rows::ALL.to },
            },
            ..runs[run]
        })
        .filter(|piece| piece.rows.from < piece.rows.to)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkSpec, Signal, Window};

    #[test]
    fn every_pair_of_every_window_is_dealt_once_and_evenly() {
        for (nodes, windows) in [(1, 1), (2, 3), (13, 1), (1_000, 1), (1_000, 7), (300, 700)] {
            let window = Window::new(50, 50);
            let samples = vec![0_u8; nodes * 50 * windows];
            let signal = Signal::new(&samples, nodes).unwrap();
            let spec = NetworkSpec::pearson(window).threshold(Threshold::Absolute(0.5));
            let plan = Plan::new(&spec, &signal).unwrap();
            for size in [1, 2, 3, 4, 7, 64, 1024] {
                let dealt = plan.deal(size, true);
                assert_eq!(dealt.len(), size);
                let mut next = (0, 0);
                let mut work = Vec::new();
                for own in &dealt {
                    let mut pairs = 0.0;
                    for piece in own {
                        assert_eq!((piece.first, piece.rows.from), next);
                        assert!(piece.rows.from.is_multiple_of(APART));
                        let to = piece.rows.to.min(nodes);
                        pairs += (piece.rows.from..to).map(|i| nodes - 1 - i).sum::<usize>() as f64
                            * piece.windows as f64;
                        next = match piece.rows.to < nodes {
                            true => (piece.first, to),
                            false => (piece.first + piece.windows, 0),
                        };
                    }
                    work.push(pairs);
                }
                assert_eq!(next, (windows, 0), "{nodes} nodes, {size}");
                let (all, most) = (
                    work.iter().sum::<f64>(),
                    work.iter().copied().fold(0.0, f64::max),
                );
                if nodes >= 300 && size <= 7 {
                    assert!(
                        most < 1.2 * all / size as f64,
                        "{nodes} nodes, {windows} windows, {size}: {work:?}"
                    );
                }
            }
        }
    }
}
