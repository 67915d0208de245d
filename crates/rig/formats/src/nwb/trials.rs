//! Trials: from their table, or from what stands in its place.

use betz_base::error::Result;

use super::hdf5::File;
use super::intervals::{self, Interval, TRIALS};
use super::series;
use crate::Report;

/// (start, stop) of each trial in seconds, ascending and apart, from the tables `wanted`, or from `intervals/trials`; empty
/// where the file says nothing of trials.
pub(super) fn read(file: &File, wanted: &[String], report: &mut Report) -> Result<Vec<Interval>> {
    if !wanted.is_empty() {
        let mut trials = Vec::new();
        for name in wanted {
            trials.extend(intervals::read(file, name)?);
        }
        return Ok(intervals::apart(trials, "trial", &mut report.notes));
    }
    if file.has(&format!("{TRIALS}/start_time")) {
        let trials = intervals::read(file, TRIALS)?;
        return Ok(intervals::apart(trials, "trial", &mut report.notes));
    }
    if file.has("acquisition/TrialNum/data") {
        let numbers = series::read(file, "acquisition/TrialNum", &mut Report::default())?;
        report
            .notes
            .push("no table of trials: taken from runs of acquisition/TrialNum".to_owned());
        return Ok(runs(&numbers.values, &numbers.times));
    }
    Ok(Vec::new())
}

/// Runs of one number: each ends with its last sample's period.
fn runs(numbers: &[f64], times: &[f64]) -> Vec<(f64, f64)> {
    let mut runs = Vec::new();
    let mut first = 0;
    for i in 1..=numbers.len() {
        if i == numbers.len() || numbers[i] != numbers[first] {
            let period = if i >= 2 {
                times[i - 1] - times[i - 2]
            } else {
                0.0
            };
            let stop = times.get(i).copied().unwrap_or(times[i - 1] + period);
            if numbers[first].is_finite() && times[first] < stop {
                runs.push((times[first], stop));
            }
            first = i;
        }
    }
    runs
}
