//! `betz multiply`: products of matrices in files, against plain loops.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use betz_testkit::npy::{Array, bytes};

use crate::program::{json, refused};

/// A matrix as NumPy saves it: rows one behind the other, or columns (`fortran`).
fn save(folder: &Path, name: &str, descr: &str, shape: &str, fortran: bool, values: &[f64]) {
    let data = match descr {
        "<f4" => bytes(&values.iter().map(|v| *v as f32).collect::<Vec<_>>()),
        _ => bytes(values),
    };
    let matrix = Array {
        fortran,
        ..Array::new("", descr, shape, data)
    };
    fs::write(folder.join(name), matrix.npy()).unwrap();
}

/// The values of a saved matrix of f32 or f64.
fn load(folder: &Path, name: &str) -> Vec<f64> {
    let bytes = fs::read(folder.join(name)).unwrap();
    let header = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let text = String::from_utf8_lossy(&bytes[10..10 + header]).into_owned();
    let body = &bytes[10 + header..];
    match text.contains("<f4") {
        true => (body.chunks_exact(4))
            .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())))
            .collect(),
        false => (body.chunks_exact(8))
            .map(|b| f64::from_le_bytes(b.try_into().unwrap()))
            .collect(),
    }
}

const M: usize = 70;
const K: usize = 300;
const N: usize = 33;

fn a(row: usize, column: usize) -> f64 {
    ((row * 7 + column * 13) % 29) as f64 - 14.0
}

fn b(row: usize, column: usize) -> f64 {
    ((row * 5 + column * 11) % 23) as f64 - 11.0
}

fn rows(m: usize, n: usize, of: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..m * n).map(|i| of(i / n, i % n)).collect()
}

/// Whole numbers: their sums are exact in either type.
fn product(m: usize, n: usize, of: impl Fn(usize, usize, usize) -> f64) -> Vec<f64> {
    rows(m, n, |i, j| (0..K).map(|k| of(i, j, k)).sum())
}

#[test]
fn products_of_files_are_those_of_plain_loops() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let expected = product(M, N, |i, j, k| a(i, k) * b(k, j));
    for descr in ["<f8", "<f4"] {
        save(folder, "a.npy", descr, "(70, 300)", false, &rows(M, K, a));
        save(folder, "b.npy", descr, "(300, 33)", false, &rows(K, N, b));
        save(
            folder,
            "columns.npy",
            descr,
            "(70, 300)",
            true,
            &rows(K, M, |k, i| a(i, k)),
        );
        save(
            folder,
            "turned.npy",
            descr,
            "(33, 300)",
            false,
            &rows(N, K, |j, k| b(k, j)),
        );
        for line in [
            "a.npy b.npy",
            "columns.npy b.npy",
            "a.npy turned.npy --transpose-b",
            "a.npy b.npy --memory 64KiB",
        ] {
            let told = json(
                folder,
                &format!("multiply {line} --out c.npy --force --device cpu"),
            );
            assert_eq!(told["terms"].as_u64(), Some(K as u64), "{line}: {told}");
            assert!(load(folder, "c.npy") == expected, "{descr}, {line}");
        }
        let told = json(folder, "multiply a.npy --out c.npy --force --device cpu");
        assert_eq!(told["symmetric"], true, "{told}");
        assert!(
            load(folder, "c.npy") == product(M, M, |i, j, k| a(i, k) * a(j, k)),
            "{descr}"
        );
        json(
            folder,
            "multiply columns.npy --transpose-a --out c.npy --force --device cpu",
        );
        let turned = rows(K, K, |i, j| (0..M).map(|k| a(k, i) * a(k, j)).sum());
        assert!(load(folder, "c.npy") == turned, "{descr}");
    }
}

#[test]
fn what_is_no_pair_of_matrices_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let values = rows(4, 6, a);
    save(folder, "a.npy", "<f8", "(4, 6)", false, &values);
    save(folder, "single.npy", "<f4", "(6, 4)", false, &values);
    save(folder, "line.npy", "<f8", "(24,)", false, &values);
    save(folder, "whole.npy", "<i8", "(4, 6)", false, &values);
    save(folder, "short.npy", "<f8", "(5, 6)", false, &values);
    save(folder, "none.npy", "<f8", "(0, 6)", false, &[]);
    fs::write(folder.join("text.npy"), "1,2\n").unwrap();
    for (line, code, words) in [
        (
            "a.npy a.npy",
            1,
            "as many rows of B as A has columns, got A of 4 × 6 and B of 4 × 6",
        ),
        (
            "a.npy single.npy",
            1,
            "expected factors of one type, got <f8 in a.npy and <f4 in single.npy",
        ),
        (
            "line.npy",
            1,
            "expected a matrix with two dimensions, got shape (24,)",
        ),
        (
            "whole.npy",
            1,
            "expected a matrix of float32 or float64, got dtype `<i8`",
        ),
        ("short.npy", 1, "the file ends early"),
        ("none.npy", 2, "at least one row and column"),
        ("text.npy", 1, "text.npy"),
        ("missing.npy", 1, "missing.npy"),
        (
            "a.npy --tf32",
            2,
            "--tf32: expected factors of float32, got <f8 in a.npy",
        ),
        ("a.npy --transpose-b", 2, "<B.npy>"),
    ] {
        refused(
            folder,
            &format!("multiply {line} --out c.npy --force --device cpu"),
            code,
            words,
        );
        assert!(!folder.join("c.npy").exists(), "{line}");
    }
    refused(
        folder,
        "multiply a.npy --out a.npy --device cpu",
        2,
        "a.npy",
    );
    assert!(load(folder, "a.npy") == values);
}
