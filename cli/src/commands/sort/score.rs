//! `betz sort score`.

use std::path::Path;

use betz::recording::Recording;
use betz::recording::arrays::Arrays;
use betz::sort::score::{Score, Train, score};
use betz::{Error, Result};
use serde::Serialize;

use super::args::SortScore;
use crate::report::{self, Outcome, Table};

#[derive(Serialize)]
struct ScoreReport {
    units: Vec<One>,
    true_units: usize,
    found_units: usize,
    found_per_true_unit: f64,
    /// True units with an accuracy of 0.8 or more.
    well_found: usize,
    accuracy: f64,
    recall: f64,
    precision: f64,
    /// Part of the true spikes beside which there is a sorted spike of any unit.
    detected: f64,
}

#[derive(Serialize)]
struct One {
    unit: u32,
    spikes: u64,
    found: Option<u32>,
    accuracy: f64,
    recall: f64,
    precision: f64,
}

pub(super) fn run(args: &SortScore) -> Result<()> {
    let sorted = Recording::read_npz(&args.spikes)?;
    let tick = sorted.tick_seconds;
    let (samples, units) = truth(&args.truth, tick)?;
    let window = (args.window / tick).round();
    if !(0.0..1e9).contains(&window) {
        return Err(Error::argument(format!(
            "--window: expected seconds, 0 or more, got {}",
            args.window
        )));
    }
    let score = score(
        Train {
            samples: &samples,
            units: &units,
        },
        Train {
            samples: &sorted.spikes.ticks,
            units: &sorted.spikes.channels,
        },
        window as i64,
    )?;
    let scored = ScoreReport::new(&score);
    report::tell(&scored, args.common.json)
}

impl Outcome for ScoreReport {
    fn print(&self) -> Result<()> {
        let mut table = Table::new(&[
            "true unit",
            "spikes",
            "found as",
            "accuracy",
            "recall",
            "precision",
        ]);
        for unit in &self.units {
            table.row([
                unit.unit.to_string(),
                unit.spikes.to_string(),
                unit.found.map_or("–".to_owned(), |f| f.to_string()),
                format!("{:.3}", unit.accuracy),
                format!("{:.3}", unit.recall),
                format!("{:.3}", unit.precision),
            ]);
        }
        table.print()?;
        report::line(&format!(
            "accuracy {:.3}, recall {:.3}, precision {:.3}; {} of {} true units at 0.8 or more; {} units found, {:.2} a true one; {:.1} % of the true spikes detected",
            self.accuracy,
            self.recall,
            self.precision,
            self.well_found,
            self.true_units,
            self.found_units,
            self.found_per_true_unit,
            100.0 * self.detected
        ))
    }
}

impl ScoreReport {
    fn new(score: &Score) -> Self {
        Self {
            units: (score.units.iter())
                .map(|u| One {
                    unit: u.unit,
                    spikes: u.spikes,
                    found: u.found,
                    accuracy: u.accuracy,
                    recall: u.recall,
                    precision: u.precision,
                })
                .collect(),
            true_units: score.units.len(),
            found_units: score.found,
            found_per_true_unit: score.found as f64 / score.units.len().max(1) as f64,
            well_found: score.well_found(),
            accuracy: score.mean(|u| u.accuracy),
            recall: score.mean(|u| u.recall),
            precision: score.mean(|u| u.precision),
            detected: score.detected,
        }
    }
}

/// Samples and units of the truth, on a clock of `tick` seconds.
fn truth(path: &Path, tick: f64) -> Result<(Vec<i64>, Vec<u32>)> {
    let mut arrays = Arrays::open(path)?;
    if !(arrays.has("samples") && arrays.has("units")) {
        let recording = Recording::read_npz(path)?;
        if (recording.tick_seconds - tick).abs() > 1e-9 * tick {
            return Err(Error::mismatch(format!(
                "{}: expected ticks of {tick} s, as the sorted spikes have, got {} s",
                path.display(),
                recording.tick_seconds
            )));
        }
        return Ok((recording.spikes.ticks, recording.spikes.channels));
    }
    let missing = |name: &str| Error::recording(format!("{}: expected `{name}`", path.display()));
    let samples = arrays
        .numbers::<i64>("samples", 1)?
        .ok_or_else(|| missing("samples"))?;
    let units = arrays
        .numbers::<u32>("units", 1)?
        .ok_or_else(|| missing("units"))?;
    Ok((samples.values, units.values))
}
