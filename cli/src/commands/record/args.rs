//! Arguments of `betz record`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::common_args::Common;

#[derive(Subcommand)]
pub(crate) enum Record {
    /// Read the whole recording of a session, and say what is damaged or missing. Exit code 1 if
    /// anything is
    Check(Check),
    /// Run the front end of a recorded session over its voltage, and write the binned recording to
    /// train on. Its behaviour is what the session's labels say; without labels, add it
    Bins(Bins),
    /// Write a recorded session as NWB: the features of each step, labels, outputs, trials, marks, lost
    /// times, and the voltage
    Nwb(Nwb),
}

#[derive(Args)]
pub(crate) struct Nwb {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Folder that `betz run` recorded
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// NWB file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Leave the voltage out
    #[arg(long)]
    pub(crate) no_voltage: bool,
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
}
