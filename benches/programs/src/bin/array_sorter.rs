//! Makes the sorter that the C example and the C tests run: `cargo run --release -p betz-programs --bin array_sorter
//! [FILE]`, examples/data/array.sorter unless another is named.
//!
//! Eight electrodes, each for itself, with two units: as examples/c/sort.c simulates them.

#![allow(clippy::unwrap_used)] // an example stops where something fails

use std::path::PathBuf;

use betz_sort::{InMemory, Settings, TrainOptions, train};

const CHANNELS: usize = 8;
const RATE_HZ: f64 = 30_000.0;
const GAIN: f64 = 0.195;
const SECONDS: usize = 30;

fn main() -> betz_sort::Result<()> {
    let path = std::env::args().nth(1);
    let path = path.map_or_else(
        || PathBuf::from("examples/data/array.sorter"),
        PathBuf::from,
    );
    let mut state = 1_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f64 + 0.5) / f64::from(1 << 24)
    };
    let rows = SECONDS * RATE_HZ as usize;
    let mut voltage = vec![0.0_f64; rows * CHANNELS];
    for value in &mut voltage {
        *value = 6.0 * (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    }
    for unit in 0..2 * CHANNELS {
        let mut at = 0.0;
        loop {
            // 15 spikes per second, 3 ms apart at least.
            at += 0.003 * RATE_HZ - RATE_HZ / 15.0 * uniform().ln();
            if at as usize + 60 >= rows {
                break;
            }
            for i in 0..60 {
                let row = at as usize + i;
                voltage[row * CHANNELS + unit / 2] += wave(unit, i);
            }
        }
    }
    let samples: Vec<i16> = voltage.iter().map(|v| (v / GAIN).round() as i16).collect();
    let places = (0..CHANNELS)
        .map(|c| Some([400.0 * c as f32, 0.0]))
        .collect();
    let options = TrainOptions {
        side: 8,
        ..TrainOptions::new(Settings::new(RATE_HZ, GAIN), places)
    };
    let sorter = train(&mut InMemory::new(&samples, CHANNELS)?, &options, &())?.sorter;
    sorter.save(&path)?;
    println!(
        "{}: {} units of {}, {} bytes",
        path.display(),
        sorter.units().len(),
        2 * CHANNELS,
        sorter.to_bytes().len()
    );
    Ok(())
}

/// Microvolts of a unit's spike, sample `i` of 60: units of even number are large and fast, the others small and slow.
fn wave(unit: usize, i: usize) -> f64 {
    let (size, width) = if unit.is_multiple_of(2) {
        (130.0, 4.0)
    } else {
        (70.0, 8.0)
    };
    let (trough, hump) = (
        (i as f64 - 20.0) / width,
        (i as f64 - 20.0 - 2.5 * width) / (1.5 * width),
    );
    size * (0.35 * (-hump * hump).exp() - (-trough * trough).exp())
}
