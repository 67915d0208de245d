//! Phase locking: sums of e^{i(φx−φy)} as real tiles. A node's e^{iφ} takes two steps per sample (cosine,
//! sine) and, down a tile, two rows: one gathers the real part, the other the imaginary one. Means play
//! no part, so a sample that leaves is simply subtracted.

use rayon::prelude::*;

use crate::block::{BLOCK, direct};
use crate::oracle::{self, UndefinedReason};
use crate::scan::{Emit, PairEstimate, Room, Scan, Tile};
use crate::signal::Signal;
use crate::spec::Measure;
use crate::tile::{self, Arch, Walk};
use crate::tiling::Tiling;
use crate::window::Chunk;

/// Phase locking over one chunk.
pub(crate) struct Phases<'a> {
    signal: &'a Signal<'a>,
    chunk: Chunk,
    arch: Arch,
    measure: Measure,
    margin: f64,
    first: usize,
    further: usize,
    steps: usize,
    rows: Vec<f32>,
    columns: Vec<f32>,
    /// (window, node)
    defined: Vec<bool>,
    pub(crate) undefined: Vec<(u32, u32, UndefinedReason)>,
    anchors: Vec<u8>,
}

/// (cos, sin) of the phases of a block's nodes at each instant; (instant, node) of those not finite go to `bad`.
fn phase_vectors(
    signal: &Signal<'_>,
    chunk: &Chunk,
    first: usize,
    used: usize,
    bad: &mut Vec<(u32, u32)>,
) -> Vec<[(f32, f32); BLOCK]> {
    let mut samples = [0.0; BLOCK];
    let at = (0..chunk.samples()).map(|t| {
        signal.read(chunk.start + t, first, &mut samples[..used]);
        let mut units = [(0.0, 0.0); BLOCK];
        for (c, unit) in units.iter_mut().enumerate().take(used) {
            if samples[c].is_finite() {
                let (sin, cos) = samples[c].sin_cos();
                *unit = (cos as f32, sin as f32);
            } else {
                bad.push((t as u32, (first + c) as u32));
            }
        }
        units
    });
    at.collect()
}

impl<'a> Phases<'a> {
    pub(crate) fn new(
        signal: &'a Signal<'a>,
        chunk: Chunk,
        arch: Arch,
        measure: Measure,
        margin: f64,
    ) -> Self {
        let (w, s, windows) = (chunk.window.length, chunk.window.step, chunk.windows);
        let nodes = signal.nodes();
        let first = 2 * w;
        let further = if direct(&chunk) { 2 * w } else { 4 * s };
        let steps = first + further * (windows - 1);
        let blocks = nodes.div_ceil(BLOCK);
        let (height, width) = (arch.rows() / 2, arch.columns());
        let mut rows = vec![0.0; blocks * BLOCK * 2 * steps];
        let mut columns = vec![0.0; blocks * BLOCK * steps];
        let bad: Vec<Vec<(u32, u32)>> = (rows.par_chunks_mut((BLOCK * 2 * steps).max(1)))
            .zip(columns.par_chunks_mut((BLOCK * steps).max(1)))
            .enumerate()
            .map(|(block, (rows, columns))| {
                let used = BLOCK.min(nodes - block * BLOCK);
                let mut bad = Vec::new();
                let units = phase_vectors(signal, &chunk, block * BLOCK, used, &mut bad);
                let mut put = |step: usize, t: usize, sign: f32| {
                    for (c, (cos, sin)) in units[t].iter().enumerate() {
                        let column = (c / width * steps + step) * width + c % width;
                        columns[column] = *cos;
                        columns[column + width] = *sin;
                        let row = ((c / height * steps + step) * height + c % height) * 2;
                        rows[row] = sign * cos;
                        rows[row + 1] = sign * sin;
                        rows[row + 2 * height] = sign * sin;
                        rows[row + 2 * height + 1] = -sign * cos;
                    }
                };
                for q in 0..windows {
                    let from = q * s;
                    if q == 0 || direct(&chunk) {
                        (0..w).for_each(|e| put(q * first + 2 * e, from + e, 1.0));
                    } else {
                        let base = first + (q - 1) * further;
                        for e in 0..s {
                            put(base + 2 * e, from + w - s + e, 1.0);
                            put(base + 2 * (s + e), from - s + e, -1.0);
                        }
                    }
                }
                bad
            })
            .collect();
        let mut defined = vec![true; windows * nodes];
        for (t, node) in bad.into_iter().flatten() {
            for q in 0..windows {
                if (q * s..q * s + w).contains(&(t as usize)) {
                    defined[q * nodes + node as usize] = false;
                }
            }
        }
        let undefined = (0..nodes)
            .flat_map(|node| (0..windows).map(move |q| (q, node)))
            .filter(|(q, node)| !defined[q * nodes + node])
            .map(|(q, node)| (q as u32, node as u32, UndefinedReason::NonFinite))
            .collect();
        Self {
            signal,
            chunk,
            arch,
            measure,
            margin,
            first,
            further,
            steps,
            rows,
            columns,
            defined,
            undefined,
            anchors: vec![0; windows],
        }
    }

    /// Value and bound of its error from the mean of e^{i(φx−φy)}.
    fn value(&self, re: f64, im: f64) -> (f64, f64) {
        let squares = re * re + im * im;
        match self.measure {
            Measure::ImaginaryPhaseLocking => {
                let rest = 1.0 - re * re;
                if rest < 1e-3 {
                    return (0.0, f64::INFINITY);
                }
                let value = (im.abs() / rest.sqrt()).min(1.0);
                let bound = 1.5 * self.margin * (1.0 / rest.sqrt() + 1.0 / rest);
                // Close to no imaginary part the quotient magnifies the error of the sums.
                let coarse = bound > 10.0 * self.margin;
                (value, if coarse { f64::INFINITY } else { bound })
            }
            Measure::PhaseConsistency => {
                let w = self.chunk.window.length as f64;
                ((w * squares - 1.0) / (w - 1.0), 5.0 * self.margin)
            }
            _ => (squares.sqrt().min(1.0), self.margin),
        }
    }
}

impl Scan for Phases<'_> {
    fn tiling(&self) -> Tiling {
        Tiling {
            nodes: self.signal.nodes(),
            height: self.arch.rows() / 2,
            width: self.arch.columns(),
            steps: self.steps,
            windows: self.chunk.windows,
            only: self.chunk.rows,
        }
    }

    fn tile(&self, (i, j): Tile, least: &[f64], room: &mut Room, emit: Emit<'_>) {
        let tiling = self.tiling();
        let (height, width, nodes) = (tiling.height, tiling.width, tiling.nodes);
        let walk = Walk {
            rows: &self.rows[i * 2 * height * self.steps..][..2 * height * self.steps],
            columns: &self.columns[j * width * self.steps..][..width * self.steps],
            first: self.first,
            further: self.further,
            direct: direct(&self.chunk),
            windows: tiling.windows,
            row_anchor: &self.anchors,
            column_anchor: &self.anchors,
        };
        room.sums.resize(tiling.windows * 2 * height * width, 0.0);
        let mut never = |_| (std::ptr::null(), std::ptr::null());
        // SAFETY: panels are made for registers that the processor has; no window is flagged, so that
        // nothing is ever rebuilt.
        #[allow(unsafe_code)]
        unsafe {
            tile::sums(self.arch, &walk, &mut never, &mut room.sums);
        }
        let scale = 1.0 / self.chunk.window.length as f64;
        for (q, sums) in room
            .sums
            .chunks_exact(2 * height * width)
            .take(tiling.windows)
            .enumerate()
        {
            let defined = &self.defined[q * nodes..][..nodes];
            for (row, sums) in sums.chunks_exact(2 * width).enumerate() {
                let a = i * height + row;
                for b in (a + 1).max(j * width)..((j + 1) * width).min(nodes) {
                    if !defined[a] || !defined[b] {
                        continue;
                    }
                    let column = b - j * width;
                    let (re, im) = (
                        f64::from(sums[column]) * scale,
                        f64::from(sums[width + column]) * scale,
                    );
                    let (value, bound) = self.value(re, im);
                    if value + bound >= least[q] {
                        emit(PairEstimate::new(q, (a, b), value, bound));
                    }
                }
            }
        }
    }

    fn size(&self, value: f64) -> f64 {
        value
    }

    fn exact(&self, q: usize, i: u32, j: u32, room: &mut Room) -> Option<(f64, i16)> {
        let (start, length) = (self.chunk.start_of(q), self.chunk.window.length);
        room.read_pair(self.signal, (i, j), start, length);
        let value = match self.measure {
            Measure::ImaginaryPhaseLocking => oracle::imaginary_phase_locking(&room.x, &room.y),
            Measure::PhaseConsistency => oracle::phase_consistency(&room.x, &room.y),
            _ => oracle::phase_locking(&room.x, &room.y),
        };
        Some((value?, 0))
    }
}
