//! `betz mine --memory`: episodes of a recording that is read a stretch at a time.

use std::ops::Range;
use std::time::Instant;

use betz::device::DeferredPlacement;
use betz::episode::count::{Counter, LatestStart, LongEvents, OverTime, ShardEvents, Strategy};
use betz::episode::significance::{EpisodeTest, TestEvents, Workers};
use betz::episode::{Frequency, MiningResult};
use betz::recording::Stretches;
use betz::team::Team;
use betz::{Error, Result};

use super::args::Mine;
use super::chance;
use super::print::{SearchedEvents, tell};
use super::shard;
use super::targets::{BYTES_AN_EVENT, Targets, count_wanted, parse_intervals};
use crate::chunks::{self, expect_npz};
use crate::device;
use crate::report::{self, Bar};

/// `betz mine --memory`: the recording is read in stretches, once a batch of candidates; a team shares out its time, and
/// surrogates.
pub(super) fn run(team: &dyn Team, args: &Mine, memory: u64) -> Result<()> {
    chunks::refuse(
        &[
            ("--replay", args.replay.is_some()),
            ("--picture", args.picture.is_some()),
            ("--sort", args.sort),
        ],
        "with --memory: it needs all events at once",
    )?;
    if args.strategy != LatestStart.name() {
        return Err(Error::argument(format!(
            "--strategy: expected latest-start with --memory, got {}",
            args.strategy
        )));
    }
    let path = &args.events;
    expect_npz(path, "--memory")?;
    device::cpu_for("counting in chunks", &args.common.device)?;
    let at = |e: Error| e.at(path.display());
    let most = (memory / BYTES_AN_EVENT).max(1);
    let open = |most: u64| -> Result<LongEvents> {
        let mut stretches = Stretches::open(path)?;
        let cuts = stretches.cut(most)?;
        let outline = stretches.outline().clone();
        LongEvents::new(&outline, cuts, move |a, b| stretches.spikes(a, b)).map_err(at)
    };
    // Each thread holds a surrogate's events beside the recording's; half of the room is for their counts.
    let of_surrogates = || open((most / 2 / (rayon::current_num_threads() as u64 + 1)).max(1));
    if team.size() == 1 {
        let events = open(most)?;
        let found = counted(args, &events)?;
        return tell_of(
            team,
            args,
            &events,
            events.len(),
            found,
            (of_surrogates, memory / 2),
        );
    }
    let mut stretches = Stretches::open(path)?;
    shard::expect_the_same(team, &stretches, path)?;
    let own = of_rank(team, &mut stretches)?;
    let cuts = stretches.cut_between(own, most)?;
    let outline = stretches.outline().clone();
    let events =
        ShardEvents::new(&outline, cuts, move |a, b| stretches.spikes(a, b)).map_err(at)?;
    let events = OverTime::new(team, events).map_err(at)?;
    let found = counted(args, &events)?;
    tell_of(
        team,
        args,
        &events,
        events.len(),
        found,
        (of_surrogates, memory / 2),
    )
}

/// The ticks at which the time of one of a team begins and ends: of as many spikes as the others', to some hundredths.
fn of_rank(team: &dyn Team, stretches: &mut Stretches) -> Result<Range<i64>> {
    /// Pieces that a rank gets.
    const PIECES: u64 = 32;
    if team.size() == 1 {
        return Ok(0..stretches.outline().ticks);
    }
    let pieces = PIECES * team.size() as u64;
    let cuts = stretches.cut(stretches.entries().div_ceil(pieces).max(1))?;
    let own = team.share(cuts.len() - 1);
    Ok(cuts[own.start]..cuts[own.end])
}

/// Counts the requested episodes; returns them and the seconds taken.
fn counted(args: &Mine, counter: &dyn Counter) -> Result<(MiningResult, f64)> {
    let alphabet = counter.alphabet();
    let targets = Targets::new(
        args,
        parse_intervals(&args.intervals, alphabet.clock())?,
        alphabet,
    )?;
    if let Some(test) = test_of(args)? {
        let longest = targets.longest_delay();
        test.check_on(&chance::NAMES, alphabet.clock(), None, longest)?;
    }
    report::stop_on_interrupt();
    let bar = Bar::new();
    let started = Instant::now();
    let mined = count_wanted(args, counter, targets, &bar)?;
    Ok((mined, started.elapsed().as_secs_f64()))
}

/// The test against surrogates, if there is one: without those that need all events of a segment at once.
fn test_of(args: &Mine) -> Result<Option<EpisodeTest>> {
    let test = chance::test(&args.chance, Frequency::NonOverlapped);
    if test.is_some() {
        chunks::refuse(
            &[
                ("--shuffle", args.chance.shuffle),
                ("--parts", args.chance.parts),
            ],
            "with --memory: it needs all events of a segment at once",
        )?;
    }
    Ok(test)
}

/// Tests and tells what was found among `number` events that are not held; surrogates are made of those that `open`
/// opens, and their counts take so many bytes.
fn tell_of(
    team: &dyn Team,
    args: &Mine,
    counter: &dyn Counter,
    number: u64,
    (mut mined, seconds): (MiningResult, f64),
    (open, memory): (impl Fn() -> Result<LongEvents>, u64),
) -> Result<()> {
    let test = test_of(args)?;
    let (chance, chance_seconds) = match test {
        Some(_) => {
            let (events, bar) = (open()?, Bar::new());
            let source = TestEvents::Chunks(&events, memory);
            let placement = DeferredPlacement::cpu();
            let workers = Workers {
                team,
                placement: &placement,
            };
            chance::run(workers, test, source, &mut mined, &bar)?
        }
        None => (None, None),
    };
    if team.rank() > 0 {
        return Ok(());
    }
    let seen = SearchedEvents {
        alphabet: counter.alphabet(),
        number,
        held: None,
    };
    tell(
        args,
        &seen,
        &mined,
        chance.as_ref(),
        seconds,
        chance_seconds,
    )
}
