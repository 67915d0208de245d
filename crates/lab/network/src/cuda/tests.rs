//! The device's edges against the oracle's and the CPU's; skipped, with a word, where no CUDA device works.

use betz_device::Device;

use super::limits::can;
use super::*;
pub(super) use betz_testkit::device;

use crate::cases::{self, Case};
use crate::spec::{NetworkSpec, Threshold};
use crate::{Network, Window};

fn spec(length: usize, step: usize, threshold: f64) -> NetworkSpec {
    NetworkSpec::pearson(Window { length, step }).threshold(Threshold::Absolute(threshold))
}

/// The same edges with values that differ by no more than 2e-5, and the same nodes undefined.
fn same(cpu: &Network, cuda: &Network, what: &str) {
    assert_eq!(cpu.len(), cuda.len(), "{what}");
    for (a, b) in cpu.windows().zip(cuda.windows()) {
        assert_eq!(a.start, b.start, "{what}");
        assert_eq!((a.i, a.j), (b.i, b.j), "{what}, window {}", a.index);
        assert_eq!((a.undefined, a.why), (b.undefined, b.why), "{what}");
        for (x, y) in a.r.iter().zip(b.r) {
            assert!((x - y).abs() <= 2e-5, "{what}: {x} {y}");
        }
    }
}

fn check(device: &Device, case: &Case, spec: &NetworkSpec, limits: Limits) -> Network {
    let signal = case.signal();
    let plan = Plan::new(spec, &signal).unwrap();
    let cpu = plan.run(&signal, &()).unwrap();
    let mut plan = plan.on(device).unwrap();
    plan.limits = limits;
    let cuda = plan.run(&signal, &()).unwrap();
    assert!(
        cuda.meta().device.starts_with("cuda"),
        "{}",
        cuda.meta().device
    );
    same(&cpu, &cuda, &format!("{}, {spec:?}, {limits:?}", case.name));
    cuda
}

#[test]
fn cuda_edges_are_those_of_the_cpu_on_all_cases() {
    let Some(device) = device() else { return };
    for case in cases::all() {
        for (length, step) in [(60, 1), (60, 3), (61, 10), (60, 40), (150, 7)] {
            // A case too short for such a window says nothing of devices.
            if Plan::new(&spec(length, step, 0.5), &case.signal()).is_err() {
                continue;
            }
            check(&device, &case, &spec(length, step, 0.5), Limits::default());
        }
    }
}

#[test]
fn cuda_edges_are_those_of_plain_loops() {
    let Some(device) = device() else { return };
    let case = cases::artefact(140, 200);
    let spec = spec(50, 1, 0.4);
    let network = check(&device, &case, &spec, Limits::default());
    for (window, expected) in network
        .windows()
        .zip(cases::pearson_edges(&case.signal(), &spec))
    {
        let got: Vec<_> = window.edges().collect();
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(&expected) {
            assert_eq!((got.0, got.1), (expected.0, expected.1));
            assert!((f64::from(got.2) - expected.2).abs() <= 1e-5);
        }
    }
    assert!(network.meta().rebuilt > 0);
}

#[test]
fn cuda_edges_do_not_depend_on_sign_rule_chunks_or_room() {
    let Some(device) = device() else { return };
    let case = cases::communities(300, 240, 21);
    let narrow = |windows, slots| Limits {
        windows,
        slots,
        most_slots: slots,
        ..Limits::default()
    };
    for sign in [Sign::Both, Sign::Positive, Sign::Negative] {
        for (threshold, strict) in [(0.3, false), (0.5, true), (0.0, false), (1.0, false)] {
            let spec = spec(50, 1, threshold).sign(sign).strict(strict);
            // One tile at a time, in chunks of 7 windows; the buffer grows; all at once.
            for limits in [narrow(7, 1), narrow(64, 5 << 20), Limits::default()] {
                check(&device, &case, &spec, limits);
            }
            let grows = Limits {
                slots: 1,
                ..Limits::default()
            };
            check(&device, &case, &spec, grows);
        }
    }
}

#[test]
fn cuda_takes_every_kind_of_sample_and_stays_within_segments() {
    let Some(device) = device() else { return };
    let case = cases::communities(70, 260, 22);
    let whole: Vec<f64> = case
        .samples
        .iter()
        .map(|v| f64::from(*v).clamp(-90.0, 90.0))
        .collect();
    let (a, b): (Vec<f64>, Vec<i16>) = (whole.clone(), whole.iter().map(|v| *v as i16).collect());
    let c: Vec<u16> = b.iter().map(|v| (v + 100) as u16).collect();
    let d: Vec<u8> = c.iter().map(|v| *v as u8).collect();
    let data: [SignalData<'_>; 4] = [(&a).into(), (&b).into(), (&c).into(), (&d).into()];
    for data in data {
        let signal = Signal::new(data, 70)
            .and_then(|s| s.with_segments(vec![0..90, 100..130, 131..260]))
            .unwrap();
        for measure in [Measure::Pearson, Measure::GaussianInformation] {
            let window = Window::new(40, 2);
            let spec = NetworkSpec::new(measure, window).threshold(Threshold::Absolute(0.2));
            let plan = Plan::new(&spec, &signal).unwrap();
            let cpu = plan.run(&signal, &()).unwrap();
            let cuda = plan.on(&device).unwrap().run(&signal, &()).unwrap();
            same(&cpu, &cuda, measure.name());
            assert!(cuda.edges() > 0);
        }
    }
}

#[test]
fn cuda_stops_at_the_most_edges_and_within_its_memory() {
    let Some(device) = device() else { return };
    let case = cases::communities(400, 200, 23);
    let signal = case.signal();
    let few = spec(50, 1, 0.2).max_edges(1000);
    let plan = Plan::new(&few, &signal).unwrap().on(&device).unwrap();
    let error = plan.run(&signal, &()).unwrap_err();
    assert!(error.message().contains("at most 1000"), "{error}");
    let context = &device.contexts()[0];
    let spec = spec(50, 1, 0.2);
    let cpu = cases::run(&spec, &signal);
    for cap in [3 << 20, 16 << 20, 256 << 20] {
        context.set_memory_cap(Some(cap));
        let plan = Plan::new(&spec, &signal).unwrap().on(&device).unwrap();
        context.take_peak_memory().unwrap();
        let got = plan.run(&signal, &());
        let peak = context.take_peak_memory().unwrap();
        context.set_memory_cap(None);
        same(&cpu, &got.unwrap(), &format!("cap of {cap}"));
        assert!(peak <= cap, "{peak} of {cap}");
    }
    context.set_memory_cap(Some(1 << 14));
    let plan = Plan::new(&spec, &signal).unwrap().on(&device).unwrap();
    let got = plan.run(&signal, &());
    context.set_memory_cap(None);
    assert_eq!(got.unwrap_err().kind(), ErrorKind::DeviceMemory);
}

#[test]
fn cuda_counts_what_it_would_bring() {
    let Some(device) = device() else { return };
    let case = cases::communities(260, 200, 24);
    let signal = case.signal();
    let spec = spec(50, 1, 0.4);
    let plan = Plan::new(&spec, &signal).unwrap().on(&device).unwrap();
    let count = plan.count_on_device(&signal, &()).unwrap();
    let network = plan.run(&signal, &()).unwrap();
    assert_eq!(count.edges, network.edges());
    assert_eq!(count.rechecked, network.meta().rechecked);
    assert!(count.walk > 0.0 && count.walks >= 1);
}

#[test]
fn what_a_device_cannot_do_is_refused_by_name() {
    let window = Window::new(50, 1);
    let pearson = NetworkSpec::pearson(window);
    for (spec, named) in [
        (
            NetworkSpec::new(Measure::Partial, window),
            "partial, for which the CPU inverts",
        ),
        (
            NetworkSpec::new(Measure::SpikeTiling { reach: 3 }, window),
            "sttc, whose spike times the CPU",
        ),
        (
            NetworkSpec::new(
                Measure::Distance {
                    near: 3,
                    gap: 0,
                    earth: false,
                },
                window,
            )
            .threshold(Threshold::Top(5)),
            "--threshold for distance",
        ),
        (
            NetworkSpec::new(Measure::Covariance, window).threshold(Threshold::TopPerNode(5)),
            "strongest 5 per node",
        ),
        (
            NetworkSpec::new(Measure::Kendall, Window::new(1861, 1)),
            "1861",
        ),
        (
            pearson.threshold(Threshold::TopPerNode(5)),
            "strongest 5 per node",
        ),
    ] {
        let error = can(&spec, 10).unwrap_err();
        assert!(error.message().contains(named), "{error}");
    }
    for threshold in [
        Threshold::Absolute(0.5),
        Threshold::Density(0.01),
        Threshold::Top(5),
    ] {
        can(&pearson.threshold(threshold), 1000).unwrap();
    }
    for measure in [
        Measure::Covariance,
        Measure::PhaseConsistency,
        Measure::Lagged { lags: 3 },
        Measure::coherence(10, None, 1.0, true).unwrap(),
    ] {
        let spec = NetworkSpec::new(measure, window);
        for threshold in [Threshold::Absolute(0.5), Threshold::Density(0.01)] {
            can(&spec.threshold(threshold), 1000).unwrap();
        }
    }
    let spearman = NetworkSpec::new(Measure::Spearman, window).threshold(Threshold::Absolute(0.5));
    can(&spearman, 1000).unwrap();
    assert!(can(&pearson.threshold(Threshold::Absolute(0.5)), 9_000_000).is_err());
    let long = Window::new(1 << 30, 1);
    let spec = NetworkSpec::pearson(long).threshold(Threshold::Absolute(0.5));
    assert!(can(&spec, 10).is_err());
}

#[test]
fn a_plan_stays_on_the_cpu_where_that_is_as_fast() {
    let case = cases::communities(10, 200, 25);
    let signal = case.signal();
    let plan = Plan::new(&spec(50, 10, 0.4), &signal).unwrap();
    let expected = plan.run(&signal, &()).unwrap();
    for device in [Device::auto(), Device::cpu()] {
        let plan = plan.clone().on(&device).unwrap();
        let got = plan.run(&signal, &()).unwrap();
        assert_eq!(
            (got.edges(), &got.meta().device),
            (expected.edges(), &expected.meta().device)
        );
        assert_eq!(plan.ran().fallback, None);
        let error = plan.count_on_device(&signal, &()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceUnavailable);
    }
}
