//! `betz mine --replay`: the top episodes as they evolve, through the online miner.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;

use betz::episode::online::{
    Frame, OnlineMiner, ReminingOptions, ReplayOptions, WallClock, WatchedEpisode, played_seconds,
    replay,
};
use betz::episode::{Events, Interval};
use betz::{Error, Progress, Result};
use serde::Serialize;

use super::args::Mine;
use super::listed::{EpisodeRow, given, list};
use crate::report::{self, Outcome, Table, UntilInterrupted};

/// Episodes shown while the replay runs.
const SHOWN: usize = 12;
/// Looks at the counts in a second of real time.
const FRAMES_A_SECOND: f64 = 4.0;
/// Episodes watched at most when the list is mined from a window.
const WATCHED: usize = 1000;
/// Longest episodes that are mined from a window unless --max-size says otherwise.
const LARGEST: usize = 6;

#[derive(Serialize)]
struct ReplayReport {
    episodes: Vec<EpisodeRow>,
    events: u64,
    symbols: usize,
    seconds: f64,
    device: String,
    /// Text and count of each episode.
    #[serde(skip)]
    rows: Vec<(String, u64)>,
}

pub(super) fn run(
    args: &Mine,
    events: &Events,
    intervals: Vec<Interval>,
    speed: f64,
    device: String,
) -> Result<()> {
    let (mut miner, remining) = miner(args, events, intervals)?;
    let options = ReplayOptions {
        speed,
        frame_seconds: if speed.is_finite() {
            speed / FRAMES_A_SECOND
        } else {
            played_seconds(events).max(1.0) / 20.0
        },
        remining,
    };
    report::stop_on_interrupt();
    let started = std::time::Instant::now();
    let mut screen = Screen::new();
    replay(
        events,
        &mut miner,
        &options,
        &mut WallClock::start(),
        &UntilInterrupted,
        &mut |frame, miner| {
            screen.show(frame, &miner.top(SHOWN), events);
            if UntilInterrupted.cancelled() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    )?;
    let top = miner.top(args.top);
    let replayed = ReplayReport {
        episodes: top
            .iter()
            .map(|w| list(&w.pattern, w.count, None, events.alphabet()))
            .collect(),
        events: miner.stats().events,
        symbols: events.symbols(),
        seconds: started.elapsed().as_secs_f64(),
        device,
        rows: top
            .iter()
            .map(|w| (w.pattern.display(events.alphabet()).to_string(), w.count))
            .collect(),
    };
    report::tell(&replayed, args.common.json)
}

impl Outcome for ReplayReport {
    fn print(&self) -> Result<()> {
        let mut table = Table::new(&["episode", "count"]);
        for (text, count) in &self.rows {
            table.row([text.clone(), count.to_string()]);
        }
        table.print()
    }
}

/// A miner of the given episodes, or one that mines its list from a window again and again.
fn miner(
    args: &Mine,
    events: &Events,
    intervals: Vec<Interval>,
) -> Result<(OnlineMiner, Option<ReminingOptions>)> {
    if let Some(path) = &args.count_only {
        let patterns = given(events.alphabet(), &intervals, path)?;
        return Ok((OnlineMiner::new(events.symbols(), &patterns)?, None));
    }
    if intervals.is_empty() {
        return Err(Error::argument(
            "--interval: expected at least one, got none",
        ));
    }
    let window_ticks = events.clock().ticks_floor(args.window)?;
    let remining = ReminingOptions {
        window_ticks,
        window_events: events.len(),
        every_ticks: (window_ticks / 4).max(1),
        intervals,
        threshold: args.threshold.unwrap_or(1),
        min_size: 2,
        max_size: args.max_size.unwrap_or(LARGEST),
        max_episodes: WATCHED,
    };
    remining.check()?;
    let miner = OnlineMiner::with_window(events.symbols(), &[], window_ticks, events.len())?;
    Ok((miner, Some(remining)))
}

/// Draws over its last frame on a terminal; elsewhere one line a frame.
struct Screen {
    terminal: bool,
    lines: usize,
}

impl Screen {
    fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            lines: 0,
        }
    }

    fn show(&mut self, frame: &Frame, top: &[WatchedEpisode], events: &Events) {
        let mut text = format!("{:>10.2} s  {:>10} events", frame.seconds, frame.events);
        let named = |w: &WatchedEpisode| {
            format!("{:>8}  {}", w.count, w.pattern.display(events.alphabet()))
        };
        if self.terminal {
            if self.lines > 0 {
                text = format!("\x1b[{}A\x1b[J{text}", self.lines);
            }
            for w in top {
                text.push('\n');
                text.push_str(&named(w));
            }
            self.lines = top.len() + 1;
        } else if let Some(first) = top.first() {
            text.push_str(&named(first));
        }
        // The display is for watching: when nobody can read it, the replay goes on.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}
