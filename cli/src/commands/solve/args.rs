//! Arguments of `betz solve`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part, memory_size};

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  betz solve monday.sums tuesday.sums --hold-back friday.sums --out m.betz\n  betz solve *.sums --validate --out m.betz\n  betz solve m.betz --ridge 30 --out n.betz\n  betz solve monday.sums tuesday.sums --calibrate friday.npz --labels move=speed>60 --out move.betz"
)]
pub(crate) struct Solve {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Files of sums, which are merged, or one model that stores its sums. Of a model the linear
    /// part is solved again; the readout behind its latents stays
    #[arg(value_name = "SUMS|MODEL", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Model file to write
    #[arg(long, value_name = "MODEL")]
    pub(crate) out: PathBuf,
    /// Ridge added to the diagonal of the centred Γ (a sum over steps, not a mean) [default:
    /// cross-validated over the files; of a single file: by generalised cross-validation]
    #[arg(long, value_name = "LAMBDA", conflicts_with = "noise")]
    pub(crate) ridge: Option<f64>,
    /// Neural noise: standard deviation on each feature, as a fraction of the largest response
    #[arg(long, value_name = "FRACTION")]
    pub(crate) noise: Option<f64>,
    /// File of sums to hold back: the ridge that decodes it best is used, and the scores there are
    /// reported; repeat for several
    #[arg(long, value_name = "SUMS", conflicts_with_all = ["ridge", "noise"])]
    pub(crate) hold_back: Vec<PathBuf>,
    /// Cross-validate over files: use the ridge that decodes each file best from all others, and
    /// report the scores (the default for two files or more)
    #[arg(long, conflicts_with_all = ["ridge", "noise", "hold_back"])]
    pub(crate) validate: bool,
    /// Refuse channels that make Γ singular (silent channels, or copies) instead of masking them
    #[arg(long)]
    pub(crate) refuse_dead: bool,
    /// Store the sums in the model file, in at most SIZE such as 64MiB [without SIZE: 256MiB]. A
    /// model that stores its sums keeps them in any case
    #[arg(
        long,
        value_name = "SIZE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "256MiB",
        value_parser = memory_size
    )]
    pub(crate) retain: Option<u64>,
    /// Recording in none of the SUMS, which `betz sums --labels` wrote: solve them for classes by linear discriminant
    /// analysis, and calibrate the probabilities on it. Needs --labels
    #[arg(long, value_name = "RECORDING", requires = "labels",
          conflicts_with_all = ["ridge", "noise", "hold_back", "validate", "retain", "refuse_dead"])]
    pub(crate) calibrate: Option<PathBuf>,
    /// Labels of the recording of --calibrate, as for `betz train`
    #[arg(long, value_name = "COLUMN|CONDITION|FILE", requires = "calibrate")]
    pub(crate) labels: Option<String>,
    /// False alarms per minute that the events of a class may make
    #[arg(long, value_name = "RATE", default_value_t = 1.0)]
    pub(crate) false_alarms: f64,
    /// Share of each class in use, separated by commas, in the order of the classes [default: the shares in the sums]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "calibrate"
    )]
    pub(crate) priors: Option<Vec<f64>>,
}
