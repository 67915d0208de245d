//! `betz mine --count`: how often an episode occurs.

use betz::episode::count::{LatestStart, Strategy};
use betz::episode::{Clock, Frequency};
use betz::{Error, Result};

use super::args::Mine;
use crate::chunks;

/// Checks the name, and the options that it excludes, before any events are read. Spans are not on a clock yet: the
/// result's is one tick.
pub(super) fn check(args: &Mine) -> Result<Frequency> {
    let frequency = Frequency::from_name(&args.count, args.span.map(|_| 1));
    let frequency = frequency.map_err(|e| e.at("--count"))?;
    if frequency == Frequency::NonOverlapped {
        return Ok(frequency);
    }
    let name = frequency.name();
    chunks::refuse(
        &[
            ("--memory", args.memory.is_some()),
            ("--shard", args.shard.is_some()),
            ("--replay", args.replay.is_some()),
        ],
        &format!("with --count {name}: it needs all events in memory, at once"),
    )?;
    if args.strategy != LatestStart.name() {
        return Err(Error::argument(format!(
            "--strategy: expected none with --count {name}, which has a method of its own, got {}",
            args.strategy
        )));
    }
    if args.count_only.is_none() {
        let searched = frequency.check_search();
        searched.map_err(|e| e.at("--count without --count-only"))?;
    }
    Ok(frequency)
}

/// The frequency on the clock of the events.
pub(super) fn on(args: &Mine, clock: Clock) -> Result<Frequency> {
    let ticks = args.span.map(|seconds| clock.ticks_floor(seconds));
    let ticks = ticks.transpose().map_err(|e| e.at("--span"))?;
    Frequency::from_name(&args.count, ticks).map_err(|e| {
        let tick = clock.tick_seconds();
        e.at(format!("--count, in ticks of {tick} s"))
    })
}
