//! Arguments of `betz filter`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::bank::FilterOptions;
use crate::common_args::Common;
use crate::parse::positive_seconds;

#[derive(Subcommand)]
pub(crate) enum FilterCommand {
    /// Describe the filters of a model or of --filter, and draw their impulse and frequency responses
    Show(Show),
    /// Find sums of recursive filters that stand for sampled ones, and put them into a model
    Fit(Fit),
}

/// The filters to work on.
#[derive(Args)]
pub(crate) struct Bank {
    /// Model file whose filters are taken; without it, those of --filter
    #[arg(value_name = "MODEL", conflicts_with = "filters")]
    pub(crate) model: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) filters: FilterOptions,
    /// Length of a step, such as 1ms. Ignored with MODEL, which has its own
    #[arg(long, value_name = "TIME", value_parser = positive_seconds, default_value = "1ms")]
    pub(crate) step: f64,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz filter show reach.betz --picture bank.svg\n  betz filter show --filter cosine:8:10ms..800ms --filter 50ms:1 --step 5ms --picture bank.svg"
)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) bank: Bank,
    /// Picture to write (.svg, .png, .pdf): impulse responses above, frequency responses below
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz filter fit --filter file:epsc.csv --step 0.25ms\n  betz filter fit smooth.betz --out quick.betz --tolerance 0.02"
)]
pub(crate) struct Fit {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) bank: Bank,
    /// Largest error at any step, as a share of a filter's largest sample
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub(crate) tolerance: f64,
    /// Model file to write: MODEL with recursive filters in place of its sampled ones
    #[arg(long, value_name = "MODEL", requires = "model")]
    pub(crate) out: Option<PathBuf>,
    /// Picture to write (.svg, .png, .pdf): the filters and what stands for them
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
}
