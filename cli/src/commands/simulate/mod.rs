//! `betz simulate`: what decoders, miners and users are tested with.

mod activity;
pub(crate) mod args;
mod chains;
mod closed_loop;
pub(crate) mod drift;
mod loop_picture;
mod population;
mod recording_file;
mod spiking;
mod spiking_picture;
mod steered;

use std::path::Path;

use betz::spiking::{Network, models};
use betz::{Error, Result};

use crate::device;
use args::{Change, Simulate};

pub(crate) fn run(args: &Simulate) -> Result<()> {
    if let Some(Change::Drift(args)) = &args.change {
        return drift::run(args);
    }
    if args.spiking.is_asked_for() {
        return spiking::run(args);
    }
    device::cpu_for("such a simulation", &args.common.device)?;
    if args.closed_loop.closed_loop {
        return closed_loop::run(args);
    }
    if let Some(path) = &args.picture {
        return Err(Error::argument(format!(
            "--picture {}: expected a spiking network or --closed-loop, which are drawn; betz info FILE --picture draws a recording",
            path.display()
        )));
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

/// A model of the literature by its name, kept to `scale`, or a file of JSON; `option` is what asked for it.
pub(crate) fn named_network(option: &str, name: &str, scale: f64, seed: u64) -> Result<Network> {
    if models::NAMES.contains(&name) {
        return models::by_name(name, scale, seed).map_err(|e| e.at(option));
    }
    network_file(Path::new(name))
}

/// A network described as JSON.
fn network_file(path: &Path) -> Result<Network> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, &e))?;
    Network::from_json(&text).map_err(|e| e.at(path.display()))
}
