//! `betz simulate`: options of networks with chains, of spiking networks and of closed loops.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::common_args::memory_size;
use crate::parse::seconds;

/// Options of the networks with embedded chains.
#[derive(Args)]
#[command(next_help_heading = "Network with embedded chains, to mine")]
pub(crate) struct Chains {
    /// Simulate 64 Poisson neurons at 20 Hz, some of them linked into four chains of 9
    #[arg(long, group = "net")]
    pub(crate) network: bool,
    /// Simulate the same network for the length of data set N of the mining papers, 1 to 8: 4000,
    /// 2000, 1000, 500, 200, 100, 50 and 20 s
    #[arg(long, value_name = "N", group = "net", conflicts_with_all = ["seconds", "sym26"])]
    pub(crate) dataset: Option<usize>,
    /// Simulate Sym26 of the mining papers: 26 neurons for 60 s, with one short and one long chain
    #[arg(long, group = "net")]
    pub(crate) sym26: bool,
    /// Spontaneous rate of every neuron in Hz [default: 20]
    #[arg(long, value_name = "HZ", requires = "net")]
    pub(crate) rate: Option<f64>,
    /// Number of nodes of each chain [default: 9,9,9,9; --sym26: 4,6]
    #[arg(long, value_name = "N,N,...", requires = "net")]
    pub(crate) chains: Option<String>,
    /// Probability that a spike of one node makes the next node fire [default: 0.95]
    #[arg(long, value_name = "P", requires = "net")]
    pub(crate) connection: Option<f64>,
    /// Delay of that spike in seconds: low < delay <= high [default: 0.004,0.006]
    #[arg(long, value_name = "LOW,HIGH", requires = "net")]
    pub(crate) delay: Option<String>,
    /// File for the chains, one per line, as `betz mine --count-only` reads them [default: --out
    /// with the ending .chains.txt]
    #[arg(long, value_name = "FILE", requires = "net")]
    pub(crate) truth: Option<PathBuf>,
}

/// Papers whose details can be reproduced.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// Galbraith 2010, chapter 4: a PSC ends after five time constants
    Galbraith,
}

/// Options of a spiking network.
#[derive(Args)]
#[command(next_help_heading = "A spiking network")]
pub(crate) struct SpikingArgs {
    /// Simulate the ring of Galbraith 2010, chapter 4: N neurons, each excites the next, the first
    /// is driven
    #[arg(long, value_name = "N", group = "spiking")]
    pub(crate) ring: Option<u32>,
    /// Simulate N of the same neurons, all connected with all
    #[arg(long, value_name = "N", group = "spiking")]
    pub(crate) full: Option<u32>,
    /// Simulate N of the same neurons with S synapses between random pairs
    #[arg(long, value_name = "N,S", group = "spiking")]
    pub(crate) random: Option<String>,
    /// Simulate a published model: pd14 (Potjans and Diesmann 2014, 77,169 neurons), brunel (Brunel
    /// 2000, 12,500) or cuba (Vogels and Abbott 2005, 4,000)
    #[arg(long, value_name = "NAME", group = "spiking")]
    pub(crate) model: Option<String>,
    /// Simulate a network described in this JSON file (docs/spiking.md)
    #[arg(long, value_name = "FILE", group = "spiking")]
    pub(crate) spec: Option<PathBuf>,
    /// Simulate --neurons of the paper's neurons with the synapses of this connections.bin (u32
    /// source, u32 target, f32 weight, f32 delay in seconds: whole steps of 0.25 ms)
    #[arg(long, value_name = "FILE", group = "spiking", requires = "neurons")]
    pub(crate) connections: Option<PathBuf>,
    /// Ignore the delays of --connections as the paper's simulator does: every spike takes one step
    #[arg(long, requires = "connections")]
    pub(crate) ignore_delays: bool,
    /// Simulate the twenty firing patterns of Izhikevich 2004; --picture draws them
    #[arg(long, group = "spiking", conflicts_with_all = ["seconds", "neurons", "out", "scale", "order", "compat", "settle", "threads", "memory", "device_memory", "dry_run", "counts", "trace", "phases", "raster", "live", "write_spec", "write_connections"])]
    pub(crate) patterns: bool,
    /// Currents into populations over time: POPULATION=FILE, a CSV file or a pipe of lines seconds,pA or one pA per
    /// neuron, several separated by commas; - reads standard input
    #[arg(
        long,
        value_name = "LIST",
        requires = "spiking",
        conflicts_with = "patterns"
    )]
    pub(crate) stimulus: Option<String>,
    /// Interpolate between the lines of --stimulus [default: each line holds until the next]
    #[arg(long, requires = "stimulus")]
    pub(crate) interpolate: bool,
    /// Movement that tuned populations follow: a CSV file of lines seconds,x,y, which repeats [default: noise up to 2 Hz by the
    /// network's seed]. --out has it as behaviour
    #[arg(
        long,
        value_name = "FILE",
        requires = "spiking",
        conflicts_with = "patterns"
    )]
    pub(crate) movement: Option<PathBuf>,
    /// Share of a model's neurons to keep (for pd14: and of the synapses of each)
    #[arg(long, value_name = "PART", conflicts_with = "net")]
    pub(crate) scale: Option<f64>,
    /// Order n of the PSC t^n e^(-t/tau) of the paper's networks: 0 as on its GPU, 1 as on its
    /// cluster
    #[arg(long, value_name = "N", requires = "spiking", conflicts_with_all = ["model", "spec"])]
    pub(crate) order: Option<u32>,
    /// Reproduce a paper's details. galbraith: every PSC ends after five time constants [default:
    /// PSCs do not end]
    #[arg(long, value_name = "WHOSE", requires = "spiking", conflicts_with_all = ["model", "spec"])]
    pub(crate) compat: Option<Compat>,
    /// Time in seconds to simulate before rates are measured [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "spiking")]
    pub(crate) settle: Option<f64>,
    /// Number of threads that share the neurons on the CPU; spikes do not depend on it [default: 1;
    /// from 5,000 neurons on, all processors]
    #[arg(long, value_name = "N", requires = "spiking")]
    pub(crate) threads: Option<usize>,
    /// Memory to use at most, such as 2GiB, of the system or the GPU [default: all that is free]
    #[arg(long, value_name = "SIZE", value_parser = memory_size, requires = "spiking")]
    pub(crate) memory: Option<u64>,
    /// Memory to use on the GPU at most, such as 2GiB [default: --memory]; synapses beyond it are read from the system's
    /// memory, and --dry-run reports the cost
    #[arg(long, value_name = "SIZE", value_parser = memory_size, requires = "spiking")]
    pub(crate) device_memory: Option<u64>,
    /// Report the size of the network, and build nothing
    #[arg(long, requires = "spiking", conflicts_with_all = ["out", "counts", "trace", "raster", "live"])]
    pub(crate) dry_run: bool,
    /// Write the spike count of each neuron to this file, separated by blanks
    #[arg(long, value_name = "FILE", requires = "spiking")]
    pub(crate) counts: Option<PathBuf>,
    /// Number of spikes that --out holds at most (the first ones); counts and hash include all
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000_000,
        requires = "spiking"
    )]
    pub(crate) max_spikes: u64,
    /// Neurons whose membrane potential is recorded, such as 0,7,100..108
    #[arg(long, value_name = "LIST", requires = "spiking")]
    pub(crate) trace: Option<String>,
    /// File for the potentials (.csv): seconds, then mV of each neuron
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub(crate) traces: Option<PathBuf>,
    /// File for histograms of the weights of projections that learn (.csv), at the run's beginning, about 20 times on the way and its end: seconds, source, target,
    /// the bounds of a bin, and its number of synapses
    #[arg(
        long,
        value_name = "FILE",
        requires = "spiking",
        conflicts_with_all = ["patterns", "dry_run", "live"]
    )]
    pub(crate) weights: Option<PathBuf>,
    /// Measure the parts of a step: update, exchange, deliver
    #[arg(long, requires = "spiking")]
    pub(crate) phases: bool,
    /// Draw the spikes of the last 250 ms in the terminal
    #[arg(long, requires = "spiking")]
    pub(crate) raster: bool,
    /// Draw spikes in the terminal while the network runs, on one thread, at most in real time
    #[arg(long, requires = "spiking")]
    pub(crate) live: bool,
    /// Write the network as JSON to this file
    #[arg(long, value_name = "FILE", requires = "spiking")]
    pub(crate) write_spec: Option<PathBuf>,
    /// Write the synapses as connections.bin to this file
    #[arg(long, value_name = "FILE", requires = "spiking")]
    pub(crate) write_connections: Option<PathBuf>,
}

/// Tasks of the closed loop.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskName {
    /// Reach eight targets at 8 cm and return, in turn
    CentreOut,
    /// Reach targets anywhere in a square of 16 cm
    Pinball,
}

/// Assumptions about the movement that the user intended, from which a decoder learns.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Intention {
    /// Straight to the target, slower near it, whatever the decoder did (after Shanechi et al. 2016)
    Straight,
    /// As fast as decoded, turned to the target; at rest on it (Gilja et al. 2012)
    Turned,
}

/// Options of decoders in a closed loop.
#[derive(Args)]
#[command(next_help_heading = "Decoders in a closed loop")]
pub(crate) struct ClosedLoop {
    /// Let a simulated user steer a cursor through decoders
    #[arg(long, group = "loop")]
    pub(crate) closed_loop: bool,
    /// Decoders to compare on the same trials: ole or ole:TAU (counts smoothed over TAU seconds,
    /// default 0.05), kalman, refit (a Kalman filter retrained on intended movements), fit-ole (the
    /// same for an OLE), or a model file trained on --calibration
    #[arg(
        long,
        value_name = "LIST",
        default_value = "ole,kalman,refit",
        requires = "closed_loop"
    )]
    pub(crate) decoder: String,
    /// Task of the cursor [default: centre-out]
    #[arg(long, value_enum, requires = "closed_loop")]
    pub(crate) task: Option<TaskName>,
    /// Number of trials for each decoder and seed
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        requires = "closed_loop"
    )]
    pub(crate) trials: usize,
    /// Number of repeats, with seeds from --seed on. Each has its own population, unless a model
    /// file is given, which knows that of --seed
    #[arg(long, value_name = "N", default_value_t = 3, requires = "closed_loop")]
    pub(crate) repeats: u64,
    /// Number of reaches that decoders are trained on
    #[arg(
        long,
        value_name = "N",
        default_value_t = 120,
        requires = "closed_loop"
    )]
    pub(crate) reaches: usize,
    /// Delay of the user's visual feedback in seconds [default: 0.2]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "closed_loop")]
    pub(crate) feedback_delay: Option<f64>,
    /// Length of one bin of counts and one decoder step, in seconds [default: 0.025]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "closed_loop")]
    pub(crate) bin: Option<f64>,
    /// User, units, task and faults as JSON (docs/closed-loop.md); options override it
    #[arg(long, value_name = "FILE", requires = "closed_loop")]
    pub(crate) setup: Option<PathBuf>,
    /// Faults and their times as JSON: [{"at_s": 60, "kind": {"lose_units": {"count": 40}}}]
    #[arg(long, value_name = "FILE", requires = "closed_loop")]
    pub(crate) events: Option<PathBuf>,
    /// Take the units from this network, reduced to --scale: brunel, pd14, cuba or a JSON file
    /// [default: independent units]
    #[arg(long, value_name = "NETWORK", requires = "closed_loop")]
    pub(crate) recurrent: Option<String>,
    /// Write the training reaches as a recording with the cursor's velocity, and stop
    #[arg(long, value_name = "FILE", requires = "closed_loop")]
    pub(crate) calibration: Option<PathBuf>,
    /// Let a model file that stores its sums learn during use from the movements that the user is
    /// assumed to intend
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
