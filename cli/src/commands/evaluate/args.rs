//! Arguments of `betz evaluate`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part, memory_size};

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
    /// Recording (.npz) with behaviour
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Read the recording (.npz) in stretches, so that it and what is made of it take about this much of memory, such
    /// as 1GiB, however long it is. The results are the same, to rounding
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) memory: Option<u64>,
    /// Score only steps in which something moves at least this fast, in the outputs' unit a second
    #[arg(
        long,
        value_name = "SPEED",
        conflicts_with_all = ["trials", "chance", "importance", "picture"]
    )]
    pub(crate) moving: Option<f64>,
    /// Also write true and decoded outputs here (.csv: step, start_seconds, end_seconds, each output
    /// twice). Estimate and truth belong to the step's end. As .nwb: the decoded outputs beside the recording, which says
    /// when its session began
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Also draw truth and decoded outputs, their error, scatter and scores by trial (.svg)
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Also score every trial (segment), and give the interval that holds R² in 95 of 100 draws of as
    /// many trials
    #[arg(long)]
    pub(crate) trials: bool,
    /// Also score N times against behaviour shifted in time by chance: what a decoder that knows
    /// nothing would reach
    #[arg(long, value_name = "N")]
    pub(crate) chance: Option<u32>,
    /// Also say how much R² is lost when a channel is held at its mean, channel by channel
    #[arg(long)]
    pub(crate) importance: bool,
    /// Seed of the draws of trials and of the shifts
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
