//! `betz info`: version, processor, devices, and why the GPU is or is not used.

pub(crate) mod args;
mod inside;
#[cfg(feature = "lab")]
mod picture;
#[cfg(feature = "rig")]
mod voltage;

use std::sync::Arc;

use betz::Result;
use betz::device::cost::Calibration;
use betz::device::{self, CudaDevice, Device, Probe};
use serde::Serialize;

use crate::report::{self, Bar, Outcome, Table};
use args::Info;

#[derive(Serialize)]
struct Facts {
    version: &'static str,
    cuda_built_in: bool,
    cpu: Cpu,
    cuda: Cuda,
    device: String,
    calibration: CalibrationFacts,
}

/// Costs that `--device auto` compares.
#[derive(Serialize)]
struct CalibrationFacts {
    /// Path of the calibration file; absent without a cache folder.
    path: Option<String>,
    /// Measured devices; empty if the built-in costs are used.
    measured_on: Vec<String>,
    /// Fewest channels from which on an open GPU is expected to train sooner (100 s of 20 Hz at
    /// 0.25 ms, one filter); absent when never.
    crossover_channels: Option<u32>,
    /// This run's timings, with `--calibrate`.
    timings: Vec<RunTiming>,
}

#[derive(Serialize)]
struct RunTiming {
    model: &'static str,
    problem: String,
    seconds: f64,
    expected: f64,
}

#[derive(Serialize)]
struct Cpu {
    architecture: &'static str,
    threads: usize,
    simd: Vec<&'static str>,
}

#[derive(Serialize)]
struct Cuda {
    driver: Option<String>,
    libraries: Vec<Library>,
    devices: Vec<Gpu>,
    reason: Option<String>,
}

#[derive(Serialize)]
struct Library {
    name: &'static str,
    missing: Option<String>,
}

#[derive(Serialize)]
struct Gpu {
    number: usize,
    name: String,
    compute_capability: String,
    memory_bytes: u64,
    multiprocessors: u32,
}

pub(crate) fn run(args: &Info) -> Result<()> {
    if let Some(file) = &args.file {
        return inside::run(args, file);
    }
    let device = crate::device::open(&args.common.device)?;
    let calibration = calibration(&device, args.calibrate)?;
    let facts = Facts {
        version: betz::VERSION,
        cuda_built_in: cfg!(feature = "cuda"),
        cpu: Cpu {
            architecture: std::env::consts::ARCH,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            simd: simd(),
        },
        cuda: cuda(device::probe()),
        device: device.name(),
        calibration,
    };
    report::tell(&facts, args.common.json)
}

/// The calibration in use, or a new one, which is kept.
fn calibration(device: &Device, anew: bool) -> Result<CalibrationFacts> {
    let path = Calibration::path();
    let mut timings = Vec::new();
    let current = if anew {
        let path = path.as_deref().ok_or_else(|| {
            betz::Error::argument(
                "--calibrate: expected a folder to keep the result in (BETZ_CACHE, XDG_CACHE_HOME or HOME), got none",
            )
        })?;
        let bar = Bar::new();
        let (fitted, runs) = betz::train::calibrate(device, &bar)?;
        drop(bar);
        fitted.save(path)?;
        timings = runs
            .into_iter()
            .map(|run| RunTiming {
                model: run.model,
                problem: run.problem,
                seconds: run.seconds,
                expected: run.expected,
            })
            .collect();
        Arc::new(fitted)
    } else {
        Calibration::current()
    };
    Ok(CalibrationFacts {
        path: path.map(|p| p.display().to_string()),
        measured_on: current.devices().to_vec(),
        crossover_channels: betz::train::crossover(&current, 20.0, 100.0, 0.00025),
        timings,
    })
}

fn simd() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        [
            ("avx2", std::is_x86_feature_detected!("avx2")),
            ("fma", std::is_x86_feature_detected!("fma")),
            ("avx512f", std::is_x86_feature_detected!("avx512f")),
        ]
        .into_iter()
        .filter_map(|(name, there)| there.then_some(name))
        .collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

fn cuda(probe: Probe) -> Cuda {
    Cuda {
        driver: probe
            .driver
            .map(|(major, minor)| format!("{major}.{minor}")),
        libraries: probe
            .libraries
            .into_iter()
            .map(|(name, missing)| Library { name, missing })
            .collect(),
        devices: probe.devices.into_iter().map(gpu).collect(),
        reason: probe.reason,
    }
}

fn gpu(device: CudaDevice) -> Gpu {
    let (major, minor) = device.compute_capability;
    Gpu {
        number: device.number,
        name: device.name,
        compute_capability: format!("{major}.{minor}"),
        memory_bytes: device.memory_bytes,
        multiprocessors: device.multiprocessors,
    }
}

impl Outcome for Facts {
    fn print(&self) -> Result<()> {
        report::line(&format!("betz {}", self.version))?;
        report::line(&format!(
            "processor: {}, {} threads, {}",
            self.cpu.architecture,
            self.cpu.threads,
            self.cpu.simd.join(" ")
        ))?;
        if let Some(driver) = &self.cuda.driver {
            report::line(&format!("CUDA driver: {driver}"))?;
        }
        if !self.cuda.devices.is_empty() {
            let mut table = Table::new(&["GPU", "name", "compute", "memory", "multiprocessors"]);
            for gpu in &self.cuda.devices {
                table.row([
                    format!("cuda:{}", gpu.number),
                    gpu.name.clone(),
                    gpu.compute_capability.clone(),
                    format!("{:.1} GiB", gpu.memory_bytes as f64 / f64::from(1 << 30)),
                    gpu.multiprocessors.to_string(),
                ]);
            }
            table.print()?;
        }
        for library in &self.cuda.libraries {
            match &library.missing {
                None => report::line(&format!("{}: found", library.name))?,
                Some(why) => report::line(&format!("{}: {why}", library.name))?,
            }
        }
        if let Some(reason) = &self.cuda.reason {
            report::line(&format!("CUDA is not used: {reason}"))?;
        }
        report::line(&format!("device: {}", self.device))?;
        print_calibration(&self.calibration, !self.cuda.devices.is_empty())
    }
}

fn print_calibration(calibration: &CalibrationFacts, gpu: bool) -> Result<()> {
    if !calibration.timings.is_empty() {
        let mut table = Table::new(&["model", "problem", "measured", "fitted"]);
        for run in &calibration.timings {
            table.row([
                run.model.to_owned(),
                run.problem.clone(),
                format!("{:.3} ms", run.seconds * 1e3),
                format!("{:.3} ms", run.expected * 1e3),
            ]);
        }
        table.print()?;
    }
    let by = match calibration.measured_on.as_slice() {
        [] => "built-in figures (betz info --calibrate measures this machine)".to_owned(),
        on => format!("measurements on {}", on.join(", ")),
    };
    report::line(&format!("--device auto goes by {by}"))?;
    if let (Some(path), false) = (&calibration.path, calibration.measured_on.is_empty()) {
        report::line(&format!("kept in {path}"))?;
    }
    if !gpu {
        return Ok(());
    }
    let crossing = match calibration.crossover_channels {
        Some(channels) => format!("from {channels} channels on"),
        None => "never".to_owned(),
    };
    report::line(&format!(
        "100 s of 20 Hz at 0.25 ms, one filter: an open GPU is expected to train sooner {crossing}"
    ))
}
