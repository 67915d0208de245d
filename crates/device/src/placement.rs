//! Where one operation runs: decided once, carried along, told with the result.

use std::sync::OnceLock;

use betz_base::ErrorKind::{DeviceMemory, DeviceUnavailable};
use betz_base::error::Result;

use super::Device;
use super::cuda;

/// Where one operation runs. An operation makes one when it begins, asks it alone on the way, and says
/// by [`Placement::ran`] what became of it. It is made for one operation: that a device fell short
/// in one is not remembered by the next.
///
/// ```
/// use betz_base::{Error, ErrorKind};
/// use betz_device::{Device, Placement};
///
/// // Too little work to open a device for.
/// let placement = Placement::decide(&Device::auto(), false);
/// assert!(placement.is_cpu());
/// assert_eq!(placement.fallback(), None);
///
/// // Where nobody named the device, the CPU takes over what it has not the memory for.
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
    /// Why work that was for CUDA is done on the CPU.
    fallback: OnceLock<String>,
}

/// What ran where, and why not elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// `cpu`, `cuda:N` or `cuda:all`; `cpu and cuda:N` where one operation had parts too small to gain on
    /// the device.
    pub device: String,
    /// The name of the path, algorithm or strategy that was taken; empty where there is but one.
    pub path: &'static str,
    /// Why what was for CUDA was done on the CPU: the device cannot be had, or it fell short.
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
    /// The CPU, and nothing else was meant.
    pub const fn cpu() -> Self {
        Self {
            device: Device::cpu(),
            named: true,
            fallback: OnceLock::new(),
        }
    }

    /// `device` itself where the user named it. Of [`Device::auto`] the CUDA device where the work `gains`
    /// by it and there is one, the CPU otherwise; only where the work gains is it opened. The memory cap
    /// of `device` ([`Device::with_memory_cap`]) is set.
    pub fn decide(device: &Device, gains: bool) -> Self {
        let named = device.is_explicit();
        let fallback = OnceLock::new();
        let device = if named || gains && !device.is_cpu() {
            device.clone()
        } else {
            // Asked only where it matters: the question opens `auto`.
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

    /// `device`, however little the work gains by it; the CPU where [`Device::auto`] comes to none. Opens
    /// what `auto` left closed.
    pub fn on(device: &Device) -> Self {
        Self::decide(device, true)
    }

    /// The device: the CPU once the operation went back to it.
    pub fn device(&self) -> Device {
        match self.fallback.get() {
            Some(_) => Device::cpu(),
            None => self.device.clone(),
        }
    }

    /// True when what comes next runs on the CPU.
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

    /// Why work that was for CUDA is done on the CPU.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.get().map(String::as_str)
    }

    /// What became of a part of the operation. `Ok(None)` where the user did not name the device and it
    /// cannot do the work (a library is missing, or its memory or another limit of it falls short):
    /// that part is then for the CPU, as is the rest of the operation, and [`Placement::fallback`]
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

    /// What to say of the operation, done by `path`.
    pub fn ran(&self, path: &'static str) -> Ran {
        Ran {
            device: self.device().name(),
            path,
            fallback: self.fallback().map(str::to_owned),
            memory_cap: self.device.current_memory_cap(),
        }
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
        let placement = Placement::decide(&Device::cpu(), true);
        assert!(placement.is_cpu() && placement.is_explicit());
        for kind in [DeviceUnavailable, DeviceMemory, DeviceFailure] {
            assert_eq!(placement.or_cpu(short(kind)).unwrap_err().kind(), kind);
        }
        assert_eq!(placement.ran("event"), Ran::on_cpu("event"));
        assert_eq!(Placement::cpu().ran(""), Ran::default());
    }

    #[test]
    fn work_that_does_not_gain_opens_nothing() {
        let auto = Device::auto();
        let placement = Placement::decide(&auto, false);
        assert!(placement.is_cpu() && !placement.is_explicit() && !auto.is_open());
        assert_eq!(placement.fallback(), None);
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
