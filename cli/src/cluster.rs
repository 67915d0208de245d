//! Commands that a team of processes runs together; every process calls the same one with the same arguments.

use betz::team::Team;
use betz::{Error, Result};

use crate::commands::train::args::DecoderKind;
use crate::commands::{mine, network, simulate, train};
use crate::device;
use crate::report;

pub use crate::commands::mine::args::Mine;
pub use crate::commands::network::args::Compute as Network;
pub use crate::commands::simulate::args::Simulate;
pub use crate::commands::train::args::Train;

/// Starts the clock and the threads: as many as the system or `RAYON_NUM_THREADS` gives.
pub fn begin() {
    crate::begin();
}

/// Keeps progress to the first process.
pub fn be_quiet() {
    report::be_quiet();
}

/// 2 for wrong usage, 130 for an interrupt, 1 for every other failure.
pub fn exit_code(error: &Error) -> u8 {
    crate::exit_code(error)
}

/// Bytes of a chunk at work if `--memory` is not given.
const MEMORY: u64 = 1 << 30;

/// `betz train`, in chunks that the team shares out; the first process writes the model. Its bits are the same for any
/// team with the same `--memory`, which decides where the recording is cut.
///
/// # Errors
/// As the command's, and the team's.
pub fn train(team: &dyn Team, mut args: Train) -> Result<()> {
    // A team trains linear decoders in chunks, as with `--memory`.
    if args.decoder == DecoderKind::Auto {
        args.decoder = DecoderKind::Linear;
    }
    let args = &args;
    let device = device::open(&of_rank(team, &args.common.device)?)?;
    train::long::run(team, args, &device, args.memory.unwrap_or(MEMORY))
}

/// `betz mine`: every process holds all events, and the team shares out candidates, surrogates and shifts; the first
/// process tells and writes.
///
/// # Errors
/// As the command's, and the team's.
pub fn mine(team: &'static dyn Team, mut args: Mine) -> Result<()> {
    args.common.device = of_rank(team, &args.common.device)?;
    mine::run_by(team, &args)
}

/// `betz network compute`: every process holds the signal, and the team shares out the windows and their pairs; the first
/// process writes the network.
///
/// # Errors
/// As the command's, and the team's.
pub fn network(team: &dyn Team, mut args: Network) -> Result<()> {
    args.common.device = of_rank(team, &args.common.device)?;
    network::compute::run_by(team, &args)
}

/// `betz simulate` of a spiking network: the team shares out the neurons and the synapses onto them; the first process tells
/// and writes. Spikes are the same for any team.
///
/// # Errors
/// As the command's, and the team's.
pub fn simulate(team: &'static dyn Team, args: Simulate) -> Result<()> {
    simulate::run_by(team, &args)
}

/// The device of one process: the GPU of its number where there are several and all are asked for.
fn of_rank(team: &dyn Team, spec: &str) -> Result<String> {
    if spec != "cuda:all" {
        return Ok(spec.to_owned());
    }
    let devices = device::open(spec)?.contexts().len().max(1);
    Ok(format!("cuda:{}", team.rank() % devices))
}
