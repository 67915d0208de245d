//! The values of all pairs, edges or not, a block at a time: for matrices that no memory holds.

use std::ops::Range;

use betz_base::progress::check;
use betz_base::{Error, Progress, Result, memory};

use crate::plan::Plan;
use crate::signal::Signal;
use crate::spec::{NetworkSpec, Sign, Threshold};
use crate::window::{Chunk, Rows};

/// Rows of a block are a multiple of this, which is one of the rows of a tile on any registers.
const APART: usize = 12;

/// Bytes of a pair in a window while its value is found: edges of a unit, of the chunk, and the value.
const PAIR: u64 = 32;

/// Values of neighbouring pairs in consecutive windows.
#[derive(Debug, Clone, PartialEq)]
pub struct PairValues<'a> {
    /// Numbers of the windows.
    pub windows: Range<usize>,
    /// Numbers of the pairs, counted by (i, j): all of node 0, then those of node 1 with later nodes, and so on.
    pub pairs: Range<usize>,
    /// (windows, pairs), window by window; NaN where undefined.
    pub values: &'a [f32],
}

/// Number of pairs of `nodes` nodes.
pub(crate) fn pairs(nodes: usize) -> usize {
    nodes * nodes.saturating_sub(1) / 2
}

/// Number of pairs before the first of node `i`.
fn before(nodes: usize, i: usize) -> usize {
    if i >= nodes {
        return pairs(nodes);
    }
    i * (2 * nodes - i - 1) / 2
}

/// Blocks of rows of about at most `most` pairs each, and of at least the rows of a tile.
fn blocks(nodes: usize, most: usize) -> Vec<Rows> {
    let mut blocks = Vec::new();
    let mut from = 0;
    while from < nodes {
        let mut to = from + APART;
        while to < nodes && before(nodes, to + APART) - before(nodes, from) <= most {
            to += APART;
        }
        blocks.push(Rows { from, to });
        from = to;
    }
    blocks
}

impl Plan {
    /// Hands the value of every pair in every window to `take`, a block of windows and pairs at a time, in about
    /// `bytes` of memory beside the panels of [`Plan::estimate`]. Runs on the CPU. The threshold does not matter.
    ///
    /// ```
    /// use betz_network::{NetworkSpec, Plan, Signal, Window};
    ///
    /// let samples: Vec<f32> = (0..1200_u32).map(|t| (t * t % 83) as f32).collect();
    /// let signal = Signal::new(&samples, 3)?;
    /// let plan = Plan::new(&NetworkSpec::pearson(Window { length: 50, step: 50 }), &signal)?;
    /// let mut values = 0;
    /// plan.stream_pairs(&signal, 1 << 20, &(), |block| {
    ///     values += block.values.len();
    ///     Ok(())
    /// })?;
    /// assert_eq!(values, 8 * 3);
    /// # Ok::<(), betz_network::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a measure of distance, whose largest values are
    /// of no pair that is near; as for [`Plan::stream`].
    pub fn stream_pairs(
        &self,
        signal: &Signal<'_>,
        bytes: u64,
        progress: &dyn Progress,
        mut take: impl FnMut(&PairValues<'_>) -> Result<()>,
    ) -> Result<()> {
        self.same_shape(signal)?;
        if self.spec.measure.is_distance() {
            return Err(Error::argument(format!(
                "values of all pairs: expected another measure than {}",
                self.spec.measure.name()
            )));
        }
        let spec = NetworkSpec {
            sign: Sign::Both,
            strict: false,
            max_edges: u64::MAX,
            ..self.spec.threshold(Threshold::Absolute(0.0))
        };
        let mut plan = self.with_spec(&spec, signal)?;
        let nodes = signal.nodes();
        // As many windows as the least block of rows leaves room for.
        let least = if plan.has_rows() {
            (APART * nodes).min(pairs(nodes))
        } else {
            pairs(nodes)
        };
        let windows = bytes / (PAIR * least.max(1) as u64);
        plan.chunk_windows = (windows.max(1) as usize).min(plan.chunk_windows);
        let all = plan.grid.len() as u64 * pairs(nodes) as u64;
        let mut done = 0;
        let mut values = Vec::new();
        progress.update("pairs", 0, all);
        for chunk in plan.chunks() {
            let most = (bytes / PAIR / chunk.windows as u64).max(1);
            let blocks = match plan.has_rows() {
                true => blocks(nodes, usize::try_from(most).unwrap_or(usize::MAX)),
                false => vec![Rows::ALL],
            };
            for rows in blocks {
                check(progress, "pairs")?;
                let block = Chunk { rows, ..chunk };
                let range = before(nodes, rows.from)..before(nodes, rows.to);
                let len = range.len();
                plan.block(signal, block, &range, &mut values, progress)?;
                take(&PairValues {
                    windows: chunk.first..chunk.first + chunk.windows,
                    pairs: range,
                    values: &values,
                })?;
                done += (len * chunk.windows) as u64;
                progress.update("pairs", done, all);
            }
        }
        Ok(())
    }

    /// Writes the values of the pairs `range` in the windows of `chunk` to `values`.
    fn block(
        &self,
        signal: &Signal<'_>,
        chunk: Chunk,
        range: &Range<usize>,
        values: &mut Vec<f32>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let (nodes, len) = (signal.nodes(), range.len());
        values.clear();
        let total = len.saturating_mul(chunk.windows);
        (values.try_reserve(total)).map_err(|_| Error::no_memory("pairs", total * 4))?;
        values.resize(total, f32::NAN);
        memory::plan("pairs", total as u128 * u128::from(PAIR - 4))?;
        let edges = self.chunk(signal, chunk, u64::MAX, progress)?.edges;
        for (q, ends) in edges.indptr.windows(2).enumerate() {
            let row = &mut values[q * len..][..len];
            for e in ends[0] as usize..ends[1] as usize {
                let (i, j) = (edges.i[e] as usize, edges.j[e] as usize);
                row[before(nodes, i) + j - i - 1 - range.start] = edges.r[e];
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, TIE};
    use crate::{Measure, Window};

    #[test]
    fn blocks_have_every_row_once() {
        for nodes in [0, 1, 2, 12, 13, 100, 1_001] {
            for most in [0, 1, 500, usize::MAX] {
                let blocks = blocks(nodes, most);
                let mut next = 0;
                for rows in &blocks {
                    assert_eq!(rows.from, next);
                    assert!(rows.to > rows.from && rows.from.is_multiple_of(APART));
                    let pairs = before(nodes, rows.to) - before(nodes, rows.from);
                    assert!(pairs <= most || rows.to - rows.from == APART);
                    next = rows.to;
                }
                assert!(next >= nodes);
            }
        }
    }

    #[test]
    fn every_pair_has_the_value_that_it_has_as_an_edge() {
        const NODES: usize = 40;
        let samples: Vec<f32> = (0..90 * NODES)
            .map(|k| match k % NODES {
                // A constant node, and one that is not finite for a while.
                7 => 1.0,
                9 if k / NODES == 30 => f32::NAN,
                _ => ((k * k + 7 * k) % 211) as f32,
            })
            .collect();
        let signal = Signal::new(&samples, NODES).unwrap();
        let window = Window::new(30, 7);
        for measure in [
            Measure::Pearson,
            Measure::Spearman,
            Measure::Covariance,
            Measure::Lagged { lags: 2 },
            Measure::Partial,
        ] {
            let spec = NetworkSpec::new(measure, window).threshold(Threshold::Absolute(0.9));
            let plan = Plan::new(&spec, &signal).unwrap();
            let windows = plan.windows().len();
            let mut all = vec![f32::INFINITY; windows * pairs(NODES)];
            let mut seen = 0;
            // A tile's rows at a time.
            plan.stream_pairs(&signal, 1, &(), |block| {
                seen += 1;
                for (row, k) in (block.values.chunks(block.pairs.len())).zip(block.windows.clone())
                {
                    let at = k * pairs(NODES);
                    all[at + block.pairs.start..at + block.pairs.end].copy_from_slice(row);
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(seen % NODES.div_ceil(APART) == 0, !measure.by_window());
            // With room for two windows of a tile's rows, no block has more values.
            let most = 2 * APART * NODES;
            plan.stream_pairs(&signal, PAIR * most as u64, &(), |block| {
                let least = if measure.by_window() { pairs(NODES) } else { 0 };
                assert!(block.values.len() <= most.max(least), "{measure:?}");
                Ok(())
            })
            .unwrap();
            let zero = Plan::new(&spec.threshold(Threshold::Absolute(0.0)), &signal).unwrap();
            let network = zero.run(&signal, &()).unwrap();
            let mut edges = vec![f32::NAN; all.len()];
            for (k, window) in network.windows().enumerate() {
                for (i, j, r) in window.edges() {
                    let (i, j) = (i as usize, j as usize);
                    edges[k * pairs(NODES) + before(NODES, i) + j - i - 1] = r;
                }
            }
            // Few windows at a time are added up otherwise.
            let scale = if measure == Measure::Covariance {
                1e4
            } else {
                1.0
            };
            for (found, edge) in all.iter().zip(&edges) {
                let same = found.is_nan() && edge.is_nan();
                let off = f64::from((found - edge).abs());
                assert!(same || off <= 2e-6 * scale, "{measure:?}: {found} {edge}");
            }
            if measure == Measure::Pearson {
                let column =
                    |n: usize| -> Vec<f64> { (0..30).map(|t| signal.value(t, n)).collect() };
                let r = oracle::pearson(&column(2), &column(30)).unwrap();
                let found = all[before(NODES, 2) + 27];
                assert!((f64::from(found) - r).abs() <= 1e-5 + TIE);
                assert!(all[before(NODES, 7)].is_nan());
            }
        }
    }
}
