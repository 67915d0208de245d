//! Measures read off the sums of centred products: correlation, covariance, distance, and the largest
//! correlation over lags.

use rayon::prelude::*;

use crate::block::Rules;
use crate::engine;
use crate::oracle;
use crate::panel::{Limits, Panels};
use crate::scan::{Emit, PairEstimate, Room, Scan, Tile};
use crate::signal::Signal;
use crate::spec::Sign;
use crate::tile;
use crate::tiling::{Tiling, above_diagonal, units};

/// All sums of a tile in all windows, (window, row, column), into `room.sums`.
fn tile_sums(rows: &Panels, columns: &Panels, signal: &Signal<'_>, (i, j): Tile, room: &mut Room) {
    let tiling = rows.tiling();
    room.sums.resize(tiling.windows * tiling.pairs(), 0.0);
    let mut rebuild = rows.rebuilder(columns, signal, (i, j), &mut room.rebuilt);
    let walk = rows.walk_with(columns, i, j);
    // SAFETY: panels are made for registers that the processor has; `rebuilt` stays untouched until it
    // is asked for again.
    #[allow(unsafe_code)]
    unsafe {
        tile::sums(rows.arch, &walk, &mut rebuild, &mut room.sums);
    }
}

/// Calls `f` with the place in a tile's sums and the nodes of every pair above the diagonal.
fn each_pair(tiling: &Tiling, (i, j): Tile, mut f: impl FnMut(usize, usize, usize)) {
    for row in 0..tiling.height.min(tiling.nodes - i * tiling.height) {
        let a = i * tiling.height + row;
        for column in 0..tiling.width.min(tiling.nodes - j * tiling.width) {
            let b = j * tiling.width + column;
            if b > a {
                f(row * tiling.width + column, a, b);
            }
        }
    }
}

/// Pearson correlation.
pub(crate) struct Correlation<'a> {
    pub(crate) signal: &'a Signal<'a>,
    pub(crate) panels: &'a Panels,
    pub(crate) rules: Rules,
    pub(crate) sign: Sign,
}

impl Scan for Correlation<'_> {
    fn tiling(&self) -> Tiling {
        self.panels.tiling()
    }

    fn tile(&self, tile: Tile, least: &[f64], room: &mut Room, emit: Emit<'_>) {
        let tiling = self.tiling();
        let least = least.iter().map(|l| (l - self.rules.margin()) as f32);
        // Nothing is doubtful here: pairs are handed out with their bounds.
        let limits = Limits::new(self.panels.arch, least.clone(), least);
        let (i, j) = tile;
        let mut rebuild =
            (self.panels).rebuilder(self.panels, self.signal, tile, &mut room.rebuilt);
        let filter = (self.panels).filter(i, j, &limits, self.sign == Sign::Both);
        room.hits.clear(tiling.windows);
        // SAFETY: as for `tile_sums`.
        #[allow(unsafe_code)]
        unsafe {
            tile::edges(
                self.panels.arch,
                &self.panels.walk(i, j),
                &filter,
                &mut rebuild,
                &mut room.hits,
            );
        }
        let mut values = room.hits.values.iter();
        for run in &room.hits.runs {
            let place = usize::from(run.place);
            let (row, column) = (place / tiling.width, place % tiling.width);
            let (a, b) = (i * tiling.height + row, j * tiling.width + column);
            for (q, value) in run.windows().zip(values.by_ref()) {
                if b > a && b < tiling.nodes {
                    let (value, bound) = (f64::from(*value), self.rules.margin());
                    emit(PairEstimate::new(q, (a, b), value, bound));
                }
            }
        }
    }

    fn size(&self, value: f64) -> f64 {
        self.sign.size(value)
    }

    fn exact(&self, q: usize, i: u32, j: u32, room: &mut Room) -> Option<(f64, i16)> {
        let pair = (q, i as usize, j as usize);
        let r = engine::exact(self.signal, self.panels, pair, &mut room.x, &mut room.y);
        Some((r?, 0))
    }

    fn extreme(&self) -> &[(u32, u32)] {
        &self.panels.extreme
    }
}

/// Covariance or Euclidean distance, from panels that keep their moments.
pub(crate) struct Moments<'a> {
    pub(crate) signal: &'a Signal<'a>,
    pub(crate) panels: &'a Panels,
    pub(crate) rules: Rules,
    pub(crate) sign: Sign,
    pub(crate) distance: bool,
}

impl Scan for Moments<'_> {
    fn tiling(&self) -> Tiling {
        self.panels.tiling()
    }

    fn tile(&self, tile: Tile, least: &[f64], room: &mut Room, emit: Emit<'_>) {
        tile_sums(self.panels, self.panels, self.signal, tile, room);
        let tiling = self.tiling();
        let w = self.panels.chunk.window.length as f64;
        for (q, sums) in tiling.by_window(&room.sums) {
            each_pair(&tiling, tile, |place, a, b| {
                let ((ma, sa), (mb, sb)) = (self.panels.moments(q, a), self.panels.moments(q, b));
                if sa < 0.0 || sb < 0.0 {
                    return;
                }
                let (ra, rb) = (self.panels.scale(q, a), self.panels.scale(q, b));
                let spread = sa.sqrt() * sb.sqrt();
                // Too large or small for f32, though not constant.
                let extreme = (ra == 0.0 && sa > 0.0) || (rb == 0.0 && sb > 0.0);
                let products = f64::from(sums[place]) * f64::from(ra) * f64::from(rb) * spread;
                let error = self.rules.margin() * spread;
                let (value, bound) = if self.distance {
                    let squares = sa + sb - 2.0 * products + w * (ma - mb) * (ma - mb);
                    let rounding = 1e-9 * (sa + sb + w * (ma * ma + mb * mb) * 1e-4);
                    let error = 2.0 * error + rounding;
                    // |√a − √b| ≤ |a − b|/√a, and ≤ √|a − b|.
                    let value = squares.max(0.0).sqrt();
                    let quotient = if value > 0.0 {
                        error / value
                    } else {
                        f64::INFINITY
                    };
                    (value, error.sqrt().min(quotient))
                } else {
                    (products / (w - 1.0), error / (w - 1.0))
                };
                let bound = if extreme { f64::INFINITY } else { bound };
                if self.size(value) + bound >= least[q] {
                    // Distances of near nodes are small differences of large sums.
                    let coarse = self.distance && bound > 3e-4 * value;
                    let bound = if coarse { f64::INFINITY } else { bound };
                    emit(PairEstimate::new(q, (a, b), value, bound));
                }
            });
        }
    }

    fn size(&self, value: f64) -> f64 {
        if self.distance {
            -value
        } else {
            self.sign.size(value)
        }
    }

    fn exact(&self, q: usize, i: u32, j: u32, room: &mut Room) -> Option<(f64, i16)> {
        let chunk = &self.panels.chunk;
        room.read_pair(self.signal, (i, j), chunk.start_of(q), chunk.window.length);
        let value = if self.distance {
            oracle::distance(&room.x, &room.y)
        } else {
            oracle::covariance(&room.x, &room.y)
        };
        Some((value?, 0))
    }
}

/// The correlation that is largest over lags: one walk per lag, the columns' panels shifted.
pub(crate) struct LaggedCorrelation<'a> {
    pub(crate) signal: &'a Signal<'a>,
    pub(crate) rows: &'a Panels,
    /// Panels shifted by −lags to lags.
    pub(crate) shifted: &'a [Panels],
    pub(crate) rules: Rules,
    pub(crate) sign: Sign,
}

impl LaggedCorrelation<'_> {
    fn lags(&self) -> usize {
        self.shifted.len() / 2
    }
}

impl Scan for LaggedCorrelation<'_> {
    fn tiling(&self) -> Tiling {
        self.rows.tiling()
    }

    fn tile(&self, tile: Tile, least: &[f64], room: &mut Room, emit: Emit<'_>) {
        /// Best so far, the next best, the best one's lag.
        #[derive(Clone, Copy)]
        struct Best {
            value: f32,
            size: f32,
            next: f32,
            lag: i16,
            /// A lag that f32 cannot hold.
            open: bool,
        }
        let tiling = self.tiling();
        let pairs = tiling.pairs();
        let none = Best {
            value: 0.0,
            size: f32::NEG_INFINITY,
            next: f32::NEG_INFINITY,
            lag: 0,
            open: false,
        };
        let mut best = vec![none; tiling.windows * pairs];
        for (at, columns) in self.shifted.iter().enumerate() {
            tile_sums(self.rows, columns, self.signal, tile, room);
            let lag = at as i16 - self.lags() as i16;
            for (q, sums) in tiling.by_window(&room.sums) {
                each_pair(&tiling, tile, |place, a, b| {
                    let (a, b) = (self.rows.scale(q, a), columns.scale(q, b));
                    let best = &mut best[q * pairs + place];
                    if a == 0.0 || b == 0.0 {
                        return;
                    }
                    let value = sums[place] * a * b;
                    let size = self.sign.size(f64::from(value)) as f32;
                    if size > best.size {
                        *best = Best {
                            value,
                            size,
                            next: best.size,
                            lag,
                            ..*best
                        };
                    } else {
                        best.next = best.next.max(size);
                    }
                });
            }
            for &(q, node) in self.rows.extreme.iter().chain(&columns.extreme) {
                each_pair(&tiling, tile, |place, a, b| {
                    if a == node as usize || b == node as usize {
                        best[q as usize * pairs + place].open = true;
                    }
                });
            }
        }
        for q in 0..tiling.windows {
            each_pair(&tiling, tile, |place, a, b| {
                let best = best[q * pairs + place];
                let value = f64::from(best.value).clamp(-1.0, 1.0);
                let margin = self.rules.margin();
                let size = f64::from(best.size);
                if best.open || size + margin >= least[q] && size > f64::NEG_INFINITY {
                    // Two lags within reach of each other: f64 says which.
                    let tied = f64::from(best.next) >= size - 2.0 * margin;
                    let bound = if best.open || tied {
                        f64::INFINITY
                    } else {
                        margin
                    };
                    let pair = PairEstimate::new(q, (a, b), value, bound);
                    emit(PairEstimate {
                        lag: best.lag,
                        ..pair
                    });
                }
            });
        }
    }

    fn size(&self, value: f64) -> f64 {
        self.sign.size(value)
    }

    fn exact(&self, q: usize, i: u32, j: u32, room: &mut Room) -> Option<(f64, i16)> {
        let (w, lags) = (self.rows.chunk.window.length, self.lags());
        let from = self.rows.chunk.start_of(q) - lags;
        room.read_pair(self.signal, (i, j), from, w + 2 * lags);
        oracle::lagged(&room.x, &room.y, (lags, w), lags, |r| self.sign.size(r))
    }

    fn has_lags(&self) -> bool {
        true
    }
}

/// Sizes of all defined pairs in all windows, in `bins` equal parts of 0 to 1.
pub(crate) fn histogram(signal: &Signal<'_>, panels: &Panels, sign: Sign, bins: usize) -> Vec<u64> {
    let tiling = panels.tiling();
    let of = |size: f64| ((size * bins as f64) as usize).min(bins - 1);
    let mut counts = (units(&tiling).into_par_iter())
        .fold(
            || (vec![0_u64; bins], Room::default()),
            |(mut counts, mut room), unit| {
                for j in unit.columns.0..unit.columns.1 {
                    for i in (unit.rows.0..unit.rows.1).filter(|i| above_diagonal(&tiling, *i, j)) {
                        tile_sums(panels, panels, signal, (i, j), &mut room);
                        for (q, sums) in tiling.by_window(&room.sums) {
                            each_pair(&tiling, (i, j), |place, a, b| {
                                let (a, b) = (panels.scale(q, a), panels.scale(q, b));
                                let size = sign.size(f64::from(sums[place] * a * b));
                                if a > 0.0 && b > 0.0 && size >= 0.0 {
                                    counts[of(size)] += 1;
                                }
                            });
                        }
                    }
                }
                (counts, room)
            },
        )
        .map(|(counts, _)| counts)
        .reduce(
            || vec![0; bins],
            |mut a, b| {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                a
            },
        );
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for (at, &(q, a)) in panels.extreme.iter().enumerate() {
        for b in 0..tiling.nodes as u32 {
            // A pair of two such nodes once.
            let both = panels.extreme[..at].contains(&(q, b));
            let (i, j) = (a.min(b) as usize, a.max(b) as usize);
            if a == b || both {
                continue;
            }
            if let Some(r) = engine::exact(signal, panels, (q as usize, i, j), &mut x, &mut y)
                && sign.size(r) >= 0.0
            {
                counts[of(sign.size(r))] += 1;
            }
        }
    }
    counts
}
