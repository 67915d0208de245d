//! Random graphs with the degrees of a given one, and small-worldness against them.

use std::collections::HashSet;

use betz_base::Result;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::Graph;
use super::measures::{clustering, paths, transitivity};

/// A graph with the same degrees and other neighbours (Maslov and Sneppen 2002): `swaps` times an edge,
/// two edges a–b, c–d become a–d, c–b if neither is there yet. Weights stay with their edges' first
/// nodes.
pub(crate) fn rewired(graph: &Graph, swaps: usize, seed: u64) -> Graph {
    shuffled(graph, swaps, seed, |_, _| true)
}

/// The same where every swap brings nodes closer on a ring in the order of their numbers: a lattice
/// of the same degrees, nearly (Sporns and Zwi 2004).
pub(crate) fn latticed(graph: &Graph, swaps: usize, seed: u64) -> Graph {
    let nodes = graph.nodes() as u32;
    let apart = move |(a, b): (u32, u32)| a.abs_diff(b).min(nodes - a.abs_diff(b));
    shuffled(
        graph,
        swaps,
        seed,
        move |old: [(u32, u32); 2], new: [(u32, u32); 2]| {
            apart(new[0]) + apart(new[1]) <= apart(old[0]) + apart(old[1])
        },
    )
}

fn shuffled(
    graph: &Graph,
    swaps: usize,
    seed: u64,
    wanted: impl Fn([(u32, u32); 2], [(u32, u32); 2]) -> bool,
) -> Graph {
    let mut edges: Vec<(u32, u32, f32)> = graph.pairs().collect();
    let key = |a: u32, b: u32| u64::from(a.min(b)) << 32 | u64::from(a.max(b));
    let mut present: HashSet<u64> = edges.iter().map(|(a, b, _)| key(*a, *b)).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    if edges.len() > 1 {
        for _ in 0..swaps.saturating_mul(edges.len()) {
            let (e, f) = (
                rng.random_range(0..edges.len()),
                rng.random_range(0..edges.len()),
            );
            let (a, b, _) = edges[e];
            let (mut c, mut d, _) = edges[f];
            if rng.random_bool(0.5) {
                std::mem::swap(&mut c, &mut d);
            }
            let fresh = a != c && a != d && b != c && b != d;
            if !fresh
                || present.contains(&key(a, d))
                || present.contains(&key(c, b))
                || !wanted([(a, b), (c, d)], [(a, d), (c, b)])
            {
                continue;
            }
            present.remove(&key(a, b));
            present.remove(&key(c, d));
            present.insert(key(a, d));
            present.insert(key(c, b));
            edges[e].1 = d;
            (edges[f].0, edges[f].1) = (c, b);
        }
    }
    for edge in &mut edges {
        (edge.0, edge.1) = (edge.0.min(edge.1), edge.0.max(edge.1));
    }
    edges.sort_by_key(|(a, b, _)| (*a, *b));
    Graph::sorted(graph.nodes(), || edges.iter().copied())
}

/// Small-worldness of a graph, weights not looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmallWorld {
    /// (C/C_r)/(L/L_r), C the mean clustering (`networkx.sigma`: transitivity).
    pub sigma: f64,
    /// The same with transitivity for C.
    pub sigma_transitivity: f64,
    /// L_r/L − C/C_l with a lattice of the same degrees (`networkx.omega`).
    pub omega: f64,
    /// Random graphs that it is held against.
    pub rewirings: usize,
}

/// Small-worldness against `rewirings` random graphs of the same degrees (10 swaps an edge each) and as
/// many lattices. L is the mean over pairs between which there is a way. NaN without triangles or ways.
///
/// # Errors
/// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for no rewiring.
pub fn small_world(graph: &Graph, rewirings: usize, seed: u64) -> Result<SmallWorld> {
    if rewirings == 0 {
        return Err(betz_base::Error::argument(
            "rewirings: expected at least 1, got 0",
        ));
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let of = |graph: &Graph| {
        (
            mean(clustering(graph)),
            transitivity(graph),
            paths(graph, false, None, 0).length,
        )
    };
    let (c, t, l) = of(graph);
    let others: Vec<((f64, f64, f64), f64)> = (0..rewirings as u64)
        .into_par_iter()
        .map(|k| {
            let random = of(&rewired(graph, 10, seed.wrapping_add(2 * k)));
            let lattice = mean(clustering(&latticed(
                graph,
                10,
                seed.wrapping_add(2 * k + 1),
            )));
            (random, lattice)
        })
        .collect();
    let n = rewirings as f64;
    let (mut cr, mut tr, mut lr, mut cl) = (0.0, 0.0, 0.0, 0.0);
    for ((c, t, l), lattice) in others {
        (cr, tr, lr, cl) = (cr + c / n, tr + t / n, lr + l / n, cl + lattice / n);
    }
    Ok(SmallWorld {
        sigma: (c / cr) / (l / lr),
        sigma_transitivity: (t / tr) / (l / lr),
        omega: lr / l - c / cl,
        rewirings,
    })
}
