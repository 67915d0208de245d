//! `betz mine`: frequent episodes, or the counts of given ones.

use std::path::Path;
use std::time::Instant;

use betz::device::Device;
use betz::episode::count::{CountJob, LatestStart, Strategy, strategy_on};
use betz::episode::graph::Graph;
use betz::episode::{Episode, Events, Interval, MineOptions, Mined, Order, mine, write_csv};
use betz::recording::Recording;
use betz::{Error, ErrorKind, Result};
use serde::Serialize;

use super::listed::{Listed, given, list};
use super::replay;
use crate::args::Mine;
use crate::data;
use crate::device;
use crate::raster;
use crate::report::{self, Bar, Table};

#[derive(Serialize)]
struct LevelDone {
    size: usize,
    candidates: u64,
    frequent: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct Found {
    episodes: Vec<Listed>,
    events: usize,
    symbols: usize,
    seconds: f64,
    strategy: String,
    device: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    levels: Vec<LevelDone>,
    complete: bool,
}

pub(crate) fn run(args: &Mine) -> Result<()> {
    let events = read(args)?;
    let device = device_for(args, &events)?;
    let intervals: Vec<Interval> = args
        .intervals
        .iter()
        .map(|text| {
            let (low, high) = data::parse_pair("--interval", text)?;
            Interval::from_seconds(low, high, events.clock()).map_err(|e| e.at("--interval"))
        })
        .collect::<Result<_>>()?;
    if let Some(speed) = args.replay {
        return replay::run(args, &events, intervals, speed, device.name());
    }
    let bar = Bar::new();
    let started = Instant::now();
    let mined = match &args.count_only {
        Some(path) => count(args, &device, &events, &intervals, path, &bar)?,
        None => search(args, &device, &events, intervals, &bar)?,
    };
    let seconds = started.elapsed().as_secs_f64();
    drop(bar);
    if !mined.complete {
        eprintln!("interrupted: every episode listed is frequent, but longer ones are missing");
    }
    write_files(args, &events, &mined)?;
    let found = Found {
        episodes: chosen(args, &mined)
            .iter()
            .map(|e| listed(e, &events))
            .collect(),
        events: events.len(),
        symbols: events.symbols(),
        seconds,
        strategy: args.strategy.clone(),
        device: device.name(),
        levels: mined
            .levels
            .iter()
            .map(|l| LevelDone {
                size: l.size,
                candidates: l.candidates,
                frequent: l.frequent,
                seconds: l.seconds,
            })
            .collect(),
        complete: mined.complete,
    };
    if args.common.json {
        report::json(&found)
    } else {
        print(args, &events, &mined, &found)
    }
}

/// Events below which `auto` leaves counting to the CPU: opening a device takes longer.
const AUTO_EVENTS: usize = 1 << 20;

/// The device that counts. Of the strategies, latest-start runs on CUDA devices; a replay does not.
fn device_for(args: &Mine, events: &Events) -> Result<Device> {
    let spec = args.common.device.as_str();
    let elsewhere = if args.replay.is_some() {
        Some("a replay".to_owned())
    } else if args.strategy != LatestStart.name() {
        Some(format!("strategy {}", args.strategy))
    } else {
        None
    };
    match elsewhere {
        Some(work) => device::cpu_for(&work, spec).map(|_| Device::cpu()),
        None if spec == "auto" && events.len() < AUTO_EVENTS => Ok(Device::cpu()),
        None => device::open(spec),
    }
}

fn read(args: &Mine) -> Result<Events> {
    let order = if args.sort {
        Order::Sort
    } else {
        Order::Required
    };
    match args.events.extension().and_then(|e| e.to_str()) {
        Some("npz") => {
            let recording = Recording::read_npz(&args.events)?;
            Events::from_recording(&recording).map_err(|e| e.at(args.events.display()))
        }
        Some("csv" | "txt") => Events::read_csv(&args.events, order),
        _ => Err(Error::argument(format!(
            "{}: expected events as .csv (label,seconds) or .npz, got another ending",
            args.events.display()
        ))),
    }
}

fn count(
    args: &Mine,
    device: &Device,
    events: &Events,
    intervals: &[Interval],
    path: &Path,
    bar: &Bar,
) -> Result<Mined> {
    let patterns = given(events, intervals, path)?;
    let job = CountJob {
        progress: bar,
        ..CountJob::new(events, &patterns)
    };
    let counts = strategy_on(&args.strategy, device)?.count(&job)?;
    let episodes = patterns.into_iter().zip(counts);
    Ok(Mined {
        episodes: episodes
            .map(|(pattern, count)| Episode { pattern, count })
            .collect(),
        levels: Vec::new(),
        complete: true,
    })
}

fn search(
    args: &Mine,
    device: &Device,
    events: &Events,
    intervals: Vec<Interval>,
    bar: &Bar,
) -> Result<Mined> {
    if intervals.is_empty() {
        return Err(Error::argument(
            "--interval: expected at least one, got none",
        ));
    }
    let options = MineOptions {
        max_size: args.max_size,
        strategy: strategy_on(&args.strategy, device)?,
        ..MineOptions::new(intervals, args.threshold.unwrap_or(1))
    };
    report::stop_on_interrupt();
    mine(events, &options, bar)
}

/// The episodes to list: all in the file's order for given ones.
fn chosen<'a>(args: &Mine, mined: &'a Mined) -> Vec<&'a Episode> {
    if args.maximal {
        mined.maximal()
    } else {
        mined.episodes.iter().collect()
    }
}

fn listed(episode: &Episode, events: &Events) -> Listed {
    list(&episode.pattern, episode.count, events)
}

fn write_files(args: &Mine, events: &Events, mined: &Mined) -> Result<()> {
    if let Some(path) = &args.csv {
        let episodes: Vec<Episode> = chosen(args, mined).into_iter().cloned().collect();
        betz::file::write_atomically(path, |file| write_csv(file, &episodes, events.alphabet()))?;
    }
    if let Some(path) = &args.graph {
        let graph = Graph::new(&mined.episodes, 2);
        let alphabet = events.alphabet();
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match ending {
            "dot" | "gv" => {
                betz::file::write_atomically(path, |file| graph.write_dot(file, alphabet))?;
            }
            "graphml" => {
                betz::file::write_atomically(path, |file| graph.write_graphml(file, alphabet))?;
            }
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("--graph: expected a file ending in .dot or .graphml, got '.{other}'"),
                ));
            }
        }
    }
    if let Some(path) = &args.picture {
        raster::draw(events, &mined.episodes, path)?;
    }
    Ok(())
}

fn print(args: &Mine, events: &Events, mined: &Mined, found: &Found) -> Result<()> {
    for level in &found.levels {
        report::line(&format!(
            "size {}: {} candidates, {} frequent, {:.3} s",
            level.size, level.candidates, level.frequent, level.seconds
        ))?;
    }
    let mut episodes = chosen(args, mined);
    if args.count_only.is_none() {
        episodes.sort_by_key(|e| {
            (
                std::cmp::Reverse(e.pattern.size()),
                std::cmp::Reverse(e.count),
            )
        });
        episodes.truncate(args.top);
    }
    let mut table = Table::new(["episode", "count"]);
    for e in &episodes {
        let text = e.pattern.display(events.alphabet()).to_string();
        table.row([text, e.count.to_string()]);
    }
    table.print()?;
    if episodes.len() < found.episodes.len() {
        report::line(&format!(
            "… and {} more (--top N, --csv FILE or --json lists them)",
            found.episodes.len() - episodes.len()
        ))?;
    }
    report::line(&format!(
        "{} episodes in {} events of {} symbols, {:.3} s ({}, {})",
        found.episodes.len(),
        found.events,
        found.symbols,
        found.seconds,
        found.strategy,
        found.device
    ))
}
