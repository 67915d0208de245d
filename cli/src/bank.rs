//! Banks, low-passes and delays as the command line says them.

use betz::model::LowPass;
use betz::psc::{Filter, FilterBank};
use betz::train::{PRESETS, Preset};
use betz::{Error, Result};
use serde::Serialize;

use crate::parse;
use crate::report;

/// Filters as the JSON names them.
#[derive(Serialize)]
pub(crate) struct FilterShape {
    tau_seconds: f64,
    order: u32,
}

/// The filters of `bank` for the JSON.
pub(crate) fn shapes(bank: &FilterBank) -> Vec<FilterShape> {
    let filters = bank.filters().iter();
    filters
        .map(|f| FilterShape {
            tau_seconds: f.tau_seconds,
            order: f.order,
        })
        .collect()
}

/// `filters` as TAU:ORDER.
pub(crate) fn text(filters: &[FilterShape]) -> String {
    let shapes: Vec<String> = (filters.iter())
        .map(|f| format!("{}:{}", report::number(f.tau_seconds), f.order))
        .collect();
    shapes.join(" ")
}

/// The bank that `--filter` or else `--bank` names; `None` when cross-validation over `folds` folds is to
/// choose.
pub(crate) fn chosen(bank: &str, filters: &[String], folds: u32) -> Result<Option<FilterBank>> {
    if !filters.is_empty() || bank != "auto" {
        return named(bank, filters, "auto or ").map(Some);
    }
    if folds == 0 {
        return Err(Error::argument(
            "--bank auto: expected --folds of at least 2 to choose by, got 0",
        ));
    }
    Ok(None)
}

/// The bank that `--filter` or else `--bank` names; `or` is what else the latter may be.
pub(crate) fn named(bank: &str, filters: &[String], or: &str) -> Result<FilterBank> {
    if !filters.is_empty() {
        let filters: Result<Vec<Filter>> = filters.iter().map(|f| filter(f)).collect();
        return FilterBank::new(filters?);
    }
    let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
    match Preset::named(bank) {
        Some(preset) => preset.bank(),
        None => Err(Error::argument(format!(
            "--bank: expected {or}one of {}, got '{bank}'",
            names.join(", ")
        ))),
    }
}

fn filter(text: &str) -> Result<Filter> {
    let parsed = text
        .split_once(':')
        .and_then(|(tau, order)| Some((parse::seconds(tau).ok()?, order.parse().ok()?)));
    match parsed {
        Some((tau_seconds, order)) => Ok(Filter { tau_seconds, order }),
        None => Err(Error::argument(format!(
            "--filter: expected TAU:ORDER such as 0.05:1, got '{text}'"
        ))),
    }
}

pub(crate) fn low_pass(text: &str) -> Result<LowPass> {
    let (cutoff, order) = text.split_once(':').unwrap_or((text, "2"));
    match (cutoff.parse(), order.parse()) {
        (Ok(cutoff_hz), Ok(order)) => Ok(LowPass { order, cutoff_hz }),
        _ => Err(Error::argument(format!(
            "--low-pass: expected HZ or HZ:ORDER such as 10:2, got '{text}'"
        ))),
    }
}

/// Seconds of `--delay` in whole steps; what was rounded is said on standard error.
pub(crate) fn delay_steps(text: &str, step_seconds: f64) -> Result<i64> {
    let seconds = parse::seconds(text)
        .map_err(|e| Error::argument(format!("--delay: {e}; auto estimates the delay")))?;
    let steps = (seconds / step_seconds).round();
    if !seconds.is_finite() || steps.abs() > 1e15 {
        return Err(Error::argument(format!(
            "--delay: expected a finite time, got {seconds} s"
        )));
    }
    let rounded = steps * step_seconds;
    if (rounded - seconds).abs() > 1e-6 * step_seconds {
        eprintln!(
            "--delay {seconds} s is not a whole number of steps of {step_seconds} s: rounded to {rounded} s"
        );
    }
    Ok(steps as i64)
}
