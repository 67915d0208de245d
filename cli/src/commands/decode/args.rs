//! Arguments of `betz decode`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part};

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  betz decode reach.betz tuesday.npz --out decoded.csv\n  betz decode reach.betz session.nwb --out decoded.nwb"
)]
pub(crate) struct Decode {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Model file
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Recording to decode (.npz, .nwb); it need not have behaviour
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Write the decoded outputs to this file: .csv (step, start_seconds, end_seconds, segment, each
    /// output at the step's end), .npz (the same as arrays), or .nwb (the recording with the decoded
    /// outputs)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}
