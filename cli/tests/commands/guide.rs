//! The commands of docs/guide.md and docs/tutorial.md run, and give the results that the pages promise.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Blocks of shell commands of a page.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

/// A shell in `folder` that finds this build's `betz`.
fn shell(folder: &Path, script: &str) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_betz"));
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-euc", script])
        .current_dir(folder)
        .env(
            "PATH",
            format!("{}:{path}", binary.parent().unwrap().display()),
        )
        .env("BETZ_CACHE", folder.join("cache"));
    command
}

/// Runs a block, and returns its standard output.
fn run(folder: &Path, block: &str) -> String {
    let output = shell(folder, block).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{block}\n{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_of_the_page_on_exploration_runs() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks(include_str!("../../../docs/exploration.md"));
    assert!(blocks.len() >= 6, "{} blocks", blocks.len());
    for block in blocks {
        run(folder.path(), block);
    }
    for name in ["events.svg", "tuning.svg", "kinds.svg"] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.starts_with("<!-- drawn by betz -->"), "{name}");
    }
    let decoded = std::fs::read_to_string(folder.path().join("decoded.csv")).unwrap();
    assert!(decoded.starts_with("step,start_seconds,end_seconds,segment,x,y\n"));
}

#[test]
fn every_command_of_the_guide_runs() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks(include_str!("../../../docs/guide.md"));
    assert!(blocks.len() >= 4, "{} blocks", blocks.len());
    for block in blocks {
        run(folder.path(), block);
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

#[test]
fn every_command_of_the_tutorial_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut scores = Vec::new();
    let mut watched = false;
    for block in blocks(include_str!("../../../docs/tutorial.md")) {
        if block.starts_with("cargo install") {
            continue;
        }
        if block.starts_with("betz monitor") {
            // The page is served until Ctrl-C: its address is enough.
            let block = format!("exec {} --no-open --json", block.trim());
            let mut server = shell(folder.path(), &block)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            let mut lines = BufReader::new(server.stdout.take().unwrap());
            lines.read_line(&mut line).unwrap();
            server.kill().unwrap();
            server.wait().unwrap();
            assert!(line.contains("http://127.0.0.1:"), "{line}");
            watched = true;
            continue;
        }
        let output = run(folder.path(), block);
        if block.starts_with("betz evaluate arm.betz") || block.starts_with("betz stream") {
            let rows = output.lines().filter(|l| l.starts_with(['x', 'y']));
            scores.push(rows.take(2).map(str::to_owned).collect::<Vec<_>>());
        }
    }
    assert!(watched);
    // The page says that batch and stream give the same scores, and which.
    assert_eq!(scores.len(), 2);
    assert_eq!(scores[0], scores[1]);
    assert!(scores[0][0].contains("0.9027"), "{:?}", scores[0]);
}
