//! Prints what benches/record/sorting.md says of maps: `cargo run --release -p betz-programs --bin som_record [EPOCHS]`.
//!
//! 16,000 samples of 300 numbers, a map of 90 x 70: an epoch on one core, and a whole training (100 epochs) on the CUDA
//! device beside as many on all cores, with what they came to. Without a device the CPU's lines alone.

#![allow(clippy::unwrap_used)] // an example stops where something fails

use std::time::Instant;

use betz_device::Device;
use betz_som::{Batch, BatchOptions, Grid, Lattice, Map, Samples};

const SAMPLES: usize = 16_000;
const DIMS: usize = 300;

fn main() -> betz_base::Result<()> {
    let epochs = std::env::args().nth(1).map_or(100, |n| n.parse().unwrap());
    let values = values();
    let samples = Samples::new(&values, DIMS)?;
    let grid = Grid::new(90, 70, Lattice::Rectangular, false)?;
    let map = Map::on_plane(grid, samples)?;
    let one = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let mut seconds = one.install(|| {
        let mut batch = Batch::new(&map, samples, &BatchOptions::default(), &Device::cpu())?;
        (0..6)
            .map(|_| timed(|| batch.epoch()))
            .collect::<betz_base::Result<Vec<_>>>()
    })?;
    seconds.sort_by(|a, b| a.1.total_cmp(&b.1));
    println!(
        "one core: {:.3} s an epoch (median of six; least {:.3} s, {:.1} Gflop/s)",
        seconds[3].1,
        seconds[0].1,
        2.0 * (SAMPLES * DIMS * map.grid().nodes()) as f64 / seconds[0].1 / 1e9
    );
    let cuda = match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            println!("no CUDA device: {}", error.message());
            None
        }
    };
    for exact in [false, true] {
        let options = BatchOptions {
            epochs,
            exact,
            ..BatchOptions::default()
        };
        let trained = match &cuda {
            None => None,
            Some(device) => {
                // Once to compile the kernels and to take memory.
                let mut first = Batch::new(&map, samples, &options, device)?;
                first.epoch()?;
                drop(first);
                let (mut batch, opened) = timed(|| Batch::new(&map, samples, &options, device))?;
                let (_, seconds) = timed(|| (0..epochs).try_for_each(|_| batch.epoch().map(drop)))?;
                println!(
                    "{}, exact {exact}: {epochs} epochs in {seconds:.3} s, {:.2} ms each, {opened:.3} s to open",
                    device.contexts()[0].info().name,
                    seconds / epochs as f64 * 1e3
                );
                told(&batch);
                Some(batch.map()?)
            }
        };
        let mut batch = Batch::new(&map, samples, &options, &Device::cpu())?;
        let (_, seconds) = timed(|| (0..epochs).try_for_each(|_| batch.epoch().map(drop)))?;
        println!(
            "CPU, {} threads, exact {exact}: {epochs} epochs in {seconds:.3} s, {:.2} ms each",
            rayon::current_num_threads(),
            seconds / epochs as f64 * 1e3
        );
        told(&batch);
        if let Some(cuda) = trained {
            let cpu = batch.map()?;
            let apart = |(a, b): (&f32, &f32)| f64::from((a - b).abs());
            let pairs = || cpu.weights().iter().zip(cuda.weights());
            println!(
                "exact {exact}: weights differ by at most {:.2e}, {:.2e} in the mean; winners the same for {} of {SAMPLES}",
                pairs().map(apart).fold(0.0, f64::max),
                pairs().map(apart).sum::<f64>() / cpu.weights().len() as f64,
                (cpu.winners(samples)?.iter())
                    .zip(cuda.winners(samples)?)
                    .filter(|(a, b)| **a == *b)
                    .count()
            );
        }
    }
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> betz_base::Result<T>) -> betz_base::Result<(T, f64)> {
    let started = Instant::now();
    let done = work()?;
    Ok((done, started.elapsed().as_secs_f64()))
}

fn told(batch: &Batch) {
    let epochs = batch.epochs();
    let (first, last) = (epochs[0], epochs[epochs.len() - 1]);
    println!(
        "    quantisation error {:.6} at first, {:.6} at last; {} samples decided in f64",
        first.quantisation_error,
        last.quantisation_error,
        epochs.iter().map(|e| e.rechecked).sum::<usize>()
    );
}

/// Samples in 20 heaps.
fn values() -> Vec<f32> {
    let mut state = 1_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let heaps: Vec<f32> = (0..20 * DIMS).map(|_| 3.0 * uniform()).collect();
    (0..SAMPLES * DIMS)
        .map(|i| heaps[(i / DIMS) * 7 % 20 * DIMS + i % DIMS] + uniform())
        .collect()
}
