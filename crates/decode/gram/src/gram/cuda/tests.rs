//! Every case of the CPU's suite on a device, against the same oracle.

use std::sync::Arc;

use super::*;
use crate::cases::{self, Case};
use crate::gram::oracle;
use crate::gram::tests::{scales, signal, worst, worst_about_means};
use crate::solve::{self, FeatureNames, MaskPolicy, Solver};
use betz_device::cuda::Context;
use betz_recording::Dataset;
use betz_testkit::{Alone, context};

/// Largest error of Γ, Υ and Σa; see `worst`.
const TOLERANCE: f64 = 2e-6;

/// The same for the dense path, whose responses have 16 bits: in a short recording their rounding
/// does not average out.
const DENSE_TOLERANCE: f64 = 1.2e-5;

fn request(case: &Case, path: GramPath) -> Request<'_> {
    Request {
        bank: &case.bank,
        low_pass: None,
        delay_steps: case.delay_steps,
        path,
        either: path == GramPath::Auto,
        precision: Precision::F32,
        sampled: None,
    }
}

fn close(case: &Case, expected: &NormalEquations, got: &mut NormalEquations, tolerance: f64) {
    let name = &case.name;
    for (e, g) in [
        (&expected.output_sum, &mut got.output_sum),
        (&expected.output_sq_sum, &mut got.output_sq_sum),
    ] {
        for (e, g) in e.iter().zip(g.iter_mut()) {
            let scale = expected.output_sq_sum.iter().copied().fold(1.0, f64::max);
            assert!((*e - *g).abs() <= 1e-12 * scale, "{name}: {e} {g}");
            *g = *e;
        }
    }
    let error = worst(expected, got, &scales(case));
    assert!(error <= tolerance, "{name}: {error:e}");
}

#[test]
fn event_path_equals_the_oracle_and_repeats_bit_by_bit() {
    every_case(GramPath::Event, TOLERANCE);
}

#[test]
fn dense_path_equals_the_oracle_and_repeats_bit_by_bit() {
    every_case(GramPath::Dense, DENSE_TOLERANCE);
}

#[test]
fn the_dense_path_stands_in_where_either_will_do_and_spikes_do_not_fit() {
    let err = |kind, what: &str| Err::<u8, _>(Error::new(kind, what));
    let short = || err(ErrorKind::DeviceMemory, "spikes want 9 bytes");
    assert_eq!(
        event_else_dense(true, || Ok(1), || Ok(2)).unwrap(),
        (1, GramPath::Event)
    );
    assert_eq!(
        event_else_dense(true, short, || Ok(2)).unwrap(),
        (2, GramPath::Dense)
    );
    let refused = event_else_dense(false, short, || Ok(2)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DeviceMemory);
    let broken = || err(ErrorKind::DeviceFailure, "broken");
    let failed = event_else_dense(true, broken, || Ok(2)).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::DeviceFailure);
    let failed = event_else_dense(true, short, broken).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::DeviceFailure);
    let tight = || err(ErrorKind::DeviceMemory, "rounds want 7 bytes");
    let both = event_else_dense(true, short, tight).unwrap_err();
    assert_eq!(both.kind(), ErrorKind::DeviceMemory);
    for said in ["9 bytes", "7 bytes"] {
        assert!(both.message().contains(said), "{both}");
    }
}

fn every_case(wanted: GramPath, tolerance: f64) {
    let Some(context) = context() else { return };
    for case in cases::all() {
        let run = || {
            normal_equations(
                std::slice::from_ref(&*context),
                &case.data,
                &case.bank,
                None,
                case.delay_steps,
                wanted,
                &(),
            )
            .unwrap_or_else(|e| panic!("{}: {e}", case.name))
        };
        let expected =
            oracle::normal_equations(&case.data, &case.bank, None, case.delay_steps).unwrap();
        let (mut got, path) = run();
        assert_eq!(path, wanted, "{}", case.name);
        assert_eq!(run().0, got, "{}: not the same bits twice", case.name);
        close(&case, &expected, &mut got, tolerance);
    }
}

#[test]
fn a_busy_regular_channel_among_silent_ones_keeps_its_digits() {
    let Some(context) = context() else { return };
    for case in cases::busy_regular() {
        let (data, bank, delay) = (&case.data, &case.bank, case.delay_steps);
        let expected = oracle::normal_equations(data, bank, None, delay).unwrap();
        for (path, tolerance) in [
            (GramPath::Event, TOLERANCE),
            (GramPath::Dense, DENSE_TOLERANCE),
        ] {
            let got = normal_equations(
                std::slice::from_ref(&*context),
                data,
                bank,
                None,
                delay,
                path,
                &(),
            );
            close(&case, &expected, &mut got.unwrap().0, tolerance);
        }
    }
}

/// Fourteen million steps (an hour at 0.25 ms), one channel of which fires every other step: sums in f32
/// are over parts of it, and what they are off by does not grow with the recording.
#[test]
fn an_hour_keeps_its_digits() {
    let Some(context) = context() else { return };
    let steps = 14_400_000i64;
    let mut spikes = cases::random_spikes(8, 24, steps, 1_500_000);
    spikes.extend((0..steps / 2).map(|i| (2 * i, 24)));
    spikes.sort_unstable();
    let case = Case {
        name: "an hour".into(),
        data: cases::dataset(25, &[(0, steps)], spikes, 1),
        bank: cases::bank(&[(10.0, 1), (300.0, 0)]),
        delay_steps: 0,
    };
    let (data, bank) = (&case.data, &case.bank);
    // The oracle takes a minute.
    let expected = crate::gram::event::normal_equations(data, bank, 0, &()).unwrap();
    for (path, tolerance) in [
        (GramPath::Event, TOLERANCE),
        (GramPath::Dense, DENSE_TOLERANCE),
    ] {
        let got = normal_equations(
            std::slice::from_ref(&*context),
            data,
            bank,
            None,
            0,
            path,
            &(),
        );
        close(&case, &expected, &mut got.unwrap().0, 2.0 * tolerance);
    }
}

/// A channel that falls silent after a while, and one that wakes: the first stretch is no guide to the rest,
/// with rounds as long as they come and of a chunk each.
#[test]
fn a_channel_that_falls_silent_keeps_its_digits() {
    let Some(context) = context() else { return };
    let (steps, early) = (2_500_000i64, 200_000i64);
    let mut spikes = cases::random_spikes(4, 6, steps, 50_000);
    spikes.extend((0..early / 5).map(|i| (5 * i, 6)));
    spikes.extend((0..early / 5).map(|i| (steps - 5 * i - 1, 7)));
    spikes.sort_unstable();
    let case = Case {
        name: "a channel falls silent".into(),
        data: cases::dataset(8, &[(0, steps)], spikes, 1),
        bank: cases::bank(&[(300.0, 0)]),
        delay_steps: 0,
    };
    let (data, bank) = (&case.data, &case.bank);
    // The oracle takes a minute.
    let expected = crate::gram::event::normal_equations(data, bank, 0, &()).unwrap();
    let run = || {
        normal_equations(
            std::slice::from_ref(&*context),
            data,
            bank,
            None,
            0,
            GramPath::Dense,
            &(),
        )
    };
    close(&case, &expected, &mut run().unwrap().0, DENSE_TOLERANCE);
    let least = {
        let _cap = caps::MemoryCap::at(&context, 1);
        run().unwrap_err().needed_bytes().unwrap()
    };
    let _cap = caps::MemoryCap::at(&context, least);
    close(&case, &expected, &mut run().unwrap().0, DENSE_TOLERANCE);
}

/// Sums about the means depend neither on where a channel's zero is nor on its unit, in either precision.
#[test]
fn what_varies_is_known_wherever_zero_is_on_a_device() {
    let Some(context) = context() else { return };
    let bank = cases::bank(&[(1.0 / 40.0, 0)]);
    let mut beyond = Vec::new();
    for offset in [0.0, 1e3, 1e4, -32_768.0] {
        for scale in [1e-3, 1.0, 1e3] {
            let value = |c: usize, normal: f64| scale * (offset * (1.0 + c as f64 / 7.0) + normal);
            let data = signal(12, &[(0, 2500), (2550, 6000)], 5, value);
            let expected = oracle::normal_equations(&data, &bank, None, 0).unwrap();
            for (precision, tolerance) in [(Precision::F32, 1e-3), (Precision::Tf32, 2e-3)] {
                let mut wanted = Request::new(&data.view(), &bank, None, 0, GramPath::Auto);
                assert_eq!(wanted.path, GramPath::Dense);
                wanted.precision = precision;
                let contexts = std::slice::from_ref(&*context);
                let (sums, _) = device_sums(contexts, &data.view(), &wanted, &())
                    .unwrap()
                    .unwrap();
                let got = sums.download(&context).unwrap();
                let error = worst_about_means(&expected, &got);
                if error > tolerance {
                    beyond.push(format!(
                        "offset {offset}, scale {scale}, {precision:?}: {error:e}"
                    ));
                }
            }
        }
    }
    assert!(beyond.is_empty(), "{}", beyond.join("\n"));
}

/// Many random shapes: channels, lengths, segments, rates, banks, delays.
#[test]
fn event_path_equals_the_oracle_on_random_shapes() {
    use rand::{RngExt, SeedableRng};

    let Some(context) = context() else { return };
    let exhaustive = std::env::var_os("BETZ_EXHAUSTIVE").is_some();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(5);
    for round in 0..if exhaustive { 400 } else { 40 } {
        let filters = rng.random_range(1..=8usize);
        let most = if filters > 2 { 40 } else { 300 };
        let channels = rng.random_range(1..=most);
        let mut bounds = Vec::new();
        let mut at = rng.random_range(0..50);
        for _ in 0..rng.random_range(1..6) {
            let stop = at + rng.random_range(1..1500);
            bounds.push((at, stop));
            at = stop + rng.random_range(0..40);
        }
        let steps = bounds.last().map_or(0, |b| b.1);
        let count = rng.random_range(0..4000);
        let spikes = cases::random_spikes(round, channels as u32, steps, count);
        let data = cases::dataset(channels, &bounds, spikes, rng.random_range(0..4));
        let mut chosen: Vec<(f64, u32)> = Vec::new();
        while chosen.len() < filters {
            let filter = (
                [0.3, 1.0, 4.0, 10.0, 33.0, 250.0, 900.0][rng.random_range(0..7)],
                rng.random_range(0..=4),
            );
            if !chosen.contains(&filter) {
                chosen.push(filter);
            }
        }
        let (bank, delay) = (cases::bank(&chosen), rng.random_range(-60..200));
        let name = format!("round {round}: {channels} channels, {bounds:?}, {chosen:?}, {delay}");
        let case = Case {
            name,
            data,
            bank,
            delay_steps: delay,
        };
        let (data, bank, name) = (&case.data, &case.bank, &case.name);
        let expected = oracle::normal_equations(data, bank, None, delay).unwrap();
        let (mut got, _) = normal_equations(
            std::slice::from_ref(&*context),
            data,
            bank,
            None,
            delay,
            GramPath::Event,
            &(),
        )
        .unwrap_or_else(|e| panic!("{name}: {e}"));
        close(&case, &expected, &mut got, TOLERANCE);
    }
}

/// More channels than a tile has rows, and more spikes than a tile keeps on chip.
#[test]
fn event_path_equals_the_dense_path_on_large_shapes() {
    let Some(context) = context() else { return };
    for (channels, steps, count) in [
        (2100, 3000, 60_000),
        (1025, 1500, 20_000),
        (40, 4000, 400_000),
    ] {
        let spikes = cases::random_spikes(7, channels as u32, steps, count);
        let data = cases::dataset(channels, &[(0, steps)], spikes, 2);
        let bank = cases::bank(&[(10.0, 1)]);
        let (expected, _) =
            crate::gram::normal_equations(&data, &bank, None, 0, GramPath::Dense, &()).unwrap();
        let (mut got, _) = normal_equations(
            std::slice::from_ref(&*context),
            &data,
            &bank,
            None,
            0,
            GramPath::Event,
            &(),
        )
        .unwrap();
        let case = Case {
            name: format!("{channels} channels"),
            data,
            bank,
            delay_steps: 0,
        };
        close(&case, &expected, &mut got, 1e-5);
    }
}

#[test]
fn the_device_solves_as_the_cpu_does() {
    let Some(context) = context() else { return };
    let mut solved = 0;
    for case in cases::all() {
        let request = request(&case, GramPath::Event);
        let contexts = std::slice::from_ref(&*context);
        let Ok(Some((sums, _))) = device_sums(contexts, &case.data.view(), &request, &()) else {
            continue;
        };
        let host = sums.download(&context).unwrap();
        let names = FeatureNames {
            channels: &case.data.channel_names,
            bank: &case.bank,
        };
        let scale = host.gram.iter().copied().fold(0.0, f64::max);
        for relative in [0.0, 1e-4, 1e-2] {
            for solver in [Solver::Cholesky, Solver::Inverse] {
                let ridge = relative * scale;
                let expected = solve::solve(&host, ridge, solver, MaskPolicy::Refuse, names);
                if sums.outputs == 0 || (ridge == 0.0 && sums.steps <= sums.features as u64) {
                    assert!(expected.is_err(), "{}", case.name);
                    continue;
                }
                for refine in [false, true] {
                    let got =
                        solve::cuda::solve_by(&context, &sums, ridge, solver, refine).unwrap();
                    let name = format!("{}, ridge {ridge}, {}", case.name, solver.name());
                    assert_eq!(expected.is_ok(), got.is_some(), "{name}");
                    let (Ok(expected), Some(got)) = (&expected, got) else {
                        continue;
                    };
                    let largest = expected
                        .weights
                        .iter()
                        .fold(f64::MIN_POSITIVE, |m, w| m.max(w.abs()));
                    for (e, g) in expected.weights.iter().zip(&got.weights) {
                        assert!((e - g).abs() <= 1e-6 * largest, "{name}: {e} {g}");
                    }
                    for (e, g) in expected.intercept.iter().zip(&got.intercept) {
                        assert!((e - g).abs() <= 1e-6 * (1.0 + e.abs()), "{name}: {e} {g}");
                    }
                    solved += 1;
                }
            }
        }
    }
    assert!(solved > 20, "{solved} systems solved");
}

/// A failure leaves the device usable and its memory given back.
#[test]
fn a_failed_operation_leaves_the_device_usable() {
    let Some(context) = context() else { return };
    let case = cases::all().remove(0);
    let run = |data: &Dataset| {
        normal_equations(
            std::slice::from_ref(&*context),
            data,
            &case.bank,
            None,
            0,
            GramPath::Event,
            &(),
        )
    };
    let (before, _) = run(&case.data).unwrap();
    let huge = context.alloc::<f64>(1 << 45).map(|_| ());
    assert_eq!(
        huge.unwrap_err().kind(),
        betz_base::ErrorKind::DeviceMemory,
        "an allocation of 2^48 bytes"
    );
    let mut broken = case.data.clone();
    broken.spikes.channels[0] = 1000;
    assert!(run(&broken).is_err());
    context.trim().unwrap();
    let free = context.available_memory().unwrap();
    assert_eq!(run(&case.data).unwrap().0, before);
    context.trim().unwrap();
    assert!(context.available_memory().unwrap() + (64 << 20) >= free);
}

mod caps;
mod given;
mod lags;
mod low_pass;
mod sampled;
mod several;
