//! Where heavy work runs: the CPU's threads, one CUDA device, or all of them.
//!
//! CUDA is loaded at run time. A machine without a driver, a library or a device is no error for
//! [`DeviceSpec::Auto`], which then stays on the CPU and keeps the reason; asking for CUDA by name
//! where it cannot be had is an error that says why. Nothing here knows what the work is about.

mod cache;
pub mod cost;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod partition;
mod probe;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

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

/// How exactly a device multiplies matrices of f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// As f32 arithmetic does.
    #[default]
    F32,
    /// Factors rounded to TF32's 11 bits, sums in f32: several times faster where a device has it.
    Tf32,
}

impl Precision {
    /// `f32` or `tf32`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
        }
    }
}

/// Where work is to run.
#[derive(Debug, Clone)]
pub struct Device(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(Vec<Arc<cuda::Context>>),
    /// Opened when first needed: starting CUDA takes longer than much of the work there is.
    Auto(Arc<OnceLock<Found>>),
}

/// What [`Device::auto`] came to.
#[derive(Debug)]
struct Found {
    #[cfg(feature = "cuda")]
    contexts: Vec<Arc<cuda::Context>>,
    fallback: Option<String>,
}

impl Device {
    /// The CPU.
    pub const fn cpu() -> Self {
        Self(Kind::Cpu)
    }

    /// The CUDA device `number`.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable), with what is missing.
    pub fn cuda(number: usize) -> Result<Self> {
        #[cfg(feature = "cuda")]
        return Ok(Self(Kind::Cuda(vec![cuda::Context::open(number)?])));
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
        #[cfg(feature = "cuda")]
        {
            let mut contexts = vec![cuda::Context::open(0)?];
            for number in 1..cuda::device_count()? {
                contexts.push(cuda::Context::open(number)?);
            }
            Ok(Self(Kind::Cuda(contexts)))
        }
        #[cfg(not(feature = "cuda"))]
        Self::cuda(0)
    }

    /// The first CUDA device where one works and the work is large enough to gain by it, the CPU
    /// otherwise. Nothing is opened before [`Device::contexts`] or one of the questions below is
    /// asked; [`Device::fallback`] then says what stood in the way.
    pub fn auto() -> Self {
        Self(Kind::Auto(Arc::default()))
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

    /// What [`Device::auto`] found, looked for on the first call.
    fn found(found: &OnceLock<Found>) -> &Found {
        found.get_or_init(|| match Self::cuda(0) {
            #[cfg(feature = "cuda")]
            Ok(device) => Found {
                contexts: device.contexts().to_vec(),
                fallback: None,
            },
            #[cfg(not(feature = "cuda"))]
            Ok(_) => Found { fallback: None },
            Err(error) => Found {
                #[cfg(feature = "cuda")]
                contexts: Vec::new(),
                fallback: Some(error.message().to_owned()),
            },
        })
    }

    /// Why [`Device::auto`] stays on the CPU; `None` when it need not, or was not asked. Opens what
    /// `auto` left closed.
    pub fn fallback(&self) -> Option<&str> {
        match &self.0 {
            Kind::Auto(found) => Self::found(found).fallback.as_deref(),
            _ => None,
        }
    }

    /// What [`Device::auto`] found, as if the user had named it; any other device as it is.
    #[must_use]
    pub fn settled(&self) -> Self {
        match &self.0 {
            #[cfg(feature = "cuda")]
            Kind::Auto(_) if !self.is_cpu() => Self(Kind::Cuda(self.contexts().to_vec())),
            Kind::Auto(_) => Self::cpu(),
            _ => self.clone(),
        }
    }

    /// True when the user named this device: work then runs there even where another would be
    /// faster.
    pub fn is_explicit(&self) -> bool {
        !matches!(self.0, Kind::Auto(_))
    }

    /// True unless this is [`Device::auto`] before it had to look for CUDA.
    pub fn is_open(&self) -> bool {
        match &self.0 {
            Kind::Auto(found) => found.get().is_some(),
            _ => true,
        }
    }

    /// True when there is nothing but the CPU. Opens what `auto` left closed.
    pub fn is_cpu(&self) -> bool {
        match &self.0 {
            Kind::Cpu => true,
            #[cfg(feature = "cuda")]
            Kind::Cuda(contexts) => contexts.is_empty(),
            Kind::Auto(found) => Self::found(found).fallback.is_some(),
        }
    }

    /// `cpu`, `cuda:N` or `cuda:all`. Opens what `auto` left closed.
    pub fn name(&self) -> String {
        #[cfg(feature = "cuda")]
        match self.contexts() {
            [] => {}
            [one] => return format!("cuda:{}", one.number()),
            _ => return "cuda:all".to_owned(),
        }
        "cpu".to_owned()
    }

    /// Limits what operations plan to use of each CUDA device's memory, in bytes; `None` lifts the
    /// limit. Nothing happens on the CPU.
    pub fn set_memory_cap(&self, bytes: Option<u64>) {
        #[cfg(feature = "cuda")]
        for context in self.contexts() {
            context.set_memory_cap(bytes);
        }
        #[cfg(not(feature = "cuda"))]
        let _ = bytes;
    }

    /// The open CUDA contexts, one a device; none on the CPU. Opens what `auto` left closed.
    #[cfg(feature = "cuda")]
    pub fn contexts(&self) -> &[Arc<cuda::Context>] {
        match &self.0 {
            Kind::Cpu => &[],
            Kind::Cuda(contexts) => contexts,
            Kind::Auto(found) => &Self::found(found).contexts,
        }
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
        assert!(!device.is_open());
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
