//! The rate-based baseline: linear decoders of rates in windows beside those of the temporal code, on single units and on
//! multi-unit channels.
//!
//! A rate is the number of spikes of a channel in the window before a step (Herzfeld and Beardsley 2010): a boxcar filter
//! of that length, decoded by the same optimal linear decoder.

use std::time::Instant;

use betz::device::Device;
use betz::model::OutputScore;
use betz::recording::multiunit::random_groups;
use betz::recording::{Dataset, Recording};
use betz::train::{Training, filters};
use betz::{Error, Progress, Result};
use serde::Serialize;

use super::args::Compare;
use super::linear_training;
use crate::bank::{self, FilterShape};
use crate::report::{self, Table, count};

/// A linear decoder of one code on one kind of channels.
#[derive(Serialize)]
pub(super) struct CodeRow {
    /// Number of units in a channel: 1 for single units.
    units: usize,
    channels: usize,
    /// `rate` or `temporal`.
    code: &'static str,
    filters: Vec<FilterShape>,
    ridge: f64,
    /// Means over outputs.
    r2: f64,
    nrmse: f64,
    outputs: Vec<OutputScore>,
    /// Time of cross-validation and training.
    seconds: f64,
}

/// The windows of `--rates` as banks of one filter, on steps of `step_seconds`.
fn windows(args: &Compare, step_seconds: f64) -> Result<Vec<Training>> {
    let training = linear_training(args, step_seconds)?;
    let one = |seconds: &f64| {
        let text = format!("boxcar:{seconds}s");
        let bank = filters::bank(&[text], step_seconds, false);
        let bank = bank.map_err(|e| e.at("--rates"))?;
        Ok(Training {
            bank: Some(bank),
            ..training.clone()
        })
    };
    args.rates.iter().map(one).collect()
}

/// `recording` with the channels of `--units`; `None` without this option.
///
/// # Errors
/// More units than the recording has, or fewer than two.
pub(super) fn multi_unit(args: &Compare, recording: &Recording) -> Result<Option<Recording>> {
    let Some(units) = args.units else {
        return Ok(None);
    };
    let channels = recording.channels();
    if !(2..=channels).contains(&units) {
        return Err(Error::argument(format!(
            "--units: expected 2 to {channels} (the recording's channels), got {units}"
        )));
    }
    let groups = random_groups(channels, units, args.seed);
    recording.combine(&groups).map(Some)
}

/// Refuses windows that make no filter, before the work.
pub(super) fn check(args: &Compare, step_seconds: f64) -> Result<()> {
    windows(args, step_seconds).map(|_| ())
}

/// Number of trainings that [`rows`] does.
pub(super) fn trainings(args: &Compare) -> usize {
    match args.rates.len() {
        0 => 0,
        windows => (windows + 1) * (1 + usize::from(args.units.is_some())),
    }
}

/// Rates of every window and the temporal code, on `single` units and on `several` in a channel. `share` makes the progress
/// of one training.
pub(super) fn rows<P: Progress>(
    args: &Compare,
    (single, several): (&Dataset, Option<&Dataset>),
    device: &Device,
    share: impl Fn(usize, &str) -> P,
) -> Result<Vec<CodeRow>> {
    if args.rates.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    let several = several.map(|data| (args.units.unwrap_or(1), data));
    for (units, data) in std::iter::once((1, single)).chain(several) {
        let rates = windows(args, data.step_seconds)?;
        let rates = rates.into_iter().map(|training| ("rate", training));
        let temporal = linear_training(args, data.step_seconds)?;
        for (code, training) in rates.chain([("temporal", temporal)]) {
            let started = Instant::now();
            let outcome = training.run_linear(data, device, &share(rows.len(), code))?;
            let record = outcome.decoder.training();
            let mean = |of: fn(&OutputScore) -> f64| {
                let known: Vec<f64> = (record.scores.iter().map(of))
                    .filter(|value| !value.is_nan())
                    .collect();
                known.iter().sum::<f64>() / known.len() as f64
            };
            rows.push(CodeRow {
                units,
                channels: data.channels(),
                code,
                filters: bank::shapes(outcome.decoder.bank()),
                ridge: record.ridge,
                r2: mean(|score| score.r2),
                nrmse: mean(|score| score.nrmse_std),
                outputs: record.scores.clone(),
                seconds: started.elapsed().as_secs_f64(),
            });
        }
    }
    Ok(rows)
}

/// Prints the table of `rows`.
pub(super) fn print(rows: &[CodeRow], folds: u32) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    report::line(&format!(
        "linear decoders of rates and of the temporal code, {folds} folds:"
    ))?;
    let mut table = Table::new(&["channels", "code", "R²", "NRMSE", "seconds", "filters"]);
    for row in rows {
        table.row([
            match row.units {
                1 => count(row.channels as u128, "single unit"),
                units => format!("{} of {units} units", row.channels),
            },
            row.code.to_owned(),
            format!("{:.4}", row.r2),
            format!("{:.3}", row.nrmse),
            format!("{:.2}", row.seconds),
            bank::text(&row.filters),
        ]);
    }
    table.print()?;
    report::line("NRMSE: RMSE / standard deviation, mean over outputs")
}
