//! Simulated networks and what `betz mine` finds in them, as a user runs them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{self, betz, done, interrupt, json, spawned};

pub(crate) fn refused(folder: &Path, line: &str, words: &str) {
    program::refused(folder, line, 2, words);
}

/// The labels of each listed episode, or chain.
fn symbols(list: &Value) -> BTreeSet<Vec<String>> {
    let labels = |e: &Value| serde_json::from_value(e["symbols"].clone()).unwrap();
    list.as_array().unwrap().iter().map(labels).collect()
}

const MINE: &str = "mine spikes.csv --interval 0.004,0.006 --threshold 80";

#[test]
fn the_chains_of_sym26_are_found_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let made = json(
        folder,
        "simulate --network --sym26 --seconds 20 --seed 2 --out spikes.csv",
    );
    let recording = &made["recordings"][0];
    assert_eq!(
        (&recording["channels"], &recording["seconds"]),
        (&26.into(), &20.0.into())
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
    assert!(read("a.npz") == read("b.npz"));
    // Beside text, the chains say which events they are of.
    let chains = |name| {
        let text = String::from_utf8(read(name)).unwrap();
        let lines = text.lines().filter(|l| !l.starts_with("# The events"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(chains("a.csv.txt"), chains("a.npz.txt"));
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
    // q is at least 1 / 100: refused before the work, with the number that would do.
    let impossible = format!("{mine} --fdr 0.000001");
    refused(folder, &impossible, "--surrogates of at least 999999");
    let hardly = betz(folder, &format!("{mine} --fdr 0.01"));
    assert!(hardly.status.success());
    let said = String::from_utf8_lossy(&hardly.stderr);
    assert!(
        said.contains("surrogates would list a single one"),
        "{said}"
    );
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
        (
            "--network --out no/a.csv",
            "--out no/a.csv: expected a folder",
        ),
        ("--network --truth no/t --out a.csv", "--truth no/t"),
        ("--network --rate 1e9 --out a.csv", "spikes in a tick"),
        ("--out no/a.npz", "--out no/a.npz"),
        ("--test-out no/b.npz --out a.npz", "--test-out no/b.npz"),
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
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --network --seconds 20 --out spikes.csv");
    done(
        folder,
        "mine spikes.csv --interval 0,0.2 --threshold 1 --max-size 1 --csv o.csv",
    );
    let earlier = fs::read_to_string(folder.join("o.csv")).unwrap();
    // Endless: every sequence of symbols occurs at least once.
    let mut mining = spawned(
        folder,
        "mine spikes.csv --interval 0,0.2 --interval 0.2,0.4 --threshold 1 --top 1 --csv o.csv",
    );
    // It lists the episodes found by then.
    interrupt(&mut mining);
    let output = mining.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
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
    // The list of an earlier, complete search stays as it was.
    assert_eq!(fs::read_to_string(folder.join("o.csv")).unwrap(), earlier);
    let partial = fs::read_to_string(folder.join("o.csv.partial")).unwrap();
    assert!(partial.starts_with("# incomplete: "), "{partial}");
}

/// Errors that could only show at the end show before anything is read or counted.
#[test]
fn results_are_not_lost_to_late_checks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir(folder.join("there")).unwrap();
    let mine = "--interval 0,0.1 --threshold 1";
    for (arguments, words) in [
        (
            "--graph out.png",
            "--graph: expected a file ending in .dot or .gv or .graphml",
        ),
        ("--graph out", "--graph"),
        (
            "--picture out.jpg",
            "--picture: expected a file ending in .svg",
        ),
        (
            "--csv no/such/x.csv",
            "--csv no/such/x.csv: expected a folder",
        ),
        ("--picture no/x.svg", "--picture no/x.svg"),
        ("--csv there", "--csv there: expected a file"),
    ] {
        refused(folder, &format!("mine none.csv {mine} {arguments}"), words);
    }
    refused(folder, "demo --picture out.jpg", "--picture");
    std::fs::write(folder.join("s.csv"), "a,0.1\nb,0.2\na,0.4\nb,0.5\n").unwrap();
    for (arguments, words) in [
        ("--surrogates 9 --dither 1e-13", "--dither, in ticks of"),
        (
            "--surrogates 9 --fdr 0.1 --parts",
            "--parts: parts are shifted by at least 2 s",
        ),
    ] {
        refused(folder, &format!("mine s.csv {mine} {arguments}"), words);
    }

    let long = format!("mine s.csv {mine} --csv {}", "x".repeat(300));
    refused(folder, &long, "File name too long");

    // A file that cannot be written after all does not take the list with it: a device that is full.
    if !std::path::Path::new("/dev/full").exists() {
        eprintln!("skipped: no /dev/full here");
        return;
    }
    let made = betz(folder, &format!("mine s.csv {mine} --csv /dev/full"));
    assert_eq!(made.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&made.stdout);
    assert!(printed.contains("episodes in 4 events"), "{printed}");
}

#[test]
fn maximal_lists_drop_every_part_of_a_longer_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let times = |i: usize| format!("{},{}\n", ["B", "F", "H", "G"][i % 4], i as f64 / 100.0);
    std::fs::write(folder.join("s.csv"), (0..40).map(times).collect::<String>()).unwrap();
    std::fs::write(folder.join("list"), "B F\nB F H G\nH\nB H\n").unwrap();
    let labels = |episodes: &[&str]| -> BTreeSet<Vec<String>> {
        let split = |e: &&str| e.split(' ').map(str::to_owned).collect();
        episodes.iter().map(split).collect()
    };
    let given = "mine s.csv --interval 0,0.015 --count-only list";
    let all = json(folder, given);
    assert_eq!(
        symbols(&all["episodes"]),
        labels(&["B F", "B F H G", "H", "B H"])
    );
    let some = json(folder, &format!("{given} --maximal"));
    assert_eq!(symbols(&some["episodes"]), labels(&["B F H G", "B H"]));
    // Mined: the chain goes round and round.
    let mined = json(
        folder,
        "mine s.csv --interval 0,0.015 --threshold 5 --max-size 4 --maximal",
    );
    let turns = ["B F H G", "F H G B", "G B F H", "H G B F"];
    assert_eq!(symbols(&mined["episodes"]), labels(&turns));
}

/// The table's text, one interval or several, is a list to count again.
#[test]
fn labels_that_need_quotes_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let names = ["left 3", "#1", "a->b", "\"x\""];
    let times = |i: usize| format!("{},{}\n", names[i % 4], i as f64 / 100.0);
    std::fs::write(folder.join("s.csv"), (0..40).map(times).collect::<String>()).unwrap();
    for intervals in [
        "--interval 0,0.015",
        "--interval 0,0.015 --interval 0.015,0.025",
    ] {
        let mine = format!("mine s.csv {intervals} --threshold 8 --max-size 3 --top 1000");
        let found = json(folder, &mine)["episodes"].take();
        let table = done(folder, &mine);
        let rows = table.lines().skip_while(|l| !l.starts_with('─')).skip(1);
        // Text, two blanks or more, count.
        let texts = rows.take_while(|l| !l.contains("episodes in")).map(|l| {
            let (text, _) = l.trim_end().rsplit_once("  ").unwrap();
            text.trim_end().to_owned() + "\n"
        });
        std::fs::write(folder.join("list"), texts.collect::<String>()).unwrap();
        let one = if intervals.contains("0.025") {
            ""
        } else {
            intervals
        };
        let counted = json(folder, &format!("mine s.csv --count-only list {one}"));
        let sorted = |list: &Value| {
            let mut all: Vec<String> = (list.as_array().unwrap().iter())
                .map(ToString::to_string)
                .collect();
            all.sort();
            all
        };
        assert!(found.as_array().unwrap().len() >= 12);
        assert_eq!(sorted(&counted["episodes"]), sorted(&found));
    }
}

#[test]
fn parts_reach_the_csv() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --sym26 --seconds 20 --out spikes.csv");
    let mine = "mine spikes.csv --interval 0.004,0.006 --threshold 80 --max-size 2 --surrogates 19";
    let found = json(folder, &format!("{mine} --fdr 0.2 --parts --csv o.csv"));
    assert_eq!(found["chance"]["device"], "cpu");
    let csv = std::fs::read_to_string(folder.join("o.csv")).unwrap();
    let mut lines = csv.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .ends_with(",q,weakest_first,weakest_last,weakest_expected,weakest_p,weakest_q")
    );
    let episodes = found["episodes"].as_array().unwrap();
    assert!(!episodes.is_empty());
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), episodes.len());
    for (line, e) in lines.into_iter().zip(episodes) {
        let fields: Vec<&str> = line.split(',').collect();
        let part = &e["weakest_part"];
        for (field, key) in fields[9..]
            .iter()
            .zip(["first", "last", "expected", "p", "q"])
        {
            // JSON may be read to the last digit but one.
            let (csv, json) = (field.parse::<f64>().unwrap(), part[key].as_f64().unwrap());
            assert!((csv - json).abs() < 1e-12 * csv.abs().max(1.0), "{line}");
        }
    }
}

#[test]
fn a_replay_ends_with_the_offline_counts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate --network --neurons 12 --chains 4 --seconds 30 --out s.npz --truth list",
    );
    let sorted = |found: &Value| {
        let mut all: Vec<String> = (found["episodes"].as_array().unwrap().iter())
            .map(|e| format!("{} {}", e["symbols"], e["count"]))
            .collect();
        all.sort();
        all
    };
    let counted = json(folder, "mine s.npz --count-only list");
    for speed in ["inf", "1000"] {
        let replayed = json(
            folder,
            &format!("mine s.npz --count-only list --replay {speed}"),
        );
        assert_eq!(sorted(&replayed), sorted(&counted));
        assert_eq!(replayed["events"], counted["events"]);
    }
    // The list is mined from the last 5 s, and the chain is in it.
    let mine = "mine s.npz --interval 0.004,0.006 --threshold 40 --window 5 --replay inf";
    let table = done(folder, &format!("{mine} --top 1000"));
    let chain = std::fs::read_to_string(folder.join("list")).unwrap();
    let chain = chain.lines().find(|l| !l.starts_with('#')).unwrap();
    assert!(table.contains(chain), "{chain}\n{table}");
    // Ticks longer than a frame, played slowly.
    let coarse = "--neurons 4 --chains 2 --rate 5 --tick 0.1 --delay 0.1,0.3";
    done(
        folder,
        &format!("simulate --network {coarse} --seconds 0.3 --out c.npz --truth coarse"),
    );
    let played = json(folder, "mine c.npz --count-only coarse --replay 0.25");
    assert_eq!(
        sorted(&played),
        sorted(&json(folder, "mine c.npz --count-only coarse"))
    );
}

/// An interrupt is heard while the window is mined, too.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_replay_ends_and_lists_what_it_watches() {
    use std::io::{BufRead, BufReader, Read};
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --network --seconds 20 --out spikes.csv");
    // Every sequence of eight symbols occurs: the first window takes for ever.
    let endless = "mine spikes.csv --interval 0,0.2 --interval 0.2,0.4 --threshold 1 --max-size 8";
    let mut replay = spawned(folder, &format!("{endless} --window 10 --replay inf"));
    let mut said = BufReader::new(replay.stderr.take().unwrap());
    // The first window is mined soon after the first frame is shown.
    let mut line = String::new();
    while !line.contains(" events") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "ended by itself");
    }
    interrupt(&mut replay);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let output = replay.wait_with_output().unwrap();
    assert!(output.status.success(), "{rest}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("episode"));
}
