//! The common signal of the channels around a place: a spike is seen by several, their noise is their own.

use std::collections::BTreeMap;

use betz_base::{Result, memory};
use pulp::{Arch, Simd, WithSimd};

use super::{LANES, Layout};

/// Channels further than this, by the focus, add nothing.
const REACH: f32 = 2.5;

/// Sums of channels around each, in standard deviations of their noise: Σ w_j y_j/σ_j with w_j = exp(−d²/2s²), scaled to
/// unit noise. Where a spike reaches m channels alike and their noise is independent, it stands out √m times as far as on
/// one. A channel without neighbours is itself.
#[derive(Debug, Clone)]
pub(super) struct Focus {
    arch: Arch,
    /// By how many places in the layout a channel follows the one that is added to, and its weight for each of these. Neighbours
    /// lie near each other in the layout, so that there are few.
    bands: Vec<(usize, Vec<f32>)>,
    /// Zeros on both sides of a row, as many as the furthest band.
    margin: usize,
    row: Vec<f32>,
}

impl Focus {
    /// Of `layout`, whose `focused` scales it, for rows of `padded`.
    pub(super) fn new(layout: &Layout, focus_um: f64, padded: usize) -> Result<Self> {
        let n = layout.channels();
        let focus = focus_um as f32;
        let mut bands = BTreeMap::new();
        let mut margin = 0;
        for to in 0..n {
            // Itself is its own even without a focus, where 0 by 0 is none.
            let weight = |from: usize| match layout.distance(from, to) {
                _ if from == to => Some((from, 1.0)),
                apart if focus > 0.0 && apart <= REACH * focus => {
                    Some((from, (-(apart / focus).powi(2) / 2.0).exp()))
                }
                _ => None,
            };
            let weights = (0..n).filter_map(weight);
            let weights: Vec<(usize, f32)> = weights.collect();
            let squares: f32 = weights.iter().map(|(_, w)| w * w).sum();
            let scale = 1.0 / (squares.sqrt() * layout.focused[to]);
            for (from, weight) in weights {
                let offset = from as isize - to as isize;
                let band = match bands.entry(offset) {
                    std::collections::btree_map::Entry::Occupied(band) => band.into_mut(),
                    std::collections::btree_map::Entry::Vacant(band) => {
                        band.insert(memory::filled("focus", 0.0, padded)?)
                    }
                };
                band[to] = scale * weight / layout.noise[from];
                margin = margin.max(offset.unsigned_abs());
            }
        }
        let bands = bands
            .into_iter()
            .map(|(offset, weights)| ((margin as isize + offset) as usize, weights))
            .collect();
        Ok(Self {
            arch: Arch::new(),
            bands,
            margin,
            row: memory::filled("focus", 0.0, padded + 2 * margin)?,
        })
    }

    /// The sums of a row; both have padding to whole lanes.
    pub(super) fn step(&mut self, row: &[f32], focused: &mut [f32]) {
        self.row[self.margin..][..row.len()].copy_from_slice(row);
        self.arch.dispatch(Bands {
            bands: &self.bands,
            row: &self.row,
            focused,
        });
    }
}

struct Bands<'a> {
    bands: &'a [(usize, Vec<f32>)],
    row: &'a [f32],
    focused: &'a mut [f32],
}

impl WithSimd for Bands<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.focused.fill(0.0);
        let (focused, _) = self.focused.as_chunks_mut::<LANES>();
        for (from, weights) in self.bands {
            let (weights, _) = weights.as_chunks::<LANES>();
            let (row, _) = self.row[*from..].as_chunks::<LANES>();
            for ((sums, weights), row) in focused.iter_mut().zip(weights).zip(row) {
                for l in 0..LANES {
                    sums[l] += weights[l] * row[l];
                }
            }
        }
    }
}
