//! Arguments of `betz decode`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part};
use crate::parse::positive_seconds;

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  betz decode reach.betz tuesday.npz --out decoded.csv\n  betz decode reach.betz session.nwb --out decoded.nwb\n  betz decode gru.betz tuesday.npz --every 10ms --out decoded.csv"
)]
pub(crate) struct Decode {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Model file, or the .onnx file of a network that `betz import` refuses (only in builds with the feature graph)
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
    /// Decode at every tick of so many seconds, a whole part of the model's step such as 0.01 of 0.1, each from the
    /// spikes of the last step's length, by as many sessions as the step has ticks [default: the model's step]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) every: Option<f64>,
    #[cfg(feature = "graph")]
    #[command(flatten)]
    pub(crate) network: NetworkOptions,
}

/// Properties of a network in an ONNX file.
#[cfg(feature = "graph")]
#[derive(Args)]
pub(crate) struct NetworkOptions {
    /// Number of steps that an ONNX network sees at once [default: the file's number]
    #[arg(long, value_name = "STEPS")]
    pub(crate) window: Option<usize>,
    /// Length of one step of an ONNX network in seconds [default: step_seconds in the file's metadata, else the bin of a
    /// binned recording, else 0.005]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) step: Option<f64>,
}
