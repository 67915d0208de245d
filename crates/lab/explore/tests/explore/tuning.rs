//! TuningCurves curves.

use std::f64::consts::{PI, TAU};

use betz_explore::{TuningOptions, Variable, VectorSource, tuning};
use betz_recording::{Dataset, Segment, Spikes};

use crate::assert_close;
use crate::cases;
use crate::oracle::time_and_spikes;

fn datasets() -> Vec<(&'static str, Dataset)> {
    let cases = cases::all()
        .into_iter()
        .filter(|case| case.recording.ticks > 1);
    cases
        .map(|case| {
            let step = 5.0 * case.recording.tick_seconds;
            (case.name, case.recording.align(step).unwrap())
        })
        .collect()
}

/// The segment that holds `step`.
fn segment(dataset: &Dataset, step: i64) -> Segment {
    let holds = |s: &&Segment| s.start <= step && step < s.stop;
    *dataset.segments.iter().find(holds).unwrap()
}

fn output(dataset: &Dataset, step: i64, o: usize) -> f64 {
    f64::from(dataset.behavior[step as usize * dataset.outputs.len() + o])
}

/// Derivative of output `o` at `step`.
fn derivative(dataset: &Dataset, step: i64, o: usize) -> f64 {
    let within = segment(dataset, step);
    let before = (step - 1).max(within.start);
    let after = (step + 1).min(within.stop - 1);
    let change = output(dataset, after, o) - output(dataset, before, o);
    if after > before {
        change / ((after - before) as f64 * dataset.step_seconds)
    } else {
        0.0
    }
}

/// Number of the bin of `value` among `bins` equal ones of `low..=high`.
fn bin(value: f64, (low, high): (f64, f64), bins: usize) -> Option<usize> {
    if !(low..=high).contains(&value) {
        return None;
    }
    let edge = |k: usize| {
        if k == bins {
            high
        } else {
            low + k as f64 * (high - low) / bins as f64
        }
    };
    (0..bins).find(|&k| edge(k) <= value && (value < edge(k + 1) || k + 1 == bins))
}

fn check(
    name: &str,
    dataset: &Dataset,
    variable: Variable,
    options: &TuningOptions,
    bin_of: &dyn Fn(i64) -> Option<usize>,
) {
    let channels = [1, 3, 0];
    let found = tuning(dataset, &channels, variable, options).unwrap();
    let lagged = |step: i64| {
        let (at, within) = (step + options.lag_steps, segment(dataset, step));
        if within.start <= at && at < within.stop {
            bin_of(at)
        } else {
            None
        }
    };
    for (p, &channel) in channels.iter().enumerate() {
        for bin in 0..found.bins() {
            let (seconds, spikes) = time_and_spikes(dataset, channel, bin, &lagged);
            let rate = if seconds > 0.0 {
                spikes / seconds
            } else {
                f64::NAN
            };
            let what = format!("{name}, {variable:?}, channel {channel}, bin {bin}");
            assert_close(&[found.occupancy_seconds[bin]], &[seconds], &what);
            assert_close(&[found.rate_of(p)[bin]], &[rate], &what);
        }
    }
    let used: f64 = found.occupancy_seconds.iter().sum::<f64>() / dataset.step_seconds;
    let all = used.round() as usize + found.steps_without_value + found.steps_outside;
    assert_eq!(
        all,
        dataset.steps_in_segments(),
        "{name}: every step is counted"
    );
}

#[test]
fn rates_are_those_of_plain_loops() {
    for (name, dataset) in datasets() {
        for lag_steps in [0, 2, -3] {
            let range = (-2.0, 2.0);
            let options = TuningOptions {
                bins: 5,
                range: Some(range),
                lag_steps,
                ..TuningOptions::default()
            };
            check(name, &dataset, Variable::Output(1), &options, &|at| {
                bin(output(&dataset, at, 1), range, 5)
            });
            check(
                name,
                &dataset,
                Variable::Map { x: 0, y: 1 },
                &options,
                &|at| {
                    Some(
                        bin(output(&dataset, at, 1), range, 5)? * 5
                            + bin(output(&dataset, at, 0), range, 5)?,
                    )
                },
            );
            for (of, part) in [
                (
                    VectorSource::Values,
                    output as fn(&Dataset, i64, usize) -> f64,
                ),
                (VectorSource::Derivative, derivative),
            ] {
                let range = match of {
                    VectorSource::Values => (0.0, 30.0),
                    VectorSource::Derivative => (0.0, 3.0 / dataset.step_seconds),
                };
                let options = TuningOptions {
                    range: Some(range),
                    min_speed: 0.5,
                    ..options
                };
                let vector = |at| [part(&dataset, at, 0), part(&dataset, at, 1)];
                check(
                    name,
                    &dataset,
                    Variable::Speed { x: 0, y: 1, of },
                    &options,
                    &|at| {
                        let [x, y] = vector(at);
                        bin(x.hypot(y), range, 5)
                    },
                );
                check(
                    name,
                    &dataset,
                    Variable::Direction { x: 0, y: 1, of },
                    &options,
                    &|at| {
                        let [x, y] = vector(at);
                        if x.hypot(y) < 0.5 {
                            None
                        } else {
                            bin(y.atan2(x), (-PI, PI), 5)
                        }
                    },
                );
            }
        }
    }
}

/// A vector that turns at a constant speed, and a channel whose spikes are counted by `rate` of its direction.
fn turning(rate: impl Fn(f64) -> f64) -> Dataset {
    let steps = 36_000;
    let angle = |step: usize| (step % 3_600) as f64 * TAU / 3_600.0 - PI;
    let mut dataset = Dataset {
        step_seconds: 0.01,
        steps,
        channel_names: vec!["a".into()],
        spikes: Spikes::default(),
        segments: vec![Segment {
            start: 0,
            stop: steps as i64,
        }],
        outputs: vec!["vx".into(), "vy".into()],
        behavior: (0..steps)
            .flat_map(|s| [angle(s).cos() as f32, angle(s).sin() as f32])
            .collect(),
    };
    for step in 0..steps {
        dataset.spikes.ticks.push(step as i64);
        dataset.spikes.channels.push(0);
        dataset
            .spikes
            .weights
            .push((rate(angle(step)) * 0.01) as f32);
    }
    dataset
}

#[test]
fn a_cosine_is_found_whatever_the_bins() {
    let dataset = turning(|angle| 20.0 + 12.0 * (angle - 0.7).cos());
    let direction = Variable::Direction {
        x: 0,
        y: 1,
        of: VectorSource::Values,
    };
    for bins in [3, 4, 8, 36] {
        let options = TuningOptions {
            bins,
            ..TuningOptions::default()
        };
        let found = tuning(&dataset, &[0], direction, &options).unwrap();
        let fit = found.curves[0].cosine.unwrap();
        assert!(
            (fit.preferred - 0.7).abs() < 2e-3,
            "{bins} bins: preferred {}",
            fit.preferred
        );
        assert!(
            (fit.depth_hz - 12.0).abs() < 0.02,
            "{bins} bins: depth {}",
            fit.depth_hz
        );
        assert!(
            (fit.offset_hz - 20.0).abs() < 0.02 && fit.r2 > 0.999,
            "{bins} bins: {fit:?}"
        );
    }
    let flat = turning(|_| 20.0);
    let found = tuning(&flat, &[0], direction, &TuningOptions::default()).unwrap();
    let fit = found.curves[0].cosine.unwrap();
    assert!(fit.depth_hz < 1e-3 && found.curves[0].bits_per_spike < 1e-6);
}

#[test]
fn a_channel_of_one_of_four_bins_tells_two_bits() {
    let dataset = turning(|angle| {
        if (0.0..PI / 2.0).contains(&angle) {
            40.0
        } else {
            0.0
        }
    });
    let direction = Variable::Direction {
        x: 0,
        y: 1,
        of: VectorSource::Values,
    };
    let options = TuningOptions {
        bins: 4,
        ..TuningOptions::default()
    };
    let curve = &tuning(&dataset, &[0], direction, &options).unwrap().curves[0];
    assert!((curve.bits_per_spike - 2.0).abs() < 0.01, "{curve:?}");
    assert_eq!(curve.peak_bin, Some(2));
    assert!((curve.mean_hz - 10.0).abs() < 0.05);
}

#[test]
fn bins_with_too_little_time_have_no_rate() {
    let (_, dataset) = datasets().swap_remove(0);
    let options = TuningOptions {
        min_occupancy_seconds: 0.2,
        ..TuningOptions::default()
    };
    let found = tuning(&dataset, &[0], Variable::Output(0), &options).unwrap();
    for (seconds, rate) in found.occupancy_seconds.iter().zip(found.rate_of(0)) {
        assert_eq!(*seconds < 0.2, rate.is_nan(), "{seconds} s, {rate} Hz");
    }
    assert!(found.rate_of(0).iter().any(|rate| rate.is_nan()));
}
