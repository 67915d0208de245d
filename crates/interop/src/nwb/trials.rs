//! Trials: from their table, or from what stands in its place.

use betz_base::error::Result;

use super::hdf5::File;
use super::series;
use crate::Report;

/// (start, stop) of each trial in seconds, ascending and apart; empty where the file says nothing of trials.
pub(super) fn read(file: &File, report: &mut Report) -> Result<Vec<(f64, f64)>> {
    let table = |column: &str| file.numbers(&format!("intervals/trials/{column}"));
    if let (Some(starts), Some(stops)) = (table("start_time")?, table("stop_time")?) {
        let both = starts.values.into_iter().zip(stops.values);
        return Ok(apart(both.collect(), report));
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

/// Trials that can be told apart; the others are counted.
fn apart(mut trials: Vec<(f64, f64)>, report: &mut Report) -> Vec<(f64, f64)> {
    let all = trials.len();
    trials.retain(|(start, stop)| start.is_finite() && stop.is_finite() && start < stop);
    if trials.len() < all {
        let lost = all - trials.len();
        report.notes.push(format!(
            "{lost} trials without a finite start before their stop were left out"
        ));
    }
    trials.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (before, mut last) = (trials.len(), f64::NEG_INFINITY);
    trials.retain(|&(start, stop)| {
        let free = start >= last;
        if free {
            last = stop;
        }
        free
    });
    if trials.len() < before {
        let lost = before - trials.len();
        report.notes.push(format!(
            "{lost} trials that begin before the one before them ends were left out"
        ));
    }
    trials
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
