//! Measures that are read off a tile's sums pair by pair, and thresholds that say how many rather than
//! how strong: every tile hands out the pairs that may be wanted, with a bound of their error, and what
//! the bound leaves open is decided in f64.

mod exact;
#[cfg(test)]
mod tests;

use betz_base::lock::lock;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use betz_base::progress::check;
use betz_base::{Error, ErrorKind, Progress, Result};
use rayon::prelude::*;

use crate::engine::{ChunkEdges, Counts, too_many};
use crate::oracle::{TIE, UndefinedReason, reaches};
use crate::rank;
use crate::signal::Signal;
use crate::spec::{Measure, NetworkSpec, Threshold};
use crate::tile::Hits;
use crate::tiling::{Tiling, above_diagonal, units};

pub(crate) use exact::ExactPairs;

/// A pair that may be wanted: i < j, both defined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PairEstimate {
    pub(crate) q: usize,
    pub(crate) i: u32,
    pub(crate) j: u32,
    pub(crate) value: f64,
    /// Bound of the error of `value`; infinite if it is to be computed in f64.
    pub(crate) bound: f64,
    pub(crate) lag: i16,
}

impl PairEstimate {
    pub(crate) fn new(q: usize, (i, j): (usize, usize), value: f64, bound: f64) -> Self {
        Self {
            q,
            i: i as u32,
            j: j as u32,
            value,
            bound,
            lag: 0,
        }
    }
}

/// Row block and column block of a tile.
pub(crate) type Tile = (usize, usize);

/// Receives the pairs of a tile.
pub(crate) type Emit<'a> = &'a mut dyn FnMut(PairEstimate);

/// A worker's buffers.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(crate) hits: Hits,
    pub(crate) rank_hits: Vec<rank::Hit>,
    pub(crate) sums: Vec<f32>,
    pub(crate) rebuilt: Vec<f32>,
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
}

impl Room {
    /// Reads `length` samples from `start` of the nodes i and j into `x` and `y`.
    pub(crate) fn read_pair(
        &mut self,
        signal: &Signal<'_>,
        (i, j): (u32, u32),
        start: usize,
        length: usize,
    ) {
        for (node, samples) in [(i, &mut self.x), (j, &mut self.y)] {
            samples.resize(length, 0.0);
            signal.column(node as usize, start, samples);
        }
    }
}

/// A measure over one chunk of windows.
pub(crate) trait Scan: Sync {
    fn tiling(&self) -> Tiling;

    /// Hands out every pair of a tile whose size in window q may reach `least[q]`.
    fn tile(&self, tile: Tile, least: &[f64], room: &mut Room, emit: Emit<'_>);

    /// The size of a value, which is compared with the threshold.
    fn size(&self, value: f64) -> f64;

    /// Value and lag in f64.
    fn exact(&self, q: usize, i: u32, j: u32, room: &mut Room) -> Option<(f64, i16)>;

    /// True when edges have lags.
    fn has_lags(&self) -> bool {
        false
    }

    /// (window, node)s whose pairs no tile hands out, by node.
    fn extreme(&self) -> &[(u32, u32)] {
        &[]
    }
}

/// Rule by which pairs are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    Reaching { threshold: f64, strict: bool },
    Strongest(usize),
    StrongestPerNode(usize),
}

impl Keep {
    /// The rule of `spec` for a network of `nodes`.
    pub(crate) fn new(spec: &NetworkSpec, nodes: usize) -> Self {
        match spec.threshold {
            Threshold::Absolute(value) => Self::Reaching {
                threshold: match spec.measure {
                    measure if measure.is_distance() => -value,
                    // I = −½ ln(1 − r²)
                    Measure::GaussianInformation => (-(-2.0 * value).exp_m1()).sqrt(),
                    _ => value,
                },
                strict: spec.strict,
            },
            Threshold::Density(share) => {
                let pairs = nodes as f64 * (nodes as f64 - 1.0) / 2.0;
                Self::Strongest((share * pairs).round() as usize)
            }
            Threshold::Top(count) => Self::Strongest(count.min(nodes.saturating_mul(nodes))),
            Threshold::TopPerNode(count) => Self::StrongestPerNode(count),
        }
    }

    /// Lists of candidates per window: one, or one per node.
    fn lists(self, nodes: usize) -> usize {
        match self {
            Self::StrongestPerNode(_) => nodes,
            _ => 1,
        }
    }

    /// Most candidates that a list may end with.
    fn count(self, nodes: usize) -> usize {
        match self {
            Self::Reaching { .. } => usize::MAX,
            Self::Strongest(count) => count,
            // A node has no more partners than there are others.
            Self::StrongestPerNode(count) => count.min(nodes.saturating_sub(1)).max(1),
        }
    }
}

/// A pair with bounds of its size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    i: u32,
    j: u32,
    value: f64,
    bound: f64,
    size: f64,
    lag: i16,
}

impl Candidate {
    fn low(&self) -> f64 {
        self.size - self.bound
    }

    fn high(&self) -> f64 {
        self.size + self.bound
    }
}

/// The strongest `count` seen so far and whatever may be among them.
#[derive(Debug, Default, Clone)]
struct Strongest {
    list: Vec<Candidate>,
    /// No pair below this is among the strongest.
    bar: Option<f64>,
}

fn kth_largest(list: &[Candidate], k: usize, key: impl Fn(&Candidate) -> f64) -> f64 {
    let mut keys: Vec<f64> = list.iter().map(key).collect();
    let (_, kth, _) = keys.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    *kth
}

impl Strongest {
    fn push(&mut self, candidate: Candidate, count: usize) {
        if count == 0 || self.bar.is_some_and(|bar| candidate.high() < bar) {
            return;
        }
        self.list.push(candidate);
        if self.list.len() >= count.saturating_mul(2).saturating_add(64) {
            let bar = kth_largest(&self.list, count, Candidate::low);
            self.list.retain(|c| c.high() >= bar);
            self.bar = Some(bar);
        }
    }

    /// The strongest `count`, ties by (i, j); what the bounds leave open is decided by `exact`.
    fn finish(
        mut self,
        count: usize,
        mut exact: impl FnMut(&Candidate) -> Option<Candidate>,
    ) -> Vec<Candidate> {
        if count == 0 {
            return Vec::new();
        }
        // Also when there are just as many: how many more were dropped on the way must not matter.
        if self.list.len() >= count {
            let low = kth_largest(&self.list, count, Candidate::low);
            let high = kth_largest(&self.list, count, Candidate::high);
            let open = |c: &Candidate| c.bound > 0.0 && c.high() >= low && c.low() <= high;
            self.list.retain(|c| c.high() >= low);
            self.list = (self.list.iter())
                .filter_map(|c| if open(c) { exact(c) } else { Some(*c) })
                .collect();
            // Pairs decided in f64 and clear pairs sort together: their order was never in doubt.
            self.list
                .sort_by(|a, b| b.size.total_cmp(&a.size).then((a.i, a.j).cmp(&(b.i, b.j))));
            self.list.truncate(count);
        } else {
            // A value of which nothing is known is decided in any case.
            self.list = (self.list.iter())
                .filter_map(|c| {
                    if c.bound.is_finite() {
                        Some(*c)
                    } else {
                        exact(c)
                    }
                })
                .collect();
        }
        self.list
    }
}

/// A window's lists of candidates: one, or one per node.
#[derive(Clone)]
struct Lists {
    lists: Vec<Strongest>,
    count: usize,
}

impl Lists {
    fn new(keep: Keep, nodes: usize) -> Self {
        Self {
            lists: vec![Strongest::default(); keep.lists(nodes)],
            count: keep.count(nodes),
        }
    }

    fn push(&mut self, candidate: Candidate) {
        if let [list] = &mut self.lists[..] {
            return list.push(candidate, self.count);
        }
        for node in [candidate.i, candidate.j] {
            self.lists[node as usize].push(candidate, self.count);
        }
    }

    /// No pair of a node in `rows` with one in `columns` is kept whose size is below this.
    fn bar(&self, rows: Range<usize>, columns: Range<usize>) -> f64 {
        let bar = |list: &Strongest| list.bar.unwrap_or(f64::NEG_INFINITY);
        match &self.lists[..] {
            [list] => bar(list),
            lists => (lists[rows].iter().chain(&lists[columns]))
                .map(bar)
                .fold(f64::INFINITY, f64::min),
        }
    }

    /// The candidates that stay, each once.
    fn finish(self, mut exact: impl FnMut(&Candidate) -> Option<Candidate>) -> Vec<Candidate> {
        let (one, count) = (self.lists.len() == 1, self.count);
        let mut all: Vec<Candidate> = (self.lists.into_iter())
            .flat_map(|list| list.finish(count, &mut exact))
            .collect();
        if !one {
            // Kept for both of its nodes: once, with the value that was decided in f64 if one was.
            all.sort_by(|a, b| {
                (a.i, a.j)
                    .cmp(&(b.i, b.j))
                    .then(a.bound.total_cmp(&b.bound))
            });
            all.dedup_by_key(|c| (c.i, c.j));
        }
        all
    }
}

/// A walk over the tiles of one chunk, and the candidates so far.
struct Selection<'a> {
    scan: &'a dyn Scan,
    keep: Keep,
    tiling: Tiling,
    windows: Vec<Mutex<Lists>>,
    /// More pairs than this are refused.
    most: u64,
    /// Pairs that reach the threshold.
    total: AtomicU64,
    /// Pairs that were decided in f64.
    rechecked: AtomicU64,
    stop: AtomicBool,
}

/// Walks all tiles of `scan` and keeps the pairs that `keep` says; the same for any number of threads.
pub(crate) fn scan(
    scan: &dyn Scan,
    keep: Keep,
    most: u64,
    progress: &dyn Progress,
) -> Result<ChunkEdges> {
    let tiling = scan.tiling();
    let lists = || Mutex::new(Lists::new(keep, tiling.nodes));
    let selection = Selection {
        scan,
        keep,
        windows: (0..tiling.windows).map(|_| lists()).collect(),
        tiling,
        most,
        total: AtomicU64::new(0),
        rechecked: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    for tiles in selection.tiles() {
        selection.walk(&tiles, progress);
    }
    check(progress, "network")?;
    selection.walk_extreme();
    if selection.total.load(Ordering::Relaxed) > most {
        return Err(too_many(most));
    }
    let edges = selection.finish()?;
    check(progress, "network")?;
    Ok(edges)
}

impl Selection<'_> {
    /// All tiles with a pair; every 61st first, because bars that are raised early keep later tiles' lists short.
    fn tiles(&self) -> [Vec<(usize, usize)>; 2] {
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        let all = units(&self.tiling).into_iter().flat_map(|unit| {
            let rows = unit.rows.0..unit.rows.1;
            (unit.columns.0..unit.columns.1).flat_map(move |j| rows.clone().map(move |i| (i, j)))
        });
        let all = all.filter(|&(i, j)| above_diagonal(&self.tiling, i, j));
        for (at, tile) in all.enumerate() {
            match at % 61 {
                0 => first.push(tile),
                _ => rest.push(tile),
            }
        }
        [first, rest]
    }

    /// For every window the size below which no pair of tile (i, j) is kept.
    fn least(&self, i: usize, j: usize) -> Vec<f64> {
        if let Keep::Reaching { threshold, .. } = self.keep {
            return vec![threshold - TIE; self.windows.len()];
        }
        let Tiling {
            height,
            width,
            nodes,
            ..
        } = self.tiling;
        let rows = i * height..((i + 1) * height).min(nodes);
        let columns = j * width..((j + 1) * width).min(nodes);
        (self.windows.iter())
            .map(|lists| lock(lists).bar(rows.clone(), columns.clone()))
            .collect()
    }

    /// The candidate with its value in f64; `None` if it has none.
    fn in_f64(&self, q: usize, c: &Candidate, room: &mut Room) -> Option<Candidate> {
        self.rechecked.fetch_add(1, Ordering::Relaxed);
        let (value, lag) = self.scan.exact(q, c.i, c.j, room)?;
        Some(Candidate {
            value,
            lag,
            bound: 0.0,
            size: self.scan.size(value) + 0.0,
            ..*c
        })
    }

    /// The candidate if it may be kept, decided in f64 where its bound leaves that open or is infinite.
    fn decide(&self, q: usize, c: &Candidate, room: &mut Room) -> Option<Candidate> {
        match self.keep {
            Keep::Reaching { threshold, .. } if c.low() > threshold + TIE => Some(*c),
            Keep::Reaching { threshold, strict } => self
                .in_f64(q, c, room)
                .filter(|c| reaches(c.size, threshold, strict)),
            _ if c.bound.is_finite() => Some(*c),
            _ => self.in_f64(q, c, room),
        }
    }

    /// Keeps those of `some` candidates of window `q` that may be wanted.
    fn put(&self, q: usize, some: impl Iterator<Item = Candidate>, room: &mut Room) {
        let sure: Vec<Candidate> = some.filter_map(|c| self.decide(q, &c, room)).collect();
        if let Keep::Reaching { .. } = self.keep {
            let more = sure.len() as u64;
            if self.total.fetch_add(more, Ordering::Relaxed) + more > self.most {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        let mut lists = lock(&self.windows[q]);
        sure.into_iter().for_each(|c| lists.push(c));
    }

    fn walk(&self, tiles: &[(usize, usize)], progress: &dyn Progress) {
        tiles
            .par_chunks(8)
            .for_each_init(Room::default, |room, tiles| {
                let mut batch: Vec<(usize, Candidate)> = Vec::new();
                for &(i, j) in tiles {
                    if self.stop.load(Ordering::Relaxed) || progress.cancelled() {
                        self.stop.store(true, Ordering::Relaxed);
                        return;
                    }
                    batch.clear();
                    let least = self.least(i, j);
                    (self.scan).tile((i, j), &least, room, &mut |pair| {
                        let candidate = Candidate {
                            i: pair.i,
                            j: pair.j,
                            value: pair.value,
                            bound: pair.bound,
                            // −0 and 0 are the same size.
                            size: self.scan.size(pair.value) + 0.0,
                            lag: pair.lag,
                        };
                        batch.push((pair.q, candidate));
                    });
                    batch.sort_by_key(|(q, _)| *q);
                    for same in batch.chunk_by(|a, b| a.0 == b.0) {
                        self.put(same[0].0, same.iter().map(|(_, c)| *c), room);
                    }
                }
            });
    }

    /// Pairs of the nodes that no tile hands out.
    fn walk_extreme(&self) {
        let mut windows = vec![Vec::new(); self.windows.len()];
        for &(q, node) in self.scan.extreme() {
            windows[q as usize].push(node);
        }
        (windows.par_iter().enumerate()).for_each_init(Room::default, |room, (q, extreme)| {
            for &a in extreme {
                let others = (0..self.tiling.nodes as u32).filter(|&b| {
                    let other_rows = !self.tiling.only.contains(a.min(b));
                    a != b && !other_rows && !(b < a && extreme.binary_search(&b).is_ok())
                });
                let pairs = others.map(|b| Candidate {
                    i: a.min(b),
                    j: a.max(b),
                    value: 0.0,
                    bound: f64::INFINITY,
                    size: 0.0,
                    lag: 0,
                });
                self.put(q, pairs, room);
            }
        });
    }

    fn finish(mut self) -> Result<ChunkEdges> {
        let windows = std::mem::take(&mut self.windows);
        let lists: Vec<Vec<Candidate>> = (windows.into_par_iter().enumerate())
            .map_init(Room::default, |room, (q, lists)| {
                let lists = lists.into_inner();
                let lists = lists.unwrap_or_else(std::sync::PoisonError::into_inner);
                lists.finish(|c| self.in_f64(q, c, room))
            })
            .collect();
        let counts = Counts {
            rechecked: self.rechecked.load(Ordering::Relaxed),
            ..Counts::default()
        };
        gather(lists, self.scan.has_lags(), self.most, counts)
    }
}

/// The strongest `count` of a window's pairs (i, j, value), ties by (i, j), and the number of those that `exact` decided.
/// A value is off by at most `bound` of it; one with an infinite bound is decided in any case.
pub(crate) fn strongest_of(
    pairs: impl Iterator<Item = (u32, u32, f32)>,
    (count, bound): (usize, &dyn Fn(f64) -> f64),
    size: impl Fn(f64) -> f64,
    mut exact: impl FnMut(u32, u32) -> Option<f64>,
) -> (Vec<Candidate>, u64) {
    let candidate = |(i, j, value): (u32, u32, f64), bound| Candidate {
        i,
        j,
        value,
        bound,
        // −0 and 0 are the same size.
        size: size(value) + 0.0,
        lag: 0,
    };
    let mut strongest = Strongest::default();
    for (i, j, value) in pairs {
        let value = f64::from(value);
        let bound = bound(value);
        let value = if bound.is_finite() { value } else { 0.0 };
        strongest.push(candidate((i, j, value), bound), count);
    }
    let mut decided = 0;
    let kept = strongest.finish(count, |c| {
        decided += 1;
        Some(candidate((c.i, c.j, exact(c.i, c.j)?), 0.0))
    });
    (kept, decided)
}

/// Lists of candidates as edges, by (i, j).
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for more than `most`.
pub(crate) fn gather(
    mut lists: Vec<Vec<Candidate>>,
    lagged: bool,
    most: u64,
    counts: Counts,
) -> Result<ChunkEdges> {
    if lists.iter().map(|l| l.len() as u64).sum::<u64>() > most {
        return Err(too_many(most));
    }
    lists
        .par_iter_mut()
        .for_each(|list| list.sort_unstable_by_key(|c| (c.i, c.j)));
    let mut edges = ChunkEdges {
        indptr: vec![0],
        counts,
        ..ChunkEdges::default()
    };
    for list in lists {
        edges.i.extend(list.iter().map(|c| c.i));
        edges.j.extend(list.iter().map(|c| c.j));
        edges.r.extend(list.iter().map(|c| c.value as f32));
        if lagged {
            edges.lag.extend(list.iter().map(|c| c.lag));
        }
        edges.indptr.push(edges.r.len() as u64);
    }
    Ok(edges)
}

/// All pairs of a window with their exact values, and the nodes that are undefined in it.
pub(crate) type ExactWindow = (Vec<(u32, u32, f64)>, Vec<(u32, UndefinedReason)>);

/// Keeps pairs of values that are exact as they are: one list of (i, j, value) per window.
pub(crate) fn keep_exact(
    lists: Vec<Vec<(u32, u32, f64)>>,
    nodes: usize,
    keep: Keep,
    size: impl Fn(f64) -> f64 + Sync,
    most: u64,
) -> Result<ChunkEdges> {
    let kept: Vec<Vec<Candidate>> = (lists.into_par_iter())
        .map(|pairs| {
            let mut lists = Lists::new(keep, nodes);
            for (i, j, value) in pairs {
                let size = size(value) + 0.0;
                match keep {
                    Keep::Reaching { threshold, strict } if !reaches(size, threshold, strict) => {}
                    _ => lists.push(Candidate {
                        i,
                        j,
                        value,
                        bound: 0.0,
                        size,
                        lag: 0,
                    }),
                }
            }
            lists.finish(|c| Some(*c))
        })
        .collect();
    gather(kept, false, most, Counts::default())
}

/// Refuses a signal with more nodes than a measure that needs all pairs at once takes.
pub(crate) fn at_most(nodes: usize, most: usize, what: &str) -> Result<()> {
    if nodes > most {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "{what}: expected at most {most} nodes, got {nodes}; it needs a matrix of all pairs"
            ),
        ));
    }
    Ok(())
}
