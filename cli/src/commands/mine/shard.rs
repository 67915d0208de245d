//! Counts by shards of time: one written, all joined.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use betz::episode::count::{CountPart, LatestStart, ShardEvents, Strategy};
use betz::episode::{Alphabet, Episode, Pattern, TableColumns, next_candidates, write_table};
use betz::file::write_atomically;
use betz::recording::Stretches;
use betz::team::{Shard, Team};
use betz::{Error, Result};
use serde::Serialize;

use super::args::Mine;
use super::listed::{EpisodeRow, given, list, print_rest, print_table};
use super::targets::parse_intervals;
use crate::chunks::expect_npz;
use crate::commands::join::args::Join;
use crate::device;
use crate::files::{CANDIDATES, Files, Kind};
use crate::report::{self, Bar, Outcome, count, number};

/// Default bytes of the chunk in memory.
const MEMORY: u64 = 1 << 30;

#[derive(Serialize)]
struct ShardReport {
    kind: &'static str,
    file: String,
    shard: usize,
    shards: usize,
    from_seconds: f64,
    until_seconds: f64,
    episodes: usize,
    events: u64,
    /// Seconds of counting.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    total_seconds: f64,
}

impl ShardReport {
    fn of(part: &CountPart, path: &Path, seconds: Option<f64>) -> Self {
        let (shard, (from, until)) = (part.shard(), part.seconds());
        Self {
            kind: "counts shard",
            file: path.display().to_string(),
            shard: shard.number(),
            shards: shard.of(),
            from_seconds: from,
            until_seconds: until,
            episodes: part.episodes(),
            events: part.events(),
            seconds,
            total_seconds: report::total_seconds(),
        }
    }
}

impl Outcome for ShardReport {
    fn print(&self) -> Result<()> {
        let took = match self.seconds {
            Some(seconds) => format!(", {seconds:.3} s of counting"),
            None => String::new(),
        };
        report::line(&format!(
            "{}: shard {} of {}, {} to {} s: {} in {}{took}",
            self.file,
            self.shard,
            self.shards,
            number(self.from_seconds),
            number(self.until_seconds),
            count(self.episodes as u128, "episode"),
            count(self.events, "event")
        ))
    }
}

/// `betz info` of a shard.
pub(crate) fn describe_part(path: &Path, json: bool) -> Result<()> {
    report::tell(&ShardReport::of(&CountPart::load(path)?, path, None), json)
}

/// `betz mine --shard`: the files are planned.
pub(super) fn run(args: &Mine, shard: Shard, out: &Path) -> Result<()> {
    if args.strategy != LatestStart.name() {
        return Err(Error::argument(format!(
            "--strategy: expected latest-start with --shard, got {}",
            args.strategy
        )));
    }
    let path = &args.events;
    expect_npz(path, "--shard")?;
    device::cpu_for("counting a shard", &args.common.device)?;
    let (events, recording) = ShardEvents::open(path, shard, args.memory.unwrap_or(MEMORY))?;
    let alphabet = events.alphabet();
    let patterns = match &args.count_only {
        Some(list) => given(
            alphabet,
            &parse_intervals(&args.intervals, alphabet.clock())?,
            list,
        )?,
        None if args.intervals.is_empty() => symbols(alphabet)?,
        None => {
            return Err(Error::argument(
                "--interval: expected it together with --count-only, because single symbols have no delay; leave one out or add the other",
            ));
        }
    };
    report::stop_on_interrupt();
    let bar = Bar::new();
    let started = Instant::now();
    let part = CountPart::count(shard, recording, &events, patterns, &bar)?;
    let seconds = started.elapsed().as_secs_f64();
    drop(bar);
    part.save(out)?;
    report::tell(
        &ShardReport::of(&part, out, Some(seconds)),
        args.common.json,
    )
}

/// Refuses a team whose processes do not find the same archive as the `stretches` of `path`.
pub(super) fn expect_the_same(team: &dyn Team, stretches: &Stretches, path: &Path) -> Result<()> {
    let own = stretches.fingerprint()?;
    let all = team.gather(&[own])?;
    match all.iter().position(|other| *other != [own]) {
        None => Ok(()),
        Some(rank) => Err(Error::mismatch(format!(
            "{}: expected the same recording for every rank, got another for rank {rank} than for rank {}",
            path.display(),
            team.rank()
        ))),
    }
}

fn symbols(alphabet: &Alphabet) -> Result<Vec<Pattern>> {
    (0..alphabet.len() as u32)
        .map(|symbol| Pattern::new(vec![symbol], Vec::new()))
        .collect()
}

#[derive(Serialize)]
struct JoinReport {
    kind: &'static str,
    out: String,
    shards: usize,
    episodes: Vec<EpisodeRow>,
    /// Episodes that were counted, frequent or not.
    counted: usize,
    events: u64,
    symbols: usize,
    /// Candidates of the next size.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<usize>,
    total_seconds: f64,
    /// Episodes that the table shows.
    #[serde(skip)]
    table: Vec<Episode>,
    #[serde(skip)]
    alphabet: Alphabet,
}

/// `betz join` of shards of counts.
pub(crate) fn join(mut files: Files, args: &Join) -> Result<()> {
    files.writes("--out", &args.out, Kind::Table(&["size,count,symbols,"]))?;
    files.may_write("--next", args.next.as_deref(), Kind::Episodes)?;
    let parts = args.inputs.iter().map(|path| CountPart::load(path));
    let whole = CountPart::join(parts.collect::<Result<_>>()?)?;
    let (alphabet, counted) = (&whole.alphabet, whole.episodes.len());
    let mut episodes = whole.episodes;
    episodes.retain(|e| e.count >= args.threshold.unwrap_or(0));
    let candidates = match &args.next {
        Some(_) => {
            let intervals = parse_intervals(&args.intervals, alphabet.clock())?;
            Some(next_candidates(&episodes, &intervals).map_err(|e| e.at("--next"))?)
        }
        None => None,
    };
    let rows = episodes.iter().map(|episode| (episode, None));
    write_atomically(&args.out, |file| {
        write_table(file, TableColumns::Counts, rows, alphabet)
    })?;
    if let (Some(path), Some(candidates)) = (&args.next, &candidates) {
        let size = candidates.first().map_or(0, Pattern::size);
        write_atomically(path, |file| {
            writeln!(file, "{CANDIDATES}{size}: {}.", candidates.len())?;
            for pattern in candidates {
                writeln!(file, "{}", pattern.display(alphabet))?;
            }
            Ok(())
        })?;
    }
    let joined = JoinReport {
        kind: "counts",
        out: args.out.display().to_string(),
        shards: args.inputs.len(),
        episodes: (episodes.iter())
            .map(|e| list(&e.pattern, e.count, None, alphabet))
            .collect(),
        counted,
        events: whole.events,
        symbols: alphabet.len(),
        candidates: candidates.as_ref().map(Vec::len),
        total_seconds: report::total_seconds(),
        table: episodes[..episodes.len().min(args.top)].to_vec(),
        alphabet: alphabet.clone(),
    };
    report::tell(&joined, args.common.json)
}

impl Outcome for JoinReport {
    fn print(&self) -> Result<()> {
        let shown = self.table.len();
        let rows: Vec<_> = self.table.iter().map(|e| (e, None)).collect();
        print_table(&rows, None, &self.alphabet)?;
        print_rest(shown, self.episodes.len())?;
        let next = match self.candidates {
            Some(candidates) => format!("; next {}", count(candidates as u128, "candidate")),
            None => String::new(),
        };
        report::line(&format!(
            "{}: {} of {} counted, in {} of {}, from {}{next}",
            self.out,
            count(self.episodes.len() as u128, "episode"),
            self.counted,
            count(self.events, "event"),
            count(self.symbols as u128, "symbol"),
            count(self.shards as u128, "shard")
        ))
    }
}
