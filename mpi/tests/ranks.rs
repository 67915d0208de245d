//! `betz-mpi` by several ranks: the same bytes for any number of them, and clean ends. Without `mpirun` these tests say
//! so and pass.

#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use betz::recording::{Behavior, OutputInfo, Recording, Segment, SpikeForm, Spikes};
use betz::team::Team;
use betz_testkit::Random;
use mpi::Threading;
use tempfile::TempDir;

#[path = "../src/team.rs"]
mod team;

/// `mpirun`, as far as the program, with its own files in `session`; `None` where there is none.
fn mpirun(ranks: usize, session: &TempDir) -> Option<Command> {
    let there = Command::new("mpirun")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no mpirun here");
        return None;
    }
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "-n", &ranks.to_string()]);
    // More ranks than processors, perhaps as root in a container: nobody else's machine.
    command.envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
        ("RAYON_NUM_THREADS", "1"),
    ]);
    // Two that start at once fail when both make the one folder of this user: "File exists".
    command.env("OMPI_MCA_orte_tmpdir_base", session.path());
    Some(command)
}

/// Runs `betz-mpi` by `ranks` ranks. Open MPI 4's `mpirun` sometimes crashes in its own `PMIx_server_finalize` after an
/// aborted job, and its exit status is then lost: such a run is repeated.
fn run(folder: &Path, ranks: usize, arguments: &str) -> Option<Output> {
    const ATTEMPTS: usize = 5;
    let mut output = None;
    for attempt in 1..=ATTEMPTS {
        let session = tempfile::tempdir().unwrap();
        let mut command = mpirun(ranks, &session)?;
        let this = command
            .arg(env!("CARGO_BIN_EXE_betz-mpi"))
            .current_dir(folder)
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        let crashed = this.status.signal().is_some()
            && String::from_utf8_lossy(&this.stderr).contains("PMIx_server_finalize");
        output = Some(this);
        if !crashed {
            break;
        }
        eprintln!("attempt {attempt} of {ATTEMPTS}: mpirun itself crashed while it ended");
    }
    output
}

fn good(folder: &Path, ranks: usize, arguments: &str) -> Option<Output> {
    let output = run(folder, ranks, arguments)?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{ranks} ranks: {said}");
    Some(output)
}

/// 8 channels that follow two outputs for 40 s, in three trials.
fn recording(path: &Path) {
    recording_of(8, path);
}

fn recording_of(channels: u32, path: &Path) {
    let ticks = 40_000_i64;
    let mut spikes = Spikes::default();
    let mut random = Random::new(12_345);
    let mut behavior = Vec::new();
    for tick in 0..ticks {
        let t = tick as f64 * 1e-3;
        let (x, y) = ((1.1 * t).sin(), (0.7 * t).cos());
        behavior.extend([x as f32, y as f32]);
        for channel in 0..channels {
            let turn = f64::from(channel) * 0.8;
            let rate = 0.03 * (1.0 + 0.9 * (x * turn.cos() + y * turn.sin()));
            if random.uniform() < rate {
                spikes.ticks.push(tick);
                spikes.channels.push(channel);
            }
        }
    }
    let recording = Recording {
        tick_seconds: 1e-3,
        ticks,
        spikes,
        channel_names: (0..channels).map(|c| format!("u{c}")).collect(),
        behavior: Some(Behavior {
            outputs: vec![OutputInfo::from("x"), OutputInfo::from("y")],
            values: behavior,
            times: None,
        }),
        segments: [(100, 9_000), (9_500, 25_000), (25_000, 40_000)]
            .map(|(start, stop)| Segment { start, stop })
            .to_vec(),
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    };
    recording.write_npz(path).unwrap();
}

#[test]
fn any_number_of_ranks_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recording(&folder.join("day.npz"));
    recording_of(40, &folder.join("wide.npz"));
    fs::write(
        folder.join("list.txt"),
        "u0 -(0,0.004]-> u1\nu3 -(0,0.01]-> u2 -(0,0.01]-> u1\nu5\n",
    )
    .unwrap();
    for (command, ending) in [
        (
            "train day.npz --filter 0.05:1 --filter 0.2:0 --folds 3 --memory 300kB --out",
            "betz",
        ),
        (
            "mine day.npz --interval 0,0.004 --threshold 60 --surrogates 19 --fdr 0.5 --parts --csv",
            "csv",
        ),
        (
            "mine day.npz --interval 0,0.004 --threshold 60 --memory 300kB --csv",
            "long.csv",
        ),
        (
            "mine day.npz --interval 0,0.004 --threshold 60 --memory 300kB --surrogates 19 --fdr 0.5 --csv",
            "chance.csv",
        ),
        (
            "mine day.npz --count-only list.txt --memory 300kB --csv",
            "counts.csv",
        ),
        (
            "network day.npz --bin 20ms --window 2s --step 500ms --threshold 0.05 --out",
            "npz",
        ),
        // Four rows of tiles of one window, and fewer of them than ranks.
        (
            "network wide.npz --bin 20ms --window 15s --step 15s --threshold 0.05 --out",
            "one.npz",
        ),
        (
            "network wide.npz --bin 20ms --window 15s --step 15s --threshold 0.02 --measure lagged --lags 2 --out",
            "lags.npz",
        ),
        (
            "network wide.npz --bin 20ms --window 2s --step 500ms --density 0.1 --out",
            "density.npz",
        ),
    ] {
        let mut first = None;
        for ranks in [1, 2, 3, 4, 7] {
            let file = format!("by{ranks}.{ending}");
            if good(folder, ranks, &format!("{command} {file}")).is_none() {
                return;
            }
            let bytes = fs::read(folder.join(&file)).unwrap();
            assert!(!bytes.is_empty());
            let first = first.get_or_insert(bytes.clone());
            assert!(*first == bytes, "{ranks} ranks: {command}");
        }
        // Reading in chunks gives the same as reading the whole.
        if let (true, Some(first)) = (ending.ends_with(".csv"), first) {
            let whole = command.replace("--memory 300kB ", "");
            good(folder, 1, &format!("{whole} whole.csv"));
            assert!(
                fs::read(folder.join("whole.csv")).unwrap() == first,
                "{whole}"
            );
        }
    }
}

#[test]
fn a_spiking_network_is_the_same_for_any_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let network = r#"{"step_ms": 0.1, "seed": 4, "populations": [
        {"name": "e", "neurons": 400, "poisson": {"rate_hz": 9000, "weight": 90}},
        {"name": "i", "neurons": 100, "neuron": {"adex": {"c_m_pf": {"low": 200, "high": 300}}},
            "synapse": {"exponential": {"tau_ms": 3}}}], "projections": [
        {"source": "e", "target": "i", "rule": {"fixed_in": {"count": 40}}, "weight": 120, "delay_ms": 0.8},
        {"source": "e", "target": "e", "rule": {"fixed_in": {"count": 40}}, "weight": {"low": 0, "high": 60},
            "delay_ms": {"low": 0.5, "high": 3}, "plasticity": {"a_plus": 0.05, "a_minus": 0.04, "high": 60}},
        {"source": "i", "target": "e", "rule": {"fixed_in": {"count": 20}}, "weight": -150, "delay_ms": 0.8}]}"#;
    fs::write(folder.join("net.json"), network).unwrap();
    fs::write(folder.join("drive.csv"), "0,0\n0.05,200\n0.15,0\n").unwrap();
    let command =
        "simulate --spec net.json --seconds 0.3 --stimulus i=drive.csv --trace 0,450 --device cpu";
    let files = ["spikes.npz", "counts.txt", "v.csv", "synapses.bin"];
    let mut first: Option<Vec<Vec<u8>>> = None;
    for (ranks, threads) in [(1, 1), (2, 1), (3, 2), (7, 1)] {
        let by = |name: &str| format!("by{ranks}.{name}");
        let [out, counts, traces, synapses] = files.map(by);
        let outputs = format!(
            "--threads {threads} --out {out} --counts {counts} --traces {traces} --write-connections {synapses} --json"
        );
        let Some(output) = good(folder, ranks, &format!("{command} {outputs}")) else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        // Told once.
        assert_eq!(said.matches("\"hash\"").count(), 1, "{said}");
        let bytes = files.map(|name| fs::read(folder.join(by(name))).unwrap());
        let spikes = Recording::read_npz(&folder.join(by("spikes.npz")))
            .unwrap()
            .spikes;
        assert!(spikes.total() > 1_000.0);
        let first = first.get_or_insert(bytes.to_vec());
        for (name, (got, expected)) in files.iter().zip(bytes.iter().zip(first.iter())) {
            assert!(got == expected, "{ranks} ranks of {threads}: {name}");
        }
    }
    let size = good(folder, 3, "simulate --model pd14 --dry-run --json").unwrap();
    let said = String::from_utf8_lossy(&size.stdout);
    assert!(said.contains("\"rank_bytes\""), "{said}");
    for (arguments, code, expected) in [
        ("simulate --out arm.npz", 2, "expected a spiking network"),
        ("simulate --spec net.json --live", 2, "got several ranks"),
        (
            "simulate --spec net.json --stimulus e=-",
            2,
            "every rank can read",
        ),
        ("simulate --model pd14 --memory 60MB", 1, "rank 0 of 3"),
    ] {
        let output = run(folder, 3, arguments).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{arguments}: {said}");
        assert_eq!(output.status.code(), Some(code), "{arguments}: {said}");
    }
}

#[test]
fn what_is_wrong_is_said_once_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recording(&folder.join("day.npz"));
    for (arguments, code, expected) in [
        ("train day.npz --bank none --out m.betz", 2, "--bank"),
        ("train nothing.npz --out m.betz", 1, "nothing.npz"),
        (
            "train day.npz --decoder kalman --out m.betz",
            2,
            "--decoder",
        ),
        (
            "train day.npz --filter 0.05:1 --folds 3 --out not/there/m.betz",
            1,
            "not/there",
        ),
        ("train day.npz", 2, "--out"),
        (
            "network day.npz --bin 20ms --window 2s --step 1s --threshold 0.1 --measure distance --hold 3 --out m.npz",
            2,
            "hold",
        ),
    ] {
        let Some(output) = run(folder, 3, arguments) else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {said}");
        assert!(said.contains(expected), "{arguments}: {said}");
    }
    let left: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, ["day.npz"]);
}

/// MPI counts elements in 31 bits: what is longer goes in blocks. Here blocks are of a few words, and lists of as many, one
/// more and one fewer.
#[test]
fn what_is_longer_than_a_block_arrives_whole() {
    let session = tempfile::tempdir().unwrap();
    let Some(mut command) = mpirun(3, &session) else {
        return;
    };
    let inside = ["--ignored", "--exact", "blocks_as_one_of_several_ranks"];
    let output = command
        .arg(std::env::current_exe().unwrap())
        .args(inside)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("1 passed").count(), 3, "{said}");
}

#[test]
#[ignore = "run by what_is_longer_than_a_block_arrives_whole, as each of several ranks"]
fn blocks_as_one_of_several_ranks() {
    let (_universe, _) = mpi::initialize_with_threading(Threading::Funneled).unwrap();
    let blocks = [2, 3, 8].map(team::Ranks::in_blocks);
    for ranks in blocks.into_iter().chain([team::Ranks::new()]) {
        for length in [0, 1, 2, 3, 7, 8, 9, 16, 17, 100] {
            let words = |rank: usize| -> Vec<u64> {
                // Lists differ in length, too.
                let all = 0..(length + rank) as u64;
                all.map(|word| word << 33 | rank as u64).collect()
            };
            let every: Vec<Vec<u64>> = (0..ranks.size()).map(words).collect();
            let own = words(ranks.rank());
            assert_eq!(ranks.gather(&own).unwrap(), every);
            let first = if ranks.rank() == 0 { &every[..] } else { &[] };
            assert_eq!(ranks.collect(&own).unwrap(), first);
            let numbers = |rank: usize| -> Vec<i128> {
                let all = 0..length as i128;
                all.map(|n| (n - 5) << 70 | rank as i128).collect()
            };
            let mut sums = numbers(ranks.rank());
            ranks.add(&mut sums).unwrap();
            let all = (0..length).map(|i| (0..ranks.size()).map(|rank| numbers(rank)[i]).sum());
            assert_eq!(sums, all.collect::<Vec<i128>>());
        }
    }
}

/// A rank whose disk is full, stood for by a limit of the size of files, says what it could not write; the others end with
/// it, and nothing is left.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_of_one_rank_ends_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recording(&folder.join("day.npz"));
    fs::write(folder.join("list.txt"), "u0 -(0,0.004]-> u1\n").unwrap();
    for (full, arguments, expected) in [
        // The first rank writes what comes of it; every rank unpacks what is deflated.
        (
            0,
            "mine day.npz --count-only list.txt --csv m.csv",
            "writing m.csv",
        ),
        (
            0,
            "network day.npz --bin 20ms --window 2s --step 500ms --threshold 0.05 --out n.npz",
            "writing n.npz",
        ),
        (
            2,
            "mine day.npz --count-only list.txt --memory 300kB --csv m.csv",
            "unpacking day.npz",
        ),
        (
            2,
            "train day.npz --filter 0.05:1 --memory 300kB --out m.betz",
            "unpacking day.npz",
        ),
    ] {
        let session = tempfile::tempdir().unwrap();
        let Some(mut command) = mpirun(3, &session) else {
            return;
        };
        // Between processes of one machine MPI has files of its own, unless told otherwise.
        command.env("OMPI_MCA_btl", "self,tcp");
        let limited = format!(
            r#"if [ "$OMPI_COMM_WORLD_RANK" = {full} ]; then trap "" XFSZ; ulimit -f 0; fi; exec "$@""#
        );
        let output = command
            .args(["sh", "-c", &limited, "sh", env!("CARGO_BIN_EXE_betz-mpi")])
            .args(arguments.split_whitespace())
            .current_dir(folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments}: {said}");
        assert!(
            said.contains(&format!("rank {full} of 3")),
            "{arguments}: {said}"
        );
        assert!(said.contains(expected), "{arguments}: {said}");
        let mut left: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["day.npz", "list.txt"], "{arguments}");
    }
}

/// Seconds of processor time that a process has taken; none once it is gone, or where there is no `/proc`.
fn worked_seconds(process: i32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let words: Vec<&str> = after_name.split_whitespace().collect();
    // Fields 14 and 15, of which the third is the first after the name; 100 ticks per second.
    let ticks = words.get(11)?.parse::<f64>().ok()? + words.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

fn ranks_of(job: u32) -> Vec<i32> {
    let listed = Command::new("pgrep")
        .args(["-P", &job.to_string(), "betz-mpi"])
        .output();
    let listed = listed.map_or(String::new(), |o| {
        String::from_utf8_lossy(&o.stdout).into_owned()
    });
    listed
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect()
}

#[test]
fn a_rank_that_is_killed_ends_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recording(&folder.join("day.npz"));
    // Long enough to be met at work.
    let arguments =
        "mine day.npz --interval 0,0.004 --threshold 60 --surrogates 200000 --csv m.csv";
    // mpirun hangs at times when a rank dies while the ranks still find each other, and seldom later: that is no matter of
    // ours, and it is tried again.
    for attempt in 0..3 {
        let session = tempfile::tempdir().unwrap();
        let Some(mut command) = mpirun(3, &session) else {
            return;
        };
        let mut job = command
            .arg(env!("CARGO_BIN_EXE_betz-mpi"))
            .current_dir(folder)
            .args(arguments.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let patience = Instant::now();
        let third = loop {
            let ranks = ranks_of(job.id());
            let at_work = |rank: &i32| {
                !cfg!(target_os = "linux") || worked_seconds(*rank).is_some_and(|s| s > 1.0)
            };
            if ranks.len() == 3 && ranks.iter().all(at_work) {
                break ranks[2];
            }
            if patience.elapsed() > Duration::from_secs(60) || job.try_wait().unwrap().is_some() {
                let _ = job.kill();
                panic!("expected three ranks at work, got {}", ranks.len());
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let kill = Command::new("kill")
            .args(["-9", &third.to_string()])
            .status();
        assert!(kill.unwrap().success());
        let killed = Instant::now();
        while killed.elapsed() < Duration::from_secs(60) {
            if let Some(status) = job.try_wait().unwrap() {
                assert!(!status.success());
                assert!(!folder.join("m.csv").exists());
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("mpirun still waits a minute after a rank was killed (attempt {attempt})");
        for rank in ranks_of(job.id()) {
            let _ = Command::new("kill")
                .args(["-9", &rank.to_string()])
                .status();
        }
        let _ = job.kill();
        let _ = job.wait();
    }
    panic!("expected the job to end with the rank that was killed, three times it did not");
}
