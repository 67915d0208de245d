//! Communities by the Leiden algorithm (Traag, Waltman and van Eck 2019): seeded, signed, from a
//! partition of your own if you have one, such as that of the window before.
//!
//! Nodes move to the community of a neighbour where quality rises most; every community is then taken
//! apart and put together again from single nodes, joining only what is well connected within it; what
//! that gives becomes the nodes of a smaller graph; and so on until nothing moves.

use std::collections::VecDeque;

use betz_base::{Error, Result};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::modularity::{Quality, Signs, check_resolution};
use super::{Graph, one_per_node};

/// The quality to maximise.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Objective {
    /// Modularity with a resolution (1 is Newman's).
    Modularity {
        /// Weight of what is expected by chance; larger means smaller communities.
        resolution: f64,
        /// Treatment of negative weights.
        signs: Signs,
    },
    /// The constant Potts model: weights inside less `resolution` for each pair inside.
    Potts {
        /// The density below which nodes do not belong together.
        resolution: f64,
    },
}

impl Default for Objective {
    fn default() -> Self {
        Self::Modularity {
            resolution: 1.0,
            signs: Signs::default(),
        }
    }
}

/// Options of the search for communities.
///
/// ```
/// use betz_network::graph::{Graph, leiden::Leiden};
///
/// // Two triangles with one edge between them.
/// let edges = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)];
/// let graph = Graph::new(6, edges.map(|(i, j)| (i, j, 1.0)))?;
/// let found = Leiden::default().run(&graph, None)?;
/// assert_eq!(found.communities, [0, 0, 0, 1, 1, 1]);
/// assert!((found.quality - (6.0 / 7.0 - 0.5)).abs() < 1e-12);
/// # Ok::<(), betz_network::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leiden {
    /// The quality to maximise.
    pub objective: Objective,
    /// Seed of the order in which nodes are visited.
    pub seed: u64,
    /// Rounds on the whole graph at most; it ends earlier once a round changes nothing.
    pub rounds: usize,
    /// Number of searches; the first begins at the given start, and the best is kept.
    pub restarts: usize,
}

impl Default for Leiden {
    fn default() -> Self {
        Self {
            objective: Objective::default(),
            seed: 0,
            rounds: 10,
            restarts: 1,
        }
    }
}

/// Communities and how good they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Communities {
    /// Of each node, from 0 in the order of their first nodes.
    pub communities: Vec<u32>,
    /// Number of communities.
    pub count: usize,
    /// Modularity, or twice the Potts quality.
    pub quality: f64,
}

impl Leiden {
    /// Finds communities; `start` is a partition to begin with, single nodes if `None`. The same seed
    /// and start give the same communities.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a resolution that is negative or not
    /// finite, or no restart; [`Mismatch`](betz_base::ErrorKind::Mismatch) for a start of another length.
    pub fn run(&self, graph: &Graph, start: Option<&[u32]>) -> Result<Communities> {
        let quality = match self.objective {
            Objective::Modularity { resolution, signs } => {
                check_resolution(resolution)?;
                Quality::modularity(graph, resolution, signs)
            }
            Objective::Potts { resolution } => {
                check_resolution(resolution)?;
                Quality::potts(graph, resolution)
            }
        };
        if self.restarts == 0 {
            return Err(Error::argument("restarts: expected at least 1, got 0"));
        }
        if let Some(start) = start {
            one_per_node(graph, start)?;
        }
        let mut best: Option<Communities> = None;
        for restart in 0..self.restarts {
            let mut rng = ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(restart as u64));
            let given = start.filter(|_| restart == 0);
            let mut communities =
                given.map_or_else(|| (0..graph.nodes() as u32).collect(), <[u32]>::to_vec);
            renumber(&mut communities);
            let finest = Level::of(graph, &quality);
            for _ in 0..self.rounds {
                let before = communities.clone();
                round(&finest, &quality, &mut communities, &mut rng);
                renumber(&mut communities);
                if communities == before {
                    break;
                }
            }
            let value = quality.of(graph, &communities);
            if best
                .as_ref()
                .is_none_or(|best| value > best.quality + 1e-12)
            {
                let count = communities.iter().max().map_or(0, |c| *c as usize + 1);
                best = Some(Communities {
                    communities,
                    count,
                    quality: value,
                });
            }
        }
        best.ok_or_else(|| Error::argument("restarts: expected at least 1, got 0"))
    }
}

/// Numbers communities from 0 in the order of their first nodes; returns how many there are.
pub(crate) fn renumber(communities: &mut [u32]) -> usize {
    let most = communities.iter().max().map_or(0, |c| *c as usize + 1);
    if most > 16 * communities.len() + 1024 {
        // Sparse names.
        let mut names = std::collections::HashMap::new();
        for c in communities.iter_mut() {
            let next = names.len() as u32;
            *c = *names.entry(*c).or_insert(next);
        }
        return names.len();
    }
    let mut names = vec![u32::MAX; most];
    let mut next = 0;
    for c in communities {
        let name = &mut names[*c as usize];
        if *name == u32::MAX {
            *name = next;
            next += 1;
        }
        *c = *name;
    }
    next as usize
}

/// A graph whose nodes may stand for several.
struct Level {
    offsets: Vec<usize>,
    links: Vec<(u32, f64)>,
    brings: Vec<(f64, f64)>,
}

impl Level {
    fn of(graph: &Graph, quality: &Quality) -> Self {
        Self {
            offsets: graph.offsets.clone(),
            links: (graph.neighbours.iter().zip(&graph.weights))
                .map(|(n, w)| (*n, quality.weight(f64::from(*w))))
                .collect(),
            brings: quality.brings.clone(),
        }
    }

    fn len(&self) -> usize {
        self.brings.len()
    }

    fn links(&self, node: usize) -> &[(u32, f64)] {
        &self.links[self.offsets[node]..self.offsets[node + 1]]
    }

    /// The graph of `count` groups of nodes; links within a group are gone, for they never move.
    fn merge(&self, of: &[u32], count: usize) -> Self {
        let mut members = vec![Vec::new(); count];
        for (node, group) in of.iter().enumerate() {
            members[*group as usize].push(node);
        }
        let mut merged = Self {
            offsets: vec![0],
            links: Vec::new(),
            brings: Vec::new(),
        };
        let mut sums = Sums::new(count);
        for (group, members) in members.iter().enumerate() {
            let mut brings = (0.0, 0.0);
            for node in members {
                brings = (
                    brings.0 + self.brings[*node].0,
                    brings.1 + self.brings[*node].1,
                );
                for (n, w) in self.links(*node) {
                    let other = of[*n as usize];
                    if other as usize != group {
                        sums.add(other, *w);
                    }
                }
            }
            merged.links.extend(sums.drain());
            merged.offsets.push(merged.links.len());
            merged.brings.push(brings);
        }
        merged
    }
}

/// Sums by community, cleared in the time they took to fill.
struct Sums {
    of: Vec<f64>,
    seen: Vec<bool>,
    touched: Vec<u32>,
}

impl Sums {
    fn new(count: usize) -> Self {
        Self {
            of: vec![0.0; count],
            seen: vec![false; count],
            touched: Vec::new(),
        }
    }

    fn add(&mut self, community: u32, value: f64) {
        let at = community as usize;
        if !self.seen[at] {
            self.seen[at] = true;
            self.touched.push(community);
        }
        self.of[at] += value;
    }

    fn drain(&mut self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.touched.drain(..).map(|c| {
            self.seen[c as usize] = false;
            (c, std::mem::take(&mut self.of[c as usize]))
        })
    }
}

/// Differences of quality below this are none.
const LEAST: f64 = 1e-14;

/// The weight expected by chance between x and y.
fn expected_weight(quality: &Quality, a: (f64, f64), b: (f64, f64)) -> f64 {
    quality.alpha * a.0 * b.0 - quality.beta * a.1 * b.1
}

/// Moves nodes until none gains by it.
fn move_nodes(level: &Level, quality: &Quality, communities: &mut [u32], rng: &mut ChaCha8Rng) {
    let nodes = level.len();
    // One more, for a node that is better off alone.
    let mut brought = vec![(0.0, 0.0); nodes + 1];
    let mut sizes = vec![0_u32; nodes + 1];
    for (node, c) in communities.iter().enumerate() {
        let of = &mut brought[*c as usize];
        *of = (of.0 + level.brings[node].0, of.1 + level.brings[node].1);
        sizes[*c as usize] += 1;
    }
    let mut empty: Vec<u32> = (0..=nodes as u32)
        .rev()
        .filter(|c| sizes[*c as usize] == 0)
        .collect();
    let mut order: Vec<u32> = (0..nodes as u32).collect();
    order.shuffle(rng);
    let mut queue = VecDeque::from(order);
    let mut queued = vec![true; nodes];
    let mut sums = Sums::new(nodes + 1);
    while let Some(node) = queue.pop_front() {
        let node = node as usize;
        queued[node] = false;
        let (own, brings) = (communities[node], level.brings[node]);
        for (n, w) in level.links(node) {
            sums.add(communities[*n as usize], *w);
        }
        let rest = &mut brought[own as usize];
        *rest = (rest.0 - brings.0, rest.1 - brings.1);
        sizes[own as usize] -= 1;
        let inside = if sums.seen[own as usize] {
            sums.of[own as usize]
        } else {
            0.0
        };
        let stay = inside - expected_weight(quality, brings, brought[own as usize]);
        let (mut best, mut gain) = (own, stay);
        // Alone counts 0: the node's own share is the same everywhere.
        if sizes[own as usize] > 0
            && 0.0 > gain + LEAST
            && let Some(free) = empty.last()
        {
            (best, gain) = (*free, 0.0);
        }
        for (c, w) in sums.drain() {
            let here = w - expected_weight(quality, brings, brought[c as usize]);
            if here > gain + LEAST {
                (best, gain) = (c, here);
            }
        }
        let to = &mut brought[best as usize];
        *to = (to.0 + brings.0, to.1 + brings.1);
        sizes[best as usize] += 1;
        if best == own {
            continue;
        }
        if empty.last() == Some(&best) {
            empty.pop();
        }
        if sizes[own as usize] == 0 {
            empty.push(own);
            brought[own as usize] = (0.0, 0.0);
        }
        communities[node] = best;
        for (n, _) in level.links(node) {
            let n = *n as usize;
            if communities[n] != best && !queued[n] {
                queued[n] = true;
                queue.push_back(n as u32);
            }
        }
    }
}

/// Puts every community together again from single nodes.
fn refine(level: &Level, quality: &Quality, communities: &[u32], rng: &mut ChaCha8Rng) -> Vec<u32> {
    let nodes = level.len();
    let mut refined: Vec<u32> = (0..nodes as u32).collect();
    let mut brought = level.brings.clone();
    let mut single = vec![true; nodes];
    let mut all = vec![(0.0, 0.0); nodes + 1];
    for (node, c) in communities.iter().enumerate() {
        let of = &mut all[*c as usize];
        *of = (of.0 + level.brings[node].0, of.1 + level.brings[node].1);
    }
    // Weights between each group and the rest of its community.
    let mut outside: Vec<f64> = (0..nodes)
        .map(|node| {
            (level.links(node).iter())
                .filter(|(n, _)| communities[*n as usize] == communities[node])
                .map(|(_, w)| w)
                .sum()
        })
        .collect();
    let connected = |outside: f64, brought: (f64, f64), all: (f64, f64)| {
        outside >= expected_weight(quality, brought, (all.0 - brought.0, all.1 - brought.1)) - LEAST
    };
    let mut order: Vec<usize> = (0..nodes).collect();
    order.shuffle(rng);
    let mut sums = Sums::new(nodes);
    for node in order {
        let all = all[communities[node] as usize];
        if !single[node] || !connected(outside[node], level.brings[node], all) {
            continue;
        }
        for (n, w) in level.links(node) {
            if communities[*n as usize] == communities[node] {
                sums.add(refined[*n as usize], *w);
            }
        }
        let (mut best, mut gain, mut ties) = (node as u32, 0.0, 0.0);
        for (group, w) in sums.drain() {
            let g = group as usize;
            if g == node || !connected(outside[g], brought[g], all) {
                continue;
            }
            let here = w - expected_weight(quality, level.brings[node], brought[g]);
            // Of equal ones either may be it.
            if here > gain + LEAST
                || (here > gain - LEAST && best as usize != node && rng.random_bool(0.5))
            {
                (best, gain, ties) = (group, here, w);
            }
        }
        if best as usize == node {
            continue;
        }
        let to = best as usize;
        refined[node] = best;
        single[node] = false;
        single[to] = false;
        brought[to] = (
            brought[to].0 + level.brings[node].0,
            brought[to].1 + level.brings[node].1,
        );
        outside[to] += outside[node] - 2.0 * ties;
    }
    refined
}

/// One round of moving, refining and merging, down to a graph in which nothing moves.
fn round(finest: &Level, quality: &Quality, communities: &mut [u32], rng: &mut ChaCha8Rng) {
    // For each node of the finest graph its node in the current one.
    let mut place: Vec<u32> = (0..finest.len() as u32).collect();
    let mut merged: Option<Level> = None;
    let mut now: Vec<u32> = communities.to_vec();
    loop {
        let level = merged.as_ref().unwrap_or(finest);
        move_nodes(level, quality, &mut now, rng);
        let count = renumber(&mut now);
        for (c, place) in communities.iter_mut().zip(&place) {
            *c = now[*place as usize];
        }
        if count == level.len() {
            return;
        }
        let mut refined = refine(level, quality, &now, rng);
        let mut groups = renumber(&mut refined);
        if groups == level.len() {
            // Nothing joined: merge the communities themselves.
            refined.copy_from_slice(&now);
            groups = count;
        }
        let mut of = vec![0; groups];
        for (node, group) in refined.iter().enumerate() {
            of[*group as usize] = now[node];
        }
        let next = level.merge(&refined, groups);
        for place in &mut place {
            *place = refined[*place as usize];
        }
        now = of;
        merged = Some(next);
    }
}
