//! Shards of networks and of counts: written apart, joined to what one run writes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use crate::program::{done, json, refused};

/// A recording of 12 channels over 40 s.
fn prepared(folder: &Path) {
    json(
        folder,
        "simulate --out a.npz --test-out b.npz --neurons 12 --seconds 40 --test-seconds 10 --tick 0.001 --seed 3",
    );
}

/// The names of `of` shards, the last one first.
fn reversed(of: usize, ending: &str) -> String {
    let names: Vec<String> = (1..=of)
        .rev()
        .map(|k| format!("{k}of{of}.{ending}"))
        .collect();
    names.join(" ")
}

/// Flips one bit of a byte.
fn damage(folder: &Path, from: &str, to: &str, at: usize) {
    let mut bytes = fs::read(folder.join(from)).unwrap();
    bytes[at] ^= 4;
    fs::write(folder.join(to), bytes).unwrap();
}

#[test]
fn a_network_of_shards_has_the_bytes_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let bytes = |name: &str| fs::read(folder.join(name)).unwrap();
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
            let mut windows = 0;
            for k in 1..=of {
                let shard = json(
                    folder,
                    &format!(
                        "network compute a.npz {options} --device cpu --shard {k}/{of} --out {k}of{of}.net"
                    ),
                );
                windows += shard["windows"].as_u64().unwrap();
                assert_eq!((&shard["shard"], &shard["shards"]), (&k.into(), &of.into()));
            }
            let joined = json(
                folder,
                &format!("join {} --out joined.npz", reversed(of, "net")),
            );
            assert_eq!(
                (&joined["kind"], &joined["windows"]),
                (&"network".into(), &windows.into())
            );
            assert!(
                bytes("joined.npz") == bytes(&format!("whole{case}.npz")),
                "{of} shards of {options}"
            );
        }
    }
    let about = json(folder, "info 2of3.net");
    assert_eq!(
        (&about["kind"], &about["shard"]),
        (&"network shard".into(), &2.into())
    );
    // Faults are named, and nothing is written.
    let before = bytes("joined.npz");
    damage(folder, "2of3.net", "damaged.net", 900);
    damage(folder, "2of3.net", "newer.net", 8);
    let options = "--bin 10ms --window 1s --step 2s --measure partial --density 0.2 --device cpu";
    done(
        folder,
        &format!("network compute b.npz {options} --shard 2/3 --out other.net"),
    );
    for (parts, words) in [
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
    ] {
        refused(folder, &format!("join {parts} --out joined.npz"), 1, words);
    }
    assert!(bytes("joined.npz") == before);
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
    refused(
        folder,
        "join 1of3.net 2of3.net 3of3.net --threshold 3 --out y.npz",
        2,
        "--threshold: expected shards of counts",
    );
}

#[test]
fn counts_of_shards_are_those_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let bytes = |name: &str| fs::read(folder.join(name)).unwrap();
    // All that is frequent, of up to three symbols, counted again by shards.
    let search = "--interval 0,0.01 --interval 0.01,0.025";
    done(
        folder,
        &format!("mine a.npz {search} --threshold 60 --max-size 3 --csv found.csv"),
    );
    let found = fs::read_to_string(folder.join("found.csv")).unwrap();
    assert!(found.lines().count() > 100, "{found}");
    // The search itself, from size to size.
    let mut by_shards = String::new();
    for (size, next) in [(1, "2.txt"), (2, "3.txt"), (3, "4.txt")] {
        let given = match size {
            1 => String::new(),
            size => format!("--count-only {size}.txt"),
        };
        for k in 1..=3 {
            json(
                folder,
                &format!("mine a.npz {given} --shard {k}/3 --out {k}of3.counts"),
            );
        }
        let interval = if size == 1 { search } else { "" };
        let joined = json(
            folder,
            &format!(
                "join {} --threshold 60 --out frequent.csv --next {next} {interval}",
                reversed(3, "counts")
            ),
        );
        assert_eq!(joined["kind"], "counts");
        let list = fs::read_to_string(folder.join("frequent.csv")).unwrap();
        let lines = list.lines().skip(usize::from(size > 1));
        lines.for_each(|line| by_shards.push_str(&format!("{line}\n")));
    }
    assert_eq!(by_shards, found);
    // Given ones: the same table, whatever the number of shards and the length of stretches.
    done(folder, "mine a.npz --count-only 3.txt --csv whole.csv");
    for (of, memory) in [
        (1, ""),
        (2, "--memory 20kB"),
        (3, ""),
        (7, "--memory 100kB"),
    ] {
        for k in 1..=of {
            json(
                folder,
                &format!(
                    "mine a.npz --count-only 3.txt --shard {k}/{of} {memory} --out {k}of{of}.counts"
                ),
            );
        }
        done(
            folder,
            &format!("join {} --out joined.csv", reversed(of, "counts")),
        );
        assert!(bytes("joined.csv") == bytes("whole.csv"), "{of} shards");
    }
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
    let before = bytes("joined.csv");
    for (parts, words) in [
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
    ] {
        refused(folder, &format!("join {parts} --out joined.csv"), 1, words);
    }
    assert!(bytes("joined.csv") == before);
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
