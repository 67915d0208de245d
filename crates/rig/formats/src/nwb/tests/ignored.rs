//! Content that a reader could pass over is used, or named.

use betz_recording::{Segment, SpikeForm};

use super::super::own::{self, Own};
use super::*;

/// 60 s of units with so many spikes each, at regular times.
fn regular_units(file: &NewFile, spikes: &[usize], step: f64) -> Result<()> {
    for path in ["/units", "/intervals", "/acquisition", "/processing"] {
        file.group(path)?;
    }
    file.group("/processing/behavior")?;
    let times: Vec<f64> = spikes
        .iter()
        .flat_map(|n| (0..*n).map(|i| 0.1 + i as f64 * step))
        .collect();
    let mut end = 0;
    let ends = spikes.iter().map(|n| {
        end += *n as u32;
        end
    });
    let ends: Vec<u32> = ends.collect();
    file.numbers("/units/spike_times", &times)?;
    file.numbers("/units/spike_times_index", &ends).map(drop)
}

/// A series of one column with its own times.
fn timed(file: &NewFile, path: &str, times: &[f64], unit: &str) -> Result<()> {
    file.group(path)?;
    file.said(path, "neurodata_type", "TimeSeries")?;
    let values: Vec<f64> = (0..times.len()).map(|i| i as f64 * 0.01).collect();
    file.numbers(&format!("{path}/data"), &values)?
        .with("unit", Value::Text(unit))?;
    file.numbers(&format!("{path}/timestamps"), times).map(drop)
}

fn at_50_hz(samples: usize) -> Vec<f64> {
    (0..samples).map(|i| i as f64 * 0.02).collect()
}

fn names(recording: &Recording) -> Vec<String> {
    let behavior = recording.behavior.iter();
    behavior
        .flat_map(|b| b.outputs.iter().map(|o| o.name.clone()))
        .collect()
}

fn asked(behavior: &[&str]) -> ReadOptions {
    ReadOptions {
        behavior: behavior.iter().map(ToString::to_string).collect(),
        ..ReadOptions::default()
    }
}

fn noted(report: &Report, words: &[&str]) {
    let notes = report.notes.join("\n");
    for word in words {
        assert!(notes.contains(word), "{word}: {notes}");
    }
}

#[test]
fn times_that_somebody_marked_in_a_file_of_betz_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let write = |invalid: bool| {
        written(folder.path(), |file| {
            sound_units(file, 0.0)?;
            file.texts("/units/unit_name", &["a", "b"])?;
            file.group("/scratch")?;
            let own = Own {
                form: SpikeForm::Events,
                tick_seconds: 1e-3,
                ticks: 60_000,
                places: false,
                meta: false,
                timed: false,
                segments: "trials".to_owned(),
                series: Vec::new(),
            };
            file.text(&format!("/{}", own::PATH), &own.text())?;
            match invalid {
                true => table(file, "/intervals/invalid_times", &[(2.0, 4.0)]),
                false => Ok(()),
            }
        })
    };
    let segment = |start, stop| Segment { start, stop };
    let (recording, report) = read(&write(false)).unwrap();
    assert_eq!(recording.segments, [segment(0, 60_000)]);
    assert_eq!(report.notes, [""; 0]);
    let (recording, report) = read(&write(true)).unwrap();
    assert_eq!(recording.channel_names, ["a", "b"]);
    assert_eq!(
        recording.segments,
        [segment(0, 2_000), segment(4_000, 60_000)]
    );
    noted(
        &report,
        &["masked by intervals/invalid_times: 2.000 s of 60.000 s"],
    );
}

#[test]
fn one_time_stamp_far_ahead_costs_one_sample() {
    let folder = tempfile::tempdir().unwrap();
    let mut times = at_50_hz(3000);
    times[500] = 200_010.0;
    let path = written(folder.path(), |file| {
        sound_units(file, 0.0)?;
        timed(file, VELOCITY, &times, "m/s")
    });
    let (recording, report) = read(&path).unwrap();
    assert_eq!(recording.behavior.as_ref().unwrap().samples(), 2999);
    assert!(recording.seconds() < 61.0, "{}", recording.seconds());
    noted(
        &report,
        &[
            "left out: 1 sample of behaviour, out of order",
            "sample 500, 200010 s",
        ],
    );
}

#[test]
fn behaviour_lies_in_any_module() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| {
        sound_units(file, 0.0)?;
        for module in ["running", "wheel"] {
            file.group(&format!("/processing/{module}"))?;
        }
        timed(
            file,
            "/processing/running/running_speed",
            &at_50_hz(3000),
            "m/s",
        )?;
        timed(
            file,
            "/processing/wheel/WheelVelocity",
            &at_50_hz(3000),
            "rad/s",
        )
    });
    // By itself the velocity is taken, and the other named.
    let (recording, report) = read(&path).unwrap();
    assert_eq!(names(&recording), ["WheelVelocity"]);
    assert_eq!(report.other_series, ["processing/running/running_speed"]);
    for name in [
        "running_speed",
        "processing/running/running_speed",
        "/processing/running/running_speed",
    ] {
        let (recording, _) = read_recording(&path, &asked(&[name])).unwrap();
        assert_eq!(names(&recording), ["running_speed"], "{name}");
    }
}

#[test]
fn a_level_is_no_velocity() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| {
        sound_units(file, 0.0)?;
        timed(file, "/acquisition/Sound_level", &at_50_hz(3000), "dB")?;
        timed(file, "/acquisition/novel_travel", &at_50_hz(3000), "dB")?;
        timed(
            file,
            "/processing/behavior/cursor_position",
            &at_50_hz(3000),
            "m",
        )
    });
    let (recording, report) = read(&path).unwrap();
    assert_eq!(names(&recording), ["cursor_position"]);
    assert_eq!(report.other_series.len(), 2);
}

#[test]
fn soft_links_are_found_and_lead_to_one_series() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| {
        sound_units(file, 0.0)?;
        file.group("/processing/tracking")?;
        file.group("/processing/tracking/P")?;
        timed(
            file,
            "/processing/tracking/P/hand_pos",
            &at_50_hz(3000),
            "m",
        )?;
        file.link(
            "/processing/behavior/hand_pos",
            "/processing/tracking/P/hand_pos",
        )
    });
    for name in [
        "hand_pos",
        "processing/behavior/hand_pos",
        "processing/tracking/P/hand_pos",
    ] {
        let (recording, report) = read_recording(&path, &asked(&[name])).unwrap();
        assert_eq!(names(&recording), ["hand_pos"], "{name}");
        assert!(report.other_series.is_empty(), "{report:?}");
    }
    let (recording, report) = read(&path).unwrap();
    assert_eq!(names(&recording), ["hand_pos"]);
    assert_eq!(report.notes, [""; 0]);
}

#[test]
fn units_are_unobserved_outside_of_their_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let observed = |second: [f64; 2]| {
        written(folder.path(), |file| {
            regular_units(file, &[600, 300, 300], 0.1)?;
            let bounds = [0.0, 60.0, second[0], second[1], 0.0, 20.0];
            file.rows("/units/obs_intervals", &[3, 2], &bounds)?;
            file.numbers("/units/obs_intervals_index", &[1_u8, 2, 3])?;
            table(
                file,
                "/intervals/trials",
                &[(0.0, 8.0), (10.0, 18.0), (30.0, 50.0)],
            )
        })
    };
    let path = observed([5.0, 60.0]);
    let (recording, report) = read(&path).unwrap();
    let seconds: Vec<(f64, f64)> = (recording.segments.iter())
        .map(|s| (s.start as f64 * 1e-5, s.stop as f64 * 1e-5))
        .collect();
    assert_eq!(seconds, [(5.0, 8.0), (10.0, 18.0)]);
    noted(
        &report,
        &[
            "2 of 3 units were observed in part (unit1, unit2)",
            "11.000 s of 36.000 s",
        ],
    );
    // Those that are not read do not matter.
    let first = ReadOptions {
        units: vec!["unit0".to_owned()],
        ..ReadOptions::default()
    };
    let (recording, report) = read_recording(&path, &first).unwrap();
    assert_eq!(
        (
            recording.segments.len(),
            report.notes.join("").contains("observed")
        ),
        (3, false)
    );
    let error = read(&observed([40.0, 60.0])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
    assert!(
        error.message().contains("at no time all of them"),
        "{error}"
    );
}

#[test]
fn ids_that_recur_are_told_apart_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| {
        regular_units(file, &[60, 50, 40, 30], 0.5)?;
        file.numbers("/units/id", &[7_i64, 7, 9, 7]).map(drop)
    });
    let (recording, report) = read(&path).unwrap();
    assert_eq!(
        recording.channel_names,
        ["unit7", "unit7_2", "unit9", "unit7_3"]
    );
    noted(
        &report,
        &["unit7 of row 1 is unit7_2, unit7 of row 3 is unit7_3"],
    );
}

#[test]
fn relative_positions_serve_units_too() {
    let folder = tempfile::tempdir().unwrap();
    let electrodes = |columns: &'static [&'static str]| {
        written(folder.path(), |file| {
            regular_units(file, &[60, 50, 40], 0.5)?;
            file.numbers("/units/electrodes", &[0_i64, 1, 2])?;
            file.numbers("/units/electrodes_index", &[1_u8, 2, 3])?;
            file.group("/general")?;
            file.group("/general/extracellular_ephys")?;
            let table = "/general/extracellular_ephys/electrodes";
            file.group(table)?;
            columns.iter().try_for_each(|name| {
                let values = [0.0, 20.0, 40.0].map(|v| if name.ends_with('y') { v } else { 5.0 });
                file.numbers(&format!("{table}/{name}"), &values).map(drop)
            })
        })
    };
    let (recording, _) = read(&electrodes(&["rel_x", "rel_y"])).unwrap();
    assert_eq!(
        recording.electrode_um.unwrap(),
        [[5.0, 0.0], [5.0, 20.0], [5.0, 40.0]]
    );
    let (recording, report) = read(&electrodes(&["group"])).unwrap();
    assert_eq!(recording.electrode_um, None);
    noted(&report, &["expected positions"]);
}

#[test]
fn milliseconds_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let with = |step: f64| {
        let path = written(folder.path(), |file| {
            regular_units(file, &[600, 600], step)?;
            timed(file, VELOCITY, &at_50_hz(3000), "m/s")
        });
        read(&path).unwrap().1
    };
    noted(
        &with(100.0),
        &["warning: units/spike_times", "they look like milliseconds"],
    );
    assert!(!with(0.1).notes.join("").contains("milliseconds"));
}

#[test]
fn what_is_not_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), |file| {
        regular_units(file, &[60, 50], 0.5)?;
        file.numbers("/units/quality", &[0.5, 0.7])?;
        file.group("/processing/other")?;
        file.group("/processing/other/units")?;
        file.numbers("/processing/other/units/spike_times", &[1.0])?;
        table(file, "/intervals/trials", &[(0.0, 5.0)])?;
        file.texts("/intervals/trials/side", &["left"])?;
        table(file, "/intervals/epochs", &[(0.0, 5.0)])?;
        file.group("/acquisition/images")?;
        file.said("/acquisition/images", "neurodata_type", "ImageSeries")?;
        file.numbers("/acquisition/images/data", &[1_i8, 2])
            .map(drop)
    });
    let (recording, report) = read(&path).unwrap();
    noted(
        &report,
        &[
            "not used: acquisition/images, intervals/epochs",
            "columns of units that are not used: quality",
            "columns of intervals that only conditions use: trials.side",
            "spike times outside of units, not used: processing/other/units",
        ],
    );
    // The recording itself says so, too.
    let meta = recording.meta.unwrap();
    assert!(
        meta.contains("acquisition/images") && meta.contains("quality"),
        "{meta}"
    );
    // Without a table of units those elsewhere are named.
    let path = written(folder.path(), |file| {
        file.group("/processing")?;
        file.group("/processing/ecephys")?;
        file.group("/processing/ecephys/units")?;
        file.numbers("/processing/ecephys/units/spike_times", &[1.0])
            .map(drop)
    });
    let error = read(&path).unwrap_err();
    assert!(
        error
            .message()
            .contains("spike times in [processing/ecephys/units]"),
        "{error}"
    );
}

#[test]
fn rates_are_not_rounded() {
    let folder = tempfile::tempdir().unwrap();
    for rate in [50.0, 30_000.390_639_481, 1000.0 / 3.0, 24_414.062_5] {
        let path = written(folder.path(), |file| {
            sound_units(file, 0.0)?;
            velocity(file, VELOCITY, [3000, 2], 0.0, rate)
        });
        let file = super::super::hdf5::File::open(&path).unwrap();
        let series =
            super::super::series::read(&file, VELOCITY.trim_matches('/'), &mut Report::default());
        let last = series.unwrap().times[2999];
        // To a part in 10^15: 1 ns per period was 0.36 ms per hour.
        assert!(
            (last - 2999.0 / rate).abs() <= 1e-14 * last,
            "{rate}: {last}"
        );
    }
}
