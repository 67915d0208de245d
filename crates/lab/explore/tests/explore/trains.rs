//! Intervals, Fano factors and quality.

use betz_explore::{IntervalOptions, QualityOptions, fano, intervals, quality};

use crate::cases;
use crate::oracle::{self, mean, variance};
use crate::{assert_close, cases::Case};

const CHANNELS: [usize; 4] = [1, 0, 2, 3];

/// True if the case has intervals between spikes.
fn timed(case: &Case) -> bool {
    case.recording.tick_seconds <= 0.001
}

#[test]
fn intervals_are_those_of_plain_loops() {
    for case in cases::all().iter().filter(|case| timed(case)) {
        let tick = case.recording.tick_seconds;
        let options = IntervalOptions {
            bin_seconds: 2.0 * tick,
            longest_seconds: 40.0 * tick,
        };
        let found = intervals(&case.recording, &CHANNELS, &options).unwrap();
        for (p, &channel) in CHANNELS.iter().enumerate() {
            let wanted = oracle::intervals(&case.recording, channel);
            let in_bin = |k: usize| wanted.iter().filter(|i| **i / 2 == k as i64).count() as u64;
            let counts: Vec<u64> = (0..20).map(in_bin).collect();
            assert_eq!(
                found.counts[p * 20..(p + 1) * 20],
                counts,
                "{}, channel {channel}",
                case.name
            );
            let longer = wanted.iter().filter(|i| **i >= 40).count() as u64;
            assert_eq!(found.longer[p], longer, "{}", case.name);
            let seconds: Vec<f64> = wanted.iter().map(|i| *i as f64 * tick).collect();
            assert_close(&[found.mean_seconds[p]], &[mean(&seconds)], case.name);
            let cv = variance(&seconds).sqrt() / mean(&seconds);
            let cv = if seconds.len() < 2 { f64::NAN } else { cv };
            assert_close(&[found.cv[p]], &[cv], case.name);
        }
    }
}

#[test]
fn a_clock_does_not_vary_and_a_change_of_rate_is_no_local_variation() {
    let mut recording = cases::all().swap_remove(0).recording;
    // A hundred spikes 5 ms apart, then a hundred 10 ms apart.
    let ticks: Vec<i64> = (0..100)
        .map(|i| 5 * i)
        .chain((0..100).map(|i| 500 + 10 * i))
        .collect();
    recording.spikes = betz_recording::Spikes::new(ticks, vec![0; 200]);
    let found = intervals(&recording, &[0, 1], &IntervalOptions::default()).unwrap();
    assert!(
        found.cv[0] > 0.3 && found.lv[0] < 0.01,
        "CV {}, LV {}",
        found.cv[0],
        found.lv[0]
    );
    assert!(found.cv[1].is_nan() && found.lv[1].is_nan());
}

#[test]
fn fano_factors_are_those_of_plain_loops() {
    for case in cases::all() {
        for ticks in [1, 7, 50] {
            let found = fano(
                &case.recording,
                &CHANNELS,
                f64::from(ticks) * case.recording.tick_seconds,
            );
            for (found, channel) in found.unwrap().into_iter().zip(CHANNELS) {
                let counts = oracle::windows(&case.recording, channel, i64::from(ticks));
                let wanted = variance(&counts) / mean(&counts);
                let wanted = if counts.len() < 2 { f64::NAN } else { wanted };
                assert_close(&[found], &[wanted], case.name);
            }
        }
    }
}

#[test]
fn quality_is_that_of_plain_loops() {
    for case in cases::all() {
        let recording = &case.recording;
        let tick = recording.tick_seconds;
        let options = QualityOptions {
            refractory_seconds: 2.0 * tick,
            presence_parts: 10,
            fano_seconds: 7.0 * tick,
        };
        let length: i64 = recording.segments.iter().map(|s| s.stop - s.start).sum();
        for unit in quality(recording, &CHANNELS, &options).unwrap() {
            let counts = oracle::counts(recording, unit.channel);
            let inside: Vec<f64> = (recording.segments.iter())
                .flat_map(|s| counts[s.start as usize..s.stop as usize].to_vec())
                .collect();
            let spikes: f64 = inside.iter().sum();
            let seconds = length as f64 * tick;
            assert_close(
                &[unit.spikes, unit.rate_hz],
                &[spikes, spikes / seconds],
                case.name,
            );
            let parts = 10.min(length);
            let part_of = |at: usize| at as i64 * parts / length;
            let with = (0..parts).filter(|part| {
                (0..inside.len()).any(|at| part_of(at) == *part && inside[at] > 0.0)
            });
            assert_close(
                &[unit.presence],
                &[with.count() as f64 / parts as f64],
                case.name,
            );
            let intervals = oracle::intervals(recording, unit.channel);
            let short = intervals.iter().filter(|i| **i < 2).count();
            if timed(&case) {
                assert_eq!(
                    unit.refractory_violations,
                    Some(short as u64),
                    "{}",
                    case.name
                );
                let share = short as f64 / intervals.len() as f64;
                let contamination = short as f64 * seconds / (2.0 * 2.0 * tick * spikes * spikes);
                assert_close(
                    &[unit.violation_share, unit.contamination],
                    &[share, contamination],
                    case.name,
                );
            } else {
                assert_eq!(unit.refractory_violations, None);
                assert!(unit.violation_share.is_nan() && unit.cv.is_nan());
            }
        }
    }
}
