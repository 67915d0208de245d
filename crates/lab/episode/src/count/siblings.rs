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
use super::greedy::GreedyChoice;
use super::trie::Trie;
use crate::events::Events;

/// Continuations below this number are never worth a pass over the stream.
const FEWEST: usize = 8;
/// Measured: reading one event of a window costs about a quarter of one search in a sparse list.
const SEARCH_COST: f64 = 4.0;

/// Look-ups in flight at once.
const GROUP: usize = 32;

/// How to count all leaf children of one node at once.
#[derive(Debug)]
pub(crate) struct Siblings {
    /// True when the node has no other children.
    pub(crate) all: bool,
    symbols: usize,
    windows: Vec<Window>,
}

/// Children whose intervals follow each other without a gap: (low, high], (high, higher], …
#[derive(Debug)]
struct Window {
    low: i64,
    /// The upper bound of each interval, ascending.
    highs: Vec<i64>,
    /// For each interval and symbol, the pattern that it completes; the last pattern takes the
    /// rest.
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
                let mut siblings = Self::new(trie, leaves(), events.symbols());
                siblings.all = children == trie.children(node).count();
                let width: i64 = siblings.windows.iter().map(Window::width).sum();
                let density = *density.get_or_insert_with(|| local_density(events, width));
                let read = density * width as f64 + SEARCH_COST * siblings.windows.len() as f64;
                (read < children as f64 * SEARCH_COST).then_some(siblings)
            })
            .collect()
    }

    fn new(trie: &Trie, leaves: impl Iterator<Item = usize>, symbols: usize) -> Self {
        let mut leaves: Vec<usize> = leaves.collect();
        leaves.sort_by_key(|&c| trie.nodes[c].interval);
        let mut windows: Vec<Window> = Vec::new();
        for child in leaves {
            let node = &trie.nodes[child];
            let (low, high) = (node.interval.low, node.interval.high);
            let window = match windows.last_mut() {
                Some(w) if w.last_interval() == (low, high) => w,
                Some(w) if w.last_interval().1 == low => {
                    w.add(high, symbols, trie.counted);
                    w
                }
                _ => {
                    windows.push(Window {
                        low,
                        highs: Vec::new(),
                        leaf_of: Vec::new(),
                    });
                    let last = windows.len() - 1;
                    windows[last].add(high, symbols, trie.counted);
                    &mut windows[last]
                }
            };
            if let Some(leaf) = node.leaf {
                let interval = window.highs.len() - 1;
                window.leaf_of[interval * symbols + node.symbol as usize] = leaf as u32;
            }
        }
        Self {
            all: false,
            symbols,
            windows,
        }
    }

    /// Adds what the fresh ends of the prefix contribute.
    pub(crate) fn count(&self, events: &Events, prefix: Chains<'_>, greedy: &mut [GreedyChoice]) {
        for window in &self.windows {
            match window.highs.len() {
                1 => self.read::<1>(window, events, prefix, greedy),
                2 => self.read::<2>(window, events, prefix, greedy),
                3 => self.read::<3>(window, events, prefix, greedy),
                _ => self.read::<0>(window, events, prefix, greedy),
            }
        }
    }

    /// Reads each end's window; `N` is the number of intervals, or 0 when the compiler is not told.
    fn read<const N: usize>(
        &self,
        window: &Window,
        events: &Events,
        prefix: Chains<'_>,
        greedy: &mut [GreedyChoice],
    ) {
        let stream = events.stream();
        let bits = events.symbol_bits();
        let mask = (1_u64 << bits) - 1;
        let highs = if N == 0 {
            &window.highs[..]
        } else {
            &window.highs[..N]
        };
        let (inner, outer) = highs.split_at(highs.len() - 1);
        let (ends, starts) = (&prefix.ends[prefix.fresh..], &prefix.starts[prefix.fresh..]);
        // Where a group's windows begin is looked up first, so that the look-ups, which miss the
        // cache, overlap.
        let mut firsts = [0; GROUP];
        for (ends, starts) in ends.chunks(GROUP).zip(starts.chunks(GROUP)) {
            for (first, &end) in firsts.iter_mut().zip(ends) {
                *first = events.position(end + window.low + 1);
            }
            for ((&end, &start), &first) in ends.iter().zip(starts).zip(&firsts) {
                // Ticks, not packed events: the bound may be later than any tick that packs.
                let limit = end + outer[0];
                for &event in &stream[first..] {
                    let tick = (event >> bits) as i64;
                    if tick > limit {
                        break;
                    }
                    // Which interval, without a branch.
                    let interval: usize = inner.iter().map(|h| usize::from(tick - end > *h)).sum();
                    let symbol = (event & mask) as usize;
                    let leaf = window.leaf_of[interval * self.symbols + symbol] as usize;
                    greedy[leaf].push(tick, start);
                }
            }
        }
    }
}

impl Window {
    fn width(&self) -> i64 {
        self.highs.last().map_or(0, |high| high - self.low)
    }

    fn last_interval(&self) -> (i64, i64) {
        match *self.highs.as_slice() {
            [.., low, high] => (low, high),
            [high] => (self.low, high),
            [] => (self.low, self.low),
        }
    }

    fn add(&mut self, high: i64, symbols: usize, nobody: usize) {
        self.highs.push(high);
        self.leaf_of
            .resize(self.highs.len() * symbols, nobody as u32);
    }
}

/// Events per tick in the `width` ticks after an event, averaged over a sample of events: far above
/// the mean rate when the activity comes in bursts.
pub(crate) fn local_density(events: &Events, width: i64) -> f64 {
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
