//! `betz sort`: spikes of single units from raw voltage.

pub(crate) mod args;
mod edit;
mod import;
mod input;
mod phy;
mod row_clock;
mod run;
mod score;
mod show;
mod train;

use std::ops::Range;
use std::path::Path;

use betz::Result;
use betz::sort::Voltage;
use betz_rigs::rig::Signal;

use args::SortCommand;

pub(crate) use show::inside;

/// Opens voltage with what its header, its file or `part` say of it; returns its rows and its signal.
///
/// # Errors
/// The errors of the file; `InvalidArgument` for a fact that nobody states.
pub(crate) fn open_voltage(
    path: &Path,
    part: args::VoltagePart,
) -> Result<(Box<dyn Voltage>, Range<u64>, Signal)> {
    let raw = args::Raw {
        raw: path.to_owned(),
        part,
    };
    let (info, source) = input::Info::of(&raw, None)?;
    let (voltage, rows) = source.open(&info, &raw.part)?;
    let signal = Signal {
        channels: info.channels,
        rate: info.rate_hz,
        microvolts: Some(info.microvolts),
        clock_bits: 64,
    };
    Ok((voltage, rows, signal))
}

pub(crate) fn run(command: &SortCommand) -> Result<()> {
    match command {
        SortCommand::Train(args) => train::run(args),
        SortCommand::Run(args) => run::run(args),
        SortCommand::Import(args) => import::run(args),
        SortCommand::Score(args) => score::run(args),
        SortCommand::Show(args) => show::run(args),
        SortCommand::Edit(args) => edit::run(args),
    }
}
