//! Plans how the dense path cuts Γ and time to stay within a device's memory.
//!
//! CUSUMMA ([`plan_gram`]) gives the blocks of Γ and the smallest plan that fits. The remaining memory goes into longer
//! rounds and more simultaneous products.

use betz_base::error::Result;
use betz_device::partition::{GramCosts, plan_gram};

use super::timeline::BLOCK_STEPS;

/// Blocks of a chunk: 256 steps.
pub(super) const CHUNK_BLOCKS: usize = 8;

/// Steps of a chunk.
pub(super) const CHUNK_STEPS: usize = CHUNK_BLOCKS * BLOCK_STEPS as usize;

/// Rows of a block of Γ are a multiple of this.
const TILE: usize = 32;

/// Smallest number of rows of a panel of a triangle.
const PANEL_ROWS: usize = 256;

/// Bytes that the products of a round should stay below.
const PRODUCT_BYTES: usize = 256 << 20;

/// Largest number of simultaneous crossed products.
const MOST_CROSS_PARTS: usize = 8;

/// Largest number of chunks per round. The actual number is limited by [`ROUND_BYTES`] of responses, within these
/// bounds. A round costs the host some hundred microseconds of launches.
const ROUND_CHUNKS: std::ops::RangeInclusive<usize> = 128..=1024;

/// Bytes that the responses of a round should stay below.
const ROUND_BYTES: usize = 256 << 20;

/// Bytes of one piece of host memory that a round is copied from, at most where one chunk takes less.
const HOST_PIECE_BYTES: u64 = 64 << 20;

/// Bytes for rounding of buffers and for tables, together.
const FIXED_BYTES: u64 = 256 << 10;

/// Bytes that a source of responses takes on the device while it serves a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SourceCosts {
    /// Fixed bytes, for any round.
    pub(crate) fixed: u64,
    /// Bytes per feature, for any round.
    pub(crate) row: u64,
    /// Bytes per chunk of time.
    pub(crate) chunk: u64,
    /// Bytes per chunk and feature.
    pub(crate) row_chunk: u64,
    /// Host memory from which one chunk of all features is copied; 0 if nothing large is copied.
    pub(crate) host_chunk: u64,
}

/// Size of the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DenseDemand {
    pub(super) features: usize,
    pub(super) outputs: usize,
    pub(super) chunks: usize,
    /// Values of state a feature carries from chunk to chunk.
    pub(super) states: usize,
    /// Chunks of one sum on the tensor cores.
    pub(super) product_chunks: usize,
    /// Responses are split in two, which gives crossed products.
    pub(super) crossed: bool,
    pub(super) source: SourceCosts,
}

/// How Γ and time are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RoundPlan {
    /// Rows of a block of Γ; all of them when Γ fits.
    pub(super) edge: usize,
    /// Chunks of a round.
    pub(super) round_chunks: usize,
    /// Products that are made side by side.
    pub(super) parts: usize,
    /// The same of crossed products.
    pub(super) cross_parts: usize,
}

impl RoundPlan {
    /// The same number of rounds over `chunks` chunks, as even as they come.
    pub(super) fn balanced(self, chunks: usize) -> Self {
        let rounds = chunks.div_ceil(self.round_chunks.max(1)).max(1);
        Self {
            round_chunks: chunks.div_ceil(rounds).max(1),
            ..self
        }
    }
}

impl DenseDemand {
    /// The plan within `memory` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory), with the smallest memory that works.
    pub(super) fn plan(&self, memory: u64) -> Result<RoundPlan> {
        let (n, chunks) = (self.features.max(1), self.chunks.max(1));
        let enough = ROUND_BYTES / (4 * CHUNK_STEPS * n);
        let longest = chunks.min(enough.clamp(*ROUND_CHUNKS.start(), *ROUND_CHUNKS.end()));
        let costs = self.costs(1, 1);
        let cut = plan_gram(n as u64, longest as u64, &costs, memory).map_err(|e| {
            let what = format!("gram of {n} features on a device, in bytes");
            e.at(what)
        })?;
        let edge = cut.m_max as usize;
        let wanted = longest.min(self.host_chunks());
        let parts =
            (PRODUCT_BYTES / (4 * edge * edge)).clamp(1, wanted.div_ceil(self.product_chunks));
        let mut plan = RoundPlan {
            edge,
            round_chunks: wanted,
            parts,
            cross_parts: if self.crossed {
                parts.min(MOST_CROSS_PARTS)
            } else {
                1
            },
        };
        // Chunks that keep a round's simultaneous products busy.
        let busy = |plan: &RoundPlan| plan.parts * self.product_chunks;
        while self.bytes(&plan) > memory {
            if plan.round_chunks > busy(&plan) {
                plan.round_chunks = (plan.round_chunks / 2).max(busy(&plan));
            } else if plan.parts > 1 || plan.cross_parts > 1 {
                plan.parts = plan.parts.div_ceil(2);
                plan.cross_parts = plan.cross_parts.div_ceil(2);
            } else {
                // The planner's own plan, which fits.
                plan.round_chunks = (plan.round_chunks - 1).max(1);
                if plan.round_chunks == 1 {
                    break;
                }
            }
        }
        Ok(plan)
    }

    /// Bytes of device memory that `plan` takes.
    pub(super) fn bytes(&self, plan: &RoundPlan) -> u64 {
        let rows = if plan.edge >= self.features {
            plan.edge
        } else {
            2 * plan.edge
        };
        self.costs(plan.parts, plan.cross_parts).total(
            plan.edge as u64,
            rows as u64,
            plan.round_chunks as u64,
        )
    }

    fn host_chunks(&self) -> usize {
        HOST_PIECE_BYTES
            .checked_div(self.source.host_chunk)
            .map_or(usize::MAX, |chunks| chunks.max(1) as usize)
    }

    fn costs(&self, parts: usize, cross_parts: usize) -> GramCosts {
        let cross_parts = if self.crossed { cross_parts } else { 0 };
        let (outputs, steps) = (self.outputs as u64, CHUNK_STEPS as u64);
        let pieces = betz_device::cuda::FEED_PIECES as u64;
        GramCosts {
            tile: TILE as u64,
            // Υ, Σa and the centre of all features.
            fixed: FIXED_BYTES + self.source.fixed + (8 * (outputs + 1) + 4) * self.features as u64,
            // Γ in f64, products in f32.
            output: 8 + 4 * (parts + cross_parts) as u64,
            // States carried from round to round, in f64.
            row: 8 * self.states as u64 + self.source.row,
            // Descriptions of blocks, behaviour.
            length: pieces * (16 * CHUNK_BLOCKS as u64 + 4 * outputs * steps) + self.source.chunk,
            // Responses, states at the chunks' starts, Υ and Σa of each chunk.
            operand: 4 * steps + 4 * self.states as u64 + 8 * (outputs + 1) + self.source.row_chunk,
        }
    }
}

/// Rows of a panel of a triangle with `n` rows.
pub(super) fn panel_rows(n: usize) -> usize {
    n.div_ceil(8).next_multiple_of(128).max(PANEL_ROWS)
}

/// Cuts `chunks` into sums of `length`, up to `parts` of them side by side, and what is left over:
/// (first chunk, number side by side, length of each).
pub(super) fn pieces(
    chunks: usize,
    length: usize,
    parts: usize,
) -> impl Iterator<Item = (usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == chunks {
            return None;
        }
        let length = length.min(chunks - done);
        let count = ((chunks - done) / length).min(parts);
        let first = done;
        done += count * length;
        Some((first, count, length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_base::error::ErrorKind;

    fn demand(features: usize, chunks: usize) -> DenseDemand {
        DenseDemand {
            features,
            outputs: 2,
            chunks,
            states: 2,
            product_chunks: 2,
            crossed: true,
            source: SourceCosts {
                fixed: 1000,
                row: 300,
                chunk: 5000,
                row_chunk: 512,
                host_chunk: 256 * features as u64,
            },
        }
    }

    #[test]
    fn plans_keep_to_every_cap_down_to_the_one_the_error_names() {
        for n in [1, 31, 33, 1000, 2100, 8000, 20_000] {
            for chunks in [1, 2, 7, 800, 100_000] {
                let demand = demand(n, chunks);
                let free = demand.plan(u64::MAX).unwrap();
                assert_eq!(free.edge, n);
                let error = demand.plan(1).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::DeviceMemory);
                assert_eq!(error.available_bytes(), Some(1));
                let least = error.needed_bytes().unwrap();
                assert!(demand.plan(least - 1).is_err(), "{error}");
                for cap in [least, least + 1, least * 2, least * 17, 2 << 30, 200 << 30] {
                    if cap < least {
                        continue;
                    }
                    let plan = demand.plan(cap).unwrap();
                    assert!(demand.bytes(&plan) <= cap, "{n} {chunks} {cap}: {plan:?}");
                    assert!(plan.round_chunks >= 1 && plan.parts >= 1);
                    assert!(plan.edge == n || plan.edge.is_multiple_of(TILE));
                }
            }
        }
    }

    #[test]
    fn pieces_cover_every_chunk_once() {
        for chunks in 1..40 {
            for length in 1..6 {
                for parts in 1..7 {
                    let mut next = 0;
                    for (first, count, length) in pieces(chunks, length, parts) {
                        assert!(first == next && count >= 1 && count <= parts && length >= 1);
                        next += count * length;
                    }
                    assert_eq!(next, chunks);
                }
            }
        }
    }
}
