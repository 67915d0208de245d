//! `betz train --decoder place --marks`: spikes with features, from training to decoded outputs.

use std::path::Path;

use betz::recording::arrays::{Array, write};

use crate::program::{betz, done, interrupt, json, refused, spawned};

/// `tetrodes.npz`: two tetrodes beside a track of 100 cm that is run to and fro in 8 s, for 160 s. Each hears three cells
/// whose amplitudes differ; `rows` of the spikes have features.
fn tetrodes(folder: &Path, name: &str, leave_out: usize) {
    let (mut ticks, mut channels, mut features) = (Vec::new(), Vec::new(), Vec::new());
    let (mut behavior, mut times) = (Vec::new(), Vec::new());
    for tick in 0..16_000_i64 {
        let x = 100.0 * (1.0 - (2.0 * (tick as f64 / 800.0).fract() - 1.0).abs());
        if tick % 2 == 0 {
            behavior.push(x as f32);
            times.push(tick as f64 * 0.01);
        }
        for cell in 0..6_i64 {
            let centre = 10.0 + 16.0 * cell as f64;
            // A cell fires in a third of the ticks within 10 cm of its centre.
            if (x - centre).abs() < 10.0 && (tick * 7 + cell * 5) % 3 == 0 {
                ticks.push(tick);
                channels.push((cell % 2) as u16);
                let noise = (tick * 37 % 21 - 10) as f32;
                features.extend([100.0 + 60.0 * (cell / 2) as f32 + noise, 80.0 - noise]);
            }
        }
    }
    let spikes = ticks.len();
    features.truncate(2 * (spikes - leave_out));
    let names: Vec<String> = ["t0", "t1"].map(str::to_owned).to_vec();
    let (label, unit) = (["x".to_owned()], ["cm".to_owned()]);
    let rows = [features.len() / 2, 2];
    let samples = [behavior.len(), 1];
    write(
        &folder.join(name),
        &[
            ("spike_ticks", Array::I64(&[spikes], &ticks)),
            ("spike_channels", Array::U16(&[spikes], &channels)),
            ("spike_features", Array::F32(&rows, &features)),
            ("tick_seconds", Array::F64(&[], &[0.01])),
            ("channel_names", Array::Text(&[2], &names)),
            ("behavior", Array::F32(&samples, &behavior)),
            ("behavior_times", Array::F64(&samples[..1], &times)),
            ("behavior_names", Array::Text(&[1], &label)),
            ("behavior_units", Array::Text(&[1], &unit)),
        ],
    )
    .unwrap();
}

#[test]
fn spikes_with_features_are_trained_on_scored_and_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tetrodes(folder, "tetrodes.npz", 0);
    let line = "train tetrodes.npz --decoder place --marks --until 120 --out marks.betz";
    let told = json(folder, line);
    assert_eq!(
        (&told["channels"], &told["features"]),
        (&2.into(), &2.into())
    );
    assert!(
        told["held_out_median_error"].as_f64().unwrap() < 8.0,
        "{told}"
    );
    // The same file again is an earlier result.
    done(folder, line);
    let scored = json(
        folder,
        "evaluate marks.betz tetrodes.npz --from 120 --out scored.csv",
    );
    let error = scored["median_error"].as_f64().unwrap();
    assert!(error < 8.0, "{scored}");
    assert_eq!(scored["spikes_left_out"], 0);
    let rates = "train tetrodes.npz --decoder place --step 0.02 --until 120 --out rates.betz";
    done(folder, rates);
    let plain = json(folder, "evaluate rates.betz tetrodes.npz --from 120");
    assert!(plain["median_error"].as_f64().unwrap() > error, "{plain}");
    let decoded = json(
        folder,
        "decode marks.betz tetrodes.npz --from 120 --out decoded.csv",
    );
    assert_eq!(decoded["steps"], 2_000);
    let table = std::fs::read_to_string(folder.join("decoded.csv")).unwrap();
    assert!(
        table.starts_with("step,start_seconds,end_seconds,segment,x\n6000,120,"),
        "{table:.80}"
    );
    // A session gives the same outputs, step by step.
    let streamed = json(
        folder,
        "stream marks.betz tetrodes.npz --from 120 --deadline 1000000 --out streamed.csv",
    );
    assert_eq!(streamed["median_error"], scored["median_error"]);
    assert_eq!(
        (
            &streamed["latency_us"]["steps"],
            &streamed["deadline_misses"]
        ),
        (&scored["steps"], &0.into())
    );
    assert!(streamed["latency_us"]["max"].as_f64() >= streamed["latency_us"]["p99"].as_f64());
    assert_eq!(streamed["spikes_left_out"], 0);
    let read = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("streamed.csv"), read("scored.csv"));
    let inside = json(folder, "info marks.betz");
    assert_eq!(
        (&inside["decoder"], &inside["clusterless"]),
        (&"place".into(), &true.into())
    );
    assert_eq!(inside["components"], told["components"]);
    // The recording can be read without its features.
    assert_eq!(json(folder, "info tetrodes.npz")["channels"], 2);
}

#[test]
fn what_has_no_features_or_no_use_for_them_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tetrodes(folder, "tetrodes.npz", 0);
    tetrodes(folder, "short.npz", 3);
    done(folder, "simulate --neurons 4 --seconds 10 --out bare.npz");
    let train = "train --decoder place --marks --out marks.betz";
    refused(
        folder,
        &format!("{train} bare.npz"),
        1,
        "an array `spike_features` (spikes, features), got none",
    );
    refused(
        folder,
        &format!("{train} short.npz"),
        1,
        "one row per spike",
    );
    refused(
        folder,
        &format!("{train} tetrodes.npz --variance"),
        2,
        "--variance: expected training without it",
    );
    for (options, words) in [
        ("--cells 0", "cells: expected 4 to 1000, got 0"),
        ("--cells 1000000000000", "cells: expected 4 to 1000"),
        ("--device cuda:9", "--device: expected auto or cpu"),
        ("--latents 4", "--latents: expected training without it"),
        ("--folds 3", "--folds: expected training without it"),
        ("--experts 2", "--experts: expected training without it"),
        (
            "--lift-units 8",
            "--lift-units: expected training without it",
        ),
        ("--weights int8", "--weights: expected training without it"),
        ("--gram dense", "--gram: expected training without it"),
        ("--solver inverse", "--solver: expected training without it"),
        (
            "--false-alarms 2",
            "--false-alarms: expected training without it",
        ),
        (
            "--refuse-dead",
            "--refuse-dead: expected training without it",
        ),
        (
            "--keep-artefacts",
            "--keep-artefacts: expected training without it",
        ),
        (
            "--filter boxcar:50ms",
            "--filter: expected training without it",
        ),
    ] {
        refused(folder, &format!("{train} tetrodes.npz {options}"), 2, words);
    }
    refused(
        folder,
        "train tetrodes.npz --marks --out m.betz",
        2,
        "--marks: expected --decoder place",
    );
    done(folder, &format!("{train} tetrodes.npz"));
    refused(folder, "evaluate marks.betz bare.npz", 1, "spike_features");
    refused(
        folder,
        "evaluate marks.betz tetrodes.npz --trials",
        2,
        "a clusterless place decoder",
    );
    for command in [
        "evaluate marks.betz tetrodes.npz",
        "decode marks.betz tetrodes.npz --out d.csv",
    ] {
        refused(
            folder,
            &format!("{command} --device cuda:9"),
            2,
            "--device: expected auto or cpu, because a clusterless place decoder decodes on the CPU, got cuda:9",
        );
    }
    refused(
        folder,
        "evaluate marks.betz tetrodes.npz --seed 3",
        2,
        "--seed: expected a model of another kind",
    );
    refused(
        folder,
        "info marks.betz --weights w.npz",
        2,
        "got a clusterless place decoder",
    );
    let session = "betz stream with a recording: live sources carry no features of spikes; train --decoder place without --marks";
    refused(
        folder,
        "stream marks.betz --in udp://127.0.0.1:0 --steps 1",
        1,
        session,
    );
    for option in ["--counts", "--watch", "--unlike", "--device cuda:9"] {
        let named = option.split(' ').next().unwrap();
        let line = format!("stream marks.betz tetrodes.npz {option}");
        refused(folder, &line, 2, &format!("{named}: expected"));
    }
    for (speed, words) in [
        ("0", "--speed: expected a multiple > 0, got 0"),
        ("inf", "--speed: expected a multiple > 0, got inf"),
        ("1e-300", "at which 159.98 s come to an end"),
    ] {
        let line = format!("stream marks.betz tetrodes.npz --speed {speed}");
        refused(folder, &line, 2, words);
    }
}

/// A paced step may be far away: an interrupt does not wait for it.
#[test]
fn a_paced_stream_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tetrodes(folder, "tetrodes.npz", 0);
    done(
        folder,
        "train tetrodes.npz --decoder place --marks --cells 8 --out marks.betz",
    );
    for speed in ["1", "1e-9"] {
        let line = format!("stream marks.betz tetrodes.npz --speed {speed} --out o.csv");
        let mut child = spawned(folder, &line);
        interrupt(&mut child);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{speed}: {said}");
        assert!(said.contains("betz: interrupted: streaming"), "{said}");
        assert!(!folder.join("o.csv").exists());
    }
}

#[test]
fn waveforms_of_nwb_are_features() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fixtures = "../crates/rig/formats/tests/fixtures";
    for name in ["tetrodes.nwb", "perich.nwb"] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(fixtures);
        std::fs::copy(fixture.join(name), folder.join(name)).unwrap();
    }
    let train = "train tetrodes.nwb --decoder place --marks --out marks.betz";
    let output = betz(folder, &format!("{train} --json"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("tetrodes.nwb: 2 channels, 120 spikes, "),
        "{said}"
    );
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&told["channels"], &told["features"], &told["components"]),
        (&2.into(), &4.into(), &120.into())
    );
    let scored = json(folder, "evaluate marks.betz tetrodes.nwb");
    assert_eq!(scored["spikes_left_out"], 0);
    assert!(scored["outputs"][0]["r2"].as_f64().unwrap() > 0.8);
    done(folder, "decode marks.betz tetrodes.nwb --out decoded.csv");
    refused(
        folder,
        "decode marks.betz tetrodes.nwb --out decoded.nwb",
        2,
        "--out: expected .csv or .npz, because spikes with waveforms are not copied",
    );
    for command in [
        "info tetrodes.nwb",
        "train tetrodes.nwb --decoder place --out r.betz",
    ] {
        refused(
            folder,
            command,
            1,
            "--decoder place --marks reads the spikes with waveforms in [acquisition/tetrode0, acquisition/tetrode1]",
        );
    }
    // A file of units alone has no waveforms.
    refused(
        folder,
        "train perich.nwb --decoder place --marks --out other.betz",
        1,
        "a SpikeEventSeries in acquisition or processing",
    );
}
