//! `betz join`: shards to what they make together. Their first bytes tell what they are of.

use crate::common_args::Common;
use clap::Args;
use std::path::Path;
use std::path::PathBuf;

use betz::{Error, Result};

use super::{mine, network};
use crate::files::{Files, first_bytes};

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

/// The kinds of results that have shards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Network,
    Counts,
}

impl Kind {
    fn of(path: &Path) -> Result<Self> {
        match first_bytes(path)? {
            betz::network::file::PART_MAGIC => Ok(Self::Network),
            betz::episode::count::PART_MAGIC => Ok(Self::Counts),
            other => Err(Error::recording(format!(
                "{}: expected a shard that `betz mine --shard` or `betz network compute --shard` wrote, got a file that begins with {:?}",
                path.display(),
                other.escape_ascii().to_string()
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Network => "a network",
            Self::Counts => "counts",
        }
    }
}

pub(crate) fn run(args: &Join) -> Result<()> {
    let inputs = args.inputs.iter();
    let files = inputs.fold(Files::new(&args.common), |files, path| {
        files.reads("PART", path)
    });
    crate::device::cpu_for("joining", &args.common.device)?;
    let mut kind = None;
    for path in &args.inputs {
        let this = Kind::of(path)?;
        let first = *kind.get_or_insert(this);
        if this != first {
            return Err(Error::mismatch(format!(
                "{}: expected a shard of {}, as {} is, got one of {}",
                path.display(),
                first.name(),
                args.inputs[0].display(),
                this.name()
            )));
        }
    }
    if kind == Some(Kind::Counts) {
        return mine::join(files, args);
    }
    if args.threshold.is_some() {
        return Err(Error::argument(
            "--threshold: expected shards of counts, got those of a network",
        ));
    }
    network::join(files, &args.inputs, &args.out, args.common.json)
}
