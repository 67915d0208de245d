//! Correlations of one chunk of windows: tiles dealt to threads, pairs near the threshold decided in
//! f64, edges joined window by window in the order of their nodes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use betz_base::progress::check;
use betz_base::{Error, ErrorKind, Progress, Result};
use rayon::prelude::*;

use crate::block::{Rules, SampleTransform};
use crate::oracle::{self, reaches};
use crate::panel::{Limits, Panels};
use crate::scan::{Room, Tile};
use crate::signal::Signal;
use crate::spec::Sign;
use crate::tile::{self, Hits};
use crate::tiling::{Tiling, Unit, above_diagonal, units};
use crate::window::Chunk;

/// Which correlations are edges.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    /// One per window of the chunk.
    pub(crate) thresholds: Vec<f64>,
    pub(crate) sign: Sign,
    pub(crate) strict: bool,
    /// More edges than this in the chunk are refused.
    pub(crate) most: u64,
}

impl Cut {
    fn size(&self, r: f64) -> f64 {
        self.sign.size(r)
    }

    /// True when an exact value is an edge of window `q`.
    pub(crate) fn keeps(&self, q: usize, value: f64) -> bool {
        reaches(self.size(value), self.thresholds[q], self.strict)
    }
}

/// Counts of a chunk's correlation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) rechecked: u64,
    pub(crate) rebuilt: u64,
    pub(crate) exact: u64,
}

/// Edges of all windows of a chunk: those of window q are `indptr[q]..indptr[q + 1]`, by (i, j).
#[derive(Debug, Clone, Default)]
pub(crate) struct ChunkEdges {
    pub(crate) indptr: Vec<u64>,
    pub(crate) i: Vec<u32>,
    pub(crate) j: Vec<u32>,
    pub(crate) r: Vec<f32>,
    /// Empty unless lagged.
    pub(crate) lag: Vec<i16>,
    pub(crate) counts: Counts,
}

/// Edges of a unit, by window; within one in the order of its tiles.
struct UnitEdges {
    offsets: Vec<usize>,
    /// (row − first row) << 48 | (column − first column) << 32 | bits of the value
    items: Vec<u64>,
    counts: Counts,
}

/// The edges of one chunk of windows, tile by tile.
pub(crate) trait TileEdges: Sync {
    fn tiling(&self) -> Tiling;

    /// Puts a tile's edges behind `room.hits`, for one window and row the columns ascending; returns their number.
    fn tile(&self, tile: Tile, cut: &Cut, room: &mut Room, counts: &mut Counts) -> u64;
}

/// The f64 correlation of a pair (window, i, j) of the panels' chunk.
pub(crate) fn exact(
    signal: &Signal<'_>,
    panels: &Panels,
    pair: (usize, usize, usize),
    x: &mut Vec<f64>,
    y: &mut Vec<f64>,
) -> Option<f64> {
    exact_of(signal, &panels.chunk, panels.of, pair, x, y)
}

/// The f64 correlation, of samples or what is made of them, of nodes i and j in window `q` of `chunk`.
pub(crate) fn exact_of(
    signal: &Signal<'_>,
    chunk: &Chunk,
    of: SampleTransform,
    (q, i, j): (usize, usize, usize),
    x: &mut Vec<f64>,
    y: &mut Vec<f64>,
) -> Option<f64> {
    let (start, w) = (chunk.start_of(q), chunk.window.length);
    x.resize(w, 0.0);
    y.resize(w, 0.0);
    signal.column(i, start, x);
    signal.column(j, start, y);
    match of {
        SampleTransform::Samples => oracle::pearson(x, y),
        SampleTransform::Tapered(taper) => oracle::tapered(x, y, taper),
    }
}

/// The edges of a chunk, the same for any number of threads. `extra` are those that no tile hands out, window by window, or
/// none at all.
///
/// # Errors
/// [`ErrorKind::Interrupted`]; [`ErrorKind::InvalidArgument`] for more edges than `cut.most`.
pub(crate) fn correlate(
    tiles: &dyn TileEdges,
    cut: &Cut,
    extra: Vec<Vec<Edge>>,
    progress: &dyn Progress,
) -> Result<ChunkEdges> {
    let tiling = tiles.tiling();
    let units = units(&tiling);
    let (found, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let walk = UnitWalk {
        tiles,
        cut,
        found: &found,
        stop: &stop,
    };
    let parts: Vec<UnitEdges> = (units.par_iter())
        .map_init(Room::default, |room, unit| {
            if stop.load(Ordering::Relaxed) || progress.cancelled() {
                stop.store(true, Ordering::Relaxed);
            }
            walk.edges(*unit, room)
        })
        .collect();
    check(progress, "correlation")?;
    let total = found.load(Ordering::Relaxed) + extra.iter().map(|e| e.len() as u64).sum::<u64>();
    if total > cut.most {
        return Err(too_many(cut.most));
    }
    Ok(join(&tiling, &units, parts, extra))
}

/// More edges than asked for at most.
pub(crate) fn too_many(most: u64) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "edges: expected at most {most}, found more; a higher threshold, a density or the strongest few per node keep fewer, or allow more"
        ),
    )
}

/// The inputs of all units of a chunk, and what they share.
struct UnitWalk<'a> {
    tiles: &'a dyn TileEdges,
    cut: &'a Cut,
    /// Edges of all units so far.
    found: &'a AtomicU64,
    stop: &'a AtomicBool,
}

impl UnitWalk<'_> {
    fn edges(&self, unit: Unit, room: &mut Room) -> UnitEdges {
        let tiling = self.tiles.tiling();
        let (height, width) = (tiling.height, tiling.width);
        let mut counts = Counts::default();
        // Of each tile: where its runs end, and its corner, rows << 16 | columns from the unit's.
        let mut corners = Vec::new();
        room.hits.clear(tiling.windows);
        'tiles: for j in unit.columns.0..unit.columns.1 {
            for i in unit.rows.0..unit.rows.1 {
                if !above_diagonal(&tiling, i, j) {
                    break;
                }
                if self.stop.load(Ordering::Relaxed) {
                    break 'tiles;
                }
                let new = self.tiles.tile((i, j), self.cut, room, &mut counts);
                let (row, column) = ((i - unit.rows.0) * height, (j - unit.columns.0) * width);
                corners.push((room.hits.runs.len(), ((row << 16) | column) as u32));
                if new > 0 && self.found.fetch_add(new, Ordering::Relaxed) + new > self.cut.most {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
        }
        by_window(tiling.windows, &room.hits, &corners, width, counts)
    }
}

/// Correlations from f32 sums; f64 decides what is close to the threshold.
pub(crate) struct Correlations<'a> {
    signal: &'a Signal<'a>,
    panels: &'a Panels,
    rules: Rules,
    limits: Limits,
    all_doubtful: Limits,
}

impl<'a> Correlations<'a> {
    pub(crate) fn new(signal: &'a Signal<'a>, panels: &'a Panels, cut: &Cut, rules: Rules) -> Self {
        let margin = rules.margin();
        let limits = Limits::new(
            panels.arch,
            cut.thresholds.iter().map(|t| (t - margin) as f32),
            // From here on f32 is enough; rounded up.
            (cut.thresholds.iter()).map(|t| ((t + margin) as f32).next_up()),
        );
        Self {
            signal,
            panels,
            rules,
            all_doubtful: limits.all_doubtful(),
            limits,
        }
    }

    /// The value of a pair (window, i, j) that the kernel found, from f64 if in doubt; `None` if it is no edge.
    fn decide(
        &self,
        pair: (usize, usize, usize),
        r: f32,
        cut: &Cut,
        counts: &mut Counts,
        (x, y): (&mut Vec<f64>, &mut Vec<f64>),
    ) -> Option<f32> {
        let rules = self.rules;
        let (size, threshold) = (cut.size(f64::from(r)), cut.thresholds[pair.0]);
        let close = size <= threshold + rules.margin()
            && (rules.one_sided || size >= threshold - rules.margin());
        if close && rules.recheck {
            counts.rechecked += 1;
            return exact(self.signal, self.panels, pair, x, y)
                .filter(|r| cut.keeps(pair.0, *r))
                .map(|r| r as f32);
        }
        (rules.recheck || size >= threshold).then_some(r)
    }
}

impl TileEdges for Correlations<'_> {
    fn tiling(&self) -> Tiling {
        self.panels.tiling()
    }

    fn tile(&self, (i, j): Tile, cut: &Cut, room: &mut Room, counts: &mut Counts) -> u64 {
        let panels = self.panels;
        let tiling = panels.tiling();
        let (height, width) = (tiling.height, tiling.width);
        let Room {
            hits,
            rebuilt,
            x,
            y,
            ..
        } = room;
        let mut write = panels.rebuilder(panels, self.signal, (i, j), rebuilt);
        let mut rebuild = |q: usize| {
            counts.rebuilt += 1;
            write(q)
        };
        let from = hits.values.len();
        let (row0, column0) = (i * height, j * width);
        // Inside the triangle and the signal every pair counts.
        let whole = column0 >= row0 + height && column0 + width <= panels.nodes;
        let limits = if whole {
            &self.limits
        } else {
            &self.all_doubtful
        };
        let filter = panels.filter(i, j, limits, cut.sign == Sign::Both);
        // SAFETY: panels are made for registers that the processor has; `rebuilt` stays untouched
        // until it is asked for again.
        #[allow(unsafe_code)]
        unsafe {
            tile::edges(panels.arch, &panels.walk(i, j), &filter, &mut rebuild, hits);
        }
        let mut gone = 0;
        for (at, q, place) in hits.doubtful.drain(..) {
            let (a, b) = (row0 + place / width, column0 + place % width);
            let value = &mut hits.values[at];
            let inside = b > a && b < panels.nodes;
            let mut decide = || self.decide((q, a, b), *value, cut, counts, (&mut *x, &mut *y));
            let kept = if inside { decide() } else { None };
            *value = kept.unwrap_or_else(|| {
                hits.counts[q] -= 1;
                gone += 1;
                f32::NAN
            });
        }
        (hits.values.len() - from - gone) as u64
    }
}

/// Brings a unit's edges into the order of their windows.
fn by_window(
    windows: usize,
    hits: &Hits,
    tiles: &[(usize, u32)],
    width: usize,
    counts: Counts,
) -> UnitEdges {
    let mut offsets = Vec::with_capacity(windows + 1);
    let mut total = 0;
    for count in hits.counts[..windows].iter().chain([&0]) {
        offsets.push(total);
        total += *count as usize;
    }
    let mut next = offsets.clone();
    let mut sorted = vec![0; total];
    let mut values = hits.values.iter();
    let mut from = 0;
    for &(end, corner) in tiles {
        for run in &hits.runs[from..end] {
            let place = usize::from(run.place);
            // Tiles are as wide as a power of two.
            let (row, column) = (place >> width.trailing_zeros(), place & (width - 1));
            let place = u64::from(corner + ((row << 16) | column) as u32) << 32;
            for (q, r) in run.windows().zip(values.by_ref()) {
                // No edge after all.
                if r.is_nan() {
                    continue;
                }
                let at = &mut next[q];
                sorted[*at] = place | u64::from(r.to_bits());
                *at += 1;
            }
        }
        from = end;
    }
    UnitEdges {
        offsets,
        items: sorted,
        counts,
    }
}

/// An edge of a window.
pub(crate) type Edge = (u32, u32, f32);

/// Edges of the (window, node)s `extreme`, nodes ascending, that f32 cannot hold, all in f64; one list per
/// window, or none at all.
pub(crate) fn extreme_pairs(
    signal: &Signal<'_>,
    (chunk, of): (&Chunk, SampleTransform),
    extreme: &[(u32, u32)],
    cut: &Cut,
    progress: &dyn Progress,
) -> Result<Vec<Vec<Edge>>> {
    if extreme.is_empty() {
        return Ok(Vec::new());
    }
    let mut nodes = vec![Vec::new(); chunk.windows];
    for &(q, node) in extreme {
        nodes[q as usize].push(node);
    }
    nodes
        .par_iter()
        .enumerate()
        .map(|(q, extreme)| {
            check(progress, "correlation")?;
            let (mut x, mut y) = (Vec::new(), Vec::new());
            let mut edges = Vec::new();
            for &a in extreme {
                for b in 0..signal.nodes() as u32 {
                    // A pair of two such nodes once.
                    if a == b || b < a && extreme.binary_search(&b).is_ok() {
                        continue;
                    }
                    let (i, j) = (a.min(b), a.max(b));
                    if !chunk.rows.contains(i) {
                        continue;
                    }
                    let pair = (q, i as usize, j as usize);
                    if let Some(r) = exact_of(signal, chunk, of, pair, &mut x, &mut y)
                        && reaches(cut.size(r), cut.thresholds[q], cut.strict)
                    {
                        edges.push((i, j, r as f32));
                    }
                }
            }
            Ok(edges)
        })
        .collect()
}

/// All units' edges, window by window, by (i, j).
fn join(
    tiling: &Tiling,
    units: &[Unit],
    parts: Vec<UnitEdges>,
    extra: Vec<Vec<Edge>>,
) -> ChunkEdges {
    let windows = tiling.windows;
    let mut indptr = vec![0_u64; windows + 1];
    let mut counts = Counts::default();
    for part in &parts {
        counts.rechecked += part.counts.rechecked;
        counts.rebuilt += part.counts.rebuilt;
        for q in 0..windows {
            indptr[q + 1] += (part.offsets[q + 1] - part.offsets[q]) as u64;
        }
    }
    for (q, extra) in extra.iter().enumerate() {
        indptr[q + 1] += extra.len() as u64;
        counts.exact += extra.len() as u64;
    }
    for q in 0..windows {
        indptr[q + 1] += indptr[q];
    }
    let total = indptr[windows] as usize;
    let (mut i, mut j, mut r) = (vec![0_u32; total], vec![0_u32; total], vec![0_f32; total]);
    let lengths: Vec<usize> = indptr.windows(2).map(|w| (w[1] - w[0]) as usize).collect();
    let slices = (split_by(&lengths, &mut i).into_par_iter())
        .zip(split_by(&lengths, &mut j))
        .zip(split_by(&lengths, &mut r));
    (slices.enumerate()).for_each_init(Vec::new, |next, (q, ((i, j), r))| {
        let done = join_window(tiling, units, &parts, q, next, (&mut *i, &mut *j, &mut *r));
        if let Some(extra) = extra.get(q).filter(|extra| !extra.is_empty()) {
            for (at, edge) in extra.iter().enumerate() {
                (i[done + at], j[done + at], r[done + at]) = *edge;
            }
            let mut all: Vec<Edge> = (0..i.len()).map(|e| (i[e], j[e], r[e])).collect();
            all.sort_unstable_by_key(|&(i, j, _)| (i, j));
            for (at, edge) in all.into_iter().enumerate() {
                (i[at], j[at], r[at]) = edge;
            }
        }
    });
    ChunkEdges {
        indptr,
        i,
        j,
        r,
        lag: Vec::new(),
        counts,
    }
}

/// `values` in consecutive slices of the given lengths.
pub(crate) fn split_by<'a, T>(lengths: &[usize], mut values: &'a mut [T]) -> Vec<&'a mut [T]> {
    let take = |length: &usize| {
        let (now, later) = std::mem::take(&mut values).split_at_mut(*length);
        values = later;
        now
    };
    lengths.iter().map(take).collect()
}

/// Writes the edges of all units in window `q` by (i, j); returns their number.
fn join_window(
    tiling: &Tiling,
    units: &[Unit],
    parts: &[UnitEdges],
    q: usize,
    next: &mut Vec<usize>,
    (i, j, r): (&mut [u32], &mut [u32], &mut [f32]),
) -> usize {
    let (mut done, mut u) = (0, 0);
    while u < units.len() {
        let rows = units[u].rows;
        let end = u + units[u..].partition_point(|unit| unit.rows == rows);
        let slice = |u: usize| &parts[u].items[parts[u].offsets[q]..parts[u].offsets[q + 1]];
        // Count by row, then put each edge behind its row's last: units come by columns.
        next.clear();
        next.resize((rows.1 - rows.0) * tiling.height, 0);
        for item in (u..end).flat_map(slice) {
            next[(item >> 48) as usize] += 1;
        }
        let row0 = (rows.0 * tiling.height) as u32;
        for (row, next) in (row0..).zip(next.iter_mut()) {
            let (first, count) = (done, *next);
            i[first..first + count].fill(row);
            *next = first;
            done += count;
        }
        for u in u..end {
            let column0 = (units[u].columns.0 * tiling.width) as u32;
            for item in slice(u) {
                let next = &mut next[(item >> 48) as usize];
                j[*next] = column0 + (item >> 32 & 0xffff) as u32;
                r[*next] = f32::from_bits(*item as u32);
                *next += 1;
            }
        }
        u = end;
    }
    done
}
