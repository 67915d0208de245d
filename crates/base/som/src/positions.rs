//! Nodes at positions of their own, and which of them touch.

use betz_base::{Error, Result};
use rayon::prelude::*;

/// Most nodes at positions of their own: the distances of all pairs are found.
pub const MAX_POSITIONS: usize = 1 << 14;

/// Share of a squared distance that is rounding.
const ROUNDING: f64 = 1e-9;

/// Positions of nodes in up to three dimensions; the others are 0.
#[derive(Debug, PartialEq)]
pub(super) struct Positions {
    places: Vec<[f64; 3]>,
    ranges: [(f64, f64); 3],
    neighbours: Vec<Vec<u32>>,
}

impl Positions {
    pub(super) fn new(values: &[f64], dims: usize) -> Result<Self> {
        if !(1..=3).contains(&dims) {
            return Err(Error::argument(format!(
                "positions: expected one to three numbers for each node, got {dims}"
            )));
        }
        let nodes = values.len() / dims;
        if values.is_empty() || nodes > MAX_POSITIONS || !values.len().is_multiple_of(dims) {
            return Err(Error::argument(format!(
                "positions: expected 1 to {MAX_POSITIONS} nodes of {dims} numbers each, got {} numbers",
                values.len()
            )));
        }
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::argument(format!(
                "positions, node {}, number {}: expected a finite number, got {}",
                at / dims,
                at % dims,
                values[at]
            )));
        }
        let places: Vec<[f64; 3]> = (values.chunks_exact(dims))
            .map(|from| {
                let mut place = [0.0; 3];
                place[..dims].copy_from_slice(from);
                place
            })
            .collect();
        let mut ranges = [(f64::INFINITY, f64::NEG_INFINITY); 3];
        for place in &places {
            for ((low, high), at) in ranges.iter_mut().zip(place) {
                *low = low.min(*at);
                *high = high.max(*at);
            }
        }
        let neighbours = (0..nodes)
            .into_par_iter()
            .map(|node| neighbours(&places, node))
            .collect();
        Ok(Self {
            places,
            ranges,
            neighbours,
        })
    }

    pub(super) fn places(&self) -> &[[f64; 3]] {
        &self.places
    }

    /// Smallest and largest number of each dimension.
    pub(super) fn ranges(&self) -> [(f64, f64); 3] {
        self.ranges
    }

    /// The nodes that touch `node`, in ascending order.
    pub(super) fn neighbours(&self, node: usize) -> &[u32] {
        &self.neighbours[node]
    }
}

fn squared(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Nodes of which no third one lies inside the sphere whose diameter ends at `node` and at them.
fn neighbours(places: &[[f64; 3]], node: usize) -> Vec<u32> {
    let here = &places[node];
    let mut near: Vec<(f64, u32)> = (0..places.len())
        .filter(|&other| other != node)
        .map(|other| (squared(here, &places[other]), other as u32))
        .collect();
    near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut found: Vec<u32> = (near.iter().enumerate())
        .filter(|&(rank, &(far, other))| {
            // A third node inside the sphere is nearer to both ends than they are to each other.
            let inside = |&(first, third): &(f64, u32)| {
                let second = squared(&places[third as usize], &places[other as usize]);
                first + second < far * (1.0 - ROUNDING)
            };
            !near[..rank].iter().any(inside)
        })
        .map(|(_, &(_, other))| other)
        .collect();
    found.sort_unstable();
    found
}
