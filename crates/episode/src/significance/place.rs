//! Where surrogates are made and counted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use betz_base::error::Result;
use betz_device::{Device, Placement, Ran};

use super::Kind;
use crate::count::{AUTO_WORK, CountJob, LatestStart, Strategy, count_placed, fits};

/// To make a dithered surrogate takes a thread as long as to count so many episodes in it: 45 to 59 ns an event, against
/// 2 to 4 · 10⁹ events times episodes a second.
const MAKING: u64 = 150;

/// Where the surrogates of one or several tests are made and counted.
///
/// On a device that the user named all of them are, unless an episode is too long for its kernels. With
/// [`Device::auto`] what is too little work to gain there stays on the CPU; the device is looked for by the first test
/// that gains, and where it falls short the CPU takes over
/// ([`Placement::or_cpu`](betz_device::Placement::or_cpu)). Counts, and what follows from them, are the same to the bit
/// wherever they come from.
#[derive(Debug)]
pub struct Place {
    /// What was asked for.
    device: Device,
    /// What came of it, once there was work that gains.
    placement: OnceLock<Placement>,
    /// The device's name, once it has counted.
    counted_there: OnceLock<String>,
    counted_on_cpu: AtomicBool,
}

impl Place {
    /// On `device`, or where [`Device::auto`] leads.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            ..Self::cpu()
        }
    }

    /// On the CPU.
    pub const fn cpu() -> Self {
        Self {
            device: Device::cpu(),
            placement: OnceLock::new(),
            counted_there: OnceLock::new(),
            counted_on_cpu: AtomicBool::new(false),
        }
    }

    /// Where surrogates were made and counted so far: `cpu and cuda:0` when some tests were too small to gain on the
    /// device.
    pub fn ran(&self) -> Ran {
        let Some(placement) = self.placement.get() else {
            return Ran::on_cpu("");
        };
        let mut ran = placement.ran("");
        let on_cpu = self.counted_on_cpu.load(Ordering::Relaxed);
        ran.device = match self.counted_there.get() {
            Some(device) if on_cpu => format!("cpu and {device}"),
            Some(device) => device.clone(),
            None => Device::cpu().name(),
        };
        ran
    }

    /// Where to work on `job` and so many surrogates of a kind; `None` for the CPU.
    pub(super) fn placed(
        &self,
        job: &CountJob<'_>,
        surrogates: u32,
        kind: Kind<'_>,
    ) -> Option<&Placement> {
        let on_cpu = self.device.is_explicit() && self.device.is_cpu();
        if on_cpu || job.patterns.is_empty() || !fits(job) {
            return None;
        }
        let making = match kind {
            Kind::Dithered(..) => MAKING,
            // Made on the CPU wherever they are counted.
            Kind::Shuffled(..) | Kind::Shifted(..) => 0,
        };
        let work = (job.events.len() as u64)
            .saturating_mul(job.patterns.len() as u64 + making)
            .saturating_mul(u64::from(surrogates));
        // The CPU has as many surrogates in hand as threads.
        let threads = (rayon::current_num_threads() as u64).clamp(1, u64::from(surrogates.max(1)));
        if !self.device.is_explicit() && work / threads < AUTO_WORK {
            return None;
        }
        let placement = (self.placement).get_or_init(|| Placement::on(&self.device));
        Some(placement).filter(|p| !p.is_cpu())
    }

    /// What `there` makes of the work on `placement`, where that is one; what `on_cpu` makes of it, where it is not or the
    /// devices fall short.
    pub(super) fn on<T>(
        &self,
        placement: Option<&Placement>,
        there: impl FnOnce(&Placement) -> Result<T>,
        on_cpu: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        // It may have gone back to the CPU since.
        if let Some(placement) = placement.filter(|p| !p.is_cpu())
            && let Some(done) = placement.or_cpu(there(placement))?
        {
            self.counted_there.get_or_init(|| placement.ran("").device);
            return Ok(done);
        }
        self.counted_on_cpu.store(true, Ordering::Relaxed);
        on_cpu()
    }

    /// The counts of `job`, where `placement` says.
    pub(super) fn count(
        &self,
        placement: Option<&Placement>,
        job: &CountJob<'_>,
    ) -> Result<Vec<u64>> {
        let there = |placement: &Placement| count_placed(placement, job);
        self.on(placement, there, || LatestStart.count(job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::random_case;

    #[test]
    fn little_work_opens_no_device_and_the_cpu_is_the_cpu() {
        let case = random_case(1, 40, 3);
        let job = CountJob::new(&case.events, &case.patterns);
        let auto = Device::auto();
        let place = Place::new(&auto);
        let kind = Kind::Dithered(&case.events, 3, 1);
        assert!(place.placed(&job, 99, kind).is_none() && !auto.is_open());
        let nothing = CountJob::new(&case.events, &[]);
        assert!(place.placed(&nothing, u32::MAX, kind).is_none() && !auto.is_open());
        assert!(Place::cpu().placed(&job, u32::MAX, kind).is_none());
        assert_eq!(place.ran(), Ran::on_cpu(""));
    }

    #[test]
    fn much_work_looks_for_a_device_and_says_what_came_of_it() {
        let case = random_case(1, 40, 3);
        let job = CountJob::new(&case.events, &case.patterns);
        let place = Place::new(&Device::auto());
        let kind = Kind::Dithered(&case.events, 3, 1);
        let placement = place.placed(&job, u32::MAX, kind);
        let short = || {
            let kind = betz_base::ErrorKind::DeviceMemory;
            betz_base::Error::new(kind, "too little of it")
        };
        // Where there is a device it falls short here, and where there is none the CPU counts anyway.
        let done = place.on(placement, |_| Err(short()), || Ok(7));
        assert_eq!(done.unwrap(), 7);
        let ran = place.ran();
        assert_eq!(ran.device, "cpu");
        assert!(ran.fallback.is_some(), "{ran:?}");
        assert!(place.placed(&job, u32::MAX, kind).is_none());
    }
}
