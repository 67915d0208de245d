//! Sampled filters, gathered and transformed, against the oracle.

use super::caps::MemoryCap;
use super::*;
use betz_base::error::ErrorKind;
use betz_device::cuda::has_transforms;
use betz_runtime::psc::SampledFilter;

const WAYS: [SampledWay; 2] = [SampledWay::Gather, SampledWay::Transform];

/// The first device, if cuFFT is there, too.
fn device_that_transforms(test: &str) -> Option<Alone<Arc<Context>>> {
    let context = context()?;
    if !has_transforms() {
        eprintln!("{test}: skipped: no cuFFT");
        return None;
    }
    Some(context)
}

fn filter(name: &str, length: usize, start: i64) -> SampledFilter {
    let samples = (0..length).map(|i| {
        let t = i as f64 / length as f64;
        (-4.0 * t).exp() * (1.0 + 0.4 * (37.0 * t).sin()) / length as f64
    });
    SampledFilter::new(name, samples.collect(), 1e-3, start).unwrap()
}

/// Sums by one way, on `contexts`.
fn sums_by(
    contexts: &[Arc<Context>],
    case: &Case,
    low_pass: Option<LowPass>,
    (way, precision): (SampledWay, Precision),
) -> Result<DeviceSums> {
    let data = case.data.view();
    let request = Request {
        low_pass,
        precision,
        sampled: Some(way),
        ..request(case, GramPath::Dense)
    };
    let (sums, path) = device_sums(contexts, &data, &request, &())?
        .unwrap_or_else(|| panic!("{}: left to the CPU", case.name));
    assert_eq!(path, GramPath::Dense);
    Ok(sums)
}

/// [`sums_by`] at full precision, in host memory.
fn sums(
    contexts: &[Arc<Context>],
    case: &Case,
    low_pass: Option<LowPass>,
    way: SampledWay,
) -> NormalEquations {
    let found = sums_by(contexts, case, low_pass, (way, Precision::F32));
    let found = found.unwrap_or_else(|e| panic!("{}, {}: {e}", case.name, way.name()));
    found.download(&contexts[0]).unwrap()
}

fn close_by_either(contexts: &[Arc<Context>], case: &Case, low_pass: Option<LowPass>) {
    let (data, bank) = (&case.data, &case.bank);
    let (expected, _) =
        crate::gram::normal_equations(data, bank, low_pass, case.delay_steps, GramPath::Dense, &())
            .unwrap();
    for way in WAYS {
        let mut got = sums(contexts, case, low_pass, way);
        assert_eq!(
            sums(contexts, case, low_pass, way),
            got,
            "{}, {}: not the same bits twice",
            case.name,
            way.name()
        );
        close(case, &expected, &mut got, DENSE_TOLERANCE);
    }
}

#[test]
fn sampled_filters_equal_the_oracle_either_way_and_repeat_bit_by_bit() {
    let Some(context) = device_that_transforms("sampled filters") else {
        return;
    };
    let contexts = std::slice::from_ref(&*context);
    for case in cases::sampled() {
        let (data, bank, delay) = (&case.data, &case.bank, case.delay_steps);
        for low_pass in [
            None,
            Some(LowPass {
                order: 2,
                cutoff_hz: 40.0,
            }),
        ] {
            let expected = oracle::normal_equations(data, bank, low_pass, delay).unwrap();
            for way in WAYS {
                let mut got = sums(contexts, &case, low_pass, way);
                let again = sums(contexts, &case, low_pass, way);
                assert_eq!(again, got, "{}: not the same bits twice", case.name);
                close(&case, &expected, &mut got, DENSE_TOLERANCE);
            }
            // The public way, by whatever is cheaper.
            let (mut got, path) =
                normal_equations(contexts, data, bank, low_pass, delay, GramPath::Auto, &())
                    .unwrap();
            assert_eq!(path, GramPath::Dense);
            close(&case, &expected, &mut got, DENSE_TOLERANCE);
        }
    }
}

/// Kernels of some thousand steps over several rounds, ahead of the spike and behind it, one longer than what shared
/// memory holds, segments shorter than a kernel, and blocks of Γ that begin inside a channel.
fn long_cases() -> Vec<Case> {
    let bounds = [
        (7, 3000),
        (3100, 70_000),
        (70_000, 70_800),
        (70_900, 90_000),
    ];
    let of = |name: &str, recursive: &[(f64, u32)], sampled, channels: u32, delay_steps| Case {
        name: name.into(),
        data: {
            let spikes = cases::random_spikes(21, channels, 90_000, 400 * channels as usize);
            cases::dataset(channels as usize, &bounds, spikes, 2)
        },
        bank: FilterBank::with_sampled(
            if recursive.is_empty() {
                vec![]
            } else {
                cases::bank(recursive).filters().to_vec()
            },
            sampled,
        )
        .unwrap(),
        delay_steps,
    };
    vec![
        of("a second", &[], vec![filter("second", 4000, 0)], 40, 13),
        of(
            "all kinds",
            &[(10.0, 1), (200.0, 0)],
            vec![
                filter("long", 2500, 5),
                filter("ahead", 900, -450),
                filter("short", 7, 0),
            ],
            23,
            -20,
        ),
        of(
            "longer than shared memory",
            &[],
            vec![filter("long", 20_000, 0), filter("late", 300, 17_000)],
            17,
            0,
        ),
        of("only ahead", &[], vec![filter("ahead", 1000, -1500)], 33, 5),
    ]
}

#[test]
fn long_kernels_and_rounds_do_not_show() {
    let Some(context) = device_that_transforms("long kernels") else {
        return;
    };
    let contexts = std::slice::from_ref(&*context);
    for case in long_cases() {
        close_by_either(contexts, &case, None);
        let low_pass = LowPass {
            order: 4,
            cutoff_hz: 8.0,
        };
        close_by_either(contexts, &case, Some(low_pass));
    }
}

/// Trials that are shorter than the kernel, one after another.
#[test]
fn trials_shorter_than_a_kernel_do_not_mix() {
    let Some(context) = device_that_transforms("short trials") else {
        return;
    };
    let bounds: Vec<(i64, i64)> = (0..60)
        .map(|i| (i * 1000, i * 1000 + 300 + i * 11))
        .collect();
    for (start, delay_steps) in [(0, 0), (-700, 9), (40, -30)] {
        let case = Case {
            name: format!("trials, from {start}"),
            data: {
                let spikes = cases::random_spikes(3, 12, 60_000, 20_000);
                cases::dataset(12, &bounds, spikes, 2)
            },
            bank: FilterBank::with_sampled(vec![], vec![filter("long", 1500, start)]).unwrap(),
            delay_steps,
        };
        close_by_either(std::slice::from_ref(&*context), &case, None);
    }
}

/// From the smallest cap that works up: the same sums, and no run takes more than its cap.
#[test]
fn sampled_filters_keep_to_every_cap() {
    let Some(context) = device_that_transforms("caps of sampled filters") else {
        return;
    };
    let contexts = std::slice::from_ref(&*context);
    for case in long_cases() {
        for low_pass in [
            None,
            Some(LowPass {
                order: 3,
                cutoff_hz: 30.0,
            }),
        ] {
            let (data, bank, delay) = (&case.data, &case.bank, case.delay_steps);
            let (expected, _) =
                crate::gram::normal_equations(data, bank, low_pass, delay, GramPath::Dense, &())
                    .unwrap();
            for way in WAYS {
                let least = {
                    let _cap = MemoryCap::at(&context, 1);
                    let refused = sums_by(contexts, &case, low_pass, (way, Precision::F32)).err();
                    let refused = refused.unwrap();
                    assert_eq!(refused.kind(), ErrorKind::DeviceMemory, "{refused}");
                    refused.needed_bytes().unwrap()
                };
                for cap in [least, least + least / 3, 3 * least] {
                    let _cap = MemoryCap::at(&context, cap);
                    context.synchronize().unwrap();
                    context.take_peak_memory().unwrap();
                    let mut got = sums(contexts, &case, low_pass, way);
                    let peak = context.take_peak_memory().unwrap();
                    let name = format!("{}, {}", case.name, way.name());
                    assert!(peak <= cap, "{name}: {peak} bytes used of {cap}");
                    close(&case, &expected, &mut got, DENSE_TOLERANCE);
                }
            }
        }
    }
}

#[test]
fn devices_share_the_time_of_sampled_filters() {
    let Some(context) = device_that_transforms("several devices") else {
        return;
    };
    let contexts = vec![Arc::clone(&context); 3];
    for case in cases::sampled().into_iter().chain(long_cases()) {
        close_by_either(&contexts, &case, None);
        let low_pass = LowPass {
            order: 1,
            cutoff_hz: 20.0,
        };
        close_by_either(&contexts, &case, Some(low_pass));
    }
}

/// TF32 says how far it is from full precision, and is as near as it says.
#[test]
fn sampled_filters_at_lower_precision_say_how_far_off_they_are() {
    let Some(context) = device_that_transforms("sampled filters in TF32") else {
        return;
    };
    let contexts = std::slice::from_ref(&*context);
    let case = &long_cases()[0];
    let (data, bank, delay) = (&case.data, &case.bank, case.delay_steps);
    let (expected, _) =
        crate::gram::normal_equations(data, bank, None, delay, GramPath::Dense, &()).unwrap();
    for way in WAYS {
        let found = sums_by(contexts, case, None, (way, Precision::Tf32)).unwrap();
        let sampled = found.sampled.unwrap();
        assert!(sampled.largest < 1e-3, "{sampled:?}");
        let got = found.download(&context).unwrap();
        let error = worst(&expected, &got, &scales(case));
        assert!(error < 1e-3, "{}: {error:e}", way.name());
    }
}

/// Without cuFFT, spikes gather; what must be transformed names what is missing.
#[test]
fn the_way_follows_from_cost() {
    let dense = {
        let samples = (0..20_000).flat_map(|t| (0..3).map(move |c| (t, c)));
        cases::dataset(3, &[(0, 20_000)], samples.collect(), 1)
    };
    let sparse = cases::dataset(3, &[(0, 20_000)], cases::random_spikes(1, 3, 20_000, 60), 1);
    let bank = FilterBank::with_sampled(vec![], vec![filter("long", 4000, 0)]).unwrap();
    let low_pass = LowPass {
        order: 1,
        cutoff_hz: 20.0,
    };
    let way = |data: &Dataset, low_pass| cost::sampled_way(data, &bank, low_pass);
    assert_eq!(way(&sparse, None), SampledWay::Gather);
    assert_eq!(way(&sparse, Some(low_pass)), SampledWay::Transform);
    let expected = match has_transforms() {
        true => SampledWay::Transform,
        false => SampledWay::Gather,
    };
    assert_eq!(way(&dense, None), expected);
    let mut weighted = sparse.clone();
    weighted.spikes.weights = vec![2.0; weighted.spikes.len()];
    assert_eq!(way(&weighted, None), SampledWay::Transform);
}
