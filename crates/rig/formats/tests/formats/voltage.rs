//! Headers of SpikeGLX and Open Ephys, against what probeinterface and neo read of them (`fixtures/voltage/make.py`).

use std::path::{Path, PathBuf};

use betz_formats::voltage::{Gap, StreamKind, VoltageRecording, VoltageStream};
use betz_testkit::npy::npy;
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/voltage")
}

fn streams(path: &Path) -> Vec<VoltageStream> {
    VoltageRecording::read(path).unwrap().unwrap().streams
}

fn close(got: f64, expected: f64) -> bool {
    (got - expected).abs() <= 1e-6 * expected.abs().max(1.0)
}

#[test]
fn positions_shanks_and_gains_are_those_of_probeinterface_and_neo() {
    let text = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let mut placed = 0;
    for (name, of) in expected.as_object().unwrap() {
        let streams = streams(&fixtures().join(format!("{name}.meta")));
        let first = &streams[0];
        let gain = first.channels[0].microvolts.unwrap();
        assert!(close(gain, of["gain"].as_f64().unwrap()), "{name}: {gain}");
        let Some(positions) = of["positions"].as_array() else {
            continue;
        };
        placed += 1;
        assert_eq!(first.channels.len(), positions.len(), "{name}");
        for (channel, expected) in first.channels.iter().zip(positions) {
            let place = channel.place.unwrap();
            for axis in 0..2 {
                let expected = expected[axis].as_f64().unwrap();
                assert!(
                    close(f64::from(place[axis]), expected),
                    "{name}: {channel:?}"
                );
            }
            assert_eq!(u64::from(channel.shank.unwrap()), expected[2], "{name}");
        }
    }
    assert!(placed >= 9);
}

#[test]
fn channels_are_told_apart_by_kind() {
    let told = |name: &str| -> Vec<(String, StreamKind, usize)> {
        let streams = streams(&fixtures().join(format!("{name}.meta")));
        let told = streams.iter();
        told.map(|s| (s.name.clone(), s.kind, s.channels.len()))
            .collect()
    };
    let of = |name: &str, kind, channels| (name.to_owned(), kind, channels);
    use StreamKind::{ActionPotentials, Analog, LocalField, Sync};
    assert_eq!(
        told("NP2_2013_subset_channels.imec0.ap"),
        [
            of("imec0.ap", ActionPotentials, 120),
            of("imec0.ap-SYNC", Sync, 1)
        ]
    );
    assert_eq!(
        told("NP1_lf"),
        [of("imec.lf", LocalField, 384), of("imec.lf-SYNC", Sync, 1)]
    );
    assert_eq!(
        told("sample3B_g0_t0.nidq"),
        [of("nidq", Analog, 1), of("nidq-SYNC", Sync, 1)]
    );
    assert_eq!(
        told("onebox"),
        [of("obx", Analog, 12), of("obx-SYNC", Sync, 1)]
    );
    // Channels of the local field lie where those of action potentials do.
    let lf = &streams(&fixtures().join("sample3A_g0_t0.imec.lf.meta"))[0];
    assert_eq!(lf.channels[1].place, Some([48.0, 0.0]));
    assert_eq!(lf.channels[2].place, Some([0.0, 20.0]));
    // The synchronisation line is no electrode.
    let ap = &streams(&fixtures().join("sample3B2_exported.imec0.ap.meta"))[0];
    let places = ap.places().unwrap();
    assert_eq!((places.len(), places[301]), (302, None));
    assert!(places[..301].iter().filter(|p| p.is_some()).count() >= 300);
    assert_eq!(ap.rate_hz, 29_999.836_25);
}

/// A header of two channels and SY, with `lines` more, and `bytes` of samples.
fn written(folder: &Path, lines: &str, bytes: usize) -> PathBuf {
    let meta = folder.join("run_g0_t0.imec0.ap.meta");
    let head = "typeThis=imec\nnSavedChans=3\nsnsApLfSy=2,0,1\nimSampRate=30000.25\nimAiRangeMax=0.6\nimDatPrb_type=0\n";
    std::fs::write(&meta, format!("{head}{lines}")).unwrap();
    let samples: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
    std::fs::write(meta.with_extension("bin"), samples).unwrap();
    meta
}

#[test]
fn a_file_that_was_cut_short_says_so_and_can_be_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let imro = "~imroTbl=(0,2)(0 0 0 1000 250 1)(1 1 0 500 250 1)\n";
    let meta = written(folder.path(), &format!("{imro}fileSizeBytes=600\n"), 600);
    let whole = &streams(&meta)[0];
    assert_eq!((whole.samples, whole.expected_samples), (100, Some(100)));
    assert!(whole.notes.is_empty(), "{:?}", whole.notes);
    assert_eq!(whole.open(false).unwrap().rows(), 100);
    // Gains per channel; sorting wants one.
    let gains: Vec<f64> = whole.channels.iter().filter_map(|c| c.microvolts).collect();
    assert!(close(gains[0], 0.6 / 512.0 / 1000.0 * 1e6) && close(gains[1], 2.343_75));
    let error = whole.microvolts().unwrap_err();
    assert!(
        error.message().contains("AP0") && error.message().contains("AP1"),
        "{error}"
    );
    // Bank 1 begins at electrode 384.
    assert_eq!(whole.channels[1].place, Some([32.0 + 16.0, 192.0 * 20.0]));

    let meta = written(folder.path(), &format!("{imro}fileSizeBytes=600\n"), 303);
    let cut = &streams(&meta)[0];
    assert_eq!((cut.samples, cut.expected_samples), (50, Some(100)));
    let notes = cut.notes.join("\n");
    assert!(
        notes.contains("cut short, 49 rows") && notes.contains("3 bytes into a row"),
        "{notes}"
    );
    let error = cut.open(false).err().unwrap();
    assert!(error.message().contains("--truncate"), "{error}");
    let mut opened = cut.open(true).unwrap();
    let mut rows = vec![0; 3 * 60];
    assert_eq!(
        (opened.rows(), opened.read(0, &mut rows).unwrap()),
        (50, 50)
    );
    assert_eq!(
        rows[149],
        i16::from_le_bytes([298 % 256, 299 % 256].map(|b: i32| b as u8))
    );
}

#[test]
fn unknown_positions_and_gains_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let meta = written(
        folder.path(),
        "imDatPrb_pn=NP9999\nimDatPrb_type=9999\n",
        600,
    );
    let stream = &streams(&meta)[0];
    assert!(stream.places().is_none());
    let notes = stream.notes.join("\n");
    assert!(
        notes.contains("positions of electrodes are unknown"),
        "{notes}"
    );
    assert!(notes.contains("expected gains"), "{notes}");
    for (lines, words) in [
        ("snsSaveChanSubset=0:7\n", "the 3 channels of nSavedChans"),
        ("snsSaveChanSubset=0:a\n", "expected channels such as"),
        ("imMaxInt=none\n", "imMaxInt: expected a number"),
        ("~snsGeomMap=(NP1010,1,0,70)(0:27:x:1)\n", "snsGeomMap"),
    ] {
        let meta = written(folder.path(), lines, 600);
        let error = VoltageRecording::read(&meta).unwrap_err();
        assert!(error.message().contains(words), "{error}");
    }
}

/// An Open Ephys recording of 8 channels with the real header, and samples of these numbers.
fn open_ephys(folder: &Path, numbers: &[i64]) -> PathBuf {
    let header = folder.join("structure.oebin");
    std::fs::copy(fixtures().join("gap_structure.oebin"), &header).unwrap();
    let data = folder.join("continuous/Neuropix-PXI-100.ProbeA");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("continuous.dat"), vec![0; numbers.len() * 16]).unwrap();
    std::fs::write(data.join("sample_numbers.npy"), npy(numbers)).unwrap();
    header
}

#[test]
fn lost_samples_are_gaps_on_the_devices_clock() {
    let folder = tempfile::tempdir().unwrap();
    let numbers: Vec<i64> = (1000..1300).chain(1450..1500).chain(1503..1600).collect();
    let header = open_ephys(folder.path(), &numbers);
    let stream = &streams(&header)[0];
    assert_eq!(
        (stream.name.as_str(), stream.kind),
        ("ProbeA", StreamKind::Broadband)
    );
    let gap = |start, length| Gap { start, length };
    assert_eq!(stream.gaps, [gap(300, 150), gap(500, 3)]);
    assert_eq!((stream.samples, stream.length()), (447, 600));
    for (row, number) in numbers.iter().enumerate() {
        let at = (number - 1000) as u64;
        assert_eq!(stream.clock(row as u64), at);
        assert_eq!(stream.row_at(at), row as u64);
    }
    // Within a gap, and beyond the end.
    assert_eq!(
        (stream.row_at(350), stream.row_at(501), stream.row_at(9999)),
        (300, 350, 447)
    );
    assert_eq!(stream.pieces(0..447), [0..300, 300..350, 350..447]);
    assert_eq!(stream.pieces(300..340), vec![300..340]);
    assert!(
        stream
            .notes
            .iter()
            .any(|n| n.contains("2 gaps with 153 missing samples"))
    );
    // Numbers that go back are no gaps.
    let back: Vec<i64> = (0..50).chain(20..70).collect();
    let header = open_ephys(folder.path(), &back);
    let error = VoltageRecording::read(&header).unwrap_err();
    assert!(
        error.message().contains("got 20 after 49 at row 50"),
        "{error}"
    );
    // Without numbers gaps are unknown, and that is said.
    std::fs::remove_file(
        folder
            .path()
            .join("continuous/Neuropix-PXI-100.ProbeA/sample_numbers.npy"),
    )
    .unwrap();
    let notes = streams(&header)[0].notes.join("\n");
    assert!(notes.contains("gaps are unknown"), "{notes}");
    assert!(
        notes.contains("positions of electrodes are unknown"),
        "{notes}"
    );
}

#[test]
fn settings_give_the_positions_of_electrodes() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("Record Node 101/experiment1/recording1");
    std::fs::create_dir_all(&recording).unwrap();
    let header = open_ephys(&recording, &(0..100).collect::<Vec<i64>>());
    let settings = |probe: &str| {
        let text = format!(
            "<?xml version=\"1.0\"?><SETTINGS><INFO><VERSION>1.0.1</VERSION></INFO><SIGNALCHAIN>\
             <PROCESSOR name=\"Neuropix-PXI\" nodeId=\"100\"><STREAM name=\"ProbeA\"/><EDITOR><CUSTOM_PARAMETERS>\
             {probe}</CUSTOM_PARAMETERS></EDITOR></PROCESSOR></SIGNALCHAIN></SETTINGS>"
        );
        std::fs::write(folder.path().join("Record Node 101/settings.xml"), text).unwrap();
    };
    settings("<NP_PROBE probe_part_number=\"NP1000\" probe_serial_number=\"1\" isEnabled=\"1\"/>");
    let placed = &streams(&header)[0];
    let places: Vec<[f32; 2]> = placed.channels.iter().filter_map(|c| c.place).collect();
    let expected = [[16.0, 0.0], [48.0, 0.0], [0.0, 20.0], [32.0, 20.0]];
    assert_eq!((places.len(), &places[..4]), (8, &expected[..]));
    // A probe of another name is not this stream's.
    settings("<NP_PROBE probe_part_number=\"NP1000\" custom_probe_name=\"left\"/>");
    let notes = streams(&header)[0].notes.join("\n");
    assert!(notes.contains("got [left]"), "{notes}");
    // Folders above lead to the recording.
    assert_eq!(streams(folder.path()).len(), streams(&header).len());
}

#[test]
fn streams_are_chosen_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"{"continuous": [
        {"folder_name": "A-AP/", "stream_name": "A-AP", "sample_rate": 30000, "num_channels": 2, "channels": [
            {"channel_name": "AP1", "bit_volts": 0.195}, {"channel_name": "AP_SYNC", "bit_volts": 1.0}]},
        {"folder_name": "A-LFP/", "stream_name": "A-LFP", "sample_rate": 2500, "num_channels": 1, "channels": [
            {"channel_name": "LFP1", "bit_volts": 0.195}]},
        {"folder_name": "B-AP/", "stream_name": "B-AP", "sample_rate": 30000, "num_channels": 1, "channels": [
            {"channel_name": "AP1", "bit_volts": 0.195}]},
        {"folder_name": "NI/", "stream_name": "NI", "sample_rate": 30000, "num_channels": 1, "channels": [
            {"channel_name": "AI0", "description": "Analog Input channel from a NIDAQ device", "bit_volts": 0.00030518}]}]}"#;
    let header = folder.path().join("structure.oebin");
    std::fs::write(&header, text).unwrap();
    let recording = VoltageRecording::read(&header).unwrap().unwrap();
    let told: Vec<(&str, &str)> = (recording.streams.iter())
        .map(|s| (s.name.as_str(), s.kind.name()))
        .collect();
    assert_eq!(
        told,
        [
            ("A-AP", "ap"),
            ("A-AP-SYNC", "sync"),
            ("A-LFP", "lf"),
            ("B-AP", "ap"),
            ("NI", "analog")
        ]
    );
    assert_eq!(recording.stream(Some("B-AP")).unwrap().name, "B-AP");
    assert!(close(
        recording.streams[4].channels[0].microvolts.unwrap(),
        305.18
    ));
    let error = recording.stream(None).unwrap_err();
    assert!(error.message().contains("A-AP (ap), B-AP (ap)"), "{error}");
    let error = recording.stream(Some("C")).unwrap_err();
    assert!(error.message().contains("NI (analog)], got 'C'"), "{error}");
}
