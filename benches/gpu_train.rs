//! Training on a CUDA device: spike events in host memory → weights in host memory.
//!
//! ```sh
//! cargo bench -p betz --bench gpu_train                      # on a machine with a GPU
//! gpu-bundle/gpu_train accuracy train crossover      # what scripts/gpu-bundle.sh carried there
//! ```
//! Prints medians of warm runs; says so and ends where there is no device.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/mod.rs"]
mod support;

use betz::device::Device;
use betz::device::cost::Calibration;
use betz::psc::{Block, Responses};
use betz::train::gram::cost::{Processor, Work};
use betz::train::{
    self, GramPath, NormalEquations, RidgeChoice, TrainOptions, gram, solve, train, train_on,
};
use support::{STEP_SECONDS, bank, cuda, dataset, measure, time, wants};

fn options(filters: usize, path: GramPath) -> TrainOptions {
    TrainOptions {
        ridge: RidgeChoice::Noise(1e-3),
        gram: path,
        ..TrainOptions::new(bank(filters))
    }
}

/// Γ of N = 1,000, T = 400,000 on the device against f64 sums of f64 responses.
fn accuracy(device: &Device, path: GramPath) {
    let (data, bank) = (dataset(1000, 400_000), bank(1));
    let n = data.channels();
    let mut responses = Responses::new(&data, &bank, None).unwrap();
    let mut block = Block::<f64>::default();
    let mut oracle = NormalEquations::zeros(n, 2);
    let mut expected = faer::Mat::<f64>::zeros(n, n);
    while responses.next_block(8192, &mut block) {
        let a = faer::MatRef::from_row_major_slice(&block.values, n, block.steps.len());
        for (row, i) in block.values.chunks_exact(block.steps.len()).zip(0..) {
            oracle.feature_sum[i] += row.iter().sum::<f64>();
            for (a, &t) in row.iter().zip(&block.steps) {
                for o in 0..2 {
                    oracle.upsilon[2 * i + o] += a * f64::from(data.behavior[2 * t + o]);
                }
            }
        }
        faer::linalg::matmul::matmul(
            expected.as_mut(),
            faer::Accum::Add,
            a,
            a.transpose(),
            1.0,
            faer::Par::rayon(0),
        );
    }
    let context = &device.contexts()[0];
    let (sums, used) = gram::cuda::normal_equations(
        std::slice::from_ref(context),
        &data,
        &bank,
        None,
        0,
        path,
        &(),
    )
    .unwrap();
    let (mut relative, mut normed) = (0.0f64, 0.0f64);
    for i in 0..n {
        for j in 0..n {
            let error = (sums.gram[i * n + j] - expected[(i, j)]).abs();
            relative = relative.max(error / expected[(i, j)].abs());
            normed = normed.max(error / (expected[(i, i)] * expected[(j, j)]).sqrt());
        }
    }
    oracle.steps = data.steps as u64;
    oracle.gram = (0..n * n).map(|i| expected[(i / n, i % n)]).collect();
    oracle.output_sum = sums.output_sum.clone();
    oracle.output_sq_sum = sums.output_sq_sum.clone();
    let names = solve::FeatureNames {
        channels: &data.channel_names,
        bank: &bank,
    };
    let options = options(1, path);
    let ridge = 1e-6 * data.steps as f64;
    let truth = solve::solve(&oracle, ridge, options.solver, options.mask, names).unwrap();
    let largest = truth.weights.iter().fold(0.0f64, |m, w| m.max(w.abs()));
    let off = |weights: &[f64]| {
        let pairs = truth.weights.iter().zip(weights);
        pairs.fold(0.0f64, |m, (a, b)| m.max((a - b).abs())) / largest
    };
    let trained = train_on(device, &data, &options, &()).unwrap();
    let on_gpu = off(trained.decoder.weights());
    let on_cpu = off(train(&data, &options, &()).unwrap().weights());
    println!(
        "accuracy {} N=1000 T=400000: gram error {relative:.2e} (element), {normed:.2e} (of sqrt(ii jj)); weights off by {on_gpu:.2e}, the CPU's by {on_cpu:.2e} of the largest",
        used.name(),
    );
}

fn end_to_end(
    device: &Device,
    channels: usize,
    steps: usize,
    filters: usize,
    path: GramPath,
    runs: usize,
) {
    let data = dataset(channels, steps);
    let options = options(filters, path);
    let name = format!(
        "train {} N={channels} F={filters} T={steps} spikes={}",
        path.name(),
        data.spikes.len()
    );
    time(&name, runs, || {
        std::hint::black_box(train_on(device, &data, &options, &()).unwrap());
    });
}

/// Γ, Υ and the sums from spikes in host memory, left on the device: what [`end_to_end`] takes beyond is the
/// host's preparation, the solution, and the decoder.
fn sums_alone(device: &Device, channels: usize, steps: usize, runs: usize) {
    let (data, bank) = (dataset(channels, steps), bank(1));
    let data = &data.view();
    let contexts = device.contexts();
    let request = gram::cuda::Request::new(data, &bank, None, 0, GramPath::Event);
    let name = format!("sums on the device N={channels} T={steps}");
    time(&name, runs, || {
        gram::cuda::device_sums(contexts, data, &request, &()).unwrap();
        contexts[0].synchronize().unwrap();
    });
}

/// Where the device starts to win, 20 Hz at 0.25 ms, one filter; what the cost model expects beside
/// what is measured.
fn crossover(device: &Device) {
    let calibration = Calibration::current();
    println!(
        "calibrated on {:?}: expected crossover at 100 s {:?} channels, at 1 s {:?}",
        calibration.devices(),
        train::crossover(&calibration, 20.0, 100.0, STEP_SECONDS),
        train::crossover(&calibration, 20.0, 1.0, STEP_SECONDS),
    );
    for steps in [4_000, 400_000] {
        for channels in [1, 3, 10, 25, 50, 100, 150, 200, 400, 1000] {
            let data = dataset(channels, steps);
            let work = Work::new(&data, &bank(1));
            for (place, at) in [(Processor::Cpu, &Device::cpu()), (Processor::Cuda, device)] {
                let ways =
                    train::alternatives(&work, &calibration, GramPath::Auto, false, &[place]);
                for path in [GramPath::Event, GramPath::Dense] {
                    if place == Processor::Cpu && path == GramPath::Dense && channels > 200 {
                        continue;
                    }
                    let options = options(1, path);
                    let measured = measure(5, || {
                        std::hint::black_box(train_on(at, &data, &options, &()).unwrap());
                    });
                    let expected = ways.iter().find(|w| w.gram == path).unwrap().seconds * 1e3;
                    println!(
                        "crossover T={steps} N={channels} {} {} ({} threads): {:.3} ms, expected {expected:.3} ms",
                        place.name(),
                        path.name(),
                        rayon::current_num_threads(),
                        measured.median,
                    );
                }
            }
        }
    }
}

/// Networks of 140 epochs over 1,092 trials of 22 steps and 95 channels, the size of `reach95`: two folds and the whole,
/// which is as much as two networks of all trials, and the linear decoder's cross-validation.
fn recurrent(device: &Device, layers: &[usize]) {
    let (trials, length) = (1092, 22);
    let mut data = dataset(95, trials * length);
    data.segments = (0..trials)
        .map(|trial| betz::recording::Segment {
            start: (trial * length) as i64,
            stop: ((trial + 1) * length) as i64,
        })
        .collect();
    let kinds = train::KindOptions {
        layers: Some(layers.to_vec()),
        mixed: Some(0),
        ..train::KindOptions::among(&[train::Kind::Recurrent])
    };
    let options = options(1, GramPath::Auto);
    let search = train::Search {
        folds: 2,
        ..train::Search::ridge()
    };
    let name = format!("recurrent {layers:?}, two folds and the whole");
    time(&name, 3, || {
        let outcome = train::train_kinds_on(device, &data, &options, &search, &kinds, &()).unwrap();
        assert_ne!(outcome.0.ran.device, "cpu");
    });
}

fn main() {
    let Some(device) = cuda() else { return };
    if wants("train") {
        end_to_end(&device, 1000, 400_000, 1, GramPath::Event, 40);
    }
    if wants("sums") {
        for channels in [100, 1000, 4000] {
            sums_alone(&device, channels, 400_000, 10);
        }
    }
    if wants("accuracy") {
        accuracy(&device, GramPath::Event);
    }
    if wants("dense") {
        end_to_end(&device, 1000, 400_000, 1, GramPath::Dense, 10);
        accuracy(&device, GramPath::Dense);
    }
    if wants("sizes") {
        for channels in [100, 300, 2000, 4000] {
            end_to_end(&device, channels, 400_000, 1, GramPath::Event, 10);
        }
    }
    if wants("bank") {
        end_to_end(&device, 1000, 400_000, 8, GramPath::Event, 3);
    }
    if wants("recurrent") {
        for layers in [&[64_usize, 64][..], &[256, 256]] {
            recurrent(&device, layers);
        }
    }
    if wants("crossover") {
        crossover(&device);
    }
}
