//! `betz mine --surrogates`: which counts are more than chance.

use betz::device::Ran;
use betz::episode::count::{Counter, LongEvents};
use betz::episode::significance::{
    ChainOptions, ChainTest, PartOptions, Significance, SignificanceOptions, Surrogate, Workers,
    chains_by, significance_by, significance_in_chunks_by,
};
use betz::episode::{Clock, Episode, Events, MiningResult, Pattern};
use betz::text::count;
use betz::{Error, ErrorKind, Progress, Result};
use serde::Serialize;
use std::time::Instant;

use super::args::{Chance, Mine};
use crate::chunks;
use crate::report;

/// Dithering moves events by up to so many times the longest delay, unless told otherwise.
const DITHER: i64 = 4;
/// Parts are shifted against the rest by at least, and at most, so many times the longest delay.
const SHIFTS: (i64, i64) = (20, 200);

/// Significance of a list of episodes.
pub(super) struct TestResults {
    /// One entry per episode; `None` for single symbols, which every surrogate keeps, and for those that
    /// cannot be chains because their parts are none.
    pub(super) rows: Vec<Option<ChainTest>>,
    pub(super) how: TestMethod,
}

/// The method of a test.
#[derive(Serialize, Clone)]
pub(super) struct TestMethod {
    surrogates: u32,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dither_seconds: Option<f64>,
    seed: u64,
    /// Episodes tested together.
    tested: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    fdr: Option<f64>,
    /// True if every part was tested, too.
    pub(super) parts: bool,
    /// Where surrogates were counted, wherever the episodes were.
    pub(super) device: String,
}

/// The events that surrogates are made of.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// They are in memory.
    Held(&'a Events),
    /// A stretch of them is, at a time; surrogates' counts may take so many bytes.
    Stretches(&'a LongEvents, u64),
}

impl Source<'_> {
    fn clock(self) -> Clock {
        match self {
            Self::Held(events) => events.clock(),
            Self::Stretches(events, _) => events.alphabet().clock(),
        }
    }
}

/// Refuses what cannot be, before anything is read or counted.
pub(super) fn check(args: &Chance) -> Result<()> {
    if args.surrogates == Some(0) {
        return Err(Error::argument("--surrogates: expected at least 1, got 0"));
    }
    if let Some(fdr) = args.fdr
        && !(fdr > 0.0 && fdr <= 1.0)
    {
        return Err(Error::argument(format!(
            "--fdr: expected a rate above 0 and up to 1, got {fdr}"
        )));
    }
    if let (Some(fdr), Some(surrogates)) = (args.fdr, args.surrogates)
        && fdr * (f64::from(surrogates) + 1.0) < 1.0 - 1e-9
    {
        // No p, and so no q, is below 1 / (N + 1).
        return Err(Error::argument(format!(
            "--fdr {fdr}: expected --surrogates of at least {:.0}, because q is never below 1 / (surrogates + 1), got {surrogates}",
            (1.0 / fdr - 1e-9).ceil() - 1.0
        )));
    }
    if let Some(seconds) = args.dither
        && !(seconds > 0.0 && seconds.is_finite())
    {
        return Err(Error::argument(format!(
            "--dither: expected a finite number of seconds above 0, got {seconds}"
        )));
    }
    Ok(())
}

/// Refuses what cannot be on this clock and in these events, where they are held, of whose episodes the longest delay may
/// have `longest` ticks, before anything is counted.
pub(super) fn check_on(
    args: &Chance,
    clock: Clock,
    held: Option<&Events>,
    longest: i64,
) -> Result<()> {
    let Some(surrogates) = args.surrogates else {
        return Ok(());
    };
    let tick = clock.tick_seconds();
    let how = surrogate(args, clock, longest)?;
    how.check()
        .map_err(|e| e.at(format!("--dither, in ticks of {tick} s")))?;
    match held {
        Some(events) if args.parts => {
            let shifts = shifts(args, surrogates, longest);
            shifts.check(events).map_err(|e| e.at("--parts"))
        }
        Some(_) => Ok(()),
        None => chunks::refuse(
            &[("--shuffle", args.shuffle), ("--parts", args.parts)],
            "with --memory: it needs all events of a segment at once",
        ),
    }
}

fn shifts(args: &Chance, shifts: u32, longest: i64) -> PartOptions {
    PartOptions {
        shifts,
        least: longest.saturating_mul(SHIFTS.0),
        most: longest.saturating_mul(SHIFTS.1),
        seed: args.seed,
    }
}

fn surrogate(args: &Chance, clock: Clock, longest: i64) -> Result<Surrogate> {
    if args.shuffle {
        return Ok(Surrogate::ShuffleIntervals);
    }
    let asked = args.dither.map(|seconds| clock.ticks_floor(seconds));
    let asked = asked.transpose().map_err(|e| e.at("--dither"))?;
    Ok(Surrogate::Dither {
        delta: asked.unwrap_or(longest.saturating_mul(DITHER)),
    })
}

/// Tests what was found against surrogates where that is asked for, and keeps what passes; the seconds of it.
pub(super) fn run(
    workers: Workers<'_>,
    args: &Mine,
    source: Source<'_>,
    mined: &mut MiningResult,
    progress: &dyn Progress,
) -> Result<(Option<TestResults>, Option<f64>)> {
    let testing = Instant::now();
    if !mined.complete {
        return Ok((None, None));
    }
    let mut tested = test(workers, &args.chance, source, &mined.episodes, progress)?;
    if let Some(tested) = &mut tested {
        tested.filter(&mut mined.episodes);
    }
    let seconds = tested.is_some().then(|| testing.elapsed().as_secs_f64());
    Ok((tested, seconds))
}

/// Tests `episodes` when surrogates are asked for; `None` otherwise, and when it was interrupted. Events
/// and parts are moved by what the longest delay of the episodes says, not by one that none of them has.
fn test(
    workers: Workers<'_>,
    args: &Chance,
    source: Source<'_>,
    episodes: &[Episode],
    progress: &dyn Progress,
) -> Result<Option<TestResults>> {
    let Some(surrogates) = args.surrogates else {
        return Ok(None);
    };
    let patterns: Vec<Pattern> = (episodes.iter())
        .filter(|e| e.pattern.size() > 1)
        .map(|e| e.pattern.clone())
        .collect();
    if let Some(fdr) = args.fdr {
        note_needed(fdr, surrogates, patterns.len());
    }
    let surrogate = surrogate(args, source.clock(), longest(&patterns))?;
    let results = results(workers, args, source, &patterns, surrogate, progress);
    let results = match results {
        Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(None),
        other => other?,
    };
    let tested = results.iter().flatten().count();
    let mut results = results.into_iter();
    let rows = (episodes.iter())
        .map(|e| {
            let of_several = e.pattern.size() > 1;
            of_several.then(|| results.next()).flatten().flatten()
        })
        .collect();
    let ran = match source {
        Source::Held(_) => workers.placement.ran(""),
        Source::Stretches(..) => Ran::default(),
    };
    let (kind, dither_seconds) = match surrogate {
        Surrogate::Dither { delta } => ("dither", Some(source.clock().seconds(delta))),
        Surrogate::ShuffleIntervals => ("shuffle", None),
    };
    Ok(Some(TestResults {
        rows,
        how: TestMethod {
            surrogates,
            kind,
            dither_seconds,
            seed: args.seed,
            tested,
            fdr: args.fdr,
            parts: args.parts,
            device: ran.device,
        },
    }))
}

/// The longest delay of `patterns`.
fn longest(patterns: &[Pattern]) -> i64 {
    let delays = patterns.iter().flat_map(Pattern::intervals);
    delays.map(|i| i.high).max().unwrap_or(1)
}

/// The tests of `patterns`, in their order; `None` for those that cannot be chains because their parts are none.
fn results(
    workers: Workers<'_>,
    args: &Chance,
    source: Source<'_>,
    patterns: &[Pattern],
    surrogate: Surrogate,
    progress: &dyn Progress,
) -> Result<Vec<Option<ChainTest>>> {
    let surrogates = args.surrogates.unwrap_or(0);
    let options = SignificanceOptions {
        surrogate,
        surrogates,
        seed: args.seed,
    };
    let row = |surrogates: Significance| {
        Some(ChainTest {
            surrogates,
            parts: None,
            passed: args.fdr.is_none_or(|fdr| surrogates.q <= fdr),
        })
    };
    let rows_of = |tested: Vec<Significance>| tested.into_iter().map(row).collect();
    match source {
        Source::Held(events) if args.parts => {
            let shifts = shifts(args, surrogates, longest(patterns));
            let left_out = shifts.left_out(events);
            if left_out > 0 && !patterns.is_empty() {
                eprintln!(
                    "left out of the test of parts: {}, too short to shift by {} s",
                    count(left_out as u128, "segment"),
                    events.clock().seconds(shifts.least)
                );
            }
            let options = ChainOptions {
                surrogate,
                draws: surrogates,
                shifts: (shifts.least, shifts.most),
                rate: args.fdr.unwrap_or(1.0),
                seed: args.seed,
            };
            chains_by(workers, events, patterns, &options, progress)
        }
        Source::Held(events) => {
            significance_by(workers, events, patterns, &options, progress).map(rows_of)
        }
        Source::Stretches(events, memory) => {
            significance_in_chunks_by(workers.team, events, patterns, &options, memory, progress)
                .map(rows_of)
        }
    }
}

/// Says, before surrogates are counted, how many of `tested` episodes must reach the smallest p for any to pass.
fn note_needed(fdr: f64, surrogates: u32, tested: usize) {
    // q <= fdr for the k smallest of m p-values needs p <= fdr k / m, and p is at least 1 / (N + 1).
    let needed = (tested as f64 / (fdr * (f64::from(surrogates) + 1.0)) - 1e-9).ceil();
    if needed > 1.0 {
        report::note(&format!(
            "--fdr {fdr}: episodes are listed only if at least {needed:.0} of {tested} occur more often than in all of {surrogates} surrogates; {:.0} surrogates would list a single one",
            (tested as f64 / fdr - 1e-9).ceil() - 1.0
        ));
    }
}

impl TestResults {
    /// Keeps the episodes that pass at the rate asked for.
    pub(super) fn filter(&mut self, episodes: &mut Vec<Episode>) {
        let Some(fdr) = self.how.fdr else {
            return;
        };
        let pass: Vec<bool> = (self.rows.iter())
            .map(|row| row.as_ref().is_some_and(|test| test.passed))
            .collect();
        keep(&mut self.rows, &pass);
        keep(episodes, &pass);
        if episodes.is_empty() && self.how.tested > 0 {
            // q ≤ fdr for the k smallest of m p-values needs p ≤ fdr·k/m, and p is at least 1/(n + 1).
            let (n, m) = (self.how.surrogates, self.how.tested);
            eprintln!(
                "no episode passes; to tell k of {m} at --fdr {fdr} from chance takes {:.0}/k surrogates or more, and there were {n}",
                (m as f64 / fdr).ceil()
            );
        }
    }

    /// The line below the table.
    pub(super) fn describe(&self) -> String {
        let TestMethod {
            surrogates,
            tested,
            seed,
            ..
        } = self.how;
        let kind = match self.how.dither_seconds {
            Some(seconds) => format!("events moved by up to {seconds} s"),
            None => "intervals between spikes shuffled".to_owned(),
        };
        let listed = match self.how.fdr {
            Some(fdr) if self.how.parts => format!("; listed: q <= {fdr}, in every part"),
            Some(fdr) => format!("; listed: q <= {fdr}"),
            None => String::new(),
        };
        let pairs = if self.how.parts {
            "; pairs: four times as many"
        } else {
            ""
        };
        format!(
            "{} against {} ({kind}, seed {seed}{pairs}){listed}",
            count(tested as u128, "episode"),
            count(surrogates, "surrogate")
        )
    }
}

fn keep<T>(items: &mut Vec<T>, pass: &[bool]) {
    let mut pass = pass.iter();
    items.retain(|_| pass.next().is_some_and(|&p| p));
}
