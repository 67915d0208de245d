//! PSC filtering, batch decoding and scores on a CUDA device.
//!
//! ```sh
//! cargo bench --bench gpu_psc                    # on a machine with a GPU
//! gpu-bundle/gpu_psc filter bank decode          # what scripts/gpu-bundle.sh carried there
//! ```
//! Prints medians of warm runs; says so and ends where there is no device.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Instant;

use betz::device::Device;
use betz::device::cuda::Context;
use betz::model::{Decoder, TrainingRecord, decode, decode_on};
use betz::psc::cuda::{DeviceSamples, Filtering, Method, Samples};
use betz::psc::{Filter, FilterBank, LowPass};
use betz::recording::{Dataset, OutputInfo, Segment, Spikes};
use betz::train::{evaluate, evaluate_on};
use rand::{RngExt, SeedableRng};

const STEP_SECONDS: f64 = 0.00025;

fn bank(filters: usize) -> FilterBank {
    let taus = [0.01, 0.005, 0.02, 0.04, 0.003, 0.08, 0.03, 0.015];
    let filters = taus[..filters].iter().map(|&tau_seconds| Filter {
        tau_seconds,
        order: 1,
    });
    FilterBank::new(filters.collect()).unwrap()
}

/// Poisson counts of 20 Hz.
fn counts(samples: usize) -> Vec<u8> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    (0..samples)
        .map(|_| u8::from(rng.random::<f64>() < 20.0 * STEP_SECONDS))
        .collect()
}

/// Milliseconds of the first run, the median and the least of `runs` more.
fn time(runs: usize, mut work: impl FnMut()) -> (f64, f64, f64) {
    let mut once = || {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e3
    };
    let first = once();
    let mut times: Vec<f64> = (0..runs).map(|_| once()).collect();
    times.sort_by(f64::total_cmp);
    (first, times[runs / 2], times[0])
}

fn report(name: &str, (first, median, least): (f64, f64, f64)) {
    println!("{name}: first {first:.2} ms, median {median:.3} ms, least {least:.3} ms");
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
                (&bank, low_pass),
                STEP_SECONDS,
                &whole,
                (channels, steps),
                method,
            )
            .unwrap();
            let mut responses = filtering.make_responses().unwrap();
            let outcome = time(30, || {
                filtering.run(&samples, &mut responses).unwrap();
                context.synchronize().unwrap();
            });
            let low_pass = low_pass.map_or(String::new(), |l| {
                format!(", low-pass order {} {} Hz", l.order, l.cutoff_hz)
            });
            report(
                &format!(
                    "filter {method:?} {channels} x 2^19, {filters} filters, {kind}{low_pass}"
                ),
                outcome,
            );
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
    let outcome = time(30, || {
        forward.exec_r2c(&rows, &mut bins).unwrap();
        inverse.exec_c2r(&mut bins, &mut rows).unwrap();
        stream.synchronize().unwrap();
    });
    report(&format!("cuFFT R2C + C2R {batch} x 2^19"), outcome);
}

/// `channels` Poisson trains of 20 Hz over `steps`, and two smooth outputs.
fn dataset(channels: usize, steps: usize) -> Dataset {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let mut spikes = Spikes::default();
    let limit = (-(channels as f64) * 20.0 * STEP_SECONDS).exp();
    for tick in 0..steps as i64 {
        // Knuth's Poisson draw; the mean a step is small.
        let mut product = rng.random::<f64>();
        while product > limit {
            spikes.ticks.push(tick);
            spikes.channels.push(rng.random_range(0..channels as u32));
            product *= rng.random::<f64>();
        }
    }
    let behavior = (0..steps)
        .flat_map(|t| {
            let s = t as f64 * STEP_SECONDS;
            [(3.1 * s).sin() as f32, (1.7 * s).cos() as f32]
        })
        .collect();
    Dataset {
        step_seconds: STEP_SECONDS,
        steps,
        channel_names: (0..channels).map(|c| c.to_string()).collect(),
        spikes,
        segments: vec![Segment {
            start: 0,
            stop: steps as i64,
        }],
        outputs: outputs(),
        behavior,
    }
}

fn outputs() -> Vec<OutputInfo> {
    let output = |name: &str| OutputInfo {
        name: name.into(),
        unit: String::new(),
    };
    vec![output("x"), output("y")]
}

fn decoder(channels: usize, filters: usize, low_pass: Option<LowPass>) -> Decoder {
    Decoder {
        step_seconds: STEP_SECONDS,
        bank: bank(filters),
        low_pass,
        delay_steps: 0,
        channel_names: (0..channels).map(|c| c.to_string()).collect(),
        channel_mask: vec![true; channels],
        weights: (0..channels * filters * 2)
            .map(|i| f64::from(i as u32 % 17) - 8.0)
            .collect(),
        intercept: vec![0.5, -0.5],
        outputs: outputs(),
        training: TrainingRecord::default(),
    }
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
    let outcome = time(runs, || {
        std::hint::black_box(decode_on(device, &decoder, &data).unwrap());
    });
    report(&format!("decode device {name}"), outcome);
    let outcome = time(3, || {
        std::hint::black_box(decode(&decoder, &data).unwrap());
    });
    report(&format!("decode CPU {name}"), outcome);
    let outcome = time(runs, || {
        std::hint::black_box(evaluate_on(device, &decoder, &data).unwrap());
    });
    report(&format!("evaluate device {name}"), outcome);
    let outcome = time(3, || {
        std::hint::black_box(evaluate(&decoder, &data).unwrap());
    });
    report(&format!("evaluate CPU {name}"), outcome);
}

fn main() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("no CUDA device: {}", error.message());
            return;
        }
    };
    let context = &device.contexts()[0];
    println!(
        "{:?}, {} threads",
        context.info(),
        rayon::current_num_threads()
    );
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let wants = |name: &str| asked.is_empty() || asked.iter().any(|a| a == name);
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
