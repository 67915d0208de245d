//! Input that has no answer.

use betz_base::{ErrorKind, Result};
use betz_explore::{
    Events, IntervalOptions, QualityOptions, TuningOptions, Variable, Window, fano, intervals,
    psth, quality, raster, tuning,
};
use betz_recording::SpikeForm;

use crate::cases;

fn refused<T: std::fmt::Debug>(found: Result<T>, kind: ErrorKind, says: &str) {
    let error = found.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains(says), "{error}");
}

#[test]
fn signals_and_foreign_channels_are_refused_by_all() {
    use ErrorKind::InvalidArgument;
    let mut recording = cases::all().swap_remove(0).recording;
    let events = Events {
        name: "cue".into(),
        ticks: vec![600],
    };
    let window = Window::default();
    for (form, channel, says) in [
        (SpikeForm::Signal, 0, "a signal"),
        (SpikeForm::Events, 4, "below 4"),
    ] {
        recording.form = form;
        refused(
            psth(&recording, &[channel], &events, &window),
            InvalidArgument,
            says,
        );
        refused(
            raster(&recording, channel, &events, &window),
            InvalidArgument,
            says,
        );
        refused(
            intervals(&recording, &[channel], &IntervalOptions::default()),
            InvalidArgument,
            says,
        );
        refused(fano(&recording, &[channel], 0.1), InvalidArgument, says);
        refused(
            quality(&recording, &[channel], &QualityOptions::default()),
            InvalidArgument,
            says,
        );
    }
    let none: [usize; 0] = [];
    refused(
        quality(&recording, &none, &QualityOptions::default()),
        InvalidArgument,
        "at least one",
    );
}

#[test]
fn windows_that_are_none_are_refused() {
    use ErrorKind::InvalidArgument;
    let recording = cases::all().swap_remove(0).recording;
    let events = Events {
        name: "cue".into(),
        ticks: vec![600],
    };
    for (start, stop, bin, says) in [
        (0.0, 0.0, 0.01, "the start before the end"),
        (0.1, -0.1, 0.01, "the start before the end"),
        (f64::NAN, 1.0, 0.01, "the start before the end"),
        (0.0, 1.0, 0.0, "above 0 s"),
        (0.0, 1.0, f64::INFINITY, "above 0 s"),
        (0.0, 1.0, 0.3, "whole number of bins"),
        (0.0, 0.1, 0.0001, "at least the recording's tick"),
        (0.0, 1e9, 1e-9, "values"),
    ] {
        let window = Window {
            start_seconds: start,
            stop_seconds: stop,
            bin_seconds: bin,
        };
        refused(
            psth(&recording, &[0], &events, &window),
            InvalidArgument,
            says,
        );
    }
    let counts = cases::all().swap_remove(4).recording;
    let window = Window {
        start_seconds: 0.0,
        stop_seconds: 0.15,
        bin_seconds: 0.03,
    };
    refused(
        psth(&counts, &[0], &events, &window),
        InvalidArgument,
        "multiple of the recording's bin",
    );
    refused(
        intervals(&counts, &[0], &IntervalOptions::default()),
        InvalidArgument,
        "expected spike times",
    );
}

#[test]
fn events_outside_the_recording_are_refused_only_if_none_is_left() {
    let recording = cases::all().swap_remove(0).recording;
    let window = Window::default();
    let events = Events {
        name: "cue".into(),
        ticks: vec![-5, i64::MIN, i64::MAX, 1_999],
    };
    refused(
        psth(&recording, &[0], &events, &window),
        ErrorKind::InsufficientData,
        "none of 4",
    );
    refused(
        Events::from_seconds(&recording, "cue", &[0.0, f64::NAN]),
        ErrorKind::InvalidArgument,
        "number 1",
    );
}

#[test]
fn tuning_without_values_is_refused() {
    let dataset = cases::all().swap_remove(0).recording.align(0.005).unwrap();
    let options = TuningOptions::default();
    let of = |options: TuningOptions| tuning(&dataset, &[0], Variable::Output(0), &options);
    refused(
        of(TuningOptions { bins: 1, ..options }),
        ErrorKind::InvalidArgument,
        "at least 2 bins",
    );
    for bins in [1 << 40, usize::MAX] {
        let many = TuningOptions { bins, ..options };
        refused(of(many), ErrorKind::InvalidArgument, "choose wider bins");
        let map = tuning(&dataset, &[0], Variable::Map { x: 0, y: 1 }, &many);
        refused(map, ErrorKind::InvalidArgument, "choose wider bins");
    }
    refused(
        of(TuningOptions {
            range: Some((2.0, 1.0)),
            ..options
        }),
        ErrorKind::InvalidArgument,
        "lower end first",
    );
    refused(
        of(TuningOptions {
            min_speed: f64::NAN,
            ..options
        }),
        ErrorKind::InvalidArgument,
        "least speed",
    );
    refused(
        of(TuningOptions {
            range: Some((1e6, 2e6)),
            ..options
        }),
        ErrorKind::InsufficientData,
        "got none",
    );
    refused(
        of(TuningOptions {
            lag_steps: i64::MAX,
            ..options
        }),
        ErrorKind::InsufficientData,
        "out of their segment",
    );
    refused(
        tuning(&dataset, &[0], Variable::Output(2), &options),
        ErrorKind::InvalidArgument,
        "below 2",
    );
}
