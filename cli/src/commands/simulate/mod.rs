//! `betz simulate`: what decoders, miners and users are tested with.

#[cfg(feature = "lab")]
mod activity;
pub(crate) mod args;
#[cfg(feature = "lab")]
mod chains;
#[cfg(feature = "lab")]
mod closed_loop;
pub(crate) mod drift;
#[cfg(feature = "lab")]
mod lab_args;
#[cfg(feature = "lab")]
mod loop_picture;
#[cfg(feature = "lab")]
pub(crate) mod movement;
#[cfg(feature = "lab")]
mod patterns;
mod population;
mod recording_file;
#[cfg(feature = "lab")]
mod spiking;
#[cfg(feature = "lab")]
mod spiking_picture;
#[cfg(feature = "lab")]
mod steered;

#[cfg(feature = "lab")]
use std::path::Path;

#[cfg(feature = "lab")]
use betz::spiking::{Network, models};
#[cfg(feature = "lab")]
use betz::team::{Alone, Team};
use betz::{Error, Result};

use crate::device;
use args::{Change, Simulate};

pub(crate) fn run(args: &Simulate) -> Result<()> {
    if let Some(Change::Drift(args)) = &args.change {
        return drift::run(args);
    }
    #[cfg(feature = "lab")]
    if args.spiking.is_asked_for() {
        return spiking::run_by(&Alone, args);
    }
    device::cpu_for("such a simulation", &args.common.device)?;
    #[cfg(feature = "lab")]
    if args.closed_loop.closed_loop {
        return closed_loop::run(args);
    }
    #[cfg(feature = "lab")]
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
    #[cfg(feature = "lab")]
    if args.chains.is_asked_for() {
        return chains::run(args, out);
    }
    population::run(args, out)
}

/// A spiking network by a team, whose processes share out its neurons; the first tells and writes.
#[cfg(feature = "lab")]
pub(crate) fn run_by(team: &'static dyn Team, args: &Simulate) -> Result<()> {
    if args.change.is_some() || !args.spiking.is_asked_for() || args.spiking.patterns {
        return Err(Error::argument(
            "simulate: expected a spiking network (--spec, --model, --ring, --full, --random or --connections), which alone ranks share out; betz simulate does the rest",
        ));
    }
    spiking::run_by(team, args)
}

/// A model of the literature by its name, kept to `scale`, or a file of JSON; `option` is what asked for it.
#[cfg(feature = "lab")]
pub(crate) fn named_network(option: &str, name: &str, scale: f64, seed: u64) -> Result<Network> {
    if models::NAMES.contains(&name) {
        return models::by_name(name, scale, seed).map_err(|e| e.at(option));
    }
    network_file(Path::new(name))
}

/// A network described as JSON.
#[cfg(feature = "lab")]
pub(crate) fn network_file(path: &Path) -> Result<Network> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, &e))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    Network::load(&text, folder).map_err(|e| e.at(path.display()))
}
