//! `betz mine` on recordings in trials, and on files with odd names or faults.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::Output;

use betz::recording::{Recording, Segment, SpikeForm, Spikes};
use betz_testkit::Random;
use serde_json::Value;

use crate::program::command;

/// Runs a command that must succeed and print one JSON object; that, and what it said.
fn json(folder: &Path, arguments: &str) -> (Value, String) {
    let arguments = format!("{arguments} --json");
    let Output {
        status,
        stdout,
        stderr,
    } = command(folder, &arguments).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "betz {arguments}: {said}");
    (serde_json::from_slice(&stdout).unwrap(), said)
}

/// Writes `t.npz`: trials that begin every `apart` and last so long, in ms, in which B follows A by
/// 5 ms about five times per second.
fn write_trials(folder: &Path, apart: i64, lengths: &[i64]) {
    let (mut pairs, mut segments) = (Vec::new(), Vec::new());
    let mut random = Random::new(1);
    for (start, length) in (0..).step_by(apart as usize).zip(lengths) {
        segments.push(Segment {
            start,
            stop: start + length,
        });
        for begin in (0..length - 190).step_by(200) {
            let tick = start + begin + random.below(180) as i64;
            pairs.extend([(tick, 0), (tick + 5, 1)]);
        }
    }
    let (ticks, channels) = pairs.into_iter().unzip();
    let recording = Recording {
        tick_seconds: 1e-3,
        ticks: segments.last().unwrap().stop,
        spikes: Spikes::new(ticks, channels),
        channel_names: vec!["A".to_owned(), "B".to_owned()],
        behavior: None,
        segments,
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    };
    recording.write_npz(&folder.join("t.npz")).unwrap();
}

#[test]
fn a_replay_watches_trials_that_lie_far_apart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_trials(folder, 60_000, &[1000; 60]);
    let mine = "mine t.npz --interval 0.004,0.006 --threshold 20 --window 5 --max-size 3";
    for speed in ["inf", "1000000"] {
        let (found, said) = json(folder, &format!("{mine} --replay {speed}"));
        let first = &found["episodes"][0];
        assert_eq!(first["symbols"], serde_json::json!(["A", "B"]), "{said}");
        assert!(first["count"].as_u64().unwrap() > 200, "{said}");
        // A frame every quarter of a window.
        assert_eq!(said.lines().count(), 48, "{said}");
    }
}

#[test]
fn one_short_trial_is_left_out_where_parts_are_shifted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut lengths = [2000; 30];
    lengths[11] = 300;
    write_trials(folder, 3000, &lengths);
    let mine = "mine t.npz --interval 0.004,0.006 --threshold 100 --surrogates 19";
    let (found, said) = json(folder, &format!("{mine} --fdr 0.1 --parts"));
    let episodes = found["episodes"].as_array().unwrap();
    assert_eq!(episodes.len(), 1, "{found}");
    assert_eq!(episodes[0]["symbols"], serde_json::json!(["A", "B"]));
    let words = "left out of the test of parts: 1 segment, too short to shift by 0.12 s";
    assert!(said.contains(words), "{said}");

    write_trials(folder, 3000, &[300; 60]);
    let refused = command(folder, &format!("{mine} --fdr 0.1 --parts"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("--parts") && said.contains("even segment 0 lasts 0.3 s"));
}

/// An interval that no frequent episode has does not widen the dither.
#[test]
fn events_are_dithered_by_the_delays_of_what_is_tested() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_trials(folder, 3000, &[2000; 20]);
    let mine = "mine t.npz --threshold 100 --surrogates 3";
    for intervals in [
        "--interval 0.004,0.006",
        "--interval 0.004,0.006 --interval 0.5,0.501",
    ] {
        let (found, _) = json(folder, &format!("{mine} {intervals}"));
        assert_eq!(found["chance"]["tested"], 1, "{found}");
        assert_eq!(found["chance"]["dither_seconds"], 0.024);
    }
}

#[test]
fn endings_are_known_in_capitals() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_trials(folder, 3000, &[2000; 3]);
    let mine = "mine t.npz --interval 0.004,0.006 --threshold 10";
    json(folder, &format!("{mine} --picture x.SVG --graph x.GraphML"));
    let graph = std::fs::read_to_string(folder.join("x.GraphML")).unwrap();
    assert!(graph.starts_with("<?xml"), "{graph}");
    assert!(folder.join("x.SVG").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_list_and_a_file_that_both_fail_are_both_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_trials(folder, 3000, &[2000; 3]);
    let name = "/dev/full";
    let mine = format!("mine t.npz --interval 0.004,0.006 --threshold 10 --csv {name}");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let failed = command(folder, &mine).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(
        said.contains("writing standard output") && said.contains(name),
        "{said}"
    );
}
