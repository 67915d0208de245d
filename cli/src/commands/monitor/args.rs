//! Arguments of `betz monitor`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part};
use crate::page::Page;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz monitor --demo\n  betz monitor --simulate cuba --control\n  betz monitor model.betz session.npz --speed 2 --deadline 500\n  betz monitor model.betz session.npz --control --with other.betz\n  betz monitor model.betz session.npz --episodes episodes.csv\n\nThe address that is printed has a token in it: who has it may look. Elsewhere than on this machine: ssh -L."
)]
pub(crate) struct Monitor {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Model file
    #[arg(value_name = "MODEL", required_unless_present_any = ["demo", "simulate"])]
    pub(crate) model: Option<PathBuf>,
    /// Recording (.npz)
    #[arg(value_name = "RECORDING", required_unless_present_any = ["demo", "simulate"])]
    pub(crate) recording: Option<PathBuf>,
    /// Simulate a population, train a decoder on it, and watch that
    #[arg(long, conflicts_with_all = ["model", "recording", "segments", "from", "until", "max_gap"])]
    pub(crate) demo: bool,
    /// Watch a spiking network: cuba, brunel, pd14, ring:N, full:N, random:N,S (synapses) or a file of JSON; with
    /// --control the page moves a stimulus and asks for other networks
    #[arg(long, value_name = "NETWORK", conflicts_with_all = ["model", "recording", "demo", "repeat", "with", "deadline", "segments", "from", "until", "max_gap"])]
    pub(crate) simulate: Option<String>,
    /// Keep this part of a model's neurons
    #[arg(long, value_name = "PART", requires = "simulate")]
    pub(crate) scale: Option<f64>,
    /// Seed of the network
    #[arg(long, value_name = "N", default_value_t = 1, requires = "simulate")]
    pub(crate) seed: u64,
    /// Neurons whose membrane potentials are drawn, up to 8, such as 0,7 [default: the first of each population]
    #[arg(long, value_name = "LIST", requires = "simulate")]
    pub(crate) trace: Option<String>,
    /// Multiple of real time
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    pub(crate) speed: f64,
    /// Begin again when the recording ends (--demo always does)
    #[arg(long)]
    pub(crate) repeat: bool,
    /// Deadline of one step in microseconds; steps that take longer are marked, and what lay around them is kept
    #[arg(long, value_name = "US", default_value_t = 1000.0)]
    pub(crate) deadline: f64,
    /// Models that may be swapped in from the page, with --control
    #[arg(long, value_name = "MODEL", requires = "control")]
    pub(crate) with: Vec<PathBuf>,
    /// Episodes to count while the session runs: a list of `betz mine --csv`
    #[arg(long, value_name = "FILE", conflicts_with = "simulate")]
    pub(crate) episodes: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) page: Page,
}
