//! `--memory`: recordings read in stretches.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use crate::program::{json, refused};

fn r2(folder: &Path, command: &str) -> f64 {
    let scores = json(folder, command);
    scores["outputs"][0]["r2"].as_f64().unwrap()
}

#[test]
fn training_in_little_memory_is_training() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(
        folder,
        "simulate --out a.npz --test-out b.npz --neurons 12 --seconds 40 --test-seconds 10 --tick 0.001 --seed 3",
    );
    let bank = "--step 0.02 --filter 0.02:0 --filter 0.1:1";
    for part in ["", "--from 3 --until 30", "--folds 0"] {
        let whole = json(
            folder,
            &format!("train a.npz --decoder linear {bank} {part} --out whole.betz"),
        );
        let long = json(
            folder,
            &format!("train a.npz {bank} {part} --memory 200kB --out long.betz"),
        );
        for fact in [
            "steps",
            "segments",
            "spikes",
            "folds",
            "masked_channels",
            "gram",
        ] {
            assert_eq!(whole[fact], long[fact], "{fact} {part}");
        }
        let ridges = [&whole, &long].map(|trained| trained["ridge"].as_f64().unwrap());
        assert!((ridges[0] / ridges[1] - 1.0).abs() < 1e-5, "{ridges:?}");
        let in_memory = r2(folder, "evaluate whole.betz b.npz");
        let in_stretches = r2(
            folder,
            "evaluate long.betz b.npz --memory 100kB --out long.csv",
        );
        assert!(
            (in_memory - in_stretches).abs() < 1e-4,
            "{in_memory} {in_stretches}"
        );
        json(folder, "evaluate whole.betz b.npz --out whole.csv");
        let lines = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let (whole, long) = (lines("whole.csv"), lines("long.csv"));
        assert_eq!(whole.lines().next(), long.lines().next());
        assert_eq!(whole.lines().count(), long.lines().count());
    }
    json(folder, &format!("sums a.npz {bank} --out whole.sums"));
    json(
        folder,
        &format!("sums a.npz {bank} --memory 200kB --out long.sums"),
    );
    let solved = |name: &str| {
        json(
            folder,
            &format!("solve {name}.sums --ridge 2 --out {name}.betz"),
        );
        r2(folder, &format!("evaluate {name}.betz b.npz"))
    };
    assert!((solved("whole") - solved("long")).abs() < 1e-5);
}

#[test]
fn mining_in_little_memory_is_mining() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(folder, "simulate --network --sym26 --seed 2 --out s.npz");
    let mine = "mine s.npz --interval 0.004,0.006 --threshold 240";
    let whole = json(folder, &format!("{mine} --csv whole.csv"));
    let long = json(folder, &format!("{mine} --memory 300kB --csv long.csv"));
    assert_eq!(whole["episodes"], long["episodes"]);
    assert_eq!(whole["events"], long["events"]);
    let bytes = |name: &str| fs::read(folder.join(name)).unwrap();
    assert!(bytes("whole.csv") == bytes("long.csv"));
    let mine = format!("{mine} --surrogates 19 --seed 4 --fdr 0.5");
    let whole = json(folder, &format!("{mine} --csv whole.csv"));
    let long = json(folder, &format!("{mine} --memory 2MB --csv long.csv"));
    assert_eq!(whole["episodes"], long["episodes"]);
    assert_eq!(whole["chance"], long["chance"]);
    assert!(!whole["chance"].is_null());
    assert!(bytes("whole.csv") == bytes("long.csv"));
}

#[test]
fn what_wants_the_whole_in_memory_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(
        folder,
        "simulate --out a.npz --neurons 4 --seconds 8 --tick 0.001 --seed 3",
    );
    json(
        folder,
        "train a.npz --decoder linear --filter 0.1:1 --step 0.02 --out m.betz",
    );
    json(folder, "simulate --sym26 --out e.csv");
    for (command, expected) in [
        (
            "train a.npz --memory 1MB --decoder kalman --out n.betz",
            "--decoder",
        ),
        (
            "train a.npz --memory 1MB --delay auto --out n.betz",
            "--delay auto",
        ),
        ("train a.npz --memory 0 --out n.betz", "--memory"),
        (
            "train a.npz --memory 1 --out n.betz",
            "'--memory <SIZE>': expected at least 4kB",
        ),
        (
            "train a.npz --memory 4KiB --bank wide --out n.betz",
            "memory: expected at least ",
        ),
        (
            "sums a.npz --memory 4KiB --bank wide --out n.sums",
            "memory: expected at least ",
        ),
        ("train e.csv --memory 1MB --out n.betz", ".npz"),
        (
            "evaluate m.betz a.npz --memory 1MB --importance",
            "--importance",
        ),
        (
            "mine e.csv --interval 0,0.005 --threshold 9 --memory 1MB",
            ".npz",
        ),
        (
            "mine a.npz --interval 0,0.005 --threshold 9 --memory 1MB --surrogates 9 --fdr 0.1 --parts",
            "--parts",
        ),
        (
            "mine a.npz --interval 0,0.005 --threshold 9 --memory 1MB --surrogates 9 --shuffle",
            "--shuffle",
        ),
    ] {
        refused(folder, command, 2, expected);
    }
    assert!(!folder.join("n.betz").exists());
}
