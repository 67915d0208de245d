//! Shards of networks and of counts: written apart, joined to what one run writes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{done, json, refused};

/// A recording of 12 channels over 40 s.
fn prepared() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    json(
        folder.path(),
        "simulate --out a.npz --test-out b.npz --neurons 12 --seconds 40 --test-seconds 10 --tick 0.001 --seed 3",
    );
    folder
}

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap()
}

/// Writes `1ofN.ENDING` to `NofN.ENDING`, and returns what is printed of each.
fn write_shards(folder: &Path, line: &str, of: u64, ending: &str) -> Vec<Value> {
    let shard = |k| format!("{line} --shard {k}/{of} --out {k}of{of}.{ending}");
    (1..=of).map(|k| json(folder, &shard(k))).collect()
}

/// Joins all shards, the last one first.
fn join(folder: &Path, of: u64, ending: &str, more: &str) -> Value {
    let names: Vec<String> = (1..=of)
        .rev()
        .map(|k| format!("{k}of{of}.{ending}"))
        .collect();
    json(folder, &format!("join {} {more}", names.join(" ")))
}

/// Joins of these shards are refused in these words, and leave `out` as it is.
fn joins_are_refused(folder: &Path, out: &str, faults: &[(&str, &str)]) {
    let before = bytes(folder, out);
    for (parts, words) in faults {
        refused(folder, &format!("join {parts} --out {out}"), 1, words);
    }
    assert!(bytes(folder, out) == before);
}

/// Flips one bit of a byte.
fn damage(folder: &Path, from: &str, to: &str, at: usize) {
    let mut bytes = fs::read(folder.join(from)).unwrap();
    bytes[at] ^= 4;
    fs::write(folder.join(to), bytes).unwrap();
}

#[test]
fn a_network_of_shards_has_the_bytes_of_the_whole() {
    let folder = prepared();
    let folder = folder.path();
    // 3,901 windows in runs of up to 256; every window by itself; names and seconds go along.
    for (case, options) in [
        "--bin 10ms --window 1s --step 10ms --threshold 0.1",
        "--bin 10ms --window 1s --step 500ms --measure spearman --top 5 --compact",
        "--bin 10ms --window 1s --step 2s --measure partial --density 0.2",
    ]
    .into_iter()
    .enumerate()
    {
        done(
            folder,
            &format!("network compute a.npz {options} --device cpu --out whole{case}.npz"),
        );
        for of in [1, 2, 3, 7] {
            let line = format!("network compute a.npz {options} --device cpu");
            let mut windows = 0;
            for (k, shard) in (1..).zip(write_shards(folder, &line, of, "net")) {
                windows += shard["windows"].as_u64().unwrap();
                assert_eq!((&shard["shard"], &shard["shards"]), (&k.into(), &of.into()));
            }
            let joined = join(folder, of, "net", "--out joined.npz");
            assert_eq!(
                (&joined["kind"], &joined["windows"]),
                (&"network".into(), &windows.into())
            );
            assert!(
                bytes(folder, "joined.npz") == bytes(folder, &format!("whole{case}.npz")),
                "{of} shards of {options}"
            );
        }
    }
}

#[test]
fn faults_of_network_shards_are_named_and_nothing_is_written() {
    let folder = prepared();
    let folder = folder.path();
    let options = "--bin 10ms --window 1s --step 2s --measure partial --density 0.2 --device cpu";
    let line = format!("network compute a.npz {options}");
    write_shards(folder, &line, 3, "net");
    join(folder, 3, "net", "--out joined.npz");
    done(folder, &format!("{line} --shard 2/7 --out 2of7.net"));
    let about = json(folder, "info 2of3.net");
    assert_eq!(
        (&about["kind"], &about["shard"]),
        (&"network shard".into(), &2.into())
    );
    damage(folder, "2of3.net", "damaged.net", 900);
    damage(folder, "2of3.net", "newer.net", 8);
    done(
        folder,
        &format!("network compute b.npz {options} --shard 2/3 --out other.net"),
    );
    let faults = [
        (
            "1of3.net 3of3.net",
            "expected all 3 shards, got 2: none of number 2",
        ),
        (
            "1of3.net 2of3.net 2of3.net 3of3.net",
            "2of3.net: expected each shard once, got shard 2",
        ),
        (
            "1of3.net damaged.net 3of3.net",
            "damaged.net: a shard of a network is damaged: expected checksum",
        ),
        (
            "1of3.net newer.net 3of3.net",
            "newer.net: a shard of a network",
        ),
        (
            "1of3.net 2of7.net 3of3.net",
            "2of7.net: expected a shard of the same network as 1of3.net, got shards 7",
        ),
        (
            "1of3.net other.net 3of3.net",
            "other.net: expected a shard of the same network as 1of3.net, got",
        ),
        (
            "1of3.net a.npz 3of3.net",
            "a.npz: expected a shard that `betz mine --shard`",
        ),
    ];
    joins_are_refused(folder, "joined.npz", &faults);
    refused(
        folder,
        "join 1of3.net 2of3.net 3of3.net --threshold 3 --out y.npz",
        2,
        "--threshold: expected shards of counts",
    );
}

#[test]
fn wrong_shards_of_networks_are_refused() {
    let folder = prepared();
    let folder = folder.path();
    let options = "--bin 10ms --window 1s --step 1s --top 1 --out x.net";
    for (more, words) in [
        ("--shard 0/3", "expected a number from 1"),
        ("--shard 2", "such as 2/8"),
        ("--shard 1/2 --full", "--full: expected none with --shard"),
    ] {
        refused(
            folder,
            &format!("network compute a.npz {options} {more}"),
            2,
            words,
        );
    }
}

const SEARCH: &str = "--interval 0,0.01 --interval 0.01,0.025";

/// Counts by shards from size to size, and writes the episodes of the next size to `2.txt`, `3.txt` and `4.txt`.
/// Returns the lines of all that is frequent.
fn search_by_shards(folder: &Path) -> String {
    let mut frequent = String::new();
    for (size, next) in [(1, "2.txt"), (2, "3.txt"), (3, "4.txt")] {
        let (given, interval) = match size {
            1 => (String::new(), SEARCH),
            size => (format!("--count-only {size}.txt"), ""),
        };
        write_shards(folder, &format!("mine a.npz {given}"), 3, "counts");
        let more = format!("--threshold 60 --out frequent.csv --next {next} {interval}");
        let joined = join(folder, 3, "counts", &more);
        assert_eq!(joined["kind"], "counts");
        let list = fs::read_to_string(folder.join("frequent.csv")).unwrap();
        let lines = list.lines().skip(usize::from(size > 1));
        lines.for_each(|line| frequent.push_str(&format!("{line}\n")));
    }
    frequent
}

#[test]
fn a_search_by_shards_finds_the_same_from_size_to_size() {
    let folder = prepared();
    let folder = folder.path();
    done(
        folder,
        &format!("mine a.npz {SEARCH} --threshold 60 --max-size 3 --csv found.csv"),
    );
    let found = fs::read_to_string(folder.join("found.csv")).unwrap();
    assert!(found.lines().count() > 100, "{found}");
    assert_eq!(search_by_shards(folder), found);
}

#[test]
fn counts_of_shards_are_those_of_the_whole() {
    let folder = prepared();
    let folder = folder.path();
    search_by_shards(folder);
    // The same table, whatever the number of shards and the length of stretches.
    done(folder, "mine a.npz --count-only 3.txt --csv whole.csv");
    for (of, memory) in [
        (1, ""),
        (2, "--memory 20kB"),
        (3, ""),
        (7, "--memory 100kB"),
    ] {
        let line = format!("mine a.npz --count-only 3.txt {memory}");
        write_shards(folder, &line, of, "counts");
        join(folder, of, "counts", "--out joined.csv");
        let same = bytes(folder, "joined.csv") == bytes(folder, "whole.csv");
        assert!(same, "{of} shards");
    }
}

#[test]
fn faults_of_count_shards_are_named_and_nothing_is_written() {
    let folder = prepared();
    let folder = folder.path();
    search_by_shards(folder);
    write_shards(folder, "mine a.npz --count-only 3.txt", 3, "counts");
    join(folder, 3, "counts", "--out joined.csv");
    let about = json(folder, "info 2of3.counts");
    assert_eq!(
        (&about["kind"], &about["shards"]),
        (&"counts shard".into(), &3.into())
    );
    damage(folder, "2of3.counts", "damaged.counts", 90);
    done(
        folder,
        "mine a.npz --count-only 2.txt --shard 2/3 --out fewer.counts",
    );
    done(
        folder,
        "mine b.npz --count-only 3.txt --shard 2/3 --out other.counts",
    );
    done(
        folder,
        "network compute a.npz --bin 10ms --window 1s --step 1s --top 1 --shard 2/3 --out part.net",
    );
    let faults = [
        (
            "1of3.counts 3of3.counts",
            "expected all 3 shards, got 2: none of number 2",
        ),
        (
            "1of3.counts 1of3.counts 2of3.counts 3of3.counts",
            "expected each shard once, got shard 1",
        ),
        (
            "1of3.counts damaged.counts 3of3.counts",
            "damaged.counts: a shard of counts is damaged: expected checksum",
        ),
        (
            "1of3.counts fewer.counts 3of3.counts",
            "fewer.counts: expected a shard of the same counts as 1of3.counts, got episodes",
        ),
        (
            "1of3.counts other.counts 3of3.counts",
            "other.counts: expected a shard of the same counts as 1of3.counts, got ticks",
        ),
        (
            "1of3.counts part.net 3of3.counts",
            "part.net: expected a shard of counts, as 1of3.counts is, got one of a network",
        ),
    ];
    joins_are_refused(folder, "joined.csv", &faults);
}

#[test]
fn wrong_shards_of_counts_are_refused() {
    let folder = prepared();
    let folder = folder.path();
    for (line, words) in [
        ("mine a.npz --shard 1/2", "--out"),
        (
            "mine a.npz --shard 1/2 --threshold 4 --out x.counts",
            "--threshold",
        ),
        (
            "mine a.npz --shard 1/2 --interval 0,0.01 --out x.counts",
            "--interval: expected it together with --count-only",
        ),
        (
            "mine a.npz --shard 3/2 --out x.counts",
            "expected a number from 1",
        ),
        (
            "mine a.npz --shard 1/2 --strategy serial --out x.counts",
            "--strategy: expected latest-start",
        ),
        (
            "mine - --shard 1/2 --out x.counts",
            "--shard: expected a recording",
        ),
    ] {
        refused(folder, line, 2, words);
    }
}
