//! Rank measures beside SciPy's values, and what registers, chunks and long windows must not change.

use super::*;
use crate::cases;
use crate::{Network, NetworkSpec, Plan, Threshold, Window};

fn spec(measure: Measure, length: usize, step: usize, threshold: f64) -> NetworkSpec {
    NetworkSpec::new(measure, Window { length, step }).threshold(Threshold::Absolute(threshold))
}

const MEASURES: [Measure; 2] = [Measure::Spearman, Measure::Kendall];

/// Of (x, y), (x, z) and (y, z) below.
const SPEARMAN: [f64; 3] = [0.75, -0.80625, -0.7375];
const KENDALL: [f64; 3] = [
    0.634_146_341_463_414_8,
    -0.682_926_829_268_292_7,
    -0.707_317_073_170_731_7,
];

/// Ten samples of three nodes with ties, a constant one, and the values of SciPy 1.17 (`spearmanr`, `kendalltau`).
#[test]
fn values_are_those_of_scipy_with_ties_and_a_constant() {
    let x = [3, 1, 2, 2, 5, 4, 4, 4, 9, 0];
    let y = [1, 1, 2, 3, 5, 8, 2, 2, 7, 0];
    let z = [-1, -1, -2, 4, -5, -8, -2, -2, -7, 0];
    let samples: Vec<f32> = (0..10)
        .flat_map(|t| [x[t], y[t], z[t], 7].map(|v: i32| v as f32))
        .collect();
    let signal = Signal::new(&samples, 4).unwrap();
    for (measure, expected) in MEASURES.into_iter().zip([SPEARMAN, KENDALL]) {
        for arch in Arch::available() {
            let plan = Plan::new(&spec(measure, 10, 1, 0.0), &signal).unwrap();
            let network = plan.with_arch(arch).unwrap().run(&signal, &()).unwrap();
            assert_eq!((network.i(), network.j()), (&[0, 0, 1][..], &[1, 2, 2][..]));
            for (got, expected) in network.r().iter().zip(expected) {
                assert!(
                    (f64::from(*got) - expected).abs() < 1e-7,
                    "{measure:?} {arch:?}: {got}, {expected}"
                );
            }
            assert_eq!(network.undefined(), (1, 0));
        }
    }
}

fn bits(network: &Network) -> (Vec<u64>, Vec<u32>, Vec<u32>, Vec<u32>) {
    let values = network.r().iter().map(|r| r.to_bits()).collect();
    (
        network.indptr().to_vec(),
        network.i().to_vec(),
        network.j().to_vec(),
        values,
    )
}

#[test]
fn registers_chunks_and_threads_change_no_bit() {
    let case = cases::ties(150, 130);
    let signal = case.signal();
    for measure in MEASURES {
        for (length, step) in [(50, 1), (45, 4), (31, 40)] {
            let plan = Plan::new(&spec(measure, length, step, 0.35), &signal).unwrap();
            let mut one = plan.clone();
            one.chunk_windows = 7;
            let expected = cases::on_threads(1, || bits(&one.run(&signal, &()).unwrap()));
            assert!(expected.1.len() > 100);
            for arch in Arch::available() {
                let plan = plan.clone().with_arch(arch).unwrap();
                let got = cases::on_threads(3, || bits(&plan.run(&signal, &()).unwrap()));
                assert!(got == expected, "{measure:?} {length} {step} {arch:?}");
            }
        }
    }
}

#[test]
fn sums_that_do_not_fit_into_32_bits_are_exact() {
    // (W³ − W)/3 passes 2³¹ at 1,862; ranks pass 16 bits at 32,769.
    for length in [1_861, 1_900, 5_000, 33_000, 70_000] {
        let case = cases::communities(5, length + 3, 4);
        let signal = case.signal();
        let expected: Vec<f64> = {
            let node = |n: usize| -> Vec<f64> { (0..length).map(|t| signal.value(t, n)).collect() };
            let nodes: Vec<_> = (0..5).map(node).collect();
            (0..5)
                .flat_map(|i| (i + 1..5).map(move |j| (i, j)))
                .map(|(i, j)| oracle::spearman(&nodes[i], &nodes[j]).unwrap())
                .collect()
        };
        for arch in Arch::available() {
            let plan = Plan::new(&spec(Measure::Spearman, length, 2, 0.0), &signal).unwrap();
            let network = plan.with_arch(arch).unwrap().run(&signal, &()).unwrap();
            let first = network.window(0).unwrap();
            let got: Vec<f32> = first.r.to_vec();
            let expected: Vec<f32> = expected.iter().map(|v| *v as f32).collect();
            assert_eq!(got, expected, "{length} {arch:?}");
        }
    }
    let case = cases::communities(2, LONGEST_KENDALL + 1, 4);
    let refused = spec(Measure::Kendall, LONGEST_KENDALL + 1, 1, 0.5);
    let error = Plan::new(&refused, &case.signal()).unwrap_err();
    assert!(error.message().contains("32768"), "{error}");
}

#[test]
fn a_memory_limit_is_kept_and_changes_nothing() {
    let case = cases::ties(150, 130);
    let signal = case.signal();
    for measure in MEASURES {
        let plan = Plan::new(&spec(measure, 50, 1, 0.4), &signal).unwrap();
        let all = plan.estimate().bytes;
        let few = plan.clone().with_memory(all / 3).unwrap();
        assert!(few.estimate().bytes <= all / 3 && few.chunk_windows < plan.chunk_windows);
        let run = |plan: &Plan| bits(&plan.run(&signal, &()).unwrap());
        assert!(run(&plan) == run(&few));
        let error = plan.with_memory(1_000).unwrap_err();
        assert!(error.message().contains("memory"), "{error}");
    }
}
