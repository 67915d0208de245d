//! `--device`: which device was asked for, and which does the work.

use betz::Result;
use betz::device::{Device, DeviceSpec, Ran};

/// Opens the device that `spec` asks for. An explicit `cuda` that cannot be had is an error; `auto`
/// falls back to the CPU, which [`note_fallback`] says of the work that was for a GPU.
pub(crate) fn open(spec: &str) -> Result<Device> {
    Device::open(spec.parse::<DeviceSpec>()?)
}

/// Notes on standard error that `work` which was for a GPU by `auto` ended on the CPU, and why. That there is
/// no GPU is no news: `betz info` says what stands in the way.
pub(crate) fn note_fallback(ran: &Ran, work: &str) {
    let Some(reason) = &ran.fallback else {
        return;
    };
    let found = Device::open(DeviceSpec::Auto);
    if found.is_ok_and(|found| found.fallback() == Some(reason)) {
        return;
    }
    eprintln!("{work} ended on the CPU: {reason}");
}

/// For `work` that runs on the CPU whatever the device: checks the request, notes on standard error
/// when it was for CUDA, and gives the name of the device that is used.
pub(crate) fn cpu_for(work: &str, spec: &str) -> Result<String> {
    let asked: DeviceSpec = spec.parse()?;
    if matches!(asked, DeviceSpec::Cuda(_) | DeviceSpec::CudaAll) {
        Device::open(asked)?;
        eprintln!("{work} runs on the CPU; {asked} is there but not used");
    }
    Ok(Device::cpu().name())
}
