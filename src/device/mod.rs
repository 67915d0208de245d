//! Where heavy work runs: the CPU's threads, one CUDA device, or all of them.
//!
//! CUDA is loaded at run time. A machine without a driver, a library or a device is no error for
//! [`DeviceSpec::Auto`], which then stays on the CPU and keeps the reason; asking for CUDA by name
//! where it cannot be had is an error that says why. Nothing here knows what the work is about.

#[cfg(feature = "cuda")]
pub mod cuda;
mod probe;

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

pub use probe::{CudaDevice, Probe, probe};

/// A choice of device, as written on a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceSpec {
    /// A CUDA device where one works and the work is large enough, the CPU otherwise.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The CUDA device of this number, in the driver's order.
    Cuda(usize),
    /// Every CUDA device of the machine.
    CudaAll,
}

impl FromStr for DeviceSpec {
    type Err = Error;

    /// `auto`, `cpu`, `cuda` (device 0), `cuda:N` or `cuda:all`.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "cuda:all" => Ok(Self::CudaAll),
            other => other
                .strip_prefix("cuda:")
                // `usize::from_str` takes a leading `+`.
                .filter(|n| n.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|n| n.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| {
                    Error::argument(format!(
                        "device: expected auto, cpu, cuda, cuda:N or cuda:all, got {other:?}"
                    ))
                }),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(n) => write!(f, "cuda:{n}"),
            Self::CudaAll => f.write_str("cuda:all"),
        }
    }
}

/// A device that is open and ready.
#[derive(Debug, Clone)]
pub struct Device {
    #[cfg(feature = "cuda")]
    contexts: Vec<std::sync::Arc<cuda::Context>>,
    fallback: Option<String>,
    chosen: bool,
}

impl Device {
    /// The CPU.
    pub fn cpu() -> Self {
        Self {
            #[cfg(feature = "cuda")]
            contexts: Vec::new(),
            fallback: None,
            chosen: true,
        }
    }

    /// The CUDA device `number`.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable), with what is missing.
    pub fn cuda(number: usize) -> Result<Self> {
        #[cfg(feature = "cuda")]
        return Ok(Self {
            contexts: vec![cuda::Context::open(number)?],
            fallback: None,
            chosen: true,
        });
        #[cfg(not(feature = "cuda"))]
        Err(Error::new(
            crate::ErrorKind::DeviceUnavailable,
            format!("CUDA device {number}: {}", probe::BUILT_WITHOUT),
        ))
    }

    /// All CUDA devices of the machine, at least one.
    ///
    /// # Errors
    /// As [`Device::cuda`].
    pub fn cuda_all() -> Result<Self> {
        let mut all = Self::cuda(0)?;
        let _ = &mut all;
        #[cfg(feature = "cuda")]
        for number in 1..cuda::device_count()? {
            all.contexts.push(cuda::Context::open(number)?);
        }
        Ok(all)
    }

    /// The first CUDA device where one works, the CPU otherwise: [`Device::fallback`] then says
    /// what stood in the way.
    pub fn auto() -> Self {
        match Self::cuda(0) {
            Ok(mut device) => {
                device.chosen = false;
                device
            }
            Err(error) => Self {
                #[cfg(feature = "cuda")]
                contexts: Vec::new(),
                fallback: Some(error.message().to_owned()),
                chosen: false,
            },
        }
    }

    /// The device that `spec` asks for.
    ///
    /// # Errors
    /// As [`Device::cuda`], for a `spec` that names CUDA.
    pub fn open(spec: DeviceSpec) -> Result<Self> {
        match spec {
            DeviceSpec::Auto => Ok(Self::auto()),
            DeviceSpec::Cpu => Ok(Self::cpu()),
            DeviceSpec::Cuda(number) => Self::cuda(number),
            DeviceSpec::CudaAll => Self::cuda_all(),
        }
    }

    /// Why [`Device::auto`] stayed on the CPU; `None` when it did not, or was not asked.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// True when the user named this device: work then runs there even where another would be
    /// faster.
    pub fn is_explicit(&self) -> bool {
        self.chosen
    }

    /// True for the CPU.
    pub fn is_cpu(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.contexts.is_empty();
        #[cfg(not(feature = "cuda"))]
        true
    }

    /// `cpu`, `cuda:N` or `cuda:all`.
    pub fn name(&self) -> String {
        #[cfg(feature = "cuda")]
        match self.contexts.as_slice() {
            [] => {}
            [one] => return format!("cuda:{}", one.number()),
            _ => return "cuda:all".to_owned(),
        }
        "cpu".to_owned()
    }

    /// The open CUDA contexts, one a device; none on the CPU.
    #[cfg(feature = "cuda")]
    pub fn contexts(&self) -> &[std::sync::Arc<cuda::Context>] {
        &self.contexts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_read_back_as_written() {
        for (text, spec) in [
            ("auto", DeviceSpec::Auto),
            ("cpu", DeviceSpec::Cpu),
            ("cuda:0", DeviceSpec::Cuda(0)),
            ("cuda:13", DeviceSpec::Cuda(13)),
            ("cuda:all", DeviceSpec::CudaAll),
        ] {
            assert_eq!(text.parse::<DeviceSpec>().unwrap(), spec);
            assert_eq!(spec.to_string(), text);
        }
        assert_eq!("cuda".parse::<DeviceSpec>().unwrap(), DeviceSpec::Cuda(0));
    }

    #[test]
    fn other_specs_are_refused_by_name() {
        for text in [
            "", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda:1x", "CPU", "cuda:ALL",
        ] {
            let error = text.parse::<DeviceSpec>().unwrap_err();
            assert!(error.message().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn auto_always_gives_a_device_and_a_reason_when_it_is_the_cpu() {
        let device = Device::auto();
        assert_eq!(device.is_cpu(), device.fallback().is_some());
        assert!(!device.is_explicit());
        let probe = probe();
        assert_eq!(probe.devices.is_empty(), probe.reason.is_some());
        if device.is_cpu() {
            assert_eq!(device.name(), "cpu");
            let error = Device::open(DeviceSpec::Cuda(0)).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::DeviceUnavailable);
            eprintln!("no CUDA here: {}", error.message());
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        let error = Device::cuda(999).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::DeviceUnavailable);
    }
}
