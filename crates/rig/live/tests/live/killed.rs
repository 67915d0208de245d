//! A process that is killed while it records: this test runs itself as that process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use betz_live::record::{Reader, Record};
use betz_rigs::rig::{Block, Loss, Samples};

use super::rigs;

const FOLDER: &str = "BETZ_LIVE_TEST_FOLDER";
/// Blocks of 1 ms that the child records per line that it prints.
const PER_LINE: u64 = 100;
/// Channels of a block: a second of them has 2.0 MB.
const CHANNELS: i16 = 32;
/// Room of the recorder's ring in bytes. The writer holds 1 MiB more, so both have room for 0.8 s.
const RING: usize = 512 << 10;
/// Length of a block in nanoseconds.
const BLOCK_NS: i64 = 1_000_000;
/// Longest part of a killed recording that may be lost, in nanoseconds.
const MOST_LOST_NS: i64 = 1_000_000_000;

fn block(i: u64) -> Block {
    Block {
        epoch: 0,
        first: 30 * i,
        rows: 30,
        host_ns: i as i64 * BLOCK_NS,
        lost_before: Loss::default(),
        samples: Samples::Voltage(
            (0..30 * CHANNELS)
                .map(|s| (i as i16).wrapping_mul(31) ^ s)
                .collect(),
        ),
    }
}

/// The child: records blocks and prints a line for each hundred.
#[test]
fn child_that_records() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut recorder = rigs::recorder(Path::new(&folder), RING, 1 << 20).unwrap();
    for i in 0.. {
        // A slow disk or writer loses no block here.
        while recorder.counts().fill > 0.9 {
            std::thread::yield_now();
        }
        recorder.block(0, &block(i));
        if i % PER_LINE == PER_LINE - 1 {
            // A second of a real session is 1,000 blocks; a line is said only ten of them later.
            println!("recorded {i}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// Kills the child once `is_time` says so, which is asked after every line; the newest block that it said it handed over.
fn kill(folder: &Path, pause: Duration, is_time: &dyn Fn(u64) -> bool) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child_that_records", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut newest = None;
    while newest.is_none_or(|newest| !is_time(newest)) {
        let line = lines.next().unwrap().unwrap();
        let number = line.rsplit_once("recorded ").map(|(_, number)| number);
        newest = number.map(|n| n.parse().unwrap()).or(newest);
    }
    std::thread::sleep(pause);
    child.kill().unwrap();
    child.wait().unwrap();
    // It may have said more before it was killed.
    let said = lines.map_while(Result::ok).filter_map(|line| {
        let (_, number) = line.rsplit_once("recorded ")?;
        number.parse().ok()
    });
    said.max().max(newest).unwrap()
}

/// Blocks of a recording that was killed: all of them, from the first on, but for those at the end.
fn read(folder: &Path) -> u64 {
    let mut reader = Reader::open(folder).unwrap();
    let mut next = 0;
    while let Some(record) = reader.next_record().unwrap() {
        assert_eq!(record, Record::Block(0, block(next)));
        next += 1;
    }
    let damage = reader.damage();
    assert!(
        damage.is_clean() && !damage.ended && damage.torn <= 1,
        "{damage:?}"
    );
    next
}

#[test]
fn a_killed_session_keeps_what_was_written_before() {
    let folder = tempfile::tempdir().unwrap();
    let segment = folder.path().join("000002.blog");
    // The writer writes what is in the ring at least once between two of its turns: wait until a segment is full.
    kill(folder.path(), Duration::ZERO, &|_| segment.exists());
    // Two whole segments, and whatever came after them.
    let blocks = read(folder.path());
    assert!(blocks * 1968 >= 2 << 20, "{blocks}");
}

/// The bound is that of the host's time in the blocks. It holds by the sizes of ring and writer, however slow the machine is.
/// The writer also empties the ring every 20 ms, so that less is lost of few channels: no test can say so without a clock.
#[test]
fn a_killed_session_loses_at_most_a_second_and_every_frame_before_is_whole() {
    let kills = match std::env::var_os("BETZ_EXHAUSTIVE") {
        Some(_) => 500,
        None => 25,
    };
    let mut most = 0;
    for number in 0..kills {
        let folder = tempfile::tempdir().unwrap();
        let pause = Duration::from_micros(number * 7919 % 5000);
        let newest = kill(folder.path(), pause, &|newest| {
            newest / PER_LINE >= number % 25
        });
        let recorded = read(folder.path());
        let handed_over = block(newest).host_ns + BLOCK_NS;
        let lost = handed_over - recorded as i64 * BLOCK_NS;
        assert!(lost <= MOST_LOST_NS, "kill {number}: {lost} ns are lost");
        most = most.max(lost);
    }
    println!("{kills} kills: at most {} ms are lost", most / 1_000_000);
}
