//! Strategies by the device they run on.

use std::sync::Arc;

use betz_base::error::Result;
use betz_device::cuda::Context;
use betz_device::{Device, Placement, Ran};

use super::{CountJob, LatestStart, Strategy, strategy};

/// Events times patterns below which opening a device costs more than it saves (0.25 s for a
/// context, against 2 to 4 · 10⁹ a second and core on the CPU).
pub(crate) const AUTO_WORK: u64 = 1 << 30;

/// The strategy that has `name`, on `device`. With a device that the user did not name
/// ([`Device::auto`]) latest-start leaves work too small to gain to the CPU, and the others, which
/// are there to be compared, leave all of it. The device is looked for by the first work that gains;
/// what comes of that holds for all the strategy counts. Where the device falls short, the CPU counts
/// from then on ([`Placement::or_cpu`](betz_device::Placement::or_cpu)). [`Strategy::ran`] says where
/// counts were made.
///
/// Keeps the events it counted in last in the devices' memory, so use one for many counts in the
/// same events.
///
/// # Errors
/// `InvalidArgument`, listing the names there are.
pub fn strategy_on(name: &str, device: &Device) -> Result<Box<dyn Strategy>> {
    let on_cpu = strategy(name)?;
    if let Some(kernels) = cuda::kernels(name)
        && !(device.is_explicit() && device.is_cpu())
        && (device.is_explicit() || kernels == cuda::GAINS)
    {
        return Ok(Box::new(cuda::OnDevice::new(device, kernels, on_cpu)));
    }
    Ok(on_cpu)
}

/// Counts, and where they were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// One for each pattern, in order.
    pub counts: Vec<u64>,
    /// Where, and why not elsewhere.
    pub ran: Ran,
}

/// Counts with the default strategy on `device`, from events in host memory. With a device that the
/// user did not name ([`Device::auto`]), work too small to gain stays on the CPU.
///
/// Copies only the events of symbols that occur in the patterns. Where such a device falls short, the CPU
/// counts ([`Placement::or_cpu`](betz_device::Placement::or_cpu)).
///
/// # Errors
/// As [`Strategy::count`], and those of the device.
pub fn count_on(device: &Device, job: &CountJob<'_>) -> Result<Counted> {
    let path = LatestStart.name();
    let ran = if cuda::fits(job) {
        let gains = cuda::gains(job);
        let placement = betz_device::Placement::decide(device, betz_device::Work::Gains(gains));
        if !placement.is_cpu()
            && let Some(counts) = placement.or_cpu(cuda::count(&placement, job))?
        {
            let ran = placement.ran(path);
            return Ok(Counted { counts, ran });
        }
        placement.ran(path)
    } else {
        Ran::on_cpu(path)
    };
    let counts = LatestStart.count(job)?;
    Ok(Counted { counts, ran })
}

/// True when devices' kernels take the patterns of `job`.
pub(crate) fn fits(job: &CountJob<'_>) -> bool {
    cuda::fits(job)
}

/// Counts on the devices of `placement` with the default strategy, from events in host memory.
///
/// # Errors
/// As [`Strategy::count`], and those of the devices.
pub(crate) fn count_placed(placement: &Placement, job: &CountJob<'_>) -> Result<Vec<u64>> {
    cuda::count(placement, job)
}

/// Counts on one device with the default strategy, from events in host memory; fastest where the patterns are sorted by
/// their prefixes.
///
/// # Errors
/// As [`count_placed`].
pub(crate) fn count_at(context: &Arc<Context>, job: &CountJob<'_>) -> Result<Vec<u64>> {
    cuda::count_at(context, job)
}

mod cuda {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, OnceLock, PoisonError};

    use super::*;
    use crate::count::cuda::{DeviceEvents, Kernels, Resident, most_at_once};
    use crate::count::dealing::{deal, on_each};
    use crate::count::{Compaction, Hybrid, LocalTracking, MapConcat, Serial, TwoPass};
    use crate::{Events, Pattern};
    use betz_base::error::{Error, ErrorKind};
    use betz_base::progress::Quiet;

    /// The kernels that gain where nobody named the device; the others are there to be compared.
    pub(super) const GAINS: Kernels = Kernels::LatestStart;

    /// The kernels of the strategy that has `name`.
    pub(super) fn kernels(name: &str) -> Option<Kernels> {
        let mut all: Vec<(&str, Kernels)> = vec![
            (LatestStart.name(), Kernels::LatestStart),
            (Serial.name(), Kernels::Serial),
            (TwoPass.name(), Kernels::TwoPass),
            (MapConcat::default().name(), Kernels::MapConcat),
            (Hybrid.name(), Kernels::Hybrid),
        ];
        for compaction in Compaction::ALL {
            let strategy = LocalTracking { compaction };
            all.push((strategy.name(), Kernels::LocalTracking(compaction)));
        }
        all.into_iter().find(|m| m.0 == name).map(|m| m.1)
    }

    /// True when a device's kernels take the patterns of `job`.
    pub(super) fn fits(job: &CountJob<'_>) -> bool {
        (job.patterns.iter()).all(|p| p.size() <= DeviceEvents::MAX_SIZE)
    }

    /// True when `job` is large enough to gain on a device.
    pub(super) fn gains(job: &CountJob<'_>) -> bool {
        job.events.len() as u64 * job.patterns.len() as u64 >= AUTO_WORK
    }

    /// Counts `job` by latest starts, with events copied for it alone.
    pub(super) fn count(placement: &Placement, job: &CountJob<'_>) -> Result<Vec<u64>> {
        job.check()?;
        let mut held = vec![false; job.events.symbols()];
        for &symbol in job.patterns.iter().flat_map(Pattern::symbols) {
            held[symbol as usize] = true;
        }
        let there: Vec<DeviceEvents> = on_each(placement.contexts(), |context| {
            DeviceEvents::upload_symbols(context, job.events, &held, None)
        })
        .into_iter()
        .collect::<Result<_>>()?;
        share(&there, job, |events, job| {
            events.count(job.patterns, job.progress)
        })
    }

    /// As [`count`], on one device.
    pub(super) fn count_at(context: &Arc<Context>, job: &CountJob<'_>) -> Result<Vec<u64>> {
        job.check()?;
        let there = Resident::new(context);
        let mut counts = Vec::with_capacity(job.patterns.len());
        for patterns in job.patterns.chunks(most_at_once(job.events.len())) {
            let own = CountJob {
                patterns,
                progress: &Quiet(job.progress),
                ..*job
            };
            counts.extend(there.count(Kernels::LatestStart, &own)?);
        }
        Ok(counts)
    }

    /// Fewest candidates that a device is given at once where there are more: a launch of fewer leaves a
    /// large device waiting at its end.
    const LEAST: usize = 512;

    /// Counts on devices pieces of the patterns sorted by prefix, as the devices come to them
    /// ([`deal`]). Every pattern's count is exact by itself, so the counts do not depend on who made them.
    fn share<There: Sync>(
        devices: &[There],
        job: &CountJob<'_>,
        count: impl Fn(&There, &CountJob<'_>) -> Result<Vec<u64>> + Sync,
    ) -> Result<Vec<u64>> {
        match devices {
            // Another thread's work may have gone back to the CPU meanwhile.
            [] => {
                let gone = "counting: the device was given up meanwhile";
                return Err(Error::new(ErrorKind::DeviceUnavailable, gone));
            }
            [device] if job.patterns.len() <= most_at_once(job.events.len()) => {
                return count(device, job);
            }
            _ => {}
        }
        let mut order: Vec<usize> = (0..job.patterns.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&job.patterns[a], &job.patterns[b]);
            a.prefix_key().cmp(b.prefix_key())
        });
        let pieces = deal(
            devices,
            order.len(),
            (LEAST, most_at_once(job.events.len())),
            |device, piece| {
                let patterns: Vec<Pattern> = (order[piece].iter())
                    .map(|&i| job.patterns[i].clone())
                    .collect();
                let own = CountJob {
                    patterns: &patterns,
                    progress: &Quiet(job.progress),
                    ..*job
                };
                count(device, &own)
            },
        )?;
        let mut counts = vec![0; job.patterns.len()];
        for (piece, own) in pieces {
            for (&i, count) in order[piece].iter().zip(own) {
                counts[i] = count;
            }
        }
        Ok(counts)
    }

    /// A strategy on CUDA devices, with the events of the last call kept there.
    pub(super) struct OnDevice {
        /// What was asked for.
        device: Device,
        /// What came of it, once there was work that gains.
        placement: OnceLock<Placement>,
        kernels: Kernels,
        /// The same strategy for what stays on the CPU.
        on_cpu: Box<dyn Strategy>,
        last: Mutex<Option<(u64, Arc<Vec<Resident>>)>>,
        /// The device's name, once it has counted.
        counted_there: OnceLock<String>,
        counted_on_cpu: AtomicBool,
    }

    impl OnDevice {
        pub(super) fn new(device: &Device, kernels: Kernels, on_cpu: Box<dyn Strategy>) -> Self {
            Self {
                device: device.clone(),
                placement: OnceLock::new(),
                kernels,
                on_cpu,
                last: Mutex::new(None),
                counted_there: OnceLock::new(),
                counted_on_cpu: AtomicBool::new(false),
            }
        }

        /// Where `job` is to be counted, if that is a device.
        fn placed(&self, job: &CountJob<'_>) -> Option<&Placement> {
            if !(fits(job) && (self.device.is_explicit() || gains(job))) {
                return None;
            }
            let placement = self.placement.get_or_init(|| Placement::on(&self.device));
            Some(placement).filter(|p| !p.is_cpu())
        }

        /// The places of `events` on the devices: where they are, or will be once they are needed.
        fn events(&self, placement: &Placement, events: &Events) -> Arc<Vec<Resident>> {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((id, there)) = last.as_ref()
                && *id == events.id()
            {
                return Arc::clone(there);
            }
            // The old ones first: the two need not fit beside each other.
            *last = None;
            let contexts = placement.contexts().iter();
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
            if let Some(placement) = self.placed(job) {
                job.check()?;
                let there = self.events(placement, job.events);
                let counts = share(there.as_slice(), job, |there, job| {
                    there.count(self.kernels, job)
                });
                if let Some(counts) = placement.or_cpu(counts)? {
                    self.counted_there.get_or_init(|| placement.ran("").device);
                    return Ok(counts);
                }
                // Nothing is asked of the device again.
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
            self.counted_on_cpu.store(true, Ordering::Relaxed);
            self.on_cpu.count(job)
        }

        fn ran(&self) -> Ran {
            let Some(placement) = self.placement.get() else {
                return Ran::on_cpu(self.name());
            };
            let mut ran = placement.ran(self.name());
            let on_cpu = self.counted_on_cpu.load(Ordering::Relaxed);
            ran.device = match self.counted_there.get() {
                Some(device) if on_cpu => format!("cpu and {device}"),
                Some(device) => device.clone(),
                None => Device::cpu().name(),
            };
            ran
        }
    }
}
