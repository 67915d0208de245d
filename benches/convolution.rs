//! Responses of sparse spike trains to one filter and to a bank: recursion, overlap-save, padding.
//!
//! 16 channels at 20 Hz, 0.25 ms steps, 100 s: 6.4 million steps a filter.

#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(missing_docs)]

use std::hint::black_box;

use betz::psc::{Block, Convolver, Filter, FilterBank, Responses, Sample};
use betz::recording::{Dataset, Segment};
use betz::simulate;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const CHANNELS: usize = 16;
const STEPS: usize = 400_000;
const STEP_SECONDS: f64 = 0.00025;

fn dataset() -> Dataset {
    simulate::poisson(CHANNELS, 20.0, STEPS, STEP_SECONDS, 1).expect("a rate")
}

fn bank(filters: &[(f64, u32)]) -> FilterBank {
    let filters = filters
        .iter()
        .map(|&(tau_seconds, order)| Filter { tau_seconds, order });
    FilterBank::new(filters.collect()).expect("a valid bank")
}

/// Every channel by FFT on one thread, the dense trains made in advance (in the FFT's favour).
fn by_fft<T: Sample>(convolver: &Convolver<T>, dense: &[T], segments: &[Segment]) -> Vec<T> {
    let mut scratch = convolver.make_scratch();
    let mut rows = vec![T::zero(); convolver.filters() * STEPS];
    for train in dense.chunks(STEPS) {
        convolver
            .process_with_scratch(train, segments, &mut rows, &mut scratch)
            .expect("shapes agree");
    }
    rows
}

fn paths<T: Sample>(c: &mut Criterion, kind: &str) {
    let dataset = dataset();
    let mut dense = vec![T::zero(); CHANNELS * STEPS];
    for (&t, &channel) in dataset.spikes.ticks.iter().zip(&dataset.spikes.channels) {
        let at = &mut dense[channel as usize * STEPS + t as usize];
        *at = *at + T::one();
    }
    let one_thread = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("a thread");
    let banks = [
        ("order 1, 10 ms", bank(&[(0.01, 1)])),
        (
            "bank of 8",
            bank(&[
                (0.005, 0),
                (0.005, 1),
                (0.01, 2),
                (0.02, 0),
                (0.02, 1),
                (0.02, 2),
                (0.06, 1),
                (0.16, 0),
            ]),
        ),
    ];
    for (name, bank) in &banks {
        let mut group = c.benchmark_group(format!("{kind}, {name}, one thread"));
        group.sample_size(10);
        group.throughput(Throughput::Elements((CHANNELS * STEPS * bank.len()) as u64));
        let mut block = Block::<T>::default();
        group.bench_function("recursion, blocks of 4096", |b| {
            b.iter(|| {
                one_thread.install(|| {
                    let mut walk = Responses::new(&dataset, bank, None).expect("a dataset");
                    while walk.next_block(4096, &mut block) {
                        black_box(&block);
                    }
                })
            })
        });
        let overlap = Convolver::<T>::new(bank, STEP_SECONDS, STEPS);
        group.bench_function(
            format!("overlap-save, transform of {}", overlap.length()),
            |b| b.iter(|| by_fft(&overlap, black_box(&dense), &dataset.segments)),
        );
        let padded =
            Convolver::<T>::with_length(bank, STEP_SECONDS, STEPS, (2 * STEPS).next_power_of_two());
        group.bench_function(format!("padded, transform of {}", padded.length()), |b| {
            b.iter(|| by_fft(&padded, black_box(&dense), &dataset.segments))
        });
        group.finish();
    }
}

fn benches(c: &mut Criterion) {
    paths::<f32>(c, "f32");
    paths::<f64>(c, "f64");
}

criterion_group! {
    name = convolution;
    config = Criterion::default().measurement_time(std::time::Duration::from_secs(2)).warm_up_time(std::time::Duration::from_millis(500));
    targets = benches
}
criterion_main!(convolution);
