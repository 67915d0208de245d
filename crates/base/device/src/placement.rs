//! Placement of an operation: decided once, carried along, reported with the result.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use betz_base::ErrorKind::{DeviceMemory, DeviceUnavailable};
use betz_base::error::Result;

use super::cost::Calibration;
use super::cuda;
use super::device::Device;

/// Work to be placed, as an operation knows it. The rule of [`Placement::decide`] is the same for all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Work {
    /// The operation says itself if a device gains; false also for work that no kernel can do.
    Gains(bool),
    /// A device gains from some amount on, in any unit.
    Amount {
        /// Amount of this operation.
        amount: f64,
        /// Least amount by which a device gains.
        gains_from: f64,
    },
    /// A device gains if it takes less time. The time that it takes to start a device
    /// ([`Device::start_seconds`]) is added here.
    Seconds {
        /// Expected seconds on the CPU.
        cpu: f64,
        /// Expected seconds on a device that is open.
        cuda: f64,
    },
}

impl Work {
    /// True if the work is expected to gain by `device`, which is not opened by the question.
    fn gains(self, device: &Device) -> bool {
        match self {
            Self::Gains(gains) => gains,
            Self::Amount { amount, gains_from } => amount >= gains_from,
            Self::Seconds { cpu, cuda } => {
                device.start_seconds(&Calibration::current()) + cuda < cpu
            }
        }
    }
}

/// Placement of one operation on the CPU or on CUDA devices. An operation makes one when it begins, asks nothing else on
/// the way, and reports it by [`Placement::ran`]. It is made for one operation: if a device falls short in
/// one, the next does not remember it.
///
/// ```
/// use betz_base::{Error, ErrorKind};
/// use betz_device::{Device, Placement, Work};
///
/// // Too little work to open a device for.
/// let placement = Placement::decide(&Device::auto(), Work::Gains(false));
/// assert!(placement.is_cpu());
/// assert_eq!(placement.fallback(), None);
///
/// // If nobody named the device, the CPU takes over the work that it has no memory for.
/// let placement = Placement::on(&Device::auto());
/// let short = Error::new(ErrorKind::DeviceMemory, "expected room for 9 bytes, got 7");
/// let done: Option<f64> = placement.or_cpu(Err(short))?;
/// assert!(done.is_none() && placement.is_cpu());
/// assert_eq!(placement.ran("dense").device, "cpu");
/// assert!(placement.ran("dense").fallback.is_some());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Placement {
    /// The CPU, or a device that is open.
    device: Device,
    /// The user named it.
    named: bool,
    /// Reason for which work that was meant for CUDA is done on the CPU.
    fallback: OnceLock<String>,
}

/// Report of where an operation ran, and why not elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// `cpu`, `cuda:N` or `cuda:all`; `cpu and cuda:N` where one operation had parts too small to gain on
    /// the device.
    pub device: String,
    /// The name of the path, algorithm or strategy that was taken; empty where there is but one.
    pub path: &'static str,
    /// Reason why work for CUDA ran on the CPU: the device cannot be opened, or it lacked memory.
    pub fallback: Option<String>,
    /// Bytes to which the memory planned for on each CUDA device was limited.
    pub memory_cap: Option<u64>,
}

impl Ran {
    /// All of it on the CPU, by `path`, as was meant.
    pub fn on_cpu(path: &'static str) -> Self {
        Self {
            device: Device::cpu().name(),
            path,
            fallback: None,
            memory_cap: None,
        }
    }
}

impl Default for Ran {
    fn default() -> Self {
        Self::on_cpu("")
    }
}

impl Placement {
    /// The CPU, as was meant.
    pub const fn cpu() -> Self {
        Self {
            device: Device::cpu(),
            named: true,
            fallback: OnceLock::new(),
        }
    }

    /// The CPU, for work that no kernel does. Where the user named another device, [`fallback`](Self::fallback) says
    /// `reason`.
    pub fn cpu_instead(device: &Device, reason: &str) -> Self {
        let placement = Self::cpu();
        if device.is_explicit() && !device.is_cpu() {
            let _ = placement.fallback.set(reason.to_owned());
        }
        placement
    }

    /// Places `work`. A device that the user named is taken. Of [`Device::auto`] the CUDA device is taken if the
    /// work gains by it and there is one, the CPU otherwise; it is opened only if the work gains. The memory cap
    /// of `device` ([`Device::with_memory_cap`]) is set.
    pub fn decide(device: &Device, work: Work) -> Self {
        let named = device.is_explicit();
        let fallback = OnceLock::new();
        let gains = named || work.gains(device);
        let device = if named || gains && !device.is_cpu() {
            device.clone()
        } else {
            // Asked only if it matters: the question opens `auto`.
            if gains && let Some(reason) = device.fallback() {
                let _ = fallback.set(reason.to_owned());
            }
            Device::cpu()
        };
        device.apply_memory_cap();
        Self {
            device,
            named,
            fallback,
        }
    }

    /// `device`, however little the work gains by it; the CPU if [`Device::auto`] finds no other. Opens
    /// what `auto` left closed.
    pub fn on(device: &Device) -> Self {
        Self::decide(device, Work::Gains(true))
    }

    /// The device: the CPU once the operation went back to it.
    pub fn device(&self) -> Device {
        match self.fallback.get() {
            Some(_) => Device::cpu(),
            None => self.device.clone(),
        }
    }

    /// True if the next part of the operation runs on the CPU.
    pub fn is_cpu(&self) -> bool {
        self.fallback.get().is_some() || self.device.is_cpu()
    }

    /// True when the user named the device.
    pub const fn is_explicit(&self) -> bool {
        self.named
    }

    /// The open CUDA contexts, one per device; none on the CPU, and none once the operation went back to
    /// it.
    pub fn contexts(&self) -> &[std::sync::Arc<cuda::Context>] {
        match self.fallback.get() {
            Some(_) => &[],
            None => self.device.contexts(),
        }
    }

    /// Reason for which work that was meant for CUDA is done on the CPU.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.get().map(String::as_str)
    }

    /// Result of a part of the operation. `Ok(None)` if the user did not name the device and it
    /// cannot do the work (a library is missing, or its memory or another limit of it falls short):
    /// the CPU then does that part and the rest of the operation, and [`Placement::fallback`]
    /// keeps the reason.
    ///
    /// # Errors
    /// Any other error of `outcome`, and every one where the user named the device.
    pub fn or_cpu<T>(&self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Err(e) if !self.named && matches!(e.kind(), DeviceUnavailable | DeviceMemory) => {
                // Another thread's reason, where it came first.
                self.fallback.get_or_init(|| e.message().to_owned());
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Reports the operation, done by `path`.
    pub fn ran(&self, path: &'static str) -> Ran {
        Ran {
            device: self.device().name(),
            path,
            fallback: self.fallback().map(str::to_owned),
            memory_cap: self.device.current_memory_cap(),
        }
    }
}

/// A placement for many parts of work of which nobody knows beforehand if one gains by a device. The device is
/// looked for by the first part that gains; the result of that holds for all parts after it.
#[derive(Debug)]
pub struct DeferredPlacement {
    /// The device that was asked for.
    device: Device,
    /// Its placement, once there was work that gains.
    placement: OnceLock<Placement>,
    /// The device's name, once a part ran there.
    ran_there: OnceLock<String>,
    ran_on_cpu: AtomicBool,
}

impl DeferredPlacement {
    /// On `device`, or wherever [`Device::auto`] leads.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            ..Self::cpu()
        }
    }

    /// Places every part on the CPU.
    pub const fn cpu() -> Self {
        Self {
            device: Device::cpu(),
            placement: OnceLock::new(),
            ran_there: OnceLock::new(),
            ran_on_cpu: AtomicBool::new(false),
        }
    }

    /// Places a part of the work by the rule of [`Placement::decide`]; `None` for the CPU.
    pub fn decide(&self, work: Work) -> Option<&Placement> {
        if !(self.device.is_explicit() || work.gains(&self.device)) {
            return None;
        }
        let placement = self.placement.get_or_init(|| Placement::on(&self.device));
        Some(placement).filter(|p| !p.is_cpu())
    }

    /// Does a part of the work: `there` if `placement` is a device that can, `on_cpu` otherwise.
    ///
    /// # Errors
    /// The errors of `there` that [`Placement::or_cpu`] passes on, and those of `on_cpu`.
    pub fn run<T>(
        &self,
        placement: Option<&Placement>,
        there: impl FnOnce(&Placement) -> Result<T>,
        on_cpu: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        // It may have gone back to the CPU since.
        if let Some(placement) = placement.filter(|p| !p.is_cpu())
            && let Some(done) = placement.or_cpu(there(placement))?
        {
            self.ran_there.get_or_init(|| placement.device().name());
            return Ok(done);
        }
        self.ran_on_cpu.store(true, Ordering::Relaxed);
        on_cpu()
    }

    /// Reports the parts so far, done by `path`: `cpu and cuda:0` if some ran here and some there.
    pub fn ran(&self, path: &'static str) -> Ran {
        let Some(placement) = self.placement.get() else {
            return Ran::on_cpu(path);
        };
        let mut ran = placement.ran(path);
        let on_cpu = self.ran_on_cpu.load(Ordering::Relaxed);
        ran.device = match self.ran_there.get() {
            Some(device) if on_cpu => format!("cpu and {device}"),
            Some(device) => device.clone(),
            None => Device::cpu().name(),
        };
        ran
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_base::ErrorKind::DeviceFailure;
    use betz_base::error::{Error, ErrorKind};

    fn short(kind: ErrorKind) -> Result<()> {
        Err(Error::new(kind, "too little of it"))
    }

    #[test]
    fn a_device_that_was_named_stands() {
        let placement = Placement::decide(&Device::cpu(), Work::Gains(true));
        assert!(placement.is_cpu() && placement.is_explicit());
        for kind in [DeviceUnavailable, DeviceMemory, DeviceFailure] {
            assert_eq!(placement.or_cpu(short(kind)).unwrap_err().kind(), kind);
        }
        assert_eq!(placement.ran("event"), Ran::on_cpu("event"));
        assert_eq!(Placement::cpu().ran(""), Ran::default());
    }

    /// Where a machine has CUDA, the reason is told to who named it; nobody else waits for one.
    #[test]
    fn work_without_a_kernel_says_so_where_cuda_was_named() {
        let auto = Device::auto();
        for device in [&Device::cpu(), &auto] {
            let placement = Placement::cpu_instead(device, "no kernel");
            assert!(placement.is_cpu() && placement.fallback().is_none());
        }
        assert!(!auto.is_open());
        if let Ok(cuda) = Device::cuda(0) {
            let ran = Placement::cpu_instead(&cuda, "no kernel").ran("dense");
            assert_eq!(
                (&*ran.device, ran.fallback.as_deref()),
                ("cpu", Some("no kernel"))
            );
        }
    }

    #[test]
    fn work_that_does_not_gain_opens_nothing() {
        let auto = Device::auto();
        let few = Work::Amount {
            amount: 99.0,
            gains_from: 100.0,
        };
        let short = Work::Seconds {
            cpu: 0.2,
            cuda: 0.2,
        };
        for work in [Work::Gains(false), few, short] {
            let placement = Placement::decide(&auto, work);
            assert!(placement.is_cpu() && !placement.is_explicit() && !auto.is_open());
            assert_eq!(placement.fallback(), None);
            let deferred = DeferredPlacement::new(&auto);
            assert!(deferred.decide(work).is_none() && !auto.is_open());
            assert_eq!(deferred.ran("walk"), Ran::on_cpu("walk"));
        }
    }

    #[test]
    fn work_that_gains_looks_for_a_device() {
        let enough = Work::Amount {
            amount: 100.0,
            gains_from: 100.0,
        };
        let long = Work::Seconds {
            cpu: 1e9,
            cuda: 0.2,
        };
        for work in [Work::Gains(true), enough, long] {
            let auto = Device::auto();
            assert_eq!(Placement::decide(&auto, work).is_cpu(), auto.is_cpu());
            assert!(auto.is_open());
        }
    }

    #[test]
    fn parts_of_work_say_where_they_ran() {
        let auto = Device::auto();
        let deferred = DeferredPlacement::new(&auto);
        let placement = deferred.decide(Work::Gains(true));
        assert_eq!(placement.is_none(), auto.is_cpu());
        let place = |placement| deferred.run(placement, |_| Ok("there"), || Ok("here"));
        let expected = if auto.is_cpu() { "here" } else { "there" };
        assert_eq!(place(placement).unwrap(), expected);
        assert_eq!(place(None).unwrap(), "here");
        let device = deferred.ran("walk").device;
        assert_eq!(device == "cpu", auto.is_cpu(), "{device}");
        assert!(device.starts_with("cpu"), "{device}");
        assert!(DeferredPlacement::cpu().decide(Work::Gains(true)).is_none());
    }

    #[test]
    fn the_operation_alone_goes_back_to_the_cpu() {
        let auto = Device::auto();
        let reason = Placement::on(&auto).fallback().map(str::to_owned);
        assert_eq!(reason.is_some(), auto.is_cpu());
        for kind in [DeviceUnavailable, DeviceMemory] {
            let placement = Placement::on(&auto);
            assert_eq!(placement.or_cpu(Ok(7)).unwrap(), Some(7));
            let broken = placement.or_cpu(short(DeviceFailure)).unwrap_err();
            assert_eq!(broken.kind(), DeviceFailure);
            assert_eq!(placement.or_cpu(short(kind)).unwrap(), None);
            assert!(placement.is_cpu() && placement.device().is_cpu());
            let ran = placement.ran("dense");
            assert_eq!((ran.device.as_str(), ran.path), ("cpu", "dense"));
            let expected = reason.as_deref().unwrap_or("too little of it");
            assert_eq!(ran.fallback.as_deref(), Some(expected));
            assert!(placement.contexts().is_empty());
        }
        // The next operation starts afresh.
        assert_eq!(auto.fallback(), reason.as_deref());
    }
}
