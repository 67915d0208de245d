//! The plan by which warps share patterns and time.

use crate::count::trie::{Trie, common_prefix};
use crate::pattern::Pattern;
use betz_kernels::{Node, Tick};

/// Pieces of work (a run through a part) that keep a large device busy to the end.
const PIECES: usize = 1 << 15;

/// Most pieces worth their halo, when parts can be longer.
const MOST_PIECES: usize = 1 << 16;

/// Fewest pieces, halo or not.
const FEWEST_PIECES: usize = 1 << 12;

/// Fewest patterns to which a run with a common prefix is cut.
const SMALLEST_RUN: usize = 16;

/// Most patterns in a run.
const LARGEST_RUN: usize = 4096;

/// Patterns with a common first edge, as a tree.
pub(super) struct Run {
    trie: Trie,
    /// Indices of the patterns, sorted by prefix.
    pub(super) patterns: Vec<usize>,
    /// For each of those, which of the run's distinct patterns it is.
    pub(super) leaf_of: Vec<usize>,
    /// Number of distinct patterns.
    pub(super) leaves: usize,
    /// The longest that an occurrence of any lasts, in ticks.
    span: i64,
}

/// Runs, and the number of parts into which the time is cut for each.
pub(super) struct RunPlan {
    pub(super) runs: Vec<Run>,
    /// Number of patterns.
    pub(super) patterns: usize,
    pub(super) parts: usize,
    /// Symbols of the longest pattern.
    pub(super) levels: usize,
    pub(super) longest_span: i64,
}

impl RunPlan {
    /// A plan for events over `duration` ticks that are cut in `cells`.
    pub(super) fn new(patterns: &[Pattern], cells: usize, duration: i64) -> Self {
        let order = Pattern::prefix_order(patterns);
        let largest = (patterns.len() * cells / PIECES).clamp(SMALLEST_RUN, LARGEST_RUN);
        let runs: Vec<Run> = order
            .chunk_by(|&a, &b| common_prefix(&patterns[a], &patterns[b]) >= 2)
            .flat_map(|family| family.chunks(largest))
            .map(|run| Run::new(patterns, run))
            .collect();
        let longest_span = runs.iter().map(|run| run.span).max().unwrap_or(0);
        let each = |pieces: usize| pieces / runs.len().max(1);
        // A part should be twice as long as what it looks back on.
        let calm = duration / longest_span.saturating_mul(2).max(1);
        let calm = usize::try_from(calm).unwrap_or(usize::MAX);
        let parts = calm
            .max(each(FEWEST_PIECES))
            .min(each(MOST_PIECES))
            .clamp(1, cells);
        Self {
            patterns: patterns.len(),
            parts,
            levels: patterns.iter().map(Pattern::size).max().unwrap_or(1),
            longest_span,
            runs,
        }
    }

    /// The trees of `runs`. Leaves are numbered through all of them. No delay is as long as `duration`, so that longer
    /// bounds and spans are cut to it.
    pub(super) fn trees<T: Tick>(runs: &[Run], duration: i64) -> RunTrees<T> {
        let mut nodes = Vec::new();
        let mut first_nodes = vec![0];
        let (mut first, mut first_leaf) = (0, 0);
        for run in runs {
            let mut open: Vec<usize> = Vec::new();
            for (i, node) in run.trie.nodes.iter().enumerate() {
                while open.last().is_some_and(|&next| next <= i) {
                    open.pop();
                }
                let leaf = node
                    .leaf
                    .map_or(u32::MAX, |leaf| (first_leaf + leaf) as u32);
                nodes.push(Node {
                    low: T::narrowed(node.interval.low.min(duration)),
                    high: T::narrowed(node.interval.high.min(duration)),
                    symbol: node.symbol,
                    depth: open.len() as u32,
                    next: (first + node.next) as u32,
                    leaf,
                });
                open.push(node.next);
            }
            first += run.trie.nodes.len();
            first_leaf += run.leaves;
            first_nodes.push(first as u32);
        }
        RunTrees {
            nodes,
            first_nodes,
            spans: runs.iter().map(|run| run.span.min(duration)).collect(),
        }
    }
}

/// The trees of several runs, as the kernel walks them.
pub(super) struct RunTrees<T> {
    pub(super) nodes: Vec<Node<T>>,
    /// The first node of every run, and one more.
    pub(super) first_nodes: Vec<u32>,
    /// For each run, the longest that an occurrence lasts.
    pub(super) spans: Vec<i64>,
}

impl Run {
    fn new(patterns: &[Pattern], run: &[usize]) -> Self {
        let trie = Trie::new(run.iter().map(|&i| &patterns[i]));
        Self {
            patterns: run.to_vec(),
            leaf_of: trie.of_pattern.clone(),
            leaves: trie.counted,
            span: run.iter().map(|&i| patterns[i].span()).max().unwrap_or(0),
            trie,
        }
    }
}
