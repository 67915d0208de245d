//! NWB files that pynwb wrote, read here, and what pynwb reads of them (`fixtures/make.py`).

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use betz_base::ErrorKind;
use betz_interop::{ReadOptions, nwb, read_recording};
use betz_recording::Segment;
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn expected() -> Value {
    let text = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn file(name: &str) -> PathBuf {
    fixtures().join(format!("{name}.nwb"))
}

fn close(got: f64, expected: &Value) -> bool {
    let expected = expected.as_f64().unwrap();
    (got - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

#[test]
fn every_array_is_the_one_that_pynwb_reads() {
    for (name, of) in expected().as_object().unwrap() {
        let units = nwb::read_units(&file(name)).unwrap();
        assert!(close(units.times.iter().sum(), &of["times"]), "{name}");
        let ends: Vec<u64> = units.ends.iter().map(|e| *e as u64).collect();
        assert_eq!(serde_json::json!(ends), of["ends"], "{name}");
        for (path, series_of) in of["series"].as_object().unwrap() {
            let series = nwb::read_series(&file(name), path).unwrap();
            let shape = series_of["shape"].as_array().unwrap();
            let samples = shape[0].as_u64().unwrap() as usize;
            assert_eq!(series.times.len(), samples, "{name}: {path}");
            assert_eq!(series.values.len(), samples * series.columns.len());
            assert!(
                close(series.values.iter().sum(), &series_of["sum"]),
                "{name}: {path}"
            );
            let squares = series.values.iter().map(|v| v * v).sum();
            assert!(close(squares, &series_of["squares"]), "{name}: {path}");
            // pynwb has no times where there is a rate.
            if series_of["times"] != 0.0 {
                assert!(
                    close(series.times.iter().sum(), &series_of["times"]),
                    "{name}: {path}"
                );
            }
        }
    }
}

#[test]
fn m2_has_its_fingers_at_the_ends_of_its_bins() {
    let (recording, report) = read_recording(&file("m2"), &ReadOptions::default()).unwrap();
    let behavior = recording.behavior.as_ref().unwrap();
    let names: Vec<&str> = behavior.outputs.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names, ["index_vel", "mrs_vel"]);
    assert!((behavior.times.as_ref().unwrap()[0] - 0.02).abs() < 1e-9);
    assert_eq!(recording.channel_names[0], "unit10");
    assert_eq!(recording.electrode_um.as_ref().unwrap()[5], [400.0, 400.0]);
    let trials = [(0, 180_000), (200_000, 380_000)].map(|(start, stop)| Segment { start, stop });
    assert_eq!(recording.segments, trials);
    assert!(
        report.notes.iter().any(|n| n.contains("FALCON M2")),
        "{report:?}"
    );
    assert_eq!(report.other_series.len(), 2);
    // A bin of 20 ms has the sample that FALCON pairs with it.
    let series = nwb::read_series(&file("m2"), "acquisition/finger_vel/index_vel").unwrap();
    let data = recording.align(0.02).unwrap();
    for step in 0..89 {
        assert!((f64::from(data.behavior[step * 2]) - series.values[step]).abs() < 1e-6);
    }
}

#[test]
fn h1_has_a_period_for_its_rate() {
    let (recording, report) = read_recording(&file("h1"), &ReadOptions::default()).unwrap();
    let behavior = recording.behavior.as_ref().unwrap();
    let times = behavior.times.as_ref().unwrap();
    assert_eq!(behavior.outputs[0].name, "OpenLoopKinematicsVelocity_tx");
    assert_eq!((behavior.outputs.len(), recording.channels()), (7, 300));
    assert!((times[0] - 0.02).abs() < 1e-12 && (times[199] - 4.0).abs() < 1e-9);
    assert!(
        report.notes.iter().any(|n| n.contains("the period")),
        "{report:?}"
    );
    // Trials of two seconds, from the runs of TrialNum; the first begins with the first sample's time.
    let bounds: Vec<(i64, i64)> = recording
        .segments
        .iter()
        .map(|s| (s.start, s.stop))
        .collect();
    assert_eq!(bounds, [(2_000, 202_000), (202_000, 402_000)]);
}

#[test]
fn behaviour_is_what_is_asked_for() {
    let read = |names: &[&str]| {
        let behavior = names.iter().map(ToString::to_string).collect();
        let options = ReadOptions {
            behavior,
            ..ReadOptions::default()
        };
        read_recording(&file("nlb"), &options)
    };
    let names = |asked: &[&str]| {
        let (recording, _) = read(asked).unwrap();
        let outputs = recording.behavior.unwrap().outputs;
        outputs
            .into_iter()
            .map(|o| format!("{} {}", o.name, o.unit))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["hand_vel_x mm/s", "hand_vel_y mm/s"]);
    assert_eq!(names(&["hand_pos"]), ["hand_pos_x mm", "hand_pos_y mm"]);
    let both = ["processing/behavior/hand_vel", "hand_pos"];
    assert_eq!(names(&both).len(), 4);
    let error = read(&["elbow"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(
        error.message().contains("hand_pos") && error.message().contains("'elbow'"),
        "{error}"
    );
}

#[test]
fn a_soft_link_leads_to_its_timestamps() {
    let (recording, _) = read_recording(&file("perich"), &ReadOptions::default()).unwrap();
    let behavior = recording.behavior.unwrap();
    assert_eq!(behavior.outputs[0].name, "cursor_vel0");
    assert_eq!(behavior.times.unwrap().len(), 300);
    assert_eq!(
        recording.segments,
        [Segment {
            start: 50_000,
            stop: 250_000
        }]
    );
}

#[test]
fn what_is_no_nwb_file_is_refused_by_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.nwb");
    let options = ReadOptions::default();
    assert_eq!(
        read_recording(&path, &options).unwrap_err().kind(),
        ErrorKind::Io
    );
    std::fs::write(&path, b"\x89HDF\r\n\x1a\n").unwrap();
    let error = read_recording(&path, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRecording);
    assert!(error.message().contains("x.nwb"), "{error}");
    let bad = ReadOptions {
        tick_seconds: 0.0,
        ..options
    };
    assert_eq!(
        read_recording(&file("m2"), &bad).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}
