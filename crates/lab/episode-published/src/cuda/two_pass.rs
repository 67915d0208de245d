//! Two-pass elimination: kernels/episode_two_pass.cu, then [`hybrid`] on what is left.
//!
//! The bound needs no lower bound at all on a delay, as the CPU's version says.

use super::episodes::{Episodes, block_threads};
use super::hybrid;
use betz_base::error::Result;
use betz_base::progress;
use betz_device::cuda::Buffer;
use betz_episode::Pattern;
use betz_episode::count::CountJob;
use betz_episode::count::device::{DeviceStream, check_sizes};
use betz_kernels::episode::EpisodeUpperBound;

/// Shared memory of a thread for each place.
const BYTES: usize = 2 * size_of::<i64>() + size_of::<u32>();

/// One count for each pattern of `job`: exact if the bound reaches the threshold, the bound
/// otherwise.
pub(super) fn count(stream: &DeviceStream, job: &CountJob<'_>) -> Result<Vec<u64>> {
    let mut counts = upper_bounds(stream, job)?;
    let threshold = job.threshold.unwrap_or(1);
    let left: Vec<usize> = (0..counts.len())
        .filter(|&i| counts[i] >= threshold)
        .collect();
    let patterns: Vec<Pattern> = left.iter().map(|&i| job.patterns[i].clone()).collect();
    let exact = hybrid::count(
        stream,
        &CountJob {
            patterns: &patterns,
            ..*job
        },
    )?;
    for (i, count) in left.into_iter().zip(exact) {
        counts[i] = count;
    }
    Ok(counts)
}

/// *PreElim*: at least the count of each pattern.
pub(super) fn upper_bounds(stream: &DeviceStream, job: &CountJob<'_>) -> Result<Vec<u64>> {
    check_sizes(job.patterns)?;
    progress::check(job.progress, "counting")?;
    let count = job.patterns.len();
    if count == 0 {
        return Ok(Vec::new());
    }
    let context = &stream.context;
    let episodes = Episodes::upload(context, job.patterns.iter())?;
    let bytes = episodes.places as usize * BYTES;
    let threads = block_threads(context, count, bytes);
    let mut bounds: Buffer<u32> = context.alloc(count)?;
    let blocks = (count.div_ceil(threads) as u32, 1, 1);
    let arguments = EpisodeUpperBound {
        events: stream.events.read(),
        event_count: stream.count,
        symbol_bits: stream.symbol_bits,
        sizes: episodes.sizes.read(),
        symbols: episodes.symbols.read(),
        highs: episodes.highs.read(),
        episodes: episodes.count,
        places: episodes.places,
        bounds: bounds.write(),
    };
    context
        .load::<EpisodeUpperBound>(&[], threads * bytes)?
        .launch(blocks, threads as u32, arguments)?;
    let bounds = context.download(&bounds, count)?;
    Ok(bounds.into_iter().map(u64::from).collect())
}
