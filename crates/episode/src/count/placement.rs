//! Where counting runs, decided by the first work that gains.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use betz_base::error::Result;
use betz_device::{Device, Placement, Ran};

/// Where several counts run: on a device, on the CPU, or on both.
///
/// A device that the user named takes all work that fits it. With [`Device::auto`], work that is too small to gain
/// stays on the CPU; the first work that gains looks for a device, and if the device falls short later, the CPU takes
/// over ([`Placement::or_cpu`]). Counts are the same to the bit wherever they are made.
#[derive(Debug)]
pub struct LazyPlacement {
    /// The device that the caller asked for.
    device: Device,
    /// The decision, once there was work that gains.
    placement: OnceLock<Placement>,
    /// The device's name, once it has counted.
    used_device: OnceLock<String>,
    used_cpu: AtomicBool,
}

impl LazyPlacement {
    /// Work on `device`, or on the device that [`Device::auto`] finds.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            ..Self::cpu()
        }
    }

    /// Work on the CPU alone.
    pub const fn cpu() -> Self {
        Self {
            device: Device::cpu(),
            placement: OnceLock::new(),
            used_device: OnceLock::new(),
            used_cpu: AtomicBool::new(false),
        }
    }

    /// The placement of work that fits a device and, if `gains` says so, is faster there; `None` for the CPU.
    pub fn decide(&self, gains: bool) -> Option<&Placement> {
        let named = self.device.is_explicit();
        if named && self.device.is_cpu() || !(named || gains) {
            return None;
        }
        let placement = self.placement.get_or_init(|| Placement::on(&self.device));
        Some(placement).filter(|p| !p.is_cpu())
    }

    /// Runs `on_device` if there is a `placement`; runs `on_cpu` if there is none or the device falls short.
    ///
    /// # Errors
    /// Those of the two closures; of `on_device` as [`Placement::or_cpu`] decides.
    pub fn run<T>(
        &self,
        placement: Option<&Placement>,
        on_device: impl FnOnce(&Placement) -> Result<T>,
        on_cpu: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        // Another thread's work may have gone back to the CPU since.
        if let Some(placement) = placement.filter(|p| !p.is_cpu())
            && let Some(done) = placement.or_cpu(on_device(placement))?
        {
            self.used_device.get_or_init(|| placement.ran("").device);
            return Ok(done);
        }
        self.used_cpu.store(true, Ordering::Relaxed);
        on_cpu()
    }

    /// Where work has run so far, by `path`: `cpu and cuda:0` if some of it was too small to gain on the device.
    pub fn ran(&self, path: &'static str) -> Ran {
        let Some(placement) = self.placement.get() else {
            return Ran::on_cpu(path);
        };
        let mut ran = placement.ran(path);
        let used_cpu = self.used_cpu.load(Ordering::Relaxed);
        ran.device = match self.used_device.get() {
            Some(device) if used_cpu => format!("cpu and {device}"),
            Some(device) => device.clone(),
            None => Device::cpu().name(),
        };
        ran
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_work_opens_no_device_and_the_cpu_is_the_cpu() {
        let auto = Device::auto();
        let place = LazyPlacement::new(&auto);
        assert!(place.decide(false).is_none() && !auto.is_open());
        assert!(LazyPlacement::cpu().decide(true).is_none());
        assert_eq!(place.ran("walk"), Ran::on_cpu("walk"));
    }

    #[test]
    fn work_that_gains_looks_for_a_device_and_reports_the_outcome() {
        let place = LazyPlacement::new(&Device::auto());
        let placement = place.decide(true);
        let short = || {
            let kind = betz_base::ErrorKind::DeviceMemory;
            betz_base::Error::new(kind, "too little of it")
        };
        // A device falls short here; without a device the CPU counts anyway.
        let done = place.run(placement, |_| Err(short()), || Ok(7));
        assert_eq!(done.unwrap(), 7);
        let ran = place.ran("");
        assert_eq!(ran.device, "cpu");
        assert!(ran.fallback.is_some(), "{ran:?}");
        assert!(place.decide(true).is_none());
    }
}
