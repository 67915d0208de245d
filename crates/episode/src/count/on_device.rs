//! Strategies by the device they run on.

use betz_base::error::Result;
use betz_device::Device;

use super::{CountJob, LatestStart, Strategy, strategy};

/// The strategy that has `name`, on `device`. With a device that the user did not name
/// ([`Device::auto`]) latest-start leaves work too small to gain to the CPU, and the others, which
/// are there to be compared, leave all of it; where it falls short, the CPU counts
/// ([`Device::or_cpu`]). [`Strategy::ran_on`] says where counts were made.
///
/// Keeps the events it counted in last in the devices' memory, so use one for many counts in the
/// same events.
///
/// # Errors
/// `InvalidArgument`, listing the names there are.
pub fn strategy_on(name: &str, device: &Device) -> Result<Box<dyn Strategy>> {
    let on_cpu = strategy(name)?;
    #[cfg(feature = "cuda")]
    // A device that nobody has opened yet is opened by the first work that is large enough.
    if !(device.is_open() && device.is_cpu())
        && let Some(method) = cuda::method(name)
    {
        return Ok(Box::new(cuda::OnDevice::new(device, method, on_cpu)));
    }
    #[cfg(not(feature = "cuda"))]
    let _ = device;
    Ok(on_cpu)
}

/// Counts with the default strategy on `device`, from events in host memory. With a device that the
/// user did not name ([`Device::auto`]), work too small to gain stays on the CPU.
///
/// Copies only the events of symbols that occur in the patterns. Where such a device falls short, the CPU
/// counts ([`Device::or_cpu`]).
///
/// # Errors
/// As [`Strategy::count`], and those of the device.
pub fn count_on(device: &Device, job: &CountJob<'_>) -> Result<Vec<u64>> {
    #[cfg(feature = "cuda")]
    if cuda::takes(device, job)
        && let Some(counts) = device.or_cpu(cuda::count(device, job))?
    {
        return Ok(counts);
    }
    #[cfg(not(feature = "cuda"))]
    let _ = device;
    LatestStart.count(job)
}

#[cfg(feature = "cuda")]
mod cuda {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, OnceLock, PoisonError};

    use rayon::prelude::*;

    use super::*;
    use crate::count::cuda::{DeviceEvents, Method, Resident};
    use crate::count::{Compaction, Hybrid, LocalTracking, MapConcat, Serial, TwoPass};
    use crate::{Events, Pattern};
    use betz_base::error::{Error, ErrorKind};
    use betz_base::progress::Progress;

    /// Events times patterns below which opening a device costs more than it saves (0.25 s for a
    /// context, against 2 to 4 · 10⁹ a second and core on the CPU).
    const AUTO_WORK: u64 = 1 << 30;

    /// The kernels of the strategy that has `name`.
    pub(super) fn method(name: &str) -> Option<Method> {
        let mut all: Vec<(&str, Method)> = vec![
            (LatestStart.name(), Method::LatestStart),
            (Serial.name(), Method::Serial),
            (TwoPass.name(), Method::TwoPass),
            (MapConcat::default().name(), Method::MapConcat),
            (Hybrid.name(), Method::Hybrid),
        ];
        for compaction in Compaction::ALL {
            let strategy = LocalTracking { compaction };
            all.push((strategy.name(), Method::LocalTracking(compaction)));
        }
        all.into_iter().find(|m| m.0 == name).map(|m| m.1)
    }

    /// True when `job` is to be counted on `device`.
    pub(super) fn takes(device: &Device, job: &CountJob<'_>) -> bool {
        let work = job.events.len() as u64 * job.patterns.len() as u64;
        let fits = job
            .patterns
            .iter()
            .all(|p| p.size() <= DeviceEvents::MAX_SIZE);
        fits && (device.is_explicit() || work >= AUTO_WORK) && !device.is_cpu()
    }

    /// Counts `job` by latest starts, with events copied for it alone.
    pub(super) fn count(device: &Device, job: &CountJob<'_>) -> Result<Vec<u64>> {
        job.check()?;
        let mut held = vec![false; job.events.symbols()];
        for &symbol in job.patterns.iter().flat_map(Pattern::symbols) {
            held[symbol as usize] = true;
        }
        let there: Vec<DeviceEvents> = device
            .contexts()
            .iter()
            .map(|context| DeviceEvents::upload_symbols(context, job.events, &held, None))
            .collect::<Result<_>>()?;
        share(&there, job, |events, job| {
            events.count(job.patterns, job.progress)
        })
    }

    /// Counts on each device a stretch of the patterns sorted by prefix.
    fn share<There: Sync>(
        devices: &[There],
        job: &CountJob<'_>,
        count: impl Fn(&There, &CountJob<'_>) -> Result<Vec<u64>> + Sync,
    ) -> Result<Vec<u64>> {
        match devices {
            // Another thread may have given the device up since it was chosen.
            [] => {
                let gone = "counting: the device was given up meanwhile";
                return Err(Error::new(ErrorKind::DeviceUnavailable, gone));
            }
            [device] => return count(device, job),
            _ => {}
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
                let own = CountJob {
                    patterns: &patterns,
                    progress: &Quiet(job.progress),
                    ..*job
                };
                count(device, &own)
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

    /// A strategy on CUDA devices, with the events of the last call kept there.
    pub(super) struct OnDevice {
        device: Device,
        method: Method,
        /// The same strategy for what stays on the CPU.
        on_cpu: Box<dyn Strategy>,
        last: Mutex<Option<(u64, Arc<Vec<Resident>>)>>,
        /// The device's name, once it has counted.
        counted_there: OnceLock<String>,
        counted_on_cpu: AtomicBool,
    }

    impl OnDevice {
        pub(super) fn new(device: &Device, method: Method, on_cpu: Box<dyn Strategy>) -> Self {
            Self {
                device: device.clone(),
                method,
                on_cpu,
                last: Mutex::new(None),
                counted_there: OnceLock::new(),
                counted_on_cpu: AtomicBool::new(false),
            }
        }

        /// The places of `events` on the devices: where they are, or will be once they are needed.
        fn events(&self, events: &Events) -> Arc<Vec<Resident>> {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((id, there)) = last.as_ref()
                && *id == events.id()
            {
                return Arc::clone(there);
            }
            // The old ones first: the two need not fit beside each other.
            *last = None;
            let contexts = self.device.contexts().iter();
            let there: Arc<Vec<Resident>> = Arc::new(contexts.map(Resident::new).collect());
            *last = Some((events.id(), Arc::clone(&there)));
            there
        }
    }

    impl Strategy for OnDevice {
        fn name(&self) -> &'static str {
            self.on_cpu.name()
        }

        fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
            let gains = self.method == Method::LatestStart || self.device.is_explicit();
            if gains && takes(&self.device, job) {
                job.check()?;
                let counts = share(self.events(job.events).as_slice(), job, |there, job| {
                    there.count(self.method, job)
                });
                if let Some(counts) = self.device.or_cpu(counts)? {
                    self.counted_there.get_or_init(|| self.device.name());
                    return Ok(counts);
                }
                // Nothing is asked of the device again.
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
            self.counted_on_cpu.store(true, Ordering::Relaxed);
            self.on_cpu.count(job)
        }

        fn ran_on(&self) -> String {
            let on_cpu = self.counted_on_cpu.load(Ordering::Relaxed);
            match self.counted_there.get() {
                Some(device) if on_cpu => format!("cpu and {device}"),
                Some(device) => device.clone(),
                None => self.on_cpu.ran_on(),
            }
        }
    }
}
