//! `betz simulate`: its options, one group for each kind of simulation.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::drift::Drift;
#[cfg(feature = "lab")]
use super::lab_args::{Chains, ClosedLoop, SpikingArgs};
use crate::common_args::Common;
use crate::parse::seconds;

/// Arguments of `betz simulate`.
#[derive(Args)]
#[command(
    group = clap::ArgGroup::new("net").multiple(true),
    group = clap::ArgGroup::new("spiking").conflicts_with_all(["net", "loop"]),
    group = clap::ArgGroup::new("loop").conflicts_with("net"),
    allow_negative_numbers = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  betz simulate --out arm.npz --test-out later.npz\n  betz simulate --sym26 --out spikes.csv\n  betz simulate --model pd14 --scale 0.1 --raster\n  betz simulate --closed-loop --decoder ole,kalman,refit"
)]
pub struct Simulate {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Recording to write: .npz, or .csv (one label,seconds per line) for networks with chains.
    /// Optional for a spiking network and a closed loop
    #[arg(long, value_name = "FILE", required_unless_present_any = ["spiking", "loop"])]
    pub(crate) out: Option<PathBuf>,
    /// Seed of all random draws
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of neurons [default: 150; networks with chains: 64, --sym26: 26]
    #[arg(long, value_name = "N")]
    pub(crate) neurons: Option<usize>,
    /// Length of the recording in seconds [default: 100; --sym26: 60; the paper's spiking networks:
    /// 10, models: 1]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Length of one tick in seconds [default: 0.00025; networks with chains: 0.00001]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with_all = ["spiking", "loop"])]
    pub(crate) tick: Option<f64>,
    /// Draw a spiking network's last 250 ms (spikes, rates, potentials of --trace), or the cursor's
    /// last paths and the time of each trial of a closed loop's first repeat (.svg, .png or .pdf)
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["net", "dry_run", "calibration"])]
    pub(crate) picture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) population: Population,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    pub(crate) chains: Chains,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    pub(crate) spiking: SpikingArgs,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    pub(crate) closed_loop: ClosedLoop,
    #[command(subcommand)]
    pub(crate) change: Option<Change>,
}

/// A change to a recording that exists.
#[derive(Subcommand)]
pub(crate) enum Change {
    /// Change a recording's units from a moment on: silence, thin, exchange or overdrive them
    Drift(Drift),
}

/// Options of the tuned population.
#[derive(Args)]
#[command(next_help_heading = "Population with behaviour, to decode (the default)")]
pub(crate) struct Population {
    /// Second recording to write, of the same population under a new stimulus, for testing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["net", "spiking", "loop"])]
    pub(crate) test_out: Option<PathBuf>,
    /// Length of the test recording in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = seconds,
        default_value_t = 10.0,
        conflicts_with_all = ["net", "spiking", "loop"]
    )]
    pub(crate) test_seconds: f64,
    /// Range of maximal firing rates in Hz
    #[arg(
        long,
        value_name = "LOW,HIGH",
        default_value = "20,60",
        conflicts_with_all = ["net", "spiking", "loop"]
    )]
    pub(crate) rates: String,
    /// Number of random units to combine into each multi-unit channel
    #[arg(long, value_name = "K", default_value_t = 1, conflicts_with_all = ["net", "spiking", "loop"])]
    pub(crate) units: usize,
}
