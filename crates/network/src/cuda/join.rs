//! From the slots that devices leave to the edges of a chunk, by (i, j).

use rayon::prelude::*;

use betz_base::Result;
use betz_kernels::network::EMPTY;

use super::walker::Found;
use crate::block::Of;
use crate::engine::{ChunkEdges, Counts, Cut, Edge, exact_of, too_many};
use crate::oracle::reaches;
use crate::signal::Signal;
use crate::window::Chunk;

const NODE_BITS: u32 = 27;
const NODE: u64 = (1 << NODE_BITS) - 1;

/// A slot with an edge: its key without the window, and its value.
type Slot = (u64, f32);

/// The edges of all slots, and `extra` ones; slots that the device left in doubt are decided here.
///
/// # Errors
/// More edges than `cut.most`.
pub(super) fn join(
    signal: &Signal<'_>,
    chunk: &Chunk,
    cut: &Cut,
    found: Vec<Found>,
    mut extra: Vec<Vec<Edge>>,
) -> Result<ChunkEdges> {
    extra.resize(chunk.windows, Vec::new());
    let mut counts = Counts::default();
    let mut sizes = vec![0_usize; chunk.windows];
    for found in &found {
        counts.rechecked += found.count.rechecked;
        counts.rebuilt += found.count.rebuilt;
        for key in found.keys.iter().filter(|key| **key != EMPTY) {
            sizes[window_of(*key)] += 1;
        }
    }
    let mut next = Vec::with_capacity(chunk.windows);
    let mut all = 0;
    for size in &sizes {
        next.push(all);
        all += size;
    }
    let mut slots: Vec<Slot> = vec![(0, 0.0); all];
    for found in found {
        for (key, value) in found.keys.into_iter().zip(found.values) {
            if key != EMPTY {
                let at = &mut next[window_of(key)];
                slots[*at] = (key & ((1 << (2 * NODE_BITS)) - 1), value);
                *at += 1;
            }
        }
    }
    let mut windows = Vec::with_capacity(chunk.windows);
    let mut rest = &mut slots[..];
    for size in sizes {
        let (now, later) = rest.split_at_mut(size);
        windows.push(now);
        rest = later;
    }
    let lists: Vec<Vec<Slot>> = (windows.into_par_iter().zip(extra).enumerate())
        .map_init(Sorter::default, |sorter, (q, (slots, extra))| {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            let mut kept: Vec<Slot> = Vec::with_capacity(slots.len() + extra.len());
            for &(key, value) in slots.iter() {
                if !value.is_nan() {
                    kept.push((key, value));
                    continue;
                }
                let pair = (q, (key >> NODE_BITS) as usize, (key & NODE) as usize);
                if let Some(r) = exact_of(signal, chunk, Of::Samples, pair, &mut x, &mut y)
                    && reaches(cut.sign.size(r), cut.thresholds[q], cut.strict)
                {
                    kept.push((key, r as f32));
                }
            }
            let edge = |(i, j, r): Edge| (u64::from(i) << NODE_BITS | u64::from(j), r);
            kept.extend(extra.into_iter().map(edge));
            sorter.sort(&mut kept, signal.nodes());
            kept
        })
        .collect();
    drop(slots);
    let mut edges = ChunkEdges {
        indptr: vec![0],
        counts,
        ..ChunkEdges::default()
    };
    let total: usize = lists.iter().map(Vec::len).sum();
    if total as u64 > cut.most {
        return Err(too_many(cut.most));
    }
    edges.i.reserve_exact(total);
    edges.j.reserve_exact(total);
    edges.r.reserve_exact(total);
    for list in lists {
        edges
            .i
            .extend(list.iter().map(|(key, _)| (key >> NODE_BITS) as u32));
        edges
            .j
            .extend(list.iter().map(|(key, _)| (key & NODE) as u32));
        edges.r.extend(list.iter().map(|(_, value)| *value));
        edges.indptr.push(edges.r.len() as u64);
    }
    Ok(edges)
}

fn window_of(key: u64) -> usize {
    (key >> (2 * NODE_BITS)) as usize
}

/// A worker's room to sort in.
#[derive(Default)]
struct Sorter {
    next: Vec<usize>,
    other: Vec<Slot>,
}

impl Sorter {
    /// By i, then j: by counting where there are many.
    fn sort(&mut self, slots: &mut [Slot], nodes: usize) {
        if slots.len() < nodes.max(64) {
            slots.sort_unstable_by_key(|slot| slot.0);
            return;
        }
        self.other.clear();
        self.other.resize(slots.len(), (0, 0.0));
        Self::by(&mut self.next, slots, &mut self.other, nodes, |key| {
            key & NODE
        });
        Self::by(&mut self.next, &self.other, slots, nodes, |key| {
            key >> NODE_BITS
        });
    }

    fn by(
        next: &mut Vec<usize>,
        from: &[Slot],
        to: &mut [Slot],
        nodes: usize,
        node: impl Fn(u64) -> u64,
    ) {
        next.clear();
        next.resize(nodes + 1, 0);
        for slot in from {
            next[node(slot.0) as usize + 1] += 1;
        }
        for at in 1..next.len() {
            next[at] += next[at - 1];
        }
        for slot in from {
            let at = &mut next[node(slot.0) as usize];
            to[*at] = *slot;
            *at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Sign;
    use crate::window::Window;

    #[test]
    fn slots_in_any_order_become_sorted_edges_and_doubts_are_decided() {
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
            window: Window {
                length: 10,
                step: 1,
            },
            first: 0,
        };
        let mut cut = Cut {
            thresholds: vec![1.0; 3],
            sign: Sign::Positive,
            strict: false,
            most: 1 << 20,
        };
        let key = |q: u64, i: u64, j: u64| q << 54 | i << 27 | j;
        let found = |shift: usize| {
            let mut keys = vec![
                key(1, 0, 1),
                EMPTY,
                key(1, 0, 2),
                key(2, 5, 9),
                key(0, 7, 8),
            ];
            let mut values = vec![f32::NAN, f32::NAN, f32::NAN, 1.0, 0.25];
            // Many in window 2, all different, in an order far from theirs.
            for at in 0..4000 {
                let of = (at * 1237) % 4000;
                keys.push(key(2, of / 50, 50 + of % 50));
                values.push(of as f32);
            }
            keys.rotate_left(shift);
            values.rotate_left(shift);
            let (keys_b, values_b) = (keys.split_off(1000), values.split_off(1000));
            let part = |keys, values| Found {
                keys,
                values,
                ..Found::default()
            };
            vec![part(keys, values), part(keys_b, values_b)]
        };
        let extra = vec![vec![(3, 4, 0.5), (0, 99, -0.5)]];
        let first = join(&signal, &chunk, &cut, found(0), extra.clone()).unwrap();
        assert_eq!(first.indptr, [0, 3, 4, 4005]);
        assert_eq!(
            (&first.i[..4], &first.j[..4]),
            (&[0, 3, 7, 0][..], &[99, 4, 8, 1][..])
        );
        assert_eq!(first.r[3], 1.0);
        let pairs: Vec<_> = (4..4005).map(|e| (first.i[e], first.j[e])).collect();
        assert!(pairs.is_sorted());
        for shift in [1, 999, 2500] {
            let other = join(&signal, &chunk, &cut, found(shift), extra.clone()).unwrap();
            assert_eq!(
                (other.i, other.j, other.r),
                (first.i.clone(), first.j.clone(), first.r.clone())
            );
        }
        // Strictly more than 1 is nothing; fewer than there are is refused.
        cut.strict = true;
        let strict = join(&signal, &chunk, &cut, found(0), Vec::new()).unwrap();
        assert_eq!(strict.indptr, [0, 1, 1, 4002]);
        cut.most = 4001;
        assert!(join(&signal, &chunk, &cut, found(0), Vec::new()).is_err());
    }
}
