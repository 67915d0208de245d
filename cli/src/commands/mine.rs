//! `betz mine`: frequent episodes, or the counts of given ones.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

use betz::device::Device;
use betz::episode::count::{Counter, InMemory, LazyPlacement, Shared, Strategy};
use betz::episode::graph::Graph;
use betz::episode::significance::{ChainTest, Workers};
use betz::episode::{
    Alphabet, Clock, Episode, Events, Interval, MineOptions, Mined, Order, Pattern, mine_by,
    write_chains_csv, write_csv, write_tested_csv,
};
use betz::file::write_atomically;
use betz::team::{Alone, Team};
use betz::{Error, Result};
use serde::Serialize;

use super::chance::{self, How, Source, Tested};
use super::listed::{Chance, Listed, given, list, print_rest, print_table};
use super::{mine_long, mine_shard, replay};
use crate::args::Mine;
use crate::data;
use crate::device;
use crate::files::{self, Files, Kind};
use crate::raster;
use crate::report::{self, Bar};

/// What an event of a stretch takes at most, as it is read, moved and indexed.
pub(super) const BYTES_AN_EVENT: u64 = 64;

#[derive(Serialize)]
struct LevelDone {
    size: usize,
    candidates: u64,
    counted: u64,
    frequent: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct Found {
    episodes: Vec<Listed>,
    events: u64,
    symbols: usize,
    /// Of counting.
    seconds: f64,
    /// Of surrogates and parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    chance_seconds: Option<f64>,
    /// All of the command's time, reading included.
    total_seconds: f64,
    strategy: String,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    chance: Option<How>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    levels: Vec<LevelDone>,
    /// Up to this size every frequent episode is listed; of longer ones, only when `complete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_size: Option<usize>,
    complete: bool,
}

/// What is to be counted.
pub(super) enum Wanted {
    /// These episodes.
    Given(Vec<Pattern>),
    /// The frequent ones over these intervals.
    Frequent(Vec<Interval>),
}

impl Wanted {
    pub(super) fn new(args: &Mine, intervals: Vec<Interval>, alphabet: &Alphabet) -> Result<Self> {
        Ok(match &args.count_only {
            Some(path) => Self::Given(given(alphabet, &intervals, path)?),
            None if intervals.is_empty() => {
                return Err(Error::argument(
                    "--interval: expected at least one, got none",
                ));
            }
            None => Self::Frequent(intervals),
        })
    }

    /// The longest that an episode may have, in ticks; 1 where there is no edge.
    pub(super) fn longest_delay(&self) -> i64 {
        let longest = match self {
            Self::Given(patterns) => {
                let edges = patterns.iter().flat_map(Pattern::intervals);
                edges.map(|i| i.high).max()
            }
            Self::Frequent(intervals) => intervals.iter().map(|i| i.high).max(),
        };
        longest.unwrap_or(1)
    }
}

/// The counting strategy that has `name`, on `device`.
#[cfg(feature = "published")]
fn strategy_on(name: &str, device: &Device) -> Result<Box<dyn Strategy>> {
    betz_episode_published::strategy_on(name, device)
}

/// The counting strategy that has `name`, on `device`: this build has one.
#[cfg(not(feature = "published"))]
fn strategy_on(name: &str, device: &Device) -> Result<Box<dyn Strategy>> {
    use betz::episode::count::{LatestStart, latest_start_on};
    if name != LatestStart.name() {
        return Err(Error::argument(format!(
            "--strategy: expected latest-start, got {name}; this betz is built without the published strategies"
        )));
    }
    Ok(latest_start_on(device))
}

pub(crate) fn run(args: &Mine) -> Result<()> {
    run_by(&Alone, args)
}

/// `betz mine` by a team, whose processes share out candidates and surrogates; the first tells and writes.
pub(crate) fn run_by(team: &'static dyn Team, args: &Mine) -> Result<()> {
    chance::check(&args.chance)?;
    let mut files = Files::new(&args.common)
        .reads("EVENTS", &args.events)
        .may_read("--count-only", args.count_only.as_deref());
    for (option, path, kind) in [
        ("--csv", &args.csv, Kind::Table(&["size,count,symbols,"])),
        ("--graph", &args.graph, Kind::Graph),
        ("--picture", &args.picture, Kind::Picture),
    ] {
        files.may_write(option, path.as_deref(), kind)?;
    }
    if let Some(shard) = args.shard {
        if team.size() > 1 {
            return Err(Error::argument(
                "--shard: expected none in a team, whose processes share out what there is to count",
            ));
        }
        files.may_write("--out", args.out.as_deref(), Kind::CountPart)?;
        return match &args.out {
            Some(out) => mine_shard::run(args, shard, out),
            None => Err(Error::argument("--out: expected a file, got none")),
        };
    }
    if let Some(memory) = args.memory {
        return mine_long::run(team, args, memory);
    }
    let events = read(args)?;
    let device = device_for(args)?;
    let intervals = intervals(&args.intervals, events.clock())?;
    if args.replay.is_some() && team.size() > 1 {
        return Err(Error::argument(
            "--replay: expected none in a team, whose processes share out what is counted at once",
        ));
    }
    if let Some(speed) = args.replay {
        return replay::run(args, &events, intervals, speed, device.name());
    }
    let wanted = Wanted::new(args, intervals, events.alphabet())?;
    let longest = wanted.longest_delay();
    chance::check_on(&args.chance, events.clock(), Some(&events), longest)?;
    report::stop_on_interrupt();
    let bar = Bar::new();
    let started = Instant::now();
    let strategy: Box<dyn Strategy> =
        Box::new(Shared::new(team, strategy_on(&args.strategy, &device)?));
    let counter = InMemory {
        events: &events,
        strategy: &*strategy,
    };
    let mut mined = found(args, &counter, wanted, &bar)?;
    let seconds = started.elapsed().as_secs_f64();
    device::note_fallback(&mined.ran, "counting");
    let source = Source::Held(&events);
    let placement = LazyPlacement::new(&device);
    let workers = Workers {
        team,
        placement: &placement,
    };
    let (tested, chance_seconds) = tested(workers, args, source, &mut mined, &bar)?;
    device::note_fallback(&placement.ran(""), "surrogates");
    drop(bar);
    if team.rank() > 0 {
        return Ok(());
    }
    let seen = Seen {
        alphabet: events.alphabet(),
        number: events.len() as u64,
        held: Some(&events),
    };
    tell(
        args,
        &seen,
        &mined,
        tested.as_ref(),
        seconds,
        chance_seconds,
    )
}

/// Tests what was found against surrogates where that is asked for, and keeps what passes; the seconds of it.
pub(super) fn tested(
    workers: Workers<'_>,
    args: &Mine,
    source: Source<'_>,
    mined: &mut Mined,
    bar: &Bar,
) -> Result<(Option<Tested>, Option<f64>)> {
    let testing = Instant::now();
    if !mined.complete {
        return Ok((None, None));
    }
    let mut tested = chance::test(workers, &args.chance, source, &mined.episodes, bar)?;
    if let Some(tested) = &mut tested {
        tested.filter(&mut mined.episodes);
    }
    let seconds = tested.is_some().then(|| testing.elapsed().as_secs_f64());
    Ok((tested, seconds))
}

/// What the episodes were found in.
pub(super) struct Seen<'a> {
    pub(super) alphabet: &'a Alphabet,
    pub(super) number: u64,
    /// The events, where they are in memory.
    pub(super) held: Option<&'a Events>,
}

/// Tells what was found and writes the files asked for; `seconds` of counting and of surrogates.
pub(super) fn tell(
    args: &Mine,
    seen: &Seen<'_>,
    mined: &Mined,
    tested: Option<&Tested>,
    seconds: f64,
    chance_seconds: Option<f64>,
) -> Result<()> {
    say_what_is_missing(args, mined, tested.is_some());
    let list = List::new(args, mined, tested);
    let found = Found {
        episodes: (list.rows.iter())
            .map(|(e, s)| listed(e, list.tested.then(|| Chance::new(*s)), seen.alphabet))
            .collect(),
        events: seen.number,
        symbols: seen.alphabet.len(),
        seconds,
        chance_seconds,
        total_seconds: report::total_seconds(),
        strategy: args.strategy.clone(),
        device: mined.ran.device.clone(),
        chance: tested.map(|t| t.how.clone()),
        levels: mined
            .levels
            .iter()
            .map(|l| LevelDone {
                size: l.size,
                candidates: l.candidates,
                counted: l.counted,
                frequent: l.frequent,
                seconds: l.seconds,
            })
            .collect(),
        complete_size: (args.count_only.is_none()).then(|| mined.complete_size()),
        complete: mined.complete && tested.is_some() == args.chance.surrogates.is_some(),
    };
    // What was found is told first: a file that cannot be written, or a pipe that is closed, does not
    // take the other with it.
    let printed = if args.common.json {
        report::json(&found)
    } else {
        print(args, seen.alphabet, &list, &found, tested)
    };
    let written = write_files(args, seen, &mined.episodes, &list);
    match (printed, written) {
        (Err(pipe), Err(file)) => Err(Error::new(file.kind(), format!("{file}; {pipe}"))),
        (printed, written) => printed.and(written),
    }
}

/// After an interrupt: which part of the list is whole.
fn say_what_is_missing(args: &Mine, mined: &Mined, tested: bool) {
    if mined.complete {
        if args.chance.surrogates.is_some() && !tested {
            eprintln!(
                "interrupted: the counts are complete, but nothing is tested{}",
                if args.chance.fdr.is_some() {
                    ", and the list is not filtered"
                } else {
                    ""
                }
            );
        }
        return;
    }
    let whole = match mined.complete_size() {
        0 => "no size is complete".to_owned(),
        1 => "size 1 is complete".to_owned(),
        size => format!("sizes 1 to {size} are complete"),
    };
    if let Some(last) = mined.levels.last() {
        eprintln!(
            "interrupted: {whole}; of size {}, {} of {} candidates were counted; longer episodes were not looked for",
            last.size, last.counted, last.candidates
        );
    }
    if args.chance.surrogates.is_some() {
        eprintln!("nothing was tested against surrogates");
    }
}

/// The device that counts; a replay runs on the CPU. `auto` looks for one only where work gains.
fn device_for(args: &Mine) -> Result<Device> {
    let spec = args.common.device.as_str();
    if args.replay.is_some() {
        return device::cpu_for("a replay", spec).map(|_| Device::cpu());
    }
    device::open(spec)
}

fn read(args: &Mine) -> Result<Events> {
    let order = if args.sort {
        Order::Sort
    } else {
        Order::Required
    };
    let path = &args.events;
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if ["npz", "nwb"]
        .iter()
        .any(|e| ending.eq_ignore_ascii_case(e))
    {
        let recording = data::open_recording(path)?;
        return Events::from_recording(&recording).map_err(|e| e.at(path.display()));
    }
    let text = ["csv", "txt"]
        .iter()
        .any(|e| ending.eq_ignore_ascii_case(e));
    if !(text || path.as_os_str() == "-" || files::is_stream(path)) {
        return Err(Error::argument(format!(
            "{}: expected events as .csv (label,seconds) or a recording (.npz, .nwb), got another ending",
            path.display()
        )));
    }
    Events::read_csv(path, order)
}

/// The counts of the given episodes, or the frequent ones.
pub(super) fn found(
    args: &Mine,
    counter: &dyn Counter,
    wanted: Wanted,
    bar: &Bar,
) -> Result<Mined> {
    let patterns = match wanted {
        Wanted::Given(patterns) => patterns,
        Wanted::Frequent(intervals) => {
            let options = MineOptions {
                max_size: args.max_size,
                ..MineOptions::new(intervals, args.threshold.unwrap_or(1))
            };
            return mine_by(counter, &options, bar);
        }
    };
    let counts = counter.count(&patterns, None, bar)?;
    let episodes = patterns.into_iter().zip(counts);
    Ok(Mined {
        episodes: episodes
            .map(|(pattern, count)| Episode { pattern, count })
            .collect(),
        levels: Vec::new(),
        complete: true,
        ran: counter.ran(),
    })
}

/// The intervals of the command line, on `clock`.
pub(crate) fn intervals(texts: &[String], clock: Clock) -> Result<Vec<Interval>> {
    let interval = |text: &String| {
        let (low, high) = data::parse_pair("--interval", text)?;
        Interval::from_seconds(low, high, clock).map_err(|e| e.at("--interval"))
    };
    texts.iter().map(interval).collect()
}

/// The episodes to list, each with what surrogates say of it.
struct List<'a> {
    rows: Vec<(&'a Episode, Option<&'a ChainTest>)>,
    tested: bool,
    /// Whether parts were tested, too.
    parts: bool,
}

impl<'a> List<'a> {
    /// All there are, or those that are no part of a longer one; given ones in their file's order.
    fn new(args: &Mine, mined: &'a Mined, tested: Option<&'a Tested>) -> Self {
        let tests: HashMap<&Pattern, &ChainTest> = tested
            .into_iter()
            .flat_map(|t| mined.episodes.iter().zip(&t.rows))
            .filter_map(|(e, row)| Some((&e.pattern, row.as_ref()?)))
            .collect();
        let episodes = if args.maximal {
            mined.maximal()
        } else {
            mined.episodes.iter().collect()
        };
        let row = |e: &'a Episode| (e, tests.get(&e.pattern).copied());
        Self {
            rows: episodes.into_iter().map(row).collect(),
            tested: tested.is_some(),
            parts: tested.is_some_and(|t| t.how.parts),
        }
    }
}

fn listed(episode: &Episode, chance: Option<Chance>, alphabet: &Alphabet) -> Listed {
    list(&episode.pattern, episode.count, chance, alphabet)
}

/// Writes the files asked for: the list as CSV, graph and picture from all episodes that passed.
fn write_files(args: &Mine, seen: &Seen<'_>, episodes: &[Episode], list: &List<'_>) -> Result<()> {
    let alphabet = seen.alphabet;
    if let Some(path) = &args.csv {
        let rows = || list.rows.iter().copied();
        write_atomically(path, |file| {
            if list.parts {
                write_chains_csv(file, rows(), alphabet)
            } else if list.tested {
                let tested = rows().map(|(e, test)| (e, test.map(|t| &t.surrogates)));
                write_tested_csv(file, tested, alphabet)
            } else {
                let episodes: Vec<Episode> = rows().map(|(e, _)| e.clone()).collect();
                write_csv(file, &episodes, alphabet)
            }
        })?;
    }
    if let Some(path) = &args.graph {
        let graph = Graph::new(episodes, 2);
        write_atomically(path, |file| {
            if path
                .extension()
                .is_some_and(|ending| ending.eq_ignore_ascii_case("graphml"))
            {
                graph.write_graphml(file, alphabet)
            } else {
                graph.write_dot(file, alphabet)
            }
        })?;
    }
    if let (Some(path), Some(events)) = (&args.picture, seen.held) {
        raster::draw(events, episodes, path)?;
    }
    Ok(())
}

fn print(
    args: &Mine,
    alphabet: &Alphabet,
    list: &List<'_>,
    found: &Found,
    tested: Option<&Tested>,
) -> Result<()> {
    for level in &found.levels {
        let counted = if level.counted < level.candidates {
            format!("{} of ", level.counted)
        } else {
            String::new()
        };
        report::line(&format!(
            "size {}: {counted}{} candidates, {} frequent, {:.3} s",
            level.size, level.candidates, level.frequent, level.seconds
        ))?;
    }
    let mut rows = list.rows.clone();
    if args.count_only.is_none() {
        rows.sort_by_key(|(e, _)| (Reverse(e.pattern.size()), Reverse(e.count)));
        rows.truncate(args.top);
    }
    print_table(&rows, tested.map(|t| &t.how), alphabet)?;
    print_rest(rows.len(), found.episodes.len())?;
    if let Some(tested) = tested {
        report::line(&tested.describe())?;
    }
    let elsewhere = (tested.map(|t| t.how.device.as_str())).filter(|d| *d != found.device);
    let elsewhere = elsewhere.map_or_else(String::new, |device| format!(" on {device}"));
    let chance = match found.chance_seconds {
        Some(seconds) => format!(", {seconds:.3} s of surrogates{elsewhere}"),
        None => String::new(),
    };
    report::line(&format!(
        "{} in {} of {}, {:.3} s of counting{chance}, {:.3} s in all ({}, {})",
        report::count(found.episodes.len() as u128, "episode"),
        report::count(found.events as u128, "event"),
        report::count(found.symbols as u128, "symbol"),
        found.seconds,
        found.total_seconds,
        found.strategy,
        found.device
    ))
}
