//! Correlations at many lags against plain loops and the CPU's search for a delay.

use super::caps::MemoryCap;
use super::*;
use crate::delay::tests::plain;
use crate::delay::{CentredBehavior, DelayEstimate, estimate_delay, estimate_delay_on};
use crate::gram::cuda::lags::{LagSearch, mean_correlations_within};
use betz_base::error::ErrorKind;
use betz_base::progress::StopAfter;
use betz_device::Device;
use betz_device::cuda::has_transforms;

/// Largest error of a mean squared correlation, which is 1 at most.
const LAG_TOLERANCE: f64 = 5e-5;

/// The first device, if cuFFT is there, too.
fn device_that_transforms(test: &str) -> Option<Alone<Arc<Context>>> {
    let context = context()?;
    if !has_transforms() {
        eprintln!("{test}: skipped: no cuFFT");
        return None;
    }
    Some(context)
}

/// Mean squared correlations within `memory` bytes of the device.
fn correlations(
    context: &Context,
    data: &Dataset,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    (most, memory): (usize, u64),
) -> Result<Vec<f64>> {
    let behavior = CentredBehavior::new(&data.view());
    let centred: Vec<f32> = behavior.values.iter().map(|x| *x as f32).collect();
    let search = LagSearch {
        data: &data.view(),
        bank,
        low_pass,
        most,
        behavior: &centred,
        squares: &behavior.squares,
    };
    mean_correlations_within(context, memory, &search, &())
}

fn assert_close(expected: &[f64], got: &[f64], tolerance: f64, name: &str) {
    assert_eq!(expected.len(), got.len(), "{name}");
    for (lag, (e, g)) in expected.iter().zip(got).enumerate() {
        assert!((e - g).abs() <= tolerance, "{name}, lag {lag}: {e} {g}");
    }
}

/// The device's lag is the CPU's, or its correlation is as large within the tolerance.
fn assert_same_delay(expected: &DelayEstimate, got: &DelayEstimate, name: &str) {
    let (e, g) = (&expected.correlation, &got.correlation);
    assert_close(e, g, LAG_TOLERANCE, name);
    assert_eq!(expected.first_lag, got.first_lag, "{name}");
    if expected.delay_steps != got.delay_steps {
        let at = |lag: i64| e[(lag - expected.first_lag) as usize];
        let lost = at(expected.delay_steps) - at(got.delay_steps);
        assert!(lost <= 2.0 * LAG_TOLERANCE, "{name}: {lost}");
    }
}

#[test]
fn lags_of_every_case_equal_plain_loops_and_repeat_bit_by_bit() {
    let Some(context) = device_that_transforms("lags") else {
        return;
    };
    let low_pass = Some(LowPass {
        order: 2,
        cutoff_hz: 40.0,
    });
    for case in cases::all().into_iter().chain(cases::sampled()) {
        let (data, bank) = (&case.data, &case.bank);
        if data.outputs.is_empty() || data.steps > 1000 || data.channels() > 20 {
            continue;
        }
        let longest = data.segments.iter().map(|s| s.len()).max().unwrap();
        // Behind a low-pass, sampled filters are transformed, which leaves rounding where responses are 0.
        let passes = match bank.sampled().is_empty() {
            true => vec![None, low_pass],
            false => vec![None],
        };
        for low_pass in passes {
            for most in [0, 3, 40].map(|most: usize| most.min(longest - 1)) {
                let name = format!("{}, {low_pass:?}, {most} lags", case.name);
                let found = || correlations(&context, data, bank, low_pass, (most, 1 << 40));
                let got = found().unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!(got, found().unwrap(), "{name}: not the same bits twice");
                let expected = plain(data, bank, low_pass, most as i64);
                assert_close(&expected, &got, LAG_TOLERANCE, &name);
            }
        }
    }
}

/// A recording of many rounds: lags from short to longer than most segments, one and several filters, counts.
fn long_recording() -> Dataset {
    let bounds = [
        (5, 90_000),
        (90_000, 90_001),
        (90_100, 93_000),
        (95_000, 240_000),
    ];
    let spikes = cases::random_spikes(11, 24, 240_000, 60_000);
    cases::dataset(24, &bounds, spikes, 5)
}

#[test]
fn long_lags_equal_the_cpus_however_time_and_features_are_cut() {
    let Some(context) = device_that_transforms("long lags") else {
        return;
    };
    let data = long_recording();
    let bank = cases::bank(&[(10.0, 1), (120.0, 2)]);
    for most in [20, 1500, 12_000] {
        let expected = estimate_delay(&data, &bank, None, most, &()).unwrap();
        let least = correlations(&context, &data, &bank, None, (most, 0)).unwrap_err();
        assert_eq!(least.kind(), ErrorKind::DeviceMemory);
        let least = least.needed_bytes().unwrap();
        for memory in [1 << 40, 6 * least, 2 * least, least] {
            let name = format!("{most} lags in {memory} bytes");
            let got = correlations(&context, &data, &bank, None, (most, memory));
            let got = got.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_close(&expected.correlation, &got, LAG_TOLERANCE, &name);
        }
        let less = correlations(&context, &data, &bank, None, (most, least - 1));
        assert_eq!(less.unwrap_err().kind(), ErrorKind::DeviceMemory);
    }
}

#[test]
fn a_delay_that_was_put_in_is_found_on_the_device_too() {
    if device_that_transforms("delay").is_none() {
        return;
    }
    let device = Device::cuda(0).unwrap();
    let bank = cases::bank(&[(3.0, 0)]);
    for delay in [-900, 0, 25, 2500] {
        let mut data = cases::dataset(
            8,
            &[(0, 15_000), (15_000, 19_000), (19_500, 40_000)],
            cases::random_spikes(7, 8, 40_000, 30_000),
            1,
        );
        let a = crate::psc::responses::<f64>(&data, &bank, None).unwrap();
        let columns = a.steps.len();
        data.behavior.fill(0.0);
        for (column, &t) in a.steps.iter().enumerate() {
            let inside = |s: &&betz_recording::Segment| (s.start..s.stop).contains(&(t as i64));
            let partner = t as i64 - delay;
            let segment = data.segments.iter().find(inside).unwrap();
            if (segment.start..segment.stop).contains(&partner) {
                let sum: f64 = (0..8)
                    .map(|f| (f as f64 - 2.0) * a.values[f * columns + column])
                    .sum();
                data.behavior[partner as usize] = sum as f32;
            }
        }
        let expected = estimate_delay(&data, &bank, None, 3000, &()).unwrap();
        let got = estimate_delay_on(&device, &data, &bank, None, 3000, &()).unwrap();
        assert_eq!((expected.delay_steps, got.delay_steps), (delay, delay));
        assert_eq!(got.ran.device, "cuda:0");
        assert_same_delay(&expected, &got, &format!("delay {delay}"));
    }
}

/// Counts, silence, constant outputs, what the CPU refuses, and a memory cap.
#[test]
fn the_search_on_the_device_refuses_and_ignores_what_the_cpu_does() {
    let Some(context) = device_that_transforms("delay's errors") else {
        return;
    };
    let device = Device::cuda(0).unwrap();
    let bank = cases::bank(&[(20.0, 1)]);
    for case in cases::all() {
        let (data, most) = (&case.data, 30);
        let expected = estimate_delay(data, &case.bank, None, most, &());
        let got = estimate_delay_on(&device, data, &case.bank, None, most, &());
        match (expected, got) {
            (Ok(expected), Ok(got)) => assert_same_delay(&expected, &got, &case.name),
            (Err(expected), Err(got)) => assert_eq!(expected.kind(), got.kind(), "{}", case.name),
            (expected, got) => panic!("{}: {expected:?} {got:?}", case.name),
        }
    }
    let mut data = cases::dataset(2, &[(0, 100)], vec![(3, 0)], 1);
    data.behavior.fill(4.0);
    let found = estimate_delay_on(&device, &data, &bank, None, 10, &()).unwrap();
    assert_eq!(found.delay_steps, 0);
    assert!(found.correlation.iter().all(|c| *c == 0.0));
    let data = long_recording();
    for rounds in [0, 3] {
        let stop = StopAfter::new(rounds);
        let error = estimate_delay_on(&device, &data, &bank, None, 100, &stop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted);
    }
    let _cap = MemoryCap::at(&context, 1 << 20);
    let error = estimate_delay_on(&device, &data, &bank, None, 12_000, &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMemory);
    assert!(error.message().contains("12000 steps"), "{error}");
}
