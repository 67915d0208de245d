//! Γ on CUDA devices: from spikes, from responses, under a memory cap, in TF32, on several devices.
//!
//! ```sh
//! cargo bench -p betz --bench gpu_gram                       # on a machine with a GPU
//! gpu-bundle/gpu_gram alone tf32 cap bank     # what scripts/gpu-bundle.sh carried there
//! gpu-bundle/gpu_gram several                        # on a machine with several
//! ```
//! Prints medians of warm runs; says so and ends where there is no device. The same work in PyTorch:
//! `benches/peers/gram_torch.py`.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;

use betz::device::cuda::Context;
use betz::device::{Device, Precision};
use betz::psc::{Block, Responses};
use betz::recording::Dataset;
use betz::train::gram::cuda::{
    self, DeviceResponses, Request, device_sums, device_sums_of_responses,
};
use betz::train::{GramPath, RidgeChoice, TrainOptions, train_on};
use support::{bank, cuda, time, wants};

const STEPS: usize = 400_000;
/// `channels` trains over [`STEPS`] steps.
fn dataset(channels: usize) -> Dataset {
    support::dataset(channels, STEPS)
}

fn options(filters: usize, path: GramPath, precision: Precision) -> TrainOptions {
    TrainOptions {
        ridge: RidgeChoice::Noise(1e-3),
        gram: path,
        precision,
        ..TrainOptions::new(bank(filters))
    }
}

/// Γ, Υ and the sums of responses that are on the device, left there.
fn alone(context: &Arc<Context>, data: &Dataset) {
    let n = data.channels();
    let mut values = vec![0f32; n * STEPS];
    let mut responses = Responses::new(data, &bank(1), None).unwrap();
    let mut block = Block::<f32>::default();
    while responses.next_block(8192, &mut block) {
        let (first, width) = (block.steps[0], block.steps.len());
        for (row, source) in values
            .chunks_exact_mut(STEPS)
            .zip(block.values.chunks_exact(width))
        {
            row[first..first + width].copy_from_slice(source);
        }
    }
    let there = context.upload(&values).unwrap();
    let given = DeviceResponses {
        responses: &there,
        features: n,
        length: STEPS,
        steps: STEPS,
        segments: &data.segments,
        behavior: &data.behavior,
        outputs: 2,
    };
    for precision in [Precision::F32, Precision::Tf32] {
        let name = format!(
            "gram and upsilon {} of f32 responses on the device N={n} T={STEPS}",
            precision.name()
        );
        time(&name, 15, || {
            device_sums_of_responses(context, &given, 0, precision, &()).unwrap();
            context.synchronize().unwrap();
        });
    }
}

/// Time in TF32, and its error on a sample.
fn tf32(device: &Device, data: &Dataset) {
    for precision in [Precision::F32, Precision::Tf32] {
        let options = options(1, GramPath::Dense, precision);
        let name = format!("train {} from spikes", precision.name());
        time(&name, 15, || {
            std::hint::black_box(train_on(device, data, &options, &()).unwrap());
        });
    }
    let trained = train_on(
        device,
        data,
        &options(1, GramPath::Dense, Precision::Tf32),
        &(),
    );
    println!("tf32 on a sample: {:?}", trained.unwrap().gram_error);
}

/// N = 8,000 with and without a cap of 2 GiB.
fn cap(device: &Device, data: &Dataset) {
    let options = options(1, GramPath::Dense, Precision::F32);
    for (name, cap) in [
        ("uncapped", None),
        ("2 GiB", Some(2 << 30)),
        ("512 MiB", Some(512 << 20)),
    ] {
        device.set_memory_cap(cap);
        let runs = if name == "512 MiB" { 1 } else { 3 };
        for path in [GramPath::Dense, GramPath::Event] {
            gram_of_spikes(
                &format!("gram {} from spikes N=8000, {name}", path.name()),
                device,
                data,
                &options,
                path,
                runs,
            );
        }
    }
    device.set_memory_cap(None);
}

/// Γ, Υ and the sums brought to host memory.
fn gram_of_spikes(
    name: &str,
    device: &Device,
    data: &Dataset,
    options: &TrainOptions,
    path: GramPath,
    runs: usize,
) {
    time(name, runs, || {
        let sums =
            cuda::normal_equations(device.contexts(), data, &options.bank, None, 0, path, &());
        std::hint::black_box(sums.unwrap());
    });
}

/// 8 filters of 1,000 channels by both paths.
fn bank_of_8(device: &Device, data: &Dataset) {
    for path in [GramPath::Event, GramPath::Dense] {
        let options = options(8, path, Precision::F32);
        time(&format!("train {} N=1000 F=8", path.name()), 3, || {
            std::hint::black_box(train_on(device, data, &options, &()).unwrap());
        });
    }
}

/// One device against all of them.
fn several(all: &Device) {
    let one = Device::cuda(0).unwrap();
    println!("{} devices", all.contexts().len());
    for channels in [1000, 8000] {
        let data = dataset(channels);
        let options = options(1, GramPath::Dense, Precision::F32);
        for path in [GramPath::Dense, GramPath::Event] {
            let mut medians = Vec::new();
            let mut results = Vec::new();
            for device in [&one, all] {
                let name = format!(
                    "gram {} from spikes N={channels}, {}",
                    path.name(),
                    device.name()
                );
                let run = || {
                    let contexts = device.contexts();
                    let request = Request::new(&data.view(), &options.bank, None, 0, path);
                    let sums = device_sums(contexts, &data.view(), &request, &()).unwrap();
                    sums.unwrap().0
                };
                medians.push(time(&name, 5, || {
                    std::hint::black_box(run());
                    device.contexts()[0].synchronize().unwrap();
                }));
                results.push(run().download(&device.contexts()[0]).unwrap());
            }
            let n = channels;
            let (a, b) = (&results[0].gram, &results[1].gram);
            let own = |i: usize| a[i * n + i];
            let error = (0..n * n)
                .map(|at| (a[at] - b[at]).abs() / (own(at / n) * own(at % n)).sqrt().max(1e-300))
                .fold(0.0, f64::max);
            println!(
                "  {:.2} times as fast, largest difference {error:.1e}",
                medians[0] / medians[1]
            );
        }
    }
}

fn main() {
    let Some(device) = cuda() else { return };
    let data = dataset(1000);
    if wants("alone") {
        alone(&device.contexts()[0], &data);
    }
    if wants("tf32") {
        tf32(&device, &data);
    }
    if wants("bank") {
        bank_of_8(&device, &data);
    }
    if wants("cap") {
        cap(&device, &dataset(8000));
    }
    if wants("several") {
        several(&Device::cuda_all().unwrap());
    }
}
