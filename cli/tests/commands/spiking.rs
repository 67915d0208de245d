//! Spiking networks and the closed loop on the command line.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;

use crate::program::{betz, fails, json};

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect()
}

/// Counts of Galbraith 2010, chapter 4: neurons 1 to 3 of a ring 4445 spikes, 4 to 12 4444, 13 to 21 4443; every
/// neuron of a full network 4445.
#[test]
fn the_papers_networks_have_the_papers_counts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ring = json(
        folder,
        "simulate --ring 100 --compat galbraith --counts spikes.txt",
    );
    assert_eq!(
        (ring["neurons"].as_u64(), ring["synapses"].as_u64()),
        (Some(100), Some(100))
    );
    assert_eq!(
        (ring["steps"].as_u64(), ring["spikes"].as_u64()),
        (Some(40_000), Some(443_928))
    );
    let counts = numbers(&std::fs::read_to_string(folder.join("spikes.txt")).unwrap());
    assert_eq!(counts.len(), 100);
    assert!(counts[..3].iter().all(|c| *c == 4445));
    assert!(counts[3..12].iter().all(|c| *c == 4444) && counts[12..21].iter().all(|c| *c == 4443));

    let again = json(folder, "simulate --ring 100 --compat galbraith --threads 2");
    assert_eq!(again["hash"], ring["hash"]);
    assert_eq!(again["synapse_hash"], ring["synapse_hash"]);

    let full = json(folder, "simulate --full 10 --compat galbraith --order 1");
    assert_eq!(full["spikes"].as_u64(), Some(44_450));
    // The first neuron reaches all within a few steps, or nothing reaches the others.
    let random = json(
        folder,
        "simulate --random 50,2000 --compat galbraith --seed 2",
    );
    assert_eq!(
        (random["synapses"].as_u64(), random["neurons"].as_u64()),
        (Some(2000), Some(50))
    );
}

#[test]
fn a_network_goes_through_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let made = json(
        folder,
        "simulate --random 40,300 --compat galbraith --seconds 1 --write-spec net.json --write-connections connections.bin",
    );
    assert_eq!(
        std::fs::metadata(folder.join("connections.bin"))
            .unwrap()
            .len(),
        300 * 16
    );
    let spec = json(folder, "simulate --spec net.json --seconds 1");
    assert_eq!(spec["hash"], made["hash"]);
    let listed = json(
        folder,
        "simulate --connections connections.bin --neurons 40 --compat galbraith --seconds 1",
    );
    assert_eq!(listed["hash"], made["hash"]);

    let written = json(
        folder,
        "simulate --spec net.json --seconds 0.5 --out net.npz --trace 0,3..5 --traces v.csv --phases --picture net.svg",
    );
    let picture = std::fs::read_to_string(folder.join("net.svg")).unwrap();
    let shown = written["spikes"].as_u64().unwrap() as usize;
    let circles = picture.matches("<circle").count();
    assert!(circles > 0 && circles <= shown && picture.contains("potential (mV)"));
    assert_eq!(written["recording"]["spikes"], written["spikes"]);
    assert!(written["phases"]["update_seconds"].as_f64().unwrap() > 0.0);
    let traces = std::fs::read_to_string(folder.join("v.csv")).unwrap();
    let mut lines = traces.lines();
    assert_eq!(
        lines.next(),
        Some("seconds,mV of neuron 0,mV of neuron 3,mV of neuron 4")
    );
    assert_eq!(lines.count(), 2000);
    assert!(betz(folder, "info net.npz").status.success());
    // A file that is nobody's earlier result stays.
    fails(
        folder,
        "simulate --ring 5 --seconds 1 --write-connections connections.bin",
        "connections.bin",
    );
    std::fs::write(folder.join("notes.txt"), "mine").unwrap();
    fails(
        folder,
        "simulate --ring 5 --seconds 1 --counts notes.txt",
        "notes.txt",
    );

    let truncated = std::fs::read(folder.join("connections.bin")).unwrap();
    std::fs::write(folder.join("cut.bin"), &truncated[..100]).unwrap();
    fails(
        folder,
        "simulate --connections cut.bin --neurons 40",
        "cut short in synapse 6",
    );
    fails(
        folder,
        "simulate --connections connections.bin --neurons 3",
        "expected neurons below 3",
    );
}

/// Two neurons that excite each other, the first one driven.
fn pair(delay_s: f32) -> Vec<u8> {
    let synapse = |source: u32, target: u32| {
        let ends = [source.to_le_bytes(), target.to_le_bytes()].concat();
        [ends, [5f32.to_le_bytes(), delay_s.to_le_bytes()].concat()].concat()
    };
    [synapse(0, 1), synapse(1, 0)].concat()
}

#[test]
fn the_delays_of_a_file_are_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Neuron 0 fires at step 1 and every ninth; neuron 1 first 40 steps later, or one.
    std::fs::write(folder.join("late.bin"), pair(0.01)).unwrap();
    let command = "simulate --neurons 2 --compat galbraith --seconds 0.02 --counts n.txt --force";
    for (options, counts) in [
        ("--connections late.bin", "9 5"),
        ("--connections late.bin --ignore-delays", "9 9"),
    ] {
        json(folder, &format!("{command} {options}"));
        let written = std::fs::read_to_string(folder.join("n.txt")).unwrap();
        assert_eq!(written.trim(), counts, "{options}");
    }
    std::fs::write(folder.join("none.bin"), pair(0.0)).unwrap();
    fails(
        folder,
        &format!("{command} --connections none.bin"),
        "--ignore-delays reads it without its delays",
    );
    // The paper's other file is named where it lies beside.
    std::fs::write(folder.join("timing.xml"), "<timing/>").unwrap();
    let noted = betz(folder, &format!("{command} --connections late.bin"));
    let noted = String::from_utf8(noted.stderr).unwrap();
    assert!(noted.contains("timing.xml is not read"), "{noted}");
}

#[test]
fn models_are_planned_run_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let planned = json(folder, "simulate --model pd14 --dry-run");
    assert_eq!(planned["neurons"].as_u64(), Some(77_169));
    assert!(planned["bytes"].as_u64().unwrap() > 1_000_000_000);
    fails(
        folder,
        "simulate --model pd14 --memory 100MB --seconds 0.1",
        "expected a network of at most 100000000 bytes of memory",
    );
    for more in ["", " --dry-run"] {
        let noted = betz(
            folder,
            &format!("simulate --ring 64 --seconds 0.1 --device cpu --device-memory 1GiB{more}"),
        );
        let noted = String::from_utf8(noted.stderr).unwrap();
        let times = noted.matches("--device-memory has no effect").count();
        assert_eq!(times, 1, "{noted}");
    }

    let cuba = json(
        folder,
        "simulate --model cuba --scale 0.25 --seconds 0.2 --settle 0.1",
    );
    assert_eq!(cuba["neurons"].as_u64(), Some(1000));
    assert_eq!(cuba["steps"].as_u64(), Some(3000));
    assert_eq!(cuba["rates_hz"].as_array().unwrap().len(), 2);

    let shown = betz(folder, "simulate --ring 64 --seconds 0.5 --raster");
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.status.success() && text.contains("the last 250 ms; a row of dots: a neuron"),
        "{text}"
    );
    let dots = text
        .chars()
        .filter(|c| ('\u{2801}'..='\u{28ff}').contains(c))
        .count();
    assert!(dots > 300, "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (line, words) in [
        ("simulate --ring 0", "ring"),
        ("simulate --ring 5 --full 5", "cannot be used"),
        ("simulate --ring 5 --sym26", "cannot be used"),
        ("simulate --ring 5 --closed-loop", "cannot be used"),
        ("simulate --random 10", "1000,500000"),
        ("simulate --random 10,1000", "--random"),
        ("simulate --model brain", "pd14"),
        ("simulate --model cuba --scale 0", "--model"),
        ("simulate --ring 5 --order 9", "--ring"),
        ("simulate --ring 5 --seconds 0.0001", "whole steps"),
        ("simulate --ring 5 --trace 0,9 --traces v.csv", "below 5"),
        ("simulate --ring 5 --live", "terminal"),
        ("simulate --connections nowhere.bin", "--neurons"),
        (
            "simulate --connections nowhere.bin --neurons 4",
            "nowhere.bin",
        ),
        ("simulate --seconds 1", "--out"),
        ("simulate --closed-loop --decoder nothing", "--decoder"),
        ("simulate --closed-loop --adapt", "model file"),
        ("simulate --ring 5 --trace 0", "--traces"),
        ("simulate --out a.npz --picture a.svg", "betz info"),
        (
            "simulate --closed-loop --trials 0 --repeats 1 --decoder ole",
            "--trials: expected at least 1",
        ),
        ("simulate --closed-loop --bin 0.0003", "whole steps"),
        ("simulate --closed-loop --feedback-delay -1", "delay"),
    ] {
        fails(folder, line, words);
    }
    std::fs::write(
        folder.join("net.json"),
        r#"{"step_ms": 0.1, "populations": [{"name": "e", "neurons": 5, "neuron": {"lif": {"reset_mv": -50}}}]}"#,
    )
    .unwrap();
    fails(folder, "simulate --spec net.json", "net.json");
    std::fs::write(
        folder.join("events.json"),
        r#"[{"at_s": 1, "kind": "flood"}]"#,
    )
    .unwrap();
    fails(
        folder,
        "simulate --closed-loop --events events.json",
        "events.json",
    );
}

/// A decoder that was trained on the loop's own calibration steers; with half of the units lost, one that learns
/// does better than one that does not.
#[test]
fn decoders_steer_and_a_wrong_one_learns() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let compared = json(
        folder,
        "simulate --closed-loop --decoder ole,kalman,refit --neurons 60 --reaches 40 --trials 10 --repeats 2",
    );
    let decoders = compared["decoders"].as_array().unwrap();
    assert_eq!(decoders.len(), 3);
    for decoder in decoders {
        assert_eq!(decoder["trials"].as_u64(), Some(20));
        assert!(
            decoder["success"]["mean"].as_f64().unwrap() > 0.5,
            "{decoder}"
        );
        assert_eq!(decoder["non_finite_bins"].as_u64(), Some(0));
    }
    // The same again is the same.
    let again = json(
        folder,
        "simulate --closed-loop --decoder refit --neurons 60 --reaches 40 --trials 10 --repeats 2",
    );
    assert_eq!(
        again["decoders"][0]["time_to_target_s"],
        decoders[2]["time_to_target_s"]
    );

    json(
        folder,
        "simulate --closed-loop --neurons 60 --reaches 100 --calibration cal.npz",
    );
    json(
        folder,
        "train cal.npz --filter 0.05:0 --folds 3 --decoder linear --retain --out m.betz",
    );
    let steered = json(
        folder,
        "simulate --closed-loop --decoder m.betz --neurons 60 --trials 10 --repeats 1",
    );
    let success = |of: &Value| of["decoders"][0]["success"]["mean"].as_f64().unwrap();
    assert!(success(&steered) > 0.8, "{steered}");

    // Another population, of which the model knows nothing.
    let line =
        "simulate --closed-loop --decoder m.betz --seed 2 --neurons 60 --trials 80 --repeats 1";
    let learning = json(folder, &format!("{line} --adapt --picture loop.svg"));
    assert!(success(&json(folder, line)) < 0.1);
    assert!(success(&learning) > 0.25, "{learning}");
    let accepted = learning["decoders"][0]["models_accepted"].as_u64();
    assert!(accepted.unwrap() > 0, "{learning}");
    let picture = std::fs::read_to_string(folder.join("loop.svg")).unwrap();
    assert!(picture.contains("m.betz (linear)") && picture.matches("<circle").count() == 80);

    fails(
        folder,
        "simulate --closed-loop --decoder m.betz --neurons 61",
        "60",
    );
    fails(
        folder,
        "simulate --closed-loop --decoder m.betz --neurons 60 --bin 0.05",
        "0.025",
    );
}

#[test]
fn patterns_are_listed_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let told = json(folder, "simulate --patterns --picture patterns.svg");
    let patterns = told["patterns"].as_array().unwrap();
    assert_eq!(patterns.len(), 20);
    assert_eq!(patterns[1]["name"], "phasic spiking");
    assert_eq!(patterns[1]["spikes_ms"].as_array().unwrap().len(), 1);
    let picture = std::fs::read_to_string(folder.join("patterns.svg")).unwrap();
    assert!(picture.contains("bistability") && picture.matches("<polyline").count() >= 40);
    assert!(
        !betz(folder, "simulate --patterns --seconds 1")
            .status
            .success()
    );
}

/// Sources at listed times onto neurons through synapses that learn, as JSON beside the file of spikes.
const LEARNING: &str = r#"{
  "step_ms": 0.1, "seed": 1,
  "populations": [
    {"name": "in", "neurons": 2, "neuron": {"spikes": {"file": "in.csv"}}},
    {"name": "out", "neurons": 3, "neuron": {"izhikevich": {"d": {"low": 4, "high": 8}}}, "synapse": {"exponential": {"tau_ms": 5}}}
  ],
  "projections": [
    {"source": "in", "target": "out", "rule": "all", "weight": 1.0, "delay_ms": 1.0,
     "plasticity": {"a_plus": 0.1, "a_minus": 0.12, "high": 2.0}}
  ]
}"#;

#[test]
fn a_described_network_learns_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("net.json"), LEARNING).unwrap();
    std::fs::write(
        folder.join("in.csv"),
        "neuron,seconds\n0,0.02\n1,0.03\n0,0.05\n",
    )
    .unwrap();
    std::fs::write(folder.join("drive.csv"), "seconds,pA\n0,0\n0.01,12\n").unwrap();
    let command = "simulate --spec net.json --seconds 0.2 --write-connections learned.bin --force";
    let quiet = json(folder, command);
    assert_eq!(quiet["spikes"].as_u64(), Some(3));
    let driven = json(
        folder,
        &format!("{command} --stimulus out=drive.csv --threads 1"),
    );
    assert!(driven["spikes"].as_u64().unwrap() > 6, "{driven}");
    let learned = std::fs::read(folder.join("learned.bin")).unwrap();
    let weights: Vec<f32> = (learned.as_chunks::<16>().0.iter())
        .map(|record| f32::from_le_bytes([record[8], record[9], record[10], record[11]]))
        .collect();
    assert_eq!(weights.len(), 6);
    assert!(
        weights.iter().any(|w| (w - 1.0).abs() > 1e-3),
        "{weights:?}"
    );
    fails(
        folder,
        &format!("{command} --stimulus outt=drive.csv"),
        "no population \"outt\"",
    );
    fails(
        folder,
        &format!("{command} --stimulus out=none.csv"),
        "none.csv",
    );
    std::fs::write(folder.join("in.csv"), "9,0.02\n").unwrap();
    fails(
        folder,
        command,
        "line 1: expected \"neuron,seconds\" with a neuron below 2",
    );
}

#[test]
fn weights_that_learn_are_counted_over_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let spec = r#"{"step_ms": 0.1, "seed": 1, "populations": [
        {"name": "in", "neurons": 50, "neuron": {"poisson": {"rate_hz": 50}}},
        {"name": "e", "neurons": 20}],
      "projections": [{"source": "in", "target": "e", "rule": "all", "weight": 200, "delay_ms": 1,
        "plasticity": {"a_plus": 0.02, "a_minus": 0.02, "high": 400}}]}"#;
    std::fs::write(folder.join("net.json"), spec).unwrap();
    let plain = json(folder, "simulate --spec net.json --seconds 1");
    let told = json(
        folder,
        "simulate --spec net.json --seconds 1 --weights w.csv",
    );
    assert_eq!(told["hash"], plain["hash"]);
    let text = std::fs::read_to_string(folder.join("w.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("seconds,source,target,from,to,synapses"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 21 * 40);
    let counts = |at: &str| -> Vec<u64> {
        let of = rows.iter().filter(|row| row[0] == at);
        of.map(|row| row[5].parse().unwrap()).collect()
    };
    let (first, last) = (counts("0"), counts("1"));
    // All are 200 at first: the bin from 200 to 210.
    assert_eq!(
        (first.len(), first[20], &rows[20][1..5]),
        (40, 1000, &["in", "e", "200", "210"][..])
    );
    assert_eq!(last.iter().sum::<u64>(), 1000);
    assert!(last[20] < 1000, "{last:?}");
    // Steps that are drawn one by one count as others do, and a moment is written once.
    for (line, first, last, moments) in [
        ("--seconds 1 --raster --weights r.csv", "0", "1", 22),
        ("--seconds 1 --picture p.svg --weights r.csv", "0", "1", 22),
        ("--seconds 0.0004 --weights r.csv", "0", "0.0004", 5),
        (
            "--seconds 0.0004 --picture p.svg --weights r.csv",
            "0",
            "0.0004",
            2,
        ),
    ] {
        let line = format!("simulate --spec net.json {line}");
        let run = crate::program::betz(folder, &line);
        assert!(run.status.success(), "{line}: {run:?}");
        let text = std::fs::read_to_string(folder.join("r.csv")).unwrap();
        let mut times: Vec<&str> = (text.lines().skip(1))
            .filter_map(|line| line.split(',').next())
            .collect();
        assert_eq!(times.len(), moments * 40, "{line}");
        times.dedup();
        assert_eq!(times.len(), moments, "{line}: {times:?}");
        assert_eq!((times[0], times[moments - 1]), (first, last), "{line}");
        // No binary tails.
        assert!(times.iter().all(|time| time.len() <= 8), "{times:?}");
    }
    fails(
        folder,
        "simulate --spec net.json --live --weights w.csv",
        "cannot be used with",
    );
    fails(
        folder,
        "simulate --model cuba --scale 0.05 --seconds 0.1 --weights w.csv",
        "--weights: expected a network with \"plasticity\", got one that does not learn",
    );
}
