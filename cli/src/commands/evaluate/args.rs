//! Arguments of `betz evaluate`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part, chunk_memory};

#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Evaluate {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Model file
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Recording with behaviour (.npz, .nwb)
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Labels to score classes against, as in `betz train` [default: those of training]
    #[arg(long, value_name = "COLUMN|CONDITION|FILE")]
    pub(crate) labels: Option<String>,
    /// Read the recording (.npz) in chunks, so that it takes about SIZE of memory, such as 1GiB,
    /// whatever its length. Results are equal up to rounding
    #[arg(long, value_name = "SIZE", value_parser = chunk_memory)]
    pub(crate) memory: Option<u64>,
    /// Score only steps at which the outputs move at least this fast, in the outputs' unit per
    /// second
    #[arg(
        long,
        value_name = "SPEED",
        conflicts_with_all = ["trials", "chance", "importance", "picture"]
    )]
    pub(crate) moving: Option<f64>,
    /// Write true and decoded outputs to this file: .csv (step, start_seconds, end_seconds, then
    /// each output and its truth, both at the step's end), .npz (the same as arrays), or .nwb (the
    /// recording with the decoded outputs). `betz decode` also writes steps without behaviour
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Draw truth and decoded outputs, their error, a scatter plot and scores per trial (.svg, .png or .pdf)
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Also score each trial (segment), and give the interval that holds R² in 95 % of bootstrap
    /// draws of trials
    #[arg(long)]
    pub(crate) trials: bool,
    /// Also score N times against behaviour shifted in time at random, to estimate the chance level
    #[arg(long, value_name = "N")]
    pub(crate) chance: Option<u32>,
    /// Also report the R² lost when each channel in turn is held at its mean
    #[arg(long)]
    pub(crate) importance: bool,
    /// Seed of the bootstrap draws and of the shifts
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
