//! Episodes in a device's memory side by side, and how many threads take them.

use betz_base::error::Result;
use betz_device::cuda::{Buffer, Context};
use betz_episode::Pattern;

/// Shared memory of an automaton for each of its places: `Automaton::BYTES`.
pub(super) const AUTOMATON_BYTES: usize = 28;

/// Stands for the count of an episode that needs longer lists.
pub(super) const OVERFLOWN: u32 = u32::MAX;

/// Threads of a block at most.
const THREADS: usize = 128;

/// Episodes on a device: place p of episode e is at p · count + e. An interval stands at the place
/// after it.
pub(super) struct Episodes {
    pub(super) sizes: Buffer<u32>,
    pub(super) symbols: Buffer<u32>,
    pub(super) lows: Buffer<i64>,
    pub(super) highs: Buffer<i64>,
    pub(super) count: u32,
    /// Symbols of the longest.
    pub(super) places: u32,
}

impl Episodes {
    pub(super) fn upload<'a>(
        context: &Context,
        patterns: impl Iterator<Item = &'a Pattern> + Clone,
    ) -> Result<Self> {
        let sizes: Vec<u32> = patterns.clone().map(|p| p.size() as u32).collect();
        let count = sizes.len();
        let places = sizes.iter().copied().max().unwrap_or(1);
        let mut symbols = vec![0; count * places as usize];
        let mut lows = vec![0; symbols.len()];
        let mut highs = vec![0; symbols.len()];
        for (e, pattern) in patterns.enumerate() {
            for (p, (interval, symbol)) in pattern.prefix_key().enumerate() {
                symbols[p * count + e] = symbol;
                lows[p * count + e] = interval.low;
                highs[p * count + e] = interval.high;
            }
        }
        Ok(Self {
            sizes: context.upload(&sizes)?,
            symbols: context.upload(&symbols)?,
            lows: context.upload(&lows)?,
            highs: context.upload(&highs)?,
            count: count as u32,
            places,
        })
    }
}

/// Threads of a block that takes `work` threads in all, `bytes` of shared memory each: few while
/// there are multiprocessors without any, so that they do not share an instruction stream.
pub(super) fn block_threads(context: &Context, work: usize, bytes: usize) -> usize {
    /// A multiprocessor issues so many warps' instructions at once.
    const ISSUES: usize = 4;
    let issues = context.info().multiprocessors as usize * ISSUES;
    let wanted = work.div_ceil(issues).next_power_of_two().min(THREADS);
    fitting_threads(context, wanted, bytes)
}

/// At most `wanted` threads of a block, so that `bytes` of shared memory for each can be had.
pub(super) fn fitting_threads(context: &Context, wanted: usize, bytes: usize) -> usize {
    wanted.min(context.shared_bytes() / bytes.max(1)).max(1)
}
