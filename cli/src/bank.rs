//! Banks, low-passes and delays as the command line says them.

use betz::model::LowPass;
use betz::psc::FilterBank;
use betz::train::{PRESETS, Preset, filters};
use betz::{Error, Result};
use clap::Args;
use serde::Serialize;

use crate::parse;
use crate::report;

/// Filters as the JSON names them.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum FilterShape {
    Recursive {
        tau_seconds: f64,
        order: u32,
    },
    Sampled {
        name: String,
        samples: usize,
        first_step: i64,
    },
}

/// The filters of `bank` for the JSON.
pub(crate) fn shapes(bank: &FilterBank) -> Vec<FilterShape> {
    let recursive = bank.filters().iter().map(|f| FilterShape::Recursive {
        tau_seconds: f.tau_seconds,
        order: f.order,
    });
    let sampled = bank.sampled().iter().map(|f| FilterShape::Sampled {
        name: f.name().to_owned(),
        samples: f.samples().len(),
        first_step: f.start(),
    });
    recursive.chain(sampled).collect()
}

/// `filters` as TAU:ORDER, or by name.
pub(crate) fn text(filters: &[FilterShape]) -> String {
    let shapes: Vec<String> = (filters.iter())
        .map(|f| match f {
            FilterShape::Recursive { tau_seconds, order } => {
                format!("{}:{order}", report::number(*tau_seconds))
            }
            FilterShape::Sampled { name, .. } => name.clone(),
        })
        .collect();
    shapes.join(" ")
}

/// Options that name a bank.
#[derive(Args, Clone, Default)]
pub(crate) struct FilterOptions {
    /// One filter or basis; repeat for a bank. TAU:ORDER (t^n e^(-t/tau), tau in seconds),
    /// boxcar:50ms, gauss:30ms (looks ahead: offline only), halfgauss:60ms, biexp:0.5ms:5ms,
    /// cosine:8:10ms..800ms (raised cosines in log time) or file:NAME (time and value, or .npy).
    /// @TIME behind a filter shifts it
    #[arg(long = "filter", value_name = "FILTER", allow_hyphen_values = true)]
    pub(crate) filters: Vec<String>,
    /// Keep the gain of filters from files, which are scaled to a sum of one otherwise
    #[arg(long, requires = "filters")]
    pub(crate) keep_gain: bool,
}

impl FilterOptions {
    /// The bank that `--filter` or else `--bank` names, on steps of `step_seconds`; `or` is what else the latter may
    /// be.
    pub(crate) fn named(&self, bank: &str, or: &str, step_seconds: f64) -> Result<FilterBank> {
        if !self.filters.is_empty() {
            return filters::bank(&self.filters, step_seconds, self.keep_gain);
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

    /// [`named`](Self::named); `None` when cross-validation over `folds` folds is to choose.
    pub(crate) fn chosen(
        &self,
        bank: &str,
        folds: u32,
        step_seconds: f64,
    ) -> Result<Option<FilterBank>> {
        if !self.filters.is_empty() || bank != "auto" {
            return self.named(bank, "auto or ", step_seconds).map(Some);
        }
        if folds == 0 {
            return Err(Error::argument(
                "--bank auto: expected --folds of at least 2 to choose by, got 0",
            ));
        }
        Ok(None)
    }
}

/// Refuses filters of `bank` that look ahead, where `expected` says what would take them.
pub(crate) fn refuse_ahead(bank: &FilterBank, expected: &str) -> Result<()> {
    let Some(filter) = bank.sampled().iter().find(|filter| filter.ahead() > 0) else {
        return Ok(());
    };
    let (name, ahead) = (filter.name(), filter.ahead() as f64 * filter.step_seconds());
    Err(Error::argument(format!(
        "--filter {name}: expected {expected}, got a filter that looks {ahead} s ahead; or shift it: --filter {name}@{ahead}s"
    )))
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
