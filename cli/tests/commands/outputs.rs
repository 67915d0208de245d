//! Outputs never replace files that are not earlier results of their kind.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{betz, done, fails};

const TRAIN: &str = "train a.npz --out m.betz --filter 0.02:1 --folds 0 --ridge 1";

/// A recording, a test, a model, events and episodes.
fn prepared(folder: &Path) {
    done(
        folder,
        "simulate --out a.npz --test-out t.npz --neurons 8 --seconds 4 --test-seconds 2 --tick 0.001",
    );
    done(folder, TRAIN);
    done(folder, "simulate --sym26 --seconds 2 --out s.csv");
}

#[test]
fn an_input_is_never_an_output_nor_are_two_outputs_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    fs::write(folder.join("e.txt"), "A B\n").unwrap();
    symlink("a.npz", folder.join("soft")).unwrap();
    fs::hard_link(folder.join("a.npz"), folder.join("hard")).unwrap();
    fs::hard_link(folder.join("a.npz"), folder.join("hard.npz")).unwrap();
    symlink("m.betz", folder.join("model.csv")).unwrap();
    symlink("s.csv", folder.join("s.svg")).unwrap();
    fs::hard_link(folder.join("s.csv"), folder.join("s.dot")).unwrap();
    fs::create_dir(folder.join("in")).unwrap();
    let names = ["a.npz", "t.npz", "m.betz", "s.csv", "s.chains.txt", "e.txt"];
    let read = || names.map(|name| fs::read(folder.join(name)).unwrap());
    let before = read();
    let mine = "mine s.csv --interval 0.004,0.006 --threshold 9";
    let counts = "mine s.csv --interval 0.004,0.006 --count-only e.txt";
    for command in [
        "train a.npz --out a.npz".to_owned(),
        "train a.npz --out soft".to_owned(),
        "train a.npz --out hard".to_owned(),
        "train soft --out a.npz".to_owned(),
        "train a.npz --out in/../a.npz".to_owned(),
        "train a.npz --groups e.txt --out e.txt".to_owned(),
        "evaluate m.betz a.npz --out a.npz".to_owned(),
        "evaluate m.betz a.npz --out model.csv".to_owned(),
        "stream m.betz a.npz --out hard.npz".to_owned(),
        "stream m.betz a.npz --out model.csv".to_owned(),
        format!("{mine} --csv s.csv"),
        format!("{mine} --picture s.svg"),
        format!("{mine} --graph s.dot"),
        format!("{mine} --csv x.svg --picture x.svg"),
        format!("{mine} --csv in/../x.dot --graph x.dot"),
        format!("{counts} --csv e.txt"),
        "simulate --out x.npz --test-out in/../x.npz".to_owned(),
        "simulate --sym26 --out x.csv --truth x.csv".to_owned(),
    ] {
        for force in ["", " --force"] {
            let output = betz(folder, &format!("{command}{force}"));
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command}{force}: {said}");
            assert!(
                said.contains("expected another file than"),
                "{command}: {said}"
            );
            assert!(output.stdout.is_empty());
        }
    }
    for command in ["evaluate", "stream", "decode"] {
        fails(
            folder,
            &format!("{command} m.betz a.npz --out o.txt"),
            "expected a file ending in .csv, .npz or .nwb, got o.txt",
        );
    }
    assert!(read() == before, "an input was changed");
    assert!(!folder.join("x.npz").exists() && !folder.join("x.csv").exists());
}

#[test]
fn only_an_earlier_result_of_its_kind_is_replaced_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let evaluate = "evaluate m.betz t.npz --out";
    let mine = "mine s.csv --interval 0.004,0.006 --threshold 9 --max-size 2";
    let results = [
        (TRAIN.to_owned(), "m.betz"),
        (format!("{evaluate} o.csv"), "o.csv"),
        ("stream m.betz t.npz --out o.csv".to_owned(), "o.csv"),
        (format!("{mine} --csv x.csv"), "x.csv"),
        (format!("{mine} --graph x.dot"), "x.dot"),
        (format!("{mine} --graph x.graphml"), "x.graphml"),
        (format!("{mine} --picture x.svg"), "x.svg"),
        (
            "simulate --sym26 --seconds 1 --out n.csv".to_owned(),
            "n.csv",
        ),
        (
            "simulate --sym26 --seconds 1 --out n.npz".to_owned(),
            "n.npz",
        ),
        (
            "simulate --neurons 2 --seconds 1 --out p.npz".to_owned(),
            "p.npz",
        ),
    ];
    for (command, file) in &results {
        done(folder, command);
        done(folder, command);
        // Somebody's own.
        let path = folder.join(file);
        fs::write(&path, "years of work").unwrap();
        let refused = betz(folder, command);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{command}: {said}");
        assert!(said.contains("--force"), "{command}: {said}");
        assert_eq!(fs::read(&path).unwrap(), b"years of work");
        done(folder, &format!("{command} --force"));
        assert_ne!(fs::read(&path).unwrap(), b"years of work");
    }
    // A recording that was recorded is no earlier simulation.
    let mut recording = betz::recording::Recording::read_npz(&folder.join("t.npz")).unwrap();
    recording.meta = Some("{\"source\": \"a monkey\"}".to_owned());
    recording.write_npz(&folder.join("p.npz")).unwrap();
    let over = betz(folder, "simulate --neurons 2 --seconds 1 --out p.npz");
    assert_eq!(over.status.code(), Some(2));
}

#[test]
fn modes_links_pipes_and_devices_stay_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let evaluate = "evaluate m.betz t.npz --json --out";
    done(folder, &format!("{evaluate} o.csv"));
    let table = fs::read_to_string(folder.join("o.csv")).unwrap();
    fs::set_permissions(folder.join("o.csv"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("o.csv", folder.join("link.csv")).unwrap();
    done(folder, &format!("{evaluate} link.csv"));
    assert!(
        fs::symlink_metadata(folder.join("link.csv"))
            .unwrap()
            .is_symlink()
    );
    let mode = fs::metadata(folder.join("o.csv"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    // Standard output, as a pipe and as a file.
    for to in ["/dev/fd/1", "/dev/stdout"] {
        let printed = done(folder, &format!("{evaluate} {to}"));
        // Whoever reads it gets the table alone; the report is said beside it.
        assert_eq!(printed, table, "{to}");
    }
    let printed = fs::File::create(folder.join("printed")).unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_betz"))
        .current_dir(folder)
        .args(format!("{evaluate} /dev/fd/1").split_whitespace())
        .stdout(Stdio::from(printed))
        .status();
    assert!(status.unwrap().success());
    let printed = fs::read_to_string(folder.join("printed")).unwrap();
    assert_eq!(printed, table);

    let pipe = folder.join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let from = pipe.clone();
    let reader = std::thread::spawn(move || fs::read_to_string(from).unwrap());
    done(folder, &format!("{evaluate} pipe"));
    assert_eq!(reader.join().unwrap(), table);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    done(folder, &format!("{evaluate} /dev/null"));
    done(
        folder,
        "train a.npz --out /dev/null --filter 0.02:1 --folds 0 --ridge 1",
    );
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --sym26 --seconds 2 --out s.csv");
    let mut child = Command::new(env!("CARGO_BIN_EXE_betz"))
        .current_dir(folder)
        .args("mine s.csv --interval 0.004,0.006 --threshold 9 --json --csv list.csv".split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        fs::read_to_string(folder.join("list.csv"))
            .unwrap()
            .starts_with("size,count,")
    );
}
