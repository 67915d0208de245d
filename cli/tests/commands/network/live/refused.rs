//! Options and sources that `betz network live` refuses, before it waits for a signal.

use super::*;

#[test]
fn what_no_source_can_do_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("file.bin"), "x").unwrap();
    fs::create_dir(folder.join("camera")).unwrap();
    let edges = "--window 30 --step 10 --threshold 0.4";
    let rig = "openephys://127.0.0.1:1?channels=4";
    for (line, words) in [
        (format!("nowhere {edges}"), "which is not there"),
        (
            format!("file.bin {edges}"),
            "`betz network compute` reads files",
        ),
        (format!("xyz://here {edges}"), "xyz"),
        (format!("openephys://127.0.0.1:1 {edges}"), "channels=N"),
        (
            format!("{rig} {edges} --frames 2,2"),
            "--frames: expected frames",
        ),
        (
            format!("{rig} {edges} --settle 1s"),
            "--settle: expected frames",
        ),
        (
            format!("{rig} {edges} --bin 1s --average 2"),
            "--average: expected a source of samples",
        ),
        (
            format!("camera {edges} --bin 50ms"),
            "--bin: expected a source of spikes",
        ),
        (
            format!("camera {edges} --frames 2,2"),
            "--frames: expected raw frames",
        ),
        (
            format!("- {edges} --settle 1s"),
            "--settle: expected a folder",
        ),
        (
            format!("- {edges} --windows 0"),
            "--windows: expected at least 1",
        ),
        (
            format!("- {edges} --measure sttc"),
            "--measure: expected a measure of samples",
        ),
        (format!("- {edges} --measure distance"), "got distance"),
        (
            format!("- {edges} --reach 5ms"),
            "--reach: expected --measure sttc",
        ),
        (
            format!("- {edges} --out net.csv"),
            "ending in .npz or .zarr",
        ),
        (
            format!("- {edges} --region camera"),
            "expected x, y, width and height",
        ),
        (format!("- {edges} --control"), "--page"),
        ("- --window 30 --step 10".to_owned(), "--threshold"),
        (
            format!("- {edges} --average 0"),
            "--average: expected at least 1 row",
        ),
        (format!("- {edges} --nodes 5..3"), "--nodes: expected"),
        (
            format!("- {edges} --segment 10"),
            "--segment: expected --measure coherence",
        ),
        (
            "- --window 30 --step 10 --threshold 7".to_owned(),
            "expected 0 to 1, got 7",
        ),
        ("- --window 0 --step 10 --threshold 0.4".to_owned(), "got 0"),
        ("- --window 30 --step 0 --threshold 0.4".to_owned(), "got 0"),
    ] {
        refused(folder, &format!("network live {line}"), 2, words);
    }
    for (options, bytes, words) in [
        (
            "--frames 2,2 --window 30 --step 10 --threshold 2".to_owned(),
            "abcd",
            "expected 0 to 1, got 2",
        ),
        (
            "--frames 2,2 --window 3s --step 10 --threshold 0.4".to_owned(),
            "abcd",
            "--sample-seconds",
        ),
        (
            format!("{edges} --frames 2,2 --nodes 7"),
            "abcd",
            "numbers below 4",
        ),
        (
            format!("{edges} --frames 2,2 --average 0"),
            "abcd",
            "--average: expected at least 1 row",
        ),
        (
            format!("{edges} --frames 2,2 --channel hue"),
            "abcd",
            "--channel: expected grey",
        ),
        (
            format!("{edges} --frames 2,2 --out x.npz"),
            "abcdefgh",
            "got 2 samples; nothing is written",
        ),
        (edges.to_owned(), "RIFF", "or raw bytes with --frames"),
        (
            format!("{edges} --frames 2,2"),
            "",
            "expected rows, got none",
        ),
    ] {
        fs::write(folder.join("bytes"), bytes).unwrap();
        let mut child = program::command(folder, &format!("network live - {options}"));
        let input = fs::File::open(folder.join("bytes")).unwrap();
        let output = child.stdin(input).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{options}");
        assert!(errors.contains(words), "{options}: {errors}");
    }
    fails(
        folder,
        &format!("network live - {edges} --out file.bin"),
        "ending in .npz or .zarr",
    );
}
