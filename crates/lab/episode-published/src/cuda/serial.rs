//! Algorithm 1, one thread per episode (*PTPE*): kernels/episode_serial.cu.
//!
//! The papers' baseline mapped to a device as Cao et al., §5.1 do. Mended as the CPU's version is;
//! and if an episode's lists, which have a fixed length on a device, are too short, it is counted
//! again with longer ones.

use super::episodes::{AUTOMATON_BYTES, Episodes, OVERFLOWN, block_threads};
use betz_base::error::Result;
use betz_base::progress;
use betz_device::cuda::Buffer;
use betz_episode::count::CountJob;
use betz_episode::count::device::{DeviceStream, check_sizes, list_memory};
use betz_kernels::episode::EpisodeSerial;

/// Ticks that a list holds at first.
pub(super) const CAPACITY: usize = 8;

/// Factor by which lists are longer the next time.
pub(super) const GROWTH: usize = 4;

/// One count for each pattern of `job`; lists hold `capacity` ticks at first, a power of two.
///
/// Allocates lists for the threads of a launch, at most a gigabyte or a quarter of what is free
/// unless one episode needs more. Asks the progress between launches.
pub(super) fn count(
    stream: &DeviceStream,
    job: &CountJob<'_>,
    mut capacity: usize,
) -> Result<Vec<u64>> {
    check_sizes(job.patterns)?;
    let mut counts = vec![0; job.patterns.len()];
    let mut left: Vec<usize> = (0..counts.len()).collect();
    while !left.is_empty() {
        let places = left.iter().map(|&i| job.patterns[i].size()).max();
        let bytes = (places.unwrap_or(1) * capacity * size_of::<i64>()) as u64;
        let fitting = (list_memory(&stream.context)? / bytes).max(1) as usize;
        let mut overflown = Vec::new();
        for batch in left.chunks(fitting) {
            progress::check(job.progress, "counting")?;
            for (&i, count) in batch.iter().zip(launch(stream, job, batch, capacity)?) {
                if count == OVERFLOWN {
                    overflown.push(i);
                } else {
                    counts[i] = u64::from(count);
                }
            }
        }
        let done = counts.len() - overflown.len();
        job.progress
            .update("counting", done as u64, counts.len() as u64);
        left = overflown;
        capacity *= GROWTH;
    }
    Ok(counts)
}

fn launch(
    stream: &DeviceStream,
    job: &CountJob<'_>,
    batch: &[usize],
    capacity: usize,
) -> Result<Vec<u32>> {
    let context = &stream.context;
    let episodes = Episodes::upload(context, batch.iter().map(|&i| &job.patterns[i]))?;
    let places = episodes.places as usize;
    let bytes = places * AUTOMATON_BYTES;
    let threads = block_threads(context, batch.len(), bytes);
    let blocks = batch.len().div_ceil(threads);
    let mut lists: Buffer<i64> = context.alloc(blocks * threads * (places - 1) * capacity)?;
    let mut counts: Buffer<u32> = context.alloc(batch.len())?;
    let arguments = EpisodeSerial {
        events: stream.events.read(),
        event_count: stream.count,
        symbol_bits: stream.symbol_bits,
        sizes: episodes.sizes.read(),
        symbols: episodes.symbols.read(),
        lows: episodes.lows.read(),
        highs: episodes.highs.read(),
        episodes: episodes.count,
        places: episodes.places,
        capacity: capacity as u32,
        lists: lists.update(),
        counts: counts.write(),
    };
    context
        .load::<EpisodeSerial>(&[], threads * bytes)?
        .launch((blocks as u32, 1, 1), threads as u32, arguments)?;
    context.download(&counts, batch.len())
}
