//! `betz simulate drift`: a recording whose units change from a moment on, to test decoders with.

use std::path::PathBuf;

use betz::simulate::drift;
use betz::{Error, Result};
use clap::Args;
use serde::Serialize;

use super::recording_file::RecordingFile;
use crate::common_args::{Behaviors, Common};
use crate::data;
use crate::device;
use crate::files::{Files, Kind};
use crate::parse::{self, seconds};
use crate::report::{self, Outcome};

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: betz simulate drift reach.npz --lose 24 --at 1300 --seed 3 --out drifted.npz"
)]
pub(crate) struct Drift {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) behavior: Behaviors,
    /// Recording of spikes or counts (.npz)
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Recording to write (.npz)
    #[arg(long, value_name = "RECORDING")]
    pub(crate) out: PathBuf,
    /// Time of the change, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) at: f64,
    /// Number of units to silence
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) lose: usize,
    /// Thin half of the units: each keeps a share of its spikes, drawn between LOW and HIGH
    #[arg(long, value_name = "LOW,HIGH")]
    pub(crate) gain: Option<String>,
    /// Number of units whose spikes appear on another unit's channel
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) swap: usize,
    /// Number of units that fire at 120 Hz throughout
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) scream: usize,
    /// Seed of all random draws
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Serialize)]
struct Facts {
    recording: RecordingFile,
    at_seconds: f64,
    seed: u64,
    /// Names of the units that each change concerned.
    lost: Vec<String>,
    weaker: Vec<String>,
    swapped: Vec<String>,
    screaming: Vec<String>,
}

pub(crate) fn run(args: &Drift) -> Result<()> {
    Files::new(&args.common)
        .reads("RECORDING", &args.recording)
        .writes("--out", &args.out, Kind::Simulated)?;
    device::cpu_for("drift", &args.common.device)?;
    let gain = (args.gain.as_deref())
        .map(|text| parse::pair("--gain", text))
        .transpose()?;
    if args.lose + args.swap + args.scream == 0 && gain.is_none() {
        return Err(Error::argument(
            "expected a change, one of --lose, --gain, --swap and --scream, got none",
        ));
    }
    let recording = data::read_recording(&args.recording, &args.behavior)?;
    let change = drift::Drift {
        lose: args.lose,
        gain,
        swap: args.swap,
        scream: args.scream,
        at_seconds: args.at,
        seed: args.seed,
    };
    let (drifted, units) = drift::drift(&recording, &change)?;
    drifted.write_npz(&args.out)?;
    let names = |units: &[u32]| -> Vec<String> {
        let name = |&u: &u32| drifted.channel_names[u as usize].clone();
        units.iter().map(name).collect()
    };
    let facts = Facts {
        recording: RecordingFile::new(&drifted, &args.out),
        at_seconds: args.at,
        seed: args.seed,
        lost: names(&units.lost),
        weaker: names(&units.weaker),
        swapped: names(&units.swapped),
        screaming: names(&units.screaming),
    };
    report::tell(&facts, args.common.json)
}

impl Outcome for Facts {
    fn print(&self) -> Result<()> {
        self.recording.print()?;
        for (change, units) in [
            ("lost", &self.lost),
            ("with fewer spikes", &self.weaker),
            ("exchanged", &self.swapped),
            ("screaming", &self.screaming),
        ] {
            if !units.is_empty() {
                report::line(&format!(
                    "{change} from {} s on: {}",
                    self.at_seconds,
                    units.join(" ")
                ))?;
            }
        }
        Ok(())
    }
}
