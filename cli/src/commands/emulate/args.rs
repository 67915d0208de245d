//! Arguments of `betz emulate`.

use std::path::PathBuf;

use clap::Args;

use super::Device;
use crate::parse::seconds;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz emulate cerebus --channels 96\n  betz emulate openephys --at 0.0.0.0:5556 --pulse 1\n  betz emulate spikeglx --from recordings/run-20261124-131500 --repeat\n  betz emulate rhx --from traces.dat --channels 32 --rate 30000 --gain 0.195\n\nThe protocols are made from public sources: see docs/connect.md."
)]
pub(crate) struct Emulate {
    /// Device whose protocol it speaks
    #[arg(value_enum)]
    pub(crate) device: Device,
    /// Send this recording: a folder that `betz run` recorded, with its losses and restarts; or voltage as `betz sort`
    /// reads it [default: a simulated rig with tuned neurons]
    #[arg(long, value_name = "RECORDING")]
    pub(crate) from: Option<PathBuf>,
    /// Begin the recording again at its end, with the device restarted
    #[arg(long, requires = "from")]
    pub(crate) repeat: bool,
    /// Address at which the device is reached [default: the port of the real one on 127.0.0.1]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) at: Option<String>,
    /// Address to which cerebus and udp send; may be a broadcast [default: 127.0.0.1:51002, 127.0.0.1:5000]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) to: Option<String>,
    /// Name of an LSL stream or of shared memory
    #[arg(long, value_name = "NAME", default_value = "betz-emulated")]
    pub(crate) name: String,
    /// Begin when a receiver has connected, where the protocol tells
    #[arg(long)]
    pub(crate) wait: bool,
    /// Seconds after which it ends [default: the recording's end, or no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Pulses per second on digital line 1 (7, SYNC, of spikeglx), high for half of the time; cerebus, nidq,
    /// openephys and spikeglx only
    #[arg(long, value_name = "HZ")]
    pub(crate) pulse: Option<f64>,
    /// Source of a recorded session to send [default: its first]
    #[arg(long, value_name = "NAME", requires = "from")]
    pub(crate) source: Option<String>,
    /// Stream of a recording of voltage that has several
    #[arg(long, value_name = "NAME", requires = "from")]
    pub(crate) stream: Option<String>,
    /// Channels of a simulated rig [default: 96], or of a recording without a header
    #[arg(long, value_name = "N")]
    pub(crate) channels: Option<usize>,
    /// Rows per second of a recording without a header
    #[arg(long, value_name = "HZ", requires = "from")]
    pub(crate) rate: Option<f64>,
    /// Microvolts per bit of a recording without a header
    #[arg(long, value_name = "UV", requires = "from")]
    pub(crate) gain: Option<f64>,
    /// Print one JSON object at the end instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}
