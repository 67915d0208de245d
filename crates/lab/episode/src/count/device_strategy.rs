//! Counting on devices: latest starts there, and strategies whose events stay there between counts.

use std::sync::{Arc, OnceLock};

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Quiet;
use betz_device::cuda::Context;
use betz_device::{DeferredPlacement, Device, Ran, Work};

use super::cuda::{DeviceEvents, ResidentEvents, most_at_once};
use super::dealing::{PieceSizes, deal, on_each};
use super::{CountJob, LatestStart, Strategy};
use crate::pattern::Pattern;

/// Events times patterns below which opening a device costs more than it saves (0.25 s for a
/// context, against 2 to 4 · 10⁹ per second and core on the CPU).
pub(crate) const AUTO_WORK: f64 = (1 << 30) as f64;

/// Fewest candidates that a device is given at once if there are more: a launch of fewer leaves a
/// large device waiting at its end.
const LEAST: usize = 512;

/// The kernels of a strategy.
pub trait DeviceKernels: Send + Sync {
    /// One count per pattern of `job`, whose events `events` copies to the device.
    ///
    /// # Errors
    /// As [`Strategy::count`], and those of the device.
    fn count(&self, events: &ResidentEvents, job: &CountJob<'_>) -> Result<Vec<u64>>;
}

/// The kernels of [`LatestStart`].
struct LatestStartKernels;

impl DeviceKernels for LatestStartKernels {
    fn count(&self, events: &ResidentEvents, job: &CountJob<'_>) -> Result<Vec<u64>> {
        events.count(job)
    }
}

/// The default strategy on `device`. With a device that the user did not name ([`Device::auto`]), work too small to
/// gain stays on the CPU. The first work that gains looks for a device, which then counts all such work; if the device
/// falls short, the CPU counts from then on. [`Strategy::ran`] reports where counts were made.
///
/// The events of the last count stay in the devices' memory, so use one strategy for many counts in the same events.
pub fn latest_start_on(device: &Device) -> Box<dyn Strategy> {
    if device.is_explicit() && device.is_cpu() {
        return Box::new(LatestStart);
    }
    Box::new(DeviceStrategy::new(
        device,
        LatestStartKernels,
        Box::new(LatestStart),
    ))
}

/// True if the kernels take patterns as long as those of `job`.
pub(crate) fn fits_device(job: &CountJob<'_>) -> bool {
    (job.patterns.iter()).all(|p| p.size() <= DeviceEvents::MAX_SIZE)
}

/// Counts `job` on `devices` by latest starts, with events copied for it alone.
///
/// # Errors
/// As [`Strategy::count`], and those of the devices.
pub(crate) fn count_on_devices(devices: &[Arc<Context>], job: &CountJob<'_>) -> Result<Vec<u64>> {
    job.check()?;
    let mut held = vec![false; job.events.symbols()];
    for &symbol in job.patterns.iter().flat_map(Pattern::symbols) {
        held[symbol as usize] = true;
    }
    let copies: Vec<DeviceEvents> = on_each(devices, |context| {
        DeviceEvents::upload_symbols(context, job.events, &held, None)
    })
    .into_iter()
    .collect::<Result<_>>()?;
    deal_patterns(&copies, job, |events, job| {
        events.count(job.patterns, job.progress)
    })
}

/// Counts `job` on one device by latest starts, with events copied for it alone; fastest if the patterns are sorted by
/// their prefixes.
///
/// # Errors
/// As [`count_on_devices`].
pub(crate) fn count_on_device(context: &Arc<Context>, job: &CountJob<'_>) -> Result<Vec<u64>> {
    job.check()?;
    let events = ResidentEvents::new(context);
    let mut counts = Vec::with_capacity(job.patterns.len());
    for patterns in job.patterns.chunks(most_at_once(job.events.len())) {
        let own = CountJob {
            patterns,
            progress: &Quiet(job.progress),
            ..*job
        };
        counts.extend(events.count(&own)?);
    }
    Ok(counts)
}

/// Counts on devices pieces of the patterns sorted by prefix, as the devices come to them
/// ([`deal`]). Every pattern's count is exact by itself, so the counts do not depend on who made them.
fn deal_patterns<D: Sync>(
    devices: &[D],
    job: &CountJob<'_>,
    count: impl Fn(&D, &CountJob<'_>) -> Result<Vec<u64>> + Sync,
) -> Result<Vec<u64>> {
    let sizes = PieceSizes {
        least: LEAST,
        most: most_at_once(job.events.len()),
    };
    match devices {
        // Another thread's work may have gone back to the CPU meanwhile.
        [] => {
            let gone = "counting: the device was given up meanwhile";
            return Err(Error::new(ErrorKind::DeviceUnavailable, gone));
        }
        [device] if job.patterns.len() <= sizes.most => return count(device, job),
        _ => {}
    }
    let order = Pattern::prefix_order(job.patterns);
    let pieces = deal(devices, order.len(), sizes, |device, piece| {
        let patterns: Vec<Pattern> = (order[piece].iter())
            .map(|&i| job.patterns[i].clone())
            .collect();
        let own = CountJob {
            patterns: &patterns,
            progress: &Quiet(job.progress),
            ..*job
        };
        count(device, &own)
    })?;
    let mut counts = vec![0; job.patterns.len()];
    for (piece, own) in pieces {
        for (&i, count) in order[piece].iter().zip(own) {
            counts[i] = count;
        }
    }
    Ok(counts)
}

/// A strategy on CUDA devices, with the events of the last count kept there.
pub struct DeviceStrategy {
    placement: DeferredPlacement,
    /// One per device, once one counts.
    resident: OnceLock<Vec<ResidentEvents>>,
    kernels: Box<dyn DeviceKernels>,
    /// The same strategy for what stays on the CPU.
    on_cpu: Box<dyn Strategy>,
}

impl DeviceStrategy {
    /// Counts by `kernels` on `device`, by `on_cpu` elsewhere.
    pub fn new(
        device: &Device,
        kernels: impl DeviceKernels + 'static,
        on_cpu: Box<dyn Strategy>,
    ) -> Self {
        Self {
            placement: DeferredPlacement::new(device),
            resident: OnceLock::new(),
            kernels: Box::new(kernels),
            on_cpu,
        }
    }
}

impl Strategy for DeviceStrategy {
    fn name(&self) -> &'static str {
        self.on_cpu.name()
    }

    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        let work = Work::Amount {
            amount: job.events.len() as f64 * job.patterns.len() as f64,
            gains_from: AUTO_WORK,
        };
        let placement = fits_device(job)
            .then(|| self.placement.decide(work))
            .flatten();
        self.placement.run(
            placement,
            |placement| {
                job.check()?;
                let devices = self.resident.get_or_init(|| {
                    let contexts = placement.contexts().iter();
                    contexts.map(ResidentEvents::new).collect()
                });
                deal_patterns(devices, job, |events, job| self.kernels.count(events, job))
            },
            || {
                // A device that fell short is not asked again.
                if placement.is_some() {
                    self.resident
                        .get()
                        .into_iter()
                        .flatten()
                        .for_each(ResidentEvents::clear);
                }
                self.on_cpu.count(job)
            },
        )
    }

    fn ran(&self) -> Ran {
        self.placement.ran(self.name())
    }
}
