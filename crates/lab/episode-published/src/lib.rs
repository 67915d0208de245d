//! The published ways to count frequent episodes of spikes, each made exact.
//!
//! They are here so that the papers' tables can be made again and compared with
//! [`LatestStart`], which is faster on every input measured. Where the printed
//! algorithm is not exact it is mended; each file's source says where. All are tested against the
//! [oracle](betz_episode::oracle).
//!
//! | name | strategy | source |
//! |---|---|---|
//! | `serial` | [`Serial`] | Feng et al., "Temporal Data Mining for Neuroscience", §1.2 |
//! | `two-pass` | [`TwoPass`] | Feng et al., §1.3.2 |
//! | `local-tracking`, `-atomic`, `-flags` | [`LocalTracking`] | Feng et al., §1.3.1; Patnaik et al. 2009, §IV |
//! | `map-concat` | [`MapConcat`] | Patnaik et al. 2009, §III.B |
//! | `hybrid` | [`Hybrid`] | Cao et al., §5.1 |
//!
//! ```
//! use betz_device::Device;
//! use betz_episode::count::{CountJob, count};
//! use betz_episode::{Alphabet, Clock, Events, Interval, Pattern};
//!
//! # fn main() -> betz_base::Result<()> {
//! let alphabet = Alphabet::new(vec!["A".into(), "B".into()], Clock::from_tick_seconds(0.001)?)?;
//! let events = Events::new(alphabet, &[0, 5, 20, 21, 24], &[0, 1, 0, 0, 1])?;
//! let pair = [Pattern::new(vec![0, 1], vec![Interval::new(0, 5)?])?];
//!
//! let hybrid = betz_episode_published::strategy_on("hybrid", &Device::cpu())?;
//! assert_eq!(hybrid.count(&CountJob::new(&events, &pair))?, count(&events, &pair)?);
//! # Ok(())
//! # }
//! ```

mod cuda;
mod hybrid;
mod local_tracking;
mod map_concat;
mod serial;
#[cfg(test)]
mod tests;
mod two_pass;

use betz_base::error::{Error, Result};
use betz_device::Device;
use betz_episode::count::device::DeviceStrategy;
use betz_episode::count::{LatestStart, Strategy, latest_start_on};

pub use hybrid::Hybrid;
pub use local_tracking::{Compaction, LocalTracking};
pub use map_concat::MapConcat;
pub use serial::Serial;
pub use two_pass::TwoPass;

use cuda::Kernels;

/// Every strategy: [`LatestStart`], then the published ones.
pub fn strategies() -> Vec<Box<dyn Strategy>> {
    let published = published().into_iter().map(|(on_cpu, _)| on_cpu);
    let default: Box<dyn Strategy> = Box::new(LatestStart);
    std::iter::once(default).chain(published).collect()
}

/// The strategy that has `name`, on `device`. [`LatestStart`] runs as [`latest_start_on`] says; a published strategy,
/// which is there to be compared, runs on a device only if the user named it.
///
/// # Errors
/// `InvalidArgument` for an unknown name; the message lists the names.
pub fn strategy_on(name: &str, device: &Device) -> Result<Box<dyn Strategy>> {
    if name == LatestStart.name() {
        return Ok(latest_start_on(device));
    }
    let (on_cpu, kernels) = (published().into_iter())
        .find(|(on_cpu, _)| on_cpu.name() == name)
        .ok_or_else(|| {
            let names: Vec<&str> = strategies().iter().map(|s| s.name()).collect();
            let known = names.join(", ");
            Error::argument(format!("no strategy {name:?}: expected one of {known}"))
        })?;
    if !device.is_explicit() || device.is_cpu() {
        return Ok(on_cpu);
    }
    Ok(Box::new(DeviceStrategy::new(device, kernels, on_cpu)))
}

/// The published strategies with their kernels.
fn published() -> Vec<(Box<dyn Strategy>, Kernels)> {
    let mut all: Vec<(Box<dyn Strategy>, Kernels)> = vec![
        (Box::new(Serial), Kernels::Serial),
        (Box::new(TwoPass), Kernels::TwoPass),
    ];
    for compaction in Compaction::ALL {
        let on_cpu = LocalTracking { compaction };
        all.push((Box::new(on_cpu), Kernels::LocalTracking(compaction)));
    }
    all.push((Box::new(MapConcat::default()), Kernels::MapConcat));
    all.push((Box::new(Hybrid), Kernels::Hybrid));
    all
}
