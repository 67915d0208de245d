//! `betz network` through the built program: against plain loops, file to file, and what it refuses.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod device;
mod frames;
mod inputs;
mod live;
mod nodes;
mod outputs;
mod refused;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use betz::network::file::NetworkFile;
use betz::recording::arrays::{Array, Arrays, write};
use betz::recording::{Recording, Segment, SpikeForm, Spikes};
use betz_testkit::Random;
use serde_json::Value;

use crate::program;

fn betz(folder: &Path, arguments: &str) -> Output {
    program::betz(folder, &format!("network {arguments}"))
}

fn done(folder: &Path, arguments: &str) -> String {
    program::done(folder, &format!("network {arguments}"))
}

fn json(folder: &Path, arguments: &str) -> Value {
    serde_json::from_str(&done(folder, &format!("{arguments} --json"))).unwrap()
}

const NODES: usize = 9;
const SAMPLES: usize = 240;

/// Three waves, three nodes on each with noise of their own; node 8 is constant for a while.
fn signal() -> Vec<f32> {
    let mut random = Random::new(7);
    let mut samples = Vec::new();
    for t in 0..SAMPLES {
        for n in 0..NODES {
            let wave = (t as f64 / [5.0, 11.0, 23.0][n / 3]).sin();
            let value = if n == 8 && (60..120).contains(&t) {
                2.0
            } else {
                wave + random.uniform() - 0.5
            };
            samples.push(value as f32);
        }
    }
    samples
}

/// `signal.npz` with everything that may be in it, and `bare.npz` with the signal alone.
fn prepared(folder: &Path) -> Vec<f32> {
    let samples = signal();
    let shape = [SAMPLES, NODES];
    let names: Vec<String> = (0..NODES).map(|n| format!("region {n}")).collect();
    let xy: Vec<f32> = (0..2 * NODES).map(|v| v as f32).collect();
    write(
        &folder.join("signal.npz"),
        &[
            ("signal", Array::F32(&shape, &samples)),
            ("sample_seconds", Array::F64(&[], &[0.1])),
            ("segments", Array::I64(&[2, 2], &[0, 130, 140, 240])),
            ("node_name", Array::Text(&[NODES], &names)),
            ("node_xy", Array::F32(&[NODES, 2], &xy)),
        ],
    )
    .unwrap();
    write(
        &folder.join("bare.npz"),
        &[("signal", Array::F32(&shape, &samples))],
    )
    .unwrap();
    samples
}

/// The correlation of nodes a and b over samples from `start` on; `None` where one is constant.
fn pearson(samples: &[f32], a: usize, b: usize, start: usize, length: usize) -> Option<f64> {
    let column = |n: usize| -> Vec<f64> {
        (start..start + length)
            .map(|t| f64::from(samples[t * NODES + n]))
            .collect()
    };
    let centred = |x: Vec<f64>| -> Vec<f64> {
        let mean = x.iter().sum::<f64>() / length as f64;
        x.into_iter().map(|v| v - mean).collect()
    };
    let (x, y) = (centred(column(a)), centred(column(b)));
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(a, b)| a * b).sum::<f64>();
    let scale = (dot(&x, &x) * dot(&y, &y)).sqrt();
    (scale > 0.0).then(|| dot(&x, &y) / scale)
}

type Edges = BTreeMap<(u64, u32, u32), f64>;

/// Edges that plain loops find at |r| ≥ 0.5, by first sample and nodes.
fn oracle(samples: &[f32], starts: &[usize], length: usize) -> Edges {
    let mut edges = Edges::new();
    for &start in starts {
        for i in 0..NODES {
            for j in i + 1..NODES {
                if let Some(r) = pearson(samples, i, j, start, length)
                    && r.abs() >= 0.5
                {
                    edges.insert((start as u64, i as u32, j as u32), r);
                }
            }
        }
    }
    edges
}

fn edges(file: &NetworkFile) -> Edges {
    let mut all = Edges::new();
    for window in file.network.windows() {
        for (i, j, r) in window.edges() {
            all.insert((window.start, i, j), f64::from(r));
        }
    }
    all
}

fn assert_same(found: &Edges, expected: &Edges) {
    assert!(!expected.is_empty());
    assert!(found.keys().eq(expected.keys()));
    for (edge, r) in expected {
        assert!(
            (found[edge] - r).abs() < 1e-5,
            "{edge:?}: {} {r}",
            found[edge]
        );
    }
}

#[test]
fn compute_finds_what_plain_loops_find_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let samples = prepared(folder);
    let said = json(
        folder,
        "compute signal.npz --out net.npz --window 4s --step 1.5s --threshold 0.5",
    );
    // 4 s are 40 samples, 1.5 s are 15: neither segment is left.
    let starts: Vec<usize> = (0..=90)
        .step_by(15)
        .chain((140..=200).step_by(15))
        .collect();
    let file = NetworkFile::read(&folder.join("net.npz")).unwrap();
    let expected = oracle(&samples, &starts, 40);
    assert_same(&edges(&file), &expected);
    let from_file: Vec<usize> = (file.network.window_start().iter())
        .map(|s| *s as usize)
        .collect();
    assert_eq!(from_file, starts);
    assert_eq!(file.names.as_ref().unwrap()[3], "region 3");
    assert_eq!(file.positions.as_ref().unwrap().values[7], 7.0);

    assert_eq!(said["nodes"], 9);
    assert_eq!(said["samples"], 240);
    assert_eq!(said["windows"], starts.len());
    assert_eq!((&said["window"], &said["step"]), (&40.into(), &15.into()));
    assert_eq!(said["measure"], "pearson");
    assert_eq!(said["threshold"], 0.5);
    assert_eq!(said["edges"], expected.len());
    // Node 8 is constant in windows from 60, 75 on: 60..100, 75..115.
    assert_eq!(said["undefined"]["constant"], 2);
    assert_eq!(said["undefined"]["nonfinite"], 0);
    for key in ["read", "compute", "write", "total"] {
        assert!(said["seconds"][key].as_f64().unwrap() >= 0.0, "{key}");
    }
    for key in ["min", "mean", "max"] {
        assert!(said["density"][key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert!(said["device"].as_str().unwrap().starts_with("cpu"));
    assert_eq!(said["complete"], true);

    // Shown by `betz info`.
    let info = program::json(folder, "info net.npz");
    assert_eq!(
        (&info["kind"], &info["edges"]),
        (&"network".into(), &said["edges"])
    );
    assert_eq!(info["meta"]["source"]["name"], "signal.npz");
    assert_eq!(info["until_seconds"].as_f64().unwrap(), 24.0);
}

#[test]
fn options_mean_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let samples = prepared(folder);
    let window = "bare.npz --out n.npz --window 40 --step 20";
    let starts: Vec<usize> = (0..=200).step_by(20).collect();
    let read = || NetworkFile::read(&folder.join("n.npz")).unwrap();
    let both = {
        done(folder, &format!("compute {window} --threshold 0.5"));
        edges(&read())
    };
    assert_same(&both, &oracle(&samples, &starts, 40));
    for (sign, keeps) in [("pos", 1.0), ("neg", -1.0)] {
        done(
            folder,
            &format!("compute {window} --threshold 0.5 --sign {sign}"),
        );
        let of_sign: Vec<_> = both.iter().filter(|(_, r)| **r * keeps > 0.0).collect();
        assert!(edges(&read()).iter().eq(of_sign), "{sign}");
    }
    let said = json(folder, &format!("compute {window} --density 0.25"));
    assert_eq!(
        (&said["edges"], &said["density_asked"]),
        (&(11 * 9).into(), &0.25.into())
    );
    assert!(said["threshold"].is_null());
    let said = json(folder, &format!("compute {window} --top 4"));
    assert_eq!(said["edges"], 11 * 4);
    let said = json(folder, &format!("compute {window} --top-per-node 1"));
    assert!((11 * 4..=11 * 9).contains(&said["edges"].as_u64().unwrap()));
    for measure in [
        "spearman",
        "covariance",
        "partial",
        "coherence",
        "gaussian-information",
    ] {
        let said = json(
            folder,
            &format!("compute {window} --measure {measure} --threshold 0.2"),
        );
        assert_eq!(said["measure"], measure);
        assert!(said["edges"].as_u64().unwrap() > 0, "{measure}");
    }
    done(
        folder,
        &format!("compute {window} --measure lagged --lags 3 --threshold 0.5"),
    );
    let lagged = read();
    assert!(lagged.network.lag().iter().any(|l| *l != 0));
    assert!(lagged.network.lag().iter().all(|l| l.abs() <= 3));
    // Near for two windows running: fewer than near in one.
    let near = |hold: usize| {
        let asked = format!("compute {window} --measure euclidean --threshold 5 --hold {hold}");
        json(folder, &asked)["edges"].as_u64().unwrap()
    };
    assert!(near(2) < near(1) && near(2) > 0);
}

#[test]
fn the_same_command_gives_the_same_bytes_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let bytes = |threads: &str, asked: &str| {
        let output = program::command(
            folder,
            &format!("network compute signal.npz --out n.npz {asked}"),
        )
        .env("RAYON_NUM_THREADS", threads)
        .output()
        .unwrap();
        assert!(output.status.success());
        fs::read(folder.join("n.npz")).unwrap()
    };
    for asked in [
        "--window 40 --step 3 --threshold 0.4",
        "--window 40 --step 3 --density 0.1 --measure spearman",
        "--window 50 --step 50 --surrogates 19 --seed 5",
    ] {
        let one = bytes("1", asked);
        assert!(one == bytes("3", asked), "{asked}");
        assert!(one == bytes("1", asked), "{asked}");
    }
}

#[test]
fn surrogates_set_a_threshold_that_is_kept_with_the_network() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let asked = "compute bare.npz --out n.npz --window 80 --step 80 --surrogates 39 --seed 3";
    let strict = json(folder, asked);
    let threshold = strict["threshold"].as_f64().unwrap();
    assert!((0.05..1.0).contains(&threshold), "{threshold}");
    let file = NetworkFile::read(&folder.join("n.npz")).unwrap();
    assert!(
        file.network
            .r()
            .iter()
            .all(|r| f64::from(r.abs()) >= threshold - 1e-6)
    );
    let chance = file.chance.unwrap();
    assert_eq!(
        (chance.surrogates, chance.seed, chance.alpha),
        (39, 3, 0.05)
    );
    let share = json(folder, &format!("{asked} --fdr 0.05 --surrogate shift"));
    assert!(share["threshold"].as_f64().unwrap() <= 1.0);
    assert_eq!(share["chance"]["correction"], "false-discovery");
}

/// Two units that fire together and one that does not, in ticks of 1 ms.
fn three_units() -> Recording {
    let mut spikes: Vec<(i64, u32)> = Vec::new();
    for k in 0..400_i64 {
        let drawn = (k as u64).wrapping_mul(2_654_435_761) >> 20;
        if drawn % 5 < 2 {
            spikes.extend([(k * 9, 0), (k * 9 + 1, 1)]);
        }
        if (drawn / 5).is_multiple_of(3) {
            spikes.push((k * 8, 2));
        }
    }
    spikes.sort_unstable();
    let segment = |start, stop| Segment { start, stop };
    Recording {
        tick_seconds: 0.001,
        ticks: 4_000,
        spikes: Spikes::new(
            spikes.iter().map(|s| s.0).collect(),
            spikes.iter().map(|s| s.1).collect(),
        ),
        channel_names: ["a", "b", "c"].map(str::to_owned).to_vec(),
        behavior: None,
        segments: vec![segment(5, 1_505), segment(2_000, 3_600)],
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    }
}

#[test]
fn a_recording_is_counted_in_bins_within_its_trials() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    three_units().write_npz(&folder.join("r.npz")).unwrap();
    let asked = "compute r.npz --out n.npz --window 500ms --step 0.5s --threshold 0.5";
    let said = json(folder, &format!("{asked} --bin 20ms"));
    // 75 and 80 bins of 20 ms: 3 windows of 25 in each.
    assert_eq!(
        (&said["samples"], &said["windows"]),
        (&155.into(), &6.into())
    );
    assert_eq!(said["sample_seconds"], 0.02);
    let file = NetworkFile::read(&folder.join("n.npz")).unwrap();
    assert_eq!(file.names.as_ref().unwrap(), &["a", "b", "c"]);
    assert_eq!(file.network.window_start(), [0, 25, 50, 75, 100, 125]);
    let seconds: Vec<f64> = (0..6).filter_map(|k| file.seconds(k)).collect();
    for (got, expected) in seconds.iter().zip([0.005, 0.505, 1.005, 2.0, 2.5, 3.0]) {
        assert!((got - expected).abs() < 1e-9, "{seconds:?}");
    }
    for window in file.network.windows() {
        assert!(window.edges().any(|(i, j, _)| (i, j) == (0, 1)));
    }
    let output = betz(folder, asked);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--bin"));
}

#[test]
fn counts_have_a_bin_of_their_own_and_weights_count_as_many_spikes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut recording = three_units();
    recording.form = SpikeForm::Counts;
    recording.tick_seconds = 0.02;
    recording.write_npz(&folder.join("c.npz")).unwrap();
    let said = json(
        folder,
        "compute c.npz --out c-net.npz --window 100 --step 100 --threshold 0.1",
    );
    assert_eq!(
        (&said["samples"], &said["sample_seconds"]),
        (&3_100.into(), &0.02.into())
    );
    // A bin of several spikes counts for as many: three times the counts is the same network, and a
    // bin of many changes the window that it is in.
    let net = |name: &str| edges(&NetworkFile::read(&folder.join(name)).unwrap());
    recording.spikes.weights = vec![3.0; recording.spikes.len()];
    // The first trial begins at 5.
    let inside = recording.spikes.ticks.iter().position(|t| *t >= 5);
    recording.spikes.weights[inside.unwrap()] = 300.0;
    recording.write_npz(&folder.join("w.npz")).unwrap();
    for name in ["c", "w"] {
        let asked = "--window 100 --step 100 --threshold 0";
        done(
            folder,
            &format!("compute {name}.npz --out {name}-net.npz {asked}"),
        );
    }
    let (one, three) = (net("c-net.npz"), net("w-net.npz"));
    let first = |all: &Edges| -> Vec<f64> {
        let of = all.iter().filter(|(edge, _)| edge.0 == 0);
        of.map(|(_, r)| *r).collect()
    };
    assert_ne!(first(&one), first(&three));
    let later = |all: Edges| -> Edges { all.into_iter().filter(|(edge, _)| edge.0 > 0).collect() };
    assert_same(&later(three), &later(one));
}

#[test]
fn graphs_have_communities_that_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    done(
        folder,
        "compute signal.npz --out net.npz --window 50 --step 10 --threshold 0.4 --sign pos",
    );
    let all = "degree,strength,clustering,components,efficiency,assortativity,communities,participation,small-world,fcd";
    let said = json(
        folder,
        &format!("graph net.npz --measures {all} --out g.npz"),
    );
    assert_eq!(said["nodes"], 9);
    assert!(said["measures"]["modularity"]["max"].as_f64().unwrap() > 0.3);
    assert!(said["communities"]["identities"].as_u64().unwrap() >= 3);
    let mut arrays = Arrays::open(&folder.join("g.npz")).unwrap();
    let windows = said["windows"].as_u64().unwrap() as usize;
    for name in [
        "edges",
        "efficiency",
        "modularity",
        "communities",
        "likeness_to_window_before",
    ] {
        let column = arrays.numbers::<f64>(name, 1).unwrap().unwrap();
        assert_eq!(column.values.len(), windows, "{name}");
    }
    let degree = arrays.numbers::<f64>("degree", 2).unwrap().unwrap();
    let edges = arrays.numbers::<f64>("edges", 1).unwrap().unwrap();
    assert_eq!(degree.shape, [windows, 9]);
    for (degrees, edges) in degree.values.chunks(9).zip(&edges.values) {
        assert_eq!(degrees.iter().sum::<f64>(), 2.0 * edges);
    }
    let community = arrays.numbers::<i64>("community", 2).unwrap().unwrap();
    // The three waves: nodes of one are together, those of others are not.
    let first = &community.values[..9];
    assert!(first[0] == first[1] && first[3] == first[4] && first[0] != first[3]);
    let fcd = arrays.numbers::<f64>("fcd", 2).unwrap().unwrap();
    assert_eq!(fcd.shape, [windows, windows]);
    assert!((fcd.values[0] - 1.0).abs() < 1e-6);
    // A picture asks for communities and windows against windows by itself.
    let drawn = json(folder, "graph net.npz --measures degree --picture g.svg");
    assert!(
        drawn["measures"]["likeness_to_window_before"]["max"]
            .as_f64()
            .unwrap()
            <= 1.0
    );
    let picture = fs::read_to_string(folder.join("g.svg")).unwrap();
    assert!(picture.starts_with("<!-- drawn by betz -->") && picture.contains("<circle"));
    // The table has the same.
    done(folder, "graph net.npz --measures degree --out g.csv");
    let table = fs::read_to_string(folder.join("g.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[0],
        "window,start,seconds,edges,density,mean_degree,largest_degree"
    );
    assert_eq!(lines.len(), windows + 1);
    assert_eq!(
        lines[1].split(',').nth(3).unwrap().parse::<f64>().unwrap(),
        edges.values[0]
    );
}

#[test]
fn networks_are_compared_where_their_windows_meet() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let compute = |name: &str, asked: &str| {
        done(
            folder,
            &format!("compute bare.npz --out {name} --window 40 {asked}"),
        );
        edges(&NetworkFile::read(&folder.join(name)).unwrap())
    };
    let a = compute("a.npz", "--step 20 --threshold 0.4");
    let b = compute("b.npz", "--step 40 --threshold 0.6");
    let said = json(folder, "compare a.npz b.npz a.npz --out c.csv");
    let pair = &said["comparisons"][0];
    assert_eq!(
        (&pair["windows"], &pair["windows_only_first"]),
        (&6.into(), &5.into())
    );
    // Every edge at 0.6 is one at 0.4.
    assert_eq!(pair["edges_common"], b.len());
    let there = a.keys().filter(|(start, ..)| start % 40 == 0).count();
    assert_eq!(pair["edges_first"], there);
    let own = &said["comparisons"][1];
    assert_eq!(
        (&own["jaccard"]["min"], &own["degree_difference"]["max"]),
        (&1.0.into(), &0.0.into())
    );
    assert!((own["correlation"]["min"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    let table = fs::read_to_string(folder.join("c.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + 6 + 11);
}
