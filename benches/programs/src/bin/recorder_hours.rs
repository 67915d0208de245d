//! Records at the rate of 1,024 channels (61 MB/s) for a given time, and removes finished segments, so that an hour needs little
//! disk. Prints a line per minute, and at the end losses, the time of the hand-over and the cost of the recorder's thread.
//!
//! ```sh
//! cargo run --release -p betz-programs --bin recorder_hours -- 3600 /data
//! ```
//!
//! Without arguments: 2 s, in the folder for temporary files. The exit code is 1 if a frame is missing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use betz_base::{Error, ErrorKind, Result};
use betz_live::Plan;
use betz_live::record::{Facts, Recorder, RecorderCounts, start};
use betz_recording::OutputInfo;
use betz_rigs::rig::{Block, Samples, host_ns};
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};
use rustix::time::{ClockId, clock_gettime};

const CHANNELS: usize = 1024;
const RATE: f64 = 30_000.0;
/// Rows of a block of 1 ms.
const ROWS: usize = 30;
/// Blocks whose contents differ.
const KINDS: usize = 8;
/// Blocks between two lines: a minute.
const MINUTE: u64 = 60_000;
/// Time between two looks for finished segments.
const LOOK: Duration = Duration::from_millis(250);
/// Largest time by which the program may be late before its schedule begins again.
const LATE: Duration = Duration::from_secs(1);

const PLAN: &str = "[session]\nmodel = \"linear.betz\"\n[[source]]\nname = \"rig\"\nfrom = \"simulated\"\n\
                    [record]\nto = \"recordings\"\nsegment_mib = 256\n";

fn io(what: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{what}: {error}"))
}

/// CPU time of this thread, or of the whole process, in seconds.
fn cpu_seconds(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// The thread that removes all segments but the newest one of a recording.
struct Remover {
    stop: std::sync::Arc<AtomicBool>,
    thread: JoinHandle<RemovalTotals>,
}

/// Work of the remover.
#[derive(Default)]
struct RemovalTotals {
    segments: u64,
    cpu_seconds: f64,
}

impl Remover {
    fn start(folder: PathBuf) -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = std::sync::Arc::clone(&stop);
            move || {
                let mut removed = RemovalTotals::default();
                while !stop.load(Ordering::Relaxed) {
                    removed.segments += remove(&folder);
                    std::thread::sleep(LOOK);
                }
                removed.cpu_seconds = cpu_seconds(ClockId::ThreadCPUTime);
                removed
            }
        });
        Self { stop, thread }
    }

    fn end(self) -> RemovalTotals {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Removes finished segments; returns their number. A folder that cannot be read has none.
fn remove(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut segments: Vec<PathBuf> = (entries.map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "blog"))
        .collect();
    segments.sort();
    // The recorder writes to the newest one.
    segments.pop();
    let removed = segments
        .iter()
        .filter(|path| std::fs::remove_file(path).is_ok());
    removed.count() as u64
}

/// A decoder for the recording's folder; it decodes nothing here.
fn decoder() -> Result<Decoder> {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.06,
        order: 1,
    }])?;
    let names = (0..CHANNELS).map(|c| format!("channel {c}")).collect();
    let outputs = ["x", "y"].map(OutputInfo::from).to_vec();
    Decoder::new(DecoderParts {
        weights: vec![0.01; 2 * CHANNELS],
        ..DecoderParts::linear(0.02, bank, names, outputs)
    })
}

fn recorder(to: &Path) -> Result<Recorder> {
    let facts = Facts {
        version: 1,
        channels: CHANNELS,
        rate: RATE,
        microvolts: Some(0.25),
        voltage: true,
        noise: None,
        unix_seconds: 0.0,
    };
    let plan = Plan::parse(PLAN, Path::new("recorder.toml"), &[])?;
    start(to, &plan, &decoder()?, &facts, host_ns())
}

/// Blocks of noise, which no disk compresses.
fn blocks() -> Vec<Block> {
    let mut state = 1_u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 48) as i16
    };
    (0..KINDS)
        .map(|_| Block {
            rows: ROWS,
            samples: Samples::Voltage((0..ROWS * CHANNELS).map(|_| noise()).collect()),
            ..Block::new()
        })
        .collect()
}

/// Times of the hand-over in nanoseconds.
struct HandOver {
    all: Vec<u32>,
}

impl HandOver {
    /// A time at a share of all, in microseconds. Sorts them.
    fn at(&mut self, share: f64) -> f64 {
        self.all.sort_unstable();
        let last = self.all.len().saturating_sub(1) as f64;
        (self.all.get((last * share) as usize)).map_or(0.0, |ns| f64::from(*ns) / 1e3)
    }
}

fn line(blocks: u64, counts: &RecorderCounts) {
    println!(
        "{:>7.1} min  {:>8.1} GB  {} not recorded  fullest ring {:.1} %",
        blocks as f64 / MINUTE as f64,
        counts.written as f64 / 1e9,
        counts.unrecorded,
        100.0 * counts.fullest
    );
}

/// Records for `seconds` into a folder in `to`; returns the number of frames that are missing.
fn record(seconds: f64, to: &Path) -> Result<u64> {
    let mut recorder = recorder(to)?;
    let remover = Remover::start(recorder.folder().to_owned());
    let mut blocks = blocks();
    let most = (seconds * 1000.0).round() as u64;
    let mut took = HandOver {
        all: Vec::with_capacity(most as usize),
    };
    let process = cpu_seconds(ClockId::ProcessCPUTime) - cpu_seconds(ClockId::ThreadCPUTime);
    let (mut begun, mut since, mut behind) = (Instant::now(), 0, Duration::ZERO);
    let started = begun;
    for number in 0..most {
        let due = Duration::from_millis(number + 1 - since);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let late = begun.elapsed().saturating_sub(due);
        behind = behind.max(late);
        if late > LATE {
            // A machine that slept makes no burst that no rig would send.
            (begun, since) = (Instant::now(), number + 1);
        }
        let block = &mut blocks[number as usize % KINDS];
        (block.first, block.host_ns) = (number * ROWS as u64, host_ns());
        let put = Instant::now();
        recorder.block(0, block);
        took.all
            .push(u32::try_from(put.elapsed().as_nanos()).unwrap_or(u32::MAX));
        if (number + 1) % MINUTE == 0 {
            line(number + 1, &recorder.counts());
        }
    }
    let wall = started.elapsed().as_secs_f64();
    let ended = recorder.end(host_ns());
    let removed = remover.end();
    let others = cpu_seconds(ClockId::ProcessCPUTime) - cpu_seconds(ClockId::ThreadCPUTime);
    let counts = recorder.counts();
    line(most, &counts);
    println!(
        "{:.1} s, {:.1} MB/s; {} of {} frames not recorded; {} finished segments removed",
        wall,
        counts.written as f64 / 1e6 / wall,
        counts.unrecorded,
        counts.frames,
        removed.segments
    );
    println!(
        "hand-over of a block: p50 {:.1} µs, p99 {:.1} µs, p99.9 {:.1} µs, max {:.1} µs; the program was late by at most {:.1} ms",
        took.at(0.5),
        took.at(0.99),
        took.at(0.999),
        took.at(1.0),
        behind.as_secs_f64() * 1e3
    );
    println!(
        "recorder's thread: {:.2} % of a core",
        100.0 * (others - process - removed.cpu_seconds) / wall
    );
    ended.map(|()| counts.unrecorded)
}

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let seconds = match arguments.next() {
        None => 2.0,
        Some(text) => (text.to_str())
            .and_then(|text| text.parse().ok())
            .filter(|seconds| (0.001..=1e6).contains(seconds))
            .ok_or_else(|| {
                Error::argument(format!(
                    "expected seconds from 0.001 to 1000000, got {}",
                    text.to_string_lossy()
                ))
            })?,
    };
    let place = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    // Taken away at the end.
    let folder = tempfile::Builder::new()
        .prefix("betz-recorder-")
        .tempdir_in(&place)
        .map_err(|e| io(&format!("creating a folder in {}", place.display()), &e))?;
    let missing = record(seconds, folder.path())?;
    Ok(match missing {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
