//! Options of the commands that serve a page.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz monitor --demo\n  betz monitor model.betz session.npz --speed 2 --deadline 500\n  betz monitor model.betz session.npz --control --with other.betz\n\nThe address that is printed has a token in it: who has it may look. Elsewhere than on this machine: ssh -L."
)]
pub(crate) struct Monitor {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Model file
    #[arg(value_name = "MODEL", required_unless_present = "demo")]
    pub(crate) model: Option<PathBuf>,
    /// Recording (.npz)
    #[arg(value_name = "RECORDING", required_unless_present = "demo")]
    pub(crate) recording: Option<PathBuf>,
    /// Simulate a population, train a decoder on it, and watch that
    #[arg(long, conflicts_with_all = ["model", "recording", "segments", "from", "until", "max_gap"])]
    pub(crate) demo: bool,
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
    #[command(flatten)]
    pub(crate) page: Page,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz serve session.npz\n  betz serve model.betz monday.npz tuesday.npz"
)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Recordings (.npz), and at most one model, whose estimates are shown beside what was recorded
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) page: Page,
}

/// How a page is served.
#[derive(Args)]
#[command(next_help_heading = "The page")]
pub(crate) struct Page {
    /// Port to listen on; 0 is any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// Address to listen on; elsewhere than on loopback, everybody on the way reads along: there is no TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Another name that the server answers to
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Let whoever reaches it look; on loopback only
    #[arg(long)]
    pub(crate) no_token: bool,
    /// Let the page swap models, roll back, mask channels and set marks
    #[arg(long)]
    pub(crate) control: bool,
    /// Do not open a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// The page's files from this folder instead of those built in (for work on the page)
    #[arg(long = "page", value_name = "FOLDER", hide = true)]
    pub(crate) folder: Option<PathBuf>,
}
