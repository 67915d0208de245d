//! Classes on the command line: trained on labels of each form, evaluated, and as a gate of velocities.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write;
use std::path::Path;

use crate::program::{betz, fails, json};

fn simulated(folder: &Path) {
    let line = "simulate --out train.npz --test-out test.npz --neurons 30 --seconds 40 --test-seconds 10 --seed 3";
    json(folder, line);
}

const TRAIN: &str =
    "train train.npz --step 0.02 --filter 0.02:0 --filter 0.1:1 --folds 3 --lift-units 16";

#[test]
fn a_condition_and_its_intervals_make_classes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulated(folder);
    let trained = json(
        folder,
        &format!("{TRAIN} --labels right=x>0 --decoder classes --out m.betz"),
    );
    assert_eq!(trained["decoder"], "classes");
    let scores = &trained["classes"]["scores"];
    assert_eq!(scores["classes"], serde_json::json!(["not right", "right"]));
    let by_training = scores["auc"][1].as_f64().unwrap();
    let evaluated = json(folder, "evaluate m.betz test.npz");
    let auc = evaluated["classes"]["auc"][1].as_f64().unwrap();
    assert!(by_training > 0.9 && auc > 0.9, "{by_training} and {auc}");
    // Probabilities are no behaviour: they are streamed without a score.
    let streamed = json(folder, "stream m.betz test.npz --out stream.csv");
    assert!(
        streamed["outputs"].as_array().is_none_or(Vec::is_empty),
        "{streamed}"
    );
    let table = std::fs::read_to_string(folder.join("stream.csv")).unwrap();
    assert!(
        table.lines().next().unwrap().ends_with("not right,right"),
        "{}",
        &table[..80]
    );
    // The same labels as intervals of a file: the output's sign from a table of the truth.
    json(
        folder,
        "train train.npz --decoder linear --step 0.02 --filter 0.1:1 --folds 2 --out linear.betz",
    );
    json(folder, "evaluate linear.betz test.npz --out table.csv");
    let table = std::fs::read_to_string(folder.join("table.csv")).unwrap();
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let truth = header
        .iter()
        .position(|name| *name == "x_true")
        .expect(&table[..200]);
    let mut intervals = String::from("start,stop,name\n");
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let name = if cells[truth].parse::<f64>().unwrap() > 0.0 {
            "right"
        } else {
            "not right"
        };
        writeln!(intervals, "{},{},{name}", cells[1], cells[2]).unwrap();
    }
    std::fs::write(folder.join("labels.csv"), intervals).unwrap();
    let again = json(folder, "evaluate m.betz test.npz --labels labels.csv");
    let other = again["classes"]["auc"][1].as_f64().unwrap();
    assert!((other - auc).abs() < 1e-3, "{other} and {auc}");
}

#[test]
fn a_class_gates_velocities() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulated(folder);
    let line = format!("{TRAIN} --velocity x,y --labels right=x>0 --gate right --out g.betz");
    let trained = json(folder, &line);
    assert_eq!(trained["decoder"], "gated");
    let gate = &trained["gate"];
    let (before, after) = (
        gate["r2_before"].as_f64().unwrap(),
        gate["r2"].as_f64().unwrap(),
    );
    assert!(after >= before - 1e-3, "{before} and {after}");
    let evaluated = json(folder, "evaluate g.betz test.npz");
    assert_eq!(evaluated["outputs"].as_array().unwrap().len(), 2);
    assert!(evaluated["classes"]["auc"][1].as_f64().unwrap() > 0.9);
}

/// Sums over labels of two recordings, merged in either order, give the same model, bit for bit.
#[test]
fn sums_over_labels_make_calibrated_classes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulated(folder);
    let sums = "sums train.npz --step 0.02 --filter 0.02:0 --filter 0.1:1 --labels right=x>0";
    json(folder, &format!("{sums} --until 20 --out a.sums"));
    json(folder, &format!("{sums} --from 20 --out b.sums"));
    json(
        folder,
        &format!("{} --out x.sums", sums.replace(" --labels right=x>0", "")),
    );
    let options = "--calibrate test.npz --labels right=x>0 --out";
    let solved = json(folder, &format!("solve a.sums b.sums {options} m.betz"));
    assert_eq!(
        (&solved["decoder"], &solved["parts"]),
        (&"classes".into(), &2.into())
    );
    let auc = solved["classes"]["scores"]["auc"][1].as_f64().unwrap();
    assert!(auc > 0.9, "{solved}");
    json(folder, &format!("solve b.sums a.sums {options} n.betz"));
    let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(bytes("m.betz") == bytes("n.betz"));
    let evaluated = json(folder, "evaluate m.betz train.npz");
    assert!(evaluated["classes"]["auc"][1].as_f64().unwrap() > 0.9);
    for (line, part) in [
        (
            format!("solve x.sums {options} x.betz"),
            "expected sums over labels",
        ),
        (
            "solve a.sums --calibrate train.npz --until 20 --labels right=x>0 --out x.betz".into(),
            "in none of the sums",
        ),
        (
            "solve a.sums --calibrate test.npz --out x.betz".into(),
            "--labels",
        ),
        (
            "solve a.sums --ridge 1 --from 2 --out x.betz".into(),
            "expected --calibrate",
        ),
        (
            "sums a.sums b.sums --labels right=x>0 --out x.sums".into(),
            "expected a recording to sum",
        ),
        (format!("{sums} --out x.sums --memory 1GiB"), "--memory"),
        (
            format!("solve a.sums {options} x.betz --priors 0.5,0.6"),
            "add up to 1",
        ),
    ] {
        fails(folder, &line, part);
    }
}

#[test]
fn what_does_not_go_together_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulated(folder);
    for (options, part) in [
        ("--decoder classes", "expected --labels"),
        ("--gate right", "--gate: expected --labels"),
        (
            "--labels right=x>0 --decoder lift",
            "--labels: expected --decoder classes",
        ),
        (
            "--labels right=x>0 --decoder linear",
            "--labels: expected --decoder classes, or --gate CLASS with --decoder linear, got neither",
        ),
        (
            "--labels right=x>0 --gate right --decoder lift",
            "--gate: expected --decoder linear",
        ),
        (
            "--labels right=x>0 --gate left",
            "expected one of the classes [not right, right], got \"left\"",
        ),
        (
            "--labels right=x>0 --gate right",
            "expected outputs that are velocities",
        ),
        ("--labels right=x>1e9", "only \"not right\""),
        ("--labels right=x>much", "expected NAME=COLUMN>LIMIT"),
        (
            "--labels state",
            "expected the name of a column of behaviour",
        ),
        ("--labels x", "expected whole numbers"),
        ("--labels right=x>0 --priors 0.5,0.6", "add up to 1"),
        (
            "--labels right=x>0 --false-alarms 0",
            "false alarms per minute",
        ),
    ] {
        fails(folder, &format!("{TRAIN} {options} --out m.betz"), part);
    }
    // Labels without a kind stand for classes; these have nothing to do with the spikes.
    let intervals: String = (0..40)
        .map(|i| format!("{i},{},{}\n", i + 1, ["a", "b"][i % 2]))
        .collect();
    std::fs::write(folder.join("labels.csv"), intervals).unwrap();
    let line = format!("{TRAIN} --labels labels.csv --false-alarms 1e-9 --out m.betz");
    let trained = betz(folder, &line);
    let warning = String::from_utf8_lossy(&trained.stderr);
    let words = "warning: no class makes events: ";
    assert!(warning.contains(words), "{warning}");
    assert_eq!(json(folder, &line)["decoder"], "classes");
    std::fs::write(folder.join("labels.csv"), "0,2,a\n1,3,b\n").unwrap();
    let line = format!("{TRAIN} --labels labels.csv --out m.betz");
    fails(folder, &line, "do not overlap");
}

/// A drifted recording is unlike training; the value is that of every complete window.
#[test]
fn a_drifted_recording_is_unlike_training() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulated(folder);
    let line = "train train.npz --decoder linear --step 0.02 --filter 0.1:1 --folds 2 --out";
    json(folder, &format!("{line} m.betz --retain"));
    json(
        folder,
        "drift test.npz --gain 0.1,0.4 --swap 10 --at 0 --seed 3 --out drifted.npz",
    );
    let newest = |recording: &str| {
        let streamed = json(folder, &format!("stream m.betz {recording} --unlike=8"));
        let found = &streamed["unlike_training"];
        assert_eq!(found["lost_steps"], 0);
        // 10 s in parts of 0.4 s: five windows of 8 s end there.
        assert_eq!(found["windows"].as_array().unwrap().len(), 6);
        found["windows"][5]["latents"].as_f64().unwrap()
    };
    let (like, drifted) = (newest("test.npz"), newest("drifted.npz"));
    assert!(drifted > 3.0 * like, "{drifted} and {like}");
    // 10 s are too short to recalibrate for: the model is written as it was.
    let short = json(
        folder,
        "adapt m.betz drifted.npz --no-labels=apply --out same.betz",
    );
    assert_eq!(short["applied"], false);
    assert!(
        short["refusal"].as_str().unwrap().contains("10 s"),
        "{short}"
    );
    let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(bytes("m.betz") == bytes("same.betz"));
    fails(
        folder,
        "adapt m.betz drifted.npz --no-labels=apply",
        "--out MODEL",
    );
    fails(
        folder,
        "adapt m.betz drifted.npz --no-labels --out x.betz",
        "--no-labels=apply",
    );
    let said = crate::program::done(folder, "stream m.betz test.npz --unlike");
    assert!(
        said.contains("unlike training: no complete window of 100 s"),
        "{said}"
    );
    json(folder, &format!("{line} without.betz"));
    fails(folder, "stream without.betz test.npz --unlike", "--retain");
}
