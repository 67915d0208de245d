//! `betz run --keep`: its session is killed, and goes on with its recording.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use betz_rigs::rig::emulate::FrameSender;

use crate::program::{any_model, betz, json, spawned, terminate};

const CHANNELS: usize = 8;
const ROWS: u64 = 30;

/// The session's process, which `--keep` has started.
fn session_of(keeper: u32) -> Option<String> {
    let path = format!("/proc/{keeper}/task/{keeper}/children");
    let children = std::fs::read_to_string(path).ok()?;
    children.split_whitespace().next().map(Into::into)
}

/// Blocks of 1 ms in real time, whatever happens at the other end, until it is told to stop.
pub(crate) fn send(to: &str, stop: &AtomicBool) {
    let mut sender = FrameSender::new(to, CHANNELS, 30_000.0).unwrap();
    let mut state = 1_u32;
    let started = Instant::now();
    for block in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let voltage: Vec<i16> = (0..CHANNELS * ROWS as usize)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as i16 - 128
            })
            .collect();
        // Nobody listens while the session is dead.
        let _ = sender.send_at(block * ROWS, &voltage);
        let due = started + Duration::from_millis(block);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Waits for an output whose number is above `after`; its number.
fn output(from: &UdpSocket, after: u64) -> u64 {
    let mut datagram = [0; 256];
    loop {
        let got = from.recv(&mut datagram).unwrap();
        assert!(got >= 32, "{got}");
        let number = u64::from_le_bytes(datagram[8..16].try_into().unwrap());
        if number > after {
            return number;
        }
    }
}

/// A model, and a plan whose outputs nobody receives; the address of its source.
fn unheard_plan(folder: &Path) -> String {
    any_model(folder);
    let address = |socket: UdpSocket| socket.local_addr().unwrap().to_string();
    let [rig, sink] = [0; 2].map(|_| address(UdpSocket::bind("127.0.0.1:0").unwrap()));
    write_plan(folder, &rig, &sink);
    rig
}

fn write_plan(folder: &Path, from: &str, to: &str) {
    let plan = format!(
        "[session]\nmodel = \"any.betz\"\n[[source]]\nname = \"rig\"\nmicrovolts = 0.25\n\
         from = \"udp://{from}\"\n[voltage]\nnoise = {{ calibrate = \"0.2s\", track = \"30s\" }}\n\
         [missing]\nstale_after = \"1h\"\nbacklog = 1000000\n[outputs]\nto = [\"udp://{to}\"]\n\
         [record]\nto = \"recordings\"\n[limits]\nlost = 1\nlate_steps = 1\n"
    );
    std::fs::write(folder.join("kept.toml"), plan).unwrap();
}

#[test]
fn a_session_that_is_killed_goes_on_with_its_recording() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    any_model(folder);
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let rig = free.local_addr().unwrap().to_string();
    drop(free);
    write_plan(folder, &rig, &sink.local_addr().unwrap().to_string());

    let stop = AtomicBool::new(false);
    let mut times = Vec::new();
    let output = std::thread::scope(|scope| {
        scope.spawn(|| send(&rig, &stop));
        let mut keeper = spawned(folder, "run kept.toml --keep --json");
        let mut newest = 0;
        for _ in 0..3 {
            // Past a checkpoint, and some steps more.
            newest = output(&sink, newest + 60);
            let session = session_of(keeper.id()).unwrap();
            let kill = std::process::Command::new("kill")
                .args(["-9", &session])
                .status();
            assert!(kill.unwrap().success());
            let killed = Instant::now();
            while session_of(keeper.id()).is_none_or(|now| now == session) {
                assert!(keeper.try_wait().unwrap().is_none(), "ended");
                std::thread::yield_now();
            }
            // The outputs of the first life are read before those of the second.
            sink.set_nonblocking(true).unwrap();
            while let Ok(got) = sink.recv(&mut [0; 256]) {
                assert!(got > 0);
            }
            sink.set_nonblocking(false).unwrap();
            newest = output(&sink, newest);
            times.push(killed.elapsed());
        }
        output(&sink, newest + 60);
        terminate(&mut keeper);
        let output = keeper.wait_with_output().unwrap();
        stop.store(true, Ordering::Relaxed);
        output
    });
    eprintln!("from the kill to the next output: {times:?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert_eq!(errors.matches("it is started again").count(), 3, "{errors}");
    assert_eq!(errors.matches("goes on with").count(), 3, "{errors}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["resumed"], 3, "{told}");
    assert_eq!(told["input"]["restarts"], 0, "{told}");
    assert!(told["input"]["lost"].as_u64().unwrap() > 0, "{told}");
    let path = told["folder"].as_str().unwrap();
    let log = std::fs::read_to_string(folder.join(path).join("log.jsonl")).unwrap();
    assert_eq!(log.matches("\"what\":\"resumed\"}").count(), 3, "{log}");
    let checked = json(folder, &format!("record check {path}"));
    assert!(
        checked["ended"] == true && checked["places"] == 0 && checked["missing"] == 0,
        "{checked}"
    );
    let replayed = json(folder, &format!("run --replay {path}"));
    assert_eq!(replayed["equal"], true, "{replayed}");
    assert_eq!(
        std::fs::read_dir(folder.join("recordings"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn a_plan_that_records_nothing_is_not_kept_and_an_error_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(
        folder.join("none.toml"),
        "[session]\nmodel = \"none.betz\"\n[[source]]\nname = \"rig\"\nfrom = \"udp://127.0.0.1:0\"\n",
    )
    .unwrap();
    let output = betz(folder, "run none.toml --keep");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("none.betz") && !errors.contains("again"),
        "{errors}"
    );
}

#[test]
fn a_session_that_dies_again_and_again_is_started_five_times_and_then_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    unheard_plan(folder);
    let mut keeper = spawned(folder, "run kept.toml --keep --json");
    let mut before = None;
    for _ in 0..6 {
        let session = loop {
            assert!(keeper.try_wait().unwrap().is_none(), "ended");
            if let Some(now) = session_of(keeper.id()).filter(|now| before.as_ref() != Some(now)) {
                break now;
            }
            std::thread::yield_now();
        };
        let kill = std::process::Command::new("kill")
            .args(["-9", &session])
            .status();
        assert!(kill.unwrap().success());
        before = Some(session);
    }
    let output = keeper.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert_eq!(errors.matches("it is started again").count(), 5, "{errors}");
    assert!(errors.contains("for the 6th time in a minute"), "{errors}");
}

#[test]
fn the_page_of_a_session_that_was_killed_has_the_same_address_again() {
    use std::io::{BufRead, BufReader};

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rig = unheard_plan(folder);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| send(&rig, &stop));
        let mut keeper = spawned(folder, "run kept.toml --keep --page --no-open");
        let mut lines = BufReader::new(keeper.stdout.take().unwrap()).lines();
        let mut url = || loop {
            let line = lines.next().unwrap().unwrap();
            if line.starts_with("http://") {
                return line;
            }
        };
        let first = url();
        let session = session_of(keeper.id()).unwrap();
        let kill = std::process::Command::new("kill")
            .args(["-9", &session])
            .status();
        assert!(kill.unwrap().success());
        assert_eq!(url(), first);
        assert!(first.contains("token="), "{first}");
        // No other user reads the token in the arguments.
        let session = session_of(keeper.id()).unwrap();
        let arguments = std::fs::read_to_string(format!("/proc/{session}/cmdline")).unwrap();
        let token = first.split("token=").nth(1).unwrap();
        assert!(!arguments.contains(token));
        terminate(&mut keeper);
        keeper.wait().unwrap();
        stop.store(true, Ordering::Relaxed);
    });
}

/// The history that a session keeps beside its only recording, once it is written.
fn kept_history(folder: &Path) -> Option<serde_json::Value> {
    let recording = std::fs::read_dir(folder.join("recordings")).ok()?.next()?;
    let text = std::fs::read(recording.ok()?.path().join("history.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

#[test]
fn the_history_of_a_session_that_was_killed_goes_on_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    any_model(folder);
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let rig = free.local_addr().unwrap().to_string();
    drop(free);
    write_plan(folder, &rig, &sink.local_addr().unwrap().to_string());
    let stop = AtomicBool::new(false);
    let (before, output) = std::thread::scope(|scope| {
        scope.spawn(|| send(&rig, &stop));
        let mut keeper = spawned(folder, "run kept.toml --keep --page --no-open --json");
        let before = loop {
            assert!(keeper.try_wait().unwrap().is_none(), "ended");
            match kept_history(folder) {
                Some(history) => break history,
                None => output(&sink, 0),
            };
        };
        let session = session_of(keeper.id()).unwrap();
        let kill = std::process::Command::new("kill")
            .args(["-9", &session])
            .status();
        assert!(kill.unwrap().success());
        while session_of(keeper.id()).is_none_or(|now| now == session) {
            assert!(keeper.try_wait().unwrap().is_none(), "ended");
            std::thread::yield_now();
        }
        sink.set_nonblocking(true).unwrap();
        while sink.recv(&mut [0; 256]).is_ok() {}
        sink.set_nonblocking(false).unwrap();
        let again = output(&sink, 0);
        // Some seconds more, in steps of 10 ms or longer.
        output(&sink, again + 300);
        terminate(&mut keeper);
        let output = keeper.wait_with_output().unwrap();
        stop.store(true, Ordering::Relaxed);
        (before, output)
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(
        !errors.contains("without the session's history"),
        "{errors}"
    );
    let after = kept_history(folder).unwrap();
    let slots = |history: &serde_json::Value| history["slots"].as_array().unwrap().clone();
    let (first, all) = (slots(&before), slots(&after));
    assert!(first.len() >= 10, "{before}");
    assert_eq!(all[..first.len()], first[..], "what was written stays");
    let at = |slot: &serde_json::Value| slot["at"].as_i64().unwrap();
    assert!(all.windows(2).all(|two| at(&two[0]) < at(&two[1])));
    assert!(all.len() > first.len() + 1, "{} slots", all.len());
    // No step counts twice.
    let most = first
        .iter()
        .map(|s| s["steps"].as_u64().unwrap())
        .max()
        .unwrap();
    assert!(all.iter().all(|s| s["steps"].as_u64().unwrap() <= most + 1));
    // The report at the end has the same seconds, with the verdict.
    let text = String::from_utf8(output.stdout).unwrap();
    let told: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let told = &told["history"];
    assert!(told["verdict"]["level"].is_string(), "{told}");
    let reported = slots(told);
    assert!(reported.len() + 1 >= all.len() && reported.len() <= all.len());
    for (own, kept) in reported.iter().zip(&all) {
        assert_eq!((at(own), &own["steps"]), (at(kept), &kept["steps"]));
    }
}
