//! Arguments of `betz info`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::Common;

#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) common: Common,
    /// File to describe: a model, sums, a shard, a recording, a network or a sorter
    #[arg(value_name = "FILE", conflicts_with = "calibrate")]
    pub(crate) file: Option<PathBuf>,
    /// Write a model's weights to this file (.npz): weights (channels, filters, latents; a linear
    /// decoder's latents are its outputs), intercept and what is needed to use them
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) weights: Option<PathBuf>,
    /// Draw a recording's raster, rates, gaps and tuning (.svg, .png or .pdf)
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) picture: Option<PathBuf>,
    /// Time training on this machine for a few seconds, and store the costs that --device auto uses
    #[arg(long)]
    pub(crate) calibrate: bool,
}
