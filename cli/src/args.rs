//! The command line: every command with its summary. Options stand with their command.

#[cfg(not(all(feature = "lab", feature = "page", feature = "rig")))]
use std::ffi::OsString;

use clap::{Parser, Subcommand};

#[cfg(feature = "rig")]
use crate::commands::{adapt, convert, ctl, emulate, export, import, record, run, sort, stream};
use crate::commands::{
    compare, decode, demo, drop, evaluate, filter, info, simulate, solve, sums, train,
};
#[cfg(feature = "lab")]
use crate::commands::{join, look, mine, multiply, network, reproduce};
#[cfg(feature = "page")]
use crate::commands::{monitor, serve, som};

#[derive(Parser)]
#[command(
    name = "betz",
    version,
    about = "Decode movement from spikes: train, evaluate and stream decoders; mine episodes; compute correlation networks; sort spikes; simulate.",
    after_help = "A recording is an .npz file (docs/recordings.md) or an NWB file (docs/connect.md). Start with `betz demo`.\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 a session's limit crossed, 130 interrupted.",
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Wait until results are on the disk: they then outlast a power failure (sessions always wait)
    #[arg(long, global = true, help_heading = "Files")]
    durable: bool,
}

impl Cli {
    /// Runs the command to its end.
    pub(crate) fn run(&self) -> betz::Result<()> {
        betz::file::wait_for_disk(self.durable || self.command.is_session());
        self.command.run()
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Simulate a population, train decoders on it, stream a test recording through them, and draw the result
    Demo(demo::Demo),
    /// Simulate a tuned population, embedded chains, a spiking network, a closed loop, or drift in a recording
    Simulate(Box<simulate::args::Simulate>),
    /// Train a decoder on a recording and write it to a model file
    Train(Box<train::args::Train>),
    /// Train every kind of decoder on the same folds of a recording, and compare scores and costs
    Compare(compare::args::Compare),
    /// Describe and draw banks of filters, and put sums of recursive filters in place of sampled ones
    #[command(subcommand)]
    Filter(filter::args::FilterCommand),
    /// Remove channels from a model, as if it had been trained without them
    Drop(drop::Drop),
    #[cfg(feature = "rig")]
    /// Write a model as ONNX, or the weights of a recurrent one as safetensors
    Export(export::Export),
    #[cfg(feature = "rig")]
    /// Make a model of a network that PyTorch or another program trained
    Import(import::Import),
    #[cfg(feature = "rig")]
    /// Convert a recording between .npz and NWB; can add a model's decoded outputs
    Convert(Box<convert::args::Convert>),
    /// Sum the sufficient statistics of recordings into a file, and merge such files
    Sums(sums::args::Sums),
    /// Solve a decoder from files of sums, or solve a model again from the sums stored in it
    Solve(solve::args::Solve),
    #[cfg(feature = "rig")]
    /// Replay a recording through a session whose model adapts after each trial, and score it
    Adapt(adapt::args::Adapt),
    /// Old name of `betz simulate drift`
    #[command(hide = true)]
    Drift(simulate::drift::Drift),
    /// Score a model on a recording that it was not trained on
    Evaluate(evaluate::args::Evaluate),
    /// Decode a whole recording and write the outputs with their times
    Decode(decode::args::Decode),
    #[cfg(feature = "rig")]
    /// Decode a recording, or a live source, step by step in a real-time session; report scores and latency
    Stream(stream::args::Stream),
    #[cfg(feature = "rig")]
    /// Run a whole session from a plan: source, front end, decoder, outputs
    Run(run::args::Run),
    #[cfg(feature = "rig")]
    /// Control a session that `betz run --ctl FILE` runs: marks, labels, trials, models, its end
    Ctl(ctl::Ctl),
    #[cfg(feature = "rig")]
    /// Emulate a recording system: send voltage by the protocol of a device, for this or other software
    Emulate(Box<emulate::args::Emulate>),
    #[cfg(feature = "rig")]
    /// Check the recording of a session, or make the recording to train on from it
    #[command(subcommand)]
    Record(record::args::Record),
    #[cfg(feature = "page")]
    /// Run a real-time session and serve a page that shows it
    Monitor(monitor::args::Monitor),
    #[cfg(feature = "page")]
    /// Serve a page that shows recordings, networks, maps and sorters
    Serve(serve::Serve),
    #[cfg(feature = "lab")]
    /// Look at a recording: rates around events, tuning curves, intervals between spikes, quality of units
    Look(Box<look::args::Look>),
    #[cfg(feature = "lab")]
    /// Find frequent episodes: units that fire in the same order, at the same delays, again and again
    Mine(mine::args::Mine),
    #[cfg(feature = "lab")]
    /// Join the shards that `betz mine --shard` or `betz network compute --shard` wrote
    Join(join::args::Join),
    #[cfg(feature = "lab")]
    /// Multiply two matrices in .npy files, which may be larger than memory
    Multiply(multiply::args::Multiply),
    #[cfg(feature = "lab")]
    /// Compute, measure, compare and export correlation networks over sliding windows
    #[command(subcommand)]
    Network(network::args::NetworkCommand),
    #[cfg(feature = "lab")]
    /// Make the experiments of the papers that Betz builds on again, on one page
    Reproduce(reproduce::args::Reproduce),
    #[cfg(feature = "page")]
    /// Train a self-organising map on data or on the pixels of a picture
    Som(Box<som::args::Som>),
    #[cfg(feature = "rig")]
    /// Sort spikes: train a sorter on raw voltage, run it, score it, inspect it
    #[command(subcommand)]
    Sort(sort::args::SortCommand),
    /// Describe a file (model, sums, shard, recording, network, sorter) or, without one, this machine and its devices
    Info(info::args::Info),
    /// A command of a floor that is not part of this build.
    #[cfg(not(all(feature = "lab", feature = "page", feature = "rig")))]
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

impl Command {
    /// True for commands of sessions, whose results cannot be made again.
    fn is_session(&self) -> bool {
        match self {
            #[cfg(feature = "rig")]
            Self::Run(_) | Self::Stream(_) => true,
            #[cfg(feature = "page")]
            Self::Monitor(_) => true,
            _ => false,
        }
    }

    fn run(&self) -> betz::Result<()> {
        match self {
            Self::Demo(args) => demo::run(args),
            Self::Simulate(args) => simulate::run(args),
            Self::Train(args) => train::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Filter(command) => filter::run(command),
            Self::Drop(args) => drop::run(args),
            #[cfg(feature = "rig")]
            Self::Export(args) => export::run(args),
            #[cfg(feature = "rig")]
            Self::Import(args) => import::run(args),
            #[cfg(feature = "rig")]
            Self::Convert(args) => convert::run(args),
            Self::Sums(args) => sums::run(args),
            Self::Solve(args) => solve::run(args),
            #[cfg(feature = "rig")]
            Self::Adapt(args) => adapt::run(args),
            Self::Drift(args) => simulate::drift::run(args),
            Self::Evaluate(args) => evaluate::run(args),
            Self::Decode(args) => decode::run(args),
            #[cfg(feature = "rig")]
            Self::Stream(args) => stream::run(args),
            #[cfg(feature = "rig")]
            Self::Run(args) => run::run(args),
            #[cfg(feature = "rig")]
            Self::Ctl(args) => ctl::run(args),
            #[cfg(feature = "rig")]
            Self::Emulate(args) => emulate::run(args),
            #[cfg(feature = "rig")]
            Self::Record(command) => record::run(command),
            #[cfg(feature = "page")]
            Self::Monitor(args) => monitor::run(args),
            #[cfg(feature = "page")]
            Self::Serve(args) => serve::run(args),
            #[cfg(feature = "lab")]
            Self::Look(args) => look::run(args),
            #[cfg(feature = "lab")]
            Self::Mine(args) => mine::run(args),
            #[cfg(feature = "lab")]
            Self::Join(args) => join::run(args),
            #[cfg(feature = "lab")]
            Self::Multiply(args) => multiply::run(args),
            #[cfg(feature = "lab")]
            Self::Network(command) => network::run(command),
            #[cfg(feature = "lab")]
            Self::Reproduce(args) => reproduce::run(args),
            #[cfg(feature = "page")]
            Self::Som(args) => som::run(args),
            #[cfg(feature = "rig")]
            Self::Sort(command) => sort::run(command),
            Self::Info(args) => info::run(args),
            #[cfg(not(all(feature = "lab", feature = "page", feature = "rig")))]
            Self::Other(words) => Err(unknown(words)),
        }
    }
}

/// Commands that a build without every floor lacks.
#[cfg(not(all(feature = "lab", feature = "page", feature = "rig")))]
const OTHERS: [&str; 19] = [
    "adapt",
    "convert",
    "ctl",
    "emulate",
    "export",
    "import",
    "join",
    "look",
    "mine",
    "monitor",
    "multiply",
    "network",
    "record",
    "reproduce",
    "run",
    "serve",
    "som",
    "sort",
    "stream",
];

/// The error of a command that this build does not have.
#[cfg(not(all(feature = "lab", feature = "page", feature = "rig")))]
fn unknown(words: &[OsString]) -> betz::Error {
    let name = words
        .first()
        .map(|w| w.to_string_lossy())
        .unwrap_or_default();
    betz::Error::argument(if OTHERS.contains(&name.as_ref()) {
        format!(
            "betz {name}: expected a build with every floor, got one that only decodes; `cargo run --release -p betz-cli -- {name}` builds and runs the whole program"
        )
    } else {
        format!("expected a command, got '{name}'; betz --help lists them")
    })
}
