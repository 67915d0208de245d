//! `betz compare`: kinds of decoders on the same folds.

use std::fs;

use crate::fixtures;
use crate::program::{done, json, refused};

#[test]
fn kinds_are_compared_on_the_same_folds() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let line = "compare train.npz --bank single --folds 3 --delay 30ms --step 10ms";
    let told = json(
        folder,
        &format!("{line} --decoders linear,kalman,lift --picture kinds.svg"),
    );
    let kinds = told["kinds"].as_array().unwrap();
    let names: Vec<&str> = kinds
        .iter()
        .map(|k| k["decoder"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["linear", "kalman", "lift"]);
    for kind in kinds {
        assert_eq!(kind["outputs"].as_array().unwrap().len(), 2);
        assert!(kind["r2"].as_f64().unwrap() > 0.5, "{kind}");
        assert!(kind["multiply_adds"].as_f64().unwrap() > 0.0, "{kind}");
        assert!(kind["step_us"].as_f64().unwrap() > 0.0 && kind["seconds"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(kinds[0]["gain"], 0.0);
    // The scores are those that `train` finds for the kind alone, on the same folds.
    let train = "train train.npz --out lift.betz --bank single --folds 3 --delay 30ms --step 10ms";
    let lift = json(folder, &format!("{train} --decoder lift"));
    assert_eq!(lift["kinds"][1]["r2"], kinds[2]["r2"]);
    assert_eq!(lift["kinds"][0]["r2"], kinds[0]["r2"]);
    let svg = fs::read_to_string(folder.join("kinds.svg")).unwrap();
    for name in names {
        assert!(svg.contains(name), "{name}");
    }
}

#[test]
fn a_kind_that_cannot_be_trained_is_named_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let line = "compare train.npz --bank single --folds 2";
    // A decoder of place would need more cells than this recording's outputs allow for; ReFIT wants velocities.
    let told = json(folder, &format!("{line} --decoders refit"));
    assert_eq!(told["kinds"].as_array().unwrap().len(), 1);
    assert_eq!(told["kinds"][0]["decoder"], "linear");
    assert_eq!(
        (&told["failed"][0]["decoder"], &told["best"]),
        (&"refit".into(), &"linear".into())
    );
    assert!(!told["failed"][0]["reason"].as_str().unwrap().is_empty());
    let text = done(folder, &format!("{line} --decoders refit"));
    assert!(text.contains("refit: not trained: "), "{text}");
    for (options, words) in [
        ("--folds 1", "expected 2 to 1000"),
        ("--folds 0", "expected 2 to 1000"),
        ("--decoders best", "--decoders"),
        ("--decoders gru", "recurrent"),
        ("--bank nope", "--bank"),
        ("--step 0", "above 0 s"),
    ] {
        refused(folder, &format!("compare train.npz {options}"), 2, words);
    }
}

#[test]
fn the_recurrent_kind_takes_part() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let line =
        "compare train.npz --bank single --folds 2 --step 20ms --decoders recurrent --epochs 1";
    let told = json(folder, line);
    assert_eq!(told["kinds"][1]["decoder"], "recurrent");
    assert_eq!(told["kinds"][1]["outputs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_blend_and_its_members_are_scored_on_what_they_were_not_trained_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let line = "compare train.npz --bank single --folds 3 --step 50ms --epochs 4 --decoders auto";
    let told = json(folder, line);
    assert_eq!(told["kinds"].as_array().unwrap().len(), 1);
    let rows = told["blend"]["rows"].as_array().unwrap();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["decoder"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["linear", "lift", "experts", "recurrent", "blend"]);
    let weights: f64 = rows.iter().filter_map(|row| row["weight"].as_f64()).sum();
    assert!((weights - 1.0).abs() < 1e-9, "{rows:?}");
    let best = rows
        .iter()
        .map(|row| row["r2"].as_f64().unwrap())
        .fold(f64::MIN, f64::max);
    let named = rows
        .iter()
        .find(|row| row["decoder"] == told["best"])
        .unwrap();
    assert_eq!(named["r2"].as_f64().unwrap(), best);
    assert!(told["blend"]["step_us"].as_f64().unwrap() > 0.0);
    let text = done(folder, line);
    assert!(
        text.contains("on 3 parts that come after the training"),
        "{text}"
    );
}
