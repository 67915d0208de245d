//! Sums as files: summed, merged, solved, held back and refused.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use crate::program::{json, refused};

const BANK: &str = "--step 0.02 --filter 0.02:0 --filter 0.1:1";

/// Three recordings of one population.
fn prepared(folder: &Path) {
    json(
        folder,
        "simulate --out a.npz --test-out c.npz --neurons 12 --seconds 12 --test-seconds 6 --tick 0.001 --seed 3",
    );
    for (name, part) in [("a", "--until 6"), ("b", "--from 6")] {
        let summed = json(
            folder,
            &format!("sums a.npz {BANK} {part} --out {name}.sums"),
        );
        assert_eq!(
            (&summed["features"], &summed["parts"]),
            (&24.into(), &1.into())
        );
    }
    json(folder, &format!("sums c.npz {BANK} --out c.sums"));
}

#[test]
fn sums_are_merged_in_any_order_and_solved() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let bytes = |name: &str| fs::read(folder.join(name)).unwrap();
    json(folder, "sums a.sums b.sums --out ab.sums");
    json(folder, "sums b.sums a.sums --out ba.sums");
    assert!(bytes("ab.sums") == bytes("ba.sums"));
    // A recording beside sums.
    let mixed = json(folder, &format!("sums ab.sums c.npz {BANK} --out all.sums"));
    assert_eq!(mixed["parts"], 3);
    json(
        folder,
        "solve a.sums b.sums c.sums --noise 0.1 --out one.betz",
    );
    json(folder, "solve c.sums ba.sums --noise 0.1 --out other.betz");
    json(folder, "solve all.sums --noise 0.1 --out third.betz");
    assert!(bytes("one.betz") == bytes("other.betz") && bytes("one.betz") == bytes("third.betz"));
    let kept = format!("sums c.npz {BANK} --keep-artefacts --out kept.sums");
    assert_eq!(json(folder, &kept)["keeps_artefacts"], true);
    assert_eq!(json(folder, "info kept.sums")["keeps_artefacts"], true);
    assert_eq!(mixed["keeps_artefacts"], false);
    // The same as training at the same ridge.
    json(
        folder,
        &format!("train c.npz {BANK} --folds 0 --ridge 2 --out trained.betz"),
    );
    json(folder, "solve c.sums --ridge 2 --out solved.betz --retain");
    let r2 = |model: &str| {
        let scores = json(folder, &format!("evaluate {model} a.npz"));
        scores["outputs"][0]["r2"].as_f64().unwrap()
    };
    assert!((r2("trained.betz") - r2("solved.betz")).abs() < 1e-9);
    // Held back, and what evaluating says of the same.
    let chosen = json(folder, "solve ab.sums --hold-back c.sums --out best.betz");
    let scores = json(folder, "evaluate best.betz c.npz");
    let [held, scored] = [&chosen["held_back"][0], &scores["outputs"][0]].map(|o| o["r2"].as_f64());
    assert!(
        (held.unwrap() - scored.unwrap()).abs() < 1e-4,
        "{held:?} and {scored:?}"
    );
    // Each file decoded by what the others say; the model is that of all of them.
    let folds = json(
        folder,
        "solve a.sums b.sums c.sums --validate --out folds.betz",
    );
    // That is what happens by default.
    let by_default = json(folder, "solve a.sums b.sums c.sums --out default.betz");
    assert_eq!(by_default["ridge"], folds["ridge"]);
    let left_out = folds["validated"][0]["r2"].as_f64().unwrap();
    assert!(left_out > 0.3 && left_out < 1.0, "{folds}");
    assert!(folds["held_back"].is_null() && folds["parts"] == 3);
    let ridge = folds["ridge"].as_f64().unwrap();
    json(
        folder,
        &format!("solve a.sums b.sums c.sums --ridge {ridge} --out same.betz"),
    );
    let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(bytes("folds.betz") == bytes("same.betz"));
    // A model is solved again, and channels dropped, from what it retains.
    json(folder, "solve solved.betz --ridge 50 --out harder.betz");
    json(folder, "solve c.sums --ridge 50 --out hard.betz");
    assert!((r2("harder.betz") - r2("hard.betz")).abs() < 1e-9);
    json(folder, "drop harder.betz --channels 3 --out less.betz");
    let inside = json(folder, "info all.sums");
    assert_eq!(
        (&inside["kind"], &inside["channels"]),
        (&"sums".into(), &12.into())
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    json(folder, "solve a.sums --out m.betz");
    json(
        folder,
        "sums c.npz --step 0.02 --filter 0.05:1 --out bank.sums",
    );
    for (line, code, words) in [
        ("sums a.npz --out x.sums", 2, "--bank: expected the bank"),
        (
            "sums a.sums --bank reach --out x.sums",
            2,
            "whose bank is fixed",
        ),
        (
            "sums a.npz --bank fast --out x.sums",
            2,
            "expected one of single",
        ),
        (
            "sums a.sums b.sums --segments 0 --out x.sums",
            2,
            "expected one recording",
        ),
        ("sums a.sums a.sums --out x.sums", 1, "the same sums twice"),
        (
            "sums a.sums --keep-artefacts --out x.sums",
            2,
            "--keep-artefacts: expected a recording",
        ),
        ("sums a.sums bank.sums --out x.sums", 1, "same bank"),
        ("sums m.betz --bank reach --out x.sums", 1, "m.betz"),
        (
            "sums a.sums b.sums --out a.sums",
            2,
            "expected another file than",
        ),
        ("sums a.sums b.sums --out a.npz", 2, "--force"),
        (
            "solve a.sums b.sums a.sums --out x.betz",
            1,
            "the same sums twice",
        ),
        ("solve a.sums m.betz --out x.betz", 2, "among them a model"),
        (
            "solve m.betz --out x.betz",
            2,
            "--ridge: expected the ridge",
        ),
        ("solve m.betz --ridge 3 --out x.betz", 1, "--retain"),
        (
            "solve m.betz --noise 0.1 --out x.betz",
            2,
            "--noise: expected sums",
        ),
        (
            "solve a.sums --hold-back a.sums --out x.betz",
            1,
            "held back",
        ),
        (
            "solve a.sums --validate --out x.betz",
            2,
            "at least 2 parts, got 1",
        ),
        (
            "solve a.sums --hold-back b.sums --ridge 1 --out x.betz",
            2,
            "cannot be used",
        ),
        ("solve a.sums --ridge -1 --out x.betz", 2, "ridge: expected"),
        ("solve a.npz --out x.betz", 1, "not Betz's sums"),
        (
            "solve a.sums --retain=1KiB --out x.betz",
            2,
            "retained sums: expected",
        ),
        (
            "info a.sums --picture x.svg",
            2,
            "--picture: expected a recording",
        ),
    ] {
        refused(folder, line, code, words);
        assert!(!folder.join("x.betz").exists() && !folder.join("x.sums").exists());
    }
    let mut damaged = fs::read(folder.join("a.sums")).unwrap();
    damaged[100] ^= 1;
    fs::write(folder.join("d.sums"), damaged).unwrap();
    refused(
        folder,
        "solve d.sums --out x.betz",
        1,
        "damaged: expected checksum",
    );
}
