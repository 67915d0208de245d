//! `betz decode` of networks in ONNX files.

use std::path::Path;

use crate::fixtures;
use crate::program::{done, fails};

/// A trained decoder as `model.onnx`.
fn exported(folder: &Path) {
    fixtures::trained(folder);
    done(folder, "export model.betz --onnx model.onnx");
}

#[cfg(not(feature = "graph"))]
#[test]
fn a_build_without_the_feature_says_what_decodes_an_onnx_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    exported(folder);
    for words in ["model.onnx", "betz import", "--features graph"] {
        fails(
            folder,
            "decode model.onnx test.npz --out decoded.csv",
            words,
        );
    }
    assert!(!folder.join("decoded.csv").exists());
}

#[cfg(feature = "graph")]
#[test]
fn a_network_decodes_as_the_decoder_that_it_was_exported_from() {
    use crate::program::json;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    exported(folder);
    let rows = |name: &str| -> Vec<Vec<f64>> {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let row = |line: &str| line.split(',').map(|n| n.parse().unwrap()).collect();
        text.lines().skip(1).map(row).collect()
    };
    let own = json(folder, "decode model.betz test.npz --out own.csv");
    let told = json(folder, "decode model.onnx test.npz --out decoded.csv");
    assert_eq!(told["output_names"], own["output_names"]);
    assert_eq!(told["steps"], own["steps"]);
    let (expected, decoded) = (rows("own.csv"), rows("decoded.csv"));
    assert_eq!(expected.len(), decoded.len());
    for (a, b) in expected.iter().zip(&decoded) {
        assert_eq!(a[..4], b[..4]);
        for (a, b) in a[4..].iter().zip(&b[4..]) {
            assert!((a - b).abs() <= 1e-5 * (1.0 + a.abs()), "{a} {b}");
        }
    }
    let [a, b] = [&own, &told].map(|told| told["outputs"][0]["r2"].as_f64().unwrap());
    assert!((a - b).abs() < 1e-4, "{a} {b}");
    for (options, words) in [
        ("model.onnx test.npz --window 3", "window of 3 steps, got 1"),
        ("model.onnx test.npz --every 1ms", "--every"),
        ("model.betz test.npz --window 3", "--window"),
        ("model.betz test.npz --step 0.1", "--step"),
    ] {
        fails(folder, &format!("decode {options} --out no.csv"), words);
    }
}
