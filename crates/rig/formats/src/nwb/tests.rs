//! Files as labs have them, which no writer of ours makes.

use std::path::{Path, PathBuf};

use betz_base::error::{ErrorKind, Result};
use betz_recording::Recording;
use rust_hdf5::H5File;

use super::hdf5_write::{NewFile, Value};
use crate::{ReadOptions, Report, read_recording};

mod ignored;

const VELOCITY: &str = "/processing/behavior/cursor_vel";
const UNIX: f64 = 1_577_836_800.0;

/// 60 s of four units from `origin` on, without behaviour.
fn units(file: &NewFile, origin: f64) -> Result<()> {
    for path in ["/units", "/intervals", "/acquisition", "/processing"] {
        file.group(path)?;
    }
    file.group("/processing/behavior")?;
    let times: Vec<f64> = (0..400)
        .map(|i| origin + f64::from(i % 100) * 0.6)
        .collect();
    file.numbers("/units/spike_times", &times)?;
    file.numbers("/units/spike_times_index", &[100_u8, 200, 255, 255])?;
    file.numbers("/units/id", &[0_i64, 1, 2, 3]).map(drop)
}

/// Like [`units`], with as many times as the last end says.
fn sound_units(file: &NewFile, origin: f64) -> Result<()> {
    for path in ["/units", "/intervals", "/acquisition", "/processing"] {
        file.group(path)?;
    }
    file.group("/processing/behavior")?;
    let times: Vec<f64> = (0..200)
        .map(|i| origin + f64::from(i % 100) * 0.6)
        .collect();
    file.numbers("/units/spike_times", &times)?;
    file.numbers("/units/spike_times_index", &[100_u8, 200])?;
    Ok(())
}

/// A series of 3000 samples at 50 Hz and two columns, of a shape.
fn velocity(file: &NewFile, path: &str, shape: [usize; 2], origin: f64, rate: f64) -> Result<()> {
    file.group(path)?;
    file.said(path, "neurodata_type", "TimeSeries")?;
    let values: Vec<f64> = (0..6000).map(|i| f64::from(i) * 0.01).collect();
    file.rows(&format!("{path}/data"), &shape, &values)?
        .with("unit", Value::Text("m/s"))?;
    file.number(&format!("{path}/starting_time"), origin)?
        .with("rate", Value::F64(rate))
        .map(drop)
}

fn table(file: &NewFile, path: &str, intervals: &[(f64, f64)]) -> Result<()> {
    file.group(path)?;
    let starts: Vec<f64> = intervals.iter().map(|i| i.0).collect();
    let stops: Vec<f64> = intervals.iter().map(|i| i.1).collect();
    file.numbers(&format!("{path}/start_time"), &starts)?;
    file.numbers(&format!("{path}/stop_time"), &stops).map(drop)
}

/// A file in `folder`.
fn written(folder: &Path, fill: impl FnOnce(&NewFile) -> Result<()>) -> PathBuf {
    let path = folder.join("x.nwb");
    let _ = std::fs::remove_file(&path);
    NewFile::create(&path, 1, fill).unwrap();
    path
}

fn read(path: &Path) -> Result<(Recording, Report)> {
    read_recording(path, &ReadOptions::default())
}

fn outputs(recording: &Recording) -> usize {
    let behavior = recording.behavior.as_ref();
    behavior.map_or(0, |behavior| behavior.outputs.len())
}

#[test]
fn damage_is_told_without_the_names_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| units(file, 0.0));
    let error = read(&path).unwrap_err();
    assert!(
        error.message().contains("expected a last end of 400"),
        "{error}"
    );
    let whole = std::fs::read(&path).unwrap();
    let mut words = Vec::new();
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x5A;
        std::fs::write(&path, &bytes).unwrap();
        if let Err(error) = read(&path) {
            words.push(error.message().to_owned());
        }
    }
    assert!(words.len() > 5);
    for word in words {
        let leaks = [
            "IoLayer",
            "Custom {",
            "Format(",
            "TypeMismatch(",
            "NotFound(",
        ];
        assert!(!leaks.iter().any(|leak| word.contains(leak)), "{word}");
    }
}

#[test]
fn a_file_that_was_cut_short_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| sound_units(file, 0.0));
    read(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for less in [1, whole.len() / 100, whole.len() / 2] {
        std::fs::write(&path, &whole[..whole.len() - less]).unwrap();
        let error = read(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRecording);
        assert!(error.message().contains("cut short"), "{error}");
    }
}

#[test]
fn texts_and_intervals_are_no_behaviour() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| {
        sound_units(file, 0.0)?;
        file.group("/acquisition/notes")?;
        file.texts("/acquisition/notes/data", &["go", "stop"])?;
        file.numbers("/acquisition/notes/timestamps", &[1.0, 2.0])?;
        file.group("/processing/behavior/epochs")?;
        file.said(
            "/processing/behavior/epochs",
            "neurodata_type",
            "IntervalSeries",
        )?;
        file.numbers("/processing/behavior/epochs/data", &[1_i8, -1, 1, -1])?;
        file.numbers(
            "/processing/behavior/epochs/timestamps",
            &[1.0, 2.0, 3.0, 5.0],
        )
        .map(drop)
    });
    let (recording, report) = read(&path).unwrap();
    assert_eq!(outputs(&recording), 0);
    assert!(report.other_series.is_empty(), "{report:?}");
    // The series of intervals is a table like any other.
    let options = ReadOptions {
        trials: vec!["epochs".to_owned()],
        ..ReadOptions::default()
    };
    let (recording, _) = read_recording(&path, &options).unwrap();
    let seconds: Vec<f64> = recording
        .segments
        .iter()
        .map(|s| s.len() as f64 * 1e-5)
        .collect();
    assert_eq!(seconds, [1.0, 2.0]);
}

#[test]
fn a_rate_of_zero_is_named_and_the_next_series_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| {
        sound_units(file, 0.0)?;
        velocity(file, VELOCITY, [3000, 2], 0.0, 0.0)?;
        velocity(file, "/processing/behavior/hand", [3000, 2], 0.0, 50.0)
    });
    let (recording, report) = read(&path).unwrap();
    assert_eq!(recording.behavior.unwrap().outputs[0].name, "hand0");
    let notes = report.notes.join("\n");
    assert!(
        notes.contains("cursor_vel") && notes.contains("rate above 0"),
        "{notes}"
    );
    let options = ReadOptions {
        behavior: vec!["cursor_vel".to_owned()],
        ..ReadOptions::default()
    };
    let error = read_recording(&path, &options).unwrap_err();
    assert!(error.message().contains("got 0"), "{error}");
}

#[test]
fn transposed_behaviour_is_turned() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| {
        sound_units(file, 0.0)?;
        velocity(file, VELOCITY, [2, 3000], 0.0, 50.0)
    });
    let (recording, report) = read(&path).unwrap();
    let behavior = recording.behavior.unwrap();
    assert_eq!(behavior.outputs.len(), 2);
    assert_eq!(behavior.values[..4], [0.0, 30.0, 0.01, 30.01]);
    assert!(report.notes[0].contains("read transposed"), "{report:?}");
}

#[test]
fn seconds_since_1970_begin_at_zero() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| {
        sound_units(file, UNIX)?;
        velocity(file, VELOCITY, [3000, 2], UNIX, 50.0)?;
        table(file, "/intervals/trials", &[(UNIX + 1.0, UNIX + 20.0)])
    });
    let (recording, report) = read(&path).unwrap();
    assert_eq!(report.origin_seconds, UNIX);
    assert!((recording.seconds() - 59.98).abs() < 0.01);
    assert_eq!(recording.segments[0].start, 100_000);
    assert_eq!(recording.spikes.ticks[0], 0);
    // One clock of each kind is no session.
    let path = written(folder.path(), |file| {
        sound_units(file, UNIX)?;
        velocity(file, VELOCITY, [3000, 2], 0.0, 50.0)
    });
    let error = read(&path).unwrap_err();
    assert!(error.message().contains("one clock"), "{error}");
}

#[test]
fn a_user_block_and_an_external_link_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source.nwb");
    NewFile::create(&source, 1, |file| {
        file.group("/processing")?;
        file.group("/processing/behavior")?;
        velocity(file, VELOCITY, [3000, 2], 0.0, 50.0)
    })
    .unwrap();
    let path = folder.path().join("x.nwb");
    let file = H5File::options()
        .no_locking()
        .userblock(512)
        .create(&path)
        .unwrap();
    let units = file.create_group("units").unwrap();
    let times: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.5).collect();
    let dataset = units.new_dataset::<f64>().shape([100]);
    dataset
        .create("spike_times")
        .unwrap()
        .write_raw(&times)
        .unwrap();
    let ends = units.new_dataset::<u8>().shape([1]);
    ends.create("spike_times_index")
        .unwrap()
        .write_raw(&[100_u8])
        .unwrap();
    let processing = file.create_group("processing").unwrap();
    let behavior = processing.create_group("behavior").unwrap();
    let target = VELOCITY.trim_start_matches('/');
    behavior
        .create_external_link("cursor_vel", "source.nwb", target)
        .unwrap();
    file.close().unwrap();
    assert!(!std::fs::read(&path).unwrap().starts_with(b"\x89HDF"));
    let (recording, report) = read(&path).unwrap();
    assert_eq!((outputs(&recording), report.notes), (2, Vec::new()));
    assert_eq!(recording.behavior.unwrap().outputs[0].unit, "m/s");
    std::fs::remove_file(&source).unwrap();
    let (recording, report) = read(&path).unwrap();
    assert_eq!(outputs(&recording), 0);
    assert!(
        report.notes[0].contains("source.nwb, which is not there"),
        "{report:?}"
    );
}

#[test]
fn tables_are_trials_and_masks_by_name_and_condition() {
    let folder = tempfile::tempdir().unwrap();
    let trials: Vec<(f64, f64)> = (0..12)
        .map(|i| (f64::from(i) * 4.0, f64::from(i) * 4.0 + 6.0))
        .collect();
    let path = written(folder.path(), |file| {
        sound_units(file, 0.0)?;
        table(file, "/intervals/trials", &trials)?;
        let sides: Vec<&str> = (0..12).map(|i| ["left", "right"][i % 2]).collect();
        file.texts("/intervals/trials/side", &sides)?;
        file.numbers(
            "/intervals/trials/target",
            &(0..12).map(|i| i % 3).collect::<Vec<i32>>(),
        )?;
        table(file, "/intervals/reaches", &[(0.0, 1.0), (50.0, 51.0)])?;
        table(file, "/intervals/artifacts", &[(0.5, 1.5), (44.0, 47.0)])?;
        table(file, "/intervals/invalid_times", &[(10.0, 12.0)])
    });
    let strings = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let seconds = |trials: &[&str], within: &[&str], mask: &[&str]| -> Result<(usize, f64)> {
        let options = ReadOptions {
            trials: strings(trials),
            within: strings(within),
            mask: strings(mask),
            ..ReadOptions::default()
        };
        let (recording, _) = read_recording(&path, &options)?;
        let ticks: usize = recording.segments.iter().map(|s| s.len()).sum();
        Ok((
            recording.segments.len(),
            (ticks as f64 * 1e-2).round() * 1e-3,
        ))
    };
    // All twelve, which cover 50 s, without the 2 s that NWB calls invalid: these cut a trial in two.
    assert_eq!(seconds(&[], &[], &[]).unwrap(), (12, 48.0));
    assert_eq!(seconds(&[], &[], &["none"]).unwrap(), (12, 50.0));
    assert_eq!(
        seconds(&["trials:side=left"], &[], &["none"]).unwrap(),
        (6, 36.0)
    );
    assert_eq!(
        seconds(&["trials:target=2.0"], &[], &["none"]).unwrap(),
        (4, 24.0)
    );
    assert_eq!(
        seconds(&["trials", "reaches"], &[], &["none"]).unwrap(),
        (13, 51.0)
    );
    assert_eq!(
        seconds(&["reaches"], &[], &["artifacts"]).unwrap(),
        (2, 1.5)
    );
    assert_eq!(
        seconds(&[], &["intervals/reaches"], &["none"]).unwrap(),
        (1, 1.0)
    );
    for (trials, words) in [
        ("nix", "expected one of [intervals/artifacts, "),
        (
            "trials:side=up",
            "expected one of its values [left, right], got 'up'",
        ),
        (
            "trials:colour=1",
            "expected a column of [side, start_time, stop_time, target]",
        ),
        ("trials:side", "expected TABLE or TABLE:COLUMN=VALUE"),
    ] {
        let error = seconds(&[trials], &[], &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(words), "{error}");
    }
    let error = seconds(&["reaches"], &["artifacts"], &["trials", "reaches"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
}
