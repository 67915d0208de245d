//! Arguments of `betz join`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::Common;

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  betz join part*.net --out network.npz\n  betz join part*.counts --out counts.csv\n  betz join pairs*.counts --threshold 300 --out pairs.csv --next triples.txt"
)]
pub(crate) struct Join {
    #[command(flatten)]
    pub(crate) common: Common,
    /// All shards of one network, or of the counts of the same episodes in one recording, in any
    /// order
    #[arg(value_name = "PART", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// File to write: a network (.npz, .zarr), or counts (.csv)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Keep only episodes that occur at least this often
    #[arg(long, value_name = "N")]
    pub(crate) threshold: Option<u64>,
    /// Write the candidates of the next size to this file, one per line, for `betz mine
    /// --count-only`
    #[arg(long, value_name = "FILE", requires = "threshold")]
    pub(crate) next: Option<PathBuf>,
    /// Allowed delay of the candidates in --next after symbols, in seconds: low < delay <= high;
    /// repeat for several intervals
    #[arg(
        long = "interval",
        value_name = "LOW,HIGH",
        allow_hyphen_values = true,
        requires = "next"
    )]
    pub(crate) intervals: Vec<String>,
    /// Number of episodes in the table
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) top: usize,
}
