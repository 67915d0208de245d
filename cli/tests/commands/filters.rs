//! Filters of any shape, as `--filter` takes them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use betz_testkit::npy::npy;

use crate::fixtures;
use crate::program::{fails, json};

#[test]
fn every_shape_trains_and_the_model_decodes_and_streams() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    fs::write(folder.join("epsc.csv"), "time,value\n0,0\n0.01,1\n0.05,0\n").unwrap();
    for (i, filters) in [
        "--filter boxcar:50ms",
        "--filter 0.02:1 --filter biexp:5ms:40ms",
        "--filter cosine:3:10ms..80ms --filter halfgauss:30ms",
        "--filter file:epsc.csv",
        "--filter gauss:20ms@80ms --delay 80ms",
    ]
    .into_iter()
    .enumerate()
    {
        let train = format!(
            "train train.npz --out {i}.betz --step 0.005 --decoder linear --folds 2 {filters}"
        );
        let trained = json(folder, &train);
        assert!(
            trained["outputs"][0]["r2"].as_f64().unwrap() > 0.3,
            "{filters}: {trained}"
        );
        let scored = json(folder, &format!("evaluate {i}.betz test.npz"));
        assert!(
            scored["outputs"][0]["r2"].as_f64().unwrap() > 0.3,
            "{filters}: {scored}"
        );
        json(folder, &format!("stream {i}.betz test.npz --out {i}.npz"));
        let inside = json(folder, &format!("info {i}.betz"));
        assert!(!inside["filters"].as_array().unwrap().is_empty());
    }
}

#[test]
fn a_filter_that_looks_ahead_is_offline_and_linear_only() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let train = "train train.npz --out a.betz --step 0.005 --folds 2 --filter gauss:20ms";
    json(folder, &format!("{train} --decoder linear"));
    json(folder, "evaluate a.betz test.npz");
    fails(
        folder,
        "stream a.betz test.npz --out a.npz",
        "gauss:20ms@0.08s",
    );
    fails(
        folder,
        &format!("{train} --decoder auto"),
        "--decoder linear",
    );
    fails(
        folder,
        &format!("{train} --decoder linear --variance"),
        "without --variance",
    );
    fails(
        folder,
        &format!("{train} --decoder linear --memory 64MiB"),
        "without --memory",
    );
    // Before the work, whether the step is given or chosen.
    for step in ["--step 0.005", ""] {
        let line = format!("compare train.npz --folds 2 {step} --filter gauss:20ms");
        fails(folder, &line, "gauss:20ms@0.08s");
    }
}

#[test]
fn kinds_are_compared_and_weights_written_with_sampled_filters() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let filters = "--step 0.005 --folds 2 --filter 0.02:1 --filter boxcar:50ms";
    let told = json(
        folder,
        &format!("compare train.npz --decoders linear,kalman {filters}"),
    );
    assert_eq!(told["kinds"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(told["filters"][1]["name"], "boxcar:50ms");
    json(
        folder,
        &format!("train train.npz --out a.betz --decoder linear {filters}"),
    );
    json(folder, "info a.betz --weights a.npz");
    json(folder, "export a.betz --onnx a.onnx");
    let graph = fs::read(folder.join("a.onnx")).unwrap();
    let has = |name: &[u8]| graph.windows(name.len()).any(|w| w == name);
    assert!(has(b"history_out") && has(b"Conv"));
    json(
        folder,
        "train train.npz --out ahead.betz --decoder linear --step 0.005 --folds 2 --filter gauss:20ms",
    );
    fails(
        folder,
        "export ahead.betz --onnx ahead.onnx",
        "gauss:20ms@0.08s",
    );
}

#[test]
fn sums_hold_sampled_filters_and_differ_by_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let sums = |filter: &str, out: &str| {
        let text = format!("sums train.npz --step 0.005 --filter {filter} --out {out}");
        json(folder, &text);
    };
    sums("boxcar:50ms", "a.sums");
    sums("boxcar:60ms", "b.sums");
    json(folder, "solve a.sums --ridge 2 --out solved.betz");
    json(
        folder,
        "train train.npz --out trained.betz --step 0.005 --decoder linear --folds 0 --ridge 2 --filter boxcar:50ms",
    );
    let r2 = |model: &str| {
        json(folder, &format!("evaluate {model} test.npz"))["outputs"][0]["r2"]
            .as_f64()
            .unwrap()
    };
    assert!((r2("solved.betz") - r2("trained.betz")).abs() < 1e-4);
    fails(folder, "sums a.sums b.sums --out ab.sums", "boxcar:60ms");
}

/// Arrays that are no filters.
fn arrays(folder: &Path) {
    let long = vec![1.0; 6000];
    for (name, samples) in [
        ("empty.npy", &[][..]),
        ("nan.npy", &[1.0, f64::NAN]),
        ("inf.npy", &[1.0, f64::INFINITY]),
        ("zero.npy", &[0.0; 3]),
        ("large.npy", &[1e308; 2]),
        ("long.npy", &long),
    ] {
        fs::write(folder.join(name), npy(samples)).unwrap();
    }
    fs::write(folder.join("text.npy"), "not numpy\n").unwrap();
}

#[test]
fn bad_filters_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    fs::write(folder.join("zero.csv"), "0,0\n0.05,0\n").unwrap();
    fs::write(folder.join("nan.csv"), "0,0\n0.05,nan\n").unwrap();
    fs::write(folder.join("empty.csv"), "").unwrap();
    fs::write(folder.join("back.csv"), "0,1\n0.02,1\n0.01,0\n").unwrap();
    fs::write(folder.join("ms.csv"), "0,1\n50000,0\n").unwrap();
    fs::write(folder.join("short.csv"), "0,1\n").unwrap();
    fs::write(folder.join("late.csv"), "100,1\n100.05,1\n").unwrap();
    fs::write(folder.join("early.csv"), "-100.05,1\n-100,1\n").unwrap();
    fs::write(folder.join("bytes.csv"), [0u8, 255, 254]).unwrap();
    // The message names the filter, the fault and the way out.
    arrays(folder);
    for (filter, says) in [
        ("wavelet:5ms", &["wavelet:5ms", "halfgauss:TIME"][..]),
        ("boxcar:0ms", &["boxcar:0ms", "above 0 s"]),
        (
            "boxcar:30s",
            &["boxcar:30s", "longest segment", "use a shorter filter"],
        ),
        ("file:zero.csv", &["zero.csv", "zeros", "other than 0"]),
        (
            "file:nan.csv",
            &["nan.csv", "finite", "NaN at point 1", "leave the point out"],
        ),
        (
            "file:empty.csv",
            &["empty.csv", "two points", "time in seconds"],
        ),
        (
            "file:short.csv",
            &["short.csv", "two points", "time in seconds"],
        ),
        ("file:back.csv", &["back.csv", "ascend", "sort the points"]),
        ("file:ms.csv", &["ms.csv", "are they in seconds?"]),
        (
            "file:late.csv",
            &["late.csv", "longest segment", "in seconds?", "Shift it"],
        ),
        (
            "file:early.csv",
            &["early.csv", "longest segment", "Shift it"],
        ),
        ("file:bytes.csv", &["bytes.csv", "not text", ".npy"]),
        ("file:none.csv", &["none.csv"]),
        (
            "file:empty.npy",
            &["filter file:empty.npy", "none", "one sample per step"],
        ),
        (
            "file:nan.npy",
            &["filter file:nan.npy", "NaN at sample 1", "give a number"],
        ),
        (
            "file:inf.npy",
            &["filter file:inf.npy", "inf at sample 1", "give a number"],
        ),
        (
            "file:zero.npy",
            &["filter file:zero.npy", "3 zeros", "other than 0"],
        ),
        (
            "file:large.npy",
            &["filter file:large.npy", "finite sum", "smaller samples"],
        ),
        (
            "file:long.npy",
            &[
                "filter file:long.npy",
                "longest segment",
                "a shorter filter",
            ],
        ),
        ("file:text.npy", &["filter file:text.npy", "no .npy array"]),
    ] {
        let train = "train train.npz --out x.betz --step 0.005 --decoder linear";
        let line = format!("{train} --filter {filter}");
        for words in says {
            fails(folder, &line, words);
        }
        assert!(!folder.join("x.betz").exists(), "{line}");
    }
    // Twice in a bank, and a filter that needs its gain.
    let train = "train train.npz --out x.betz --step 0.005 --decoder linear --folds 2";
    let twice = "--filter boxcar:50ms --filter boxcar:50ms";
    fails(folder, &format!("{train} {twice}"), "boxcar:50ms");
    fs::write(folder.join("sides.csv"), "0,0\n0.01,1\n0.03,-1\n0.04,0\n").unwrap();
    fails(
        folder,
        &format!("{train} --filter file:sides.csv"),
        "--keep-gain",
    );
    json(
        folder,
        &format!("{train} --filter file:sides.csv --keep-gain"),
    );
}

#[test]
fn curves_are_resampled_to_the_models_step_and_samples_are_those_of_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    // The same triangle on points that no step knows: its delay is that of the curve on every step.
    fs::write(folder.join("curve.csv"), "0,0\n0.033,1\n0.1,0\n").unwrap();
    for step in ["1ms", "4ms", "7ms"] {
        let line = format!("filter show --filter file:curve.csv --step {step}");
        let shown = json(folder, &line);
        let delay = shown["filters"][0]["delay_seconds"].as_f64().unwrap();
        assert!((delay - 0.133 / 3.0).abs() < 1e-3, "{step}: {shown}");
    }
    // A model's filters are on its step; sums on another step are refused.
    let sums = |step: &str, out: &str| {
        let text = format!("sums train.npz --step {step} --filter file:curve.csv --out {out}");
        json(folder, &text);
    };
    sums("0.005", "a.sums");
    sums("0.01", "b.sums");
    fails(folder, "sums a.sums b.sums --out ab.sums", "0.005");
    fs::write(folder.join("curve.csv"), "0,0\n0.05,1\n0.1,0\n").unwrap();
    sums("0.005", "c.sums");
    fails(folder, "sums a.sums c.sums --out ac.sums", "other samples");
}

#[test]
fn banks_are_shown_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shown = json(
        folder,
        "filter show --filter boxcar:100ms --filter 50ms:0 --filter gauss:20ms --step 1ms --picture bank.svg",
    );
    let of = |i: usize, name: &str| shown["filters"][i][name].as_f64().unwrap();
    // Recursive filters come first, as in a model.
    assert_eq!(shown["filters"][0]["name"], "0.05:0");
    assert!((of(1, "delay_seconds") - 0.0495).abs() < 1e-9, "{shown}");
    assert!((of(1, "length_seconds") - 0.1).abs() < 1e-9, "{shown}");
    assert!((of(0, "cutoff_hz") - 3.2).abs() < 0.3, "{shown}");
    assert!(of(2, "ahead_seconds") > 0.07, "{shown}");
    let picture = fs::read_to_string(folder.join("bank.svg")).unwrap();
    assert!(picture.contains("boxcar:100ms") && picture.contains("frequency"));
    fails(folder, "filter show", "neither");
    fails(folder, "filter show --filter wavelet:5ms", "halfgauss:TIME");
    fails(folder, "filter show none.betz", "none.betz");
}

#[test]
fn recursive_filters_take_the_place_of_sampled_ones() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    let fitted = json(folder, "filter fit --filter biexp:2ms:20ms --step 1ms");
    let filter = &fitted["filters"][0];
    assert_eq!(filter["terms"].as_array().unwrap().len(), 2, "{fitted}");
    assert!(filter["largest_error"].as_f64().unwrap() < 0.01, "{fitted}");
    for (line, says) in [
        ("--filter boxcar:50ms", "--tolerance"),
        ("--filter 50ms:1", "only recursive"),
        ("--filter gauss:20ms", "future"),
        ("--filter biexp:2ms:20ms --tolerance 0", "above 0"),
        ("--filter biexp:2ms:20ms --out b.betz", "MODEL"),
    ] {
        fails(folder, &format!("filter fit {line}"), says);
    }
    let train = "train train.npz --out a.betz --step 0.005 --decoder linear --folds 2";
    json(
        folder,
        &format!("{train} --filter biexp:5ms:40ms --filter 20ms:1"),
    );
    json(folder, "filter fit a.betz --out b.betz --picture fit.svg");
    let r2 = |model: &str| {
        json(folder, &format!("evaluate {model} test.npz"))["outputs"][0]["r2"]
            .as_f64()
            .unwrap()
    };
    assert!((r2("a.betz") - r2("b.betz")).abs() < 0.01);
    let inside = json(folder, "info b.betz");
    assert_eq!(inside["filters"].as_array().unwrap().len(), 3, "{inside}");
    json(folder, "stream b.betz test.npz --out b.npz");
    fails(folder, "filter fit b.betz", "only recursive");
}
