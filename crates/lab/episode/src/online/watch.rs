//! The watched episodes as one tree of prefixes, advanced event by event.
//!
//! The latest-start algorithm needs, of each prefix, its valid ends, each with the latest start of
//! such a chain. An event at tick t that may extend a prefix over (low, high] looks for the newest
//! end before t − low. Time only goes forward, so of all ends before t − low only the newest will
//! ever be asked for again: a prefix keeps the ends of the last `low` ticks and one older.
//!
//! An event touches only the prefixes that end with its symbol. These lie side by side, and each has
//! a *deadline*, the newest end of its parent plus `high`: past it, nothing can be extended. Most
//! events end at that comparison. A prefix that gains an end moves its children's deadlines.

use std::collections::VecDeque;

use crate::count::{GreedyChoice, Trie};
use crate::pattern::Pattern;

/// Earlier than any tick, and far enough from the ends of `i64` to subtract.
const NEVER: i64 = -(1 << 62);

const NONE: u32 = u32::MAX;

/// A valid end of a prefix and the latest start of a chain that ends there.
#[derive(Debug, Clone, Copy)]
struct Chain {
    end: i64,
    start: i64,
}

/// One prefix of the watched episodes.
#[derive(Debug, Clone)]
struct Prefix {
    /// Bounds of the interval before its last symbol.
    low: i64,
    high: i64,
    /// The prefix without its last symbol, or `NONE`.
    parent: u32,
    /// Index of its tally when it is itself watched, or `NONE`.
    tally: u32,
    /// Its children in [`WatchList::children`].
    children: (u32, u32),
    /// The largest `low` among its children.
    keep: i64,
    newest: Chain,
    /// Older ends that a child may still ask for, ascending.
    older: VecDeque<Chain>,
}

/// One prefix, as seen from its parent.
#[derive(Debug, Clone, Copy)]
struct Child {
    high: i64,
    prefix: u32,
}

/// The state of counting a list of episodes.
#[derive(Debug, Clone)]
pub(super) struct WatchList {
    /// The prefixes that end with symbol `s` are `of_symbol[s]..of_symbol[s + 1]`, longest first.
    of_symbol: Vec<u32>,
    /// For each prefix, the last tick at which an event can extend its parent to it.
    deadlines: Vec<i64>,
    prefixes: Vec<Prefix>,
    children: Vec<Child>,
    tallies: Vec<GreedyChoice>,
    /// For each episode given, its tally.
    of_episode: Vec<u32>,
    budget: Budget,
}

/// Memory for older ends of all prefixes.
#[derive(Debug, Clone)]
struct Budget {
    /// Chains that more room may be made for.
    left: usize,
    /// Chains that were forgotten because there was no room left.
    forgotten: u64,
}

impl WatchList {
    /// Watches `patterns`, whose symbols must be below `symbols`; nothing has happened yet.
    pub(super) fn new(symbols: usize, patterns: &[Pattern]) -> Self {
        let order = Pattern::prefix_order(patterns);
        let trie = Trie::new(order.iter().map(|&i| &patterns[i]));
        let mut of_episode = vec![0; patterns.len()];
        for (&i, &tally) in order.iter().zip(&trie.of_pattern) {
            of_episode[i] = tally as u32;
        }

        let mut parents = vec![NONE; trie.nodes.len()];
        let mut depths = vec![0_u32; trie.nodes.len()];
        for node in 0..trie.nodes.len() {
            for child in trie.children(node) {
                parents[child] = node as u32;
                depths[child] = depths[node] + 1;
            }
        }
        // By symbol, and longest first, so that an event that extends both a prefix and its parent
        // meets the prefix before its deadline moves.
        let mut nodes: Vec<usize> = (0..trie.nodes.len()).collect();
        nodes.sort_by_key(|&n| (trie.nodes[n].symbol, std::cmp::Reverse(depths[n]), n));
        let mut position = vec![0_u32; nodes.len()];
        for (at, &node) in nodes.iter().enumerate() {
            position[node] = at as u32;
        }
        let mut children = Vec::with_capacity(nodes.len());
        let mut prefixes = Vec::with_capacity(nodes.len());
        let mut deadlines = Vec::with_capacity(nodes.len());
        for &node in &nodes {
            let first = children.len() as u32;
            let mut keep = 0;
            for child in trie.children(node) {
                let interval = trie.nodes[child].interval;
                keep = interval.low.max(keep);
                children.push(Child {
                    high: interval.high,
                    prefix: position[child],
                });
            }
            let root = parents[node] == NONE;
            deadlines.push(if root { i64::MAX } else { NEVER });
            prefixes.push(Prefix {
                low: trie.nodes[node].interval.low,
                high: trie.nodes[node].interval.high,
                parent: (position.get(parents[node] as usize)).map_or(NONE, |&at| at),
                tally: trie.nodes[node].leaf.map_or(NONE, |leaf| leaf as u32),
                children: (first, children.len() as u32),
                keep,
                newest: Chain {
                    end: NEVER,
                    start: NEVER,
                },
                older: VecDeque::new(),
            });
        }
        Self {
            of_symbol: first_of_symbols(&trie, symbols),
            deadlines,
            prefixes,
            children,
            tallies: vec![GreedyChoice::default(); trie.counted],
            of_episode,
            budget: Budget {
                left: usize::MAX,
                forgotten: 0,
            },
        }
    }

    /// Keeps chains in at most so many bytes: past it a prefix forgets its oldest chain, which is counted.
    pub(super) fn limited_to(mut self, bytes: usize) -> Self {
        self.budget.left = bytes / size_of::<Chain>();
        self
    }

    /// Chains that were forgotten because there was no room left.
    pub(super) fn forgotten(&self) -> u64 {
        self.budget.forgotten
    }

    /// Takes an event; `tick` must not be before that of the last one, nor `symbol` unknown.
    #[inline]
    pub(super) fn observe(&mut self, tick: i64, symbol: u32) {
        let s = symbol as usize;
        let (first, last) = (self.of_symbol[s] as usize, self.of_symbol[s + 1] as usize);
        for at in first..last {
            if tick <= self.deadlines[at] {
                self.extend(at, tick);
            }
        }
    }

    /// Extends the parent of the prefix at `at` by an event at `tick`, if that is valid.
    fn extend(&mut self, at: usize, tick: i64) {
        let prefix = &self.prefixes[at];
        let start = if prefix.parent == NONE {
            tick
        } else {
            let before = self.prefixes[prefix.parent as usize].newest_before(tick - prefix.low);
            if tick - before.end > prefix.high {
                return;
            }
            before.start
        };
        if prefix.tally != NONE {
            self.tallies[prefix.tally as usize].push(tick, start);
        }
        let (first, last) = prefix.children;
        if first < last {
            self.prefixes[at].push(Chain { end: tick, start }, &mut self.budget);
            for child in &self.children[first as usize..last as usize] {
                self.deadlines[child.prefix as usize] = tick + child.high;
            }
        }
    }

    /// The tally of the `episode`-th episode given.
    pub(super) fn tally(&self, episode: usize) -> GreedyChoice {
        self.tallies[self.of_episode[episode] as usize]
    }

    /// Replaces the tally of the `episode`-th episode given.
    pub(super) fn set_tally(&mut self, episode: usize, tally: GreedyChoice) {
        self.tallies[self.of_episode[episode] as usize] = tally;
    }

    /// Number of chains kept now.
    #[cfg(test)]
    pub(super) fn chains(&self) -> usize {
        self.prefixes
            .iter()
            .map(|p| p.older.len() + usize::from(p.newest.end > NEVER))
            .sum()
    }
}

/// For each symbol the number of prefixes that end with a smaller one; one entry more ends the last.
fn first_of_symbols(trie: &Trie, symbols: usize) -> Vec<u32> {
    let mut first = vec![0; symbols + 1];
    for node in &trie.nodes {
        first[node.symbol as usize + 1] += 1;
    }
    for s in 0..symbols {
        first[s + 1] += first[s];
    }
    first
}

impl Prefix {
    /// The newest chain that ends before `limit`; one at `NEVER` if there is none.
    #[inline]
    fn newest_before(&self, limit: i64) -> Chain {
        if self.newest.end < limit {
            return self.newest;
        }
        let before = if self.older.len() > 16 {
            self.older.partition_point(|c| c.end < limit)
        } else {
            let newer = self.older.iter().rev().take_while(|c| c.end >= limit);
            self.older.len() - newer.count()
        };
        match before.checked_sub(1) {
            Some(i) => self.older[i],
            None => Chain {
                end: NEVER,
                start: NEVER,
            },
        }
    }

    /// Adds a chain that ends now. A second one of the same tick has the same start.
    #[inline]
    fn push(&mut self, chain: Chain, budget: &mut Budget) {
        if self.newest.end == chain.end {
            return;
        }
        if self.newest.end > NEVER {
            if self.older.len() == self.older.capacity() {
                self.make_room(budget);
            }
            if self.older.len() < self.older.capacity() {
                self.older.push_back(self.newest);
            }
            // From now on, no child asks for an end when a newer one is already far enough back.
            let limit = chain.end - self.keep;
            while self.older.get(1).is_some_and(|c| c.end < limit) {
                self.older.pop_front();
            }
        }
        self.newest = chain;
    }

    /// Room for twice as many older ends, or for one in the place of the oldest where the budget has none.
    #[cold]
    fn make_room(&mut self, budget: &mut Budget) {
        let before = self.older.capacity();
        let more = before.max(4);
        if more <= budget.left {
            self.older.reserve_exact(more);
            budget.left = (budget.left).saturating_sub(self.older.capacity() - before);
        } else {
            self.older.pop_front();
            budget.forgotten += 1;
        }
    }
}
