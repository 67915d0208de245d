//! The latest-start walk: patterns that share prefixes, through time tile by tile.
//!
//! A tile is a piece of time whose events fit the cache. Within a tile the tree of prefixes is
//! walked depth first: a prefix's valid ends are made from its parent's, and forgotten when the walk
//! leaves the prefix, except the few that events of the next tile can still follow (its *tail*). So
//! memory is one short list per level and one tail per prefix, however long the recording and however
//! many the patterns.

use super::extend::{Chains, Ends, Followers, extend};
use super::greedy::GreedyChoice;
use super::passage::PassageBuilder;
use super::siblings::Siblings;
use super::trie::Trie;
use crate::events::Events;
use crate::pattern::Pattern;

/// Events in a tile: 8 bytes each, of which a walk touches those of its symbols.
pub(crate) const TILE: usize = 1 << 16;

/// The result of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkOutput {
    /// Counts.
    Counts,
    /// Every occurrence's end with its latest start.
    Occurrences,
    /// The greedy choice as a function of the one before `from`.
    Passages,
}

/// A walk of some patterns over the events, for the occurrences that end in [from, to).
pub(crate) struct Walk<'a> {
    plan: WalkPlan<'a>,
    tile: Tile,
    stop: usize,
    tile_events: usize,
    /// Valid ends of the prefix at each depth below the root.
    levels: Vec<Ends>,
    state: State,
}

/// The fixed part of a walk.
struct WalkPlan<'a> {
    events: &'a Events,
    trie: Trie,
    wanted: WalkOutput,
    from: i64,
    /// For each node with many children that are leaves: how to count those at once.
    siblings: Vec<Option<Siblings>>,
}

/// The state that goes from tile to tile.
struct State {
    /// For each node, the valid ends that the next tile's events can follow.
    tails: Vec<Ends>,
    /// For each distinct pattern, and one more that takes the rest.
    greedy: Vec<GreedyChoice>,
    /// For each distinct pattern, when occurrences are wanted.
    found: Vec<Ends>,
    /// For each distinct pattern, when passages are wanted.
    passing: Vec<PassageBuilder>,
}

/// A piece of time.
struct Tile {
    /// Index in the stream of the first event after the tile.
    at: usize,
    /// First tick inside, and first tick after.
    begin: i64,
    end: i64,
    /// For each symbol, the indices of its first event inside and of its first after.
    first: Vec<usize>,
    last: Vec<usize>,
}

impl<'a> Walk<'a> {
    /// A walk of `patterns`, sorted by prefix, in tiles of about `tile_events`.
    pub(crate) fn new(
        events: &'a Events,
        patterns: &[&Pattern],
        wanted: WalkOutput,
        from: i64,
        to: i64,
        tile_events: usize,
    ) -> Self {
        let trie = Trie::new(patterns.iter().copied());
        let span = patterns.iter().map(|p| p.span()).max().unwrap_or(0);
        // An occurrence that ends at or after `from` began less than `span` before.
        let begin = from.saturating_sub(span);
        let last = (0..events.symbols() as u32)
            .map(|s| events.ticks_of(s).partition_point(|&t| t < begin))
            .collect::<Vec<_>>();
        let siblings = match wanted {
            WalkOutput::Counts => Siblings::plan(&trie, events),
            WalkOutput::Occurrences | WalkOutput::Passages => {
                (0..trie.nodes.len()).map(|_| None).collect()
            }
        };
        Self {
            tile: Tile {
                at: events.position(begin),
                begin,
                end: begin,
                first: last.clone(),
                last,
            },
            stop: events.position(to),
            tile_events,
            levels: vec![Ends::default(); trie.levels],
            state: State {
                tails: vec![Ends::default(); trie.nodes.len()],
                greedy: vec![GreedyChoice::default(); trie.counted + 1],
                found: match wanted {
                    WalkOutput::Occurrences => vec![Ends::default(); trie.counted],
                    _ => Vec::new(),
                },
                passing: match wanted {
                    WalkOutput::Passages => vec![PassageBuilder::new(from); trie.counted],
                    _ => Vec::new(),
                },
            },
            plan: WalkPlan {
                events,
                trie,
                wanted,
                from,
                siblings,
            },
        }
    }

    /// Walks one more tile; false when there was none.
    pub(crate) fn advance(&mut self) -> bool {
        if self.tile.at >= self.stop {
            return false;
        }
        self.tile
            .next(self.plan.events, self.tile_events, self.stop);
        for root in self.plan.trie.roots() {
            let node = &self.plan.trie.nodes[root];
            let s = node.symbol as usize;
            let index = self.plan.events.symbol_index(node.symbol);
            let fresh = self.tile.first[s];
            // The root's tail is in the index.
            let oldest = self.tile.begin.saturating_sub(node.reach);
            let tail = index.ticks[..fresh]
                .iter()
                .rev()
                .take_while(|&&t| t >= oldest)
                .count();
            let ticks = &index.ticks[fresh - tail..self.tile.last[s]];
            let chains = Chains {
                ends: ticks,
                starts: ticks,
                fresh: tail,
                root: Some((index, fresh - tail)),
            };
            self.state.report(&self.plan, root, chains);
            self.state
                .descend(&self.plan, &self.tile, root, chains, &mut self.levels);
        }
        true
    }

    /// Continues from the state of walks over earlier events, for each pattern given. Occurrences that end in those
    /// events are not taken again, because none of them starts after the last one taken ended.
    pub(crate) fn resume(&mut self, greedy: &[GreedyChoice]) {
        for (&leaf, greedy) in self.plan.trie.of_pattern.iter().zip(greedy) {
            self.state.greedy[leaf] = *greedy;
        }
    }

    /// The state from which a walk over the next events [resumes](Self::resume).
    pub(crate) fn greedy(&self) -> Vec<GreedyChoice> {
        let of_pattern = self.plan.trie.of_pattern.iter();
        of_pattern.map(|&leaf| self.state.greedy[leaf]).collect()
    }

    /// [`resume`](Self::resume) for passages.
    pub(crate) fn resume_passing<'p>(&mut self, passing: impl Iterator<Item = &'p PassageBuilder>) {
        for (&leaf, passing) in self.plan.trie.of_pattern.iter().zip(passing) {
            self.state.passing[leaf] = passing.clone();
        }
    }

    /// The state from which a walk over the next events [resumes](Self::resume_passing).
    pub(crate) fn passing(&self) -> impl Iterator<Item = &PassageBuilder> {
        let of_pattern = self.plan.trie.of_pattern.iter();
        of_pattern.map(|&leaf| &self.state.passing[leaf])
    }

    /// One count for each pattern given.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.greedy().iter().map(|greedy| greedy.count).collect()
    }

    /// The occurrences found, for each pattern given.
    pub(crate) fn occurrences(mut self) -> Vec<Ends> {
        let of_pattern = &self.plan.trie.of_pattern;
        let found = &mut self.state.found;
        (0..of_pattern.len())
            .map(|p| {
                // Equal patterns are neighbours; the last of them takes the list.
                let leaf = of_pattern[p];
                if of_pattern.get(p + 1) == Some(&leaf) {
                    found[leaf].clone()
                } else {
                    std::mem::take(&mut found[leaf])
                }
            })
            .collect()
    }
}

impl Tile {
    /// Moves on by one tile, or to `stop`.
    fn next(&mut self, events: &Events, size: usize, stop: usize) {
        self.begin = self.end;
        let target = self.at + size;
        let beyond = if target < stop { target } else { stop };
        self.end = match events.stream().get(beyond) {
            Some(&event) => events.unpack(event).0,
            None => i64::MAX,
        };
        // All events of one tick lie in one tile.
        self.at = if target < stop {
            let whole = events.position(self.end);
            if whole == self.at {
                // One tick holds more events than a tile should.
                self.end += 1;
                events.position(self.end)
            } else {
                whole
            }
        } else {
            stop
        };
        std::mem::swap(&mut self.first, &mut self.last);
        for (s, last) in self.last.iter_mut().enumerate() {
            *last = events.symbol_index(s as u32).count_through(self.end - 1);
        }
    }

    /// The ticks of `symbol` in this tile.
    fn followers<'e>(&self, events: &'e Events, symbol: u32) -> Followers<'e> {
        let s = symbol as usize;
        Followers {
            index: events.symbol_index(symbol),
            first: self.first[s],
            last: self.last[s],
        }
    }
}

impl State {
    /// Walks the subtree below `node`, whose valid ends are `chains`.
    fn descend(
        &mut self,
        plan: &WalkPlan<'_>,
        tile: &Tile,
        node: usize,
        chains: Chains<'_>,
        levels: &mut [Ends],
    ) {
        let nodes = &plan.trie.nodes;
        if let Some(siblings) = &plan.siblings[node] {
            siblings.count(plan.events, chains, &mut self.greedy);
            if siblings.all {
                return;
            }
        }
        let Some((level, deeper)) = levels.split_first_mut() else {
            return;
        };
        for child in plan.trie.children(node) {
            let is_leaf = nodes[child].next == child + 1;
            if is_leaf && plan.siblings[node].is_some() {
                continue;
            }
            let ticks = tile.followers(plan.events, nodes[child].symbol);
            if let (true, Some(leaf), WalkOutput::Passages) =
                (is_leaf, nodes[child].leaf, plan.wanted)
            {
                let passing = &mut self.passing[leaf];
                extend(chains, ticks, nodes[child].interval, |end, start| {
                    if end >= plan.from {
                        passing.push(end, start);
                    }
                });
                continue;
            }
            if let (true, Some(leaf), WalkOutput::Counts) =
                (is_leaf, nodes[child].leaf, plan.wanted)
            {
                let mut greedy = self.greedy[leaf];
                extend(chains, ticks, nodes[child].interval, |end, start| {
                    greedy.push(end, start);
                });
                self.greedy[leaf] = greedy;
                continue;
            }
            std::mem::swap(level, &mut self.tails[child]);
            let fresh = level.ends.len();
            extend(chains, ticks, nodes[child].interval, |end, start| {
                level.ends.push(end);
                level.starts.push(start);
            });
            let found = Chains {
                ends: &level.ends,
                starts: &level.starts,
                fresh,
                root: None,
            };
            self.report(plan, child, found);
            self.descend(plan, tile, child, found, deeper);
            let oldest = tile.end.saturating_sub(nodes[child].reach);
            self.tails[child].keep_from(level, oldest);
        }
    }

    /// Counts or keeps the fresh ends of `node` when it is itself a pattern.
    fn report(&mut self, plan: &WalkPlan<'_>, node: usize, chains: Chains<'_>) {
        let Some(leaf) = plan.trie.nodes[node].leaf else {
            return;
        };
        let (ends, starts) = (&chains.ends[chains.fresh..], &chains.starts[chains.fresh..]);
        match plan.wanted {
            WalkOutput::Counts => self.greedy[leaf].extend(ends, starts),
            WalkOutput::Occurrences => {
                let inside = ends.partition_point(|&e| e < plan.from);
                self.found[leaf].ends.extend_from_slice(&ends[inside..]);
                self.found[leaf].starts.extend_from_slice(&starts[inside..]);
            }
            WalkOutput::Passages => {
                let inside = ends.partition_point(|&e| e < plan.from);
                for (&end, &start) in ends[inside..].iter().zip(&starts[inside..]) {
                    self.passing[leaf].push(end, start);
                }
            }
        }
    }
}
