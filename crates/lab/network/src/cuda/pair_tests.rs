//! Coherence and places near for a time on a device against the CPU's; skipped, with a word, where no CUDA device works.

use betz_device::Device;

use super::tests::device;
use super::*;
use crate::cases;
use crate::spec::{NetworkSpec, Threshold};
use crate::{Network, Window};

/// The edges and values of the CPU, to the last bit.
fn check(device: &Device, signal: &Signal<'_>, spec: &NetworkSpec) -> Network {
    let plan = Plan::new(spec, signal).unwrap();
    let cpu = plan.run(signal, &()).unwrap();
    let cuda = plan.clone().on(device).unwrap().run(signal, &()).unwrap();
    let name = &cuda.meta().device;
    assert!(name.starts_with("cuda"), "{name}");
    assert_eq!(cpu.len(), cuda.len());
    for (a, b) in cpu.windows().zip(cuda.windows()) {
        let what = format!("{spec:?}, window {}", a.index);
        assert_eq!((a.i, a.j), (b.i, b.j), "{what}");
        assert_eq!((a.undefined, a.why), (b.undefined, b.why), "{what}");
        let bits = |r: &[f32]| r.iter().map(|r| r.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(a.r), bits(b.r), "{what}");
    }
    cuda
}

#[test]
fn cuda_coherence_has_the_edges_and_bits_of_the_cpu() {
    let Some(device) = device() else { return };
    let mut edges = 0;
    for case in cases::all() {
        let signal = case.signal();
        for (segment, first, last) in [(16, 1, 8), (16, 3, 3), (21, 0, 10), (30, 2, 12)] {
            for peak in [false, true] {
                let measure = Measure::Coherence {
                    segment,
                    first,
                    last,
                    peak,
                };
                for keep in [
                    Threshold::Absolute(0.0),
                    Threshold::Absolute(0.5),
                    Threshold::Density(0.1),
                    Threshold::TopPerNode(2),
                ] {
                    let spec = NetworkSpec::new(measure, Window::new(50, 23)).threshold(keep);
                    if Plan::new(&spec, &signal).is_ok() {
                        edges += check(&device, &signal, &spec).edges();
                    }
                }
            }
        }
    }
    assert!(edges > 100_000, "{edges}");
    let all = Device::cuda_all().unwrap();
    let case = cases::communities(300, 200, 31);
    let measure = Measure::coherence(40, None, 1.0, false).unwrap();
    let spec = NetworkSpec::new(measure, Window::new(150, 25)).threshold(Threshold::Absolute(0.3));
    assert!(check(&all, &case.signal(), &spec).edges() > 0);
}

/// Places that wander about a field, at times out of sight, (samples, nodes, axes).
fn wander(nodes: usize, samples: usize, axes: usize, side: f64) -> Vec<f64> {
    let mut state = 7_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f64 / (1 << 24) as f64
    };
    let mut places: Vec<f64> = (0..nodes * axes).map(|_| side * random()).collect();
    let mut out = Vec::new();
    for _ in 0..samples {
        for place in places.chunks_mut(axes) {
            let lost = random() < 0.05;
            for at in place {
                *at = (*at + side * 0.04 * (random() - 0.5)).clamp(0.0, side);
                out.push(if lost { f64::NAN } else { *at });
            }
        }
    }
    out
}

#[test]
fn cuda_places_are_near_as_on_the_cpu() {
    let Some(device) = device() else { return };
    let mut edges = 0;
    for (axes, nodes, earth, side, most) in [
        (2, 130, false, 40.0, [0.0, 3.0, 100.0]),
        (3, 70, false, 40.0, [1.0, 8.0, 1e9]),
        // Degrees, and metres: a degree of latitude has 111 km.
        (2, 90, true, 0.1, [500.0, 2000.0, 1e8]),
    ] {
        let samples = wander(nodes, 90, axes, side);
        let signal = Signal::places(&samples, nodes, axes).unwrap();
        for (near, gap) in [(1, 0), (6, 0), (6, 2), (20, 0), (20, 19)] {
            for most in most {
                for strict in [false, true] {
                    let measure = Measure::Distance { near, gap, earth };
                    let spec = NetworkSpec::new(measure, Window::new(20, 7))
                        .threshold(Threshold::Absolute(most))
                        .strict(strict);
                    edges += check(&device, &signal, &spec).edges();
                }
            }
        }
        let all = Device::cuda_all().unwrap();
        let measure = Measure::Distance {
            near: 5,
            gap: 1,
            earth,
        };
        let spec =
            NetworkSpec::new(measure, Window::new(30, 30)).threshold(Threshold::Absolute(most[1]));
        check(&all, &signal, &spec);
    }
    assert!(edges > 10_000, "{edges}");
    // Whole numbers: distances that are equal to the threshold.
    let whole: Vec<f64> = (0..40 * 50 * 2)
        .map(|k| f64::from(k * k * 7 % 13))
        .collect();
    let signal = Signal::places(&whole, 50, 2).unwrap();
    for squares in [4.0_f64, 25.0, 32.0] {
        for strict in [false, true] {
            let measure = Measure::Distance {
                near: 2,
                gap: 0,
                earth: false,
            };
            let spec = NetworkSpec::new(measure, Window::new(10, 1))
                .threshold(Threshold::Absolute(squares.sqrt()))
                .strict(strict);
            check(&device, &signal, &spec);
        }
    }
}
