//! Arguments of `betz train`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::common_args::{Common, Part, memory_size};

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
    /// Passes over the recording that train a recurrent decoder; default: 140 over trials, 150 over
    /// continuous recordings
    #[arg(long, value_name = "N")]
    pub(crate) epochs: Option<usize>,
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
    /// Seed of random multi-unit groups, of a lift's projections, of the search for experts and of networks
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
    /// Layers of gated recurrent units on the counts of a bin
    Recurrent,
    Auto,
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
