//! `betz decode`: the outputs of whole recordings.

use std::fs;
use std::path::Path;

use betz::recording::{Recording, Segment, arrays::Arrays};
use betz_formats::nwb;

use crate::fixtures;
use crate::program::{done, json, refused};

/// `late.npz`: three trials with a gap, and behaviour that begins in the second.
fn late(folder: &Path) {
    let mut recording = Recording::read_npz(&folder.join("test.npz")).unwrap();
    let tenth = recording.ticks / 10;
    recording.segments = [[0, 2], [2, 5], [6, 10]]
        .map(|[start, stop]| Segment {
            start: start * tenth,
            stop: stop * tenth,
        })
        .to_vec();
    let behavior = recording.behavior.as_mut().unwrap();
    let first = behavior.samples() * 3 / 10;
    let tick = recording.tick_seconds;
    behavior.times = Some(
        (first..behavior.samples())
            .map(|i| (i + 1) as f64 * tick)
            .collect(),
    );
    behavior.values.drain(..first * 2);
    recording.write_npz(&folder.join("late.npz")).unwrap();
}

/// The rows of a table without its first line.
fn rows(folder: &Path, name: &str) -> Vec<Vec<f64>> {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let row = |line: &str| line.split(',').map(|n| n.parse().unwrap()).collect();
    text.lines().skip(1).map(row).collect()
}

#[test]
fn every_step_inside_segments_is_decoded_and_those_with_behaviour_are_scored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::trained(folder);
    late(folder);
    let told = json(folder, "decode model.betz late.npz --out late.csv");
    // 1000 steps; a tenth lies between the trials, three tenths before the behaviour.
    assert_eq!(
        (&told["steps"], &told["segments"]),
        (&900.into(), &3.into())
    );
    assert_eq!(told["steps_not_decoded"], 100);
    assert!(
        (599..=601).contains(&told["scored_steps"].as_i64().unwrap()),
        "{told}"
    );
    assert!(told["outputs"][0]["r2"].as_f64().unwrap() > 0.8, "{told}");
    let text = fs::read_to_string(folder.join("late.csv")).unwrap();
    assert!(
        text.starts_with("step,start_seconds,end_seconds,segment,x,y\n0,0,0.005,0,"),
        "{text:.80}"
    );
    let table = rows(folder, "late.csv");
    let numbers: Vec<i64> = table.iter().map(|row| row[3] as i64).collect();
    for (number, steps) in [(0, 200), (1, 300), (2, 400)] {
        assert_eq!(numbers.iter().filter(|n| **n == number).count(), steps);
    }
    assert_eq!(table[500][0], 600.0);

    // The session decodes the same, from rest at the start of each segment.
    let mut bare = Recording::read_npz(&folder.join("late.npz")).unwrap();
    bare.behavior = None;
    bare.write_npz(&folder.join("bare.npz")).unwrap();
    json(folder, "stream model.betz bare.npz --out streamed.csv");
    let streamed = rows(folder, "streamed.csv");
    assert_eq!(streamed.len(), table.len());
    for (whole, streamed) in table.iter().zip(&streamed) {
        assert_eq!(whole[..3], streamed[..3]);
        for (a, b) in whole[4..].iter().zip(&streamed[3..]) {
            assert!(
                (a - b).abs() <= 1e-3 * b.abs().max(1.0),
                "{whole:?} {streamed:?}"
            );
        }
    }
    let told = json(folder, "decode model.betz bare.npz --out bare.csv");
    assert!(
        told.get("outputs").is_none() && told.get("scored_steps").is_none(),
        "{told}"
    );
    assert_eq!(rows(folder, "bare.csv"), table);

    // A part of it.
    let told = json(
        folder,
        "decode model.betz late.npz --out part.csv --segments 1..",
    );
    assert_eq!(
        (&told["steps"], &told["steps_not_decoded"]),
        (&700.into(), &300.into())
    );
    let part = rows(folder, "part.csv");
    assert!(
        part.iter()
            .zip(&table[200..])
            .all(|(a, b)| a[4..] == b[4..])
    );
}

#[test]
fn arrays_and_nwb_hold_what_the_table_holds() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::trained(folder);
    late(folder);
    done(folder, "decode model.betz late.npz --out late.csv");
    done(folder, "decode model.betz late.npz --out late_decoded.npz");
    let table = rows(folder, "late.csv");
    let mut arrays = Arrays::open(&folder.join("late_decoded.npz")).unwrap();
    let outputs = arrays.numbers::<f32>("outputs", 2).unwrap().unwrap();
    assert_eq!(outputs.shape, [table.len(), 2]);
    let times = arrays.numbers::<f64>("times", 1).unwrap().unwrap().values;
    let steps = arrays.numbers::<i64>("steps", 1).unwrap().unwrap().values;
    let segments = arrays
        .numbers::<i64>("segments", 1)
        .unwrap()
        .unwrap()
        .values;
    for (i, row) in table.iter().enumerate() {
        assert_eq!(
            [steps[i] as f64, times[i], segments[i] as f64],
            [row[0], row[2], row[3]]
        );
        assert_eq!(
            outputs.values[2 * i..2 * i + 2],
            [row[4] as f32, row[5] as f32]
        );
    }
    let names = arrays.strings("output_names", 1).unwrap().unwrap();
    assert_eq!(names, ["x", "y"]);
    assert!(!arrays.has("truth"));
    // An earlier result is replaced; with behaviour beside it by what scores.
    done(
        folder,
        "evaluate model.betz late.npz --out late_decoded.npz",
    );
    let mut arrays = Arrays::open(&folder.join("late_decoded.npz")).unwrap();
    let truth = arrays.numbers::<f32>("truth", 2).unwrap().unwrap();
    assert_eq!(
        truth.shape,
        arrays.numbers::<f32>("outputs", 2).unwrap().unwrap().shape
    );

    done(
        folder,
        "convert late.npz late.nwb --start 2020-10-19T13:00:00-05:00",
    );
    done(folder, "decode model.betz late.nwb --out decoded.nwb");
    let series =
        nwb::read_series(&folder.join("decoded.nwb"), "processing/decoding/decoded").unwrap();
    assert_eq!(series.times.len(), table.len());
    for (i, row) in table.iter().enumerate() {
        assert!((series.times[i] - row[2]).abs() < 1e-9);
        assert_eq!(series.values[2 * i] as f32, row[4] as f32);
    }
}

#[test]
fn a_model_that_does_not_fit_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::trained(folder);
    json(folder, "simulate --out few.npz --neurons 3 --seconds 2");
    fs::write(folder.join("mine.csv"), "my own table\n").unwrap();
    for (line, code, words) in [
        (
            "decode model.betz few.npz --out x.csv",
            1,
            "27 of the 30 expected",
        ),
        ("decode test.npz test.npz --out x.csv", 1, "test.npz"),
        (
            "decode model.betz test.npz --out x.mat",
            2,
            ".csv, .npz or .nwb",
        ),
        (
            "decode model.betz test.npz --out x",
            2,
            ".csv, .npz or .nwb",
        ),
        ("decode model.betz test.npz --out mine.csv", 2, "--force"),
        (
            "decode model.betz test.npz --out test.npz",
            2,
            "expected another file",
        ),
        ("decode model.betz test.npz --out train.npz", 2, "--force"),
        (
            "decode model.betz test.npz --out x.nwb",
            2,
            "when its session began",
        ),
        (
            "decode model.betz test.npz --out x.csv --segments 3",
            2,
            "below 1",
        ),
        ("decode model.betz test.npz", 2, "--out"),
    ] {
        refused(folder, line, code, words);
    }
    assert!(!folder.join("x.csv").exists());
    // Behaviour that is not the model's is said, and is no reason not to decode.
    let mut other = Recording::read_npz(&folder.join("test.npz")).unwrap();
    other.behavior.as_mut().unwrap().outputs[0].name = "angle".into();
    other.write_npz(&folder.join("other.npz")).unwrap();
    let output = crate::program::betz(folder, "decode model.betz other.npz --out x.csv --json");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success()
            && errors.contains("not scored: behaviour: expected an output named `x`"),
        "{errors}"
    );
}

#[test]
fn a_step_of_several_ticks_is_decoded_at_each_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate --out a.npz --neurons 10 --seconds 30 --tick 0.001",
    );
    done(
        folder,
        "train a.npz --out m.betz --filter 0.02:1 --step 0.05 --folds 2 --decoder recurrent --layers 16 --epochs 20",
    );
    let usual = json(folder, "decode m.betz a.npz --out bins.csv");
    let told = json(folder, "decode m.betz a.npz --every 10ms --out ticks.csv");
    assert_eq!(
        told["steps"].as_u64().unwrap(),
        5 * usual["steps"].as_u64().unwrap()
    );
    // The last tick of a step sees the step's bin, as does every tick's session.
    let (bins, ticks) = (rows(folder, "bins.csv"), rows(folder, "ticks.csv"));
    for (bin, tick) in bins.iter().zip(ticks.iter().skip(4).step_by(5)) {
        for (a, b) in [&bin[2..3], &bin[4..]]
            .concat()
            .iter()
            .zip([&tick[2..3], &tick[4..]].concat())
        {
            assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{bin:?} {tick:?}");
        }
    }
    let r2 = |told: &serde_json::Value| told["outputs"][0]["r2"].as_f64().unwrap();
    assert!((r2(&told) - r2(&usual)).abs() < 0.05, "{told} {usual}");
    assert_eq!(told["rates_hz"], usual["rates_hz"]);
    refused(
        folder,
        "decode m.betz a.npz --every 0.03 --out x.csv",
        2,
        "--every: expected a whole part of the model's step of 0.05 s",
    );
}
