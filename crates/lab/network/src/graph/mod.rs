//! Graphs of single windows, and what changes from one to the next.
//!
//! | module | what it has |
//! |---|---|
//! | [`measures`] | degree, strength, clustering, transitivity, components, efficiency, participation |
//! | [`modularity`] | Newman's modularity, and its signed kinds |
//! | [`leiden`] | communities: Leiden, seeded, signed, from a start of your own |
//! | [`layout`] | places for nodes: linked ones near each other |
//! | [`track`] | communities followed over windows: births, deaths, splits, merges, flexibility |
//! | [`switching`] | communities of changing groups by least cost, exactly, on small sets |
//! | [`rewire`] | random graphs of the same degrees, and small-worldness against them |
//! | [`similarity`] | how alike the networks of any two windows are |

pub mod layout;
pub mod leiden;
pub mod measures;
pub mod modularity;
pub mod rewire;
pub mod similarity;
pub mod switching;
#[cfg(test)]
mod tests;
pub mod track;

use betz_base::{Error, Result};

use crate::network::WindowEdges;

/// An undirected graph with weights: each node's neighbours, ascending.
///
/// Memory is 16 bytes per edge and 8 per node.
///
/// ```
/// use betz_network::graph::Graph;
///
/// let graph = Graph::new(4, [(0, 1, 0.9), (1, 2, -0.8)])?;
/// assert_eq!(graph.neighbours(1), [0, 2]);
/// assert_eq!(graph.weights(1), [0.9, -0.8]);
/// # Ok::<(), betz_network::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    offsets: Vec<usize>,
    neighbours: Vec<u32>,
    weights: Vec<f32>,
}

impl Graph {
    /// A graph of `nodes` nodes and edges (node, node, weight) in any order.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) naming an edge of a node with itself,
    /// of a node that there is not, of a weight that is not finite, or that comes twice.
    pub fn new(nodes: usize, edges: impl IntoIterator<Item = (u32, u32, f32)>) -> Result<Self> {
        let mut sorted: Vec<(u32, u32, f32)> = Vec::new();
        for (at, (a, b, w)) in edges.into_iter().enumerate() {
            if a == b || a.max(b) as usize >= nodes || !w.is_finite() {
                return Err(Error::argument(format!(
                    "edge {at}: expected two different nodes below {nodes} and a finite weight, got {a}, {b}, {w}"
                )));
            }
            sorted.push((a.min(b), a.max(b), w));
        }
        sorted.sort_by_key(|(a, b, _)| (*a, *b));
        if let Some(twice) = sorted
            .windows(2)
            .find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1))
        {
            return Err(Error::argument(format!(
                "edges: expected each once, got {}, {} twice",
                twice[0].0, twice[0].1
            )));
        }
        Ok(Self::sorted(nodes, || sorted.iter().copied()))
    }

    /// The graph of a window of a network of `nodes` nodes.
    pub fn of(window: &WindowEdges<'_>, nodes: usize) -> Self {
        Self::sorted(nodes, || window.edges())
    }

    /// From edges by (i, j), i < j: neighbours then come in order.
    fn sorted<I: Iterator<Item = (u32, u32, f32)>>(nodes: usize, edges: impl Fn() -> I) -> Self {
        let mut offsets = vec![0; nodes + 1];
        for (i, j, _) in edges() {
            offsets[i as usize + 1] += 1;
            offsets[j as usize + 1] += 1;
        }
        for node in 0..nodes {
            offsets[node + 1] += offsets[node];
        }
        let mut next = offsets.clone();
        let (mut neighbours, mut weights) = (vec![0; offsets[nodes]], vec![0.0; offsets[nodes]]);
        for (i, j, w) in edges() {
            for (from, to) in [(i, j), (j, i)] {
                let at = &mut next[from as usize];
                (neighbours[*at], weights[*at]) = (to, w);
                *at += 1;
            }
        }
        Self {
            offsets,
            neighbours,
            weights,
        }
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of edges.
    pub fn edges(&self) -> usize {
        self.neighbours.len() / 2
    }

    /// Neighbours of `node`, ascending.
    pub fn neighbours(&self, node: usize) -> &[u32] {
        &self.neighbours[self.offsets[node]..self.offsets[node + 1]]
    }

    /// Weights of the edges to [`Graph::neighbours`].
    pub fn weights(&self, node: usize) -> &[f32] {
        &self.weights[self.offsets[node]..self.offsets[node + 1]]
    }

    /// (neighbour, weight) of `node`.
    pub fn links(&self, node: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        (self.neighbours(node).iter().zip(self.weights(node)))
            .map(|(n, w)| (*n as usize, f64::from(*w)))
    }

    /// Every edge (i, j, weight), i < j, by (i, j).
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32, f32)> + '_ {
        (0..self.nodes()).flat_map(move |i| {
            (self.neighbours(i).iter().zip(self.weights(i)))
                .filter(move |(j, _)| **j as usize > i)
                .map(move |(j, w)| (i as u32, *j, *w))
        })
    }
}

/// Refuses communities that are not one per node.
fn one_per_node(graph: &Graph, communities: &[u32]) -> Result<()> {
    if communities.len() != graph.nodes() {
        return Err(Error::mismatch(format!(
            "communities: expected one for each of {} nodes, got {}",
            graph.nodes(),
            communities.len()
        )));
    }
    Ok(())
}
