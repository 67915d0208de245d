//! The device's edges by rank measures against the CPU's, to the last bit; skipped, with a word, where no CUDA device works.

use betz_device::Device;

use super::tests::device;
use super::*;
use crate::cases::{self, Case};
use crate::oracle;
use crate::spec::{NetworkSpec, Threshold};
use crate::{Network, Window};

const MEASURES: [Measure; 2] = [Measure::Spearman, Measure::Kendall];

fn spec(measure: Measure, length: usize, step: usize, threshold: f64) -> NetworkSpec {
    NetworkSpec::new(measure, Window { length, step }).threshold(Threshold::Absolute(threshold))
}

/// The same edges and values, and the same nodes undefined for the same reasons.
fn same(cpu: &Network, cuda: &Network, what: &str) {
    assert_eq!(cpu.len(), cuda.len(), "{what}");
    for (a, b) in cpu.windows().zip(cuda.windows()) {
        assert_eq!(a.start, b.start, "{what}");
        assert_eq!((a.undefined, a.why), (b.undefined, b.why), "{what}");
        let unlike = a.edges().zip(b.edges()).find(|(x, y)| x != y);
        let (at, count) = (a.index, (a.i.len(), b.i.len()));
        assert_eq!(unlike, None, "{what}, window {at}, {count:?} edges");
        assert_eq!(count.0, count.1, "{what}, window {at}");
    }
}

fn check(device: &Device, case: &Case, spec: &NetworkSpec, limits: Limits) -> Network {
    let signal = case.signal();
    let plan = Plan::new(spec, &signal).unwrap();
    let cpu = plan.run(&signal, &()).unwrap();
    let mut plan = plan.on(device).unwrap();
    plan.limits = limits;
    let cuda = plan.run(&signal, &()).unwrap();
    let name = &cuda.meta().device;
    assert!(name.starts_with("cuda"), "{name}");
    same(&cpu, &cuda, &format!("{}, {spec:?}, {limits:?}", case.name));
    cuda
}

#[test]
fn cuda_few_ranks() {
    let Some(device) = device() else { return };
    for measure in MEASURES {
        for (nodes, length, windows) in [(4, 8, 1), (4, 16, 1), (4, 50, 1), (4, 8, 3), (140, 50, 3)]
        {
            for ties in [false, true] {
                let mut case = cases::communities(nodes, length + windows - 1, 31);
                if ties {
                    case.change(|_, _, v| (0.1 * v).round());
                }
                check(
                    &device,
                    &case,
                    &spec(measure, length, 1, 0.0),
                    Limits::default(),
                );
            }
        }
    }
}

#[test]
fn cuda_rank_edges_are_the_cpus_to_the_last_bit_on_all_cases() {
    let Some(device) = device() else { return };
    let mut all = cases::all();
    all.extend([63, 64, 65, 127, 128, 129, 257].map(|nodes| cases::ties(nodes, 200)));
    for case in all {
        for measure in MEASURES {
            for (length, step) in [(60, 1), (60, 3), (61, 10), (60, 40), (50, 70), (150, 7)] {
                let spec = spec(measure, length, step, 0.4);
                // A case too short for such a window says nothing of devices.
                if Plan::new(&spec, &case.signal()).is_ok() {
                    check(&device, &case, &spec, Limits::default());
                }
            }
        }
    }
}

#[test]
fn cuda_rank_edges_are_those_of_plain_loops() {
    let Some(device) = device() else { return };
    let case = cases::ties(140, 80);
    let signal = case.signal();
    for measure in MEASURES {
        let network = check(
            &device,
            &case,
            &spec(measure, 50, 1, 0.4),
            Limits::default(),
        );
        assert!(network.edges() > 1000);
        let value = |start: u64, i: u32, j: u32| {
            let start = start as usize;
            let samples = |node: u32| -> Vec<f64> {
                (start..start + 50)
                    .map(|t| signal.value(t, node as usize))
                    .collect()
            };
            match measure {
                Measure::Spearman => oracle::spearman(&samples(i), &samples(j)),
                _ => oracle::kendall(&samples(i), &samples(j)),
            }
        };
        for window in network.windows().step_by(7) {
            let mut edges = window.edges();
            for i in 0..140 {
                for j in i + 1..140 {
                    if let Some(r) = value(window.start, i, j).filter(|r| r.abs() >= 0.4) {
                        assert_eq!(edges.next(), Some((i, j, r as f32)), "{measure:?}");
                    }
                }
            }
            assert_eq!(edges.next(), None);
        }
    }
}

#[test]
fn cuda_ranks_of_short_and_long_windows() {
    let Some(device) = device() else { return };
    for measure in MEASURES {
        for length in [
            2, 3, 5, 8, 9, 16, 17, 31, 32, 33, 64, 65, 128, 129, 292, 293, 294, 369, 370, 600,
        ] {
            for step in [1, 2, length / 5 + 1] {
                let case = cases::ties(75, length + 9 * step);
                check(
                    &device,
                    &case,
                    &spec(measure, length, step, 0.2),
                    Limits::default(),
                );
            }
        }
    }
    for (measure, length) in [
        (Measure::Spearman, 1859),
        (Measure::Spearman, 1860),
        (Measure::Kendall, 1200),
    ] {
        let case = cases::ties(75, length + 5);
        check(
            &device,
            &case,
            &spec(measure, length, 1, 0.0),
            Limits::default(),
        );
    }
    // The largest sum that there is: equal nodes, and one upside down.
    for length in [293, 294, 1860] {
        let samples = (0..length + 2).flat_map(|t| {
            let v = (t * 7919 % (length + 2)) as f32;
            [v, v, -v, 3.0 * v]
        });
        let case = Case {
            name: format!("equal nodes, {length}"),
            samples: samples.collect(),
            nodes: 4,
        };
        let network = check(
            &device,
            &case,
            &spec(Measure::Spearman, length, 1, 1.0),
            Limits::default(),
        );
        assert_eq!(network.edges(), 3 * 6);
    }
}

#[test]
fn cuda_rank_edges_do_not_depend_on_sign_rule_chunks_or_room() {
    let Some(device) = device() else { return };
    let case = cases::ties(300, 150);
    let narrow = |windows, slots| Limits {
        windows,
        slots,
        most_slots: slots,
        ..Limits::default()
    };
    for measure in MEASURES {
        for sign in [Sign::Both, Sign::Positive, Sign::Negative] {
            for (threshold, strict) in [(0.3, false), (0.5, true), (0.0, false), (1.0, false)] {
                let spec = spec(measure, 50, 1, threshold).sign(sign).strict(strict);
                let grows = Limits {
                    slots: 1,
                    ..Limits::default()
                };
                for limits in [narrow(7, 1), narrow(64, 5 << 20), grows, Limits::default()] {
                    check(&device, &case, &spec, limits);
                }
            }
        }
    }
}

#[test]
fn cuda_ranks_meet_thresholds_that_values_equal() {
    let Some(device) = device() else { return };
    // Few samples: many pairs have the same values, which are thresholds here.
    let case = cases::ties(130, 40);
    for measure in MEASURES {
        let all = check(&device, &case, &spec(measure, 8, 1, 0.0), Limits::default());
        let mut values: Vec<f32> = all.r().iter().map(|r| r.abs()).collect();
        values.sort_by(f32::total_cmp);
        values.dedup();
        for value in values.iter().step_by(values.len() / 5 + 1) {
            for strict in [false, true] {
                let spec = spec(measure, 8, 1, f64::from(*value)).strict(strict);
                check(&device, &case, &spec, Limits::default());
            }
        }
    }
}

#[test]
fn cuda_ranks_take_every_kind_of_sample_and_stay_within_segments() {
    let Some(device) = device() else { return };
    let case = cases::communities(70, 260, 22);
    let fine: Vec<f64> = (case.samples.iter())
        .map(|v| 1e15 + f64::from(*v))
        .collect();
    let b: Vec<i16> = case
        .samples
        .iter()
        .map(|v| v.clamp(-90.0, 90.0) as i16)
        .collect();
    let c: Vec<u16> = b.iter().map(|v| (v + 100) as u16).collect();
    let d: Vec<u8> = c.iter().map(|v| *v as u8).collect();
    let data: [SignalData<'_>; 4] = [(&fine).into(), (&b).into(), (&c).into(), (&d).into()];
    for data in data {
        let signal = Signal::new(data, 70)
            .and_then(|s| s.with_segments(vec![0..90, 100..130, 131..260]))
            .unwrap();
        for measure in MEASURES {
            let plan = Plan::new(&spec(measure, 40, 2, 0.2), &signal).unwrap();
            let cpu = plan.run(&signal, &()).unwrap();
            let cuda = plan.on(&device).unwrap().run(&signal, &()).unwrap();
            same(&cpu, &cuda, measure.name());
            assert!(cuda.edges() > 0);
        }
    }
}

#[test]
fn cuda_ranks_stop_at_the_most_edges_and_within_their_memory() {
    let Some(device) = device() else { return };
    let case = cases::ties(400, 200);
    let signal = case.signal();
    for measure in MEASURES {
        let spec = spec(measure, 50, 1, 0.3);
        let few = spec.max_edges(1000);
        let plan = Plan::new(&few, &signal).unwrap().on(&device).unwrap();
        let error = plan.run(&signal, &()).unwrap_err();
        assert!(error.message().contains("at most 1000"), "{error}");
        let context = &device.contexts()[0];
        let cpu = cases::run(&spec, &signal);
        for cap in [4 << 20, 16 << 20, 256 << 20] {
            context.set_memory_cap(Some(cap));
            let plan = Plan::new(&spec, &signal).unwrap().on(&device).unwrap();
            context.take_peak_memory().unwrap();
            let got = plan.run(&signal, &());
            let peak = context.take_peak_memory().unwrap();
            context.set_memory_cap(None);
            same(&cpu, &got.unwrap(), &format!("cap of {cap}"));
            assert!(peak <= cap, "{measure:?}: {peak} of {cap}");
        }
        context.set_memory_cap(Some(1 << 14));
        let plan = Plan::new(&spec, &signal).unwrap().on(&device).unwrap();
        let got = plan.run(&signal, &());
        context.set_memory_cap(None);
        assert_eq!(got.unwrap_err().kind(), ErrorKind::DeviceMemory);
    }
}

#[test]
fn cuda_ranks_count_what_they_would_bring_and_share_tiles_with_all_devices() {
    let Some(device) = device() else { return };
    let case = cases::ties(700, 120);
    let signal = case.signal();
    for measure in MEASURES {
        let plan = Plan::new(&spec(measure, 50, 1, 0.4), &signal).unwrap();
        let on = plan.clone().on(&device).unwrap();
        let count = on.count_on_device(&signal, &()).unwrap();
        let network = on.run(&signal, &()).unwrap();
        assert_eq!(count.edges, network.edges());
        assert!(count.walk > 0.0 && count.walks >= 1 && count.rechecked == 0);
        let all = plan.on(&Device::cuda_all().unwrap()).unwrap();
        same(&network, &all.run(&signal, &()).unwrap(), "all devices");
    }
}
