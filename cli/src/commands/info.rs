//! `betz info`: version, processor, devices, and why the GPU is or is not used.

use betz::Result;
use betz::device::{self, CudaDevice, Probe};
use serde::Serialize;

use crate::args::Info;
use crate::report::{self, Table};

#[derive(Serialize)]
struct Facts {
    version: &'static str,
    cuda_built_in: bool,
    cpu: Cpu,
    cuda: Cuda,
    device: String,
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
    let facts = Facts {
        version: betz::VERSION,
        cuda_built_in: cfg!(feature = "cuda"),
        cpu: Cpu {
            architecture: std::env::consts::ARCH,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            simd: simd(),
        },
        cuda: cuda(device::probe()),
        device: crate::device::open(&args.common.device)?.name(),
    };
    if args.common.json {
        report::json(&facts)
    } else {
        print(&facts)
    }
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

fn print(facts: &Facts) -> Result<()> {
    report::line(&format!("betz {}", facts.version))?;
    report::line(&format!(
        "processor: {}, {} threads, {}",
        facts.cpu.architecture,
        facts.cpu.threads,
        facts.cpu.simd.join(" ")
    ))?;
    if let Some(driver) = &facts.cuda.driver {
        report::line(&format!("CUDA driver: {driver}"))?;
    }
    if !facts.cuda.devices.is_empty() {
        let mut table = Table::new(["GPU", "name", "compute", "memory", "multiprocessors"]);
        for gpu in &facts.cuda.devices {
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
    for library in &facts.cuda.libraries {
        match &library.missing {
            None => report::line(&format!("{}: found", library.name))?,
            Some(why) => report::line(&format!("{}: {why}", library.name))?,
        }
    }
    if let Some(reason) = &facts.cuda.reason {
        report::line(&format!("CUDA is not used: {reason}"))?;
    }
    report::line(&format!("device: {}", facts.device))
}
