//! Γ and Υ by both paths: sparse spikes, where the event-driven path is at home, and busy bins,
//! where the dense one is. `benches/programs/src/bin/gram.rs` times one size of your choice.

#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(missing_docs)]

use std::hint::black_box;

use betz::psc::{Filter, FilterBank};
use betz::recording::Dataset;
use betz::simulate;
use betz::train::gram::{GramPath, normal_equations};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

/// `mean` spikes per channel and step, two smooth outputs.
fn dataset(channels: usize, steps: usize, step_seconds: f64, mean: f64) -> Dataset {
    simulate::poisson(channels, mean / step_seconds, steps, step_seconds, 1).expect("a rate")
}

fn bank(filters: &[(f64, u32)]) -> FilterBank {
    let filters = filters
        .iter()
        .map(|&(tau_seconds, order)| Filter { tau_seconds, order });
    FilterBank::new(filters.collect()).expect("a valid bank")
}

fn gram(c: &mut Criterion) {
    let one = bank(&[(0.01, 1)]);
    let four = bank(&[(0.03, 1), (0.1, 0), (0.1, 1), (0.3, 1)]);
    let cases = [
        (
            "256 channels at 20 Hz, 0.25 ms, 10 s",
            dataset(256, 40_000, 0.00025, 0.005),
            &one,
        ),
        (
            "95 channels of bins of 1.3 spikes, 100 ms, 4 filters",
            dataset(95, 14_000, 0.1, 1.3),
            &four,
        ),
    ];
    let mut group = c.benchmark_group("gram");
    group.sample_size(10);
    for (name, data, bank) in &cases {
        for path in [GramPath::Event, GramPath::Dense] {
            group.bench_with_input(BenchmarkId::new(path.name(), name), data, |b, data| {
                b.iter(|| {
                    normal_equations(black_box(data), bank, None, 0, path, &()).expect("sums")
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, gram);
criterion_main!(benches);
