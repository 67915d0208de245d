//! NWB files that pynwb wrote, read here, and what pynwb reads of them (`fixtures/make.py`).

use std::path::{Path, PathBuf};

use betz_base::ErrorKind;
use betz_formats::nwb::{self, ElectricalSeries};
use betz_formats::{ReadOptions, read_recording};
use betz_recording::{Recording, Segment};
use betz_sort::Voltage;
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
    let expected = expected();
    let all = expected.as_object().unwrap().iter();
    for (name, of) in all.filter(|(_, of)| of.get("units").is_some()) {
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
fn spikes_with_waveforms_are_those_that_pynwb_reads() {
    let (recording, features, report) =
        nwb::read_spike_events(&file("tetrodes"), &ReadOptions::default()).unwrap();
    assert_eq!(recording.channel_names, ["tetrode0", "tetrode1"]);
    assert_eq!((recording.spikes.len(), features.columns), (120, 4));
    let behavior = recording.behavior.as_ref().unwrap();
    assert_eq!(
        (&*behavior.outputs[0].unit, behavior.samples()),
        ("cm", 500)
    );
    assert!(report.notes.is_empty(), "{report:?}");
    let expected = expected();
    let events = expected["tetrodes"]["events"].as_array().unwrap();
    assert_eq!(events.len(), 120);
    for (i, event) in events.iter().enumerate() {
        let channel = u64::from(recording.spikes.channels[i]);
        assert_eq!(event[0], channel, "spike {i}");
        let own = event[1].as_array().unwrap();
        for (c, value) in features.of(i).iter().enumerate() {
            // The second group has three wires.
            let Some(expected) = own.get(c).and_then(Value::as_f64) else {
                assert!(value.is_nan() && channel == 1, "spike {i}: {value}");
                continue;
            };
            assert!((f64::from(*value) - expected).abs() < 1e-3, "spike {i}");
        }
    }
    // A part of the time, and one group alone.
    let options = ReadOptions {
        units: vec!["tetrode1".into()],
        seconds: Some([2.0, 5.0]),
        ..ReadOptions::default()
    };
    let (part, of, _) = nwb::read_spike_events(&file("tetrodes"), &options).unwrap();
    let inside = (0..120).filter(|&i| {
        let seconds = recording.spikes.ticks[i] as f64 * recording.tick_seconds;
        recording.spikes.channels[i] == 1 && (2.0..5.0).contains(&seconds)
    });
    let inside: Vec<usize> = inside.collect();
    assert!(inside.len() > 5 && part.spikes.len() == inside.len());
    assert_eq!((of.columns, of.rows()), (3, inside.len()));
    for (row, i) in inside.into_iter().enumerate() {
        assert_eq!(of.of(row), &features.of(i)[..3]);
    }
    let options = ReadOptions {
        units: vec!["tetrode7".into()],
        ..ReadOptions::default()
    };
    let error = nwb::read_spike_events(&file("tetrodes"), &options).unwrap_err();
    assert!(
        error.message().contains("acquisition/tetrode1") && error.message().contains("tetrode7"),
        "{error}"
    );
    let error = nwb::read_spike_events(&file("nlb"), &ReadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
    assert!(error.message().contains("SpikeEventSeries"), "{error}");
}

/// A shape that only a damaged file has is refused before any value is read.
#[test]
fn shapes_of_waveforms_that_no_memory_holds_are_refused() {
    let whole = std::fs::read(file("tetrodes")).unwrap();
    let shape = |dims: [u64; 3]| dims.map(u64::to_le_bytes).concat();
    let stored = shape([60, 4, 12]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tetrodes.nwb");
    for (dims, words) in [
        (
            [60, 1 << 40, 1 << 40],
            "at most 64 electrodes per group, got 1099511627776",
        ),
        ([60, 65, 12], "at most 64 electrodes per group, got 65"),
        ([60, 4, 1 << 62], "waveforms that fit in memory"),
        ([60, 4, 1 << 45], "acquisition/tetrode0/data"),
    ] {
        let mut bytes = whole.clone();
        let found = |at: &usize| whole[*at..].starts_with(&stored);
        let places: Vec<usize> = (0..whole.len()).filter(found).collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + stored.len()].copy_from_slice(&shape(dims));
        }
        std::fs::write(&path, bytes).unwrap();
        let error = nwb::read_spike_events(&path, &ReadOptions::default()).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains(words) && said.contains("tetrode0/data"),
            "{said}"
        );
    }
}

#[test]
fn waveforms_without_units_have_a_way_out() {
    let error = read_recording(&file("tetrodes"), &ReadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
    let words =
        "--marks reads the spikes with waveforms in [acquisition/tetrode0, acquisition/tetrode1]";
    assert!(error.message().contains(words), "{error}");
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

/// The checksum of zlib.
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    let of = |crc: u32, byte: u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.fold(!0, of)
}

fn voltage(name: &str, series: &str) -> betz_base::Result<ElectricalSeries> {
    ElectricalSeries::open(&file(name), Some(series))
}

#[test]
fn voltage_is_what_pynwb_reads() {
    let mut compared = 0;
    for (name, of) in expected().as_object().unwrap() {
        for (path, of) in of["voltage"].as_object().into_iter().flatten() {
            let Ok(mut voltage) = voltage(name, path) else {
                continue;
            };
            let shape: Vec<u64> = serde_json::from_value(of["shape"].clone()).unwrap();
            let channels = shape.get(1).copied().unwrap_or(1);
            assert_eq!(
                (voltage.rows(), voltage.channels() as u64),
                (shape[0], channels)
            );
            let mut samples = Vec::new();
            // Blocks that fit neither chunks nor the whole.
            let mut block = vec![0; 999 * voltage.channels()];
            loop {
                let row = (samples.len() / voltage.channels()) as u64;
                let got = voltage.read(row, &mut block).unwrap();
                if got == 0 {
                    break;
                }
                samples.extend_from_slice(&block[..got * voltage.channels()]);
            }
            // Samples stored without a sign have their middle at 0.
            let middle = if path.ends_with("uint16") {
                i16::MIN
            } else {
                0
            };
            let bytes = samples.iter().flat_map(|s| (s ^ middle).to_le_bytes());
            assert_eq!(
                Some(u64::from(crc32(bytes))),
                of["crc"].as_u64(),
                "{name}: {path}"
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 12);
}

#[test]
fn voltage_has_a_rate_a_gain_and_places() {
    let voltage = ElectricalSeries::open(&file("voltage"), None).unwrap();
    assert_eq!(voltage.name(), "acquisition/ElectricalSeries");
    assert_eq!(
        (voltage.rate_hz(), voltage.start_seconds()),
        (20_000.0, 1.5)
    );
    assert_eq!(voltage.microvolts(), Some(4.0));
    let places = [[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]];
    assert_eq!(voltage.places().unwrap(), places.map(Some));
    assert!(voltage.notes().is_empty());

    let of = |series: &str| self::voltage("voltages", series).unwrap();
    assert_eq!(of("equal").microvolts(), Some(2.0));
    assert_eq!(of("ungained").microvolts(), None);
    for (name, constant) in [("uint16", "32768.0 µV"), ("offset", "1000.0 µV")] {
        let notes = of(name).notes().join("");
        assert!(notes.contains(constant), "{notes}");
    }
    assert_eq!(of("one").places().unwrap(), [Some([20.0, 10.0])]);
    let timed = of("timed");
    assert!((timed.rate_hz() - 25_000.0).abs() < 5.0 && (timed.start_seconds() - 3.0).abs() < 1e-5);
    // Two shanks whose electrodes are told within them: the one named first where it is, the other beside it.
    let shanks = of("shanks");
    let places = [[20.0, 10.0], [0.0, 0.0], [1040.0, 10.0], [1020.0, 0.0]];
    assert_eq!(shanks.places().unwrap(), places.map(Some));
    assert!(
        shanks.notes()[0].contains("2 groups"),
        "{:?}",
        shanks.notes()
    );
    // Filtered and slower: by name alone.
    for name in [
        "ElectricalSeries",
        "LFP/ElectricalSeries",
        "/acquisition/plain",
    ] {
        assert!(of(name).name().ends_with(name.trim_start_matches('/')));
    }
    let perich = ElectricalSeries::open(&file("perich"), None).unwrap();
    assert_eq!(perich.microvolts(), Some(0.25));
    assert_eq!(
        perich.places().unwrap(),
        [Some([0.0, 0.0]), Some([400.0, 0.0])]
    );
}

#[test]
fn voltage_that_cannot_be_sorted_is_refused_by_name() {
    use ErrorKind::{InsufficientData, InvalidArgument, InvalidRecording};
    for (series, kind, words) in [
        (
            "gap",
            InvalidRecording,
            "from sample 249 (at 3.00996 s) to 250 (at 3.51 s): a gap",
        ),
        (
            "backwards",
            InvalidRecording,
            "to 250 (at 3 s): time goes back",
        ),
        ("nowhere", InvalidRecording, "to 300 (at NaN s)"),
        (
            "float32",
            InvalidRecording,
            "expected int16 or uint16, got float32",
        ),
        (
            "unequal",
            InvalidRecording,
            "got 1 for channel 0 and 2 for channel 1",
        ),
        ("turned", InvalidRecording, "got (2, 400): (channels, time)"),
        (
            "events",
            InvalidArgument,
            "'acquisition/events', which is of type SpikeEventSeries",
        ),
        ("nix", InvalidArgument, "acquisition/plain, "),
        ("", InvalidArgument, "got ''"),
    ] {
        let error = voltage("voltages", series).err().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        let message = error.message();
        assert!(
            message.contains("voltages.nwb: ") && message.contains(words),
            "{error}"
        );
        if kind == InvalidRecording {
            assert!(
                message.contains(&format!("acquisition/{series}/")),
                "{error}"
            );
        }
    }
    let several = ElectricalSeries::open(&file("voltages"), None)
        .err()
        .unwrap();
    assert_eq!(several.kind(), InvalidArgument);
    assert!(
        several.message().contains("acquisition/plain, ") && several.message().contains("several")
    );
    let none = ElectricalSeries::open(&file("m2"), None).err().unwrap();
    assert_eq!(none.kind(), InsufficientData);
    // Units of a file that has voltage alone are refused in words.
    let error = read_recording(&file("voltage"), &ReadOptions::default()).unwrap_err();
    assert!(error.message().contains("betz sort makes one"), "{error}");
}

#[test]
fn some_units_and_some_seconds_are_those_of_the_whole() {
    // Every second unit is left out: a gap between units that are read.
    for name in ["m2", "nlb", "perich", "h1"] {
        let (whole, _) = read_recording(&file(name), &ReadOptions::default()).unwrap();
        let options = ReadOptions {
            units: whole.channel_names.iter().step_by(2).cloned().collect(),
            ..ReadOptions::default()
        };
        let (some, _) = read_recording(&file(name), &options).unwrap();
        assert_eq!(some.channel_names, options.units);
        let kept = |channel: u32| channel.is_multiple_of(2);
        let of = |recording: &Recording, kept: &dyn Fn(u32) -> bool, by: u32| -> Vec<(i64, u32)> {
            let spikes = &recording.spikes;
            let all = spikes.ticks.iter().zip(&spikes.channels);
            all.filter(|(_, c)| kept(**c))
                .map(|(t, c)| (*t, c / by))
                .collect()
        };
        assert_eq!(of(&some, &|_| true, 1), of(&whole, &kept, 2), "{name}");
        assert!(!some.spikes.is_empty());
        assert_eq!(some.behavior, whole.behavior);

        let seconds = [0.25 * whole.seconds(), 0.75 * whole.seconds()];
        let options = ReadOptions {
            seconds: Some(seconds),
            ..ReadOptions::default()
        };
        let (part, report) = read_recording(&file(name), &options).unwrap();
        assert_eq!(report.origin_seconds, 0.0, "{name}");
        let inside = |tick: &i64| {
            let time = *tick as f64 * whole.tick_seconds;
            (seconds[0]..seconds[1]).contains(&time)
        };
        let within =
            |spikes: &betz_recording::Spikes| spikes.ticks.iter().filter(|t| inside(t)).count();
        // A time at an end may round to either side of it.
        assert!(
            part.spikes.len().abs_diff(within(&whole.spikes)) <= 1,
            "{name}"
        );
        assert!(part.spikes.len() > 1 && part.spikes.len() < whole.spikes.len());
        assert!(part.behavior.is_some(), "{name}");
        assert!(part.seconds() < whole.seconds(), "{name}");
    }
    let options = |units: &[&str], seconds| ReadOptions {
        units: units.iter().map(ToString::to_string).collect(),
        seconds,
        ..ReadOptions::default()
    };
    for (options, words) in [
        (options(&["nix"], None), "units: expected some of [unit"),
        (
            options(&[], Some([2.0, 2.0])),
            "expected a beginning before an end, got 2 to 2",
        ),
        (options(&[], Some([f64::NAN, 2.0])), "got NaN to 2"),
    ] {
        let error = read_recording(&file("m2"), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(words), "{error}");
    }
}
