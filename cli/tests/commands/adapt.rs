//! Drift and adapting on the command line.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use serde_json::Value;

use crate::program::{betz, json, refused};

/// A recording and a model of it that retains its sums.
fn prepared(folder: &Path) {
    json(
        folder,
        "simulate --out a.npz --test-out b.npz --neurons 16 --seconds 15 --test-seconds 15 --tick 0.001 --seed 3",
    );
    json(
        folder,
        "train a.npz --step 0.02 --filter 0.02:0 --filter 0.1:1 --ridge 2 --folds 0 --retain --out m.betz",
    );
}

#[test]
fn a_drifted_recording_is_adapted_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let drifted = json(
        folder,
        "drift b.npz --lose 3 --swap 4 --scream 1 --gain 0.2,0.7 --at 5 --seed 3 --out d.npz",
    );
    for (what, count) in [("lost", 3), ("swapped", 4), ("screaming", 1), ("weaker", 8)] {
        assert_eq!(drifted[what].as_array().unwrap().len(), count, "{what}");
    }
    json(folder, "drift b.npz --lose 3 --at 5 --seed 3 --out d.npz");
    refused(
        folder,
        "drift b.npz --lose 3 --at 5 --out b.npz",
        2,
        "expected another file than",
    );
    // One long segment is one trial: it is decoded as it was, then learned from.
    let adapted = json(folder, "adapt m.betz d.npz --out n.betz");
    assert_eq!(
        (&adapted["trials"], &adapted["windows"][0]["last_trial"]),
        (&1.into(), &0.into())
    );
    let window = &adapted["windows"][0];
    for (a, b) in
        (window["frozen"].as_array().unwrap().iter()).zip(window["adapted"].as_array().unwrap())
    {
        assert!((a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-5);
    }
    let same = json(folder, "evaluate n.betz b.npz");
    assert_eq!(same["rates_hz"].get("changed"), None, "{same}");
    let lost = json(
        folder,
        "drift b.npz --lose 3 --at 1 --seed 3 --out lost.npz",
    );
    let told = json(folder, "evaluate m.betz lost.npz");
    let changed = told["rates_hz"]["changed"].as_array().unwrap().iter();
    let mut changed: Vec<String> = changed.map(|c| c["channel"].to_string()).collect();
    let lost = lost["lost"].as_array().unwrap().iter();
    let mut lost: Vec<String> = lost.map(Value::to_string).collect();
    changed.sort();
    lost.sort();
    assert_eq!(changed, lost);
    let streamed = betz(folder, "stream m.betz lost.npz");
    let said = String::from_utf8_lossy(&streamed.stderr);
    assert!(said.contains("drift: 3 channels changed to less"), "{said}");
    let table = betz(folder, "adapt m.betz d.npz");
    let said = String::from_utf8(table.stdout).unwrap();
    assert!(
        said.contains("0 accepted, 0 refused, 0 rolled back"),
        "{said}"
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    json(
        folder,
        "train a.npz --step 0.02 --filter 0.1:1 --ridge 2 --folds 0 --out plain.betz",
    );
    for (line, code, words) in [
        ("drift b.npz --at 5 --out x.npz", 2, "expected a change"),
        ("drift b.npz --lose 17 --at 5 --out x.npz", 2, "16 channels"),
        (
            "drift b.npz --lose 1 --at 15 --out x.npz",
            2,
            "expected a moment",
        ),
        (
            "drift b.npz --gain 0.7,0.2 --at 5 --out x.npz",
            2,
            "LOW <= HIGH",
        ),
        ("drift b.npz --gain 0.7,2 --at 5 --out x.npz", 2, "shares"),
        ("drift b.npz --lose 1 --at 5 --out x.csv", 2, ".npz"),
        ("adapt plain.betz b.npz", 1, "--retain"),
        ("adapt m.betz b.npz --half-life 0", 2, "half-life above 0"),
        ("adapt m.betz b.npz --batch 1", 2, "2 to 10,000"),
        ("adapt m.betz b.npz --window 0", 2, "--window"),
        (
            "adapt m.betz b.npz --shuffle-labels 3..9",
            2,
            "within 1 trial",
        ),
        (
            "adapt m.betz b.npz --out m.betz",
            2,
            "expected another file than",
        ),
    ] {
        refused(folder, line, code, words);
        assert!(!folder.join("x.npz").exists());
    }
}

#[test]
fn a_recurrent_model_is_adapted_without_stored_sums() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(
        folder,
        "simulate --out a.npz --test-out b.npz --neurons 16 --seconds 15 --test-seconds 15 --tick 0.001 --seed 3",
    );
    json(
        folder,
        "train a.npz --step 0.05 --filter 0.1:1 --folds 2 --decoder recurrent --layers 16 --epochs 10 --out r.betz",
    );
    let adapted = json(folder, "adapt r.betz b.npz --out n.betz");
    assert_eq!(adapted["decoder"], "recurrent");
    assert_eq!(
        (&adapted["trials"], &adapted["dropped"]),
        (&1.into(), &0.into())
    );
    assert!(
        adapted["effective_steps"].as_f64().unwrap() > 100.0,
        "{adapted}"
    );
    json(folder, "evaluate n.betz b.npz");
}
