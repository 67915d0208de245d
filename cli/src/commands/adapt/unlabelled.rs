//! `betz adapt --no-labels`: recalibration for the channels of a recording that has no labels.

use betz::model::Decoder;
use betz::train::unlike::{Recalibration, recalibrate};
use betz::{Error, Result};
use serde::Serialize;

use super::args::{Adapt, NoLabels};
use crate::data;
use crate::report::{self, Bar, Outcome};

/// A gain that differs from 1 by more is printed.
const PRINTED: f64 = 0.2;
/// Number of channels that are printed.
const MOST_PRINTED: usize = 8;

#[derive(Serialize)]
struct RecalibrationReport {
    #[serde(flatten)]
    found: Recalibration,
    /// True if the decoder was recalibrated and written.
    applied: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    device: String,
    total_seconds: f64,
    #[serde(skip)]
    channel_names: Vec<String>,
}

pub(super) fn run(args: &Adapt, mode: NoLabels, device: String) -> Result<()> {
    match (mode, &args.out) {
        (NoLabels::Suggest, Some(_)) => {
            return Err(Error::argument(
                "--out: expected --no-labels=apply, which writes a model, got suggest",
            ));
        }
        (NoLabels::Apply, None) => {
            return Err(Error::argument(
                "--no-labels=apply: expected --out MODEL, the file to write, got none",
            ));
        }
        _ => {}
    }
    let model = Decoder::load(&args.model)?;
    let (dataset, _) = data::dataset_for(&model, &args.recording, &args.part)?;
    let (found, decoder) =
        recalibrate(&model, &dataset, &Bar::new()).map_err(|e| e.at(args.model.display()))?;
    if let Some(path) = &args.out {
        decoder.as_ref().unwrap_or(&model).save(path)?;
    }
    let facts = RecalibrationReport {
        applied: args.out.is_some() && decoder.is_some(),
        found,
        model: args.out.as_ref().map(|path| path.display().to_string()),
        device,
        total_seconds: report::total_seconds(),
        channel_names: model.channel_names().to_vec(),
    };
    report::tell(&facts, args.common.json)
}

impl Outcome for RecalibrationReport {
    fn print(&self) -> Result<()> {
        let found = &self.found;
        report::line(&format!(
            "rates in {:.0} s: behaviour explains {:.0} % of their change, the rest is {:.0} %",
            found.seconds,
            100.0 * found.explained,
            100.0 * found.unexplained
        ))?;
        if let Some(reason) = &found.refusal {
            report::line(&format!("nothing is suggested: {reason}"))?;
            return match &self.model {
                Some(path) => report::line(&format!("{path}: the model as it was")),
                None => Ok(()),
            };
        }
        let gains = found.gains.iter().zip(&self.channel_names);
        let changed: Vec<String> = gains
            .filter(|(gain, _)| (*gain - 1.0).abs() > PRINTED)
            .map(|(gain, name)| format!("{name} × {gain:.2}"))
            .collect();
        let shown = &changed[..changed.len().min(MOST_PRINTED)];
        let more = match changed.len() - shown.len() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        report::line(&format!(
            "gains of {}: {}{more}",
            report::count(changed.len() as u128, "channel"),
            shown.join(", ")
        ))?;
        report::line(&match &self.model {
            Some(path) => format!("{path}: recalibrated; the model before is the way back"),
            None => "recalibration is suggested: --no-labels=apply --out MODEL".to_owned(),
        })
    }
}
