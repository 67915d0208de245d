//! `betz sort` on the command line.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use betz::recording::Recording;
use betz::sort::Voltage;
use betz::sort::synthetic::{Synthetic, make};
use betz_formats::nwb::ElectricalSeries;
use serde_json::Value;

use crate::program::{betz, done, fails, json, refused};

/// Writes `seconds` of a tetrode's voltage, its probe and its truth.
pub(crate) fn tetrode(folder: &Path, seconds: f64, seed: u64) {
    let of = Synthetic {
        seconds,
        ..Synthetic::tetrode(seed)
    };
    let made = make(&of).unwrap();
    let bytes: Vec<u8> = made.samples.iter().flat_map(|s| s.to_le_bytes()).collect();
    std::fs::write(folder.join("raw.dat"), bytes).unwrap();
    std::fs::write(
        folder.join("probe.json"),
        r#"{"specification": "probeinterface", "probes": [{"ndim": 2, "si_units": "um",
            "contact_positions": [[0, 0], [20, 0], [0, 20], [20, 20]], "device_channel_indices": [0, 1, 2, 3]}]}"#,
    )
    .unwrap();
    let (samples, units) = (made.spikes.clone(), made.units.clone());
    use betz::recording::arrays::{Array, write};
    write(
        &folder.join("truth.npz"),
        &[
            ("samples", Array::I64(&[samples.len()], &samples)),
            ("units", Array::U32(&[units.len()], &units)),
        ],
    )
    .unwrap();
}

pub(crate) const TRAIN: &str =
    "sort train raw.dat --probe probe.json --rate 30000 --channels 4 --gain 0.195 --out s.betz";

/// Puts a tetrode's voltage (`raw.dat`, `probe.json`, `truth.npz`) and the sorter `s.betz` that [`TRAIN`] makes of it into
/// `folder`, and returns the training's report. They are made once.
pub(crate) fn trained(folder: &Path) -> &'static Value {
    static MADE: OnceLock<(PathBuf, Value)> = OnceLock::new();
    let (made, learned) = MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sorter-fixtures");
        std::fs::create_dir_all(&folder).unwrap();
        tetrode(&folder, 10.0, 4);
        let learned = json(&folder, &format!("{TRAIN} --force"));
        (folder, learned)
    });
    for name in ["raw.dat", "probe.json", "truth.npz", "s.betz"] {
        std::fs::copy(made.join(name), folder.join(name)).unwrap();
    }
    learned
}

#[test]
fn voltage_becomes_spikes_that_every_command_reads() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let learned = trained(folder);
    let units = learned["units"].as_u64().unwrap();
    assert!((4..=8).contains(&units), "{learned}");
    let ran = json(
        folder,
        "sort run s.betz raw.dat --channels 4 --out spikes.npz --phy phy",
    );
    assert_eq!(ran["channels"].as_u64(), Some(units));
    let score = json(folder, "sort score spikes.npz truth.npz");
    assert!(score["accuracy"].as_f64().unwrap() > 0.7, "{score}");
    // The same spikes, whatever the block.
    let again = json(
        folder,
        "sort run s.betz raw.dat --channels 4 --out again.npz --block 1",
    );
    assert_eq!(again["spikes"], ran["spikes"]);
    assert_eq!(
        json(folder, "sort score spikes.npz again.npz")["accuracy"].as_f64(),
        Some(1.0)
    );

    let times = std::fs::read(folder.join("phy/spike_times.npy")).unwrap();
    let clusters = std::fs::read(folder.join("phy/spike_clusters.npy")).unwrap();
    let spikes = ran["spikes"].as_u64().unwrap() as usize;
    assert!(times.starts_with(b"\x93NUMPY") && times.len() == 128 + 8 * spikes);
    assert!(clusters.len() == 128 + 4 * spikes);
    assert!(
        std::fs::read_to_string(folder.join("phy/params.py"))
            .unwrap()
            .contains("n_channels_dat = 4")
    );

    assert_eq!(
        json(folder, "info spikes.npz")["channels"].as_u64(),
        Some(units)
    );
    assert_eq!(json(folder, "info s.betz")["kind"], "sorter");
    let shown = json(folder, "sort show s.betz --picture s.svg");
    assert_eq!(shown["units"].as_array().unwrap().len() as u64, units);
    assert!(folder.join("s.svg").is_file());
    let (a, b) = (&shown["units"][0]["unit"], &shown["units"][1]["unit"]);
    let merged = json(
        folder,
        &format!("sort edit s.betz --merge {a},{b} --out t.betz"),
    );
    assert_eq!(merged["units"].as_array().unwrap().len() as u64, units - 1);
    done(
        folder,
        "sort run t.betz raw.dat --channels 4 --out t.npz --from 2 --until 5",
    );

    let crossings = json(
        folder,
        "sort run s.betz raw.dat --channels 4 --out c.npz --feature crossings",
    );
    assert!(crossings["spikes"].as_u64() > ran["spikes"].as_u64());
    let power = json(
        folder,
        "sort run s.betz raw.dat --channels 4 --out p.npz --feature sbp --bin 0.05",
    );
    assert_eq!(power["spikes"].as_u64(), Some(200 * 4));
    assert_eq!(json(folder, "info p.npz")["form"], "a signal");
}

#[test]
fn too_few_spikes_of_units_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    // The same voltage of an amplifier with a sixteenth of the gain.
    let raw = std::fs::read(folder.join("raw.dat")).unwrap();
    let samples = raw
        .chunks_exact(2)
        .map(|two| i16::from_le_bytes([two[0], two[1]]));
    let small: Vec<u8> = samples.flat_map(|s| (s / 16).to_le_bytes()).collect();
    std::fs::write(folder.join("small.dat"), small).unwrap();
    let wrong = json(folder, "sort run s.betz small.dat --channels 4 --out w.npz");
    let warning = wrong["warning"].as_str().unwrap();
    assert!(
        warning.contains("expected about") && warning.contains("--channels"),
        "{warning}"
    );
    let right = json(folder, "sort run s.betz raw.dat --channels 4 --out r.npz");
    assert!(right["warning"].is_null(), "{right}");
}

#[test]
fn headers_beside_the_samples_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tetrode(folder, 5.0, 5);
    std::fs::copy(folder.join("raw.dat"), folder.join("g0.imec0.ap.bin")).unwrap();
    std::fs::write(
        folder.join("g0.imec0.ap.meta"),
        "typeThis=imec\nnSavedChans=4\nimSampRate=30000\nimAiRangeMax=0.04992\nimMaxInt=512\nimDatPrb_type=0\n~imroTbl=(0,4)(0 0 0 500 250 1)\n~snsGeomMap=(NP1010,1,0,70)(0:27:0:1)(0:59:0:1)(0:27:20:1)(0:59:20:1)\n",
    )
    .unwrap();
    let learned = json(folder, "sort train g0.imec0.ap.bin --out glx.betz");
    assert!(learned["units"].as_u64().unwrap() >= 3, "{learned}");
    std::fs::create_dir_all(folder.join("continuous/Rhythm")).unwrap();
    std::fs::copy(
        folder.join("raw.dat"),
        folder.join("continuous/Rhythm/continuous.dat"),
    )
    .unwrap();
    std::fs::write(
        folder.join("structure.oebin"),
        r#"{"continuous": [{"folder_name": "Rhythm/", "sample_rate": 30000, "num_channels": 4, "channels": [
            {"bit_volts": 0.195}, {"bit_volts": 0.195}, {"bit_volts": 0.195}, {"bit_volts": 0.195}]}]}"#,
    )
    .unwrap();
    let learned = json(folder, "sort train . --probe probe.json --out oe.betz");
    assert!(learned["units"].as_u64().unwrap() >= 3, "{learned}");
    refused(
        folder,
        "sort train structure.oebin --rate 20000 --out x.betz",
        2,
        "the header beside the samples says 30000",
    );
    // A sorter knows what it was trained for.
    fails(
        folder,
        "sort run oe.betz raw.dat --channels 4 --rate 20000 --out x.npz",
        "the sorter expects 4 channels",
    );
}

#[test]
fn bad_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    std::fs::remove_file(folder.join("s.betz")).unwrap();
    let raw = std::fs::read(folder.join("raw.dat")).unwrap();
    let big: Vec<u8> = raw.chunks(2).flat_map(|b| [b[1], b[0]]).collect();
    std::fs::write(folder.join("big.dat"), big).unwrap();
    std::fs::write(folder.join("zero.dat"), vec![0; 30_000 * 8]).unwrap();
    std::fs::write(folder.join("short.dat"), vec![1; 80]).unwrap();
    std::fs::write(
        folder.join("few.json"),
        r#"{"probes": [{"contact_positions": [[0, 0]]}]}"#,
    )
    .unwrap();
    std::fs::write(folder.join("none.json"), "{}").unwrap();
    std::fs::write(folder.join("table.csv"), "0,0,40\n").unwrap();
    let with = "--rate 30000 --channels 4 --gain 0.195 --out s.betz";
    refused(
        folder,
        "sort train raw.dat --out s.betz",
        2,
        "--rate: expected it",
    );
    for (line, words) in [
        (
            "sort train raw.dat --rate 30000 --channels 7 --gain 0.195 --out s.betz".to_owned(),
            "more than whole rows",
        ),
        (format!("sort train big.dat {with}"), "bytes exchanged"),
        (
            format!("sort train zero.dat {with}"),
            "of which 4 are silent",
        ),
        (format!("sort train short.dat {with}"), "at least 0.1 s"),
        (
            format!("sort train raw.dat --probe few.json {with}"),
            "expected a contact for each of 4 channels",
        ),
        (
            format!("sort train raw.dat --probe none.json {with}"),
            "expected a list `probes`",
        ),
        (
            format!("sort train raw.dat --probe table.csv {with}"),
            "expected a probe as probeinterface writes it",
        ),
        (
            format!("sort train raw.dat --threshold 0 {with}"),
            "threshold: expected above 0",
        ),
        (
            format!("sort train raw.dat --band 300 {with}"),
            "--band: expected two frequencies",
        ),
        (
            format!("sort train raw.dat --band 300,20000 {with}"),
            "high edge",
        ),
        (
            format!("sort train raw.dat --from 20 {with}"),
            "expected some of the 10.000 s",
        ),
        (format!("sort train missing.dat {with}"), "missing.dat"),
        (
            "sort run probe.json raw.dat --channels 4 --out x.npz".to_owned(),
            "a sorter",
        ),
        ("sort score truth.npz truth.npz".to_owned(), "truth.npz"),
        ("info big.dat".to_owned(), "a sorter"),
    ] {
        fails(folder, &line, words);
    }
    assert!(!folder.join("s.betz").exists());
}

#[test]
fn wrong_uses_of_a_sorter_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    fails(
        folder,
        "sort run s.betz raw.dat --channels 4 --out x.npz --block 0",
        "--block",
    );
    fails(
        folder,
        "sort edit s.betz --merge 0 --out t.betz",
        "two different units",
    );
    fails(
        folder,
        "sort edit s.betz --split 0 --out t.betz",
        "a unit and its nodes",
    );
    let output = betz(
        folder,
        "sort run s.betz raw.dat --channels 4 --out probe.json",
    );
    assert_eq!(output.status.code(), Some(2));
}

/// A fixture of `betz-formats`.
fn nwb(folder: &Path, name: &str) {
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/rig/formats/tests/fixtures");
    std::fs::copy(fixtures.join(name), folder.join(name)).unwrap();
}

#[test]
fn voltage_in_nwb_is_sorted_as_the_same_samples_in_a_flat_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    nwb(folder, "voltage.nwb");
    // The samples that pynwb reads of it (a test of betz-formats compares them), flat, and the places of its electrodes.
    let mut voltage = ElectricalSeries::open(&folder.join("voltage.nwb"), None).unwrap();
    let mut samples = vec![0; voltage.rows() as usize * voltage.channels()];
    voltage.read(0, &mut samples).unwrap();
    let bytes: Vec<u8> = samples.iter().flat_map(|s| s.to_le_bytes()).collect();
    std::fs::write(folder.join("flat.dat"), bytes).unwrap();
    std::fs::write(
        folder.join("probe.json"),
        r#"{"probes": [{"contact_positions": [[0, 0], [20, 0], [0, 20], [20, 20]]}]}"#,
    )
    .unwrap();
    let flat = "flat.dat --probe probe.json --rate 20000 --channels 4 --gain 4";
    let learned = json(folder, &format!("sort train {flat} --out flat.betz"));
    assert_eq!(learned["units"].as_u64(), Some(3), "{learned}");
    let of_nwb = json(folder, "sort train voltage.nwb --out nwb.betz");
    assert_eq!(of_nwb["spikes"], learned["spikes"]);
    let sorter = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(sorter("flat.betz") == sorter("nwb.betz"));

    for feature in ["sorted", "crossings", "sbp"] {
        for part in ["", "--from 0.3 --until 1.7"] {
            let run = |raw: &str, out: &str| {
                let line = format!(
                    "sort run nwb.betz {raw} --feature {feature} {part} --out {out} --force"
                );
                done(folder, &line);
                Recording::read_npz(&folder.join(out)).unwrap()
            };
            let (flat, nwb) = (
                run("flat.dat --channels 4", "a.npz"),
                run("voltage.nwb", "b.npz"),
            );
            assert!(flat.spikes.ticks.len() > 60);
            assert_eq!(flat.spikes, nwb.spikes);
            let meta: serde_json::Value = serde_json::from_str(&nwb.meta.unwrap()).unwrap();
            let origin = 1.5 + if part.is_empty() { 0.0 } else { 0.3 };
            assert_eq!(meta["series"], "acquisition/ElectricalSeries");
            assert_eq!(meta["origin_seconds"].as_f64(), Some(origin));
        }
    }
}

#[test]
fn voltage_in_nwb_that_cannot_be_sorted_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["voltage.nwb", "voltages.nwb", "m2.nwb"] {
        nwb(folder, name);
    }
    let train = |rest: &str| format!("sort train {rest} --out s.betz");
    for (rest, code, words) in [
        ("voltages.nwb", 2, "acquisition/plain, "),
        ("voltages.nwb", 2, "--stream takes its name"),
        ("voltages.nwb --series nix", 2, "got 'nix'"),
        ("voltages.nwb --series ungained", 2, "--gain: expected it"),
        ("voltage.nwb --rate 30000", 2, "--rate: the file says 20000"),
        ("m2.nwb", 1, "expected voltage"),
        ("voltages.nwb --series gap", 1, "a gap"),
        ("voltages.nwb --series plain", 1, "at least 0.1 s"),
    ] {
        refused(folder, &train(rest), code, words);
    }
    std::fs::write(folder.join("flat.dat"), [0; 800]).unwrap();
    refused(
        folder,
        &train("flat.dat --series plain"),
        2,
        "--stream plain: expected an NWB file",
    );
    assert!(!folder.join("s.betz").exists());
    done(
        folder,
        "sort train voltage.nwb --series ElectricalSeries --out s.betz",
    );
    refused(
        folder,
        "sort run s.betz voltage.nwb --out x.npz --phy phy",
        2,
        "expected samples in a flat file",
    );
    assert!(!folder.join("x.npz").exists() && !folder.join("phy").exists());
}
