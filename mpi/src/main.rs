//! `betz-mpi`: what `betz` does, by the ranks of an MPI job: `mpirun -n 4 betz-mpi train week.npz --out week.betz`.
//!
//! Every rank runs the same command; each takes its share of the recording or network, and the first writes what comes of it. A
//! rank that fails says why and ends the job.

mod team;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use betz::Result;
use betz::team::Team;
use betz_cli::cluster;
use clap::{Parser, Subcommand};
use mpi::Threading;
use mpi::topology::SimpleCommunicator;
use mpi::traits::Communicator;

use team::Ranks;

/// Long recordings and large networks, by the ranks of an MPI job
#[derive(Parser)]
#[command(name = "betz-mpi", version = betz::VERSION, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a linear decoder, as `betz train --memory` does: each rank sums its chunks of the recording. The model
    /// is the same, to the last bit, for any number of ranks
    Train(Box<cluster::Train>),
    /// Mine frequent episodes, as `betz mine` does: each rank holds all events, and counts its share of the candidates
    /// and of the surrogates; with --memory each rank reads its part of the recording's time, in chunks. The list is
    /// the same for any number of ranks
    Mine(Box<cluster::Mine>),
    /// Compute a correlation network, as `betz network compute` does: each rank computes its share of the windows, and
    /// of the pairs of a window that is shared. The network is the same, to the last bit, for any number of ranks
    Network(Box<cluster::Network>),
    /// Simulate a spiking network, as `betz simulate` does: each rank has a share of the neurons and the synapses onto
    /// them, on its CPU, and sends its spikes to the others once in a shortest delay. Spikes are the same for any number
    /// of ranks. --threads and --memory are a rank's
    Simulate(Box<cluster::Simulate>),
}

/// Time that a failed rank leaves rank 0 to report the same error.
const AFTER_THE_FIRST: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    cluster::begin();
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        eprintln!("betz-mpi: expected MPI to begin once, it has begun already");
        return ExitCode::FAILURE;
    };
    let ranks: &'static Ranks = Box::leak(Box::new(Ranks::new()));
    let first = ranks.rank() == 0;
    if !first {
        cluster::be_quiet();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(said) => {
            // All ranks have the same arguments: one tells.
            if first && said.print().is_err() {
                eprintln!("{said}");
            }
            drop(universe);
            return ExitCode::from(if said.use_stderr() { 2 } else { 0 });
        }
    };
    // A panic in one rank leaves the others waiting for ever.
    let said = std::panic::take_hook();
    let rank = ranks.rank();
    std::panic::set_hook(Box::new(move |panic| {
        said(panic);
        say(&format!(
            "betz-mpi: rank {rank} failed by an error in Betz itself and ends the job"
        ));
        SimpleCommunicator::world().abort(1)
    }));
    if let Err(error) = run(ranks, arguments) {
        if !first {
            std::thread::sleep(AFTER_THE_FIRST);
        }
        say(&format!(
            "betz-mpi: rank {rank} of {}: {}: {error}",
            ranks.size(),
            error.kind()
        ));
        SimpleCommunicator::world().abort(i32::from(cluster::exit_code(&error)))
    }
    drop(universe);
    ExitCode::SUCCESS
}

/// Writes a line to standard error by one call of the system: `eprintln!` makes one of each part, and `mpirun` puts what it
/// and other ranks say between two of them.
fn say(line: &str) {
    // Nobody is left to tell of a standard error that cannot be written.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn run(team: &'static dyn Team, arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Train(args) => cluster::train(team, *args),
        Command::Mine(args) => cluster::mine(team, *args),
        Command::Network(args) => cluster::network(team, *args),
        Command::Simulate(args) => cluster::simulate(team, *args),
    }
}
