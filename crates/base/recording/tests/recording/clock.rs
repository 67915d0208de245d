//! From a recording's clock to the model's clock.

use betz_base::ErrorKind;
use betz_recording::{AlignOptions, Behavior, OutputInfo, Recording, Segment, SpikeForm, Spikes};

use crate::archives::{counts_arrays, read_arrays};
use crate::writing::spikes_only;

#[test]
fn bins_align_unchanged_when_the_step_is_the_bin() {
    let r = read_arrays(&counts_arrays()).unwrap();
    let d = r.align(0.1).unwrap();
    d.check().unwrap();
    assert_eq!(d.spikes, r.spikes);
    assert_eq!(d.segments, r.segments);
    assert_eq!(d.behavior, r.behavior.as_ref().unwrap().values);
    assert_eq!((d.steps, d.step_seconds), (4, 0.1));
}

#[test]
fn bins_join_in_whole_numbers_only() {
    let r = read_arrays(&counts_arrays()).unwrap();
    let d = r.align(0.2).unwrap();
    assert_eq!(d.steps, 2);
    // Counts of joined bins are added up.
    assert_eq!(d.spikes.ticks, [0, 0, 1]);
    assert_eq!(d.spikes.channels, [0, 1, 2]);
    assert_eq!(d.spikes.weights, [2.0, 1.0, 3.0]);
    // Behaviour at a step's end is that of its last bin.
    assert_eq!(d.behavior, [2., 3., 6., 7.]);
    assert_eq!(d.segments.len(), 2);
    for step in [0.05, 0.15, 0.25] {
        let e = r.align(step).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        assert!(e.message().contains("whole bins"), "{e}");
    }
    // 0.3 s leaves one whole step, [0, 0.3), which straddles both segments.
    let e = r.align(0.3).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InsufficientData);
    for step in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(
            r.align(step).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }
    assert_eq!(
        r.align(100.0).unwrap_err().kind(),
        ErrorKind::InsufficientData
    );
}

#[test]
fn segments_keep_the_steps_wholly_inside() {
    let spikes = Spikes::new(vec![0, 4, 5, 9, 13, 29], vec![0; 6]);
    let mut r = spikes_only(30, spikes, SpikeForm::Events);
    r.segments = [(1, 11), (11, 13), (14, 30)]
        .map(|(start, stop)| Segment { start, stop })
        .to_vec();
    let options = AlignOptions {
        step_seconds: 0.004,
        max_gap_seconds: None,
    };
    let (d, report) = r.align_with(&options).unwrap();
    d.check().unwrap();
    assert_eq!(d.steps, 7);
    // Steps 1 and (not 2, which ends at tick 12) of the first; none of the second; 4, 5, 6 of the third.
    assert_eq!(
        d.segments,
        [Segment { start: 1, stop: 2 }, Segment { start: 4, stop: 7 }]
    );
    // The spike at tick 29 lies behind the last whole step.
    assert_eq!(d.spikes.ticks, [0, 1, 1, 2, 3]);
    assert_eq!(report.segments_dropped, 1);
    assert_eq!(report.spikes_outside, 4);
}

#[test]
fn steps_need_not_be_whole_ticks_for_spike_times() {
    let spikes = Spikes::new((0..30).collect(), vec![1; 30]);
    let r = spikes_only(30, spikes, SpikeForm::Events);
    let d = r.align(0.0025).unwrap();
    assert_eq!(d.steps, 12);
    let expected: Vec<i64> = (0..30).map(|t| t * 2 / 5).collect();
    assert_eq!(d.spikes.ticks, expected);
    assert_eq!(
        r.align(0.0004).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

fn ramp(times: Vec<f64>) -> Recording {
    let spikes = Spikes::new(vec![0, 50], vec![0, 1]);
    let mut r = spikes_only(100, spikes, SpikeForm::Events);
    r.behavior = Some(Behavior {
        outputs: vec![OutputInfo {
            name: "x".into(),
            unit: "s".into(),
        }],
        values: times.iter().map(|&t| t as f32).collect(),
        times: Some(times),
    });
    r
}

#[test]
fn behavior_is_interpolated_at_the_end_of_each_step() {
    // x(t) = t, sampled anyhow: linear interpolation must give each step's end back.
    let r = ramp(vec![
        -0.01, 0.0031, 0.004, 0.0173, 0.0173, 0.05, 0.0999, 0.2,
    ]);
    let d = r.align(0.005).unwrap();
    assert_eq!(d.segments, [Segment { start: 0, stop: 20 }]);
    for (s, &x) in d.behavior.iter().enumerate() {
        assert!(
            (f64::from(x) - (s + 1) as f64 * 0.005).abs() < 1e-7,
            "step {s}: {x}"
        );
    }
}

#[test]
fn segments_are_clipped_to_the_behavior_and_split_at_gaps() {
    let r = ramp(vec![0.0121, 0.03, 0.0301, 0.07, 0.0801]);
    let all = AlignOptions {
        step_seconds: 0.005,
        max_gap_seconds: None,
    };
    let (d, report) = r.align_with(&all).unwrap();
    d.check().unwrap();
    // First end at or after 12.1 ms: step 2 (15 ms). Last at or before 80.1 ms: step 15 (80 ms).
    assert_eq!(d.segments, [Segment { start: 2, stop: 16 }]);
    assert_eq!(report.steps_without_behavior, 6);
    assert_eq!(report.steps_in_gaps, 0);
    assert_eq!(report.spikes_outside, 1);
    assert!(d.behavior.iter().all(|v| v.is_finite()));

    let gaps = AlignOptions {
        max_gap_seconds: Some(0.02),
        ..all
    };
    let (d, report) = r.align_with(&gaps).unwrap();
    d.check().unwrap();
    // Ends 35 … 65 ms lie between the samples at 30.1 and 70 ms; 70 ms is a sample of its own.
    assert_eq!(
        d.segments,
        [
            Segment { start: 2, stop: 6 },
            Segment {
                start: 13,
                stop: 16
            }
        ]
    );
    assert_eq!(report.steps_in_gaps, 7);

    let e = ramp(vec![5.0, 6.0]).align(0.005).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InsufficientData);
}

#[test]
fn by_default_a_long_gap_ends_its_segment_and_a_short_one_is_counted() {
    // Behaviour every 10 ms for 100 s, without the samples from 40 to 70 s, and without two at 20 s.
    let times = (0..=10_000).map(|i| f64::from(i) * 0.01);
    let missing = |t: &f64| (40.0..70.0).contains(t) || (20.0..20.015).contains(t);
    let mut r = ramp(times.filter(|t| !missing(t)).collect());
    r.ticks = 100_000;
    r.segments = vec![Segment {
        start: 0,
        stop: 100_000,
    }];
    let options = |max_gap_seconds| AlignOptions {
        step_seconds: 0.005,
        max_gap_seconds,
    };
    let (d, report) = r.align_with(&options(None)).unwrap();
    d.check().unwrap();
    // The last sample before the long gap lies at 39.99 s, the first after it at 70 s.
    let expected = [(0, 7_998), (13_999, 20_000)].map(|(start, stop)| Segment { start, stop });
    assert_eq!(d.segments, expected);
    assert_eq!(report.steps_in_gaps, 13_999 - 7_998);
    // Steps that end between the samples at 19.99 and 20.02 s.
    assert_eq!(report.steps_interpolated, 5);
    assert_eq!(report.max_gap_seconds, Some(0.15));
    assert_eq!(r.align(0.005).unwrap(), d);
    let (d, report) = r.align_with(&options(Some(f64::INFINITY))).unwrap();
    assert_eq!(d.segments.len(), 1);
    assert_eq!((report.steps_in_gaps, report.max_gap_seconds), (0, None));
    assert_eq!(report.steps_interpolated, 13_999 - 7_998 + 5);
    let (d, report) = r.align_with(&options(Some(0.02))).unwrap();
    assert_eq!((d.segments.len(), report.steps_interpolated), (3, 0));
    // Of slow behaviour, five intervals are interpolated.
    let slow = |last| {
        ramp(
            (0..30)
                .filter(|i| *i < 3 || *i > last)
                .map(f64::from)
                .collect(),
        )
    };
    for (last, segments) in [(6, 1), (7, 2)] {
        let mut r = slow(last);
        (r.ticks, r.segments) = (
            29_000,
            vec![Segment {
                start: 0,
                stop: 29_000,
            }],
        );
        assert_eq!(r.align(0.005).unwrap().segments.len(), segments, "{last}");
    }
}

#[test]
fn a_step_that_would_fill_the_memory_is_refused() {
    let r = spikes_only(1 << 40, Spikes::default(), SpikeForm::Events);
    let e = r.align(0.001).unwrap_err();
    assert!(e.message().contains("longer step"), "{e}");
    assert_eq!(r.align(1000.0).unwrap().steps, (1_usize << 40) / 1_000_000);
}

#[test]
fn select_keeps_clock_and_chosen_segments() {
    let d = read_arrays(&counts_arrays()).unwrap().align(0.1).unwrap();
    let second = d.select(&[1, 1]);
    second.check().unwrap();
    assert_eq!(second.segments, [Segment { start: 2, stop: 4 }]);
    assert_eq!(second.spikes.ticks, [3]);
    assert_eq!(second.spikes.weights, [3.0]);
    assert_eq!((second.steps, second.behavior.len()), (4, 8));
    assert_eq!(d.select(&[1, 0]), d);
    assert!(d.select(&[]).segments.is_empty());
}

#[test]
fn samples_with_a_nan_are_as_samples_that_are_left_out() {
    // Behaviour of two outputs every 10 ms for 20 s; some samples lack one of them, or both.
    let times: Vec<f64> = (0..=2_000).map(|i| f64::from(i) * 0.01).collect();
    let is_missing = |i: usize| !(3..1_990).contains(&i) || (700..900).contains(&i) || i % 333 == 5;
    let mut with_nan = ramp(times.clone());
    with_nan.ticks = 20_000;
    with_nan.segments = [(0, 9_500), (9_500, 20_000)]
        .map(|(start, stop)| Segment { start, stop })
        .to_vec();
    let mut left_out = with_nan.clone();
    let outputs = vec![OutputInfo::from("x"), OutputInfo::from("y")];
    let row = |i: usize| [times[i] as f32, (times[i] * 3.0).sin() as f32];
    let holed = |i: usize| match is_missing(i) {
        true => [[f32::NAN, 1.0], [1.0, f32::NAN], [f32::NAN; 2]][i % 3],
        false => row(i),
    };
    let kept: Vec<usize> = (0..times.len()).filter(|&i| !is_missing(i)).collect();
    with_nan.behavior = Some(Behavior {
        outputs: outputs.clone(),
        values: (0..times.len()).flat_map(holed).collect(),
        times: Some(times.clone()),
    });
    left_out.behavior = Some(Behavior {
        outputs,
        values: kept.iter().flat_map(|&i| row(i)).collect(),
        times: Some(kept.iter().map(|&i| times[i]).collect()),
    });
    let missing = times.len() - kept.len();
    assert_eq!(
        with_nan.behavior.as_ref().unwrap().missing_samples(),
        missing
    );
    for (step_seconds, max_gap_seconds) in [
        (0.005, None),
        (0.0125, Some(0.015)),
        (0.02, Some(f64::INFINITY)),
    ] {
        let options = AlignOptions {
            step_seconds,
            max_gap_seconds,
        };
        let (found, report) = with_nan.align_with(&options).unwrap();
        found.check().unwrap();
        assert_eq!(
            (found, report),
            left_out.align_with(&options).unwrap(),
            "{options:?}"
        );
        assert!(report.steps_without_behavior > 0);
        assert_eq!(
            report.steps_in_gaps > 0,
            max_gap_seconds != Some(f64::INFINITY)
        );
        assert_eq!(
            report.steps_interpolated > 0,
            max_gap_seconds != Some(0.015)
        );
    }
}

#[test]
fn bins_with_a_nan_are_missing_on_the_clock_of_the_bins() {
    // One sample per bin of 20 ms. Missing: 10 bins at first, 3 later (0.08 s), then 101, and one at last.
    let mut r = spikes_only(1_000, Spikes::new(vec![7], vec![0]), SpikeForm::Counts);
    r.tick_seconds = 0.02;
    let is_missing =
        |i: usize| i < 10 || (100..103).contains(&i) || (500..601).contains(&i) || i == 999;
    r.behavior = Some(Behavior {
        outputs: vec![OutputInfo::from("x")],
        values: (0..1_000)
            .map(|i| match is_missing(i) {
                true => f32::NAN,
                false => i as f32,
            })
            .collect(),
        times: None,
    });
    let (d, report) = r
        .align_with(&AlignOptions {
            step_seconds: 0.02,
            max_gap_seconds: None,
        })
        .unwrap();
    d.check().unwrap();
    let segments = [(10, 500), (601, 999)].map(|(start, stop)| Segment { start, stop });
    assert_eq!(d.segments, segments);
    assert_eq!(report.steps_without_behavior, 11);
    assert_eq!((report.steps_in_gaps, report.steps_interpolated), (101, 3));
    assert_eq!(report.max_gap_seconds, Some(0.15));
    let inside = segments
        .iter()
        .flat_map(|s| s.start as usize..s.stop as usize);
    // The behaviour is a ramp, and so are its interpolated samples.
    assert!(
        inside
            .clone()
            .all(|i| (d.behavior[i] - i as f32).abs() < 1e-4)
    );
    // Steps of two bins: the sample of a step's last bin is its own.
    let joined = r.align(0.04).unwrap();
    joined.check().unwrap();
    assert_eq!(
        joined.segments,
        [(5, 250), (300, 499)].map(|(start, stop)| Segment { start, stop })
    );
    assert!((joined.behavior[50] - 101.0).abs() < 1e-4);
    assert_eq!(joined.behavior[300], 601.0);
}
