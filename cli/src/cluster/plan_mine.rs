//! `betz-mpi mine --plan`: what mining will cost by so many ranks.

use std::time::Instant;

use betz::episode::count::{Cluster, Growth, LongEvents};
use betz::episode::significance::Surrogate;
use betz::episode::{Interval, Pattern};
use betz::recording::Stretches;
use betz::{Error, Result, memory};

use super::plan::Planned;
use crate::args::Mine;
use crate::commands::{mine, mine_long};
use crate::report::{self, Table};

/// Events of the stretch that is counted to see what an event takes.
const SAMPLE: u64 = 1 << 21;

/// Prints what `betz-mpi mine` will cost, without mining: some stretch of the recording is counted, no more. Of a search
/// it is the cost of symbols and of all their pairs: what is longer depends on what is found.
///
/// # Errors
/// As the command's, about its arguments and the recording.
pub fn mine(planned: &Planned, args: &Mine) -> Result<()> {
    let started = Instant::now();
    mine_long::expect_npz(&args.events, "--plan")?;
    let mut stretches = Stretches::open(&args.events)?;
    let open_seconds = started.elapsed().as_secs_f64();
    let at = |e: Error| e.at(args.events.display());
    let cuts = stretches.cut(SAMPLE)?;
    let middle = cuts.len().saturating_sub(2) / 2;
    let sample = (cuts[middle], cuts.get(middle + 1).copied().unwrap_or(0));
    let events = stretches.entries() as f64;
    let outline = stretches.outline().clone();
    let whole = vec![0, outline.ticks];
    let long = LongEvents::new(&outline, whole, move |a, b| stretches.spikes(a, b)).map_err(at)?;
    let (candidates, last) = candidates(args, &long)?;
    let mut growth = Growth {
        events,
        candidates,
        surrogates: args.chance.surrogates.unwrap_or(0) as usize,
        memory: args.memory,
        threads: rayon::current_num_threads(),
        open_seconds: if args.memory.is_some() {
            open_seconds
        } else {
            0.0
        },
        read_seconds: 0.0,
        count_seconds: 0.0,
        make_seconds: 0.0,
    };
    let longest = last.iter().flat_map(Pattern::intervals).map(|i| i.high);
    let surrogate = args.chance.surrogates.map(|_| Surrogate::Dither {
        delta: longest.max().unwrap_or(1).max(1),
    });
    growth.measure(&long, sample, &last, surrogate)?;
    tell(planned, args, &growth)
}

/// How many candidates each size has, and those of the last.
fn candidates(args: &Mine, long: &LongEvents) -> Result<(Vec<usize>, Vec<Pattern>)> {
    let alphabet = betz::episode::count::Counter::alphabet(long);
    let intervals = mine::intervals(&args.intervals, alphabet.clock())?;
    if let Some(list) = &args.count_only {
        let given = crate::commands::listed::given(alphabet, &intervals, list)?;
        return Ok((vec![given.len()], given));
    }
    if intervals.is_empty() {
        return Err(Error::argument(
            "--interval: expected at least one, got none",
        ));
    }
    let symbols = alphabet.len();
    if args.max_size == Some(1) {
        return Ok((vec![symbols], pairs(symbols, &[])?));
    }
    let all = symbols
        .saturating_mul(symbols)
        .saturating_mul(intervals.len());
    Ok((vec![symbols, all], pairs(symbols, &intervals)?))
}

/// The first pairs over `intervals`, as many as a sample is counted for; single symbols where there is none.
fn pairs(symbols: usize, intervals: &[Interval]) -> Result<Vec<Pattern>> {
    let symbols = symbols as u32;
    if intervals.is_empty() {
        let all = (0..symbols).map(|s| Pattern::new(vec![s], Vec::new()));
        return all.collect();
    }
    let of = |a: u32| {
        intervals.iter().flat_map(move |interval| {
            (0..symbols).map(move |b| Pattern::new(vec![a, b], vec![*interval]))
        })
    };
    (0..symbols).flat_map(of).take(1 << 14).collect()
}

fn tell(planned: &Planned, args: &Mine, growth: &Growth) -> Result<()> {
    let sizes: Vec<String> = growth.candidates.iter().map(usize::to_string).collect();
    report::line(&format!(
        "{:.4e} events; {} candidates{}{}; by {} of this machine, of a sample: {:.1} ns to read an event, {:.2e} s to count one candidate \
         in a million events{}; {} a rank",
        growth.events,
        sizes.join(" and "),
        if args.count_only.is_some() {
            ""
        } else {
            " at most (all symbols are frequent), of longer ones as many as are found"
        },
        match growth.surrogates {
            0 => String::new(),
            n => format!(", {n} surrogates of the last"),
        },
        report::count(growth.threads as u128, "thread"),
        growth.read_seconds * 1e9,
        growth.count_seconds * 1e6,
        match growth.surrogates {
            0 => String::new(),
            _ => format!(
                ", {:.1} ns to make a surrogate's event",
                growth.make_seconds * 1e9
            ),
        },
        memory::size(growth.bytes() as u64),
    ))?;
    let cluster = |ranks| Cluster {
        ranks,
        link: planned.link,
        latency: planned.latency,
    };
    let one = growth.share(&cluster(1)).seconds();
    let seconds = |s: f64| format!("{s:.3} s");
    let mut table = Table::new(&[
        "ranks",
        "read",
        "count",
        "surrogates",
        "exchange",
        "all",
        "of 1 / ranks",
    ]);
    for &ranks in &planned.ranks {
        let share = growth.share(&cluster(ranks));
        table.row([
            ranks.to_string(),
            seconds(share.read),
            seconds(share.count),
            seconds(share.surrogates),
            seconds(share.exchange),
            seconds(share.seconds()),
            format!("{:.2}", one / share.seconds() / ranks as f64),
        ]);
    }
    table.print()
}
