//! Counting the many one-symbol continuations of a prefix in one pass.
//!
//! In levelwise mining a frequent prefix is tried with nearly every symbol and interval. Instead of
//! one merge for each, the events that follow each of the prefix's valid ends within the intervals
//! are read from the stream once, and each is credited to its symbol's continuation.
//!
//! Going through the prefix's ends in order, an event of the right symbol in the window completes an
//! occurrence if the prefix's latest start lies after the last end that was taken. That is the
//! greedy choice by earliest end: let e be the last end taken and b the earliest end of an
//! occurrence that starts after e. The first of the prefix's ends with a start after e and an event
//! in its window has as its first such event exactly b: that event ends an occurrence starting after
//! e, so it is not before b; and prefix ends come in order, so it is not after b either.

use super::extend::Chains;
use super::trie::Trie;
use super::walk::Greedy;
use crate::episode::Events;

/// Continuations below this number are never worth a pass over the stream.
const FEWEST: usize = 8;
/// Measured: reading one event of a window costs about a quarter of one search in a sparse list.
const SEARCH_COST: f64 = 4.0;

/// How to count all leaf children of one node at once.
#[derive(Debug)]
pub(crate) struct Siblings {
    windows: Vec<Window>,
}

/// The children with one interval.
#[derive(Debug)]
struct Window {
    low: i64,
    high: i64,
    /// For each symbol, the pattern that it completes; the last one takes what nobody wants.
    leaf_of: Vec<u32>,
}

impl Siblings {
    /// Decides for every node of `trie` whether its leaf children are counted at once.
    pub(crate) fn plan(trie: &Trie, events: &Events) -> Vec<Option<Self>> {
        let mut density = None;
        (0..trie.nodes.len())
            .map(|node| {
                let leaves = || {
                    trie.children(node)
                        .filter(|&c| trie.nodes[c].next == c + 1 && trie.nodes[c].leaf.is_some())
                };
                let children = leaves().count();
                if children < FEWEST {
                    return None;
                }
                let siblings = Self::new(trie, leaves(), events.symbols());
                let width: i64 = siblings.windows.iter().map(|w| w.high - w.low).sum();
                let density = *density.get_or_insert_with(|| local_density(events, width));
                let read = density * width as f64 + SEARCH_COST * siblings.windows.len() as f64;
                (read < children as f64 * SEARCH_COST).then_some(siblings)
            })
            .collect()
    }

    fn new(trie: &Trie, leaves: impl Iterator<Item = usize>, symbols: usize) -> Self {
        let mut windows: Vec<Window> = Vec::new();
        for child in leaves {
            let node = &trie.nodes[child];
            let (low, high) = (node.interval.low, node.interval.high);
            let i = windows
                .iter()
                .position(|w| (w.low, w.high) == (low, high))
                .unwrap_or_else(|| {
                    windows.push(Window {
                        low,
                        high,
                        leaf_of: vec![trie.counted as u32; symbols],
                    });
                    windows.len() - 1
                });
            if let Some(leaf) = node.leaf {
                windows[i].leaf_of[node.symbol as usize] = leaf as u32;
            }
        }
        Self { windows }
    }

    /// Adds what the fresh ends of the prefix contribute.
    pub(crate) fn count(&self, events: &Events, prefix: Chains<'_>, greedy: &mut [Greedy]) {
        let stream = events.stream();
        let bits = events.symbol_bits();
        let mask = (1_u64 << bits) - 1;
        let (ends, starts) = (&prefix.ends[prefix.fresh..], &prefix.starts[prefix.fresh..]);
        for window in &self.windows {
            for (&end, &start) in ends.iter().zip(starts) {
                let first = events.position(end + window.low + 1);
                let limit = ((end + window.high) as u64) << bits | mask;
                for &event in &stream[first..] {
                    if event > limit {
                        break;
                    }
                    let leaf = window.leaf_of[(event & mask) as usize] as usize;
                    greedy[leaf].push((event >> bits) as i64, start);
                }
            }
        }
    }
}

/// Events a tick in the `width` ticks after an event, averaged over a sample of events: far above
/// the mean rate when the activity comes in bursts.
fn local_density(events: &Events, width: i64) -> f64 {
    const SAMPLES: usize = 256;
    let stream = events.stream();
    let found: usize = (0..SAMPLES)
        .map(|i| {
            let at = i * stream.len() / SAMPLES;
            let (tick, _) = events.unpack(stream[at]);
            events.position(tick + width + 1) - at
        })
        .sum();
    found as f64 / SAMPLES as f64 / width as f64
}
