//! Arguments of `betz stream`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part};
use crate::page::SessionPage;
use crate::parse::{microseconds, seconds};

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
    /// Recording to decode (.npz, .nwb), unless --in is given
    #[arg(
        value_name = "RECORDING",
        required_unless_present = "source",
        conflicts_with = "shown"
    )]
    pub(crate) recording: Option<PathBuf>,
    /// Live source instead of a recording: udp://HOST:PORT, cerebus://HOST:PORT?version=4.1,
    /// lsl://NAME, brand://HOST:PORT?nickname=NAME or zmq://HOST:PORT
    #[arg(long = "in", value_name = "URI", conflicts_with_all = ["recording", "counts", "speed", "watch"])]
    pub(crate) source: Option<String>,
    /// Write decoded outputs to this file, .csv, .npz or .nwb, as `betz evaluate` does. With --in, send them to udp://HOST:PORT, lsl://NAME,
    /// brand://HOST:PORT?nickname=NAME or zmq://HOST:PORT?topic=NAME (bound on this machine)
    #[arg(long, value_name = "FILE|URI")]
    pub(crate) out: Option<PathBuf>,
    /// Number of steps after which --in ends [default: no limit]
    #[arg(long, value_name = "N", conflicts_with = "recording")]
    pub(crate) steps: Option<u64>,
    /// Seconds without input after which --in ends [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "recording")]
    pub(crate) silence: Option<f64>,
    /// Deadline of one step in microseconds; steps that take longer are counted
    #[arg(long, value_name = "US", value_parser = microseconds)]
    pub(crate) deadline: Option<f64>,
    /// Feed binned counts instead of spike lists
    #[arg(long)]
    pub(crate) counts: bool,
    /// Require a model that stores the usual spike counts of each channel, to detect dead and
    /// screaming channels
    #[arg(long)]
    pub(crate) watch: bool,
    /// Do not detect dead or screaming channels
    #[arg(long, conflicts_with = "watch")]
    pub(crate) no_watch: bool,
    /// Print how far a moving window of this many seconds is unlike training (100 without a value). Needs a model that was
    /// trained with --retain. What the user does moves it as well as drift does
    #[arg(long, value_name = "SECONDS", value_parser = seconds, num_args = 0..=1, require_equals = true, default_missing_value = "100")]
    pub(crate) unlike: Option<f64>,
    /// Replay speed as a multiple of real time [default: as fast as possible]
    #[arg(long, value_name = "TIMES")]
    pub(crate) speed: Option<f64>,
    #[command(flatten)]
    pub(crate) page: SessionPage,
}

impl Stream {
    /// Destination of outputs of steps that come from no recording.
    ///
    /// # Errors
    /// `InvalidArgument` for a path that is not UTF-8.
    pub(crate) fn sink(&self) -> betz::Result<Option<String>> {
        let Some(path) = &self.out else {
            return Ok(None);
        };
        let text = path.to_str().ok_or_else(|| {
            betz::Error::argument(format!("--out: expected UTF-8, got {}", path.display()))
        })?;
        Ok(Some(text.into()))
    }
}
