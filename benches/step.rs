//! One step of a session, by how many channels, filters and spikes there are. The latencies at the
//! far end of the distribution are in `benches/programs/src/bin/step_latency.rs`.

use std::hint::black_box;

use betz::model::{Decoder, DecoderParts};
use betz::psc::{Filter, FilterBank};
use betz::recording::OutputInfo;
use betz::stream::{Session, SessionConfig};
use criterion::{Criterion, criterion_group, criterion_main};

/// Two outputs on a clock of 0.25 ms; weights that differ.
fn decoder(channels: usize, filters: usize) -> betz::Result<Decoder> {
    let bank = (0..filters)
        .map(|f| Filter {
            tau_seconds: 0.04 * (f + 1) as f64,
            order: 1,
        })
        .collect();
    let output = |name: &str| OutputInfo {
        name: name.into(),
        unit: "mm".into(),
    };
    let names = (0..channels).map(|c| format!("channel {c}")).collect();
    let outputs = vec![output("x"), output("y")];
    Decoder::new(DecoderParts {
        weights: (0..channels * filters * 2)
            .map(|i| (i as f64).sin())
            .collect(),
        ..DecoderParts::linear(0.25e-3, FilterBank::new(bank)?, names, outputs)
    })
}

fn step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step");
    // Presets have 1, 5, 9 and 12 filters.
    let sizes = [1, 5, 8, 9, 12].map(|filters| (1024, filters));
    for (channels, filters) in sizes.into_iter().chain([(16384, 1), (16384, 8)]) {
        let decoder = decoder(channels, filters).unwrap_or_else(|e| panic!("{e}"));
        let config = SessionConfig::default();
        let mut session = Session::open(&decoder, config).unwrap_or_else(|e| panic!("{e}"));
        let mut out = [0.0; 2];
        // 20 Hz per channel: one in two hundred fires.
        let list: Vec<u32> = (0..channels as u32).step_by(200).collect();
        let mut counts = vec![0; channels];
        list.iter()
            .for_each(|&channel| counts[channel as usize] = 1);
        let name = format!("{channels} channels, {filters} filters");
        group.bench_function(format!("{name}, list"), |b| {
            b.iter(|| session.step_spikes(black_box(&list), &mut out));
        });
        group.bench_function(format!("{name}, counts"), |b| {
            b.iter(|| session.step_counts(black_box(&counts), &mut out));
        });
        session.reset();
        group.bench_function(format!("{name}, silence"), |b| {
            b.iter(|| session.step_spikes(black_box(&[]), &mut out));
        });
    }
    group.finish();
}

criterion_group!(benches, step);
criterion_main!(benches);
