//! `betz mine --count` and `--parallel`: other frequencies of episodes, and episodes without an order.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::mining::refused;
use crate::program::{betz, done, json};

/// The counts of one file by each definition, and searches by those that allow one.
#[test]
fn counts_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("few.csv"), "A,0\nA,0.001\nB,0.003\nB,0.004\n").unwrap();
    std::fs::write(folder.join("list"), "A B\n").unwrap();
    let given = "mine few.csv --interval 0,0.005 --count-only list";
    let count = |options: &str| json(folder, &format!("{given} {options}"));
    for (options, expected) in [
        ("", 1),
        ("--count non-overlapped", 1),
        ("--count minimal", 1),
        ("--count minimal --span 0.001", 0),
        ("--count distinct", 4),
        ("--count total", 2),
        ("--count total --span 0.002", 1),
    ] {
        assert_eq!(
            count(options)["episodes"][0]["count"],
            expected,
            "{options}"
        );
    }
    let tested = count("--count distinct --surrogates 9");
    assert_eq!(tested["frequency"], "distinct");
    assert_eq!(tested["episodes"][0]["count"], 4);
    assert!(tested["episodes"][0]["p"].as_f64().unwrap() >= 0.1);
    let windows = count("--count windows --span 0.004");
    assert_eq!(windows["span_seconds"], 0.004);
    // A window begins at every tick, and ticks of a file of text are shorter than 1 ms.
    let two = count("--count windows --span 0.005")["episodes"][0]["count"].clone();
    assert!(two.as_u64() > windows["episodes"][0]["count"].as_u64());

    let searched = json(
        folder,
        "mine few.csv --interval 0,0.005 --threshold 2 --count total",
    );
    let found = searched["episodes"].as_array().unwrap();
    let symbols: Vec<String> = found.iter().map(|e| e["symbols"].to_string()).collect();
    assert_eq!(symbols, [r#"["A"]"#, r#"["B"]"#, r#"["A","B"]"#]);
    let printed = done(folder, &format!("{given} --count minimal"));
    assert!(printed.contains("(minimal, cpu)"), "{printed}");

    // 80 spikes and chains of 40: more than 2^64 occurrences.
    let many: String = (0..80)
        .map(|i| format!("A,{}\n", f64::from(i) * 0.001))
        .collect();
    std::fs::write(folder.join("many.csv"), many).unwrap();
    std::fs::write(folder.join("long"), "A ".repeat(40)).unwrap();
    let long = "mine many.csv --interval 0,1 --count-only long --count distinct";
    let run = betz(folder, long);
    assert!(run.status.success());
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(
        said.contains("18446744073709551615 stands for this number or more"),
        "{said}"
    );
    refused(
        folder,
        &format!("{long} --surrogates 9"),
        "expected counts below 2^63 / 9",
    );
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("few.csv"), "A,0\nA,0.001\nB,0.003\nB,0.004\n").unwrap();
    let search = "mine few.csv --interval 0,0.005 --threshold 1";
    for (options, words) in [
        (
            "--count often",
            "--count: expected one of non-overlapped, minimal, windows, distinct, total, got \"often\"",
        ),
        (
            "--count windows",
            "--count: windows: expected a span, which is the width of a window, got none",
        ),
        (
            "--span 0.1",
            "--count: non-overlapped: expected no span, got one",
        ),
        (
            "--count distinct",
            "--count without --count-only: distinct: expected episodes to count, got a search",
        ),
        ("--count minimal --span 1e-13", "expected at least one tick"),
        (
            "--count minimal --strategy serial",
            "--strategy: expected none with --count minimal",
        ),
        (
            "--count minimal --memory 1GiB",
            "--memory: expected none with --count minimal",
        ),
        (
            "--count minimal --replay 2",
            "--replay: expected none with --count minimal",
        ),
        (
            "--count total --surrogates 99 --fdr 0.1 --parts",
            "--parts: expected the count of non-overlapped occurrences, got total",
        ),
    ] {
        refused(folder, &format!("{search} {options}"), words);
    }
}

#[test]
fn parallel_episodes_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(
        folder.join("few.csv"),
        "A,0\nB,0.001\nB,0.005\nA,0.007\nA,0.008\n",
    )
    .unwrap();
    std::fs::write(
        folder.join("list"),
        "# pairs\n{A B} within 0.002\n{A A B} within 0.003\n{B A} within 0.001\n",
    )
    .unwrap();
    let given = "mine few.csv --parallel --count-only list";
    for (options, expected) in [
        ("", [2, 1, 1]),
        ("--count minimal", [2, 1, 1]),
        ("--count minimal --span 0.001", [1, 0, 1]),
    ] {
        let report = json(folder, &format!("{given} {options}"));
        let episodes = report["episodes"].as_array().unwrap();
        let counts: Vec<u64> = (episodes.iter())
            .map(|e| e["count"].as_u64().unwrap())
            .collect();
        assert_eq!(counts, expected, "{options}");
        assert_eq!(episodes[1]["symbols"].to_string(), r#"["A","A","B"]"#);
        assert_eq!(episodes[1]["within_seconds"], 0.003);
    }
    let windows = json(folder, &format!("{given} --count windows --span 0.003"));
    let tick = 1e-12;
    // 0 → 1 ms leaves 2 ms of starts, 5 → 7 ms leaves 1 ms.
    let seconds = windows["episodes"][0]["count"].as_u64().unwrap() as f64 * tick;
    assert!((seconds - 0.003).abs() < 1e-9, "{seconds}");
    let printed = done(folder, given);
    assert!(printed.contains("{A A B} within 0.003"), "{printed}");
    assert!(printed.contains("(non-overlapped, cpu)"), "{printed}");

    for (options, words) in [
        (
            "--count distinct",
            "distinct: not defined for parallel episodes",
        ),
        ("--count total", "total: not defined for parallel episodes"),
        (
            "--strategy serial",
            "--strategy: expected none with --parallel",
        ),
    ] {
        refused(folder, &format!("{given} {options}"), words);
    }
    refused(
        folder,
        "mine few.csv --parallel --threshold 2",
        "--parallel: expected a list of episodes (--count-only FILE), got none",
    );
    for option in [
        "--surrogates 9 --fdr 0.1",
        "--surrogates 9",
        "--surrogates 9 --shuffle",
        "--csv out.csv",
    ] {
        refused(folder, &format!("{given} {option}"), "cannot be used with");
    }
    std::fs::write(folder.join("list"), "{A B} within 0.002\nA B\n").unwrap();
    refused(
        folder,
        given,
        "list, line 2: parallel episode \"A B\": expected `{A B C} within SECONDS`, got \"A B\"",
    );
}
