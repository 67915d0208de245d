//! `betz simulate`: its options, one group for each kind of simulation.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::drift::Drift;
use crate::common_args::{Common, memory_size};

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
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Recording to write: .npz, or for networks with chains also .csv (label,seconds a line). A spiking
    /// network and a closed loop need none
    #[arg(long, value_name = "FILE", required_unless_present_any = ["spiking", "loop"])]
    pub(crate) out: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of neurons [default: 150; networks with chains: 64, --sym26: 26]
    #[arg(long, value_name = "N")]
    pub(crate) neurons: Option<usize>,
    /// Length of the recording [default: 100; --sym26: 60; the paper's spiking networks: 10, models: 1]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
    /// Length of one tick [default: 0.00025; networks with chains: 0.00001]
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["spiking", "loop"])]
    pub(crate) tick: Option<f64>,
    /// Draw, as SVG, a spiking network's last 250 ms (spikes, rates, potentials of --trace), or of a closed loop's first
    /// repeat the cursor's last ways and what each trial took
    #[arg(long, value_name = "FILE", conflicts_with_all = ["net", "dry_run", "calibration"])]
    pub(crate) picture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) population: Population,
    #[command(flatten)]
    pub(crate) chains: Chains,
    #[command(flatten)]
    pub(crate) spiking: Spiking,
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
#[command(next_help_heading = "A population with behaviour, to decode (the default)")]
pub(crate) struct Population {
    /// A second recording of the same population under a fresh stimulus, to test on
    #[arg(long, value_name = "FILE", conflicts_with_all = ["net", "spiking", "loop"])]
    pub(crate) test_out: Option<PathBuf>,
    /// Length of the test recording
    #[arg(
        long,
        value_name = "SECONDS",
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
    /// Combine this many random units into each multi-unit channel (1: single units)
    #[arg(long, value_name = "K", default_value_t = 1, conflicts_with_all = ["net", "spiking", "loop"])]
    pub(crate) units: usize,
}

/// Options of the networks with embedded chains.
#[derive(Args)]
#[command(next_help_heading = "A network with embedded chains, to mine")]
pub(crate) struct Chains {
    /// Poisson neurons, some of them linked to chains: 64 at 20 Hz, four chains of 9
    #[arg(long, group = "net")]
    pub(crate) network: bool,
    /// Such a network for the length of the mining papers' data set N, 1 to 8: 4000, 2000, 1000,
    /// 500, 200, 100, 50 and 20 s
    #[arg(long, value_name = "N", group = "net", conflicts_with_all = ["seconds", "sym26"])]
    pub(crate) dataset: Option<usize>,
    /// The mining papers' Sym26: 26 neurons for 60 s, one short and one long chain
    #[arg(long, group = "net")]
    pub(crate) sym26: bool,
    /// Rate at which every neuron fires by itself [default: 20]
    #[arg(long, value_name = "HZ", requires = "net")]
    pub(crate) rate: Option<f64>,
    /// Nodes of each chain [default: 9,9,9,9; --sym26: 4,6]
    #[arg(long, value_name = "N,N,...", requires = "net")]
    pub(crate) chains: Option<String>,
    /// Probability that a spike of a node makes the next node fire [default: 0.95]
    #[arg(long, value_name = "P", requires = "net")]
    pub(crate) connection: Option<f64>,
    /// Delay of such a spike, low < delay <= high [default: 0.004,0.006]
    #[arg(long, value_name = "LOW,HIGH", requires = "net")]
    pub(crate) delay: Option<String>,
    /// Where to write the chains, one per line as `betz mine --count-only` reads them [default: beside
    /// the recording, .chains.txt]
    #[arg(long, value_name = "FILE", requires = "net")]
    pub(crate) truth: Option<PathBuf>,
}

/// Whose details a network of the paper's topologies keeps.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// Galbraith 2010, chapter 4: a PSC ends after five time constants
    Galbraith,
}

/// Options of a spiking network.
#[derive(Args)]
#[command(next_help_heading = "A spiking network")]
pub(crate) struct Spiking {
    /// The ring of Galbraith 2010, chapter 4: N neurons, each fires the next, the first is driven
    #[arg(long, value_name = "N", group = "spiking")]
    pub(crate) ring: Option<u32>,
    /// The same neurons, every one connected with every one
    #[arg(long, value_name = "N", group = "spiking")]
    pub(crate) full: Option<u32>,
    /// N of the same neurons with S synapses between pairs drawn at random
    #[arg(long, value_name = "N,S", group = "spiking")]
    pub(crate) random: Option<String>,
    /// A model of the literature: pd14 (Potjans and Diesmann 2014, 77,169 neurons), brunel (Brunel 2000,
    /// 12,500), cuba (Vogels and Abbott 2005, 4,000)
    #[arg(long, value_name = "NAME", group = "spiking")]
    pub(crate) model: Option<String>,
    /// A network described as JSON (docs/spiking.md)
    #[arg(long, value_name = "FILE", group = "spiking")]
    pub(crate) spec: Option<PathBuf>,
    /// The paper's neurons, --neurons of them, with the synapses of its connections.bin (u32 source, u32 target,
    /// f32 weight, f32 delay, which is not used)
    #[arg(long, value_name = "FILE", group = "spiking", requires = "neurons")]
    pub(crate) connections: Option<PathBuf>,
    /// Keep this part of a model's neurons (and of PD14's synapses onto each)
    #[arg(long, value_name = "PART", conflicts_with = "net")]
    pub(crate) scale: Option<f64>,
    /// Order n of the PSC t^n e^(-t/tau) of the paper's networks: 0 as its GPU has it, 1 as its cluster
    #[arg(long, value_name = "N", requires = "spiking", conflicts_with_all = ["model", "spec"])]
    pub(crate) order: Option<u32>,
    /// Keep what the paper does: galbraith ends every PSC after five time constants; without, none ends
    #[arg(long, value_name = "WHOSE", requires = "spiking", conflicts_with_all = ["model", "spec"])]
    pub(crate) compat: Option<Compat>,
    /// Simulate this long before rates are taken, as published rates are [default: 0]
    #[arg(long, value_name = "SECONDS", requires = "spiking")]
    pub(crate) settle: Option<f64>,
    /// Threads that share the neurons where no GPU is used (--device: auto takes one from 5,000 neurons and a
    /// million synapses on); the spikes do not depend on it. More than there are free processors
    /// make every step wait [default: 1, from 5,000 neurons on as many as there are processors]
    #[arg(long, value_name = "N", requires = "spiking")]
    pub(crate) threads: Option<usize>,
    /// Take no more memory than this, such as 2GiB, of the system or the GPU [default: what there is]
    #[arg(long, value_name = "SIZE", value_parser = memory_size, requires = "spiking")]
    pub(crate) memory: Option<u64>,
    /// Say what the network takes, and build nothing
    #[arg(long, requires = "spiking", conflicts_with_all = ["out", "counts", "trace", "raster", "live"])]
    pub(crate) dry_run: bool,
    /// Write the spikes of each neuron, separated by blanks
    #[arg(long, value_name = "FILE", requires = "spiking")]
    pub(crate) counts: Option<PathBuf>,
    /// Most spikes that --out takes, the first ones; counts and hash take in all
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000_000,
        requires = "spiking"
    )]
    pub(crate) max_spikes: u64,
    /// Record the membrane potential of these neurons, such as 0,7,100..108
    #[arg(long, value_name = "LIST", requires = "spiking")]
    pub(crate) trace: Option<String>,
    /// Where to write them, as CSV: seconds, then mV of each
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub(crate) traces: Option<PathBuf>,
    /// Measure the parts of a step: update, exchange, deliver
    #[arg(long, requires = "spiking")]
    pub(crate) phases: bool,
    /// Draw the spikes of the last 250 ms in the terminal, a row for some neurons, a column for some steps
    #[arg(long, requires = "spiking")]
    pub(crate) raster: bool,
    /// Draw them while the network runs, on one thread, no faster than real time
    #[arg(long, requires = "spiking")]
    pub(crate) live: bool,
    /// Write the network as JSON
    #[arg(long, value_name = "FILE", requires = "spiking")]
    pub(crate) write_spec: Option<PathBuf>,
    /// Write its synapses as connections.bin
    #[arg(long, value_name = "FILE", requires = "spiking")]
    pub(crate) write_connections: Option<PathBuf>,
}

/// What a cursor is to do in the closed loop.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskName {
    /// To eight targets at 8 cm and back, in turn
    CentreOut,
    /// To targets anywhere in a square of 16 cm
    Pinball,
}

/// What a user is taken to have intended, which a decoder learns from.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Intention {
    /// Straight to the target, slower the nearer it is, however slow the decoder was (after Shanechi et al. 2016)
    Straight,
    /// As fast as the decoder went, turned to the target, none on it (Gilja et al. 2012)
    Turned,
}

/// Options of decoders in a closed loop.
#[derive(Args)]
#[command(next_help_heading = "Decoders in a closed loop")]
pub(crate) struct ClosedLoop {
    /// Let a simulated user steer a cursor through decoders
    #[arg(long, group = "loop")]
    pub(crate) closed_loop: bool,
    /// Decoders to compare, each with the same chances: ole or ole:TAU (counts smoothed over TAU seconds, 0.05),
    /// kalman, refit (a Kalman filter trained again on what the user intended), fit-ole (an OLE so), or a model
    /// file that `betz train` made of --calibration
    #[arg(
        long,
        value_name = "LIST",
        default_value = "ole,kalman,refit",
        requires = "closed_loop"
    )]
    pub(crate) decoder: String,
    /// What the cursor is to do [default: centre-out]
    #[arg(long, value_enum, requires = "closed_loop")]
    pub(crate) task: Option<TaskName>,
    /// Trials of each decoder and seed
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        requires = "closed_loop"
    )]
    pub(crate) trials: usize,
    /// Times to repeat it, with the seeds from --seed on: each its own population, unless there is a model
    /// file, which knows that of --seed
    #[arg(long, value_name = "N", default_value_t = 3, requires = "closed_loop")]
    pub(crate) repeats: u64,
    /// Reaches that decoders are trained on
    #[arg(
        long,
        value_name = "N",
        default_value_t = 120,
        requires = "closed_loop"
    )]
    pub(crate) reaches: usize,
    /// Seconds from the cursor's movement to what the user makes of it [default: 0.2]
    #[arg(long, value_name = "SECONDS", requires = "closed_loop")]
    pub(crate) feedback_delay: Option<f64>,
    /// Length of a bin of counts, a step of the decoder [default: 0.025]
    #[arg(long, value_name = "SECONDS", requires = "closed_loop")]
    pub(crate) bin: Option<f64>,
    /// User, units, task and faults as JSON (docs/closed-loop.md); the options above go before what it says
    #[arg(long, value_name = "FILE", requires = "closed_loop")]
    pub(crate) setup: Option<PathBuf>,
    /// What goes wrong and when, as JSON: [{"at_s": 60, "kind": {"lose_units": {"count": 40}}}]
    #[arg(long, value_name = "FILE", requires = "closed_loop")]
    pub(crate) events: Option<PathBuf>,
    /// Units are the first neurons of this network, kept to --scale: brunel, pd14, cuba or a file of JSON
    /// [default: none, they are by themselves]
    #[arg(long, value_name = "NETWORK", requires = "closed_loop")]
    pub(crate) recurrent: Option<String>,
    /// Write the reaches that decoders are trained on as a recording with the cursor's velocity, and end
    #[arg(long, value_name = "FILE", requires = "closed_loop")]
    pub(crate) calibration: Option<PathBuf>,
    /// A model file that retains its sums learns, while it is used, from what the user is taken to intend
    #[arg(
        long,
        value_enum,
        value_name = "LABELS",
        num_args = 0..=1,
        default_missing_value = "straight",
        requires = "closed_loop"
    )]
    pub(crate) adapt: Option<Intention>,
}
