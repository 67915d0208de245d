//! Expected cost of batch decoding, on the CPU and on a CUDA device.

use crate::psc::SAMPLED_ON_CPU;
use betz_device::cost::{Calibration, CostModel};
use betz_device::{Device, Placement, Work};
use betz_recording::DatasetView;
use betz_runtime::model::Decoder;

// Defaults from benches/record/gpu.md: an EPYC's core, an H200.

/// Weights: one per filter and output. One thread does it all.
pub const DECODE_CPU: CostModel = CostModel {
    name: "decode.cpu",
    terms: &[
        "spikes",
        "steps",
        "spikes x weights",
        "steps x weights",
        "steps x low-pass order x outputs",
    ],
    defaults: &[8e-9, 15e-9, 3e-9, 14e-9, 19e-9],
};

/// Spikes go up, estimates come down.
pub const DECODE_CUDA: CostModel = CostModel {
    name: "decode.cuda",
    terms: &["1", "spikes", "steps x outputs"],
    defaults: &[0.4e-3, 0.4e-9, 0.6e-9],
};

/// The reason for which a decoder with means decodes on the CPU.
const MEANS_ON_CPU: &str = "channels' means are taken off on the CPU";

/// Terms of [`DECODE_CPU`] and of [`DECODE_CUDA`].
pub fn terms(decoder: &Decoder, data: &DatasetView<'_>) -> (Vec<f64>, Vec<f64>) {
    let spikes = data.events_in_segments();
    let (spikes, steps) = (spikes as f64, data.steps_in_segments() as f64);
    let outputs = decoder.outputs().len() as f64;
    let weights = decoder.bank().len() as f64 * outputs;
    let low_pass = decoder.low_pass().map_or(0.0, |l| f64::from(l.order));
    (
        vec![
            spikes,
            steps,
            spikes * weights,
            steps * weights,
            steps * low_pass * outputs,
        ],
        vec![1.0, spikes, steps * outputs],
    )
}

/// Where `decoder` decodes `data`: on the CPU unless that is linear; on `device` itself where the user
/// named it, else wherever this host's calibration expects less time, counting the start of a device
/// that this process has not opened yet.
pub fn choose<'d>(
    device: &Device,
    decoder: &Decoder,
    data: impl Into<DatasetView<'d>>,
) -> Placement {
    let data = &data.into();
    if !super::decodes_linearly(decoder, data) {
        return Placement::cpu();
    }
    if !decoder.bank().sampled().is_empty() {
        return Placement::cpu_instead(device, SAMPLED_ON_CPU);
    }
    if !decoder.channel_means().is_empty() {
        return Placement::cpu_instead(device, MEANS_ON_CPU);
    }
    let calibration = Calibration::current();
    let (cpu, cuda) = terms(decoder, data);
    let work = Work::Seconds {
        cpu: calibration.seconds(&DECODE_CPU, &cpu),
        cuda: calibration.seconds(&DECODE_CUDA, &cuda),
    };
    Placement::decide(device, work)
}
