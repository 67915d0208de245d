//! PSC filtering, batch decoding and scores on a CUDA device.
//!
//! ```sh
//! cargo bench --bench gpu_psc                    # on a machine with a GPU
//! gpu-bundle/gpu_psc filter bank decode          # what scripts/gpu-bundle.sh carried there
//! ```
//! Prints medians of warm runs; says so and ends where there is no device.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/mod.rs"]
mod support;

use betz::device::Device;
use betz::device::cuda::Context;
use betz::model::{Decoder, DecoderParts, decode, decode_on};
use betz::psc::LowPass;
use betz::psc::cuda::{DeviceSamples, Extent, Filtering, Filters, Method, Samples};
use betz::recording::{OutputInfo, Segment};
use betz::train::{evaluate, evaluate_on};
use rand::{RngExt, SeedableRng};
use support::{STEP_SECONDS, bank, cuda, dataset, time, wants};

/// Poisson counts of 20 Hz.
fn counts(samples: usize) -> Vec<u8> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    (0..samples)
        .map(|_| u8::from(rng.random::<f64>() < 20.0 * STEP_SECONDS))
        .collect()
}

/// `channels` × 2^19 samples that are on the device already, one segment.
fn filter(context: &Context, channels: usize, filters: usize, low_pass: Option<LowPass>) {
    let steps = 1 << 19;
    let bytes = counts(channels * steps);
    let floats: Vec<f32> = bytes.iter().map(|&c| f32::from(c)).collect();
    let whole = [Segment {
        start: 0,
        stop: steps as i64,
    }];
    let bank = bank(filters);
    for (kind, samples) in [("u8", Samples::U8(&bytes)), ("f32", Samples::F32(&floats))] {
        let samples = DeviceSamples::new(context, samples).unwrap();
        let lengths = [1024, 2048, 4096, 8192, 16_384, 1 << 20].map(Method::TransformOf);
        let methods = [Method::Recursion, Method::Transform];
        let wanted = if filters == 1 && low_pass.is_none() {
            6
        } else {
            0
        };
        for method in methods.into_iter().chain(lengths).take(2 + wanted) {
            let mut filtering = Filtering::new(
                context,
                Filters {
                    bank: &bank,
                    low_pass,
                },
                STEP_SECONDS,
                &whole,
                Extent { channels, steps },
                method,
            )
            .unwrap();
            let mut responses = filtering.make_responses().unwrap();
            let low_pass = low_pass.map_or(String::new(), |l| {
                format!(", low-pass order {} {} Hz", l.order, l.cutoff_hz)
            });
            let name =
                format!("filter {method:?} {channels} x 2^19, {filters} filters, {kind}{low_pass}");
            time(&name, 30, || {
                filtering.run(&samples, &mut responses).unwrap();
                context.synchronize().unwrap();
            });
        }
    }
}

/// cuFFT's own transforms of `batch` rows of 2^19 samples, there and back.
fn transforms(batch: i32) {
    use cudarc::cufft::{CudaFft, sys};
    let length = 1usize << 19;
    let cuda = cudarc::driver::CudaContext::new(0).unwrap();
    let stream = cuda.new_stream().unwrap();
    let mut rows = stream.alloc_zeros::<f32>(batch as usize * length).unwrap();
    let mut bins = stream
        .alloc_zeros::<sys::float2>(batch as usize * (length / 2 + 1))
        .unwrap();
    let plan = |kind| CudaFft::plan_1d(length as i32, kind, batch, stream.clone()).unwrap();
    let forward = plan(sys::cufftType::CUFFT_R2C);
    let inverse = plan(sys::cufftType::CUFFT_C2R);
    time(&format!("cuFFT R2C + C2R {batch} x 2^19"), 30, || {
        forward.exec_r2c(&rows, &mut bins).unwrap();
        inverse.exec_c2r(&mut bins, &mut rows).unwrap();
        stream.synchronize().unwrap();
    });
}

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
    if wants("filter") {
        filter(context, 100, 1, None);
        transforms(100);
    }
    if wants("bank") {
        filter(context, 100, 8, None);
    }
    if wants("low_pass") {
        filter(context, 100, 1, Some(low_pass));
    }
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
