//! Arguments of `betz compare`.

use std::path::PathBuf;

use clap::Args;

use crate::bank::FilterOptions;
use crate::commands::train::args::DecoderKind;
use crate::common_args::{Common, Part};
use crate::parse::positive_seconds;

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: betz compare reach.npz --folds 5 --picture kinds.svg"
)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Recording with behaviour (.npz, .nwb)
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Decoder kinds to compare, separated by commas. The linear one is always among them. auto also
    /// trains the blend, and scores it and its members on parts that come after their training
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "linear,kalman,lift,experts,recurrent,auto"
    )]
    pub(crate) decoders: Vec<DecoderKind>,
    /// Number of cross-validation folds, 2 to 1000: over segments, or over contiguous blocks of a
    /// single segment. All kinds have the same
    #[arg(long, default_value_t = 5)]
    pub(crate) folds: u32,
    /// Length of one step [default: the bin of a binned recording, else 0.005]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) step: Option<f64>,
    /// Filter bank of all kinds but the recurrent: auto (chosen by cross-validation with the linear
    /// decoder), single, slow, reach or wide
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        conflicts_with = "filters"
    )]
    pub(crate) bank: String,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
    /// Also decode by rates, the rate-based baseline: spikes counted in windows of these lengths before each
    /// step, such as 50ms,100ms. A linear decoder of --bank or --filter stands beside them
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive_seconds)]
    pub(crate) rates: Vec<f64>,
    /// With --rates: also combine this number of random units into each multi-unit channel
    #[arg(long, value_name = "K", requires = "rates")]
    pub(crate) units: Option<usize>,
    /// Delay of the outputs behind the behaviour, rounded to whole steps (negative: ahead)
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub(crate) delay: String,
    /// Number of passes over the recording that train the recurrent decoder [default: 140 over
    /// trials, 150 over continuous recordings; 400 over 64 trials or fewer]
    #[arg(long, value_name = "N")]
    pub(crate) epochs: Option<usize>,
    /// Draw the scores of all kinds, and the score against the cost of a step
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Seed of random projections, of multi-unit groups, of the search for experts and of networks
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
