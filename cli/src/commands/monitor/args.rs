//! Arguments of `betz monitor`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part};
use crate::page::Page;
use crate::parse::microseconds;

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
    /// Recording to run (.npz, .nwb)
    #[arg(value_name = "RECORDING", required_unless_present_any = ["demo", "simulate"])]
    pub(crate) recording: Option<PathBuf>,
    /// Simulate a population, train a decoder on it, and run that
    #[arg(long, conflicts_with_all = ["model", "recording", "segments", "from", "until", "max_gap"])]
    pub(crate) demo: bool,
    /// Spiking network to run instead: cuba, brunel, pd14, ring:N, full:N, random:N,SYNAPSES or a
    /// JSON file. With --control the page moves a stimulus and changes the network
    #[arg(long, value_name = "NETWORK", conflicts_with_all = ["model", "recording", "demo", "repeat", "with", "deadline", "segments", "from", "until", "max_gap"])]
    pub(crate) simulate: Option<String>,
    /// Share of a model network's neurons to keep
    #[arg(long, value_name = "PART", requires = "simulate")]
    pub(crate) scale: Option<f64>,
    /// Seed of the network
    #[arg(long, value_name = "N", default_value_t = 1, requires = "simulate")]
    pub(crate) seed: u64,
    /// Neurons whose membrane potential is drawn, up to 8, such as 0,7 [default: the first of each
    /// population]
    #[arg(long, value_name = "LIST", requires = "simulate")]
    pub(crate) trace: Option<String>,
    /// Speed as a multiple of real time
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    pub(crate) speed: f64,
    /// Start again when the recording ends (--demo always does)
    #[arg(long)]
    pub(crate) repeat: bool,
    /// Deadline of one step in microseconds; slower steps are marked, and their surroundings are
    /// kept
    #[arg(long, value_name = "US", value_parser = microseconds, default_value_t = 1000.0)]
    pub(crate) deadline: f64,
    /// Model file that the page may swap in; repeat for several. Needs --control
    #[arg(long, value_name = "MODEL", requires = "control")]
    pub(crate) with: Vec<PathBuf>,
    /// Episodes to count during the session: a list that `betz mine --csv` wrote
    #[arg(long, value_name = "FILE", conflicts_with = "simulate")]
    pub(crate) episodes: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) page: Page,
}
