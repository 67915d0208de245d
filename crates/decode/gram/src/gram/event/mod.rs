//! Γ from the spikes alone: no response is ever computed.
//!
//! # One pair of spikes
//! On the steps of the dataset a filter is h\[m\] = c·(m/τ)ⁿ·rᵐ with r = e^(−1/τ), τ in steps. A
//! spike at u adds h_a\[t − u\] to the response of its channel to filter a. Two spikes, the later
//! one l steps after the earlier one, therefore add to Γ, at (later's channel, a) and (earlier's
//! channel, b),
//!
//! ```text
//! R_ab(l, H) = Σ_{m=0}^{H−1} h_a[m]·h_b[m + l]
//!            = r_bˡ · Σ_{i=0}^{n_b} T_i(H)·(l/τ_b)ⁱ                               (binomial theorem)
//! T_i(H)     = c_a·c_b·C(n_b, i) · Σ_{m=0}^{H−1} (m/τ_a)^{n_a}·(m/τ_b)^{n_b−i}·(r_a·r_b)ᵐ
//! ```
//!
//! where H is the number of steps from the later spike to the segment's end. T is a running sum
//! (`overlap`), tabulated until it no longer grows; having the end of the segment in the table
//! rather than subtracting a tail afterwards keeps short segments and slow filters free of
//! cancellation.
//!
//! # All pairs at once
//! Summed over the earlier spikes u of a channel, R needs only that channel's n_b + 1 *states*
//! s_i(t) = Σ_u ((t − u)/τ)ⁱ·r^(t−u): the same numbers that stream a filter exactly. They are kept
//! relative to a base step b,
//!
//! ```text
//! S_p = Σ_u ((b − u)/τ)ᵖ·r^(b−u),      s_i(b + m) = rᵐ · Σ_{p≤i} C(i, p)·(m/τ)^(i−p)·S_p
//! ```
//!
//! so that time passing costs nothing and a new spike touches one number a state. b follows after
//! at most τ/2 steps, and every step for orders above one: further away, r^(b−u) and the alternating
//! powers would eat the digits
//! of f32. A spike of channel k at t = b + m then adds to row k of an accumulator M
//!
//! ```text
//! M[k, ·] += Σ_p w_p·S_p[·],           w_p = rᵐ · Σ_{i≥p} T_i(H)·C(i, p)·(m/τ)^(i−p)
//! ```
//!
//! and all spikes of a step share that sum: n_b + 1 fused multiply-adds per step and channel, then one
//! addition a spike and channel, where the dense path does one multiply-add a *step* and pair of
//! channels. Spikes of one step see each other half: half of their weight enters S before they are
//! taken up as rows, half after. Γ = M + Mᵀ then counts every pair once, a spike with itself
//! included.
//!
//! # Counts
//! An entry that counts for n spikes is n of them in one step: it enters S with n halves before and after,
//! and its row takes the sum n times. A value that is no whole number, or below 0, is no different.
//!
//! # A delay
//! Γ sums over steps that have a partner only. A negative delay ends a segment early, which H
//! takes care of. A positive one starts the sum at a step with history: pairs of spikes before it
//! add s_aᵀ·K·s_b, where row q of K has C(n_a, q)·(m/τ_a)^(n_a−q) in place of (m/τ_a)^{n_a} in T (its
//! row 0 is T), once for each pair of channels.
//!
//! # Υ and Σa
//! The transposed filter, run backwards over x from the segment's end, is at each step u what a
//! spike there adds to Υ; with x = 1, to Σa (`behavior`). All in f64.
//!
//! # In parallel, in the cache
//! Columns of M are cut into tiles of at most 128 channels of one filter b, for rows of one filter
//! a: 0.5 MB of f32 for 1,000 channels, which stays in the second-level cache. A tile walks all
//! spikes by itself, so tiles are the parallel work and the result does not depend on the number of
//! threads.
//!
//! # Digits
//! States and tiles are f32; weights are computed in f64 and rounded; a row of a tile is added to f64
//! with every 128th spike of its channel, however busy the others are. The tests hold the error of Γ_ij below
//! 2·10⁻⁵·√(Γ_ii·Γ_jj) against the oracle, with short segments, ties and bursts (3,000 random cases
//! with BETZ_EXHAUSTIVE=1); Υ and the sums are f64 throughout.

mod behavior;
mod overlap;
mod tile;

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use self::overlap::{Overlap, SteppedFilter};
use self::tile::{Tile, settlements};
use super::{NormalEquations, add_output_sums};
use crate::parts::{GRAM, UPSILON};
use betz_base::error::Result;
use betz_base::progress::{self, Progress};
use betz_recording::DatasetView;
use betz_runtime::psc::FilterBank;

/// Most channels in a tile. Rows of 512 bytes keep a tile of 1,000 channels in half a megabyte.
pub(super) const WIDEST_TILE: usize = 128;

/// Tiles are a multiple of this wide: one register of the widest SIMD there is.
const LANES: usize = 16;

/// Tiles of the columns of M.
#[derive(Debug, Clone, Copy)]
struct Tiling {
    channels: usize,
    filters: usize,
    /// Tiles side by side for one pair of filters.
    tiles: usize,
    /// Channels in a tile; the last one may reach beyond the end.
    width: usize,
}

impl Tiling {
    fn new(channels: usize, filters: usize) -> Self {
        let tiles = channels.div_ceil(WIDEST_TILE).max(1);
        Self {
            channels,
            filters,
            tiles,
            width: channels.div_ceil(tiles).next_multiple_of(LANES).max(LANES),
        }
    }

    /// Numbers in one tile.
    fn len(&self) -> usize {
        self.channels * self.width
    }

    /// Which tile holds rows of filter `a` and columns of filter `b` in column `tile`.
    fn index(&self, a: usize, b: usize, tile: usize) -> usize {
        (a * self.filters + b) * self.tiles + tile
    }

    fn count(&self) -> usize {
        self.filters * self.filters * self.tiles
    }
}

/// Γ, Υ and the sums by the event-driven path, on rayon's current pool.
///
/// Allocates features² f64 beside the result, and half a megabyte or so a thread.
///
/// # Errors
/// [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
pub fn normal_equations<'d>(
    data: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    delay_steps: i64,
    progress: &dyn Progress,
) -> Result<NormalEquations> {
    let data = &data.into();
    let mut sums = NormalEquations::zeros(data.channels() * bank.len(), data.outputs.len());
    add_output_sums(data, delay_steps, &mut sums);
    if sums.features == 0 || sums.steps == 0 {
        return Ok(sums);
    }
    let shapes: Vec<SteppedFilter> = (bank.filters().iter())
        .map(|&f| SteppedFilter::new(f, data.step_seconds))
        .collect();
    let longest = data.segments.iter().map(|s| s.len()).max().unwrap_or(0);
    let tiling = Tiling::new(data.channels(), bank.len());
    let gram = || accumulate(data, &shapes, tiling, longest, delay_steps, progress);
    let upsilon = || behavior::sums(data, bank, delay_steps);
    // Parts that are timed do not share the processors.
    let (tiles, responses) = match progress.wants_seconds() {
        true => (
            progress::time(progress, GRAM, gram),
            progress::time(progress, UPSILON, upsilon),
        ),
        false => rayon::join(gram, upsilon),
    };
    behavior::scatter(&responses, &mut sums);
    let tiles = tiles?;
    progress::time(progress, GRAM, || {
        symmetrise(&tiles, tiling, &mut sums.gram);
    });
    Ok(sums)
}

/// All tiles of M, one after the other.
fn accumulate(
    data: &DatasetView<'_>,
    shapes: &[SteppedFilter],
    tiling: Tiling,
    longest: usize,
    delay_steps: i64,
    progress: &dyn Progress,
) -> Result<Vec<f64>> {
    let mut tiles = vec![0.0; tiling.count() * tiling.len()];
    let done = AtomicU64::new(0);
    let settlements = settlements(data, delay_steps);
    tiles
        .par_chunks_mut(tiling.tiles * tiling.len())
        .enumerate()
        .try_for_each(|(pair, tiles)| {
            // As long as the slowest of two filters lasts: made once a pair, not once a tile.
            let (a, b) = (pair / tiling.filters, pair % tiling.filters);
            let overlap = Overlap::new(shapes[a], shapes[b], longest);
            tiles
                .par_chunks_mut(tiling.len())
                .enumerate()
                .try_for_each(|(tile, sum)| {
                    let (first, width) = (tile * tiling.width, tiling.width);
                    Tile::new(data, &overlap, first, width, delay_steps, &settlements, sum)?
                        .run(progress)?;
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    progress.update("gram", done, tiling.count() as u64);
                    progress::check(progress, "gram")
                })
        })?;
    Ok(tiles)
}

/// Γ = M + Mᵀ, from tiles to rows.
fn symmetrise(tiles: &[f64], tiling: Tiling, gram: &mut [f64]) {
    let Tiling {
        channels,
        filters,
        width,
        ..
    } = tiling;
    let features = channels * filters;
    let tile = |a, b, t| &tiles[tiling.index(a, b, t) * tiling.len()..][..tiling.len()];
    gram.par_chunks_mut(width * filters * features)
        .enumerate()
        .for_each(|(row_tile, rows)| {
            let first_row = row_tile * width;
            let row_channels = width.min(channels - first_row);
            for a in 0..filters {
                for b in 0..filters {
                    // Columns of `down` are this tile's rows.
                    let down = tile(b, a, row_tile);
                    for column_tile in 0..tiling.tiles {
                        let across = tile(a, b, column_tile);
                        let first = column_tile * width;
                        for i in 0..row_channels {
                            let row = &mut rows[(i * filters + a) * features..][..features];
                            let across = &across[(first_row + i) * width..][..width];
                            for j in 0..width.min(channels.saturating_sub(first)) {
                                row[(first + j) * filters + b] =
                                    across[j] + down[(first + j) * width + i];
                            }
                        }
                    }
                }
            }
        });
}
