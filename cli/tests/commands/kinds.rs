//! Decoders of every kind on the command line: trained, evaluated, streamed, and without some channels.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use serde_json::Value;

use crate::program::{done, fails, json};

fn simulated(folder: &Path) {
    let line = "simulate --out train.npz --test-out test.npz --neurons 20 --seconds 20 --test-seconds 5 --seed 3";
    json(folder, line);
}

const TRAIN: &str = "train train.npz --step 0.02 --filter 0.02:0 --filter 0.1:1 --folds 3";

#[test]
fn every_kind_is_trained_evaluated_and_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulated(folder);
    for (kind, options) in [
        ("lift", "--latents 4 --lift-units 32"),
        ("experts", "--latents 4 --experts 3"),
        ("kalman", ""),
        ("place", "--cells 12"),
        ("recurrent", "--layers 32 --epochs 20"),
        ("auto", "--latents 3 --experts 2 --layers 16 --epochs 20"),
    ] {
        let trained = json(
            folder,
            &format!("{TRAIN} --decoder {kind} {options} --out m.betz"),
        );
        let kinds = trained["kinds"].as_array().unwrap();
        assert_eq!(kinds[0]["decoder"], "linear");
        assert_eq!(kinds.len(), if kind == "auto" { 5 } else { 2 });
        if kind == "auto" {
            let weight = |row: &serde_json::Value| row["weight"].as_f64();
            let sum: f64 = kinds.iter().filter_map(weight).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{kinds:?}");
            assert_eq!(kinds[4]["decoder"], "blend");
            let inside = json(folder, "info m.betz");
            assert_eq!(inside["decoder"], trained["decoder"]);
        } else {
            assert_eq!(
                (&trained["decoder"], &kinds[1]["decoder"]),
                (&kind.into(), &kind.into())
            );
        }
        assert!(
            kinds
                .iter()
                .all(|k| k["multiply_adds"].as_f64().unwrap() > 0.0)
        );
        let evaluated = json(folder, "evaluate m.betz test.npz");
        let streamed = json(folder, "stream m.betz test.npz");
        for (a, b) in (evaluated["outputs"].as_array().unwrap().iter())
            .zip(streamed["outputs"].as_array().unwrap())
        {
            let (a, b) = (a["r2"].as_f64().unwrap(), b["r2"].as_f64().unwrap());
            assert!((a - b).abs() < 1e-6 && a > 0.3, "{kind}: {a} and {b}");
        }
        assert!(evaluated["median_error"].as_f64().unwrap() > 0.0);
        let posterior = &evaluated["posterior"];
        assert_eq!(posterior.is_object(), kind == "place");
        if kind == "place" {
            assert!(posterior["likeliest_median_error"].as_f64().unwrap() > 0.0);
            assert!(posterior["median_spread"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn variances_are_told_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulated(folder);
    let lift = format!("{TRAIN} --decoder lift --latents 4 --lift-units 32 --out m.betz");
    json(folder, &lift);
    let plain = json(folder, "evaluate m.betz test.npz");
    assert_eq!(plain.get("variances"), None);
    json(folder, &format!("{lift} --variance"));
    let told = json(folder, "evaluate m.betz test.npz");
    let scores = told["variances"].as_array().unwrap();
    assert_eq!(scores.len(), told["outputs"].as_array().unwrap().len());
    for (score, (a, b)) in scores
        .iter()
        .zip((plain["outputs"].as_array().unwrap().iter()).zip(told["outputs"].as_array().unwrap()))
    {
        let within = score["within_90"].as_f64().unwrap();
        assert!((0.6..1.0).contains(&within), "{score}");
        // Estimates stay as they are.
        let (a, b) = (a["r2"].as_f64().unwrap(), b["r2"].as_f64().unwrap());
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
    // A linear decoder tells none, and is trained all the same.
    json(
        folder,
        &format!("{TRAIN} --decoder linear --variance --out l.betz"),
    );
    assert_eq!(
        json(folder, "evaluate l.betz test.npz").get("variances"),
        None
    );
    // Channels are watched unless that is not wanted.
    json(folder, "stream l.betz test.npz --no-watch");
    fails(
        folder,
        "stream l.betz test.npz --no-watch --watch",
        "cannot be used with",
    );
}

#[test]
fn dropped_channels_leave_what_training_without_them_gives() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulated(folder);
    json(
        folder,
        &format!("{TRAIN} --ridge 5 --retain --out all.betz"),
    );
    let dropped = json(folder, "drop all.betz --channels 3,17 --out some.betz");
    assert_eq!(dropped["channels_left"], 18);
    let whole = json(folder, "evaluate all.betz test.npz");
    let some = json(folder, "evaluate some.betz test.npz");
    let r2 = |value: &Value| value["outputs"][0]["r2"].as_f64().unwrap();
    assert!((r2(&whole) - r2(&some)).abs() < 0.3 && r2(&whole) != r2(&some));
    // Again, from the dropped one.
    json(folder, "drop some.betz --channels 0 --out fewer.betz");
    fails(
        folder,
        "drop all.betz --channels 20 --out x.betz",
        "--channels: expected",
    );
    json(
        folder,
        &format!("{TRAIN} --decoder linear --ridge 5 --out plain.betz"),
    );
    fails(
        folder,
        "drop plain.betz --channels 1 --out x.betz",
        "a lift or experts with --retain",
    );
    fails(
        folder,
        &format!("{TRAIN} --retain=1KiB --out x.betz"),
        "retained sums: expected",
    );
    for kind in ["kalman", "place", "recurrent", "refit"] {
        fails(
            folder,
            &format!("{TRAIN} --decoder {kind} --retain --out x.betz"),
            &format!("which keep them, got {kind}"),
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulated(folder);
    for (line, words) in [
        (
            "--decoder lift --lift-units 0",
            "units of a lift: expected 1 to 16384, got 0",
        ),
        (
            "--decoder lift --latents 65",
            "latents: expected 1 to 64, got 65",
        ),
        (
            "--decoder experts --experts 1",
            "experts: expected 2 to 256, got 1",
        ),
        (
            "--decoder linear --latents 3",
            "--latents: expected --decoder lift or experts or classes or auto or best, got linear",
        ),
        (
            "--decoder place --latents 3",
            "--latents: expected --decoder lift or experts or classes or auto or best, got place",
        ),
        (
            "--decoder lift --budget 10s",
            "--budget: expected --decoder auto, got lift",
        ),
        (
            "--decoder place --cells 3",
            "cells: expected 4 to 1000, got 3",
        ),
        (
            "--decoder refit",
            "refit: expected outputs that are a place's coordinates and as many velocities",
        ),
        (
            "--decoder experts --lift-units 8",
            "--lift-units: expected --decoder lift or classes or auto or best, got experts",
        ),
    ] {
        fails(folder, &format!("{TRAIN} {line} --out x.betz"), words);
    }
    fails(
        folder,
        "train train.npz --filter 0.1:1 --folds 0 --decoder auto --out x.betz",
        "--folds of at least 2",
    );
    json(folder, &format!("{TRAIN} --budget 1us --out m.betz"));
    fails(
        folder,
        "evaluate m.betz test.npz --moving -3",
        "least speed",
    );
}

#[test]
fn a_recurrent_decoder_comes_back_from_safetensors_and_onnx() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate --out a.npz --neurons 10 --seconds 60 --tick 0.001",
    );
    let train = "train a.npz --out m.betz --filter 0.02:1 --step 0.05 --folds 2";
    done(
        folder,
        &format!("{train} --decoder recurrent --layers 16,16 --epochs 5 --members 2 --mixed 0"),
    );
    done(folder, "export m.betz --safetensors m.safetensors");
    // Its own result may be replaced.
    let export = "export m.betz --safetensors m.safetensors --onnx m.onnx";
    done(folder, export);
    let import = "--recording a.npz --step 0.05 --out i.betz";
    let decoded = |model: &str| {
        let out = format!("{model}.csv");
        done(folder, &format!("decode {model} a.npz --out {out}"));
        let text = std::fs::read_to_string(folder.join(out)).unwrap();
        let rows = text
            .lines()
            .skip(1)
            .flat_map(|line| line.split(',').skip(4));
        rows.map(|value| value.parse::<f64>().unwrap())
            .collect::<Vec<f64>>()
    };
    let own = decoded("m.betz");
    for ending in ["safetensors", "onnx"] {
        let imported = json(folder, &format!("import m.{ending} {import}"));
        assert_eq!(imported["network"], "2 members of gru 16, 16");
        let again = decoded("i.betz");
        assert_eq!(own.len(), again.len());
        for (a, b) in own.iter().zip(&again) {
            assert!((a - b).abs() <= 1e-6 * (1.0 + a.abs()), "{ending}: {a} {b}");
        }
    }
    done(
        folder,
        &format!(
            "{} --decoder linear",
            train.replace("m.betz", "linear.betz")
        ),
    );
    done(folder, "export linear.betz --onnx linear.onnx");
    fails(
        folder,
        &format!("import linear.onnx {import}"),
        "betz decode, built with --features graph",
    );
    for weights in ["bf16", "int8"] {
        let line = format!("import m.safetensors {import} --weights {weights}");
        assert_eq!(json(folder, &line)["network"], "2 members of gru 16, 16");
        let sizes = "--decoder recurrent --layers 16,16 --epochs 5 --mixed 0";
        let trained = json(folder, &format!("{train} {sizes} --weights {weights}"));
        let configuration = trained["kinds"][1]["configuration"].as_str().unwrap();
        assert!(
            configuration.ends_with(&format!("weights in {weights}")),
            "{configuration}"
        );
    }
    fails(
        folder,
        &format!("{train} --decoder lift --weights int8"),
        "--weights: expected --decoder recurrent or auto or best, got lift",
    );
    fails(
        folder,
        &format!("import m.safetensors {import} --day 1"),
        "expected tensors day_weights.0",
    );
    fails(folder, "export m.betz", "--onnx");
}

/// Spike times have no bins: `train` says which step it takes, and takes the one whose linear decoder does best.
#[test]
fn the_step_of_spike_times_is_chosen_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate --out a.npz --neurons 12 --seconds 40 --tick 0.001 --seed 3",
    );
    let train = "train a.npz --decoder linear --filter 0.1:1 --folds 3";
    let chosen = json(folder, &format!("{train} --out chosen.betz"));
    let mean = |trained: &serde_json::Value| {
        let outputs = trained["outputs"].as_array().unwrap();
        outputs
            .iter()
            .map(|o| o["r2"].as_f64().unwrap())
            .sum::<f64>()
            / outputs.len() as f64
    };
    for step in [0.02, 0.05, 0.1] {
        let given = json(folder, &format!("{train} --step {step} --out given.betz"));
        assert!(mean(&given) <= mean(&chosen) + 1e-9, "{step}");
        if given["step_seconds"] == chosen["step_seconds"] {
            assert_eq!(mean(&given), mean(&chosen));
        }
    }
    let without = json(
        folder,
        &format!("{train} --folds 0 --out without.betz").replace("--folds 3 ", ""),
    );
    assert_eq!(without["step_seconds"], 0.005);
}

/// Without folds a recurrent decoder is trained once, and its file has no scores; kinds that choose by folds say so.
#[test]
fn a_recurrent_decoder_is_trained_without_folds() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulated(folder);
    let train = "train train.npz --step 0.05 --folds 0 --out m.betz --decoder";
    let trained = json(
        folder,
        &format!("{train} recurrent --layers 16 --epochs 100"),
    );
    assert_eq!(trained["decoder"], "recurrent");
    assert_eq!(trained["outputs"].as_array().unwrap().len(), 0);
    let told = done(folder, "info m.betz");
    assert!(told.contains("no cross-validated scores"), "{told}");
    assert!(!told.contains('Γ'), "{told}");
    for output in json(folder, "evaluate m.betz test.npz")["outputs"]
        .as_array()
        .unwrap()
    {
        assert!(output["r2"].as_f64().unwrap() > 0.2, "{output}");
    }
    for kind in ["lift", "auto"] {
        fails(
            folder,
            &format!("{train} {kind} --filter 0.1:1"),
            &format!("--decoder {kind}: expected --folds of at least 2"),
        );
    }
}
