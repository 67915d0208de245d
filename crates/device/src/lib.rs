//! Where heavy work runs: the CPU's threads, one CUDA device, or all of them.
//!
//! CUDA is loaded at run time. A machine without a driver, a library or a device is no error for
//! [`DeviceSpec::Auto`], which then stays on the CPU and keeps the reason; asking for CUDA by name
//! where it cannot be had is an error that says why. Nothing here knows what the work is about.
//!
//! ```
//! use betz_device::{Device, DeviceSpec};
//!
//! # fn main() -> betz_base::Result<()> {
//! let device = Device::open("auto".parse::<DeviceSpec>()?)?;
//! assert!(!device.is_explicit()); // `auto` leaves the choice to the work
//! println!("{}: {}", device.name(), device.fallback().unwrap_or("ready"));
//! # Ok(())
//! # }
//! ```

mod cache;
pub mod cost;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod partition;
mod probe;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use betz_base::error::{Error, Result};

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
    Auto(Arc<Auto>),
}

/// What the copies of one [`Device::auto`] share.
#[derive(Debug, Default)]
struct Auto {
    found: OnceLock<Found>,
    /// Why work that had been given to CUDA went on on the CPU; see [`Device::or_cpu`].
    given_up: OnceLock<String>,
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
    /// [`ErrorKind::DeviceUnavailable`](betz_base::ErrorKind::DeviceUnavailable), with what is missing.
    pub fn cuda(number: usize) -> Result<Self> {
        #[cfg(feature = "cuda")]
        return Ok(Self(Kind::Cuda(vec![cuda::Context::open(number)?])));
        #[cfg(not(feature = "cuda"))]
        Err(Error::new(
            betz_base::ErrorKind::DeviceUnavailable,
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
            let numbers = 0..cuda::device_count()?.max(1);
            let contexts = numbers.map(cuda::Context::open).collect::<Result<_>>()?;
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

    /// Why [`Device::auto`] stays on the CPU, or went back to it; `None` when it need not, or was not
    /// asked. Opens what `auto` left closed.
    pub fn fallback(&self) -> Option<&str> {
        match &self.0 {
            Kind::Auto(auto) => auto.fallback(),
            _ => None,
        }
    }

    /// What became of work on this device. `Ok(None)` where the user did not name the device and it
    /// cannot do the work (a library is missing, or its memory or another limit of it falls short):
    /// the work is then for the CPU, as is whatever else is asked of this device or a copy of it, and
    /// [`Device::fallback`] keeps the reason.
    ///
    /// # Errors
    /// Any other error of `outcome`, and every one where the user named the device.
    pub fn or_cpu<T>(&self, outcome: Result<T>) -> Result<Option<T>> {
        use betz_base::ErrorKind::{DeviceMemory, DeviceUnavailable};
        match (&self.0, outcome) {
            (_, Ok(done)) => Ok(Some(done)),
            (Kind::Auto(auto), Err(e)) if matches!(e.kind(), DeviceUnavailable | DeviceMemory) => {
                auto.given_up.get_or_init(|| e.message().to_owned());
                Ok(None)
            }
            (_, Err(error)) => Err(error),
        }
    }

    /// The first of its CUDA devices alone, as if the user had named it; the CPU where there is none.
    #[must_use]
    pub fn first(&self) -> Self {
        #[cfg(feature = "cuda")]
        if let Some(context) = self.contexts().first() {
            return Self(Kind::Cuda(vec![Arc::clone(context)]));
        }
        Self::cpu()
    }

    /// True when the user named this device: work then runs there even where another would be
    /// faster.
    pub fn is_explicit(&self) -> bool {
        !matches!(self.0, Kind::Auto(_))
    }

    /// True unless this is [`Device::auto`] before it had to look for CUDA.
    pub fn is_open(&self) -> bool {
        match &self.0 {
            Kind::Auto(auto) => auto.found.get().is_some(),
            _ => true,
        }
    }

    /// True when using this device starts nothing: it is open, or [`Device::auto`] comes to a process
    /// that has opened CUDA already.
    pub fn is_started(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.is_open() || cuda::Context::any_open();
        #[cfg(not(feature = "cuda"))]
        self.is_open()
    }

    /// True when there is nothing but the CPU. Opens what `auto` left closed.
    pub fn is_cpu(&self) -> bool {
        match &self.0 {
            Kind::Cpu => true,
            #[cfg(feature = "cuda")]
            Kind::Cuda(contexts) => contexts.is_empty(),
            Kind::Auto(auto) => auto.fallback().is_some(),
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
            Kind::Auto(auto) if auto.given_up.get().is_some() => &[],
            Kind::Auto(auto) => &auto.found().contexts,
        }
    }
}

impl Auto {
    /// What there is, looked for on the first call.
    fn found(&self) -> &Found {
        self.found.get_or_init(|| {
            #[cfg(feature = "cuda")]
            return match first_that_works(cuda::device_count(), cuda::Context::open) {
                Ok(context) => Found {
                    contexts: vec![context],
                    fallback: None,
                },
                Err(reasons) => Found {
                    contexts: Vec::new(),
                    fallback: Some(reasons),
                },
            };
            #[cfg(not(feature = "cuda"))]
            Found {
                fallback: Some(probe::BUILT_WITHOUT.to_owned()),
            }
        })
    }

    fn fallback(&self) -> Option<&str> {
        let found = || self.found().fallback.as_deref();
        self.given_up.get().map(String::as_str).or_else(found)
    }
}

/// The first of `count` devices that `open` succeeds with, or why none does: each reason once.
#[cfg(feature = "cuda")]
fn first_that_works<T>(
    count: Result<usize>,
    open: impl Fn(usize) -> Result<T>,
) -> std::result::Result<T, String> {
    let mut reasons: Vec<String> = Vec::new();
    for number in 0..count.map_err(|e| e.message().to_owned())? {
        match open(number) {
            Ok(opened) => return Ok(opened),
            // What has to do with no device in particular comes again with every one.
            Err(e) if reasons.iter().any(|r| r == e.message()) => {}
            Err(e) => reasons.push(e.message().to_owned()),
        }
    }
    if reasons.is_empty() {
        reasons.push("the CUDA driver reports no device".to_owned());
    }
    Err(reasons.join("; "))
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
        let probe = probe();
        assert_eq!(probe.devices.is_empty(), probe.reason.is_some());
        #[cfg(feature = "cuda")]
        assert_eq!(device.contexts().is_empty(), probe.devices.is_empty());
        assert_eq!(device.is_cpu(), probe.devices.is_empty());
        assert_eq!(device.is_cpu(), device.name() == "cpu");
        assert_eq!(device.fallback().is_some(), probe.devices.is_empty());
        assert!(device.is_open() && !device.is_explicit());
        if device.is_cpu() {
            let error = Device::open(DeviceSpec::Cuda(0)).unwrap_err();
            assert_eq!(error.kind(), betz_base::ErrorKind::DeviceUnavailable);
            eprintln!("no CUDA here: {}", error.message());
        }
    }

    #[test]
    fn auto_goes_on_with_the_cpu_where_a_device_falls_short() {
        use betz_base::ErrorKind::{DeviceFailure, DeviceMemory, DeviceUnavailable};
        let short = |kind| Err::<(), _>(Error::new(kind, "too little of it"));
        let named = Device::cpu();
        for kind in [DeviceUnavailable, DeviceMemory, DeviceFailure] {
            assert_eq!(named.or_cpu(short(kind)).unwrap_err().kind(), kind);
        }
        assert_eq!(named.fallback(), None);
        let auto = Device::auto();
        assert_eq!(auto.or_cpu(Ok(7)).unwrap(), Some(7));
        let broken = auto.or_cpu(short(DeviceFailure)).unwrap_err();
        assert_eq!(broken.kind(), DeviceFailure);
        assert!(!auto.is_open());
        for kind in [DeviceUnavailable, DeviceMemory] {
            let auto = Device::auto();
            let copy = auto.clone();
            assert_eq!(auto.or_cpu(short(kind)).unwrap(), None);
            for device in [&auto, &copy] {
                assert_eq!(device.fallback(), Some("too little of it"));
                assert!(device.is_cpu() && !device.is_explicit());
                assert_eq!(device.name(), "cpu");
            }
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn auto_takes_the_first_device_that_works_and_keeps_every_reason() {
        let broken = |n: usize| {
            let what = ["old", "old", "full"][n];
            Err::<usize, _>(Error::argument(what))
        };
        let second = |n| if n == 1 { Ok(n) } else { broken(n) };
        assert_eq!(first_that_works(Ok(3), second), Ok(1));
        assert_eq!(first_that_works(Ok(3), broken), Err("old; full".into()));
        let none = first_that_works(Ok(0), broken).unwrap_err();
        assert!(none.contains("no device"), "{none}");
        let driver = first_that_works(Err(Error::argument("no driver")), broken);
        assert_eq!(driver, Err("no driver".into()));
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        let error = Device::cuda(999).unwrap_err();
        assert_eq!(error.kind(), betz_base::ErrorKind::DeviceUnavailable);
    }
}
