//! Distances that have to last.

use crate::engine::ChunkEdges;
use crate::spec::{Measure, NetworkSpec};
use crate::window::Chunk;

/// Distances that have lasted: the pairs of the window before and for how many windows they were near.
pub(crate) struct Hold {
    windows: usize,
    step: usize,
    start: Option<u64>,
    near: Vec<((u32, u32), usize)>,
}

impl Hold {
    /// The filter that `spec` asks for, if any.
    pub(crate) fn of(spec: &NetworkSpec) -> Option<Self> {
        match spec.measure {
            Measure::Euclidean { hold } if hold > 1 => Some(Self {
                windows: hold,
                step: spec.window.step,
                start: None,
                near: Vec::new(),
            }),
            _ => None,
        }
    }

    /// Removes pairs that have not lasted from a chunk's windows.
    pub(crate) fn filter(&mut self, chunk: &Chunk, edges: &mut ChunkEdges) {
        let mut kept = ChunkEdges {
            indptr: vec![0],
            counts: edges.counts,
            ..ChunkEdges::default()
        };
        for q in 0..chunk.windows {
            let start = chunk.start_of(q) as u64;
            if self
                .start
                .is_none_or(|before| before + self.step as u64 != start)
            {
                self.near.clear();
            }
            self.start = Some(start);
            let mut near = Vec::new();
            let mut before = self.near.iter().peekable();
            for e in edges.indptr[q] as usize..edges.indptr[q + 1] as usize {
                let pair = (edges.i[e], edges.j[e]);
                while before.next_if(|(other, _)| *other < pair).is_some() {}
                let lasted = 1 + before
                    .next_if(|(other, _)| *other == pair)
                    .map_or(0, |(_, n)| *n);
                near.push((pair, lasted));
                if lasted >= self.windows {
                    kept.i.push(pair.0);
                    kept.j.push(pair.1);
                    kept.r.push(edges.r[e]);
                }
            }
            self.near = near;
            kept.indptr.push(kept.r.len() as u64);
        }
        *edges = kept;
    }
}
