//! Arguments of `betz adapt`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part};

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
    /// Model file, trained with --retain: linear, a lift or experts
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Recording (.npz) with behaviour, which is decoded trial by trial and learned from after each
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Seconds of labelled time after which what was learned counts half; inf: nothing is forgotten
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    pub(crate) half_life: f64,
    /// Trials from one candidate to the next: as many as it is scored on before it may take over
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) batch: usize,
    /// Refuse candidates that change outputs by more than this, root mean square in standard deviations of
    /// the labels; 0: by whatever
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) max_change: f64,
    /// Leave no channel out, even where it has died or screams
    #[arg(long)]
    pub(crate) no_watch: bool,
    /// Trials that are scored together in the table
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) window: usize,
    /// Give these trials of the part that is used, as FIRST..LAST, the labels of others among them: what
    /// wrong labels do
    #[arg(long, value_name = "RANGE")]
    pub(crate) shuffle_labels: Option<String>,
    /// Seed of the shuffle
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Also write the model as it is in the end
    #[arg(long, value_name = "MODEL")]
    pub(crate) out: Option<PathBuf>,
}
