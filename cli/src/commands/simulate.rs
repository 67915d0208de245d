//! `betz simulate`: recordings with a known truth.

use std::path::Path;

use betz::recording::Recording;
use betz::recording::multiunit::random_groups;
use betz::simulate::population::{self, PopulationConfig};
use betz::{Error, Result};
use serde::Serialize;

use crate::args::Simulate;
use crate::data;
use crate::report::{self, Bar};

#[derive(Serialize)]
struct Written {
    file: String,
    channels: usize,
    spikes: usize,
    seconds: f64,
    mean_rate_hz: f64,
}

#[derive(Serialize)]
struct Simulated {
    recordings: Vec<Written>,
    neurons: usize,
    seed: u64,
    simulation_seconds: f64,
}

pub(crate) fn run(args: &Simulate) -> Result<()> {
    if args.units == 0 {
        return Err(Error::argument("--units: expected at least 1, got 0"));
    }
    let (low, high) = data::parse_pair("--rates", &args.rates)?;
    let config = PopulationConfig {
        neurons: args.neurons,
        step_seconds: args.tick,
        train_seconds: args.seconds,
        test_seconds: args.test_seconds,
        max_rate_hz: low..high,
        ..PopulationConfig::default()
    };
    let bar = Bar::new();
    let made = population::simulate(&config, args.seed)?;
    let groups = random_groups(args.neurons, args.units, args.seed);
    let heard = |recording: Recording| match args.units {
        1 => Ok(recording),
        _ => recording.combine(&groups),
    };
    let mut recordings = vec![write(&heard(made.train)?, &args.out)?];
    if let Some(path) = &args.test_out {
        recordings.push(write(&heard(made.test)?, path)?);
    }
    let simulated = Simulated {
        recordings,
        neurons: args.neurons,
        seed: args.seed,
        simulation_seconds: bar.seconds(),
    };
    if args.common.json {
        return report::json(&simulated);
    }
    for w in &simulated.recordings {
        report::line(&format!(
            "{}: {} channels, {} spikes in {} s, {:.1} Hz a channel",
            w.file, w.channels, w.spikes, w.seconds, w.mean_rate_hz
        ))?;
    }
    Ok(())
}

fn write(recording: &Recording, path: &Path) -> Result<Written> {
    recording.write_npz(path)?;
    let (channels, seconds) = (recording.channels(), recording.seconds());
    Ok(Written {
        file: path.display().to_string(),
        channels,
        spikes: recording.spikes.len(),
        seconds,
        mean_rate_hz: recording.spikes.len() as f64 / channels as f64 / seconds,
    })
}
