//! Arguments of `betz train`.

use std::path::PathBuf;

use betz::train::Kind;
use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};

use crate::bank::FilterOptions;
use crate::common_args::{Common, Part, Weights, chunk_memory, memory_size};
use crate::parse::positive_seconds;

/// Arguments of `betz train`.
#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub struct Train {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Memory to use on each GPU at most, such as 2GiB or 500MB; larger problems are computed in
    /// parts
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) device_memory: Option<u64>,
    /// Read the recording (.npz) in chunks, so that it takes about SIZE of memory, such as 1GiB,
    /// whatever its length. Sums and linear systems are not included. Results are equal up to
    /// rounding
    #[arg(long, value_name = "SIZE", value_parser = chunk_memory)]
    pub(crate) memory: Option<u64>,
    /// Multiply in TF32 when a GPU computes Γ by the dense path: faster with many channels, less
    /// exact. The error is measured on a sample and reported
    #[arg(long)]
    pub(crate) tf32: bool,
    /// Recording with behaviour (.npz, .nwb)
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Model file to write
    #[arg(long, value_name = "MODEL")]
    pub(crate) out: PathBuf,
    /// Length of one step in seconds [default: the bin of a binned recording; of spike times, the
    /// best of the interval between samples of behaviour, 0.02, 0.05 and 0.1 for a linear decoder
    /// (0.005 with --folds 0 or --memory); with --decoder place: 0.1, or the interval between
    /// samples of behaviour if that is longer]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) step: Option<f64>,
    /// Filter bank: auto (chosen by cross-validation), single (10 ms), slow (0.1 to 10 s), reach
    /// (10 to 800 ms) or wide (10 ms to 3 s)
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        conflicts_with = "filters"
    )]
    pub(crate) bank: String,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
    /// Ridge added to the diagonal of the centred Γ (a sum over steps, not a mean) [default: chosen
    /// by cross-validation; with --folds 0: by generalised cross-validation]
    #[arg(long, value_name = "LAMBDA", conflicts_with = "noise")]
    pub(crate) ridge: Option<f64>,
    /// Neural noise: standard deviation on each feature, as a fraction of the largest response
    #[arg(long, value_name = "FRACTION")]
    pub(crate) noise: Option<f64>,
    /// Number of cross-validation folds, up to 1000: over segments, or over contiguous blocks of a
    /// single segment. 0: none
    #[arg(long, default_value_t = 5)]
    pub(crate) folds: u32,
    /// Method that computes Γ
    #[arg(long, value_enum, default_value_t = Gram::Auto)]
    pub(crate) gram: Gram,
    /// Method that solves the linear system
    #[arg(long, value_enum, default_value_t = SolverName::Cholesky)]
    pub(crate) solver: SolverName,
    /// Delay of the output behind the behaviour, in seconds, rounded to whole steps (negative:
    /// ahead), or auto: estimated by cross-correlation over lags of up to 0.5 s in both directions, or of
    /// TIME with auto:TIME
    #[arg(
        long,
        value_name = "SECONDS|auto[:TIME]",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub(crate) delay: String,
    /// Butterworth low-pass on the responses, as HZ or HZ:ORDER (order 1 to 8, default 2) [default:
    /// none]
    #[arg(long, value_name = "HZ[:ORDER]")]
    pub(crate) low_pass: Option<String>,
    /// Decoder kind. auto blends several. linear is one matrix, trained at once [default: auto; linear
    /// with --gate, --memory, --phases, --retain or --folds 0; classes with --labels]
    #[arg(
        long,
        value_enum,
        default_value_t = DecoderKind::Auto,
        hide_default_value = true,
        default_value_ifs([
            ("gate", ArgPredicate::IsPresent, "linear"),
            ("labels", ArgPredicate::IsPresent, "classes"),
            ("memory", ArgPredicate::IsPresent, "linear"),
            ("phases", ArgPredicate::Equals("true".into()), "linear"),
            ("retain", ArgPredicate::IsPresent, "linear"),
            ("folds", ArgPredicate::Equals("0".into()), "linear"),
        ])
    )]
    pub(crate) decoder: DecoderKind,
    /// With --decoder auto: time that training may take on this machine, about, such as 10s. Members
    /// of the blend are left out until the expected time is below, the most costly first [default: no
    /// limit]
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    pub(crate) budget: Option<f64>,
    /// Train on labels, to decode classes: a column of whole numbers (-1: none), a condition such as
    /// move=speed>60 (in the outputs' unit), or a file of intervals in seconds (.csv with
    /// start,stop,name per line; .npz with these arrays)
    #[arg(long, value_name = "COLUMN|CONDITION|FILE")]
    pub(crate) labels: Option<String>,
    /// With --labels and --decoder linear: gate the velocities by the probability of this class
    #[arg(long, value_name = "CLASS")]
    pub(crate) gate: Option<String>,
    /// False alarms per minute that the events of a class may make
    #[arg(long, value_name = "RATE", default_value_t = 1.0)]
    pub(crate) false_alarms: f64,
    /// Share of each class in use, separated by commas, in the order of the classes [default: the
    /// shares in training]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "labels")]
    pub(crate) priors: Option<Vec<f64>>,
    /// Number of latents of a lift, of experts or of classes [default: by cross-validation, up to 12]
    #[arg(long, value_name = "N")]
    pub(crate) latents: Option<usize>,
    /// Number of experts [default: by cross-validation]
    #[arg(long, value_name = "N")]
    pub(crate) experts: Option<usize>,
    /// Number of random features of a lift or of classes [default: by cross-validation, up to 256;
    /// 128 for classes]
    #[arg(long, value_name = "N")]
    pub(crate) lift_units: Option<usize>,
    /// Number of cells of a place decoder along the longest axis [default: 28]
    #[arg(long, value_name = "N")]
    pub(crate) cells: Option<usize>,
    /// With --decoder place: decode spikes by their features (amplitudes on a tetrode's wires), without
    /// sorted units. An .npz has an array spike_features, one row per spike, and a channel per
    /// electrode group; an NWB file has a SpikeEventSeries per group. Steps are 0.02 s unless --step says otherwise
    #[arg(long)]
    pub(crate) marks: bool,
    /// Units of each layer of a recurrent decoder, multiples of 16, separated by commas [default: 64,64 for
    /// trials, 64 for continuous recordings]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) layers: Option<Vec<usize>>,
    /// Number of networks that a recurrent decoder averages [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) members: Option<usize>,
    /// Number of networks of a recurrent decoder that are trained on mixtures of trials; it follows them where
    /// they part from the others, as in directions that training left out [default: 1 over trials, 0 over
    /// continuous recordings]
    #[arg(long, value_name = "N")]
    pub(crate) mixed: Option<usize>,
    /// Number of passes over the recording that train a recurrent decoder [default: 140 over trials, 150
    /// over continuous recordings; 400 over 64 trials or fewer, with more left out of each pass]
    #[arg(long, value_name = "N")]
    pub(crate) epochs: Option<usize>,
    /// Numbers that the matrices of a recurrent decoder are rounded to, before it is scored: of bf16 a step of a large
    /// network reads half the memory, of int8 a quarter [default: bf16 in layers of 128 units or more, f32 in others]
    #[arg(long, value_enum)]
    pub(crate) weights: Option<Weights>,
    /// Number of random units to combine into each multi-unit channel
    #[arg(long, value_name = "K", conflicts_with = "groups")]
    pub(crate) units: Option<usize>,
    /// File that lists the units to combine: one channel per line, names or numbers separated by
    /// spaces
    #[arg(long, value_name = "FILE")]
    pub(crate) groups: Option<PathBuf>,
    /// Refuse channels that make Γ singular (silent channels, or copies) instead of masking them
    #[arg(long)]
    pub(crate) refuse_dead: bool,
    /// Train on steps with far more spikes than usual as they are, and decode them as they are
    /// [default: they are artefacts, trained on and decoded as if they were usual]
    #[arg(long)]
    pub(crate) keep_artefacts: bool,
    /// Store the sufficient statistics in the model file, in at most SIZE such as 64MiB, for `betz
    /// drop`, `betz adapt` and `betz solve` [without SIZE: 256MiB].
    /// Linear decoders, lift and experts only
    #[arg(
        long,
        value_name = "SIZE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "256MiB",
        value_parser = memory_size
    )]
    pub(crate) retain: Option<u64>,
    /// Also estimate the variance of every output. Adds the cost of one more readout to each step.
    /// Lift and experts only
    #[arg(long)]
    pub(crate) variance: bool,
    /// Train in one order, which depends on neither processor nor system: factor by plain loops, on the CPU, without
    /// transforms. docs/safety.md lists the systems whose models were compared. Takes several times as long for hundreds of features (docs/systems.md)
    #[arg(long, conflicts_with_all = ["budget", "marks", "memory"])]
    pub(crate) same_bits: bool,
    /// Print how long each part takes: reading, filtering, Γ, Υ, factor or inverse, φ, choosing the ridge and
    /// scoring. On a GPU, times are those of the first device's clock. Linear decoders only
    #[arg(long, conflicts_with_all = ["memory", "labels"])]
    pub(crate) phases: bool,
    /// Seed of random multi-unit groups, of a lift's projections, of the search for experts and of networks
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// The decoder kinds of `--decoder`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecoderKind {
    /// Linear readout of filtered spikes
    Linear,
    /// Linear readout of random features of a few latents
    Lift,
    /// Several linear readouts of a few latents, mixed by where the latents are
    Experts,
    /// Steady-state Kalman filter
    Kalman,
    /// Kalman filter trained on intended movement: velocities turned towards the end of each trial
    Refit,
    /// Bayes' rule on a grid of places, for place cells; outputs are coordinates
    Place,
    /// Layers of gated recurrent units on the counts of a bin
    Recurrent,
    /// Probabilities of classes, from --labels
    Classes,
    /// Linear, lift, experts and recurrent side by side, weighted by how they decode what they were not trained on
    Auto,
    /// The best one of these kinds on data that come after its training, or on trials held out
    Best,
}

impl DecoderKind {
    /// The kind as training names it; `None` for the choice among several.
    pub(crate) const fn kind(self) -> Option<Kind> {
        Some(match self {
            Self::Linear => Kind::Linear,
            Self::Lift => Kind::Lift,
            Self::Experts => Kind::Experts,
            Self::Kalman => Kind::Kalman,
            Self::Refit => Kind::Refit,
            Self::Place => Kind::Place,
            Self::Recurrent => Kind::Recurrent,
            // Classes do not compete with kinds that estimate numbers.
            Self::Classes => Kind::Linear,
            Self::Auto | Self::Best => return None,
        })
    }
}

/// Methods that compute Γ.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Gram {
    /// The cheaper one
    Auto,
    /// Filter the spikes, then multiply
    Dense,
    /// Compute Γ from pairs of spikes
    Event,
}

/// Methods that solve Γφ = Υ.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum SolverName {
    /// Cholesky factorisation
    Cholesky,
    /// Explicit inverse, as in Galbraith 2010
    Inverse,
}
