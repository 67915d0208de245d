//! Batch decoding and scores on a CUDA device.
//!
//! ```sh
//! cargo bench -p betz --bench gpu_psc                    # on a machine with a GPU
//! gpu-bundle/gpu_psc decode                      # what scripts/gpu-bundle.sh carried there
//! ```
//! Prints medians of warm runs; says so and ends where there is no device.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/mod.rs"]
mod support;

use betz::device::Device;
use betz::model::{Decoder, DecoderParts, decode, decode_on};
use betz::psc::LowPass;
use betz::recording::OutputInfo;
use betz::train::{evaluate, evaluate_on};
use support::{STEP_SECONDS, bank, cuda, dataset, time, wants};

fn decoder(channels: usize, filters: usize, low_pass: Option<LowPass>) -> Decoder {
    let names = (0..channels).map(|c| c.to_string()).collect();
    let outputs = ["x", "y"].map(OutputInfo::from).to_vec();
    Decoder::new(DecoderParts {
        low_pass,
        weights: (0..channels * filters * 2)
            .map(|i| f64::from(i as u32 % 17) - 8.0)
            .collect(),
        intercept: vec![0.5, -0.5],
        ..DecoderParts::linear(STEP_SECONDS, bank(filters), names, outputs)
    })
    .unwrap()
}

/// Spikes in host memory → estimates in host memory, and → scores.
fn decoding(device: &Device, steps: usize, filters: usize, low_pass: Option<LowPass>) {
    let channels = 1000;
    let data = dataset(channels, steps);
    let decoder = decoder(channels, filters, low_pass);
    let behind = low_pass.map_or("", |_| ", low-pass");
    let name = format!(
        "N={channels} F={filters} T={steps} spikes={}{behind}",
        data.spikes.len()
    );
    let runs = if steps > 1_000_000 { 5 } else { 30 };
    time(&format!("decode device {name}"), runs, || {
        std::hint::black_box(decode_on(device, &decoder, &data).unwrap());
    });
    time(&format!("decode CPU {name}"), 3, || {
        std::hint::black_box(decode(&decoder, &data).unwrap());
    });
    time(&format!("evaluate device {name}"), runs, || {
        std::hint::black_box(evaluate_on(device, &decoder, &data).unwrap());
    });
    time(&format!("evaluate CPU {name}"), 3, || {
        std::hint::black_box(evaluate(&decoder, &data).unwrap());
    });
}

fn main() {
    let Some(device) = cuda() else { return };
    let context = &device.contexts()[0];
    let low_pass = LowPass {
        order: 4,
        cutoff_hz: 10.0,
    };
    if wants("decode") {
        decoding(&device, 400_000, 1, None);
        decoding(&device, 400_000, 8, None);
        decoding(&device, 400_000, 1, Some(low_pass));
    }
    if wants("long") {
        // 33 minutes, in slices of at most 256 MiB of device memory.
        context.set_memory_cap(Some(256 << 20));
        decoding(&device, 8_000_000, 1, None);
        context.set_memory_cap(None);
    }
}
