//! `betz mine`: frequent episodes, or the counts of given ones.

pub(crate) mod args;
mod chance;
mod frequency;
mod held;
mod listed;
mod long;
mod parallel;
mod print;
mod raster;
mod replay;
mod shard;
mod targets;

use betz::team::{Alone, Team};
use betz::{Error, Result};

use crate::files::{Files, Kind};
use args::Mine;

pub(crate) use held::strategy_on;
pub(crate) use shard::{describe_part, join};

pub(crate) fn run(args: &Mine) -> Result<()> {
    run_by(&Alone, args)
}

/// `betz mine` by a team, whose processes share out candidates and surrogates; the first tells and writes.
pub(crate) fn run_by(team: &'static dyn Team, args: &Mine) -> Result<()> {
    let frequency = frequency::check(args)?;
    chance::check(&args.chance, frequency)?;
    if args.parallel {
        parallel::check(team, args, frequency)?;
    }
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
            Some(out) => shard::run(args, shard, out),
            None => Err(Error::argument("--out: expected a file, got none")),
        };
    }
    if let Some(memory) = args.memory {
        return long::run(team, args, memory);
    }
    held::run(team, args)
}
