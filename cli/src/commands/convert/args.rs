//! The command line of `betz convert`.

use std::path::PathBuf;

use betz_formats::nwb::LineUse;
use clap::Args;

use crate::common_args::{Behaviors, Common, SubjectArgs, chunk_memory};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz convert reach.npz reach.nwb --start 2020-10-19T13:00:00-05:00 --subject J --species \"Macaca mulatta\"\n  betz convert session.nwb session.npz\n  betz convert session.nwb decoded.nwb --decode reach.betz\n  betz convert run_g0_t0.imec0.ap.bin run.nwb --start 2020-10-19T13:00:00-05:00\n  betz convert run_g0 run.nwb --line nidq-SYNC:1=trial --line nidq-SYNC:2=reward --start 2020-10-19T13:00:00-05:00"
)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) behavior: Behaviors,
    /// Recording to read (.npz, .nwb), or voltage of SpikeGLX or Open Ephys: a file or its folder
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Recording to write (.npz, .nwb)
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Stream of voltage to convert, as `betz info IN` lists them; repeat for several [default: all]
    #[arg(long = "stream", value_name = "NAME")]
    pub(crate) streams: Vec<String>,
    /// Use of a digital line of IN: LINE=trial for trials while it is up, LINE=TEXT for a mark each time that it goes up; line 17
    /// is bit 0 of the second word. STREAM:LINE=… if several streams have words. Repeat for several
    #[arg(long = "line", value_name = "LINE=TEXT")]
    pub(crate) lines: Vec<LineUse>,
    /// Read the whole rows of a file of voltage that ends within a row
    #[arg(long)]
    pub(crate) truncate: bool,
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
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
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
