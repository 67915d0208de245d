//! The strategies on CUDA devices: one file per strategy, named as on the CPU, with the kernels of that name.
//!
//! ```text
//! Events ──► DeviceEvents (by symbol) ────► local_tracking ────────────────┐
//!       └──► DeviceStream (in time order) ─► serial, two_pass, map_concat, hybrid ┴──► counts
//! ```
//!
//! All are exact. If a kernel's lists, which have a fixed length, are too short for some episodes, those episodes are
//! counted again with longer lists.

mod episodes;
mod hybrid;
mod local_tracking;
mod map_concat;
mod serial;
#[cfg(test)]
mod tests;
mod two_pass;

use betz_base::error::Result;
use betz_episode::count::CountJob;
use betz_episode::count::device::{DeviceKernels, ResidentEvents};

use crate::Compaction;

/// The kernels of each strategy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kernels {
    Serial,
    TwoPass,
    LocalTracking(Compaction),
    MapConcat,
    Hybrid,
}

impl DeviceKernels for Kernels {
    fn count(&self, events: &ResidentEvents, job: &CountJob<'_>) -> Result<Vec<u64>> {
        if let Self::LocalTracking(compaction) = *self {
            let limits = local_tracking::Limits::default();
            let there = events.by_symbol(job.events)?;
            return local_tracking::count(&there, compaction, job, limits);
        }
        let stream = &*events.in_time(job.events)?;
        match self {
            Self::Serial => serial::count(stream, job, serial::CAPACITY),
            Self::TwoPass => two_pass::count(stream, job),
            Self::MapConcat => {
                let cut = map_concat::SegmentCut::default();
                map_concat::count(stream, job, cut).map(|done| done.counts)
            }
            Self::Hybrid | Self::LocalTracking(_) => hybrid::count(stream, job),
        }
    }
}
