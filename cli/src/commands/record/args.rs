//! Arguments of `betz record`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::common_args::{Common, SubjectArgs};
use betz_live::SharedLine;

#[derive(Subcommand)]
pub(crate) enum Record {
    /// Read the whole recording of a session, and say what is damaged or missing. Exit code 1 if
    /// anything is
    Check(Check),
    /// Run the front end of a recorded session over its voltage, and write the binned recording to
    /// train on. Its behaviour is what the session's labels say; without labels, add it
    Bins(Bins),
    /// Write a recorded session as files that other programs read: every row of every source and epoch,
    /// sorted units, the features, outputs and flags of each step, labels, trials, marks, events
    Export(Export),
}

/// Format of an exported session.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One NWB file
    Nwb,
    /// A folder: rows as int16 or float32 with JSON beside them, everything else as CSV and JSON
    Flat,
}

#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Folder that `betz run` recorded
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Format to write
    #[arg(long, value_enum)]
    pub(crate) to: Format,
    /// NWB file, or folder of flat files, to write
    #[arg(long, value_name = "PATH")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// Place a source by a digital line that it shares with another, such as nsp:1=probe:7 (SOURCE:LINE of the reference, then
    /// of the source that is placed); repeat for several. The report has the error [default: by the arrivals]
    #[arg(long, value_name = "LINES")]
    pub(crate) align: Vec<SharedLine>,
    /// Leave the voltage out
    #[arg(long)]
    pub(crate) no_voltage: bool,
    /// Write the voltage of an NWB file as float32 in microvolts, in a plain TimeSeries: neo reads no ElectricalSeries.
    /// SpikeInterface and `betz sort` want the ElectricalSeries, which is written without this option
    #[arg(long, conflicts_with = "no_voltage")]
    pub(crate) plain_voltage: bool,
}

#[derive(Args)]
pub(crate) struct Check {
    /// Folder that `betz run` recorded
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Print one JSON object on standard output instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Bins {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Folder that `betz run` recorded
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Recording to write (.npz)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Length of a bin in seconds [default: the step of the session's model]
    #[arg(long, value_name = "SECONDS", value_parser = crate::parse::positive_seconds)]
    pub(crate) step: Option<f64>,
    /// Run another front end over the recorded voltage: a key of [voltage], such as voltage.threshold=-4,
    /// voltage.feature=sbp or voltage.sorter=units.betz; repeat for several [default: the session's]
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}
