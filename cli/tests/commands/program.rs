//! The program, run in a folder with a line of arguments, as these tests see it.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The program, to be started in `folder`.
pub(crate) fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_betz"));
    command
        .current_dir(folder)
        // The calibration of this host must not influence the tests.
        .env("BETZ_CACHE", folder.join("cache"))
        .args(line.split_whitespace());
    command
}

/// Runs it to its end.
pub(crate) fn betz(folder: &Path, line: &str) -> Output {
    command(folder, line).output().unwrap()
}

/// Runs a command that must succeed; its standard output.
pub(crate) fn done(folder: &Path, line: &str) -> String {
    let output = betz(folder, line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "betz {line}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must succeed and print one JSON object.
pub(crate) fn json(folder: &Path, line: &str) -> Value {
    serde_json::from_str(&done(folder, &format!("{line} --json"))).unwrap()
}

/// Makes `any.betz`, a model of eight channels with steps of 20 ms.
pub(crate) fn any_model(folder: &Path) {
    done(folder, "simulate --neurons 8 --seconds 20 --out any.npz");
    done(
        folder,
        "train any.npz --step 0.02 --filter 0.1:1 --folds 0 --ridge 1 --out any.betz",
    );
}

/// Runs a command that must fail, whatever its code, and say `words`.
pub(crate) fn fails(folder: &Path, line: &str, words: &str) -> Output {
    let output = betz(folder, line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "betz {line} succeeded");
    assert!(
        errors.contains(words),
        "betz {line}: expected '{words}' in: {errors}"
    );
    output
}

/// Runs a command that must fail with `code`, print nothing, and say `words`.
pub(crate) fn refused(folder: &Path, line: &str, code: i32, words: &str) {
    let output = fails(folder, line, words);
    assert_eq!(output.status.code(), Some(code), "betz {line}");
    assert!(output.stdout.is_empty(), "betz {line} printed");
}

/// Starts a command whose output is read later.
pub(crate) fn spawned(folder: &Path, line: &str) -> Child {
    command(folder, line)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Interrupts a command as Ctrl-C does, as soon as it listens.
pub(crate) fn interrupt(child: &mut Child) {
    send(child, "-INT", 2);
}

/// Ends a command as the system does, as soon as it listens.
pub(crate) fn terminate(child: &mut Child) {
    send(child, "-TERM", 15);
}

/// Sends a signal to a command, as soon as it catches it.
fn send(child: &mut Child, name: &str, number: u32) {
    let id = child.id().to_string();
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
        // One that has ended has no such line: it is found below.
        mask.is_none_or(|mask| {
            u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (number - 1)) != 0
        })
    };
    while !caught() {
        assert!(child.try_wait().unwrap().is_none(), "ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let mut kill = Command::new("kill");
    assert!(kill.args([name, &id]).status().unwrap().success());
}
