//! The commands of docs/guide.md do what it says.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

#[test]
fn every_command_of_the_guide_runs() {
    let guide = include_str!("../../../docs/guide.md");
    let blocks: Vec<&str> = guide
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 4, "{} blocks", blocks.len());
    let folder = tempfile::tempdir().unwrap();
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_betz"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", binary.parent().unwrap().display());
    for block in blocks {
        let output = Command::new("sh")
            .args(["-euc", block])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("BETZ_CACHE", folder.path().join("cache"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}\n{said}");
    }
    for (file, begins) in [
        ("arm.svg", "<!-- drawn by betz -->"),
        ("decoded.svg", "<!-- drawn by betz -->"),
        (
            "decoded.csv",
            "step,start_seconds,end_seconds,x,x_true,y,y_true",
        ),
    ] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(text.starts_with(begins), "{file}");
    }
    assert!(folder.path().join("arm-weights.npz").exists());
}
