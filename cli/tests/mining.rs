//! Simulated networks and what `betz mine` finds in them, as a user runs them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn betz(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_betz"))
        .current_dir(folder)
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}

/// Runs a command that must succeed; its standard output.
fn done(folder: &Path, arguments: &str) -> String {
    let output = betz(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "betz {arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must succeed and print one JSON object.
fn json(folder: &Path, arguments: &str) -> Value {
    serde_json::from_str(&done(folder, &format!("{arguments} --json"))).unwrap()
}

/// Runs a command that must fail with code 2, print nothing, and say `words`.
fn refused(folder: &Path, arguments: &str, words: &str) {
    let output = betz(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "betz {arguments}: {errors}");
    assert!(output.stdout.is_empty(), "betz {arguments} printed");
    assert!(
        errors.contains(words),
        "betz {arguments}: expected '{words}' in: {errors}"
    );
}

/// The labels of each listed episode, or chain.
fn symbols(list: &Value) -> BTreeSet<Vec<String>> {
    let labels = |e: &Value| serde_json::from_value(e["symbols"].clone()).unwrap();
    list.as_array().unwrap().iter().map(labels).collect()
}

const MINE: &str = "mine spikes.csv --interval 0.004,0.006 --threshold 240";

#[test]
fn the_chains_of_sym26_are_found_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let made = json(
        folder,
        "simulate --network --sym26 --seed 2 --out spikes.csv",
    );
    let recording = &made["recordings"][0];
    assert_eq!(
        (&recording["channels"], &recording["seconds"]),
        (&26.into(), &60.0.into())
    );
    assert_eq!(made["truth"], "spikes.chains.txt");
    let chains = symbols(&made["chains"]);
    assert_eq!(
        chains
            .iter()
            .map(Vec::len)
            .collect::<Vec<_>>()
            .iter()
            .sum::<usize>(),
        10
    );

    // Every contiguous part of a chain, of two symbols or more, occurs where the chain does.
    let mut parts = BTreeSet::new();
    for chain in &chains {
        for size in 2..=chain.len() {
            parts.extend(chain.windows(size).map(<[String]>::to_vec));
        }
    }
    let found = json(
        folder,
        &format!("{MINE} --surrogates 149 --fdr 0.02 --parts"),
    );
    assert_eq!(symbols(&found["episodes"]), parts);
    assert_eq!(
        (&found["complete"], &found["chance"]["kind"]),
        (&true.into(), &"dither".into())
    );
    for e in found["episodes"].as_array().unwrap() {
        assert!(
            e["q"].as_f64().unwrap() <= 0.02 && e["weakest_part"]["q"].as_f64().unwrap() <= 0.02
        );
        assert!(e["expected"].as_f64().unwrap() < e["count"].as_f64().unwrap());
    }
    // The truth reads back as a list of episodes, with the same counts.
    let counted = json(folder, "mine spikes.csv --count-only spikes.chains.txt");
    assert_eq!(symbols(&counted["episodes"]), chains);
    for e in counted["episodes"].as_array().unwrap() {
        let all = found["episodes"].as_array().unwrap();
        let same = all.iter().find(|f| f["symbols"] == e["symbols"]).unwrap();
        assert_eq!(same["count"], e["count"]);
        assert_eq!(e["intervals"][0], serde_json::json!([0.004, 0.006]));
        assert!(e.get("p").is_none());
    }
}

#[test]
fn a_seed_decides_everything_and_both_forms_hold_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let simulate =
        "simulate --network --neurons 30 --seconds 5 --chains 3,5 --rate 12.5 --tick 0.0001";
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    for (out, seed) in [
        ("a.csv", 7),
        ("b.csv", 7),
        ("c.csv", 8),
        ("a.npz", 7),
        ("b.npz", 7),
    ] {
        done(
            folder,
            &format!("{simulate} --seed {seed} --out {out} --truth {out}.txt"),
        );
    }
    assert!(read("a.csv") == read("b.csv") && read("a.csv") != read("c.csv"));
    assert!(read("a.npz") == read("b.npz") && read("a.csv.txt") == read("a.npz.txt"));
    let count = |file: &str| json(folder, &format!("mine {file} --count-only a.csv.txt"));
    let (csv, npz) = (count("a.csv"), count("a.npz"));
    assert_eq!(
        (&csv["episodes"], &csv["events"]),
        (&npz["episodes"], &npz["events"])
    );
    assert!(csv["episodes"][1]["count"].as_u64().unwrap() > 20, "{csv}");

    for how in ["--dither 0.02", "--shuffle", ""] {
        let mine = |seed: u64| {
            let mine = "mine a.csv --interval 0.004,0.006 --threshold 20 --surrogates 19";
            json(folder, &format!("{mine} {how} --seed {seed}"))["episodes"].take()
        };
        let first = mine(1);
        assert_eq!(first, mine(1));
        assert_ne!(first, mine(2));
    }
}

#[test]
fn lists_tables_and_files_carry_what_surrogates_say() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --sym26 --seconds 20 --out spikes.csv");
    let mine = "mine spikes.csv --interval 0.004,0.006 --threshold 80 --max-size 3 --surrogates 99";
    let all = json(folder, &format!("{mine} --csv all.csv"));
    assert_eq!(all["complete_size"], 3);
    for e in all["episodes"].as_array().unwrap() {
        let single = e["symbols"].as_array().unwrap().len() == 1;
        for key in ["expected", "std", "p", "q"] {
            assert_eq!(e[key].is_null(), single, "{e}");
        }
    }
    let csv = std::fs::read_to_string(folder.join("all.csv")).unwrap();
    let mut lines = csv.lines();
    let header = "size,count,symbols,low_seconds,high_seconds,expected,std,p,q";
    assert_eq!(lines.next(), Some(header));
    assert!(lines.all(|l| l.split(',').count() == 9 && l.starts_with('1') == l.ends_with(",,,,")));
    assert_eq!(
        csv.lines().count(),
        1 + all["episodes"].as_array().unwrap().len()
    );

    let some = json(folder, &format!("{mine} --fdr 0.05"));
    let passing = |e: &&Value| e["q"].as_f64().is_some_and(|q| q <= 0.05);
    let expected: Vec<&Value> = all["episodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(passing)
        .collect();
    assert_eq!(
        some["episodes"]
            .as_array()
            .unwrap()
            .iter()
            .collect::<Vec<_>>(),
        expected
    );
    assert!(!expected.is_empty() && expected.len() < csv.lines().count() - 1);

    let table = done(folder, &format!("{mine} --fdr 0.05 --top 3"));
    let heading = "episode, delays of (0.004,0.006] s  count  expected";
    assert!(table.contains(heading) && table.contains("surrogates (events moved by up to 0.024 s"));
    let none = betz(folder, &format!("{mine} --fdr 0.000001"));
    assert!(none.status.success());
    let said = String::from_utf8_lossy(&none.stderr);
    assert!(said.contains("no episode passes"), "{said}");
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (arguments, words) in [
        ("--out a.csv", "only networks go to .csv"),
        ("--network --out a.txt", ".csv or .npz"),
        ("--dataset 9 --out a.csv", "1 to 8"),
        ("--dataset 0 --out a.csv", "1 to 8"),
        ("--dataset 8 --seconds 3 --out a.csv", "--seconds"),
        ("--dataset 8 --sym26 --out a.csv", "--sym26"),
        ("--rate 5 --out a.npz", "--network"),
        ("--network --test-out b.npz --out a.csv", "--test-out"),
        ("--network --units 3 --out a.csv", "--units"),
        ("--network --neurons 35 --out a.csv", "at most 35"),
        ("--network --neurons 0 --out a.csv", "neurons"),
        ("--network --chains 3,x --out a.csv", "--chains"),
        ("--network --chains 3,0 --out a.csv", "at least one node"),
        ("--network --delay 0.01 --out a.csv", "--delay"),
        ("--network --connection 1.5 --out a.csv", "0 to 1"),
        ("--network --rate 0 --out a.csv", "rate"),
        ("--network --seconds nan --out a.csv", "length"),
        ("--network --seconds 1e9 --out a.csv", "longer tick"),
        ("--network --truth a.csv --out a.csv", "another file"),
    ] {
        refused(folder, &format!("simulate {arguments}"), words);
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);

    done(
        folder,
        "simulate --network --seconds 1 --chains 4 --neurons 8 --out spikes.csv",
    );
    for (arguments, words) in [
        ("--surrogates 0", "--surrogates"),
        ("--fdr 0.1", "--surrogates"),
        ("--dither 0.1", "--surrogates"),
        ("--surrogates 9 --fdr 0", "--fdr"),
        ("--surrogates 9 --fdr nan", "--fdr"),
        ("--surrogates 9 --dither 0", "--dither"),
        ("--surrogates 9 --dither inf", "--dither"),
        ("--surrogates 9 --dither 0.1 --shuffle", "--shuffle"),
        ("--surrogates 9 --parts", "--fdr"),
        ("--surrogates 9 --replay 2", "--replay"),
    ] {
        refused(folder, &format!("{MINE} {arguments} --csv o.csv"), words);
    }
    assert!(!folder.join("o.csv").exists());
    std::fs::write(folder.join("list"), "# one\nA B\nAB -(0,0.1]-> C\n").unwrap();
    let counting = "mine spikes.csv --count-only list --interval 0,0.01";
    refused(folder, counting, "list, line 3");
    refused(
        folder,
        counting,
        "did you mean \"A\"? expected one of 8 (A, B, C,",
    );
}

/// An interrupt ends the search and lists what is known by then, saying which sizes are whole.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_search_says_what_is_complete() {
    use std::process::Stdio;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --network --seconds 20 --out spikes.csv");
    // Endless: every sequence of symbols occurs at least once.
    let mining = Command::new(env!("CARGO_BIN_EXE_betz"))
        .current_dir(folder)
        .args(
            "mine spikes.csv --interval 0,0.2 --interval 0.2,0.4 --threshold 1 --top 1 --csv o.csv"
                .split(' '),
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // As soon as it listens to interrupts (bit 1 of the caught signals), whatever it has found by then.
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", mining.id())).unwrap();
        let mask = status
            .lines()
            .find_map(|l| l.strip_prefix("SigCgt:"))
            .unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & 2 != 0
    };
    while !caught() {
        std::thread::yield_now();
    }
    let pid = mining.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = mining.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("complete; of size "), "{said}");
    assert!(
        said.contains("candidates were counted; longer episodes were not looked for"),
        "{said}"
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed
            .lines()
            .any(|l| l.contains(" of ") && l.contains("candidates")),
        "{printed}"
    );
    assert!(folder.join("o.csv").exists());
}
