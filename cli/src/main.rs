//! `betz`: train, evaluate and stream decoders, mine episodes, simulate recordings.
//!
//! Results go to standard output (`--json`: one object), progress and notes to standard error.
//! Exit codes: 0 done, 1 failed, 2 wrong usage.

mod args;
mod commands;
mod data;
mod device;
mod picture;
mod raster;
mod report;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let outcome = match cli.command {
        args::Command::Demo(a) => commands::demo::run(&a),
        args::Command::Simulate(a) => commands::simulate::run(&a),
        args::Command::Train(a) => commands::train::run(&a),
        args::Command::Drop(a) => commands::drop::run(&a),
        args::Command::Evaluate(a) => commands::evaluate::run(&a),
        args::Command::Stream(a) => commands::stream::run(&a),
        args::Command::Mine(a) => commands::mine::run(&a),
        args::Command::Info(a) => commands::info::run(&a),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("betz: {}: {error}", error.kind());
            ExitCode::from(if error.kind() == betz::ErrorKind::InvalidArgument {
                2
            } else {
                1
            })
        }
    }
}
