//! Strategies by the device they run on.

use crate::device::Device;
use crate::error::Result;

use super::{CountJob, LatestStart, Strategy, strategy};

/// The strategy that has `name`, on `device` where it has an implementation for it, on the CPU
/// otherwise: of the strategies, latest-start runs on CUDA devices.
///
/// Keeps the events it counted in last in the devices' memory, so use one for many counts in the
/// same events.
///
/// # Errors
/// `InvalidArgument`, listing the names there are.
pub fn strategy_on(name: &str, device: &Device) -> Result<Box<dyn Strategy>> {
    #[cfg(feature = "cuda")]
    if name == LatestStart.name() && !device.is_cpu() {
        return Ok(Box::new(cuda::Resident::new(device)));
    }
    #[cfg(not(feature = "cuda"))]
    let _ = device;
    strategy(name)
}

/// Counts with the default strategy on `device`, from events in host memory. With a device that the
/// user did not name ([`Device::auto`]), work too small to gain stays on the CPU.
///
/// Copies only the events of symbols that occur in the patterns.
///
/// # Errors
/// As [`Strategy::count`], and those of the device.
pub fn count_on(device: &Device, job: &CountJob<'_>) -> Result<Vec<u64>> {
    #[cfg(feature = "cuda")]
    if cuda::takes(device, job) {
        return cuda::count(device, job);
    }
    #[cfg(not(feature = "cuda"))]
    let _ = device;
    LatestStart.count(job)
}

#[cfg(feature = "cuda")]
mod cuda {
    use std::sync::{Arc, Mutex, PoisonError};

    use rayon::prelude::*;

    use super::*;
    use crate::episode::count::cuda::DeviceEvents;
    use crate::episode::{Events, Pattern};
    use crate::progress::Progress;

    /// Events times patterns below which opening a device costs more than it saves (0.25 s for a
    /// context, against 2 to 4 · 10⁹ a second and core on the CPU).
    const AUTO_WORK: u64 = 1 << 30;

    /// True when `job` is to be counted on `device`.
    pub(super) fn takes(device: &Device, job: &CountJob<'_>) -> bool {
        let work = job.events.len() as u64 * job.patterns.len() as u64;
        let fits = job
            .patterns
            .iter()
            .all(|p| p.size() <= DeviceEvents::MAX_SIZE);
        !device.is_cpu() && fits && (device.is_explicit() || work >= AUTO_WORK)
    }

    /// Counts `job` with events copied for it alone.
    pub(super) fn count(device: &Device, job: &CountJob<'_>) -> Result<Vec<u64>> {
        job.check()?;
        let mut held = vec![false; job.events.symbols()];
        for &symbol in job.patterns.iter().flat_map(Pattern::symbols) {
            held[symbol as usize] = true;
        }
        share(&upload(device, job.events, &held)?, job)
    }

    fn upload(device: &Device, events: &Events, held: &[bool]) -> Result<Vec<DeviceEvents>> {
        device
            .contexts()
            .iter()
            .map(|context| DeviceEvents::upload_symbols(context, events, held, None))
            .collect()
    }

    /// Counts on each device a stretch of the patterns sorted by prefix.
    fn share(devices: &[DeviceEvents], job: &CountJob<'_>) -> Result<Vec<u64>> {
        if let [device] = devices {
            return device.count(job.patterns, job.progress);
        }
        let mut order: Vec<usize> = (0..job.patterns.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&job.patterns[a], &job.patterns[b]);
            a.prefix_key().cmp(b.prefix_key())
        });
        let size = order.len().div_ceil(devices.len().max(1)).max(1);
        let shares: Vec<Vec<u64>> = order
            .par_chunks(size)
            .zip(devices)
            .map(|(own, device)| {
                let patterns: Vec<Pattern> = own.iter().map(|&i| job.patterns[i].clone()).collect();
                device.count(&patterns, &Quiet(job.progress))
            })
            .collect::<Result<_>>()?;
        let mut counts = vec![0; job.patterns.len()];
        for (&i, count) in order.iter().zip(shares.into_iter().flatten()) {
            counts[i] = count;
        }
        Ok(counts)
    }

    /// Hears a cancellation, tells nothing: several devices' shares are not one row of numbers.
    struct Quiet<'a>(&'a dyn Progress);

    impl Progress for Quiet<'_> {
        fn cancelled(&self) -> bool {
            self.0.cancelled()
        }
    }

    /// Latest start on CUDA devices, with the events of the last call kept there.
    pub(super) struct Resident {
        device: Device,
        last: Mutex<Option<(u64, Arc<Vec<DeviceEvents>>)>>,
    }

    impl Resident {
        pub(super) fn new(device: &Device) -> Self {
            Self {
                device: device.clone(),
                last: Mutex::new(None),
            }
        }

        /// `events` on the devices, copied unless they are there.
        fn events(&self, events: &Events) -> Result<Arc<Vec<DeviceEvents>>> {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((id, there)) = last.as_ref()
                && *id == events.id()
            {
                return Ok(Arc::clone(there));
            }
            // The old ones first: the two need not fit beside each other.
            *last = None;
            let held = vec![true; events.symbols()];
            let there = Arc::new(upload(&self.device, events, &held)?);
            *last = Some((events.id(), Arc::clone(&there)));
            Ok(there)
        }
    }

    impl Strategy for Resident {
        fn name(&self) -> &'static str {
            LatestStart.name()
        }

        fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
            if !takes(&self.device, job) {
                return LatestStart.count(job);
            }
            job.check()?;
            share(self.events(job.events)?.as_slice(), job)
        }
    }
}
