//! `betz drift`: a recording whose units change from a moment on, to test decoders on.

use betz::simulate::drift::{Drift, Drifted, drift};
use betz::{Error, Result};
use serde::Serialize;

use super::written::Written;
use crate::adapt_args;
use crate::data;
use crate::device;
use crate::files::{Files, Kind};
use crate::report;

#[derive(Serialize)]
struct Facts {
    recording: Written,
    at_seconds: f64,
    seed: u64,
    /// Names of the units that each change concerned.
    lost: Vec<String>,
    weaker: Vec<String>,
    swapped: Vec<String>,
    screaming: Vec<String>,
}

pub(crate) fn run(args: &adapt_args::Drift) -> Result<()> {
    Files::new(&args.common)
        .reads("RECORDING", &args.recording)
        .writes("--out", &args.out, Kind::Simulated)?;
    device::cpu_for("drift", &args.common.device)?;
    let gain = (args.gain.as_deref())
        .map(|text| data::parse_pair("--gain", text))
        .transpose()?;
    if args.lose + args.swap + args.scream == 0 && gain.is_none() {
        return Err(Error::argument(
            "expected a change, one of --lose, --gain, --swap and --scream, got none",
        ));
    }
    let recording = data::read_recording(&args.recording, &args.behavior)?;
    let asked = Drift {
        lose: args.lose,
        gain,
        swap: args.swap,
        scream: args.scream,
        at_seconds: args.at,
        seed: args.seed,
    };
    let (drifted, units) = drift(&recording, &asked)?;
    drifted.write_npz(&args.out)?;
    let names = |units: &[u32]| -> Vec<String> {
        let name = |&u: &u32| drifted.channel_names[u as usize].clone();
        units.iter().map(name).collect()
    };
    let Drifted {
        lost,
        weaker,
        swapped,
        screaming,
    } = &units;
    let facts = Facts {
        recording: Written::new(&drifted, &args.out),
        at_seconds: args.at,
        seed: args.seed,
        lost: names(lost),
        weaker: names(weaker),
        swapped: names(swapped),
        screaming: names(screaming),
    };
    if args.common.json {
        return report::json(&facts);
    }
    facts.recording.print()?;
    for (what, units) in [
        ("lost", &facts.lost),
        ("with fewer spikes", &facts.weaker),
        ("exchanged", &facts.swapped),
        ("screaming", &facts.screaming),
    ] {
        if !units.is_empty() {
            report::line(&format!(
                "{what} from {} s on: {}",
                facts.at_seconds,
                units.join(" ")
            ))?;
        }
    }
    Ok(())
}
