//! The device that was asked for, by name or by `auto`.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use betz_base::error::{Error, Result};

use super::{cost, cuda};

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

/// The device that was asked for: the CPU, CUDA devices, or whichever suits. An operation makes a
/// [`Placement`](super::Placement) of it.
#[derive(Debug, Clone)]
pub struct Device {
    kind: Kind,
    memory_cap: Option<u64>,
}

#[derive(Debug, Clone)]
enum Kind {
    Cpu,
    Cuda(Vec<Arc<cuda::Context>>),
    /// Opened when first needed: starting CUDA takes longer than much of the work there is.
    Auto(Arc<OnceLock<AutoDevices>>),
}

/// Result of the search of [`Device::auto`].
#[derive(Debug)]
struct AutoDevices {
    contexts: Vec<Arc<cuda::Context>>,
    fallback: Option<String>,
}

impl Device {
    /// The CPU.
    pub const fn cpu() -> Self {
        Self::of(Kind::Cpu)
    }

    const fn of(kind: Kind) -> Self {
        Self {
            kind,
            memory_cap: None,
        }
    }

    /// The CUDA device `number`.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`](betz_base::ErrorKind::DeviceUnavailable), with what is missing.
    pub fn cuda(number: usize) -> Result<Self> {
        Ok(Self::of(Kind::Cuda(vec![cuda::Context::open(number)?])))
    }

    /// All CUDA devices of the machine, at least one.
    ///
    /// # Errors
    /// As [`Device::cuda`].
    pub fn cuda_all() -> Result<Self> {
        let numbers = 0..cuda::device_count()?.max(1);
        let contexts = numbers.map(cuda::Context::open).collect::<Result<_>>()?;
        Ok(Self::of(Kind::Cuda(contexts)))
    }

    /// The first CUDA device where one works and the work is large enough to gain by it, the CPU
    /// otherwise. Nothing is opened before [`Device::contexts`] or one of the questions below is
    /// asked; [`Device::fallback`] then says what stood in the way.
    pub fn auto() -> Self {
        Self::of(Kind::Auto(Arc::default()))
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

    /// Why [`Device::auto`] stays on the CPU; `None` when it need not. Opens what `auto` left closed.
    pub fn fallback(&self) -> Option<&str> {
        match &self.kind {
            Kind::Auto(auto) => open_auto(auto).fallback.as_deref(),
            _ => None,
        }
    }

    /// The first of its CUDA devices alone, as if the user had named it; the CPU where there is none.
    #[must_use]
    pub fn first(&self) -> Self {
        if let Some(context) = self.contexts().first() {
            return Self {
                kind: Kind::Cuda(vec![Arc::clone(context)]),
                memory_cap: self.memory_cap,
            };
        }
        Self::cpu()
    }

    /// True when the user named this device: work then runs there even where another would be
    /// faster.
    pub fn is_explicit(&self) -> bool {
        !matches!(self.kind, Kind::Auto(_))
    }

    /// True unless this is [`Device::auto`] before it had to look for CUDA.
    pub fn is_open(&self) -> bool {
        match &self.kind {
            Kind::Auto(auto) => auto.get().is_some(),
            _ => true,
        }
    }

    /// True when using this device starts nothing: it is open, or [`Device::auto`] comes to a process
    /// that has opened CUDA already.
    pub fn is_started(&self) -> bool {
        self.is_open() || cuda::Context::any_open()
    }

    /// Seconds to start this device before its first work; 0 if it [has started](Device::is_started).
    pub fn start_seconds(&self, calibration: &cost::Calibration) -> f64 {
        match self.is_started() {
            true => 0.0,
            false => calibration.seconds(&cost::START_CUDA, &[1.0]),
        }
    }

    /// True when there is nothing but the CPU. Opens what `auto` left closed.
    pub fn is_cpu(&self) -> bool {
        match &self.kind {
            Kind::Cpu => true,
            Kind::Cuda(contexts) => contexts.is_empty(),
            Kind::Auto(auto) => open_auto(auto).fallback.is_some(),
        }
    }

    /// `cpu`, `cuda:N` or `cuda:all`. Opens what `auto` left closed.
    pub fn name(&self) -> String {
        match self.contexts() {
            [] => {}
            [one] => return format!("cuda:{}", one.number()),
            _ => return "cuda:all".to_owned(),
        }
        "cpu".to_owned()
    }

    /// The same device, of whose memory no operation that is placed on it ([`Placement`](super::Placement)) plans to use
    /// more than `bytes`, on each CUDA device it has. Opens nothing; `None` leaves the limit as it is.
    #[must_use]
    pub fn with_memory_cap(mut self, bytes: Option<u64>) -> Self {
        self.memory_cap = bytes;
        self
    }

    /// Sets the limit of [`Device::with_memory_cap`], if there is one.
    pub(super) fn apply_memory_cap(&self) {
        if self.memory_cap.is_some() {
            self.set_memory_cap(self.memory_cap);
        }
    }

    /// The limit in force; `None` on the CPU.
    pub(super) fn current_memory_cap(&self) -> Option<u64> {
        self.contexts().first()?.memory_cap()
    }

    /// Limits at once what operations plan to use of each CUDA device's memory, in bytes; `None` lifts
    /// the limit. Nothing happens on the CPU. Opens what `auto` left closed.
    pub fn set_memory_cap(&self, bytes: Option<u64>) {
        for context in self.contexts() {
            context.set_memory_cap(bytes);
        }
    }

    /// The open CUDA contexts, one per device; none on the CPU. Opens what `auto` left closed.
    pub fn contexts(&self) -> &[Arc<cuda::Context>] {
        match &self.kind {
            Kind::Cpu => &[],
            Kind::Cuda(contexts) => contexts,
            Kind::Auto(auto) => &open_auto(auto).contexts,
        }
    }
}

/// The devices of `auto`, looked for on the first call.
fn open_auto(auto: &OnceLock<AutoDevices>) -> &AutoDevices {
    auto.get_or_init(
        || match first_that_works(cuda::device_count(), cuda::Context::open) {
            Ok(context) => AutoDevices {
                contexts: vec![context],
                fallback: None,
            },
            Err(reasons) => AutoDevices {
                contexts: Vec::new(),
                fallback: Some(reasons),
            },
        },
    )
}

/// The first of `count` devices that `open` succeeds with, or why none does: each reason once.
fn first_that_works<T>(
    count: Result<usize>,
    open: impl Fn(usize) -> Result<T>,
) -> std::result::Result<T, String> {
    let mut reasons: Vec<String> = Vec::new();
    for number in 0..count.map_err(|e| e.message().to_owned())? {
        match open(number) {
            Ok(opened) => return Ok(opened),
            // A reason that is not one device's comes again with every device.
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
        let probe = crate::probe::probe();
        assert_eq!(probe.devices.is_empty(), probe.reason.is_some());
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
