//! Windows per second of a network of signals as they come: `cargo bench -p betz-network --bench live_samples --
//! [DEVICE]...`, DEVICE being `cpu` or `cuda` (both unless one is named).
//!
//! 2,000 signals in 20 groups, windows of 200 rows, one window per row or per 20 rows; rows come in pieces of one window
//! (an update computes one) or of 20 windows.

#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use betz_device::{Device, DeviceSpec};
use betz_network::live::SampleNetwork;
use betz_network::{Measure, NetworkSpec, Threshold, Window};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SIGNALS: usize = 2_000;
const LENGTH: usize = 200;

fn rows(count: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut groups = [0.0_f32; 20];
    (0..count)
        .flat_map(|_| {
            for group in &mut groups {
                *group = 0.9 * *group + rng.random_range(-1.0..1.0);
            }
            let row: Vec<f32> = (0..SIGNALS)
                .map(|n| groups[n % 20] + rng.random_range(-1.5..1.5))
                .collect();
            row
        })
        .collect()
}

fn time(device: &Device, measure: Measure, step: usize, at_once: usize) {
    let spec = NetworkSpec::new(measure, Window::new(LENGTH, step));
    let spec = spec.threshold(Threshold::Absolute(0.8));
    let live = SampleNetwork::new(spec, SIGNALS).unwrap();
    let mut live = live.on(device).unwrap();
    live.push(&rows(LENGTH, 1)).unwrap();
    live.update(&(), |_| Ok(())).unwrap();
    let updates = 40;
    let piece = rows(step * at_once, 2);
    let before = live.counts();
    let began = Instant::now();
    for _ in 0..updates {
        live.push(&piece).unwrap();
        live.update(&(), |_| Ok(())).unwrap();
    }
    let seconds = began.elapsed().as_secs_f64();
    let counts = live.counts();
    let windows = counts.windows - before.windows;
    println!(
        "| {} | {} | {step} | {at_once} | {:.1} | {:.2} | {} |",
        live.meta().device,
        measure.name(),
        windows as f64 / seconds,
        seconds * 1e3 / f64::from(updates),
        (counts.edges - before.edges) / windows.max(1)
    );
}

fn main() {
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let names = if named.is_empty() {
        vec!["cpu".to_owned(), "cuda".to_owned()]
    } else {
        named
    };
    println!(
        "| device | measure | step | windows per update | windows per s | ms per update | edges per window |"
    );
    println!("|---|---|---|---|---|---|---|");
    for name in names {
        let device = match name.parse::<DeviceSpec>().and_then(Device::open) {
            Ok(device) => device,
            Err(error) => {
                eprintln!("skipped: {}", error.message());
                continue;
            }
        };
        for measure in [Measure::Pearson, Measure::Spearman] {
            for (step, at_once) in [(1, 1), (20, 1), (1, 20)] {
                time(&device, measure, step, at_once);
            }
        }
    }
}
