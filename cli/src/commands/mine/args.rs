//! Arguments of `betz mine`.

use std::path::PathBuf;

use betz::team::Shard;
use clap::Args;

use crate::common_args::{Common, chunk_memory, shard};
use crate::parse::seconds;

/// Arguments of `betz mine`.
#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  betz mine spikes.csv --interval 0,0.005 --interval 0.005,0.01 --threshold 300\n  betz mine spikes.csv --interval 0.004,0.006 --threshold 240 --surrogates 999 --fdr 0.01 --parts"
)]
pub struct Mine {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Events: .csv or .txt (one label,seconds per line), a recording (.npz, .nwb), or - for
    /// standard input
    #[arg(value_name = "EVENTS")]
    pub(crate) events: PathBuf,
    /// Allowed delay between consecutive events, in seconds: low < delay <= high; repeat for
    /// several intervals
    #[arg(long = "interval", value_name = "LOW,HIGH", allow_hyphen_values = true)]
    pub(crate) intervals: Vec<String>,
    /// Count from which an episode is frequent; occurrences do not overlap, unless --count says so
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["count_only", "shard"],
        required_unless_present_any = ["count_only", "shard"]
    )]
    pub(crate) threshold: Option<u64>,
    /// Length of the longest episode to search for, in symbols [default: no limit]
    #[arg(long, value_name = "K")]
    pub(crate) max_size: Option<usize>,
    /// Count only the episodes in this file, one per line: labels separated by spaces, or `a3
    /// -(0.004,0.006]-> a5`. Labels with a space or an arrow, or that begin with # or a quote, are
    /// quoted: `"left 3" "a->b"`
    #[arg(long, value_name = "FILE")]
    pub(crate) count_only: Option<PathBuf>,
    /// The episodes of --count-only are parallel: `{a3 a5 a7} within 0.02` occurs in any order within
    /// 0.02 s. Counts non-overlapped, minimal or windows, on the CPU; the list is printed, or --json
    #[arg(
        long,
        requires = "count_only",
        conflicts_with_all = ["intervals", "max_size", "shard", "memory", "maximal", "csv", "graph", "picture", "replay", "surrogates", "dither", "shuffle", "fdr", "parts"]
    )]
    pub(crate) parallel: bool,
    /// Count only in shard K of N of the recording's time (.npz) and write the counts to --out, for
    /// `betz join`. Counts the episodes of --count-only, else every symbol
    #[arg(
        long,
        value_name = "K/N",
        value_parser = shard,
        requires = "out",
        conflicts_with_all = ["max_size", "maximal", "csv", "graph", "picture", "replay", "surrogates", "sort"]
    )]
    pub(crate) shard: Option<Shard>,
    /// File that --shard writes
    #[arg(long, value_name = "PART", requires = "shard")]
    pub(crate) out: Option<PathBuf>,
    /// Read the recording (.npz) in chunks, once per batch of candidates, so that its events take
    /// about SIZE of memory, such as 1GiB. Candidates are not included. Counts and p-values are
    /// equal
    #[arg(long, value_name = "SIZE", value_parser = chunk_memory)]
    pub(crate) memory: Option<u64>,
    /// Counting strategy; all give the same counts: latest-start, or as published serial, two-pass,
    /// hybrid, map-concat, local-tracking, local-tracking-atomic, local-tracking-flags
    /// (docs/mining.md, Strategies)
    #[arg(long, value_name = "NAME", default_value = "latest-start")]
    pub(crate) strategy: String,
    /// Definition of the count: non-overlapped, minimal (minimal occurrences), windows, distinct (all
    /// occurrences; with --count-only), or total. All but the first run on the CPU (docs/mining.md,
    /// Counts)
    #[arg(long, value_name = "NAME", default_value = "non-overlapped")]
    pub(crate) count: String,
    /// With --count minimal or total: longest time from the first to the last event of an
    /// occurrence, in seconds [default: the intervals' limit]. With --count windows: width of a
    /// window
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) span: Option<f64>,
    /// Sort events that are out of order instead of refusing them
    #[arg(long)]
    pub(crate) sort: bool,
    /// Number of episodes in the table; the longest, then the most frequent, come first
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) top: usize,
    /// List only episodes that are not part of a longer listed episode
    #[arg(long)]
    pub(crate) maximal: bool,
    /// Write all listed episodes to this file (.csv)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the connectivity that the episodes imply to this file (.dot or .graphml)
    #[arg(long, value_name = "FILE")]
    pub(crate) graph: Option<PathBuf>,
    /// Draw a raster with the strongest chains marked (.svg, .png or .pdf)
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Replay the events through the online miner at this multiple of real time, and show the top
    /// episodes as they evolve
    #[arg(
        long,
        value_name = "SPEED",
        conflicts_with_all = ["csv", "graph", "picture", "maximal", "surrogates"]
    )]
    pub(crate) replay: Option<f64>,
    /// With --replay: length of the window that is mined, in seconds. It is mined again four times
    /// per window; silence between trials does not count
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = 20.0)]
    pub(crate) window: f64,
    #[command(flatten)]
    pub(crate) chance: Chance,
}

/// Tests against surrogates.
#[derive(Args)]
#[command(next_help_heading = "Significance")]
pub(crate) struct Chance {
    /// Also count the episodes in N surrogates: gives each its expected count, a p-value (at least
    /// 1 / (N + 1)) and a false discovery rate q. For episodes mined from the same events p is only
    /// a ranking (docs/episode-chains.md)
    #[arg(long, value_name = "N")]
    pub(crate) surrogates: Option<u32>,
    /// Move each event of a surrogate at random by up to this many seconds [default: four times the
    /// longest delay of the tested episodes]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "surrogates")]
    pub(crate) dither: Option<f64>,
    /// Make surrogates by shuffling each symbol's intervals between spikes, instead of moving
    /// events
    #[arg(long, requires = "surrogates", conflicts_with = "dither")]
    pub(crate) shuffle: bool,
    /// Seed of the surrogates
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// List only episodes whose q is at most Q (0.01: one false in a hundred)
    #[arg(long, value_name = "Q", requires = "surrogates")]
    pub(crate) fdr: Option<f64>,
    /// List only chains: episodes in which every part is significant, too. Each part is shifted
    /// against the rest N times by 20 to 200 times the longest delay (pairs: 4 N times). Trials
    /// shorter than 60 times that delay are left out
    #[arg(long, requires = "fdr")]
    pub(crate) parts: bool,
}
