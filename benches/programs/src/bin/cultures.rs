//! Frequent episodes of a culture at several ages:
//! `cargo run --release -p betz-programs --bin cultures -- RECORDING.npz… [--threshold N] [--max-size K]`
//!
//! A table, one line per recording: events, the number of frequent episodes of each size over the
//! intervals (0, 5], (5, 10] and (10, 15] ms, and the most frequent one of the largest size.

use std::path::PathBuf;
use std::time::Instant;

use betz::episode::{Events, Interval, MineOptions, mine};
use betz::recording::Recording;
use betz::{Error, Result};

fn main() -> Result<()> {
    let mut files: Vec<PathBuf> = Vec::new();
    let (mut threshold, mut max_size) = (1000, 6);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().and_then(|v| v.parse().ok());
            value.ok_or_else(|| Error::argument(format!("{arg}: expected a whole number after it")))
        };
        match arg.as_str() {
            "--threshold" => threshold = number()?,
            "--max-size" => max_size = number()?,
            _ => files.push(arg.into()),
        }
    }
    let sizes: String = (1..=max_size).map(|k| format!(" size {k} |")).collect();
    println!(
        "| recording | events | minutes |{sizes} most frequent of the largest size | count | search (s) |"
    );
    println!(
        "|---|---|---|{}---|---|---|",
        "---|".repeat(max_size as usize)
    );
    for file in files {
        let recording = Recording::read_npz(&file)?;
        let events = Events::from_recording(&recording)?;
        let interval = |low, high| Interval::from_seconds(low, high, events.clock());
        let intervals = vec![
            interval(0.0, 0.005)?,
            interval(0.005, 0.01)?,
            interval(0.01, 0.015)?,
        ];
        let mut options = MineOptions::new(intervals, threshold);
        options.max_size = Some(max_size as usize);
        let start = Instant::now();
        let mined = mine(&events, &options, &())?;
        let took = start.elapsed().as_secs_f64();
        let numbers: String = (0..max_size as usize)
            .map(|k| format!(" {} |", mined.levels.get(k).map_or(0, |l| l.frequent)))
            .collect();
        let longest = mined.episodes.iter().map(|e| e.pattern.size()).max();
        let best = (mined.episodes.iter())
            .filter(|e| Some(e.pattern.size()) == longest)
            .max_by_key(|e| e.count);
        let (best, count) = best.map_or((String::new(), 0), |e| {
            (e.pattern.display(events.alphabet()).to_string(), e.count)
        });
        println!(
            "| {} | {} | {:.1} |{numbers} `{best}` | {count} | {took:.1} |",
            file.file_stem().unwrap_or_default().to_string_lossy(),
            events.len(),
            events.clock().seconds(events.last_tick()) / 60.0,
        );
    }
    Ok(())
}
