//! The report of `betz mine` and the files it writes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

use betz::episode::graph::Graph;
use betz::episode::significance::ChainTest;
use betz::episode::{
    Alphabet, Episode, Events, Frequency, MiningResult, Pattern, TableColumns, write_table,
};
use betz::file::write_atomically;
use betz::{Error, Result};
use serde::Serialize;

use super::args::Mine;
use super::chance::{TestMethod, TestResults};
use super::frequency;
use super::listed::{Chance, EpisodeRow, list, print_rest, print_table};
use super::raster;
use crate::files::{self, INCOMPLETE};
use crate::report;

#[derive(Serialize)]
struct LevelRow {
    size: usize,
    candidates: u64,
    counted: u64,
    frequent: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct MiningReport {
    episodes: Vec<EpisodeRow>,
    events: u64,
    symbols: usize,
    /// Seconds of counting.
    seconds: f64,
    /// Seconds of testing against surrogates and parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    chance_seconds: Option<f64>,
    /// All of the command's time, reading included.
    total_seconds: f64,
    /// The definition of the counts.
    frequency: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_seconds: Option<f64>,
    strategy: String,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    chance: Option<TestMethod>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    levels: Vec<LevelRow>,
    /// Up to this size every frequent episode is listed; of longer ones, only when `complete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_size: Option<usize>,
    complete: bool,
}

/// The events that were searched.
pub(super) struct SearchedEvents<'a> {
    pub(super) alphabet: &'a Alphabet,
    pub(super) number: u64,
    /// The events, where they are in memory.
    pub(super) held: Option<&'a Events>,
}

/// Tells what was found and writes the files asked for; `seconds` of counting and of surrogates.
pub(super) fn tell(
    args: &Mine,
    searched: &SearchedEvents<'_>,
    mined: &MiningResult,
    tested: Option<&TestResults>,
    seconds: f64,
    chance_seconds: Option<f64>,
) -> Result<()> {
    say_what_is_missing(args, mined, tested.is_some());
    let clock = searched.alphabet.clock();
    let frequency = frequency::on(args, clock)?;
    if mined.episodes.iter().any(|e| e.count == u64::MAX) {
        report::note(&format!(
            "a count of {} stands for this number or more",
            u64::MAX
        ));
    }
    let list = List::new(args, mined, tested);
    let found = MiningReport {
        episodes: (list.rows.iter())
            .map(|(e, s)| listed(e, list.tested.then(|| Chance::new(*s)), searched.alphabet))
            .collect(),
        events: searched.number,
        symbols: searched.alphabet.len(),
        seconds,
        chance_seconds,
        total_seconds: report::total_seconds(),
        frequency: frequency.name(),
        span_seconds: frequency.span().map(|ticks| clock.seconds(ticks)),
        strategy: match frequency {
            Frequency::NonOverlapped => args.strategy.clone(),
            other => other.name().to_owned(),
        },
        device: mined.ran.device.clone(),
        chance: tested.map(|t| t.how.clone()),
        levels: mined
            .levels
            .iter()
            .map(|l| LevelRow {
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
    // The list is printed before files are written, so that neither a full disk nor a closed pipe loses both.
    let printed = if args.common.json {
        report::json(&found)
    } else {
        print(args, searched.alphabet, &list, &found, tested)
    };
    let written = write_files(args, searched, &mined.episodes, &list, found.complete);
    let written = written.and(match found.complete {
        true => Ok(()),
        false => Err(report::interrupted("mining")),
    });
    match (printed, written) {
        (Err(pipe), Err(file)) => Err(Error::new(file.kind(), format!("{file}; {pipe}"))),
        (printed, written) => printed.and(written),
    }
}

/// After an interrupt: which part of the list is whole.
fn say_what_is_missing(args: &Mine, mined: &MiningResult, tested: bool) {
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

/// The episodes to list, each with what surrogates say of it.
struct List<'a> {
    rows: Vec<(&'a Episode, Option<&'a ChainTest>)>,
    tested: bool,
    /// True if parts were tested, too.
    parts: bool,
}

impl<'a> List<'a> {
    /// All there are, or those that are no part of a longer one; given ones in their file's order.
    fn new(args: &Mine, mined: &'a MiningResult, tested: Option<&'a TestResults>) -> Self {
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

fn listed(episode: &Episode, chance: Option<Chance>, alphabet: &Alphabet) -> EpisodeRow {
    list(&episode.pattern, episode.count, chance, alphabet)
}

/// Writes the files asked for: the list as CSV, graph and picture from all episodes that passed.
fn write_files(
    args: &Mine,
    searched: &SearchedEvents<'_>,
    episodes: &[Episode],
    list: &List<'_>,
    complete: bool,
) -> Result<()> {
    let alphabet = searched.alphabet;
    let place = |path: &Option<PathBuf>| {
        path.as_deref()
            .map(|path| files::destination(path, complete))
    };
    if let Some(path) = &place(&args.csv) {
        let columns = match (list.parts, list.tested) {
            (true, _) => TableColumns::Parts,
            (false, true) => TableColumns::Surrogates,
            (false, false) => TableColumns::Counts,
        };
        write_atomically(path, |file| {
            if !complete {
                writeln!(file, "# {INCOMPLETE}")?;
            }
            write_table(file, columns, list.rows.iter().copied(), alphabet)
        })?;
    }
    if let (Some(path), Some(to)) = (&args.graph, place(&args.graph)) {
        let graph = Graph::new(episodes, 2);
        write_atomically(&to, |file| {
            if path
                .extension()
                .is_some_and(|ending| ending.eq_ignore_ascii_case("graphml"))
            {
                graph.write_graphml(file, alphabet)?;
                if !complete {
                    writeln!(file, "<!-- {INCOMPLETE} -->")?;
                }
            } else {
                graph.write_dot(file, alphabet)?;
                if !complete {
                    writeln!(file, "// {INCOMPLETE}")?;
                }
            }
            Ok(())
        })?;
    }
    if let (Some(path), Some(events)) = (place(&args.picture), searched.held) {
        raster::draw(events, episodes, &path)?;
    }
    Ok(())
}

fn print(
    args: &Mine,
    alphabet: &Alphabet,
    list: &List<'_>,
    found: &MiningReport,
    tested: Option<&TestResults>,
) -> Result<()> {
    for level in &found.levels {
        let counted = if level.counted < level.candidates {
            format!("{} of ", level.counted)
        } else {
            String::new()
        };
        report::line(&format!(
            "size {}: {counted}{}, {} frequent, {:.3} s",
            level.size,
            report::count(level.candidates, "candidate"),
            level.frequent,
            level.seconds
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
        match found.frequency {
            // Their number depends on the tick.
            "windows" => format!("a window every {:e} s", alphabet.clock().tick_seconds()),
            _ => found.strategy.clone(),
        },
        found.device
    ))
}
