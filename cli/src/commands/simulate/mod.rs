//! `betz simulate`: what decoders, miners and users are tested with.

mod activity;
mod chains;
mod closed_loop;
mod population;
mod spiking;
mod steered;

use betz::{Error, Result};

use crate::device;
use crate::simulate_args::Simulate;

pub(crate) fn run(args: &Simulate) -> Result<()> {
    device::cpu_for("a simulation", &args.common.device)?;
    if args.closed_loop.closed_loop {
        return closed_loop::run(args);
    }
    if args.spiking.is_asked_for() {
        return spiking::run(args);
    }
    // The command line has seen to it; a caller that has not is told.
    let Some(out) = &args.out else {
        return Err(Error::argument("--out: expected a file to write, got none"));
    };
    if args.chains.is_asked_for() {
        return chains::run(args, out);
    }
    population::run(args, out)
}
