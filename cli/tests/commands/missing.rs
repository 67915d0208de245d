//! Behaviour with samples missing, and the facts that training tells of its data.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use betz::recording::Recording;

use crate::fixtures;
use crate::program::{fails, json, refused};

const BANK: &str = "--step 0.02 --filter 0.02:1 --filter 0.1:1";

/// `train.npz` as `gap.npz`, without the samples of behaviour from 6 to 14 s, and two at 3 s.
fn without_samples(folder: &Path) {
    fixtures::population(folder);
    let mut recording = Recording::read_npz(&folder.join("train.npz")).unwrap();
    let tick = recording.tick_seconds;
    let behavior = recording.behavior.as_mut().unwrap();
    let width = behavior.outputs.len();
    let (mut values, mut times) = (Vec::new(), Vec::new());
    // A sample every 10 ms.
    let every = (0.01 / tick).round() as usize;
    for (i, row) in behavior
        .values
        .chunks_exact(width)
        .enumerate()
        .step_by(every)
    {
        let time = (i + 1) as f64 * tick;
        if !(6.0..14.0).contains(&time) && !(3.0..3.019).contains(&time) {
            values.extend_from_slice(row);
            times.push(time);
        }
    }
    (behavior.values, behavior.times) = (values, Some(times));
    recording.write_npz(&folder.join("gap.npz")).unwrap();
}

#[test]
fn a_long_gap_of_behaviour_ends_its_segment_and_a_short_one_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    without_samples(folder);
    let train = |options: &str| {
        json(
            folder,
            &format!("train gap.npz {BANK} --decoder linear {options}"),
        )
    };
    let split = train("--out split.betz");
    assert_eq!(split["segments"], 2);
    let aligned = &split["aligned"];
    assert_eq!(aligned["max_gap_seconds"], 0.15);
    let in_gaps = aligned["steps_in_gaps"].as_u64().unwrap();
    assert!((399..=401).contains(&in_gaps), "{aligned}");
    assert!(
        (1..=2).contains(&aligned["steps_interpolated"].as_u64().unwrap()),
        "{aligned}"
    );
    // The same in chunks, in sums and by a scored model; only spikes outside are not counted in chunks.
    let same = |other: &serde_json::Value| {
        for count in [
            "segments_dropped",
            "steps_in_gaps",
            "steps_interpolated",
            "max_gap_seconds",
        ] {
            assert_eq!(other[count], aligned[count], "{count}");
        }
    };
    same(&train("--memory 100KiB --out chunks.betz")["aligned"]);
    same(&json(folder, &format!("sums gap.npz {BANK} --out gap.sums"))["aligned"][0]);
    same(&json(folder, "evaluate split.betz gap.npz")["aligned"]);
    same(&json(folder, "evaluate split.betz gap.npz --memory 100KiB")["aligned"]);
    let bridged = train("--max-gap inf --out bridged.betz");
    assert_eq!(
        (&bridged["segments"], &bridged["aligned"]["steps_in_gaps"]),
        (&1.into(), &0.into())
    );
    assert!(bridged["aligned"]["steps_interpolated"].as_u64().unwrap() > 390);
    let r2 = |trained: &serde_json::Value| trained["outputs"][0]["r2"].as_f64().unwrap();
    assert!(
        r2(&split) > r2(&bridged) + 0.1,
        "{} and {}",
        r2(&split),
        r2(&bridged)
    );
    refused(
        folder,
        &format!("train gap.npz {BANK} --decoder linear --max-gap nan --out x"),
        2,
        "or inf",
    );
}

/// `train.npz` with one sample per bin of 10 ms, as `nan.npz`: those from 6 to 14 s, and two at 3 s, lack an output.
fn with_nan(folder: &Path) {
    fixtures::population(folder);
    let mut recording = Recording::read_npz(&folder.join("train.npz")).unwrap();
    let tick = recording.tick_seconds;
    let behavior = recording.behavior.as_mut().unwrap();
    assert!(behavior.times.is_none());
    let width = behavior.outputs.len();
    for (i, row) in behavior.values.chunks_exact_mut(width).enumerate() {
        let time = (i + 1) as f64 * tick;
        if (6.0..14.0).contains(&time) || (3.0..3.019).contains(&time) {
            row[i % width] = f32::NAN;
        }
    }
    recording.write_npz(&folder.join("nan.npz")).unwrap();
}

#[test]
fn behaviour_with_nan_is_missing_behaviour() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    with_nan(folder);
    let trained = json(
        folder,
        &format!("train nan.npz {BANK} --decoder linear --out model.betz"),
    );
    assert_eq!(trained["segments"], 2);
    let aligned = &trained["aligned"];
    assert_eq!(aligned["max_gap_seconds"], 0.15);
    assert!((399..=400).contains(&aligned["steps_in_gaps"].as_u64().unwrap()));
    assert_eq!(aligned["steps_interpolated"], 1);
    let line = format!("train nan.npz {BANK} --decoder linear --memory 100KiB --out chunks.betz");
    assert_eq!(json(folder, &line)["segments"], 2);
    assert_eq!(
        json(folder, "evaluate model.betz nan.npz")["aligned"],
        *aligned
    );
    // The same from NWB, which keeps the samples.
    let start = "--start 2020-10-19T13:00:00-05:00";
    json(folder, &format!("convert nan.npz nan.nwb {start}"));
    let again = json(folder, "evaluate model.betz nan.nwb");
    assert_eq!(again["aligned"], *aligned);
    let all = format!("train nan.npz {BANK} --decoder linear --max-gap inf --out bridged.betz");
    assert_eq!(json(folder, &all)["segments"], 1);
}

#[test]
fn one_file_of_sums_is_solved_by_generalised_cross_validation() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    json(folder, &format!("sums train.npz {BANK} --out all.sums"));
    let solved = json(folder, "solve all.sums --out solved.betz");
    let trained = json(
        folder,
        &format!("train train.npz {BANK} --decoder linear --folds 0 --out trained.betz"),
    );
    let ridge = |of: &serde_json::Value| of["ridge"].as_f64().unwrap();
    assert!((ridge(&solved) / ridge(&trained) - 1.0).abs() < 1e-6);
    let by_noise = json(folder, "solve all.sums --noise 0.1 --out noise.betz");
    assert_ne!(ridge(&solved), ridge(&by_noise));
    let r2 = |model: &str| {
        let scores = json(folder, &format!("evaluate {model} test.npz"));
        scores["outputs"][0]["r2"].as_f64().unwrap()
    };
    json(
        folder,
        &format!("train train.npz {BANK} --decoder linear --out validated.betz"),
    );
    let [generalised, validated] = ["solved.betz", "validated.betz"].map(r2);
    assert!(
        generalised > validated - 0.03,
        "{generalised} and {validated}"
    );
}

#[test]
fn velocities_are_named_and_artefacts_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let named =
        format!("train train.npz {BANK} --decoder linear --folds 2 --velocity y --out named.betz");
    let trained = json(folder, &named);
    assert!(
        trained["outputs"][1]["unit"]
            .as_str()
            .unwrap()
            .ends_with("/s"),
        "{trained}"
    );
    assert_eq!(trained["artefacts"], 0);
    assert!(trained["all_spikes"].as_u64().unwrap() > 1000);
    json(folder, "evaluate named.betz test.npz");
    let wrong = format!("train train.npz {BANK} --decoder linear --velocity speed --out x.betz");
    refused(
        folder,
        &wrong,
        2,
        "--velocity: velocities: expected names of outputs",
    );
    let kept = json(
        folder,
        &format!("train train.npz {BANK} --decoder linear --keep-artefacts --out kept.betz"),
    );
    assert_eq!(kept["all_spikes"], trained["all_spikes"]);
}

#[test]
fn a_gap_shorter_than_the_samples_are_apart_is_refused_by_its_option() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    with_nan(folder);
    refused(
        folder,
        &format!("train nan.npz {BANK} --max-gap 0.00001 --out x.betz"),
        2,
        "--max-gap: expected at least",
    );
}

#[test]
fn a_file_that_is_no_archive_is_described() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let whole = std::fs::read(folder.join("train.npz")).unwrap();
    for (bytes, words) in [
        (&b""[..], "an empty file"),
        (&whole[..whole.len() / 2], "cut short or damaged"),
        (
            &b"time,x,y\n0,1,2\n"[..],
            "begins with \"time,x,y\"; betz convert",
        ),
    ] {
        std::fs::write(folder.join("odd.npz"), bytes).unwrap();
        fails(folder, &format!("train odd.npz {BANK} --out x.betz"), words);
    }
}
