//! Recordings of voltage on the command line: what their headers say, what they lack, and what they lost.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use betz::recording::{Recording, Segment};
use betz_testkit::npy::npy;

use crate::program::{done, fails, json, refused};
use crate::sorting::tetrode;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/rig/formats/tests/fixtures/voltage")
        .join(name)
}

/// A SpikeGLX header of the tetrode's voltage, with a synchronisation line that it does not have.
fn header(folder: &Path, lines: &str) {
    std::fs::copy(folder.join("raw.dat"), folder.join("g0.imec0.ap.bin")).unwrap();
    let head = "typeThis=imec\nnSavedChans=4\nimSampRate=30000\nimAiRangeMax=0.04992\nimMaxInt=512\nimDatPrb_type=0\n";
    let table =
        "~imroTbl=(0,4)(0 0 0 500 250 1)(1 0 0 500 250 1)(2 0 0 500 250 1)(3 0 0 500 250 1)\n";
    std::fs::write(
        folder.join("g0.imec0.ap.meta"),
        format!("{head}{lines}{table}"),
    )
    .unwrap();
}

#[test]
fn info_describes_streams() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let name = "NP2_2013_subset_channels.imec0.ap";
    std::fs::copy(
        fixture(&format!("{name}.meta")),
        folder.join("x.imec0.ap.meta"),
    )
    .unwrap();
    std::fs::write(folder.join("x.imec0.ap.bin"), vec![0; 2 * 121 * 30 + 5]).unwrap();
    let told = json(folder, "info x.imec0.ap.meta");
    let streams = told["streams"].as_array().unwrap();
    assert_eq!((streams.len(), &streams[0]["kind"]), (2, &"ap".into()));
    let ap = &streams[0];
    assert_eq!(
        (ap["rate_hz"].as_f64(), ap["samples"].as_u64()),
        (Some(30_000.0), Some(30))
    );
    assert_eq!(ap["expected_samples"].as_u64(), Some(75_511_260 / 242));
    assert_eq!(ap["gaps"].as_array().unwrap().len(), 0);
    let channel = &ap["channels"][119];
    assert_eq!(
        (channel["name"].as_str(), channel["shank"].as_u64()),
        (Some("AP287"), Some(3))
    );
    assert!((channel["gain_uv"].as_f64().unwrap() - 3.027_343_75).abs() < 1e-9);
    assert!(streams[1]["channels"][0]["gain_uv"].is_null());
    let notes = ap["notes"].to_string();
    assert!(
        notes.contains("cut short") && notes.contains("--truncate"),
        "{notes}"
    );
    // The folder is the recording, too, and a person gets a table.
    let channels = &json(folder, "info .")["streams"][0]["channels"];
    assert_eq!(channels, &told["streams"][0]["channels"]);
    let text = done(folder, "info x.imec0.ap.bin");
    assert!(
        text.contains("imec0.ap-SYNC") && text.contains("sync"),
        "{text}"
    );
}

#[test]
fn voltage_is_refused_where_spikes_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let name = "NP2_2013_subset_channels.imec0.ap.meta";
    std::fs::copy(fixture(name), folder.join("run_g0_t0.imec0.ap.meta")).unwrap();
    std::fs::write(folder.join("run_g0_t0.imec0.ap.bin"), vec![0; 2 * 121 * 30]).unwrap();
    for words in [
        "convert run_g0_t0.imec0.ap.bin out.npz",
        "train run_g0_t0.imec0.ap.meta --out m.betz",
        "serve . --no-open",
        "look .",
    ] {
        let streams = "got one of voltage, with the streams [imec0.ap (ap), imec0.ap-SYNC (sync)]";
        refused(folder, words, 1, streams);
    }
}

#[test]
fn electrodes_without_positions_need_a_probe() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tetrode(folder, 10.0, 5);
    // By the probe's type the positions are known.
    header(folder, "");
    let learned = json(folder, "sort train g0.imec0.ap.bin --out a.betz");
    assert!(learned["units"].as_u64().unwrap() >= 3, "{learned}");
    assert_eq!(learned["stream"], "imec0.ap");
    header(folder, "imDatPrb_type=9999\nimDatPrb_pn=NP9999\n");
    let meta = std::fs::read_to_string(folder.join("g0.imec0.ap.meta")).unwrap();
    std::fs::write(
        folder.join("g0.imec0.ap.meta"),
        meta.replacen("imDatPrb_type=0\n", "", 1),
    )
    .unwrap();
    refused(
        folder,
        "sort train g0.imec0.ap.bin --out b.betz",
        2,
        "--probe: expected a file with the positions of the 4 electrodes",
    );
    let learned = json(
        folder,
        "sort train g0.imec0.ap.bin --probe probe.json --out b.betz",
    );
    assert!(
        learned["notes"]
            .to_string()
            .contains("positions of electrodes are unknown")
    );
    let alone = json(
        folder,
        "sort train g0.imec0.ap.bin --probe none --out c.betz",
    );
    assert_eq!(alone["groups"].as_u64(), Some(4), "{alone}");
}

#[test]
fn a_file_that_ends_within_a_row_can_be_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tetrode(folder, 10.0, 5);
    header(folder, "fileSizeBytes=3000000\n");
    let bin = folder.join("g0.imec0.ap.bin");
    let whole = std::fs::read(&bin).unwrap();
    std::fs::write(&bin, &whole[..whole.len() - 3]).unwrap();
    fails(
        folder,
        "sort train g0.imec0.ap.bin --out a.betz",
        "--truncate reads the whole rows",
    );
    let learned = json(folder, "sort train g0.imec0.ap.bin --truncate --out a.betz");
    let notes = learned["notes"].to_string();
    assert!(notes.contains("cut short, 75000 rows"), "{notes}");
    assert!((learned["recorded_seconds"].as_f64().unwrap() - 10.0).abs() < 1e-3);
}

#[test]
fn spikes_after_lost_samples_have_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tetrode(folder, 10.0, 5);
    let raw = std::fs::read(folder.join("raw.dat")).unwrap();
    let data = folder.join("rec/continuous/Rhythm");
    std::fs::create_dir_all(&data).unwrap();
    // The device lost a second: rows 120,000 to 149,999 of 4 channels.
    let rows: Vec<usize> = (0..120_000).chain(150_000..300_000).collect();
    let kept: Vec<u8> = rows
        .iter()
        .flat_map(|r| &raw[8 * r..8 * r + 8])
        .copied()
        .collect();
    std::fs::write(data.join("continuous.dat"), kept).unwrap();
    let numbers: Vec<i64> = rows.iter().map(|r| *r as i64 + 77).collect();
    std::fs::write(data.join("sample_numbers.npy"), npy(&numbers)).unwrap();
    std::fs::write(
        folder.join("rec/structure.oebin"),
        r#"{"continuous": [{"folder_name": "Rhythm/", "sample_rate": 30000, "num_channels": 4, "channels": [
            {"bit_volts": 0.195}, {"bit_volts": 0.195}, {"bit_volts": 0.195}, {"bit_volts": 0.195}]}]}"#,
    )
    .unwrap();
    let told = json(folder, "info rec");
    assert_eq!(
        told["streams"][0]["gaps"],
        serde_json::json!([[120_000, 30_000]])
    );
    json(folder, "sort train rec --probe probe.json --out s.betz");
    let ran = json(folder, "sort run s.betz rec --out lost.npz --phy phy");
    assert!(
        ran["notes"]
            .to_string()
            .contains("1 gap with 30000 missing samples"),
        "{ran}"
    );
    let lost = Recording::read_npz(&folder.join("lost.npz")).unwrap();
    let segment = |start, stop| Segment { start, stop };
    assert_eq!(
        lost.segments,
        [segment(0, 120_000), segment(150_000, 300_000)]
    );
    assert!(
        lost.spikes
            .ticks
            .iter()
            .all(|t| !(119_970..150_150).contains(t))
    );
    // Spikes long after the gap are those of the whole recording.
    done(
        folder,
        "sort run s.betz raw.dat --channels 4 --rate 30000 --gain 0.195 --out whole.npz",
    );
    let whole = Recording::read_npz(&folder.join("whole.npz")).unwrap();
    let late = |r: &Recording| -> Vec<i64> {
        r.spikes
            .ticks
            .iter()
            .copied()
            .filter(|t| *t > 180_000)
            .collect()
    };
    let (got, expected) = (late(&lost), late(&whole));
    let same = got
        .iter()
        .filter(|t| expected.binary_search(t).is_ok())
        .count();
    assert!(
        expected.len() > 100 && same as f64 > 0.98 * expected.len() as f64,
        "{same} of {}",
        expected.len()
    );
    // Times are those of the clock in --from, too; Phy counts rows of the file.
    done(folder, "sort run s.betz rec --from 6 --out part.npz");
    let part = Recording::read_npz(&folder.join("part.npz")).unwrap();
    assert_eq!((part.ticks, part.segments.len()), (120_000, 1));
    refused(
        folder,
        "sort run s.betz rec --feature sbp --out p.npz",
        2,
        "without gaps, got 1 gap",
    );
    let rows = std::fs::read(folder.join("phy/spike_times.npy")).unwrap();
    let last = i64::from_le_bytes(rows[rows.len() - 8..].try_into().unwrap());
    assert_eq!(last + 30_000, *lost.spikes.ticks.last().unwrap());
}
