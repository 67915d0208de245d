//! Coherence, correlation at several lags and places near for a time on a device against the CPU's; skipped, with a word, where no CUDA device works.

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

/// The edges and lags of the CPU, and values of plain loops to the last bit.
fn check_lags(device: &Device, signal: &Signal<'_>, spec: &NetworkSpec) -> Network {
    let Measure::Lagged { lags } = spec.measure else {
        panic!("a measure with lags");
    };
    let plan = Plan::new(spec, signal).unwrap();
    let cpu = plan.run(signal, &()).unwrap();
    let cuda = plan.clone().on(device).unwrap().run(signal, &()).unwrap();
    let name = &cuda.meta().device;
    assert!(name.starts_with("cuda"), "{name}");
    assert_eq!(cpu.len(), cuda.len());
    let length = spec.window.length;
    let around = |node: u32, start: u64| {
        let mut samples = vec![0.0; length + 2 * lags];
        signal.column(node as usize, start as usize - lags, &mut samples);
        samples
    };
    for (a, b) in cpu.windows().zip(cuda.windows()) {
        let what = format!("{spec:?}, window {}", a.index);
        assert_eq!(a.start, b.start, "{what}");
        assert_eq!((a.i, a.j), (b.i, b.j), "{what}");
        assert_eq!((a.undefined, a.why), (b.undefined, b.why), "{what}");
        assert_eq!(a.lag, b.lag, "{what}");
        for (at, (i, j, r)) in b.edges().enumerate() {
            assert!((a.r[at] - r).abs() <= 2e-5, "{what}: {} {r}", a.r[at]);
            // Some of the pairs: loops are slow.
            if at % 7 == 0 {
                let (x, y) = (around(i, b.start), around(j, b.start));
                let size = |r| spec.sign.size(r);
                let (value, lag) = oracle::lagged(&x, &y, (lags, length), lags, size).unwrap();
                let expected = ((value as f32).to_bits(), lag);
                assert_eq!((r.to_bits(), b.lag[at]), expected, "{what}, {i} and {j}");
            }
        }
    }
    cuda
}

#[test]
fn cuda_correlations_at_lags_have_the_edges_and_lags_of_the_cpu() {
    let Some(device) = device() else { return };
    let mut edges = 0;
    for case in cases::all() {
        let signal = case.signal();
        for (length, step, lags) in [(50, 23, 4), (33, 1, 1), (60, 90, 0), (40, 7, 45)] {
            // Every window of the smaller cases only: plain loops are slow.
            if step == 1 && case.nodes > 20 {
                continue;
            }
            for (keep, sign, strict) in [
                (Threshold::Absolute(0.0), Sign::Both, false),
                (Threshold::Absolute(0.4), Sign::Negative, true),
                (Threshold::Absolute(1.0), Sign::Both, false),
                (Threshold::Density(0.1), Sign::Positive, false),
                (Threshold::Top(3), Sign::Both, false),
                (Threshold::TopPerNode(2), Sign::Negative, false),
            ] {
                let spec = NetworkSpec::new(Measure::Lagged { lags }, Window::new(length, step))
                    .threshold(keep)
                    .sign(sign)
                    .strict(strict);
                if Plan::new(&spec, &signal).is_ok() {
                    edges += check_lags(&device, &signal, &spec).edges();
                }
            }
        }
    }
    assert!(edges > 10_000, "{edges}");
}

/// Whole numbers that repeat: nodes are copies of a few, each some samples later, so that lags tie.
fn echoes(nodes: usize, samples: usize) -> Vec<i16> {
    (0..samples)
        .flat_map(|t| {
            (0..nodes).map(move |node| {
                let late = t + 40 - node % 9;
                let period = 5 + node / 9 % 4 * 3;
                let turned = if node % 2 == 0 { 1 } else { -1 };
                (late % period * (late % period) % 7) as i16 * turned
            })
        })
        .collect()
}

#[test]
fn cuda_lags_that_tie_are_the_same_in_any_number_of_shares() {
    let Some(device) = device() else { return };
    let all = Device::cuda_all().unwrap();
    let samples = echoes(150, 220);
    // Windows of the last segment alone: the first is shorter than a window and its lags.
    let signal = Signal::new(&samples, 150)
        .and_then(|s| s.with_segments(vec![0..40, 41..220]))
        .unwrap();
    let measure = Measure::Lagged { lags: 12 };
    for sign in [Sign::Both, Sign::Positive, Sign::Negative] {
        for keep in [
            Threshold::Absolute(0.9),
            Threshold::Top(40),
            Threshold::TopPerNode(1),
        ] {
            let spec = NetworkSpec::new(measure, Window::new(30, 3))
                .threshold(keep)
                .sign(sign);
            let one = check_lags(&device, &signal, &spec);
            assert!(one.edges() > 0);
            assert!(one.windows().all(|window| window.start >= 53));
            check_lags(&all, &signal, &spec);
            // Shares of the windows: those of the whole.
            let plan = Plan::new(&spec, &signal).unwrap().on(&device).unwrap();
            let mut next = 0;
            for at in 1..=3 {
                let shard = Some(betz_base::team::Shard::new(at, 3).unwrap());
                let run = crate::Run {
                    shard,
                    ..crate::Run::default()
                };
                let Some(part) = plan.run_with(run, &signal, &()).unwrap() else {
                    continue;
                };
                for window in part.windows() {
                    let whole = one.window(next).unwrap();
                    assert_eq!((window.i, window.j), (whole.i, whole.j));
                    assert_eq!((window.r, window.lag), (whole.r, whole.lag));
                    next += 1;
                }
            }
            assert_eq!(next, one.len());
        }
    }
}

#[test]
fn cuda_correlations_at_lags_stay_within_memory_and_the_most_edges() {
    let Some(device) = device() else { return };
    let case = cases::communities(300, 200, 32);
    let signal = case.signal();
    let spec = NetworkSpec::new(Measure::Lagged { lags: 6 }, Window::new(50, 9))
        .threshold(Threshold::Absolute(0.3));
    let plan = |spec: &NetworkSpec| Plan::new(spec, &signal).unwrap().on(&device).unwrap();
    let error = plan(&spec.max_edges(1000)).run(&signal, &()).unwrap_err();
    assert!(error.message().contains("at most 1000"), "{error}");
    let error = plan(&spec).count_on_device(&signal, &()).unwrap_err();
    assert!(error.message().contains("got lagged"), "{error}");
    let context = &device.contexts()[0];
    context.set_memory_cap(Some(4 << 20));
    context.take_peak_memory().unwrap();
    check_lags(&device, &signal, &spec);
    let peak = context.take_peak_memory().unwrap();
    context.set_memory_cap(Some(1 << 14));
    let error = plan(&spec).run(&signal, &()).unwrap_err();
    context.set_memory_cap(None);
    assert!(peak <= 4 << 20, "{peak}");
    assert_eq!(error.kind(), ErrorKind::DeviceMemory);
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
