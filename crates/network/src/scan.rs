//! Measures that are read off a tile's sums pair by pair, and thresholds that say how many rather than
//! how strong: every tile hands out the pairs that may be wanted, with a bound of their error, and what
//! the bound leaves open is decided in f64.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use betz_base::progress::check;
use betz_base::{Error, ErrorKind, Progress, Result};
use rayon::prelude::*;

use crate::engine::{ChunkEdges, Counts, too_many};
use crate::oracle::reaches;
use crate::tile::Hits;
use crate::tiling::{Tiling, above_diagonal, units};

/// A pair that may be wanted: i < j, both defined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) q: usize,
    pub(crate) i: u32,
    pub(crate) j: u32,
    pub(crate) value: f64,
    /// Of the error of `value`; infinite when it is to be computed in f64.
    pub(crate) bound: f64,
    pub(crate) lag: i16,
}

/// A worker's room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(crate) hits: Hits,
    pub(crate) sums: Vec<f32>,
    pub(crate) rebuilt: Vec<f32>,
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
}

/// A measure over one chunk of windows.
pub(crate) trait Scan: Sync {
    fn tiling(&self) -> Tiling;

    /// Hands out every pair of tile (i, j) whose size in window q may reach `least[q]`.
    fn tile(
        &self,
        i: usize,
        j: usize,
        least: &[f64],
        room: &mut Room,
        found: &mut dyn FnMut(Found),
    );

    /// What is compared with the threshold.
    fn size(&self, value: f64) -> f64;

    /// Value and lag in f64.
    fn exact(&self, q: usize, i: u32, j: u32, room: &mut Room) -> Option<(f64, i16)>;

    /// True when edges have lags.
    fn lagged(&self) -> bool {
        false
    }

    /// (window, node)s whose pairs no tile hands out, by node.
    fn extreme(&self) -> &[(u32, u32)] {
        &[]
    }
}

/// Which pairs are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    Reaching { threshold: f64, strict: bool },
    Strongest(usize),
    StrongestPerNode(usize),
}

/// A pair with bounds of its size.
#[derive(Debug, Clone, Copy)]
struct Candidate {
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
        if self.bar.is_some_and(|bar| candidate.high() < bar) {
            return;
        }
        self.list.push(candidate);
        if self.list.len() >= 2 * count + 64 {
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
            // What is decided in f64 may lie beside what was clear: those are beyond reach of each other.
            self.list
                .sort_by(|a, b| b.size.total_cmp(&a.size).then((a.i, a.j).cmp(&(b.i, b.j))));
            self.list.truncate(count);
        }
        self.list
    }
}

/// What the windows of a chunk keep while tiles are walked.
enum Kept {
    All(Vec<Mutex<Vec<Candidate>>>),
    Strongest(Vec<Mutex<Strongest>>, usize),
    PerNode(Vec<Mutex<Vec<Strongest>>>, usize),
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A thread that panicked is a bug that rayon passes on; what it held is not used again.
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Walks all tiles of `scan` and keeps the pairs that `keep` says; the same for any number of threads.
pub(crate) fn scan(
    scan: &dyn Scan,
    keep: Keep,
    most: u64,
    progress: &dyn Progress,
) -> Result<ChunkEdges> {
    let tiling = scan.tiling();
    let windows = tiling.windows;
    let kept = match keep {
        Keep::Reaching { .. } => Kept::All((0..windows).map(|_| Mutex::default()).collect()),
        Keep::Strongest(count) => {
            Kept::Strongest((0..windows).map(|_| Mutex::default()).collect(), count)
        }
        Keep::StrongestPerNode(count) => {
            // A node has no more partners than there are others.
            let count = count.min(tiling.nodes.saturating_sub(1)).max(1);
            let lists = || Mutex::new(vec![Strongest::default(); tiling.nodes]);
            Kept::PerNode((0..windows).map(|_| lists()).collect(), count)
        }
    };
    let (total, rechecked, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let least_of = |i: usize, j: usize| -> Vec<f64> {
        match &kept {
            Kept::All(lists) => match keep {
                Keep::Reaching { threshold, .. } => {
                    vec![threshold - crate::oracle::TIE; lists.len()]
                }
                _ => vec![f64::NEG_INFINITY; lists.len()],
            },
            Kept::Strongest(lists, _) => lists
                .iter()
                .map(|list| locked(list).bar.unwrap_or(f64::NEG_INFINITY))
                .collect(),
            Kept::PerNode(lists, _) => {
                let rows = i * tiling.height..((i + 1) * tiling.height).min(tiling.nodes);
                let columns = j * tiling.width..((j + 1) * tiling.width).min(tiling.nodes);
                let least = |lists: &[Strongest]| {
                    (lists.iter())
                        .map(|l| l.bar.unwrap_or(f64::NEG_INFINITY))
                        .fold(f64::INFINITY, f64::min)
                };
                (lists.iter())
                    .map(|lists| {
                        let lists = locked(lists);
                        least(&lists[rows.clone()]).min(least(&lists[columns.clone()]))
                    })
                    .collect()
            }
        }
    };
    let in_f64 = |q: usize, c: &Candidate, room: &mut Room| {
        rechecked.fetch_add(1, Ordering::Relaxed);
        let (value, lag) = scan.exact(q, c.i, c.j, room)?;
        Some(Candidate {
            value,
            lag,
            bound: 0.0,
            size: scan.size(value) + 0.0,
            ..*c
        })
    };
    let put = |q: usize, some: &[Candidate], room: &mut Room| match &kept {
        Kept::All(lists) => {
            let Keep::Reaching { threshold, strict } = keep else {
                return;
            };
            let sure: Vec<Candidate> = (some.iter())
                .filter_map(|c| {
                    if c.low() > threshold + crate::oracle::TIE {
                        return Some(*c);
                    }
                    in_f64(q, c, room).filter(|c| reaches(c.size, threshold, strict))
                })
                .collect();
            if total.fetch_add(sure.len() as u64, Ordering::Relaxed) + sure.len() as u64 > most {
                stop.store(true, Ordering::Relaxed);
            }
            locked(&lists[q]).extend(sure);
        }
        Kept::Strongest(lists, count) => {
            let some: Vec<Candidate> = (some.iter())
                .filter_map(|c| {
                    if c.bound.is_finite() {
                        Some(*c)
                    } else {
                        in_f64(q, c, room)
                    }
                })
                .collect();
            let mut list = locked(&lists[q]);
            some.iter().for_each(|c| list.push(*c, *count));
        }
        Kept::PerNode(lists, count) => {
            let some: Vec<Candidate> = (some.iter())
                .filter_map(|c| {
                    if c.bound.is_finite() {
                        Some(*c)
                    } else {
                        in_f64(q, c, room)
                    }
                })
                .collect();
            let mut lists = locked(&lists[q]);
            for c in some {
                lists[c.i as usize].push(c, *count);
                lists[c.j as usize].push(c, *count);
            }
        }
    };
    // Every 61st tile first: bars that are raised early keep later tiles' lists short.
    let mut tiles: Vec<(usize, usize)> = Vec::new();
    for unit in units(&tiling) {
        for j in unit.columns.0..unit.columns.1 {
            tiles.extend(
                (unit.rows.0..unit.rows.1)
                    .map(|i| (i, j))
                    .filter(|&(i, j)| above_diagonal(&tiling, i, j)),
            );
        }
    }
    let (first, rest): (Vec<_>, Vec<_>) =
        tiles.iter().enumerate().partition(|(at, _)| at % 61 == 0);
    for part in [first, rest] {
        part.par_chunks(8)
            .for_each_init(Room::default, |room, tiles| {
                let mut batch: Vec<(usize, Candidate)> = Vec::new();
                for (_, (i, j)) in tiles {
                    if stop.load(Ordering::Relaxed) || progress.cancelled() {
                        stop.store(true, Ordering::Relaxed);
                        return;
                    }
                    batch.clear();
                    scan.tile(*i, *j, &least_of(*i, *j), room, &mut |f: Found| {
                        // −0 and 0 are the same size.
                        let size = scan.size(f.value) + 0.0;
                        let (value, bound) = (f.value, f.bound);
                        batch.push((
                            f.q,
                            Candidate {
                                i: f.i,
                                j: f.j,
                                value,
                                bound,
                                size,
                                lag: f.lag,
                            },
                        ));
                    });
                    batch.sort_by_key(|(q, _)| *q);
                    let mut run: Vec<Candidate> = Vec::new();
                    for same in batch.chunk_by(|a, b| a.0 == b.0) {
                        run.clear();
                        run.extend(same.iter().map(|(_, c)| *c));
                        put(same[0].0, &run, room);
                    }
                }
            });
    }
    check(progress, "network")?;
    let mut extreme_in = vec![Vec::new(); windows];
    for &(q, node) in scan.extreme() {
        extreme_in[q as usize].push(node);
    }
    extreme_in
        .par_iter()
        .enumerate()
        .for_each_init(Room::default, |room, (q, extreme)| {
            for &a in extreme {
                for b in 0..tiling.nodes as u32 {
                    let other_rows = !tiling.only.contains(a.min(b));
                    if a == b || other_rows || b < a && extreme.binary_search(&b).is_ok() {
                        continue;
                    }
                    let bound = f64::INFINITY;
                    let c = Candidate {
                        i: a.min(b),
                        j: a.max(b),
                        value: 0.0,
                        bound,
                        size: 0.0,
                        lag: 0,
                    };
                    put(q, &[c], room);
                }
            }
        });
    if total.load(Ordering::Relaxed) > most {
        return Err(too_many(most));
    }
    let lists: Vec<Vec<Candidate>> = match kept {
        Kept::All(lists) => lists
            .into_iter()
            .map(|l| l.into_inner().unwrap_or_default())
            .collect(),
        Kept::Strongest(lists, count) => (lists.into_par_iter().enumerate())
            .map_init(Room::default, |room, (q, list)| {
                list.into_inner()
                    .unwrap_or_default()
                    .finish(count, |c| in_f64(q, c, room))
            })
            .collect(),
        Kept::PerNode(lists, count) => (lists.into_par_iter().enumerate())
            .map_init(Room::default, |room, (q, lists)| {
                let mut all: Vec<Candidate> = (lists.into_inner().unwrap_or_default().into_iter())
                    .flat_map(|list| list.finish(count, |c| in_f64(q, c, room)))
                    .collect();
                // Kept for both of its nodes: once, with the value that was decided in f64 if one was.
                all.sort_by(|a, b| {
                    (a.i, a.j)
                        .cmp(&(b.i, b.j))
                        .then(a.bound.total_cmp(&b.bound))
                });
                all.dedup_by_key(|c| (c.i, c.j));
                all
            })
            .collect(),
    };
    check(progress, "network")?;
    let edges: u64 = lists.iter().map(|l| l.len() as u64).sum();
    if edges > most {
        return Err(too_many(most));
    }
    let counts = Counts {
        rechecked: rechecked.into_inner(),
        ..Counts::default()
    };
    Ok(gather(lists, scan.lagged(), counts))
}

/// Lists of candidates as edges, by (i, j).
fn gather(mut lists: Vec<Vec<Candidate>>, lagged: bool, counts: Counts) -> ChunkEdges {
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
    edges
}

/// Keeps pairs of values that are exact as they are: one list of (i, j, value) a window.
pub(crate) fn keep_exact(
    lists: Vec<Vec<(u32, u32, f64)>>,
    nodes: usize,
    keep: Keep,
    size: impl Fn(f64) -> f64 + Sync,
    most: u64,
) -> Result<ChunkEdges> {
    let kept: Vec<Vec<Candidate>> = (lists.into_par_iter())
        .map(|list| {
            let all = list.into_iter().map(|(i, j, value)| Candidate {
                i,
                j,
                value,
                bound: 0.0,
                size: size(value) + 0.0,
                lag: 0,
            });
            match keep {
                Keep::Reaching { threshold, strict } => {
                    all.filter(|c| reaches(c.size, threshold, strict)).collect()
                }
                Keep::Strongest(count) => Strongest {
                    list: all.collect(),
                    bar: None,
                }
                .finish(count, |c| Some(*c)),
                Keep::StrongestPerNode(count) => {
                    let mut of = vec![Strongest::default(); nodes];
                    for c in all {
                        of[c.i as usize].list.push(c);
                        of[c.j as usize].list.push(c);
                    }
                    let mut all: Vec<Candidate> = of
                        .into_iter()
                        .flat_map(|list| list.finish(count, |c| Some(*c)))
                        .collect();
                    all.sort_unstable_by_key(|c| (c.i, c.j));
                    all.dedup_by_key(|c| (c.i, c.j));
                    all
                }
            }
        })
        .collect();
    if kept.iter().map(|l| l.len() as u64).sum::<u64>() > most {
        return Err(too_many(most));
    }
    Ok(gather(kept, false, Counts::default()))
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
