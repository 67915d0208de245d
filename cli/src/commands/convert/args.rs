//! The command line of `betz convert`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Behaviors, Common, memory_size};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz convert reach.npz reach.nwb --start 2020-10-19T13:00:00-05:00 --subject J --species \"Macaca mulatta\"\n  betz convert session.nwb session.npz\n  betz convert session.nwb decoded.nwb --decode reach.betz"
)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) behavior: Behaviors,
    /// Recording to read (.npz, .nwb)
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Recording to write, NWB or .npz by its ending
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// When the session began, with its zone, such as 2020-10-19T13:00:00-05:00; default: what IN says, and an error where
    /// it says nothing
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Option<String>,
    /// The NWB file's name among all files; default: betz- and a hash of the recording
    #[arg(long, value_name = "TEXT")]
    pub(crate) identifier: Option<String>,
    /// What was done in the session; default: what IN says
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Who was recorded; default: what IN says, else unknown
    #[arg(long, value_name = "ID")]
    pub(crate) subject: Option<String>,
    /// The subject's species in Latin, such as "Macaca mulatta"
    #[arg(long, value_name = "NAME")]
    pub(crate) species: Option<String>,
    /// The subject's sex: M, F, O (other) or U (unknown)
    #[arg(long, value_parser = ["M", "F", "O", "U"])]
    pub(crate) sex: Option<String>,
    /// The subject's age as ISO 8601 has it, such as P8Y, or from a least to a largest: P8Y/P9Y
    #[arg(long, value_name = "DURATION")]
    pub(crate) age: Option<String>,
    /// When the NWB file is made; default: $SOURCE_DATE_EPOCH, else now. With equal times, equal recordings give equal
    /// bytes
    #[arg(long, value_name = "TIME")]
    pub(crate) created: Option<String>,
    /// Decode the recording with this model, and write its outputs into the NWB file beside the recording
    #[arg(long, value_name = "MODEL")]
    pub(crate) decode: Option<PathBuf>,
    /// Read the recording (.npz) in stretches, so that writing NWB takes about this much of memory, such as 1GiB, however
    /// long it is
    #[arg(long, value_name = "SIZE", value_parser = memory_size, conflicts_with = "decode")]
    pub(crate) memory: Option<u64>,
}
