//! Measures of one graph. Where weights count, the docs say what becomes of their sign.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use betz_base::Result;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::{Graph, one_per_node};

/// Number of edges of each node.
pub fn degrees(graph: &Graph) -> Vec<u32> {
    (0..graph.nodes())
        .map(|node| graph.neighbours(node).len() as u32)
        .collect()
}

/// Sums of each node's positive and of its negative weights (these as magnitudes).
pub fn strengths(graph: &Graph) -> Vec<(f64, f64)> {
    (0..graph.nodes())
        .map(|node| {
            graph.links(node).fold((0.0, 0.0), |(plus, minus), (_, w)| {
                (plus + w.max(0.0), minus - w.min(0.0))
            })
        })
        .collect()
}

/// For each node twice the sum over its triangles of `f` of their three weights.
fn triangles(graph: &Graph, f: impl Fn(f64, f64, f64) -> f64 + Sync) -> Vec<f64> {
    (0..graph.nodes())
        .into_par_iter()
        .map_init(
            || vec![f64::NAN; graph.nodes()],
            |of, node| {
                graph.links(node).for_each(|(n, w)| of[n] = w);
                let mut sum = 0.0;
                for (n, w) in graph.links(node) {
                    for (m, v) in graph.links(n) {
                        if !of[m].is_nan() {
                            sum += f(w, v, of[m]);
                        }
                    }
                }
                graph.links(node).for_each(|(n, _)| of[n] = f64::NAN);
                sum
            },
        )
        .collect()
}

/// Share of each node's pairs of neighbours that are neighbours themselves; 0 with fewer than two
/// (`networkx.clustering`, `bct.clustering_coef_bu`).
pub fn clustering(graph: &Graph) -> Vec<f64> {
    divided_by_pairs(graph, triangles(graph, |_, _, _| 1.0))
}

/// Clustering after Onnela: the mean over pairs of neighbours of (w w w)^⅓, weights as magnitudes over
/// the largest magnitude in the graph (`networkx.clustering(weight=)`).
pub fn weighted_clustering(graph: &Graph) -> Vec<f64> {
    let largest = graph.weights.iter().fold(0.0_f32, |a, w| a.max(w.abs()));
    let scale = 1.0 / f64::from(if largest > 0.0 { largest } else { 1.0 });
    divided_by_pairs(
        graph,
        triangles(graph, |a, b, c| scale * (a * b * c).abs().cbrt()),
    )
}

fn divided_by_pairs(graph: &Graph, mut sums: Vec<f64>) -> Vec<f64> {
    for (node, sum) in sums.iter_mut().enumerate() {
        let degree = graph.neighbours(node).len() as f64;
        *sum = if degree > 1.0 {
            *sum / (degree * (degree - 1.0))
        } else {
            0.0
        };
    }
    sums
}

/// Three times the triangles over the pairs of edges that meet; 0 without such a pair.
pub fn transitivity(graph: &Graph) -> f64 {
    let closed: f64 = triangles(graph, |_, _, _| 1.0).iter().sum();
    let pairs: f64 = degrees(graph)
        .iter()
        .map(|d| f64::from(*d) * (f64::from(*d) - 1.0))
        .sum();
    if pairs > 0.0 { closed / pairs } else { 0.0 }
}

/// Connected components: the number of each node's, from 0 in the order of their first nodes, and how
/// many there are.
pub fn components(graph: &Graph) -> (Vec<u32>, usize) {
    let mut of = vec![u32::MAX; graph.nodes()];
    let mut count = 0;
    let mut open = Vec::new();
    for first in 0..graph.nodes() {
        if of[first] != u32::MAX {
            continue;
        }
        of[first] = count;
        open.push(first);
        while let Some(node) = open.pop() {
            for n in graph.neighbours(node) {
                let n = *n as usize;
                if of[n] == u32::MAX {
                    of[n] = count;
                    open.push(n);
                }
            }
        }
        count += 1;
    }
    (of, count as usize)
}

/// Pearson correlation of the degrees at the two ends of edges; `None` where all are equal or there is
/// no edge (`networkx.degree_assortativity_coefficient`).
pub fn assortativity(graph: &Graph) -> Option<f64> {
    let degree = degrees(graph);
    let (mut n, mut sum, mut squares, mut products) = (0.0, 0.0, 0.0, 0.0);
    for (i, j, _) in graph.pairs() {
        let (a, b) = (f64::from(degree[i as usize]), f64::from(degree[j as usize]));
        n += 2.0;
        sum += a + b;
        squares += a * a + b * b;
        products += 2.0 * a * b;
    }
    let spread = squares - sum * sum / n;
    (n > 0.0 && spread > 1e-9 * squares).then(|| (products - sum * sum / n) / spread)
}

/// Lengths of shortest paths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paths {
    /// Global efficiency: the mean of 1/d over all ordered pairs of nodes, 0 where there is no way.
    pub efficiency: f64,
    /// The mean of d over ordered pairs between which there is a way; NaN where there is none.
    pub length: f64,
    /// From how many nodes ways were looked for.
    pub sources: usize,
}

/// Efficiency and mean length of shortest paths. From all nodes, or from `sources` of them, drawn with
/// `seed`: the exact way takes O(N·E). A step is 1 long or, with `weighted`, 1/|w| (as BCT's).
pub fn paths(graph: &Graph, weighted: bool, sources: Option<usize>, seed: u64) -> Paths {
    let nodes = graph.nodes();
    let mut from: Vec<usize> = (0..nodes).collect();
    if let Some(count) = sources.filter(|count| *count < nodes) {
        from.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        from.truncate(count);
    }
    let sums: Vec<(f64, f64, u64)> = (from.par_iter())
        .map_init(
            || vec![f64::INFINITY; nodes],
            |distance, source| {
                distance.fill(f64::INFINITY);
                if weighted {
                    nearest_first(graph, *source, distance);
                } else {
                    breadth_first(graph, *source, distance);
                }
                let reached = distance.iter().filter(|d| d.is_finite() && **d > 0.0);
                reached.fold((0.0, 0.0, 0), |(e, l, n), d| (e + 1.0 / d, l + d, n + 1))
            },
        )
        .collect();
    let (efficiency, length, pairs) = sums
        .iter()
        .fold((0.0, 0.0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    let all = from.len() as f64 * (nodes as f64 - 1.0);
    Paths {
        efficiency: if all > 0.0 { efficiency / all } else { 0.0 },
        length: length / pairs as f64,
        sources: from.len(),
    }
}

fn breadth_first(graph: &Graph, source: usize, distance: &mut [f64]) {
    distance[source] = 0.0;
    let mut queue = vec![source as u32];
    let mut at = 0;
    while at < queue.len() {
        let node = queue[at] as usize;
        at += 1;
        for n in graph.neighbours(node) {
            if distance[*n as usize].is_infinite() {
                distance[*n as usize] = distance[node] + 1.0;
                queue.push(*n);
            }
        }
    }
}

fn nearest_first(graph: &Graph, source: usize, distance: &mut [f64]) {
    distance[source] = 0.0;
    // Distances are not negative: their bits sort as they do.
    let mut open = BinaryHeap::from([(Reverse(0_u64), source)]);
    while let Some((Reverse(bits), node)) = open.pop() {
        if f64::from_bits(bits) > distance[node] {
            continue;
        }
        for (n, w) in graph.links(node) {
            let way = distance[node] + 1.0 / w.abs();
            if way < distance[n] {
                distance[n] = way;
                open.push((Reverse(way.to_bits()), n));
            }
        }
    }
}

/// Participation coefficient of each node, 1 − Σ_c (k_c/k)² over its positive weights, and over its
/// negative ones; 0 where it has none (`bct.participation_coef_sign`).
///
/// # Errors
/// [`Mismatch`](betz_base::ErrorKind::Mismatch) unless there is a community for each node.
pub fn participation(graph: &Graph, communities: &[u32]) -> Result<Vec<(f64, f64)>> {
    one_per_node(graph, communities)?;
    let share = |node: usize, sign: f64| {
        let mut to: Vec<(u32, f64)> = (graph.links(node))
            .filter(|(_, w)| w * sign > 0.0)
            .map(|(n, w)| (communities[n], w.abs()))
            .collect();
        to.sort_by_key(|(c, _)| *c);
        let all: f64 = to.iter().map(|(_, w)| w).sum();
        let squares: f64 = to
            .chunk_by(|a, b| a.0 == b.0)
            .map(|c| c.iter().map(|(_, w)| w).sum::<f64>().powi(2))
            .sum();
        if all > 0.0 {
            1.0 - squares / (all * all)
        } else {
            0.0
        }
    };
    Ok((0..graph.nodes())
        .map(|node| (share(node, 1.0), share(node, -1.0)))
        .collect())
}

/// Within-module z of each node: the sum of its weights (signed) to its own community, against mean and
/// deviation over the community's nodes; 0 where they are all equal (`bct.module_degree_zscore`).
///
/// # Errors
/// [`Mismatch`](betz_base::ErrorKind::Mismatch) unless there is a community for each node.
pub fn within_module_z(graph: &Graph, communities: &[u32]) -> Result<Vec<f64>> {
    one_per_node(graph, communities)?;
    let mut inside: Vec<(u32, usize, f64)> = (0..graph.nodes())
        .map(|node| {
            let sum = graph
                .links(node)
                .filter(|(n, _)| communities[*n] == communities[node])
                .map(|(_, w)| w)
                .sum();
            (communities[node], node, sum)
        })
        .collect();
    inside.sort_by_key(|(c, node, _)| (*c, *node));
    let mut z = vec![0.0; graph.nodes()];
    for community in inside.chunk_by(|a, b| a.0 == b.0) {
        let n = community.len() as f64;
        let mean = community.iter().map(|(_, _, s)| s).sum::<f64>() / n;
        let deviation = (community
            .iter()
            .map(|(_, _, s)| (s - mean).powi(2))
            .sum::<f64>()
            / n)
            .sqrt();
        for (_, node, s) in community {
            z[*node] = if deviation > 0.0 {
                (s - mean) / deviation
            } else {
                0.0
            };
        }
    }
    Ok(z)
}
