//! What a network costs by so many processes, before it is computed.

use crate::panel;
use crate::plan::Plan;
use crate::spec::Measure;
use crate::window::Chunk;

/// Seconds of one thread for a step of a node's panels: reading, moments, scaling and writing.
const PANEL: f64 = 4e-9;

/// Seconds for an edge to be put in its window's order by the first process.
const JOIN: f64 = 1e-8;

/// Words of an edge between processes, and bytes that are sent at once.
const WORDS: f64 = 2.0;
const BLOCK: f64 = 8e6;

/// The cost of a network by a number of processes on CPUs, each on as many threads as this one has: of the one that
/// has most to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Runs of windows, or parts of their pairs.
    pub pieces: usize,
    /// Multiply-adds of all its pairs.
    pub operations: f64,
    /// Seconds of them.
    pub walk_seconds: f64,
    /// Seconds of making panels, which all processes of a run make whole.
    pub panel_seconds: f64,
    /// Bytes of its largest panels, beside the signal and the edges.
    pub panel_bytes: f64,
    /// Bytes of edges that come to the first process from the others, together.
    pub exchange_bytes: f64,
    /// Messages that they come in.
    pub messages: f64,
    /// Seconds in which the first process puts all edges in order.
    pub join_seconds: f64,
}

impl Growth {
    /// Seconds with `link` bytes a second between processes, and `latency` seconds until they begin to come.
    pub fn seconds(&self, link: f64, latency: f64) -> f64 {
        self.walk_seconds
            + self.panel_seconds
            + self.exchange_seconds(link, latency)
            + self.join_seconds
    }

    /// Those of edges on their way, of these: the first process takes them from one after the other.
    pub fn exchange_seconds(&self, link: f64, latency: f64) -> f64 {
        self.exchange_bytes / link + self.messages * latency
    }
}

impl Plan {
    /// What [`Plan::run_by`] costs a team of `size`, each of which does `pace` operations a second, where all windows
    /// together have `edges` edges.
    pub fn growth(&self, size: usize, edges: f64, pace: f64) -> Growth {
        let size = size.max(1);
        let dealt = self.deal(size, self.has_rows());
        let pairs = |chunk: &Chunk| {
            let (from, to) = (chunk.rows.from, chunk.rows.to.min(self.nodes));
            let before = |x: usize| x as f64 * (self.nodes as f64 - 0.5 - x as f64 / 2.0);
            before(to) - before(from)
        };
        let walks = match self.spec.measure {
            Measure::Lagged { lags } => 2.0 * lags as f64 + 1.0,
            _ => 1.0,
        };
        let walked = |own: &Vec<Chunk>| -> f64 {
            own.iter().map(|c| pairs(c) * self.steps_of(c)).sum::<f64>() * walks
        };
        let panels = |own: &Vec<Chunk>| -> f64 {
            let steps: f64 = own.iter().map(|c| self.steps_of(c)).sum();
            steps * self.nodes as f64 * walks
        };
        let threads = rayon::current_num_threads() as f64;
        let all: Vec<(f64, f64)> = dealt.iter().map(|o| (walked(o), panels(o))).collect();
        let seconds = |(walk, panel): (f64, f64)| walk / pace + panel * PANEL / threads;
        let most = (0..all.len())
            .max_by(|a, b| seconds(all[*a]).total_cmp(&seconds(all[*b])))
            .unwrap_or(0);
        let of = self.making().of;
        let sent = edges * WORDS * 8.0 * (1.0 - 1.0 / size as f64);
        Growth {
            pieces: dealt[most].len(),
            operations: all[most].0,
            walk_seconds: all[most].0 / pace,
            panel_seconds: all[most].1 * PANEL / threads,
            panel_bytes: walks
                * (dealt[most].iter())
                    .map(|c| panel::bytes(c, self.nodes, of) as f64)
                    .fold(0.0, f64::max),
            exchange_bytes: sent,
            // Lengths of all to all, then blocks.
            messages: 2.0 * (size as f64 - 1.0) + (sent / BLOCK).ceil(),
            join_seconds: if size > 1 { edges * JOIN } else { 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{NetworkSpec, Plan, Signal, Threshold, Window};

    #[test]
    fn what_is_shared_shrinks_and_what_is_not_stays() {
        let nodes = 6_000;
        let samples = vec![0_u8; nodes * 40];
        let signal = Signal::new(&samples, nodes).unwrap();
        let window = Window {
            length: 40,
            step: 40,
        };
        let spec = NetworkSpec::pearson(window).threshold(Threshold::Absolute(0.5));
        let plan = Plan::new(&spec, &signal).unwrap();
        let one = plan.growth(1, 1e6, 1e10);
        let pairs = nodes as f64 * (nodes as f64 - 1.0) / 2.0;
        assert!((one.operations / (pairs * 41.0) - 1.0).abs() < 1e-9);
        assert_eq!(one.exchange_bytes, 0.0);
        for size in [2, 8, 32] {
            let by = plan.growth(size, 1e6, 1e10);
            let share = by.operations * size as f64 / one.operations;
            assert!((1.0 - 1e-9..1.2).contains(&share), "{size}: {share}");
            assert_eq!(by.panel_seconds, one.panel_seconds);
            assert!(by.exchange_seconds(1e9, 1e-5) > 0.0);
        }
        // As much as is asked for, but no row of tiles is cut.
        assert!(plan.growth(100_000, 0.0, 1e10).operations > 0.0);
    }
}
