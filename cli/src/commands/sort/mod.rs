//! `betz sort`: spikes of single units from raw voltage.

pub(crate) mod args;
mod edit;
mod import;
mod input;
mod phy;
mod run;
mod score;
mod show;
mod train;

use betz::Result;

use args::SortCommand;

pub(crate) use show::inside;

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
