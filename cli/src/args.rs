//! The command line: every command with its summary. Options stand with their command.

use clap::{Parser, Subcommand};

use crate::commands::{
    adapt, compare, convert, decode, demo, drop, evaluate, export, import, info, join, look, mine,
    monitor, network, record, run, serve, simulate, solve, som, sort, stream, sums, train,
};

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
    /// Remove channels from a model, as if it had been trained without them
    Drop(drop::Drop),
    /// Write a model as ONNX, or the weights of a recurrent one as safetensors
    Export(export::Export),
    /// Make a model of a network that PyTorch or another program trained
    Import(import::Import),
    /// Convert a recording between .npz and NWB; can add a model's decoded outputs
    Convert(Box<convert::args::Convert>),
    /// Sum the sufficient statistics of recordings into a file, and merge such files
    Sums(sums::args::Sums),
    /// Solve a decoder from files of sums, or solve a model again from the sums stored in it
    Solve(solve::args::Solve),
    /// Replay a recording through a session whose model adapts after each trial, and score it
    Adapt(adapt::args::Adapt),
    /// Old name of `betz simulate drift`
    #[command(hide = true)]
    Drift(simulate::drift::Drift),
    /// Score a model on a recording that it was not trained on
    Evaluate(evaluate::args::Evaluate),
    /// Decode a whole recording and write the outputs with their times
    Decode(decode::args::Decode),
    /// Decode a recording, or a live source, step by step in a real-time session; report scores and latency
    Stream(stream::args::Stream),
    /// Run a whole session from a plan: source, front end, decoder, outputs
    Run(run::args::Run),
    /// Check the recording of a session, or make the recording to train on from it
    #[command(subcommand)]
    Record(record::args::Record),
    /// Run a real-time session and serve a page that shows it
    Monitor(monitor::args::Monitor),
    /// Serve a page that shows recordings, networks, maps and sorters
    Serve(serve::Serve),
    /// Look at a recording: rates around events, tuning curves, intervals between spikes, quality of units
    Look(Box<look::args::Look>),
    /// Find frequent episodes: units that fire in the same order, at the same delays, again and again
    Mine(mine::args::Mine),
    /// Join the shards that `betz mine --shard` or `betz network compute --shard` wrote
    Join(join::args::Join),
    /// Compute, measure, compare and export correlation networks over sliding windows
    #[command(subcommand)]
    Network(network::args::NetworkCommand),
    /// Train a self-organising map on data or on the pixels of a picture
    Som(Box<som::args::Som>),
    /// Sort spikes: train a sorter on raw voltage, run it, score it, inspect it
    #[command(subcommand)]
    Sort(sort::args::SortCommand),
    /// Describe a file (model, sums, shard, recording, network, sorter) or, without one, this machine and its devices
    Info(info::args::Info),
}

impl Command {
    /// True for commands of sessions, whose results cannot be made again.
    fn is_session(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Stream(_) | Self::Monitor(_))
    }

    fn run(&self) -> betz::Result<()> {
        match self {
            Self::Demo(args) => demo::run(args),
            Self::Simulate(args) => simulate::run(args),
            Self::Train(args) => train::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Drop(args) => drop::run(args),
            Self::Export(args) => export::run(args),
            Self::Import(args) => import::run(args),
            Self::Convert(args) => convert::run(args),
            Self::Sums(args) => sums::run(args),
            Self::Solve(args) => solve::run(args),
            Self::Adapt(args) => adapt::run(args),
            Self::Drift(args) => simulate::drift::run(args),
            Self::Evaluate(args) => evaluate::run(args),
            Self::Decode(args) => decode::run(args),
            Self::Stream(args) => stream::run(args),
            Self::Run(args) => run::run(args),
            Self::Record(command) => record::run(command),
            Self::Monitor(args) => monitor::run(args),
            Self::Serve(args) => serve::run(args),
            Self::Look(args) => look::run(args),
            Self::Mine(args) => mine::run(args),
            Self::Join(args) => join::run(args),
            Self::Network(command) => network::run(command),
            Self::Som(args) => som::run(args),
            Self::Sort(command) => sort::run(command),
            Self::Info(args) => info::run(args),
        }
    }
}
