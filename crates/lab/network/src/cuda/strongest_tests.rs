//! Densities and strongest pairs on a device against the CPU's; skipped, with a word, where no CUDA device works.

use betz_device::Device;

use super::tests::device;
use super::*;
use crate::cases::{self, Case};
use crate::spec::{NetworkSpec, Threshold};
use crate::{Network, Window};

const THRESHOLDS: [Threshold; 6] = [
    Threshold::Density(0.01),
    Threshold::Density(0.3),
    Threshold::Density(1.0),
    Threshold::Top(1),
    Threshold::Top(50),
    Threshold::Top(1 << 30),
];

/// The edges of the CPU: values of ranks to the last bit, others to within 2e-5.
fn same(cpu: &Network, cuda: &Network, what: &str) {
    let off = match cpu.meta().spec.measure {
        Measure::Spearman | Measure::Kendall => 0.0,
        _ => 2e-5,
    };
    assert_eq!(cpu.len(), cuda.len(), "{what}");
    for (a, b) in cpu.windows().zip(cuda.windows()) {
        assert_eq!((a.i, a.j), (b.i, b.j), "{what}, window {}", a.index);
        assert_eq!((a.undefined, a.why), (b.undefined, b.why), "{what}");
        for (x, y) in a.r.iter().zip(b.r) {
            // Information of equal signals is infinite.
            assert!(x == y || (x - y).abs() <= off, "{what}: {x} {y}");
        }
    }
}

fn check(device: &Device, case: &Case, spec: &NetworkSpec, limits: Limits) {
    let signal = case.signal();
    let Ok(plan) = Plan::new(spec, &signal) else {
        // A case too short for such a window says nothing of devices.
        return;
    };
    let cpu = plan.run(&signal, &()).unwrap();
    let mut plan = plan.on(device).unwrap();
    plan.limits = limits;
    let cuda = plan.run(&signal, &()).unwrap();
    let name = &cuda.meta().device;
    assert!(name.starts_with("cuda"), "{name}");
    let what = format!("{}, {spec:?}, {limits:?}", case.name);
    if sums::kind(spec.measure).is_none() {
        return same(&cpu, &cuda, &what);
    }
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for (a, b) in cpu.windows().zip(cuda.windows()) {
        assert_eq!((a.i, a.j), (b.i, b.j), "{what}, window {}", a.index);
        let chunk = Chunk {
            start: a.start as usize,
            windows: 1,
            window: spec.window,
            first: 0,
            rows: crate::window::Rows::ALL,
        };
        for (i, j, value) in b.edges() {
            let pair = (0, i as usize, j as usize);
            let exact = exact_value(spec.measure, (&signal, &chunk), pair, &mut x, &mut y);
            let exact = exact.unwrap();
            let off = (f64::from(value) - exact).abs();
            assert!(
                value == exact as f32 || off <= 3e-7 * exact.abs() + 1e-9,
                "{what}: {value} {exact}"
            );
        }
    }
}

/// The largest finite sample.
fn largest(case: &Case) -> f64 {
    let sizes = case.samples.iter().map(|v| f64::from(v.abs()));
    sizes.filter(|size| size.is_finite()).fold(0.0, f64::max)
}

/// With and without a search for thresholds.
fn searches() -> [Limits; 2] {
    let searched = Limits {
        all_pairs: 0,
        ..Limits::default()
    };
    [searched, Limits::default()]
}

#[test]
fn cuda_strongest_pairs_are_those_of_the_cpu_on_all_cases() {
    let Some(device) = device() else { return };
    let mut all = cases::all();
    all.extend([64, 129, 257].map(|nodes| cases::ties(nodes, 200)));
    for case in all {
        for measure in [
            Measure::Pearson,
            Measure::GaussianInformation,
            Measure::Spearman,
            Measure::Kendall,
            Measure::Euclidean { hold: 1 },
            Measure::Covariance,
            Measure::PhaseLocking,
            Measure::ImaginaryPhaseLocking,
            Measure::PhaseConsistency,
        ] {
            let is_angle = matches!(sums::kind(measure), Some((2.., _)));
            if is_angle && largest(&case) > 1e10 {
                // The plain loops' difference of such angles is off by more than its last digits.
                continue;
            }
            for threshold in THRESHOLDS {
                for (length, step) in [(60, 1), (61, 10), (150, 7)] {
                    let spec = NetworkSpec::new(measure, Window::new(length, step));
                    check(&device, &case, &spec.threshold(threshold), searches()[0]);
                }
            }
        }
    }
}

#[test]
fn cuda_strongest_pairs_do_not_depend_on_sign_chunks_or_room() {
    let Some(device) = device() else { return };
    for case in [cases::communities(300, 150, 21), cases::ties(260, 100)] {
        for measure in [Measure::Pearson, Measure::Spearman, Measure::Kendall] {
            for sign in [Sign::Both, Sign::Positive, Sign::Negative] {
                for threshold in THRESHOLDS {
                    let spec = NetworkSpec::new(measure, Window::new(50, 1));
                    let spec = spec.threshold(threshold).sign(sign);
                    let [searched, whole] = searches();
                    let narrow = Limits {
                        windows: 7,
                        slots: 1,
                        ..searched
                    };
                    for limits in [searched, whole, narrow] {
                        check(&device, &case, &spec, limits);
                    }
                }
            }
        }
    }
}

#[test]
fn cuda_strongest_pairs_stop_at_the_most_edges_and_share_tiles_with_all_devices() {
    let Some(device) = device() else { return };
    let case = cases::communities(700, 120, 5);
    let signal = case.signal();
    for measure in [Measure::Pearson, Measure::Spearman] {
        let spec = NetworkSpec::new(measure, Window::new(50, 1));
        let spec = spec.threshold(Threshold::Density(0.02));
        let plan = Plan::new(&spec.max_edges(1000), &signal).unwrap();
        let error = plan.on(&device).unwrap().run(&signal, &()).unwrap_err();
        assert!(error.message().contains("at most 1000"), "{error}");
        let plan = Plan::new(&spec, &signal).unwrap();
        let cpu = plan.run(&signal, &()).unwrap();
        let all = plan.on(&Device::cuda_all().unwrap()).unwrap();
        same(&cpu, &all.run(&signal, &()).unwrap(), "all devices");
    }
}
