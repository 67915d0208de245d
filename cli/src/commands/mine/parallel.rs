//! `betz mine --parallel`: counts of given parallel episodes.

use std::path::Path;
use std::time::Instant;

use betz::episode::count::{LatestStart, Strategy};
use betz::episode::{Alphabet, Events, Frequency, ParallelEpisode, read_parallel};
use betz::team::Team;
use betz::{Error, Result};
use serde::Serialize;

use super::args::Mine;
use crate::device;
use crate::report::{self, Bar, Table};

/// One parallel episode and its count.
#[derive(Serialize)]
struct EpisodeRow {
    symbols: Vec<String>,
    within_seconds: f64,
    count: u64,
}

#[derive(Serialize)]
struct Report {
    episodes: Vec<EpisodeRow>,
    events: u64,
    symbols: usize,
    /// Seconds of counting.
    seconds: f64,
    /// All of the command's time, reading included.
    total_seconds: f64,
    /// The definition of the counts.
    frequency: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_seconds: Option<f64>,
    device: String,
}

/// Checks the definition of the count and the options, before any events are read.
pub(super) fn check(team: &dyn Team, args: &Mine, frequency: Frequency) -> Result<()> {
    if args.count_only.is_none() {
        return Err(Error::argument(
            "--parallel: expected a list of episodes (--count-only FILE), got none; there is no search for parallel episodes",
        ));
    }
    frequency.check_parallel().map_err(|e| e.at("--count"))?;
    if args.strategy != LatestStart.name() {
        return Err(Error::argument(format!(
            "--strategy: expected none with --parallel, which has a method of its own, got {}",
            args.strategy
        )));
    }
    if team.size() > 1 {
        return Err(Error::argument(
            "--parallel: expected one process, got a team; parallel episodes are counted by one",
        ));
    }
    Ok(())
}

/// Counts the episodes of `list` and reports them in its order.
pub(super) fn run(args: &Mine, events: &Events, frequency: Frequency, list: &Path) -> Result<()> {
    let device = device::cpu_for("--parallel", &args.common.device)?;
    let alphabet = events.alphabet();
    let episodes = read_parallel(list, alphabet)?;
    report::stop_on_interrupt();
    let bar = Bar::new();
    let started = Instant::now();
    let counts = frequency.count_parallel(events, &episodes, &bar)?;
    let seconds = started.elapsed().as_secs_f64();
    drop(bar);
    let rows = episodes.iter().zip(&counts);
    let found = Report {
        episodes: rows.map(|(e, &count)| row(e, count, alphabet)).collect(),
        events: events.len() as u64,
        symbols: alphabet.len(),
        seconds,
        total_seconds: report::total_seconds(),
        frequency: frequency.name(),
        span_seconds: frequency.span().map(|t| alphabet.clock().seconds(t)),
        device,
    };
    if args.common.json {
        return report::json(&found);
    }
    let mut table = Table::new(&["parallel episode", "count"]);
    for (episode, count) in episodes.iter().zip(&counts) {
        table.row([episode.display(alphabet).to_string(), count.to_string()]);
    }
    table.print()?;
    report::line(&format!(
        "{} in {} of {}, {:.3} s of counting, {:.3} s in all ({}, {})",
        report::count(found.episodes.len() as u128, "episode"),
        report::count(found.events as u128, "event"),
        report::count(found.symbols as u128, "symbol"),
        found.seconds,
        found.total_seconds,
        match found.frequency {
            // Their number depends on the tick.
            "windows" => format!("a window every {:e} s", alphabet.clock().tick_seconds()),
            name => name.to_owned(),
        },
        found.device
    ))
}

fn row(episode: &ParallelEpisode, count: u64, alphabet: &Alphabet) -> EpisodeRow {
    let labels = episode.symbols().iter().map(|&s| alphabet.label(s));
    EpisodeRow {
        symbols: labels.map(str::to_owned).collect(),
        within_seconds: alphabet.clock().seconds(episode.span()),
        count,
    }
}
