//! From the pieces that devices leave to the edges of a chunk, by (i, j).

use rayon::prelude::*;

use betz_base::Result;

use super::order::Piece;
use super::walker::WalkResult;
use crate::engine::{ChunkEdges, Counts, Edge, split_by, too_many};
use crate::window::Chunk;

/// An edge that the host has decided to be none.
const NONE: u64 = u64::MAX;

/// Edges that are looked through for doubts at once.
const STRETCH: usize = 1 << 16;

impl Piece {
    /// The edges of a row.
    fn row(&self, row: usize) -> &[u64] {
        let begin = if row > 0 { self.ends[row - 1] } else { 0 };
        &self.edges[begin as usize..self.ends[row] as usize]
    }

    /// Number of edges of the rows before `row`.
    fn before(&self, row: usize) -> usize {
        if row > 0 {
            self.ends[row - 1] as usize
        } else {
            0
        }
    }

    /// Decides what the device left in doubt, of `nodes` nodes; the windows of those that are no edges.
    fn decide(&mut self, nodes: usize, decide: &Decide<'_>) -> Vec<usize> {
        let doubts: Vec<usize> = (self.edges.par_chunks(STRETCH).enumerate())
            .flat_map_iter(|(at, edges)| {
                let doubts = edges
                    .iter()
                    .enumerate()
                    .filter(|(_, e)| value(**e).is_nan());
                doubts.map(move |(k, _)| at * STRETCH + k)
            })
            .collect();
        let (mut x, mut y) = (Vec::new(), Vec::new());
        let mut dropped = Vec::new();
        for at in doubts {
            let row = self.ends.partition_point(|end| *end as usize <= at);
            let (q, i, j) = (row / nodes, row % nodes, column(self.edges[at]));
            self.edges[at] = match decide((q, i, j as usize), &mut x, &mut y) {
                Some(value) => edge(j, value as f32),
                None => {
                    dropped.push(q);
                    NONE
                }
            };
        }
        dropped
    }
}

fn edge(j: u32, r: f32) -> u64 {
    u64::from(j) << 32 | u64::from(r.to_bits())
}

fn column(edge: u64) -> u32 {
    (edge >> 32) as u32
}

fn value(edge: u64) -> f32 {
    f32::from_bits(edge as u32)
}

/// The value of a pair (window, i, j) that the device left in doubt, if it is an edge; with room for two nodes' samples.
pub(super) type Decide<'a> =
    dyn Fn((usize, usize, usize), &mut Vec<f64>, &mut Vec<f64>) -> Option<f64> + 'a;

/// The edges of all pieces, and `extra` ones, of so many nodes; what the device left in doubt is decided here.
///
/// # Errors
/// More edges than `most`.
pub(super) fn join(
    nodes: usize,
    chunk: &Chunk,
    (most, decide): (u64, &Decide<'_>),
    found: Vec<WalkResult>,
    mut extra: Vec<Vec<Edge>>,
) -> Result<ChunkEdges> {
    extra.resize(chunk.windows, Vec::new());
    (extra.iter_mut()).for_each(|edges| edges.sort_unstable_by_key(|e| (e.0, e.1)));
    let mut counts = Counts::default();
    let mut pieces = Vec::new();
    for found in found {
        counts.rechecked += found.count.rechecked;
        counts.rebuilt += found.count.rebuilt;
        pieces.extend(found.pieces);
    }
    let mut sizes: Vec<usize> = extra.iter().map(Vec::len).collect();
    for piece in &pieces {
        for (q, size) in sizes.iter_mut().enumerate() {
            *size += piece.before((q + 1) * nodes) - piece.before(q * nodes);
        }
    }
    for piece in &mut pieces {
        for q in piece.decide(nodes, decide) {
            sizes[q] -= 1;
        }
    }
    let total: usize = sizes.iter().sum();
    if total as u64 > most {
        return Err(too_many(most));
    }
    let mut edges = ChunkEdges {
        indptr: vec![0],
        counts,
        i: vec![0; total],
        j: vec![0; total],
        r: vec![0.0; total],
        ..ChunkEdges::default()
    };
    let mut end = 0;
    for size in &sizes {
        end += *size as u64;
        edges.indptr.push(end);
    }
    let parts = (split_by(&sizes, &mut edges.i).into_par_iter())
        .zip(split_by(&sizes, &mut edges.j))
        .zip(split_by(&sizes, &mut edges.r))
        .zip(extra);
    (parts.enumerate()).for_each_init(Vec::new, |row, (q, (((i, j), r), extra))| {
        let mut at = 0;
        let mut extra = extra.into_iter().peekable();
        for node in 0..nodes {
            let mut take = |edges: &[u64]| {
                for edge in edges.iter().filter(|edge| **edge != NONE) {
                    (i[at], j[at], r[at]) = (node as u32, column(*edge), value(*edge));
                    at += 1;
                }
            };
            let mut own = pieces.iter().map(|piece| piece.row(q * nodes + node));
            let more = extra.next_if(|edge| edge.0 as usize == node);
            if let (1, None) = (pieces.len(), more) {
                take(own.next().unwrap_or(&[]));
                continue;
            }
            row.clear();
            row.extend(own.flatten().copied());
            let mut next = more;
            while let Some((_, j, r)) = next {
                row.push(edge(j, r));
                next = extra.next_if(|edge| edge.0 as usize == node);
            }
            row.sort_unstable();
            take(row);
        }
    });
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::SampleTransform;
    use crate::engine::{Cut, exact_of};
    use crate::signal::Signal;
    use crate::spec::Sign;
    use crate::window::{Rows, Window};

    /// Edges by row and column in `of` pieces; in doubt if the value is NaN.
    fn walk_results(nodes: usize, of: usize) -> Vec<WalkResult> {
        let mut all = vec![
            (1, 0, 1, f32::NAN),
            (1, 0, 2, f32::NAN),
            (2, 5, 9, 1.0),
            (0, 7, 8, 0.25),
        ];
        all.extend((0..4000).map(|at| (2, at / 50, 50 + at % 50, at as f32)));
        all.sort_by_key(|e| (e.0, e.1, e.2));
        let mut pieces: Vec<Piece> = Vec::new();
        for own in 0..of {
            let mut piece = Piece::default();
            for row in 0..3 * nodes {
                let of_row = all.iter().enumerate().filter(|(k, e)| {
                    k % of == own && (e.0, e.1 as usize) == (row / nodes, row % nodes)
                });
                piece.edges.extend(of_row.map(|(_, e)| edge(e.2, e.3)));
                piece.ends.push(piece.edges.len() as u32);
            }
            pieces.push(piece);
        }
        let last = pieces.split_off(of / 2);
        let part = |pieces| WalkResult {
            pieces,
            ..WalkResult::default()
        };
        vec![part(pieces), part(last)]
    }

    #[test]
    fn pieces_become_sorted_edges_and_doubts_are_decided() {
        // Nodes 0 and 1 are equal, 2 is 0 upside down, the others differ; 100 nodes.
        let nodes = 100;
        let samples: Vec<f32> = (0..12 * nodes)
            .map(|at| {
                let (t, node) = (at / nodes, at % nodes);
                let wave = ((t * t * 7) % 11) as f32;
                match node {
                    0 | 1 => wave,
                    2 => -wave,
                    _ => ((t * (node + 3) * 31) % 17) as f32,
                }
            })
            .collect();
        let signal = Signal::new(&samples, nodes).unwrap();
        let chunk = Chunk {
            start: 0,
            windows: 3,
            window: Window::new(10, 1),
            first: 0,
            rows: Rows::ALL,
        };
        let mut cut = Cut {
            thresholds: vec![1.0; 3],
            sign: Sign::Positive,
            strict: false,
            most: 1 << 20,
        };
        let join = |cut: &Cut, found, extra| {
            let decide = |pair: (usize, usize, usize), x: &mut Vec<f64>, y: &mut Vec<f64>| {
                exact_of(&signal, &chunk, SampleTransform::Samples, pair, x, y)
                    .filter(|r| cut.keeps(pair.0, *r))
            };
            join(nodes, &chunk, (cut.most, &decide), found, extra)
        };
        let extra = vec![vec![(7, 9, 0.75), (3, 4, 0.5), (0, 99, -0.5)]];
        let first = join(&cut, walk_results(nodes, 1), extra.clone()).unwrap();
        assert_eq!(first.indptr, [0, 4, 5, 4006]);
        assert_eq!(
            (&first.i[..5], &first.j[..5]),
            (&[0, 3, 7, 7, 0][..], &[99, 4, 8, 9, 1][..])
        );
        assert_eq!((first.r[3], first.r[4]), (0.75, 1.0));
        let pairs: Vec<_> = (5..4006).map(|e| (first.i[e], first.j[e])).collect();
        assert!(pairs.is_sorted());
        for of in [2, 3, 7] {
            let other = join(&cut, walk_results(nodes, of), extra.clone()).unwrap();
            assert_eq!(
                (other.i, other.j, other.r),
                (first.i.clone(), first.j.clone(), first.r.clone())
            );
        }
        // Strictly more than 1 is nothing; fewer than there are is refused.
        cut.strict = true;
        let strict = join(&cut, walk_results(nodes, 1), Vec::new()).unwrap();
        assert_eq!(strict.indptr, [0, 1, 1, 4002]);
        cut.most = 4001;
        assert!(join(&cut, walk_results(nodes, 1), Vec::new()).is_err());
    }
}
