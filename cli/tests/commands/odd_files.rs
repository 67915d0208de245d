//! Files as labs have them: NWB where any recording will do, pipes, folders, and limits of the system.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::{betz, command, done, fails, json, refused};

/// `r.nwb`: 20 s of ten channels with behaviour, as NWB.
fn nwb(folder: &Path) {
    done(
        folder,
        "simulate --out a.npz --neurons 10 --seconds 20 --tick 0.001",
    );
    done(folder, "convert a.npz r.nwb --start 2020-10-19T13:00:00Z");
}

fn pipe(folder: &Path, name: &str) {
    let made = Command::new("mkfifo").arg(folder.join(name)).status();
    assert!(made.unwrap().success());
}

#[test]
fn nwb_is_a_recording_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    nwb(folder);
    // The same network as that of the same recording.
    let network = "--window 5s --step 5s --bin 50ms --threshold 0.1 --out";
    for input in ["a.npz", "r.nwb"] {
        done(
            folder,
            &format!("network compute {input} {network} {input}.net.npz"),
        );
    }
    let [of_npz, of_nwb] = ["a.npz", "r.nwb"].map(|input| {
        let facts = json(folder, &format!("info {input}.net.npz"));
        (facts["edges"].clone(), facts["windows"].clone())
    });
    assert_eq!(of_npz, of_nwb);
    // The page says where it is before it serves.
    let mut server = command(folder, "serve r.nwb --no-open --json --port 0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = std::io::BufReader::new(server.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let address: Value = serde_json::from_str(&line).unwrap();
    assert!(address["url"].is_string(), "{line}");
    let mined = "mine r.nwb --interval 0.004,0.006 --threshold 1000 --max-size 2";
    done(folder, mined);
}

#[test]
fn tables_of_an_nwb_file_are_asked_for_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    nwb(folder);
    let train = "train r.nwb --out m.betz --filter 0.02:1 --folds 0 --ridge 1";
    refused(
        folder,
        &format!("{train} --trial-table reaches"),
        2,
        "intervals: expected one of [",
    );
    refused(
        folder,
        "train a.npz --out m.betz --mask-table artifacts",
        2,
        "mask 'artifacts': expected an NWB file",
    );
    done(folder, &format!("{train} --mask-table none"));
}

#[test]
fn a_file_that_was_cut_short_is_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    nwb(folder);
    let bytes = fs::read(folder.join("r.nwb")).unwrap();
    fs::write(folder.join("short.nwb"), &bytes[..bytes.len() * 99 / 100]).unwrap();
    for line in [
        "info short.nwb",
        "mine short.nwb --interval 0,0.01 --threshold 9",
    ] {
        refused(folder, line, 1, "cut short");
    }
}

#[test]
fn a_network_folder_has_an_inside() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    nwb(folder);
    let compute = "network compute a.npz --window 5s --step 5s --bin 50ms --threshold 0.1 --out";
    done(folder, &format!("{compute} n.zarr"));
    done(folder, &format!("{compute} n.npz"));
    let [zarr, npz] = ["n.zarr", "n.npz"].map(|name| json(folder, &format!("info {name}")));
    assert_eq!(zarr["edges"], npz["edges"]);
    done(folder, &format!("{compute} n.zarr"));
    assert_eq!(json(folder, "info n.zarr")["edges"], zarr["edges"]);
    std::fs::create_dir(folder.join("notes.zarr")).unwrap();
    refused(
        folder,
        &format!("{compute} notes.zarr --force"),
        2,
        "got notes.zarr, a folder of something else",
    );
    refused(folder, "info .", 2, "got another folder");
    std::fs::write(folder.join("none.npz"), "").unwrap();
    refused(folder, "info none.npz", 2, "got an empty file");
}

#[test]
fn pipes_that_cannot_be_read_are_refused_and_others_are_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    nwb(folder);
    pipe(folder, "pipe");
    // Nobody writes into it: a command that opened it would wait for ever.
    for line in [
        "info pipe",
        "serve pipe --no-open",
        "solve pipe pipe --out m.betz",
        "join pipe --out n.npz",
        "sort run pipe pipe --channels 4 --out o.npz",
        "sort train pipe --rate 30000 --channels 4 --gain 0.2 --out o.betz",
    ] {
        let said = fails(folder, line, "a pipe or a device");
        assert!(matches!(said.status.code(), Some(1 | 2)), "{line}");
    }
    let (from, to) = (folder.join("a.npz"), folder.join("pipe"));
    let writer = std::thread::spawn(move || fs::copy(from, to));
    let train = "train pipe --out m.betz --filter 0.02:1 --folds 0 --ridge 1";
    let said = betz(folder, train);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(folder.join("m.betz").is_file(), "{said}");
    assert!(said.contains("pipe: a pipe: reading until"), "{said}");
    writer.join().unwrap().unwrap();
}

#[test]
fn a_folder_is_no_output_and_is_told_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    nwb(folder);
    for out in ["new/", "./", "new/m.betz"] {
        let line = format!("train a.npz --out {out} --decoder auto");
        let output = betz(folder, &line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(
            said.contains("folder") && !said.contains("channels"),
            "{said}"
        );
    }
}

#[test]
fn a_limit_of_file_sizes_is_told_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = "ulimit -f 8; exec \"$BETZ\" simulate --out big.npz --neurons 50 --seconds 100";
    let output = Command::new("sh")
        .current_dir(folder)
        .args(["-c", line])
        .env("BETZ", env!("CARGO_BIN_EXE_betz"))
        .env("BETZ_CACHE", folder.join("cache"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("big.npz: File too large"), "{said}");
    let left = fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name != "cache").collect();
    assert!(left.is_empty(), "{left:?}");
}
