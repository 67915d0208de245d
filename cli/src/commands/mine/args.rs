//! Arguments of `betz mine`.

use std::path::PathBuf;

use betz::team::Shard;
use clap::Args;

use crate::common_args::{Common, memory_size, shard};

/// Arguments of `betz mine`.
#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  betz mine spikes.csv --interval 0,0.005 --interval 0.005,0.01 --threshold 300\n  betz mine spikes.csv --interval 0.004,0.006 --threshold 240 --surrogates 999 --fdr 0.01 --parts"
)]
pub struct Mine {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Events: .csv (label,seconds a line) or a recording (.npz); - is standard input
    #[arg(value_name = "EVENTS")]
    pub(crate) events: PathBuf,
    /// Delay between neighbours, low < delay <= high, in seconds; repeat for a set of intervals
    #[arg(long = "interval", value_name = "LOW,HIGH", allow_hyphen_values = true)]
    pub(crate) intervals: Vec<String>,
    /// An episode is frequent when it occurs at least this often without overlap
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["count_only", "shard"],
        required_unless_present_any = ["count_only", "shard"]
    )]
    pub(crate) threshold: Option<u64>,
    /// Longest episode to look for, in symbols; default: until no longer one is frequent
    #[arg(long, value_name = "K")]
    pub(crate) max_size: Option<usize>,
    /// Count just the episodes of this file, one per line: labels separated by spaces, or the full
    /// text form `a3 -(0.004,0.006]-> a5`. A label with a space or an edge in it, or one that begins
    /// with # or a quote, stands in quotes: `"left 3" "a->b"`
    #[arg(long, value_name = "FILE")]
    pub(crate) count_only: Option<PathBuf>,
    /// Count in shard K of N of the recording's time (.npz) alone, and write to --out what `betz join` makes the counts of
    /// the whole of: the episodes of --count-only, or without it every symbol
    #[arg(
        long,
        value_name = "K/N",
        value_parser = shard,
        requires = "out",
        conflicts_with_all = ["max_size", "maximal", "csv", "graph", "picture", "replay", "surrogates", "sort"]
    )]
    pub(crate) shard: Option<Shard>,
    /// With --shard: the file to write
    #[arg(long, value_name = "PART", requires = "shard")]
    pub(crate) out: Option<PathBuf>,
    /// Read the recording (.npz) in stretches, once for each batch of candidates, so that its events take about this
    /// much of memory, such as 1GiB, however long it is; candidates come on top. Counts and p-values are the same
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) memory: Option<u64>,
    /// How to count (all give the same counts): latest-start, or as published serial, two-pass, hybrid,
    /// map-concat, local-tracking, local-tracking-atomic
    #[arg(long, value_name = "NAME", default_value = "latest-start")]
    pub(crate) strategy: String,
    /// Sort events that are out of order instead of refusing them
    #[arg(long)]
    pub(crate) sort: bool,
    /// Print at most this many episodes in the table (longest, then most frequent, first)
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) top: usize,
    /// List only episodes that are no part of a longer one of the list
    #[arg(long)]
    pub(crate) maximal: bool,
    /// Also write all episodes found here, as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Also write the connectivity that the episodes imply (.dot or .graphml)
    #[arg(long, value_name = "FILE")]
    pub(crate) graph: Option<PathBuf>,
    /// Also draw a raster with the strongest chains marked (.svg)
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Replay the events at this multiple of real time (above 1 fast-forwards, below 1 plays
    /// slowly) through the online miner, and show the top episodes as they evolve
    #[arg(
        long,
        value_name = "SPEED",
        conflicts_with_all = ["csv", "graph", "picture", "maximal", "surrogates"]
    )]
    pub(crate) replay: Option<f64>,
    /// With --replay: mine this much of the latest events again, four times a window, and watch
    /// what is frequent in it. Trials follow each other in it without the silence between
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub(crate) window: f64,
    #[command(flatten)]
    pub(crate) chance: Chance,
}

/// Which counts are more than chance.
#[derive(Args)]
#[command(next_help_heading = "Against chance")]
pub(crate) struct Chance {
    /// Count the episodes found in N surrogates too: the expected count, a p-value (at least 1 / (N +
    /// 1)) and a false discovery rate q for each. Mined and tested on the same events, p is a ranking;
    /// as a test it is strict only for episodes chosen elsewhere (--count-only). Counted where
    /// --device says, and made there if dithered; with --memory, on the CPU
    #[arg(long, value_name = "N")]
    pub(crate) surrogates: Option<u32>,
    /// Surrogates: every event moved at random by up to this [default: four times the longest
    /// delay of the episodes tested]
    #[arg(long, value_name = "SECONDS", requires = "surrogates")]
    pub(crate) dither: Option<f64>,
    /// Surrogates: every symbol's intervals between spikes in random order
    #[arg(long, requires = "surrogates", conflicts_with = "dither")]
    pub(crate) shuffle: bool,
    /// Seed of the surrogates
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// List only episodes with a q of at most this (0.01: one false in a hundred)
    #[arg(long, value_name = "Q", requires = "surrogates")]
    pub(crate) fdr: Option<f64>,
    /// List only chains: episodes of which every part matters as well. They are tested size by size;
    /// each part in turn is moved against the rest by 20 to 200 times the longest delay of the
    /// episodes tested, N times (pairs: 4 N), and trials that last less than 60 times that delay are
    /// left out of this
    #[arg(long, requires = "fdr")]
    pub(crate) parts: bool,
}
