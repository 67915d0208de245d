//! Arguments of `betz info`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::Common;

#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Say what this file holds instead: a model, sums, a recording or a network
    #[arg(value_name = "FILE", conflicts_with = "calibrate")]
    pub(crate) file: Option<PathBuf>,
    /// Of a model: also write its weights (.npz: weights (channels, filters, latents: the outputs
    /// of a linear decoder), intercept, …)
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) weights: Option<PathBuf>,
    /// Of a recording: also draw raster, rates, gaps and tuning (.svg)
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) picture: Option<PathBuf>,
    /// Time training on this machine for a few seconds and keep what `--device auto` goes by
    #[arg(long)]
    pub(crate) calibrate: bool,
}
