//! The hybrid: a thread an episode ([`serial`]), or several when episodes are few ([`map_concat`]).
//!
//! Cao et al., §5.1.

use super::{map_concat, serial};
use betz_base::error::Result;
use betz_episode::Pattern;
use betz_episode::count::CountJob;
use betz_episode::count::device::DeviceStream;

/// Symbols of all episodes together, for each multiprocessor, from which a thread an episode is
/// quicker. Measured: see `benches/record/episode_gpu.md`.
const CROSSOVER: usize = 900;

/// One count for each pattern of `job`.
pub(super) fn count(stream: &DeviceStream, job: &CountJob<'_>) -> Result<Vec<u64>> {
    let symbols: usize = job.patterns.iter().map(Pattern::size).sum();
    let multiprocessors = stream.context.info().multiprocessors as usize;
    if symbols < multiprocessors * CROSSOVER {
        let done = map_concat::count(stream, job, map_concat::SegmentCut::default())?;
        Ok(done.counts)
    } else {
        serial::count(stream, job, serial::CAPACITY)
    }
}
