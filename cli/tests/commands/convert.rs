//! `betz convert`: recordings as NWB and back.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use betz::recording::Recording;
use betz::sort::Voltage;
use betz_formats::nwb::{self, ElectricalSeries};

use crate::program::{betz, done, json, refused};

const START: &str = "--start 2020-10-19T13:00:00-05:00 --created 2026-11-21T12:00:00Z";

fn prepared(folder: &Path) {
    done(
        folder,
        "simulate --out a.npz --test-out t.npz --neurons 8 --seconds 4 --test-seconds 2 --tick 0.001",
    );
}

fn read(folder: &Path, name: &str) -> Recording {
    Recording::read_npz(&folder.join(name)).unwrap()
}

#[test]
fn a_recording_goes_to_nwb_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let told = json(folder, &format!("convert a.npz a.nwb {START} --subject J"));
    assert_eq!(
        (&told["format"], &told["channels"]),
        (&"nwb".into(), &8.into())
    );
    let told = done(folder, "convert a.nwb b.npz");
    assert!(
        told.starts_with("b.npz: 8 channels, 4.0 s, 1 segment, 2 outputs, "),
        "{told}"
    );
    assert_eq!(read(folder, "b.npz"), read(folder, "a.npz"));
    // An earlier result is replaced, and in stretches it has the same bytes.
    let bytes = || fs::read(folder.join("a.nwb")).unwrap();
    let whole = bytes();
    for memory in ["", "--memory 4kB"] {
        fs::write(folder.join("a.nwb"), "").unwrap();
        done(
            folder,
            &format!("convert a.npz a.nwb {START} --subject J {memory}"),
        );
        assert!(bytes() == whole, "{memory}");
    }
    done(folder, &format!("convert a.npz a.nwb {START} --subject K"));
    done(folder, &format!("convert a.npz a.nwb {START} --subject J"));
    // The session of the NWB file is kept.
    done(
        folder,
        "convert a.nwb again.nwb --sex F --created 2026-11-21T12:00:00Z",
    );
    let session = nwb::read_session(&folder.join("again.nwb"))
        .unwrap()
        .unwrap();
    assert_eq!(session.start.text(), "2020-10-19T13:00:00-05:00");
    assert_eq!(
        (session.subject.id.as_str(), session.subject.sex.as_str()),
        ("J", "F")
    );
    assert!(session.identifier.starts_with("betz-"), "{session:?}");
}

const DECODED: &str = "processing/decoding/decoded";

/// Trains `m.betz`, and writes `t.nwb` with the movement that it decodes. Returns the number of decoded steps.
fn decoded(folder: &Path) -> usize {
    prepared(folder);
    done(
        folder,
        "train a.npz --out m.betz --filter 0.02:1 --folds 0 --ridge 1 --step 0.01",
    );
    let told = json(
        folder,
        &format!("convert t.npz t.nwb {START} --decode m.betz"),
    );
    told["decoded"].as_u64().unwrap() as usize
}

fn close(got: f64, expected: f64) -> bool {
    (got - expected).abs() <= 1e-3 * expected.abs().max(1.0)
}

#[test]
fn decoded_movement_stands_beside_its_recording() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let steps = decoded(folder);
    done(folder, "stream m.betz t.npz --out t.csv");
    let table = fs::read_to_string(folder.join("t.csv")).unwrap();
    let mut lines = table.lines();
    let names: Vec<&str> = lines
        .next()
        .unwrap()
        .split(',')
        .skip(3)
        .step_by(2)
        .collect();
    let series = nwb::read_series(&folder.join("t.nwb"), DECODED).unwrap();
    assert_eq!(
        series.columns,
        names
            .iter()
            .map(|name| format!("decoded_{name}"))
            .collect::<Vec<_>>()
    );
    assert_eq!((series.times.len(), lines.clone().count()), (steps, steps));
    for (row, line) in lines.enumerate() {
        let numbers: Vec<f64> = line.split(',').map(|n| n.parse().unwrap()).collect();
        assert!((series.times[row] - numbers[2]).abs() < 1e-9, "{line}");
        for (k, expected) in numbers[3..].iter().step_by(2).enumerate() {
            let got = series.values[row * names.len() + k];
            assert!(close(got, *expected), "{got}: {line}");
        }
    }
    // It is not taken for behaviour.
    done(folder, "convert t.nwb back.npz");
    assert_eq!(read(folder, "back.npz"), read(folder, "t.npz"));
}

#[test]
fn scoring_and_replaying_write_the_same_movement_beside_the_same_recording() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    decoded(folder);
    let series = nwb::read_series(&folder.join("t.nwb"), DECODED).unwrap();
    for command in ["evaluate", "stream"] {
        done(
            folder,
            &format!("{command} m.betz t.nwb --out {command}.nwb"),
        );
        let path = folder.join(format!("{command}.nwb"));
        let again = nwb::read_series(&path, DECODED).unwrap();
        assert_eq!(
            (&again.columns, &again.times),
            (&series.columns, &series.times)
        );
        for (got, expected) in again.values.iter().zip(&series.values) {
            assert!(close(*got, *expected));
        }
        done(folder, &format!("convert {command}.nwb {command}.npz"));
        assert_eq!(
            read(folder, &format!("{command}.npz")),
            read(folder, "t.npz")
        );
        refused(
            folder,
            &format!("{command} m.betz t.npz --out x.nwb"),
            2,
            "expected a recording that says when its session began",
        );
    }
    refused(
        folder,
        "evaluate m.betz t.nwb --out x.nwb --memory 1MiB",
        2,
        "expected .csv with --memory",
    );
    assert!(!folder.join("x.nwb").exists());
}

#[test]
fn what_cannot_be_converted_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    fs::copy(folder.join("t.npz"), folder.join("mine.npz")).unwrap();
    fs::write(folder.join("mine.nwb"), b"\x89HDF\r\n\x1a\nyears of work").unwrap();
    let before = fs::read_dir(folder).unwrap().count();
    for (line, words) in [
        (
            "convert a.npz x.nwb".to_owned(),
            "--start: expected when the session began",
        ),
        (
            "convert a.npz x.nwb --start yesterday".into(),
            "--start: expected a moment with its zone",
        ),
        (
            "convert a.npz x.nwb --start 2020-10-19T13:00:00".into(),
            "with its zone",
        ),
        (
            "convert a.npz x.nwb --start 2999-01-01T00:00:00Z".into(),
            "before the file is made",
        ),
        ("convert a.npz x.mat".into(), "ending in .nwb or .npz"),
        (
            "convert a.npz x.npz --subject J".into(),
            "--subject: expected none",
        ),
        (
            format!("convert a.npz a.npz {START}"),
            "expected another file than IN",
        ),
        (format!("convert a.npz mine.nwb {START}"), "--force"),
        ("convert a.npz mine.npz".into(), "--force"),
        (
            format!("convert a.npz no/x.nwb {START}"),
            "a folder that is there",
        ),
        (
            format!("convert a.npz x.nwb {START} --sex X"),
            "invalid value 'X'",
        ),
    ] {
        refused(folder, &line, 2, words);
    }
    let output = betz(folder, &format!("convert mine.nwb x.nwb {START}"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_dir(folder).unwrap().count(), before);
}

#[test]
fn behaviour_is_taken_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/rig/formats/tests/fixtures");
    fs::copy(fixtures.join("m2.nwb"), folder.join("m2.nwb")).unwrap();
    let outputs = |names: &str| -> Vec<String> {
        done(folder, &format!("convert m2.nwb m2.npz --force {names}"));
        let behavior = read(folder, "m2.npz").behavior.unwrap();
        behavior.outputs.into_iter().map(|o| o.name).collect()
    };
    assert_eq!(outputs(""), ["index_vel", "mrs_vel"]);
    assert_eq!(outputs("--behavior finger_pos"), ["index_pos", "mrs_pos"]);
    assert_eq!(
        outputs(
            "--behavior mrs_vel --behavior finger_pos --behavior acquisition/finger_vel/mrs_vel"
        ),
        ["mrs_vel", "index_pos", "mrs_pos"]
    );
    // A command that trains takes the same names.
    done(
        folder,
        "train m2.nwb --out m.betz --bank single --folds 0 --step 0.02 --behavior mrs_pos",
    );
    let told = json(folder, "evaluate m.betz m2.nwb --behavior mrs_pos");
    assert_eq!(told["outputs"][0]["name"], "mrs_pos");
    refused(
        folder,
        "train m2.nwb --out m.betz --behavior nix",
        2,
        "expected one of [acquisition/finger_pos/index_pos, ",
    );
    refused(
        folder,
        "convert m2.npz b.npz --behavior mrs_vel",
        2,
        "'mrs_vel': expected an NWB file",
    );
    refused(
        folder,
        "train m2.npz --out n.betz --memory 1MiB --behavior mrs_vel",
        2,
        "expected none, because --memory reads .npz",
    );
}

/// Two electrodes and a digital word of a SpikeGLX recording, and its rows.
fn spikeglx(folder: &Path) -> Vec<i16> {
    let rows: Vec<i16> = (0..3 * 90_000)
        .map(|i| (i * 7919 % 65_521) as i16)
        .collect();
    let bytes: Vec<u8> = rows.iter().flat_map(|v| v.to_le_bytes()).collect();
    fs::write(folder.join("r_g0_t0.imec0.ap.bin"), bytes).unwrap();
    let header = "typeThis=imec\nnSavedChans=3\nsnsApLfSy=2,0,1\nimSampRate=30000\nimAiRangeMax=0.6\nimMaxInt=512\nimDatPrb_type=0\n~imroTbl=(0,2)(0 0 0 500 250 1)(1 0 0 500 250 1)\n";
    fs::write(folder.join("r_g0_t0.imec0.ap.meta"), header).unwrap();
    rows
}

#[test]
fn voltage_goes_to_nwb_with_every_sample() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows = spikeglx(folder);
    let told = json(
        folder,
        &format!("convert r_g0_t0.imec0.ap.bin v.nwb {START}"),
    );
    assert_eq!(told["samples"].as_u64(), Some(270_000), "{told}");
    assert_eq!(told["seconds"].as_f64(), Some(3.0), "{told}");
    let mut series = ElectricalSeries::open(&folder.join("v.nwb"), None).unwrap();
    assert_eq!((series.rows(), series.rate_hz()), (90_000, 30_000.0));
    let gain = series.microvolts().unwrap();
    assert!((gain - 0.6 / 512.0 / 500.0 * 1e6).abs() < 1e-9, "{gain}");
    assert_eq!(series.places().unwrap()[1], Some([48.0, 0.0]));
    let mut read = vec![0; 2 * 90_000];
    assert_eq!(series.read(0, &mut read).unwrap(), 90_000);
    let expected: Vec<i16> = rows.chunks(3).flat_map(|row| [row[0], row[1]]).collect();
    assert!(read == expected);
    // The same again gives the same bytes; `betz info` lists the series.
    done(
        folder,
        &format!("convert r_g0_t0.imec0.ap.bin w.nwb {START}"),
    );
    assert!(fs::read(folder.join("v.nwb")).unwrap() == fs::read(folder.join("w.nwb")).unwrap());
    let told = json(folder, "info v.nwb");
    assert_eq!(told["streams"].as_array().unwrap().len(), 1, "{told}");
}

#[test]
fn lines_of_digital_words_become_trials_and_marks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Bit 0 of SYNC is up in rows 1000 to 1999 of every 3000, bit 6 in every second row.
    let bytes: Vec<u8> = (0..9000_u16)
        .flat_map(|row| {
            let word = u16::from((1000..2000).contains(&(row % 3000))) | (row % 2) << 6;
            [1, 2, word]
        })
        .flat_map(u16::to_le_bytes)
        .collect();
    spikeglx(folder);
    fs::write(folder.join("r_g0_t0.imec0.ap.bin"), bytes).unwrap();
    let line = format!(
        "convert r_g0_t0.imec0.ap.bin v.nwb {START} --line 1=trial --line imec0.ap-SYNC:7=tick"
    );
    let told = json(folder, &line);
    assert_eq!(
        (&told["trials"], &told["marks"], &told["changes"]),
        (&3.into(), &4500.into(), &(6 + 8999).into())
    );
    for (option, expected) in [
        (
            "--line 17=go",
            "expected a line of 1 to 16 of imec0.ap-SYNC, got 17",
        ),
        ("--line go", "expected [STREAM:]LINE=TEXT"),
    ] {
        let line = format!("convert r_g0_t0.imec0.ap.bin w.nwb {START} {option}");
        refused(folder, &line, 2, expected);
        assert!(!folder.join("w.nwb").exists());
    }
    prepared(folder);
    let line = format!("convert a.npz w.nwb {START} --line 1=trial");
    let told = "--line 1=trial: expected voltage of SpikeGLX or Open Ephys, got a.npz";
    refused(folder, &line, 2, told);
}

#[test]
fn voltage_that_nwb_has_no_place_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    spikeglx(folder);
    let bin = "r_g0_t0.imec0.ap.bin";
    for (options, expected) in [
        ("v.nwb", "--start: expected when the session began"),
        ("v.nwb --stream lf", "expected one of"),
        (
            "v.nwb --start 2020-10-19T13:00:00-05:00 --stream imec0.ap --stream imec0.ap",
            "streams: expected each once, got imec0.ap twice",
        ),
        (
            "v.nwb --behavior vel",
            "expected none, because IN is voltage",
        ),
        (
            "v.nwb --memory 1GiB",
            "--memory: expected none where IN is voltage",
        ),
    ] {
        refused(folder, &format!("convert {bin} {options}"), 2, expected);
        assert!(!folder.join("v.nwb").exists(), "{options}");
    }
    prepared(folder);
    let told = "--stream x: expected voltage of SpikeGLX or Open Ephys, got a.npz";
    refused(
        folder,
        &format!("convert a.npz v.nwb {START} --stream x"),
        2,
        told,
    );
    // A file that ends within a row.
    let mut bytes = fs::read(folder.join(bin)).unwrap();
    bytes.pop();
    fs::write(folder.join(bin), bytes).unwrap();
    refused(
        folder,
        &format!("convert {bin} v.nwb {START}"),
        1,
        "--truncate",
    );
    let told = json(folder, &format!("convert {bin} v.nwb {START} --truncate"));
    assert_eq!(told["samples"].as_u64(), Some(269_997), "{told}");
}
