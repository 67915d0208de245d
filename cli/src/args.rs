//! The command line: every command, option and default, with its help text.

use std::path::PathBuf;

use betz::team::Shard;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::common_args::{Common, Part, memory_size, shard};

#[derive(Parser)]
#[command(
    name = "betz",
    version,
    about = "Decode movement from spikes: train, evaluate and stream decoders on PSC-filtered multi-unit activity; mine frequent episodes.",
    after_help = "Recordings are .npz files (see README.md for the schema) or NWB files. Start with `betz demo`.\nExit codes: 0 done, 1 failed, 2 wrong usage.",
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Simulate a population, train decoders on it, stream a test through them, draw the result
    Demo(Demo),
    /// Simulate: a tuned population to decode, a network with chains to mine, a spiking network, or decoders
    /// in a closed loop
    Simulate(Box<crate::simulate_args::Simulate>),
    /// Find the best decoder of a recording and write it to a model file
    Train(Train),
    /// Take channels out of a model that retains its sums, as if it had been trained without them
    Drop(Drop),
    /// Write a model in another program's format
    Export(Export),
    /// Write a recording in another format: NWB from .npz, .npz from NWB, what a model decodes beside it
    Convert(Box<crate::convert_args::Convert>),
    /// Sum what training needs of recordings into a file, and merge such files
    Sums(crate::sums_args::Sums),
    /// Solve a decoder from files of sums, or a model again from the sums that it retains
    Solve(crate::sums_args::Solve),
    /// Replay a recording through a session whose model adapts to it trial by trial; scores beside the
    /// model as it was
    Adapt(crate::adapt_args::Adapt),
    /// Change a recording's units from a moment on: lost, weaker, exchanged, screaming
    Drift(crate::adapt_args::Drift),
    /// Score a model on a recording it was not trained on
    Evaluate(Evaluate),
    /// Replay a recording tick by tick through the real-time session; scores and step latency
    Stream(Stream),
    /// Run a session on a recording in real time, and serve a page that shows it at work
    Monitor(crate::monitor_args::Monitor),
    /// Serve a page to look at recordings, with what a model makes of them
    Serve(crate::monitor_args::Serve),
    /// Find the frequent episodes of spikes (which fire in which order, at which delays, how often)
    Mine(Mine),
    /// Make the counts, or the network, of all shards that `betz mine --shard` or `betz network compute --shard` wrote
    Join(crate::join_args::Join),
    /// Correlation networks over sliding windows: edges, graphs, communities
    #[command(subcommand)]
    Network(crate::network_args::NetworkCommand),
    /// Train a self-organising map on data or on the pixels of a picture
    Som(Box<crate::som_args::Som>),
    /// Spikes of single units from raw voltage: train a sorter, run it, score it
    #[command(subcommand)]
    Sort(crate::sort_args::SortCommand),
    /// What a model, sums, a shard, a recording or a network hold; without a file: version, processor, devices, and why the GPU is
    /// or is not used
    Info(Info),
}

#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Seed of the population, its tuning and both stimuli
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of neurons
    #[arg(long, default_value_t = 150)]
    pub(crate) neurons: usize,
    /// Where to write the picture (SVG)
    #[arg(long, value_name = "FILE", default_value = "betz-demo.svg")]
    pub(crate) picture: PathBuf,
}

/// How Γ is computed.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Gram {
    /// Whichever costs less
    Auto,
    /// Filter, then multiply
    Dense,
    /// From the spikes alone
    Event,
}

/// How Γφ = Υ is solved.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum SolverName {
    /// Cholesky factorisation
    Cholesky,
    /// Explicit inverse, as in Galbraith 2010
    Inverse,
}

/// Arguments of `betz train`.
#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub struct Train {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Use no more than this of each GPU's memory, such as 2GiB or 500MB; what does not fit is
    /// computed in parts
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) device_memory: Option<u64>,
    /// Read the recording (.npz) in stretches, so that it and what is made of it take about this much of memory, such
    /// as 1GiB, however long it is; sums and systems come on top. The results are the same, to rounding
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) memory: Option<u64>,
    /// Multiply in TF32 where a GPU computes Γ by the dense path: faster for many channels, less exact;
    /// the error is measured on a sample and reported
    #[arg(long)]
    pub(crate) tf32: bool,
    /// Recording (.npz) with behaviour
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Model file to write
    #[arg(long, value_name = "MODEL")]
    pub(crate) out: PathBuf,
    /// Length of one step; default: the bin of a binned recording, else 5 ms
    #[arg(long, value_name = "SECONDS")]
    pub(crate) step: Option<f64>,
    /// Filter bank: auto (the best by cross-validation), or a preset: single (10 ms), slow (0.1 to
    /// 10 s), reach (10 to 800 ms), wide (10 ms to 3 s)
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        conflicts_with = "filters"
    )]
    pub(crate) bank: String,
    /// One PSC filter t^n e^(-t/tau) as TAU:ORDER, tau in seconds; repeat for a bank
    #[arg(long = "filter", value_name = "TAU:ORDER", allow_hyphen_values = true)]
    pub(crate) filters: Vec<String>,
    /// Ridge added to the diagonal of the centred Γ, which is a sum over steps, not a mean; default: chosen by cross-validation, or with
    /// --folds 0 as by --noise 0.1
    #[arg(long, value_name = "LAMBDA", conflicts_with = "noise")]
    pub(crate) ridge: Option<f64>,
    /// Neural noise: standard deviation on each feature as a fraction of the largest response
    #[arg(long, value_name = "FRACTION")]
    pub(crate) noise: Option<f64>,
    /// Folds of the cross-validation (over segments, or contiguous blocks of a single one), up to
    /// 1000; 0: none
    #[arg(long, default_value_t = 5)]
    pub(crate) folds: u32,
    /// How Γ is computed
    #[arg(long, value_enum, default_value_t = Gram::Auto)]
    pub(crate) gram: Gram,
    /// How the system is solved
    #[arg(long, value_enum, default_value_t = SolverName::Cholesky)]
    pub(crate) solver: SolverName,
    /// Delay of the output behind the behaviour in seconds, rounded to whole steps (negative looks
    /// ahead), or auto: by cross-correlation
    #[arg(
        long,
        value_name = "SECONDS|auto",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub(crate) delay: String,
    /// Butterworth low-pass on the responses, as HZ or HZ:ORDER (order 1 to 8, default 2)
    #[arg(long, value_name = "HZ[:ORDER]")]
    pub(crate) low_pass: Option<String>,
    /// Kind of decoder, or auto: the linear one unless another decodes better, by more than two standard
    /// errors, what it was not trained on
    #[arg(long, value_enum, default_value_t = DecoderKind::Linear)]
    pub(crate) decoder: DecoderKind,
    /// Latents of a lift or of experts; default: by cross-validation, up to 12
    #[arg(long, value_name = "N")]
    pub(crate) latents: Option<usize>,
    /// Experts; default: by cross-validation
    #[arg(long, value_name = "N")]
    pub(crate) experts: Option<usize>,
    /// Random features of a lift; default: by cross-validation, up to 256
    #[arg(long, value_name = "N")]
    pub(crate) lift_units: Option<usize>,
    /// Cells of a decoder of place along the longest axis; default: 28
    #[arg(long, value_name = "N")]
    pub(crate) cells: Option<usize>,
    /// Units of each layer of a recurrent decoder, multiples of 16; default: 64,64 for trials, 64 for
    /// continuous recordings
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) layers: Option<Vec<usize>>,
    /// Networks that a recurrent decoder averages; default: 1
    #[arg(long, value_name = "N")]
    pub(crate) members: Option<usize>,
    /// Combine this many random units into each multi-unit channel
    #[arg(long, value_name = "K", conflicts_with = "groups")]
    pub(crate) units: Option<usize>,
    /// Combine units by a list: one channel per line, names or numbers separated by spaces
    #[arg(long, value_name = "FILE")]
    pub(crate) groups: Option<PathBuf>,
    /// Refuse channels that make Γ singular (silent, or copies) instead of masking them
    #[arg(long)]
    pub(crate) refuse_dead: bool,
    /// Keep the sums in the model file, so that `betz drop` can take channels away exactly; at most SIZE,
    /// such as 64MiB
    #[arg(
        long,
        value_name = "SIZE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "256MiB",
        value_parser = memory_size
    )]
    pub(crate) retain: Option<u64>,
    /// Tell the variance of every estimate as well: a lift's or experts' step then costs as much more as its
    /// readout
    #[arg(long)]
    pub(crate) variance: bool,
    /// Seed of random multi-unit groups, of a lift's projections and of the search for experts
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What `--decoder` takes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecoderKind {
    Linear,
    Lift,
    Experts,
    /// A steady-state Kalman filter: for labs that expect one
    Kalman,
    /// That filter taught what was intended: velocities turned to where each trial ends
    Refit,
    /// Bayes' rule on a grid of places, for place cells: outputs are coordinates
    Place,
    /// Layers of gated recurrent units on the counts of a bin: the most accurate where training covers
    /// the movements
    Recurrent,
    Auto,
}

#[derive(Args)]
#[command(after_help = "Example: betz drop m.betz --channels 3,17 --out n.betz")]
pub(crate) struct Drop {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Model file, trained with --retain
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Channels to take out, by name or number, separated by commas
    #[arg(long, value_name = "LIST")]
    pub(crate) channels: String,
    /// Model file to write; it retains the same sums
    #[arg(long, value_name = "MODEL")]
    pub(crate) out: PathBuf,
}

#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Model file: a linear decoder, a lift or a Kalman filter
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Write one step of it as ONNX: counts and states in, estimates and states out
    #[arg(long, value_name = "FILE")]
    pub(crate) onnx: PathBuf,
}

#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Evaluate {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Model file
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Recording (.npz) with behaviour
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Read the recording (.npz) in stretches, so that it and what is made of it take about this much of memory, such
    /// as 1GiB, however long it is. The results are the same, to rounding
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) memory: Option<u64>,
    /// Score only steps in which something moves at least this fast, in the outputs' unit a second
    #[arg(
        long,
        value_name = "SPEED",
        conflicts_with_all = ["trials", "chance", "importance", "picture"]
    )]
    pub(crate) moving: Option<f64>,
    /// Also write true and decoded outputs here (.csv: step, start_seconds, end_seconds, each output
    /// twice). Estimate and truth belong to the step's end. As .nwb: the decoded outputs beside the recording, which says
    /// when its session began
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Also draw truth and decoded outputs, their error, scatter and scores by trial (.svg)
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Also score every trial (segment), and give the interval that holds R² in 95 of 100 draws of as
    /// many trials
    #[arg(long)]
    pub(crate) trials: bool,
    /// Also score N times against behaviour shifted in time by chance: what a decoder that knows
    /// nothing would reach
    #[arg(long, value_name = "N")]
    pub(crate) chance: Option<u32>,
    /// Also say how much R² is lost when a channel is held at its mean, channel by channel
    #[arg(long)]
    pub(crate) importance: bool,
    /// Seed of the draws of trials and of the shifts
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Stream {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Model file
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Recording (.npz, .nwb); or --in
    #[arg(value_name = "RECORDING", required_unless_present_any = ["source", "lsl_in"])]
    pub(crate) recording: Option<PathBuf>,
    /// Take steps from here instead of a recording: udp://HOST:PORT, cerebus://HOST:PORT?version=4.1, lsl://NAME,
    /// brand://HOST:PORT?nickname=NAME, zmq://HOST:PORT
    #[arg(long = "in", value_name = "URI", conflicts_with_all = ["recording", "counts", "speed", "watch"])]
    pub(crate) source: Option<String>,
    /// Also write the decoded outputs here (.csv: step, start_seconds, end_seconds, each output; they
    /// belong to the step's end), or as .nwb beside the recording; with --in send them here: udp://HOST:PORT, lsl://NAME, brand://HOST:PORT?nickname=NAME,
    /// zmq://HOST:PORT?topic=NAME (bound here)
    #[arg(long, value_name = "FILE|URI")]
    pub(crate) out: Option<PathBuf>,
    /// --in lsl://NAME
    #[arg(long, value_name = "NAME", conflicts_with_all = ["recording", "source", "counts", "speed", "watch"])]
    pub(crate) lsl_in: Option<String>,
    /// --out lsl://NAME
    #[arg(long, value_name = "NAME", conflicts_with_all = ["recording", "out"])]
    pub(crate) lsl_out: Option<String>,
    /// With --in: end after so many steps
    #[arg(long, value_name = "N", conflicts_with = "recording")]
    pub(crate) steps: Option<u64>,
    /// With --in: end when nothing has come for so long
    #[arg(long, value_name = "SECONDS", conflicts_with = "recording")]
    pub(crate) silence: Option<f64>,
    /// Deadline of one step in microseconds; steps that take longer are counted
    #[arg(long, value_name = "US")]
    pub(crate) deadline: Option<f64>,
    /// Feed binned counts instead of spike lists
    #[arg(long)]
    pub(crate) counts: bool,
    /// Insist on a model that knows how many spikes of each channel are usual
    #[arg(long)]
    pub(crate) watch: bool,
    /// Do not watch for channels that die or scream; otherwise steps say so
    #[arg(long, conflicts_with = "watch")]
    pub(crate) no_watch: bool,
    /// Replay at this multiple of real time instead of as fast as it goes
    #[arg(long, value_name = "TIMES")]
    pub(crate) speed: Option<f64>,
}

impl Stream {
    /// Where steps come from, unless it is a recording.
    pub(crate) fn source(&self) -> Option<String> {
        let lsl = self.lsl_in.as_ref().map(|name| format!("lsl://{name}"));
        self.source.clone().or(lsl)
    }

    /// Where outputs of steps that are not a recording's go.
    ///
    /// # Errors
    /// `InvalidArgument` for a path that is not UTF-8.
    pub(crate) fn sink(&self) -> betz::Result<Option<String>> {
        let Some(path) = &self.out else {
            return Ok(self.lsl_out.as_ref().map(|name| format!("lsl://{name}")));
        };
        let text = path.to_str().ok_or_else(|| {
            betz::Error::argument(format!("--out: expected UTF-8, got {}", path.display()))
        })?;
        Ok(Some(text.into()))
    }
}

#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Say what this file holds instead: a model, sums, a recording or a network
    #[arg(value_name = "FILE", conflicts_with = "calibrate")]
    pub(crate) file: Option<PathBuf>,
    /// Of a model: also write its weights (.npz: weights (channels, filters, latents: the outputs
    /// of a linear decoder), intercept, …)
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) weights: Option<PathBuf>,
    /// Of a recording: also draw raster, rates, gaps and tuning (.svg)
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) picture: Option<PathBuf>,
    /// Time training on this machine for a few seconds and keep what `--device auto` goes by
    #[arg(long)]
    pub(crate) calibrate: bool,
}

/// Arguments of `betz mine`.
#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  betz mine spikes.csv --interval 0,0.005 --interval 0.005,0.01 --threshold 300\n  betz mine spikes.csv --interval 0.004,0.006 --threshold 240 --surrogates 999 --fdr 0.01 --parts"
)]
pub struct Mine {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Events: .csv (label,seconds a line) or a recording (.npz); - is standard input
    #[arg(value_name = "EVENTS")]
    pub(crate) events: PathBuf,
    /// Delay between neighbours, low < delay <= high, in seconds; repeat for a set of intervals
    #[arg(long = "interval", value_name = "LOW,HIGH", allow_hyphen_values = true)]
    pub(crate) intervals: Vec<String>,
    /// An episode is frequent when it occurs at least this often without overlap
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["count_only", "shard"],
        required_unless_present_any = ["count_only", "shard"]
    )]
    pub(crate) threshold: Option<u64>,
    /// Longest episode to look for, in symbols; default: until no longer one is frequent
    #[arg(long, value_name = "K")]
    pub(crate) max_size: Option<usize>,
    /// Count just the episodes of this file, one per line: labels separated by spaces, or the full
    /// text form `a3 -(0.004,0.006]-> a5`. A label with a space or an edge in it, or one that begins
    /// with # or a quote, stands in quotes: `"left 3" "a->b"`
    #[arg(long, value_name = "FILE")]
    pub(crate) count_only: Option<PathBuf>,
    /// Count in shard K of N of the recording's time (.npz) alone, and write to --out what `betz join` makes the counts of
    /// the whole of: the episodes of --count-only, or without it every symbol
    #[arg(
        long,
        value_name = "K/N",
        value_parser = shard,
        requires = "out",
        conflicts_with_all = ["max_size", "maximal", "csv", "graph", "picture", "replay", "surrogates", "sort"]
    )]
    pub(crate) shard: Option<Shard>,
    /// With --shard: the file to write
    #[arg(long, value_name = "PART", requires = "shard")]
    pub(crate) out: Option<PathBuf>,
    /// Read the recording (.npz) in stretches, once for each batch of candidates, so that its events take about this
    /// much of memory, such as 1GiB, however long it is; candidates come on top. Counts and p-values are the same
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) memory: Option<u64>,
    /// How to count (all give the same counts): latest-start, or as published serial, two-pass, hybrid,
    /// map-concat, local-tracking, local-tracking-atomic
    #[arg(long, value_name = "NAME", default_value = "latest-start")]
    pub(crate) strategy: String,
    /// Sort events that are out of order instead of refusing them
    #[arg(long)]
    pub(crate) sort: bool,
    /// Print at most this many episodes in the table (longest, then most frequent, first)
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) top: usize,
    /// List only episodes that are no part of a longer one of the list
    #[arg(long)]
    pub(crate) maximal: bool,
    /// Also write all episodes found here, as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Also write the connectivity that the episodes imply (.dot or .graphml)
    #[arg(long, value_name = "FILE")]
    pub(crate) graph: Option<PathBuf>,
    /// Also draw a raster with the strongest chains marked (.svg)
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Replay the events at this multiple of real time (above 1 fast-forwards, below 1 plays
    /// slowly) through the online miner, and show the top episodes as they evolve
    #[arg(
        long,
        value_name = "SPEED",
        conflicts_with_all = ["csv", "graph", "picture", "maximal", "surrogates"]
    )]
    pub(crate) replay: Option<f64>,
    /// With --replay: mine this much of the latest events again, four times a window, and watch
    /// what is frequent in it. Trials follow each other in it without the silence between
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub(crate) window: f64,
    #[command(flatten)]
    pub(crate) chance: Chance,
}

/// Which counts are more than chance.
#[derive(Args)]
#[command(next_help_heading = "Against chance")]
pub(crate) struct Chance {
    /// Count the episodes found in N surrogates too: the expected count, a p-value (at least 1 / (N +
    /// 1)) and a false discovery rate q for each. Mined and tested on the same events, p is a ranking;
    /// as a test it is strict only for episodes chosen elsewhere (--count-only). Counted where
    /// --device says, and made there if dithered; with --memory, on the CPU
    #[arg(long, value_name = "N")]
    pub(crate) surrogates: Option<u32>,
    /// Surrogates: every event moved at random by up to this [default: four times the longest
    /// delay of the episodes tested]
    #[arg(long, value_name = "SECONDS", requires = "surrogates")]
    pub(crate) dither: Option<f64>,
    /// Surrogates: every symbol's intervals between spikes in random order
    #[arg(long, requires = "surrogates", conflicts_with = "dither")]
    pub(crate) shuffle: bool,
    /// Seed of the surrogates
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// List only episodes with a q of at most this (0.01: one false in a hundred)
    #[arg(long, value_name = "Q", requires = "surrogates")]
    pub(crate) fdr: Option<f64>,
    /// List only chains: episodes of which every part matters as well. They are tested size by size;
    /// each part in turn is moved against the rest by 20 to 200 times the longest delay of the
    /// episodes tested, N times (pairs: 4 N), and trials that last less than 60 times that delay are
    /// left out of this
    #[arg(long, requires = "fdr")]
    pub(crate) parts: bool,
}
