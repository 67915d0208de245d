//! Arguments of `betz stream`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Common, Part};

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
    #[arg(value_name = "RECORDING", required_unless_present = "source")]
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
    /// Where outputs of steps that are not a recording's go.
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
