//! Distances, covariances and phase locking on a device against the CPU's and against plain loops; skipped, with a word,
//! where no CUDA device works.

use betz_device::Device;

use super::tests::device;
use super::*;
use crate::cases::{self, Case};
use crate::spec::{NetworkSpec, Threshold};
use crate::{Network, Window};

const MEASURES: [Measure; 5] = [
    Measure::Euclidean { hold: 1 },
    Measure::Covariance,
    Measure::PhaseLocking,
    Measure::ImaginaryPhaseLocking,
    Measure::PhaseConsistency,
];

/// The edges of the CPU, with the values of plain loops.
fn check(device: &Device, signal: &Signal<'_>, spec: &NetworkSpec, limits: Limits) -> Network {
    let plan = Plan::new(spec, signal).unwrap();
    let cpu = plan.run(signal, &()).unwrap();
    let mut on = plan.clone().on(device).unwrap();
    on.limits = limits;
    let cuda = on.run(signal, &()).unwrap();
    let name = &cuda.meta().device;
    assert!(name.starts_with("cuda"), "{name}");
    assert_eq!(cpu.len(), cuda.len());
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for (a, b) in cpu.windows().zip(cuda.windows()) {
        let what = format!("{spec:?}, {limits:?}, window {}", a.index);
        assert_eq!((a.i, a.j), (b.i, b.j), "{what}");
        assert_eq!((a.undefined, a.why), (b.undefined, b.why), "{what}");
        let chunk = Chunk {
            start: a.start as usize,
            windows: 1,
            window: spec.window,
            first: 0,
            rows: crate::window::Rows::ALL,
        };
        for (i, j, value) in b.edges() {
            let pair = (0, i as usize, j as usize);
            let exact = exact_value(spec.measure, (signal, &chunk), pair, &mut x, &mut y);
            let off = (f64::from(value) - exact.unwrap()).abs();
            // Values are f32: the largest covariances are infinite.
            assert!(
                value == exact.unwrap() as f32 || off <= 3e-7 * exact.unwrap().abs() + 1e-9,
                "{what}: {value} {exact:?}"
            );
        }
    }
    cuda
}

fn spec(measure: Measure, (length, step): (usize, usize), threshold: f64) -> NetworkSpec {
    NetworkSpec::new(measure, Window::new(length, step)).threshold(Threshold::Absolute(threshold))
}

/// A threshold that some of the pairs of `signal` reach.
fn some(measure: Measure, signal: &Signal<'_>, window: (usize, usize)) -> Option<f64> {
    let spec = spec(measure, window, 0.0).threshold(Threshold::Density(0.2));
    let network = Plan::new(&spec, signal).ok()?.run(signal, &()).unwrap();
    let mut values: Vec<f64> = network.r().iter().map(|r| f64::from(r.abs())).collect();
    values.sort_unstable_by(f64::total_cmp);
    let most = measure.largest();
    values
        .get(values.len() / 2)
        .map(|v| v.clamp(0.0, most.min(f64::MAX)))
}

#[test]
fn cuda_sums_give_the_edges_of_the_cpu_on_all_cases() {
    let Some(device) = device() else { return };
    let mut edges = 0;
    for case in cases::all() {
        let signal = case.signal();
        let values =
            (0..signal.samples()).flat_map(|t| (0..signal.nodes()).map(move |node| (t, node)));
        let sizes = values.map(|(t, node)| signal.value(t, node).abs());
        let largest = sizes.filter(|size| size.is_finite()).fold(0.0, f64::max);
        for measure in MEASURES {
            let is_angle = !matches!(measure, Measure::Euclidean { .. } | Measure::Covariance);
            if is_angle && largest > 1e10 {
                // The plain loops' difference of such angles is off by more than its last digits.
                continue;
            }
            for window in [(60, 1), (61, 10), (60, 40), (50, 70), (150, 7), (2, 1)] {
                let Some(threshold) = some(measure, &signal, window) else {
                    // A case too short for such a window, or without a pair.
                    continue;
                };
                let spec = spec(measure, window, threshold);
                edges += check(&device, &signal, &spec, Limits::default()).edges();
            }
        }
    }
    assert!(edges > 100_000, "{edges}");
}

#[test]
fn cuda_sums_do_not_depend_on_sign_rule_chunks_or_room() {
    let Some(device) = device() else { return };
    let case = cases::communities(200, 150, 21);
    let signal = case.signal();
    let narrow = |windows, slots| Limits {
        windows,
        slots,
        most_slots: slots,
        ..Limits::default()
    };
    let grows = Limits {
        slots: 1,
        ..Limits::default()
    };
    for measure in MEASURES {
        let middle = some(measure, &signal, (50, 1)).unwrap();
        for (threshold, strict) in [(middle, false), (middle, true), (0.0, false)] {
            for sign in [Sign::Both, Sign::Positive, Sign::Negative] {
                if sign != Sign::Both && measure != Measure::Covariance {
                    continue;
                }
                let spec = spec(measure, (50, 1), threshold).sign(sign).strict(strict);
                for limits in [narrow(7, 1), narrow(64, 5 << 20), grows, Limits::default()] {
                    check(&device, &signal, &spec, limits);
                }
            }
        }
    }
}

#[test]
fn cuda_distances_decide_ties_and_hold_as_the_cpu_does() {
    let Some(device) = device() else { return };
    // Whole numbers: many distances are equal to the threshold, and some are 0.
    let case = Case {
        name: "whole numbers".to_owned(),
        samples: (0..200 * 70)
            .map(|at| ((at / 70 * (at % 70 / 2 + 1) * 7) % 5) as f32)
            .collect(),
        nodes: 70,
    };
    let signal = case.signal();
    for squares in [0.0_f64, 9.0, 40.0, 41.0] {
        for strict in [false, true] {
            for hold in [1, 3] {
                let measure = Measure::Euclidean { hold };
                let spec = spec(measure, (20, 1), squares.sqrt()).strict(strict);
                check(&device, &signal, &spec, Limits::default());
            }
        }
    }
}

#[test]
fn cuda_sums_take_every_kind_of_sample_and_stay_within_segments() {
    let Some(device) = device() else { return };
    let case = cases::communities(70, 260, 22);
    // Numbers about 10^6 leave a distance of 1 few digits.
    let a: Vec<f64> = (case.samples.iter()).map(|v| 1e6 + f64::from(*v)).collect();
    let b: Vec<i16> = (case.samples.iter())
        .map(|v| v.clamp(-90.0, 90.0) as i16)
        .collect();
    let c: Vec<u16> = b.iter().map(|v| (v + 100) as u16).collect();
    let d: Vec<u8> = c.iter().map(|v| *v as u8).collect();
    let data: [SignalData<'_>; 4] = [(&a).into(), (&b).into(), (&c).into(), (&d).into()];
    for data in data {
        let signal = Signal::new(data, 70)
            .and_then(|s| s.with_segments(vec![0..90, 100..130, 131..260]))
            .unwrap();
        for measure in MEASURES {
            let threshold = some(measure, &signal, (40, 2)).unwrap();
            check(
                &device,
                &signal,
                &spec(measure, (40, 2), threshold),
                Limits::default(),
            );
        }
    }
    let signal = case.signal();
    let all = Device::cuda_all().unwrap();
    for measure in MEASURES {
        let threshold = some(measure, &signal, (40, 2)).unwrap();
        check(
            &all,
            &signal,
            &spec(measure, (40, 2), threshold),
            Limits::default(),
        );
    }
}
