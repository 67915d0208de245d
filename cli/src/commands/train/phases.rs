//! `betz train --phases`: seconds of the parts of training.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use betz::train::parts::{CHOOSING, FACTOR, FILTERING, GRAM, INVERSE, SCORING, UPSILON, WEIGHTS};
use betz::{Progress, Result};
use serde::Serialize;

use crate::report::{self, Bar, Table};

/// A bar that adds up the seconds of parts, if they are wanted.
pub(super) struct PartClock<'a> {
    bar: &'a Bar,
    is_on: bool,
    seconds: Mutex<BTreeMap<&'static str, f64>>,
}

impl<'a> PartClock<'a> {
    pub(super) fn new(bar: &'a Bar, is_on: bool) -> Self {
        Self {
            bar,
            is_on,
            seconds: Mutex::default(),
        }
    }

    /// The seconds of parts, of training that took `training` seconds after `reading` seconds; `None` if they are not wanted.
    pub(super) fn phases(self, reading: f64, training: f64) -> Option<PhaseSeconds> {
        let seconds = (self.seconds.into_inner()).unwrap_or_else(PoisonError::into_inner);
        let of = |part: &str| seconds.get(part).copied().unwrap_or(0.0);
        self.is_on.then(|| PhaseSeconds {
            reading,
            filtering: of(FILTERING),
            gram: of(GRAM),
            upsilon: of(UPSILON),
            factor: of(FACTOR),
            inverse: seconds.get(INVERSE).copied(),
            weights: of(WEIGHTS),
            choosing: of(CHOOSING),
            scoring: of(SCORING),
            rest: (training - seconds.values().sum::<f64>()).max(0.0),
        })
    }
}

impl Progress for PartClock<'_> {
    fn update(&self, stage: &str, done: u64, total: u64) {
        self.bar.update(stage, done, total);
    }

    fn cancelled(&self) -> bool {
        self.bar.cancelled()
    }

    fn wants_seconds(&self) -> bool {
        self.is_on
    }

    fn took(&self, part: &'static str, seconds: f64) {
        let mut parts = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        *parts.entry(part).or_default() += seconds;
    }
}

/// Seconds of the parts of training. Those of a device come from its own clock.
#[derive(Serialize)]
pub(super) struct PhaseSeconds {
    /// Reading the recording and putting it on the model's steps.
    reading: f64,
    filtering: f64,
    gram: f64,
    upsilon: f64,
    factor: f64,
    /// Absent with the solver cholesky.
    #[serde(skip_serializing_if = "Option::is_none")]
    inverse: Option<f64>,
    weights: f64,
    /// Choosing ridge and bank by cross-validation.
    choosing: f64,
    /// Decoding and scoring held-out data.
    scoring: f64,
    /// All other work of training: artefacts, limits, copies to a device.
    rest: f64,
}

impl PhaseSeconds {
    /// Prints a table of the parts.
    pub(super) fn print(&self) -> Result<()> {
        let mut table = Table::new(&["part", "seconds"]);
        let mut row = |part: &str, seconds: f64| {
            table.row([part.to_owned(), format!("{seconds:.4}")]);
        };
        row("reading", self.reading);
        row("filtering", self.filtering);
        row("Γ", self.gram);
        row("Υ", self.upsilon);
        row("factor of Γ", self.factor);
        if let Some(inverse) = self.inverse {
            row("inverse of Γ", inverse);
        }
        row("φ", self.weights);
        row("choosing the ridge", self.choosing);
        row("scoring", self.scoring);
        row("all else", self.rest);
        table.print()?;
        if self.filtering == 0.0 {
            report::line("filtering: none, because Γ came from the spikes themselves")?;
        }
        Ok(())
    }
}
