//! `include/betz.h` is what the pinned cbindgen makes of the sources.
//!
//! `BETZ_BLESS=1 cargo test -p betz-ffi --test header` rewrites it after a change.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

/// In the order in which the header is read.
const SOURCES: [&str; 13] = [
    "version",
    "status",
    "last_error",
    "model",
    "train",
    "session",
    "stats",
    "swap",
    "checkpoint",
    "queue",
    "miner",
    "watch_list",
    "attach",
];

fn generate(root: &Path) -> String {
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let builder = SOURCES.iter().fold(
        cbindgen::Builder::new().with_config(config),
        |builder, name| builder.with_src(root.join(format!("src/{name}.rs"))),
    );
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    let header = String::from_utf8(header).unwrap();
    // Rust's heading for what C calls the caller's duties.
    header.replace("// # Safety", "// The caller's part:")
}

#[test]
fn header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("include/betz.h");
    let fresh = generate(root);
    if std::env::var_os("BETZ_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&path, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let line = (fresh.lines().zip(committed.lines()))
        .position(|(a, b)| a != b)
        .unwrap_or_else(|| fresh.lines().count().min(committed.lines().count()));
    assert!(
        fresh == committed,
        "ffi/include/betz.h differs from a fresh one at line {}: run BETZ_BLESS=1 cargo test -p betz-ffi --test header",
        line + 1
    );
}

#[test]
fn every_function_says_what_it_may_be_used_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = generate(root);
    let mut comment = String::new();
    let mut functions = 0;
    for line in header.lines() {
        if let Some(text) = line.strip_prefix("//") {
            comment.push_str(text);
            continue;
        }
        let declares = line.contains(" betz_") || line.contains("*betz_");
        if declares && line.contains('(') && !line.starts_with("typedef") && !line.starts_with("#")
        {
            functions += 1;
            for promise in ["Thread-safe: ", "Realtime-safe: ", "Allocates: "] {
                assert!(comment.contains(promise), "{line}: no \"{promise}\"");
            }
        }
        comment.clear();
    }
    assert!(functions >= 50, "found only {functions} functions");
}
