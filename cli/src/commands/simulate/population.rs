//! A tuned population and its behaviour: recordings with a known truth to decode.

use std::path::Path;

use betz::recording::Recording;
use betz::recording::multiunit::random_groups;
use betz::simulate::population::{self, PopulationConfig};
use betz::{Error, Result};
use serde::Serialize;

use super::args::Simulate;
use super::recording_file::RecordingFile;
use crate::files::{Files, Kind};
use crate::parse;
use crate::report::{self, Bar, Outcome};

/// Length of a recording and number of neurons unless told otherwise.
const SECONDS: f64 = 100.0;
const NEURONS: usize = 150;
const TICK_SECONDS: f64 = 0.000_25;

#[derive(Serialize)]
struct PopulationReport {
    recordings: Vec<RecordingFile>,
    neurons: usize,
    seed: u64,
    simulation_seconds: f64,
}

pub(super) fn run(args: &Simulate, out: &Path) -> Result<()> {
    let (asked, neurons) = (&args.population, args.neurons.unwrap_or(NEURONS));
    for path in [out].into_iter().chain(asked.test_out.as_deref()) {
        if path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("csv"))
        {
            return Err(Error::argument(format!(
                "{}: a population has behaviour, which takes an .npz file (only networks go to .csv)",
                path.display()
            )));
        }
    }
    let mut files = Files::new(&args.common);
    files.writes("--out", out, Kind::Simulated)?;
    files.may_write("--test-out", asked.test_out.as_deref(), Kind::Simulated)?;
    if asked.units == 0 {
        return Err(Error::argument("--units: expected at least 1, got 0"));
    }
    let (low, high) = parse::pair("--rates", &asked.rates)?;
    let config = PopulationConfig {
        neurons,
        step_seconds: args.tick.unwrap_or(TICK_SECONDS),
        train_seconds: args.seconds.unwrap_or(SECONDS),
        test_seconds: asked.test_seconds,
        max_rate_hz: low..high,
        ..PopulationConfig::default()
    };
    let bar = Bar::new();
    let made = population::simulate(&config, args.seed)?;
    let groups = random_groups(neurons, asked.units, args.seed);
    let heard = |recording: Recording| match asked.units {
        1 => Ok(recording),
        _ => recording.combine(&groups),
    };
    let mut recordings = vec![write(&heard(made.train)?, out)?];
    if let Some(path) = &asked.test_out {
        recordings.push(write(&heard(made.test)?, path)?);
    }
    let simulated = PopulationReport {
        recordings,
        neurons,
        seed: args.seed,
        simulation_seconds: bar.seconds(),
    };
    report::tell(&simulated, args.common.json)
}

impl Outcome for PopulationReport {
    fn print(&self) -> Result<()> {
        self.recordings.iter().try_for_each(RecordingFile::print)
    }
}

fn write(recording: &Recording, path: &Path) -> Result<RecordingFile> {
    recording.write_npz(path)?;
    Ok(RecordingFile::new(recording, path))
}
