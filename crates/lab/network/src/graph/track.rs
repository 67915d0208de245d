//! Communities followed from window to window: which one of this window is which one of the last.

use std::collections::{BTreeMap, BTreeSet};

use betz_base::{Error, Result};

use super::Graph;
use super::leiden::{Communities, Leiden};
use crate::network::Network;

/// Options of matching the communities of neighbouring windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matching {
    /// Least Jaccard overlap of two communities that are one and the same.
    pub overlap: f64,
    /// Least share of a community that must come from another for a split or merge.
    pub share: f64,
    /// Communities of fewer nodes are not followed.
    pub smallest: usize,
}

impl Default for Matching {
    fn default() -> Self {
        Self {
            overlap: 0.3,
            share: 0.3,
            smallest: 3,
        }
    }
}

/// A change of communities, by their identities.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It continues none of the window before.
    Birth {
        /// The new one.
        community: u32,
    },
    /// None continues it; it was last seen in the window before.
    Death {
        /// The one that is gone.
        community: u32,
    },
    /// A share of each of several communities comes from one of the window before.
    Split {
        /// The community of the window before.
        from: u32,
        /// The communities of this window.
        into: Vec<u32>,
    },
    /// A share of one community comes from each of several of the window before.
    Merge {
        /// The communities of the window before.
        from: Vec<u32>,
        /// The community of this window.
        into: u32,
    },
}

/// No community is followed here.
pub const NONE: u32 = u32::MAX;

/// Communities with identities that last.
#[derive(Debug, Clone, PartialEq)]
pub struct CommunityTracks {
    /// (windows, nodes): the identity of each node's community, [`NONE`] where it is not followed.
    pub identities: Vec<u32>,
    /// Number of nodes.
    pub nodes: usize,
    /// (window, event), by window.
    pub events: Vec<(usize, Event)>,
    /// Number of identities.
    pub count: u32,
}

impl CommunityTracks {
    /// Identities of one window's nodes, `None` beyond the last.
    pub fn window(&self, k: usize) -> Option<&[u32]> {
        self.identities
            .get(k.checked_mul(self.nodes)?..)?
            .get(..self.nodes)
    }

    /// Flexibility of each node: of the pairs of neighbouring windows in which its community is followed
    /// in both, the share in which it changes (Bassett et al. 2011); 0 without such a pair.
    pub fn flexibility(&self) -> Vec<f64> {
        let windows: Vec<&[u32]> = self.identities.chunks_exact(self.nodes.max(1)).collect();
        (0..self.nodes)
            .map(|node| {
                let both = windows
                    .windows(2)
                    .map(|w| (w[0][node], w[1][node]))
                    .filter(|(a, b)| *a != NONE && *b != NONE);
                let (changes, pairs) =
                    both.fold((0, 0), |(c, n), (a, b)| (c + u32::from(a != b), n + 1));
                if pairs > 0 {
                    f64::from(changes) / f64::from(pairs)
                } else {
                    0.0
                }
            })
            .collect()
    }
}

/// Follows partitions, (windows, nodes) with any numbers, from window to window: of all pairs of
/// communities the one with the largest Jaccard overlap is matched first, ties by their numbers.
///
/// # Errors
/// [`Mismatch`](betz_base::ErrorKind::Mismatch) for partitions that are no whole number of windows.
pub fn track(partitions: &[u32], nodes: usize, matching: Matching) -> Result<CommunityTracks> {
    if nodes == 0 || !partitions.len().is_multiple_of(nodes) {
        return Err(Error::mismatch(format!(
            "partitions: expected a whole number of windows of {nodes} nodes, got {} values",
            partitions.len()
        )));
    }
    let mut tracked = CommunityTracks {
        identities: Vec::with_capacity(partitions.len()),
        nodes,
        events: Vec::new(),
        count: 0,
    };
    let mut tracker = Tracker::new(nodes, matching);
    for (k, partition) in partitions.chunks_exact(nodes).enumerate() {
        let events = tracker.next(partition)?;
        tracked.events.extend(events.into_iter().map(|e| (k, e)));
        tracked.identities.extend(tracker.identities());
    }
    tracked.count = tracker.count;
    Ok(tracked)
}

/// The old community that each new one continues, or [`NONE`]: the pair with the largest overlap first, ties by their
/// numbers.
fn match_communities(
    common: &BTreeMap<(u32, u32), usize>,
    old_sizes: &BTreeMap<u32, usize>,
    sizes: &[usize],
    least: f64,
) -> Vec<u32> {
    let mut pairs: Vec<(f64, u32, u32)> = (common.iter())
        .map(|((old, new), n)| {
            let union = old_sizes[old] + sizes[*new as usize] - n;
            (*n as f64 / union as f64, *old, *new)
        })
        .filter(|(overlap, _, _)| *overlap >= least)
        .collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut names = vec![NONE; sizes.len()];
    for (_, old, new) in pairs {
        if names[new as usize] == NONE && !names.contains(&old) {
            names[new as usize] = old;
        }
    }
    names
}

/// Follows communities while the windows come: [`track`], a window at a time.
#[derive(Debug, Clone)]
pub struct Tracker {
    matching: Matching,
    /// Identities in the newest window.
    before: Vec<u32>,
    known: bool,
    count: u32,
}

impl Tracker {
    /// Of `nodes` nodes, before the first window.
    pub fn new(nodes: usize, matching: Matching) -> Self {
        Self {
            matching,
            before: vec![NONE; nodes],
            known: false,
            count: 0,
        }
    }

    /// The identity of each node's community in the newest window, [`NONE`] where it is not followed.
    pub fn identities(&self) -> &[u32] {
        &self.before
    }

    /// Takes the next window's partition, a number for each node, and returns the changes since the last.
    ///
    /// # Errors
    /// [`Mismatch`](betz_base::ErrorKind::Mismatch) unless there is a number for each node.
    pub fn next(&mut self, partition: &[u32]) -> Result<Vec<Event>> {
        if partition.len() != self.before.len() {
            return Err(Error::mismatch(format!(
                "partition: expected a community for each of {} nodes, got {}",
                self.before.len(),
                partition.len()
            )));
        }
        let (matching, before) = (self.matching, &self.before);
        let mut events = Vec::new();
        let mut now = partition.to_vec();
        let count = super::leiden::renumber(&mut now);
        let mut sizes = vec![0_usize; count];
        now.iter().for_each(|c| sizes[*c as usize] += 1);
        let followed = |c: usize| sizes[c] >= matching.smallest;
        let mut old_sizes = BTreeMap::<u32, usize>::new();
        before
            .iter()
            .filter(|c| **c != NONE)
            .for_each(|c| *old_sizes.entry(*c).or_default() += 1);
        // (old, new) to nodes in common.
        let mut common = BTreeMap::<(u32, u32), usize>::new();
        for (old, new) in before.iter().zip(&now) {
            if *old != NONE && followed(*new as usize) {
                *common.entry((*old, *new)).or_default() += 1;
            }
        }
        let mut names = match_communities(&common, &old_sizes, &sizes, matching.overlap);
        let continued: BTreeSet<u32> = names.iter().copied().filter(|c| *c != NONE).collect();
        for c in (0..count).filter(|c| followed(*c)) {
            if names[c] == NONE {
                names[c] = self.count;
                self.count += 1;
                if self.known {
                    events.push(Event::Birth {
                        community: names[c],
                    });
                }
            }
        }
        let mut into = BTreeMap::<u32, Vec<u32>>::new();
        let mut from = into.clone();
        for ((old, new), n) in &common {
            let (old_size, new_size) = (old_sizes[old] as f64, sizes[*new as usize] as f64);
            let least = matching.share * old_size.min(new_size);
            if *n as f64 >= least && *n as f64 >= matching.share * new_size {
                from.entry(*new).or_default().push(*old);
            }
            if *n as f64 >= least && *n as f64 >= matching.share * old_size {
                into.entry(*old).or_default().push(names[*new as usize]);
            }
        }
        for (old, into) in into.into_iter().filter(|(_, into)| into.len() > 1) {
            events.push(Event::Split { from: old, into });
        }
        for (new, from) in from.into_iter().filter(|(_, from)| from.len() > 1) {
            events.push(Event::Merge {
                from,
                into: names[new as usize],
            });
        }
        for old in old_sizes.keys().filter(|old| !continued.contains(old)) {
            events.push(Event::Death { community: *old });
        }
        let identities: Vec<u32> = now.iter().map(|c| names[*c as usize]).collect();
        self.before = identities;
        self.known = true;
        Ok(events)
    }
}

impl Network {
    /// Communities of every window, each looked for from those of the window before.
    ///
    /// # Errors
    /// The errors of [`Leiden::run`].
    pub fn communities(&self, leiden: &Leiden) -> Result<Vec<Communities>> {
        let mut all: Vec<Communities> = Vec::with_capacity(self.len());
        for window in self.windows() {
            let graph = Graph::of(&window, self.nodes());
            let start = all.last().map(|c| c.communities.as_slice());
            let found = leiden.run(&graph, start)?;
            all.push(found);
        }
        Ok(all)
    }
}
