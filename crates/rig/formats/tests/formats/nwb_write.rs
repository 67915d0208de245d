//! Recordings written as NWB and read back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use betz_base::ErrorKind;
use betz_formats::nwb::{self, DecodedOutputs, Moment, Session, WriteOptions};
use betz_formats::{ReadOptions, read_recording};
use betz_recording::{Behavior, OutputInfo, Recording, Segment, SpikeForm, Spikes, Stretches};
use proptest::prelude::*;

fn options() -> WriteOptions {
    let at = |text| Moment::parse(text).unwrap();
    WriteOptions {
        created: at("2026-11-21T12:00:00Z"),
        ..WriteOptions::new(Session::begun(at("2020-10-19T13:00:00-05:00")))
    }
}

fn written(recording: &Recording, options: &WriteOptions) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.nwb");
    nwb::write(recording, &path, options).unwrap();
    (folder, path)
}

fn read(path: &Path) -> Recording {
    let (recording, report) = read_recording(path, &ReadOptions::default()).unwrap();
    assert_eq!(report.notes, [""; 0]);
    recording
}

/// Positions bit by bit: those that are unknown are no numbers.
fn same(a: &Recording, b: &Recording) -> bool {
    let bits = |r: &Recording| -> Option<Vec<[u32; 2]>> {
        let places = r.electrode_um.as_ref()?;
        Some(places.iter().map(|p| p.map(f32::to_bits)).collect())
    };
    let without = |r: &Recording| Recording {
        electrode_um: None,
        ..r.clone()
    };
    bits(a) == bits(b) && without(a) == without(b)
}

/// Two units that fire, one that does not.
fn small() -> Recording {
    Recording {
        tick_seconds: 1e-5,
        ticks: 300_000,
        spikes: Spikes::new(vec![3, 3, 70_001, 299_999], vec![0, 2, 0, 2]),
        channel_names: ["unit7", "unit0", "unit12"].map(String::from).to_vec(),
        behavior: Some(Behavior {
            outputs: [("hand_vel_x", "mm/s"), ("hand_vel_y", "mm/s"), ("grip", "")]
                .map(|(name, unit)| OutputInfo {
                    name: name.into(),
                    unit: unit.into(),
                })
                .to_vec(),
            values: (0..450).map(|i| i as f32 * 0.1).collect(),
            times: Some((0..150).map(|i| f64::from(i) * 0.02).collect()),
        }),
        segments: vec![
            Segment {
                start: 0,
                stop: 100_000,
            },
            Segment {
                start: 120_000,
                stop: 300_000,
            },
        ],
        electrode_um: Some(vec![[0.0, 400.0], [f32::NAN, f32::NAN], [-1.5, 1e6]]),
        form: SpikeForm::Events,
        meta: Some("{\"task\": \"reach\"}".into()),
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{0,2}(_[xyz])?",
        "[a-z/:.,\\[\\] é☃\u{1F9E0}]{1,5}",
        Just("timestamps".to_owned()),
    ]
}

fn distinct(names: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let name = |(i, name): (usize, String)| match seen.insert(name.clone()) {
        true => name,
        false => format!("{name} again {i}"),
    };
    names.into_iter().enumerate().map(name).collect()
}

fn outputs() -> impl Strategy<Value = Vec<OutputInfo>> {
    prop::collection::vec(
        (name(), prop_oneof![Just(""), Just("mm"), Just("°/s")]),
        1..6,
    )
    .prop_map(|list| {
        let (names, units): (Vec<_>, Vec<_>) = list.into_iter().unzip();
        let infos = distinct(names).into_iter().zip(units);
        infos
            .map(|(name, unit)| OutputInfo {
                name,
                unit: unit.to_owned(),
            })
            .collect()
    })
}

/// Times of samples: none (one per tick), regular or irregular, also before 0.
fn times(ticks: i64) -> impl Strategy<Value = Option<Vec<f64>>> {
    prop_oneof![
        Just(None),
        (
            1..30_u32,
            prop_oneof![Just(0.02), Just(1.0 / 30.0), Just(0.1)],
            -1.0..1.0_f64
        )
            .prop_map(|(n, period, first)| Some(
                (0..n).map(|k| first + f64::from(k) * period).collect()
            )),
        prop::collection::vec(-0.5..2.0_f64, 1..30).prop_map(|mut times| {
            times.sort_by(f64::total_cmp);
            Some(times)
        }),
    ]
    .prop_filter("one per tick", move |times| {
        times.is_some() || ticks < 1_000
    })
}

fn recording() -> impl Strategy<Value = Recording> {
    let form = prop_oneof![
        Just(SpikeForm::Events),
        Just(SpikeForm::Counts),
        Just(SpikeForm::Signal)
    ];
    let tick = prop_oneof![
        Just(1e-5),
        Just(1e-3),
        Just(1.0 / 30_000.0),
        Just(0.0123),
        Just(2.0)
    ];
    let channels = prop::collection::vec(name(), 1..5).prop_map(distinct);
    (form, tick, 1..400_i64, channels).prop_flat_map(|(form, tick_seconds, ticks, names)| {
        let count = names.len();
        let entry = (0..ticks, 0..count as u32, 1..400_i32);
        let spikes = prop::collection::btree_map((0..ticks, 0..count as u32), 1..400_i32, 0..60);
        let twice = prop::collection::vec(entry, 0..60);
        let place = prop_oneof![Just(f32::NAN), -1e4..1e4_f32];
        let places = prop::collection::vec(prop::array::uniform2(place), count);
        let bounds = prop::collection::btree_set(0..=ticks, 2..8);
        let behavior = prop::option::of((outputs(), times(ticks), any::<u64>()));
        let beside = (
            prop::option::of(places),
            prop::option::of(bounds),
            behavior,
            prop::option::of("[a-z{}\" é]{0,9}"),
        );
        (Just(names), spikes, twice, beside).prop_map(
            move |(channel_names, spikes, twice, (electrode_um, bounds, behavior, meta))| {
                Recording {
                    tick_seconds,
                    ticks,
                    spikes: match form {
                        SpikeForm::Events => events(&twice),
                        SpikeForm::Signal => weighted(&spikes, -0.37),
                        _ => weighted(&spikes, 1.0),
                    },
                    channel_names,
                    behavior: behavior.map(|b| behavior_of(b, ticks)),
                    segments: segments(bounds, ticks),
                    electrode_um,
                    form,
                    meta,
                }
            },
        )
    })
}

/// Spikes of (tick, channel, number), several of which may be equal but for the number.
fn events(entries: &[(i64, u32, i32)]) -> Spikes {
    let mut events: Vec<_> = entries.iter().map(|e| (e.0, e.1)).collect();
    events.sort_unstable();
    let (ticks, channels) = events.into_iter().unzip();
    Spikes::new(ticks, channels)
}

/// Counts or signals by (tick, channel).
fn weighted(entries: &BTreeMap<(i64, u32), i32>, scale: f32) -> Spikes {
    let (ticks, channels) = entries.keys().copied().unzip();
    let weights: Vec<f32> = entries.values().map(|w| *w as f32 * scale).collect();
    let one = weights.iter().all(|w| *w == 1.0);
    Spikes {
        ticks,
        channels,
        weights: if one { Vec::new() } else { weights },
    }
}

/// Segments between pairs of bounds, or a single one of the whole.
fn segments(bounds: Option<BTreeSet<i64>>, ticks: i64) -> Vec<Segment> {
    let bounds: Vec<i64> = bounds.into_iter().flatten().collect();
    let pairs = bounds.chunks_exact(2).map(|b| (b[0], b[1]));
    let segment = |(start, stop)| Segment { start, stop };
    let mut segments: Vec<Segment> = pairs.map(segment).collect();
    if segments.is_empty() {
        segments.push(segment((0, ticks)));
    }
    segments
}

fn behavior_of(
    (outputs, times, seed): (Vec<OutputInfo>, Option<Vec<f64>>, u64),
    ticks: i64,
) -> Behavior {
    let samples = times.as_ref().map_or(ticks as usize, Vec::len);
    let value = |i: u64| (seed.wrapping_mul(2 * i + 1) >> 40) as f32 * 0.37 - 1e6;
    Behavior {
        values: (0..(samples * outputs.len()) as u64).map(value).collect(),
        outputs,
        times,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if std::env::var_os("BETZ_EXHAUSTIVE").is_some() { 5_000 } else { 64 }
    ))]

    #[test]
    fn a_recording_comes_back_as_it_was(recording in recording(), memory in 64..4_096_u64) {
        recording.check().unwrap();
        let (folder, path) = written(&recording, &options());
        let back = read(&path);
        prop_assert!(same(&back, &recording), "{back:?}\n{recording:?}");
        // In stretches, with little memory: the same bytes.
        let (npz, again) = (folder.path().join("r.npz"), folder.path().join("again.nwb"));
        recording.write_npz(&npz).unwrap();
        let mut stretches = Stretches::open(&npz).unwrap();
        nwb::write_stretches(&mut stretches, &again, &WriteOptions { memory, ..options() }).unwrap();
        prop_assert!(same(&read(&again), &recording));
    }
}

#[test]
fn equal_recordings_give_equal_bytes() {
    let [a, b] = [written(&small(), &options()), written(&small(), &options())];
    let bytes = |path: &Path| std::fs::read(path).unwrap();
    assert_eq!(bytes(&a.1), bytes(&b.1));
    let other = Recording {
        meta: None,
        ..small()
    };
    let c = written(&other, &options());
    assert_ne!(bytes(&a.1), bytes(&c.1));
}

#[test]
fn any_reader_finds_units_series_and_trials() {
    let (_folder, path) = written(&small(), &options());
    let units = nwb::read_units(&path).unwrap();
    assert_eq!(units.times, [0.00003, 0.70001, 0.00003, 2.99999]);
    assert_eq!(
        (units.ends, units.names),
        (vec![2, 2, 4], small().channel_names)
    );
    let vel = nwb::read_series(&path, "processing/behavior/hand_vel").unwrap();
    assert_eq!(vel.columns, ["hand_vel_x", "hand_vel_y"]);
    assert_eq!((vel.unit.as_str(), vel.times[149]), ("mm/s", 2.98));
    assert_eq!(f32::to_bits(vel.values[3] as f32), f32::to_bits(0.4));
    let grip = nwb::read_series(&path, "processing/behavior/grip").unwrap();
    assert_eq!(
        (grip.columns, grip.unit.as_str()),
        (vec!["grip".into()], "n.a.")
    );
    // Asked for by name, or on another clock, it is read as any file.
    let asked = ReadOptions {
        behavior: vec!["hand_vel".into()],
        ..ReadOptions::default()
    };
    let (recording, _) = read_recording(&path, &asked).unwrap();
    assert_eq!(
        recording.behavior.unwrap().outputs,
        small().behavior.unwrap().outputs[..2]
    );
    assert_eq!(recording.segments, small().segments);
    assert_eq!(recording.spikes, small().spikes);
    let places = recording.electrode_um.unwrap();
    assert_eq!([places[0], places[2]], [[0.0, 400.0], [-1.5, 1e6]]);
    let meta = recording.meta.unwrap();
    let session = nwb::session_of_meta(&meta).unwrap();
    assert_eq!(session.start.text(), "2020-10-19T13:00:00-05:00");
}

#[test]
fn the_session_is_told() {
    let mut told = options();
    let subject = &mut told.session.subject;
    (subject.id, subject.species) = ("J".into(), "Macaca mulatta".into());
    (subject.sex, subject.age) = ("M".into(), "P8Y".into());
    told.session.zero = Some(told.session.start.after(-1.5));
    told.session.identifier = "J-19".into();
    told.session.description = "Zwölf Richtungen ☃".into();
    let (_folder, path) = written(&small(), &told);
    let session = nwb::read_session(&path).unwrap().unwrap();
    assert_eq!(session, told.session);
    assert_eq!(session.zero.unwrap().text(), "2020-10-19T17:59:58.500000Z");
    assert!(nwb::is_own(&path));
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/nlb.nwb");
    assert!(!nwb::is_own(&fixture));
    let session = nwb::read_session(&fixture).unwrap().unwrap();
    assert_eq!(session.zero, None);
}

#[test]
fn what_was_decoded_stands_beside_and_is_no_behaviour() {
    let times: Vec<f64> = (1..=100).map(|k| f64::from(k) * 0.02).collect();
    let decoded = DecodedOutputs {
        by: "reach.betz, a linear decoder".into(),
        outputs: small().behavior.unwrap().outputs,
        values: (0..300).map(|i| i as f32).collect(),
        times,
    };
    let with = |decoded: DecodedOutputs| WriteOptions {
        decoded: Some(decoded),
        ..options()
    };
    let (_folder, path) = written(&small(), &with(decoded.clone()));
    assert!(same(&read(&path), &small()));
    let series = nwb::read_series(&path, "processing/decoding/hand_vel").unwrap();
    assert_eq!((&series.times, series.columns.len()), (&decoded.times, 2));
    assert_eq!(series.values[..4], [0.0, 1.0, 3.0, 4.0]);
    let grip = nwb::read_series(&path, "processing/decoding/grip").unwrap();
    assert_eq!(grip.times, decoded.times);

    let refused = |change: fn(&mut DecodedOutputs)| {
        let mut decoded = decoded.clone();
        change(&mut decoded);
        let error = nwb::write(&small(), &path, &with(decoded)).unwrap_err();
        error.message().to_owned()
    };
    let message = refused(|d| d.values[4] = f32::NAN);
    assert!(message.contains("[1, 1] (`hand_vel_y`) = NaN"), "{message}");
    assert!(refused(|d| d.values.truncate(299)).contains("got 299 values"));
    assert!(refused(|d| d.times[3] = 0.0).contains("ascending"));
    assert!(refused(|d| d.times[3] = f64::NAN).contains("finite"));
}

#[test]
fn what_cannot_be_written_is_refused_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.nwb");
    let refused = |change: fn(&mut Recording)| {
        let mut recording = small();
        change(&mut recording);
        let error = nwb::write(&recording, &path, &options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRecording, "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        error.message().to_owned()
    };
    assert!(refused(|r| r.spikes.ticks[0] = -1).contains("spike_ticks"));
    let infinite = |r: &mut Recording| r.behavior.as_mut().unwrap().values[4] = f32::INFINITY;
    assert!(refused(infinite).contains("finite"));
    assert!(refused(|r| r.channel_names[2] = "unit7".into()).contains("there already"));
    let duplicate = |r: &mut Recording| {
        r.behavior.as_mut().unwrap().outputs[1].name = "grip".into();
    };
    assert!(refused(duplicate).contains("there already"));
    assert!(refused(|r| r.channel_names[0] = "a\0b".into()).contains("NUL"));
    assert!(refused(|r| r.tick_seconds = 1e4).contains("at most 1e8 s"));

    let late = WriteOptions {
        created: Moment::parse("2020-10-19T17:59:59Z").unwrap(),
        ..options()
    };
    let error = nwb::write(&small(), &path, &late).unwrap_err();
    assert!(
        error.message().contains("before the file is made"),
        "{error}"
    );
    let nowhere = folder.path().join("no").join("x.nwb");
    let error = nwb::write(&small(), &nowhere, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("no"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_was_changed_since_is_read_as_any_other() {
    let (_folder, path) = written(&small(), &options());
    let bytes = std::fs::read(&path).unwrap();
    // Shorter than its last spike.
    let (was, now) = (b"\"ticks\":300000", b"\"ticks\":200000");
    let at = bytes.windows(was.len()).position(|w| w == was).unwrap();
    let mut changed = bytes.clone();
    changed[at..at + now.len()].copy_from_slice(now);
    std::fs::write(&path, changed).unwrap();
    let (recording, report) = read_recording(&path, &ReadOptions::default()).unwrap();
    assert!(report.notes[0].contains("changed since"), "{report:?}");
    assert_eq!(recording.spikes, small().spikes);
}

fn counts() -> Recording {
    Recording {
        tick_seconds: 0.02,
        ticks: 10,
        spikes: Spikes::new(vec![0, 3, 3, 9], vec![0, 1, 2, 0]),
        channel_names: ["c0", "c1", "c2"].map(String::from).to_vec(),
        behavior: None,
        segments: vec![
            Segment { start: 0, stop: 4 },
            Segment { start: 5, stop: 10 },
        ],
        electrode_um: None,
        form: SpikeForm::Counts,
        meta: None,
    }
}

fn session_options() -> nwb::WriteOptions {
    let start = nwb::Moment::parse("2026-11-25T12:00:00Z").unwrap();
    nwb::WriteOptions::new(nwb::Session::begun(start))
}

/// 6,000 rows of three channels, from this electrode on.
fn voltage<'a>(
    name: &str,
    electrode: usize,
    read: nwb::ReadRows<'a, i16>,
) -> nwb::SessionSeries<'a> {
    nwb::SessionSeries {
        name: name.into(),
        channels: 3,
        rate: 30_000.0,
        start_seconds: 0.0,
        rows: 6000,
        kind: nwb::SeriesKind::Voltage {
            electrode,
            microvolts: 0.25,
            read,
        },
    }
}

/// Writes a session of [`counts`] with voltage, a trial, marks and a lost time. Returns the voltage's samples.
fn write_session(path: &Path) -> Vec<i16> {
    let samples: Vec<i16> = (0..18_000)
        .map(|i| (i * 7 % 30_011 - 15_000) as i16)
        .collect();
    let mut read = |take: nwb::TakeRows<'_, i16>| samples.chunks(90).try_for_each(take);
    let mut parts = nwb::SessionParts {
        series: vec![voltage("voltage", 0, &mut read)],
        trials: vec![nwb::SessionTrial {
            start: 0.02,
            stop: 0.1,
            learn: false,
        }],
        marks: vec![(0.04, "go".into()), (0.06, "reward".into())],
        lost: vec![[0.08, 0.1]],
        ..nwb::SessionParts::default()
    };
    nwb::write_session(&counts(), path, &session_options(), &mut parts).unwrap();
    samples
}

#[test]
fn a_session_keeps_its_recording_and_its_voltage() {
    use betz_sort::Voltage;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.nwb");
    let samples = write_session(&path);
    assert!(nwb::is_own(&path));
    assert_eq!(
        nwb::read(&path, &ReadOptions::default()).unwrap().0,
        counts()
    );
    let mut voltage = nwb::ElectricalSeries::open(&path, None).unwrap();
    assert_eq!((voltage.rows(), voltage.channels()), (6000, 3));
    assert_eq!(
        (voltage.rate_hz(), voltage.microvolts()),
        (30_000.0, Some(0.25))
    );
    let mut back = vec![0; samples.len()];
    assert_eq!(voltage.read(0, &mut back).unwrap(), 6000);
    assert_eq!(back, samples);
}

#[test]
fn a_session_adds_trials_marks_and_lost_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.nwb");
    write_session(&path);
    let file = rust_hdf5::H5File::open(&path).unwrap();
    let numbers = |path: &str| {
        let dataset = file.dataset(path).unwrap();
        dataset.read_numeric_as::<f64>().unwrap_or_else(|_| {
            let whole = dataset.read_numeric_as::<i64>().unwrap();
            whole.into_iter().map(|value| value as f64).collect()
        })
    };
    let texts = file.dataset("acquisition/marks/data").unwrap();
    assert_eq!(texts.read_vlen_strings().unwrap(), ["go", "reward"]);
    assert_eq!(numbers("acquisition/marks/timestamps"), [0.04, 0.06]);
    assert_eq!(numbers("intervals/trials/stop_time"), [0.1]);
    let learn = file.dataset("intervals/trials/learn").unwrap();
    assert_eq!(learn.read_numeric_as::<u8>().unwrap(), [0]);
    assert_eq!(numbers("intervals/invalid_times/start_time"), [0.08]);
}

#[test]
fn voltage_of_other_channels_than_the_recording_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.nwb");
    let mut none = |_: nwb::TakeRows<'_, i16>| Ok(());
    let mut parts = nwb::SessionParts {
        series: vec![voltage("voltage", 1, &mut none)],
        ..nwb::SessionParts::default()
    };
    let refused = nwb::write_session(&counts(), &path, &session_options(), &mut parts).unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Mismatch && !path.exists(),
        "{refused}"
    );
}

/// Sources of other electrodes than the recording's channels, units, events and the status of steps.
#[test]
fn a_session_has_every_source_and_reads_back_as_its_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.nwb");
    let mut first = |take: nwb::TakeRows<'_, i16>| take(&[7; 18_000]);
    let mut second = |take: nwb::TakeRows<'_, f32>| take(&[0.5; 10]);
    let mut parts = nwb::SessionParts {
        series: vec![
            voltage("voltage_a", 3, &mut first),
            nwb::SessionSeries {
                name: "features_b".into(),
                channels: 2,
                rate: 100.0,
                start_seconds: 0.25,
                rows: 5,
                kind: nwb::SeriesKind::Features { read: &mut second },
            },
        ],
        electrodes: vec![nwb::SessionElectrodes {
            source: "a".into(),
            channels: 3,
        }],
        units: vec![
            nwb::SessionUnit {
                name: "u0".into(),
                times: vec![0.01, 0.15],
                observed: vec![[0.0, 0.08], [0.1, 0.2]],
            },
            nwb::SessionUnit {
                name: "u1".into(),
                times: Vec::new(),
                observed: vec![[0.0, 0.2]],
            },
        ],
        trials: vec![nwb::SessionTrial {
            start: 0.02,
            stop: 0.1,
            learn: true,
        }],
        events: vec![(0.1, "{}".into())],
        status: vec![(0.02, 0), (0.04, 5)],
        ..nwb::SessionParts::default()
    };
    let mut options = session_options();
    options.decoded = Some(nwb::DecodedOutputs {
        by: "a model".into(),
        outputs: vec!["x".into()],
        times: vec![0.02, 0.04],
        values: vec![1.0, 2.0],
    });
    nwb::write_session(&counts(), &path, &options, &mut parts).unwrap();
    let (back, _) = nwb::read(&path, &ReadOptions::default()).unwrap();
    assert_eq!(back, counts());
    let file = rust_hdf5::H5File::open(&path).unwrap();
    let numbers = |path: &str| {
        let dataset = file.dataset(path).unwrap();
        dataset.read_numeric_as::<f64>().unwrap_or_else(|_| {
            let whole = dataset.read_numeric_as::<i64>().unwrap();
            whole.into_iter().map(|value| value as f64).collect()
        })
    };
    assert_eq!(numbers("acquisition/voltage_a/electrodes"), [3.0, 4.0, 5.0]);
    assert_eq!(numbers("acquisition/features_b/starting_time"), [0.25]);
    assert_eq!(numbers("units/spike_times"), [0.01, 0.15]);
    assert_eq!(numbers("units/spike_times_index"), [2.0, 2.0]);
    assert_eq!(
        numbers("units/obs_intervals"),
        [0.0, 0.08, 0.1, 0.2, 0.0, 0.2]
    );
    assert_eq!(numbers("units/obs_intervals_index"), [2.0, 3.0]);
    assert_eq!(numbers("processing/decoding/step_status/data"), [0.0, 5.0]);
    assert_eq!(numbers("intervals/segments/start_time").len(), 2);
    let names = file.dataset("general/extracellular_ephys/electrodes/channel_name");
    let names = names.unwrap().read_vlen_strings().unwrap();
    assert_eq!(names, ["c0", "c1", "c2", "a/0", "a/1", "a/2"]);
}
