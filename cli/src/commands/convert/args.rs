//! The command line of `betz convert`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Behaviors, Common, chunk_memory};

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
    /// Recording to write (.npz, .nwb)
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Start of the session with its time zone, such as 2020-10-19T13:00:00-05:00 [default: taken
    /// from IN; an error if IN has none]
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Option<String>,
    /// Identifier of the NWB file, unique among files [default: betz- and a hash of the recording]
    #[arg(long, value_name = "TEXT")]
    pub(crate) identifier: Option<String>,
    /// Description of the session [default: taken from IN]
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Identifier of the subject [default: taken from IN, else unknown]
    #[arg(long, value_name = "ID")]
    pub(crate) subject: Option<String>,
    /// Species of the subject in Latin, such as "Macaca mulatta"
    #[arg(long, value_name = "NAME")]
    pub(crate) species: Option<String>,
    /// Sex of the subject: M, F, O (other) or U (unknown)
    #[arg(long, value_parser = ["M", "F", "O", "U"])]
    pub(crate) sex: Option<String>,
    /// Age of the subject as an ISO 8601 duration such as P8Y, or a range such as P8Y/P9Y
    #[arg(long, value_name = "DURATION")]
    pub(crate) age: Option<String>,
    /// Creation time of the NWB file [default: $SOURCE_DATE_EPOCH, else now]. Equal times and
    /// recordings give equal bytes
    #[arg(long, value_name = "TIME")]
    pub(crate) created: Option<String>,
    /// Model whose decoded outputs are added to the NWB file
    #[arg(long, value_name = "MODEL")]
    pub(crate) decode: Option<PathBuf>,
    /// Read the recording (.npz) in chunks, so that writing NWB takes about SIZE of memory, such as
    /// 1GiB, whatever its length
    #[arg(long, value_name = "SIZE", value_parser = chunk_memory, conflicts_with = "decode")]
    pub(crate) memory: Option<u64>,
}
