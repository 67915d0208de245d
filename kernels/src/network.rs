//! `network_prepare.cu`, `network_walk.cu` and `network_order.cu`; `network_rank_prepare.cu` and `network_rank_walk.cu`;
//! `network_warp.cu`, `network_coherence.cu`, `network_lagged.cu` and `network_near.cu`.

use crate::arguments::n;

include!(concat!(env!("OUT_DIR"), "/network.rs"));

/// Nodes of a block of panels.
pub const BLOCK: usize = 128;

/// Threads of a block of [`NetworkWalk`].
pub const WALK_THREADS: u32 = 256;

/// Threads of a block of the other kernels that have one thread per node.
pub const NODE_THREADS: u32 = 128;

/// Steps of a stage: panels have whole ones.
pub const STAGE_STEPS: usize = 8;

/// Words of a step of a block's panel: what is added, what is taken away, each as two f16.
pub const STEP_WORDS: usize = 2 * BLOCK;

/// Bytes of dynamic shared memory of [`NetworkWalk`]: four stages of two panels.
pub const WALK_SHARED_BYTES: usize = 4 * 2 * STAGE_STEPS * STEP_WORDS * 4;

/// Slots of the edge buffer that a warp takes at once.
pub const SLOT_RUN: usize = 512;

/// Edges of a row that a warp brings into order.
pub const SHORT_ROW: usize = 32;

/// The key of a slot without an edge.
pub const EMPTY: u64 = u64::MAX;

/// Most windows of a chunk, most nodes: what a key has room for, and a tile's number.
pub const MOST_WINDOWS: usize = 1 << 10;
/// Most nodes.
pub const MOST_NODES: usize = 65_535 * BLOCK;

/// Where `tally` has what: the next tile, slots taken, tiles that began anew.
pub const NEXT_TILE: usize = 0;
/// Slots taken, whether or not there was room.
pub const SLOTS: usize = 1;
/// Tiles that began anew in a window.
pub const REBUILT: usize = 2;
/// Edges.
pub const KEPT: usize = 3;
/// Slots that were decided in f64.
pub const RECHECKED: usize = 4;
/// Of the edges those that the host must decide.
pub const DOUBTFUL: usize = 5;
/// Given: slots that there is room for.
pub const CAPACITY: usize = 6;
/// Numbers in `tally`.
pub const TALLY: usize = 7;

/// A threshold below this is none: [`NetworkWalk`] looks at every pair.
pub const LEAST: f64 = 1e-3;

/// A window in which a node is constant (`state`).
pub const CONSTANT: u8 = 1;
/// One in which it is not finite.
pub const NOT_FINITE: u8 = 2;
/// One whose sums f32 cannot hold.
pub const EXTREME: u8 = 3;

/// Words of a node in a stage of the panels of rank measures.
pub const NODE_WORDS: usize = 16;

/// Nodes that share a bound of rank measures.
pub const BOUND_NODES: usize = 64;

/// Nodes of a block of [`NetworkRanks`] and [`NetworkSigns`].
pub const RANK_NODES: usize = 8;

/// Threads of a block of [`NetworkRankWalk`].
pub const RANK_WALK_THREADS: u32 = 128;

/// Bytes of dynamic shared memory of [`NetworkRankWalk`]: four stages of two panels.
pub const RANK_WALK_SHARED_BYTES: usize = 4 * 2 * BLOCK * NODE_WORDS * 4;

/// Longest window of rank measures: sums of products of ranks, (W³ − W)/3 at most, are below 2^31.
pub const LONGEST_RANKS: usize = 1860;

/// Where [`NetworkWarp`] counts pairs that it keeps.
pub const WARP_KEPT: usize = 1;
/// Pairs that it aligned.
pub const WARP_ALIGNED: usize = 2;
/// Numbers that it counts.
pub const WARP_TALLY: usize = 3;

/// Nodes of a block of [`NetworkCoherence`].
pub const COHERENCE_SIDE: usize = 64;

/// Nodes of a block of [`NetworkLagged`].
pub const LAGGED_SIDE: usize = 64;

/// Nodes of a block of [`NetworkNear`].
pub const NEAR_SIDE: usize = 64;

/// Entry in which these three kernels count the pairs that they keep.
pub const PAIR_KEPT: usize = 1;
/// Number of entries.
pub const PAIR_TALLY: usize = 2;
