//! Arguments of `betz sums` and `betz solve`.

use std::path::PathBuf;

use clap::Args;

use crate::bank::FilterOptions;
use crate::common_args::{Common, Part, chunk_memory};
use crate::parse::positive_seconds;

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  betz sums monday.npz --bank reach --out monday.sums\n  betz sums monday.sums tuesday.sums --out both.sums"
)]
pub(crate) struct Sums {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Recordings with behaviour to sum, and files of sums to merge. All need the same channels,
    /// outputs, bank, step, delay and low-pass. Their order does not change a bit of the result
    #[arg(value_name = "RECORDING|SUMS", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// File of sums to write
    #[arg(long, value_name = "SUMS")]
    pub(crate) out: PathBuf,
    /// Read recordings (.npz) in chunks, so that each takes about SIZE of memory, such as 1GiB,
    /// whatever its length. Sums are not included. Results are equal up to rounding
    #[arg(long, value_name = "SIZE", value_parser = chunk_memory)]
    pub(crate) memory: Option<u64>,
    /// Filter bank: single (10 ms), slow (0.1 to 10 s), reach (10 to 800 ms) or wide (10 ms to 3 s)
    #[arg(long, value_name = "NAME", conflicts_with = "filters")]
    pub(crate) bank: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
    /// Length of one step in seconds [default: the bin of a binned recording, else 0.005]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) step: Option<f64>,
    /// Delay of the output behind the behaviour, in seconds, rounded to whole steps (negative:
    /// ahead)
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub(crate) delay: String,
    /// Butterworth low-pass on the responses, as HZ or HZ:ORDER (order 1 to 8, default 2) [default:
    /// none]
    #[arg(long, value_name = "HZ[:ORDER]")]
    pub(crate) low_pass: Option<String>,
    /// Sum steps with far more spikes than usual as they are; decoders of the sums decode them as
    /// they are [default: they are artefacts, summed and decoded as if they were usual]
    #[arg(long)]
    pub(crate) keep_artefacts: bool,
    /// Sum the classes of these labels in place of the outputs, for `betz solve --calibrate`: a column, a condition such
    /// as move=speed>60, or a file of intervals, as for `betz train`
    #[arg(long, value_name = "COLUMN|CONDITION|FILE", conflicts_with = "memory")]
    pub(crate) labels: Option<String>,
}
