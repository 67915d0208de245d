//! Arguments of `betz adapt`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::common_args::{Common, Part};
use crate::parse::seconds;

/// Use of a recording without labels.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum NoLabels {
    /// Print the recalibration, and write nothing
    Suggest,
    /// Write the recalibrated model to --out; the model as it is if nothing is suggested
    Apply,
}

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: betz adapt m.betz tuesday.npz --half-life 120 --out adapted.betz"
)]
pub(crate) struct Adapt {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Model file: linear, lift or experts trained with --retain, or recurrent
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Recording with behaviour (.npz, .nwb); the model learns from each trial after decoding it
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Half-life of what was learned, in seconds of labelled time. inf: nothing is forgotten
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = 120.0)]
    pub(crate) half_life: f64,
    /// Number of trials from one candidate model to the next, and on which a candidate is scored
    /// before it may take over
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) batch: usize,
    /// Largest change of the outputs that a candidate may make: root mean square, in standard
    /// deviations of the labels. 0: no limit
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) max_change: f64,
    /// Use no labels: compare the rates of the recording with those in training, and recalibrate the model if channels
    /// have changed (suggest without a value). In at least 100 s; see docs/classes.md
    #[arg(long, value_name = "MODE", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "suggest")]
    pub(crate) no_labels: Option<NoLabels>,
    /// Keep all channels, also dead and screaming ones
    #[arg(long)]
    pub(crate) no_watch: bool,
    /// Number of trials that share a row of the table
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) window: usize,
    /// Shuffle the labels of these trials, a half-open range such as 3..9, to test how adaptation copes with wrong
    /// labels
    #[arg(long, value_name = "RANGE")]
    pub(crate) shuffle_labels: Option<String>,
    /// Seed of the shuffle
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Model file to write at the end
    #[arg(long, value_name = "MODEL")]
    pub(crate) out: Option<PathBuf>,
}
