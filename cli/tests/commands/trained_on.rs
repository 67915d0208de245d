//! `betz evaluate` on what the model was trained on.

use betz::recording::{Recording, Segment};
use serde_json::Value;

use crate::fixtures::population;
use crate::program::{command, json};

/// The warnings of an evaluation, which are also printed.
fn warnings(folder: &std::path::Path, line: &str) -> Vec<String> {
    let output = command(folder, &format!("evaluate {line} --json"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{line}: {said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings = report.get("warnings").and_then(Value::as_array);
    let warnings = warnings.map_or(&[][..], Vec::as_slice);
    let texts: Vec<String> = (warnings.iter())
        .map(|warning| warning.as_str().unwrap().to_owned())
        .collect();
    for text in &texts {
        assert!(said.contains(&format!("warning: {text}")), "{line}: {said}");
    }
    texts
}

#[test]
fn evaluate_warns_of_segments_that_the_model_was_trained_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    population(folder);
    let mut recording = Recording::read_npz(&folder.join("train.npz")).unwrap();
    let trial = recording.ticks / 20;
    recording.segments = (0..20)
        .map(|number| Segment {
            start: number * trial,
            stop: (number + 1) * trial,
        })
        .collect();
    recording.write_npz(&folder.join("trials.npz")).unwrap();
    let train = "train trials.npz --decoder linear --step 0.005 --filter 0.02:1 --segments 0..10";
    json(folder, &format!("{train} --out model.betz"));
    json(folder, &format!("{train} --out long.betz --memory 4MiB"));
    // Half of it each, one in chunks: the sums of both are solved.
    let sums = "sums trials.npz --step 0.005 --filter 0.02:1";
    json(folder, &format!("{sums} --segments 0..5 --out a.sums"));
    let long = format!("{sums} --segments 5..10 --out b.sums --memory 4MiB");
    json(folder, &long);
    json(folder, "solve b.sums a.sums --out solved.betz");
    for model in ["model.betz", "long.betz", "solved.betz"] {
        for memory in ["", " --memory 4MiB"] {
            let of = |rest: &str| warnings(folder, &format!("{model} {rest}{memory}"));
            let all = of("trials.npz --segments 0..10");
            assert!(
                all.len() == 1 && all[0].contains("trained on 100 % of what is scored"),
                "{all:?}"
            );
            let half = of("trials.npz");
            assert!(
                half.len() == 1 && half[0].contains("trained on about "),
                "{half:?}"
            );
            assert!(of("trials.npz --segments 10..20").is_empty());
            assert!(of("test.npz").is_empty());
        }
    }
    // Other commands that print scores.
    for line in [
        "decode model.betz trials.npz --out d.csv",
        "stream model.betz trials.npz",
    ] {
        let output = command(folder, line).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("warning: the model was trained on about "),
            "{line}: {said}"
        );
    }
    // The same spikes in another file format.
    json(
        folder,
        "convert trials.npz other.nwb --start 2020-10-19T13:00:00-05:00",
    );
    let other = warnings(folder, "model.betz other.nwb --segments 0..10");
    assert_eq!(other.len(), 1, "{other:?}");
}
