//! Weights from the sums: Cholesky and the explicit inverse.

#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(missing_docs)]

use std::hint::black_box;

use betz::psc::{Filter, FilterBank};
use betz::train::NormalEquations;
use betz::train::solve::{FeatureNames, MaskPolicy, Solver, solve};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};

/// Sums of `n` features with a common part and their own.
fn sums(n: usize) -> NormalEquations {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let mut sums = NormalEquations::zeros(n, 2);
    sums.steps = 100_000;
    for i in 0..n {
        for j in 0..=i {
            let own = if i == j { 50.0 } else { 0.0 };
            let g = 1.0 + own + rng.random::<f64>();
            (sums.gram[i * n + j], sums.gram[j * n + i]) = (g, g);
        }
    }
    sums.upsilon.iter_mut().for_each(|u| *u = rng.random());
    sums
}

fn solvers(c: &mut Criterion) {
    let mut group = c.benchmark_group("solve");
    group.sample_size(10);
    let filter = Filter {
        tau_seconds: 0.01,
        order: 1,
    };
    let bank = FilterBank::new(vec![filter]).expect("a valid bank");
    for features in [100, 1000] {
        let sums = sums(features);
        let channels = vec![String::new(); features];
        let names = FeatureNames {
            channels: &channels,
            bank: &bank,
        };
        for solver in [Solver::Cholesky, Solver::Inverse] {
            let id = BenchmarkId::new(solver.name(), features);
            group.bench_with_input(id, &sums, |b, sums| {
                b.iter(|| {
                    solve(black_box(sums), 1.0, solver, MaskPolicy::Refuse, names).expect("weights")
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, solvers);
criterion_main!(benches);
