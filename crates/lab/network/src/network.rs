//! A network that changes from window to window: its edges, and what they were made with.

use betz_base::{Error, Result};

use crate::engine::ChunkEdges;
use crate::oracle::UndefinedReason;
use crate::spec::{Measure, NetworkSpec};
use crate::window::Chunk;

/// The origin of a network, and counts of its computation.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    /// Its specification.
    pub spec: NetworkSpec,
    /// Number of nodes.
    pub nodes: usize,
    /// Instants of the signal.
    pub samples: usize,
    /// Seconds from sample to sample, if known.
    pub sample_seconds: Option<f64>,
    /// Samples of segments that lie in no window.
    pub trailing: usize,
    /// Pairs that were close to the threshold and were decided in f64.
    pub rechecked: u64,
    /// Times a tile of pairs was summed from zero because a burst had left one of its windows.
    pub rebuilt: u64,
    /// (window, node)s that were correlated in f64 throughout, being too large or small for f32 sums.
    pub extreme: u64,
    /// Place of the computation: `cpu` and the kind of registers, or the devices.
    pub device: String,
}

/// Edges of one window, by (i, j), i < j.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowEdges<'a> {
    /// Number of the window, from 0.
    pub index: usize,
    /// First sample of the window.
    pub start: u64,
    /// The smaller node of each edge.
    pub i: &'a [u32],
    /// The larger node of each edge.
    pub j: &'a [u32],
    /// The value of each edge.
    pub r: &'a [f32],
    /// For [`Measure::Lagged`](crate::Measure::Lagged) by how many samples j's window lies later;
    /// empty otherwise.
    pub lag: &'a [i16],
    /// Nodes that are undefined in this window, ascending.
    pub undefined: &'a [u32],
    /// The reason for each of them.
    pub why: &'a [UndefinedReason],
}

impl<'a> WindowEdges<'a> {
    /// Number of edges.
    pub fn len(&self) -> usize {
        self.r.len()
    }

    /// True without an edge.
    pub fn is_empty(&self) -> bool {
        self.r.is_empty()
    }

    /// (i, j, value) of every edge, by (i, j).
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32, f32)> + 'a {
        let (i, j, r) = (self.i, self.j, self.r);
        (i.iter().zip(j).zip(r)).map(|((i, j), r)| (*i, *j, *r))
    }
}

/// A network over all windows of a signal: for each window its edges, sorted by (i, j).
///
/// Memory is 12 bytes per edge (14 with lags) and 16 per window.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    pub(crate) meta: Meta,
    pub(crate) window_start: Vec<u64>,
    pub(crate) indptr: Vec<u64>,
    pub(crate) i: Vec<u32>,
    pub(crate) j: Vec<u32>,
    pub(crate) r: Vec<f32>,
    pub(crate) lag: Vec<i16>,
    pub(crate) undefined_indptr: Vec<u64>,
    pub(crate) undefined: Vec<u32>,
    pub(crate) why: Vec<UndefinedReason>,
}

impl Network {
    /// A network without windows, to which [`push`](Self::push) adds some.
    pub fn empty(meta: Meta) -> Self {
        Self {
            meta,
            window_start: Vec::new(),
            indptr: vec![0],
            i: Vec::new(),
            j: Vec::new(),
            r: Vec::new(),
            lag: Vec::new(),
            undefined_indptr: vec![0],
            undefined: Vec::new(),
            why: Vec::new(),
        }
    }

    /// The same with other words on its origin, and other counts.
    #[must_use]
    pub fn with_meta(self, meta: Meta) -> Self {
        Self { meta, ..self }
    }

    /// Adds a window behind the last. Its edges are by (i, j), and it begins after the last one.
    ///
    /// # Errors
    /// `InvalidArgument` for a window that begins no later than the last one, lags where windows before have none (or
    /// the other way round), and edges of nodes that are not there or not by (i, j), i < j.
    pub fn push(&mut self, window: &WindowEdges<'_>) -> Result<()> {
        let nodes = self.meta.nodes as u32;
        let pairs = || window.i.iter().zip(window.j);
        let ordered = pairs().is_sorted_by(|a, b| a < b);
        if !ordered || pairs().any(|(i, j)| i >= j || *j >= nodes) {
            return Err(Error::argument(format!(
                "window {}: expected edges i < j of {nodes} nodes by (i, j), got others",
                self.len()
            )));
        }
        if let Some(last) = self
            .window_start
            .last()
            .filter(|last| **last >= window.start)
        {
            return Err(Error::argument(format!(
                "window {}: expected a start after {last}, got {}",
                self.len(),
                window.start
            )));
        }
        let lags =
            usize::from(matches!(self.meta.spec.measure, Measure::Lagged { .. })) * window.len();
        if window.lag.len() != lags
            || window.i.len() != window.len()
            || window.j.len() != window.len()
        {
            return Err(Error::argument(format!(
                "window {}: expected two nodes for each of {} edges and {lags} lags, got {}, {} and {}",
                self.len(),
                window.len(),
                window.i.len(),
                window.j.len(),
                window.lag.len()
            )));
        }
        self.window_start.push(window.start);
        self.i.extend_from_slice(window.i);
        self.j.extend_from_slice(window.j);
        self.r.extend_from_slice(window.r);
        self.lag.extend_from_slice(window.lag);
        self.undefined.extend_from_slice(window.undefined);
        self.why.extend_from_slice(window.why);
        self.indptr.push(self.r.len() as u64);
        self.undefined_indptr.push(self.undefined.len() as u64);
        Ok(())
    }

    /// Takes over the windows of a chunk.
    pub(crate) fn absorb(&mut self, chunk: Windows) {
        let (edges, undefined) = (self.r.len() as u64, self.undefined.len() as u64);
        self.window_start.extend(chunk.starts);
        self.indptr
            .extend(chunk.edges.indptr[1..].iter().map(|at| at + edges));
        self.undefined_indptr.extend(
            chunk.undefined_indptr[1..]
                .iter()
                .map(|at| *at as u64 + undefined),
        );
        append(&mut self.i, chunk.edges.i);
        append(&mut self.j, chunk.edges.j);
        append(&mut self.r, chunk.edges.r);
        append(&mut self.lag, chunk.edges.lag);
        append(&mut self.undefined, chunk.undefined);
        append(&mut self.why, chunk.why);
    }

    /// Takes over the windows of a network of the same nodes, and what was counted on the way to them.
    #[cfg(feature = "npz")]
    pub(crate) fn append(&mut self, other: Self) {
        let (edges, undefined) = (self.r.len() as u64, self.undefined.len() as u64);
        self.meta.rechecked += other.meta.rechecked;
        self.meta.rebuilt += other.meta.rebuilt;
        self.meta.extreme += other.meta.extreme;
        self.window_start.extend(other.window_start);
        (self.indptr).extend(other.indptr[1..].iter().map(|at| at + edges));
        (self.undefined_indptr).extend(other.undefined_indptr[1..].iter().map(|at| at + undefined));
        append(&mut self.i, other.i);
        append(&mut self.j, other.j);
        append(&mut self.r, other.r);
        append(&mut self.lag, other.lag);
        append(&mut self.undefined, other.undefined);
        append(&mut self.why, other.why);
    }

    /// Its origin, and counts of its computation.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.meta.nodes
    }

    /// Number of windows.
    pub fn len(&self) -> usize {
        self.window_start.len()
    }

    /// True without a window.
    pub fn is_empty(&self) -> bool {
        self.window_start.is_empty()
    }

    /// Number of edges over all windows.
    pub fn edges(&self) -> u64 {
        self.r.len() as u64
    }

    /// Window `k`, `None` beyond the last.
    pub fn window(&self, k: usize) -> Option<WindowEdges<'_>> {
        let start = *self.window_start.get(k)?;
        let edges = self.indptr[k] as usize..self.indptr[k + 1] as usize;
        let lags = if self.lag.is_empty() {
            0..0
        } else {
            edges.clone()
        };
        let undefined = self.undefined_indptr[k] as usize..self.undefined_indptr[k + 1] as usize;
        Some(WindowEdges {
            index: k,
            start,
            i: &self.i[edges.clone()],
            j: &self.j[edges.clone()],
            r: &self.r[edges],
            lag: &self.lag[lags],
            undefined: &self.undefined[undefined.clone()],
            why: &self.why[undefined],
        })
    }

    /// All windows.
    pub fn windows(&self) -> impl Iterator<Item = WindowEdges<'_>> {
        (0..self.len()).filter_map(|k| self.window(k))
    }

    /// First samples of the windows.
    pub fn window_start(&self) -> &[u64] {
        &self.window_start
    }

    /// The beginnings of each window's edges in [`Network::i`], [`Network::j`] and [`Network::r`], and
    /// the end of the last.
    pub fn indptr(&self) -> &[u64] {
        &self.indptr
    }

    /// The smaller nodes of all edges.
    pub fn i(&self) -> &[u32] {
        &self.i
    }

    /// The larger nodes of all edges.
    pub fn j(&self) -> &[u32] {
        &self.j
    }

    /// The values of all edges.
    pub fn r(&self) -> &[f32] {
        &self.r
    }

    /// The lags of all edges, empty unless lagged.
    pub fn lag(&self) -> &[i16] {
        &self.lag
    }

    /// Share of all pairs of nodes that are edges in window `k`; 0 with fewer than two nodes.
    pub fn density(&self, k: usize) -> Option<f64> {
        let nodes = self.nodes() as f64;
        let pairs = nodes * (nodes - 1.0) / 2.0;
        let edges = self.window(k)?.len() as f64;
        Some(if pairs > 0.0 { edges / pairs } else { 0.0 })
    }

    /// (window, node)s that are undefined: constant, and not finite.
    pub fn undefined(&self) -> (u64, u64) {
        let constant = self
            .why
            .iter()
            .filter(|why| **why == UndefinedReason::Constant)
            .count() as u64;
        (constant, self.why.len() as u64 - constant)
    }
}

fn append<T>(to: &mut Vec<T>, mut from: Vec<T>) {
    if to.is_empty() {
        *to = from;
    } else {
        to.append(&mut from);
    }
}

/// The windows of a chunk, done.
pub(crate) struct Windows {
    first: usize,
    starts: Vec<u64>,
    edges: ChunkEdges,
    undefined_indptr: Vec<usize>,
    undefined: Vec<u32>,
    why: Vec<UndefinedReason>,
}

impl Windows {
    /// `undefined` holds (window of the chunk, node, why), the nodes ascending.
    pub(crate) fn new(
        chunk: &Chunk,
        edges: ChunkEdges,
        undefined: &[(u32, u32, UndefinedReason)],
    ) -> Self {
        let mut indptr = vec![0; chunk.windows + 1];
        for (q, _, _) in undefined {
            indptr[*q as usize + 1] += 1;
        }
        for q in 0..chunk.windows {
            indptr[q + 1] += indptr[q];
        }
        let mut next = indptr.clone();
        let mut nodes = vec![0; undefined.len()];
        let mut why = vec![UndefinedReason::Constant; undefined.len()];
        for (q, node, reason) in undefined {
            let next = &mut next[*q as usize];
            (nodes[*next], why[*next]) = (*node, *reason);
            *next += 1;
        }
        Self {
            first: chunk.first,
            starts: (0..chunk.windows)
                .map(|q| chunk.start_of(q) as u64)
                .collect(),
            edges,
            undefined_indptr: indptr,
            undefined: nodes,
            why,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn window(&self, q: usize) -> WindowEdges<'_> {
        let range = self.edges.indptr[q] as usize..self.edges.indptr[q + 1] as usize;
        let undefined = self.undefined_indptr[q]..self.undefined_indptr[q + 1];
        WindowEdges {
            index: self.first + q,
            start: self.starts[q],
            i: &self.edges.i[range.clone()],
            j: &self.edges.j[range.clone()],
            r: &self.edges.r[range.clone()],
            lag: self.edges.lag.get(range).unwrap_or_default(),
            undefined: &self.undefined[undefined.clone()],
            why: &self.why[undefined],
        }
    }
}
