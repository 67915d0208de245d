//! Refusals of `betz network`, with their messages and exit codes.

use std::fs;

use betz::recording::arrays::{Array, write};

use super::{NODES, SAMPLES, betz, done, prepared, signal};

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    fs::write(folder.join("notes.npz"), "mine").unwrap();
    let whole = fs::read(folder.join("signal.npz")).unwrap();
    fs::write(folder.join("short.npz"), &whole[..whole.len() / 2]).unwrap();
    write(
        &folder.join("other.npz"),
        &[("x", Array::F64(&[2], &[1.0, 2.0]))],
    )
    .unwrap();
    write(
        &folder.join("flat.npz"),
        &[("signal", Array::F64(&[2], &[1.0, 2.0]))],
    )
    .unwrap();
    let bad = [0, 130, 120, 240];
    write(
        &folder.join("gaps.npz"),
        &[
            ("signal", Array::F32(&[SAMPLES, NODES], &signal())),
            ("segments", Array::I64(&[2, 2], &bad)),
        ],
    )
    .unwrap();
    let edges = "--window 40 --step 10 --threshold 0.5";
    for (asked, code, says) in [
        (format!("compute bare.npz {edges}"), 2, "--out"),
        ("compute bare.npz --out n.npz --window 40 --step 10".into(), 2, "--threshold"),
        (format!("compute bare.npz --out n.npz {edges} --density 0.1"), 2, "cannot be used with"),
        ("compute bare.npz --out n.npz --window 2s --step 10 --threshold 0.5".into(), 2, "--sample-seconds"),
        ("compute bare.npz --out n.npz --window 2.5 --step 10 --threshold 0.5".into(), 2, "whole number of samples or a time"),
        ("compute bare.npz --out n.npz --window 1 --step 10 --threshold 0.5".into(), 2, "at least 2 samples, got 1"),
        ("compute bare.npz --out n.npz --window 40 --step 0 --threshold 0.5".into(), 2, "at least 1 sample, got 0"),
        ("compute bare.npz --out n.npz --window 241 --step 1 --threshold 0.5".into(), 1, "the longest of 1 has 240"),
        ("compute bare.npz --out n.npz --window 40 --step 1 --threshold 1.5".into(), 2, "expected 0 to 1, got 1.5"),
        ("compute bare.npz --out n.npz --window 40 --step 1 --threshold nan".into(), 2, "got NaN"),
        ("compute bare.npz --out n.npz --window 40 --step 1 --density 0".into(), 2, "more than 0"),
        (format!("compute bare.npz --out n.npz {edges} --max-edges 5"), 2, "at most 5, found more"),
        (format!("compute bare.npz --out n.npz {edges} --measure psi"), 2, "psi"),
        (format!("compute bare.npz --out n.npz {edges} --measure lagged"), 2, "--lags"),
        (format!("compute bare.npz --out n.npz {edges} --lags 3"), 2, "--measure lagged"),
        (format!("compute bare.npz --out n.npz {edges} --hold 3"), 2, "--measure euclidean"),
        (format!("compute bare.npz --out n.npz {edges} --measure coherence --segment 27"), 2, "segment: expected 4 to 26 samples"),
        (format!("compute bare.npz --out n.npz {edges} --measure coherence --frequencies 8-13"), 2, "--sample-seconds"),
        (format!("compute bare.npz --out n.npz {edges} --measure coherence --frequencies 13-8"), 2, "a lower and a higher frequency"),
        (format!("compute bare.npz --out n.npz {edges} --frequencies 8-13"), 2, "--measure coherence"),
        (format!("compute bare.npz --out n.npz {edges} --peak"), 2, "--measure coherence"),
        (format!("compute bare.npz --out n.npz {edges} --bin 50ms"), 2, "expected a recording"),
        ("graph n.npz --device cuda".into(), 2, "only `betz network compute`"),
        (format!("compute bare.npz --out n.npz {edges} --device abacus"), 2, "abacus"),
        (format!("compute bare.npz --out n.npz {edges} --signal x"), 1, "`x`"),
        (format!("compute bare.npz --out notes.npz {edges}"), 2, "--force"),
        (format!("compute bare.npz --out bare.npz {edges}"), 2, "another file than INPUT"),
        (format!("compute bare.npz --out n.txt {edges}"), 2, "ending in .npz or .zarr"),
        (format!("compute none.npz --out n.npz {edges}"), 1, "none.npz"),
        (format!("compute short.npz --out n.npz {edges}"), 1, "short.npz"),
        (format!("compute other.npz --out n.npz {edges}"), 1, "got x"),
        (format!("compute flat.npz --out n.npz {edges}"), 1, "(samples, nodes)"),
        (format!("compute gaps.npz --out n.npz {edges}"), 1, "segment 1"),
        ("compute bare.npz --out n.npz --window 40 --step 1 --surrogates 5".into(), 2, "at least 19"),
        ("compute bare.npz --out n.npz --window 40 --step 1 --surrogates 5 --fdr 0.05 --measure partial".into(), 2, "pearson, spearman or kendall"),
        (format!("compute bare.npz --out n.npz {edges} --nodes 3,9"), 2, "below 9"),
        ("graph bare.npz".into(), 1, "bare.npz"),
        ("graph short.npz".into(), 1, "short.npz"),
        ("compare bare.npz".into(), 2, "2"),
    ] {
        let output = betz(folder, &asked);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{asked}: {said}");
        assert!(said.contains(says), "{asked}: {said} should say {says}");
        assert!(output.stdout.is_empty(), "{asked}");
        assert!(!folder.join("n.npz").exists(), "{asked}");
    }
    assert_eq!(fs::read(folder.join("notes.npz")).unwrap(), b"mine");
}

#[test]
fn wrong_uses_of_a_network_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    done(
        folder,
        "compute bare.npz --out n.npz --window 40 --step 10 --threshold 0.5",
    );
    for (asked, says) in [
        ("export n.npz --out w.graphml", "--window"),
        (
            "export n.npz --out w.graphml --window 99",
            "below 21, got 99",
        ),
        ("export n.npz --out w.gexf --window 1", "expected none"),
        ("export n.npz --out w.dat", "--format"),
        ("graph n.npz --out g.txt", "ending in .csv or .npz"),
        ("graph n.npz --measures degree,colour", "colour"),
        ("graph n.npz --resolution=-1", "resolution"),
        (
            "graph n.npz --measures small-world --rewirings 0",
            "--rewirings",
        ),
        ("compare n.npz n.npz --out n.npz", "another file than NET"),
    ] {
        let output = betz(folder, asked);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{asked}: {said}");
        assert!(said.contains(says), "{asked}: {said} should say {says}");
    }
}
