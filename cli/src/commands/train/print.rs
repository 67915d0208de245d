//! The report of `betz train`.

use betz::model::{Decoder, OutputScore};
use betz::train::{self, Comparison};
use betz::{Result, input_form};
use serde::Serialize;

use super::args::Train;
use crate::bank::{self, FilterShape};
use crate::report::{self, Outcome};

#[derive(Serialize)]
struct TrainingReport {
    model: String,
    decoder: &'static str,
    /// Comparison of the kinds; empty if only the linear one was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<KindRow>,
    /// Steps whose spikes were taken for artefacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    artefacts: Option<usize>,
    channels: usize,
    masked_channels: usize,
    features: usize,
    step_seconds: f64,
    filters: Vec<FilterShape>,
    delay_seconds: f64,
    ridge: f64,
    gram: String,
    solver: String,
    steps: u64,
    segments: u64,
    spikes: u64,
    folds: u32,
    /// Cross-validated: every step decoded by a decoder that did not see it.
    outputs: Vec<OutputScore>,
    seconds: f64,
    /// All of the command's time, reading and writing included.
    total_seconds: f64,
    device: String,
    /// Of a lower precision against full precision, on a sample of Γ, relative to √(Γ_ii Γ_jj).
    #[serde(skip_serializing_if = "Option::is_none")]
    gram_error: Option<GramError>,
    #[serde(skip)]
    model_outputs: usize,
    #[serde(skip)]
    of_signal: bool,
}

/// Cross-validated scores of one kind.
#[derive(Serialize)]
struct KindRow {
    decoder: &'static str,
    configuration: String,
    /// Mean over outputs.
    r2: f64,
    /// In R² on the linear decoder, and its standard error over folds.
    gain: f64,
    gain_error: f64,
    /// Distance that half of the estimated places are closer than; absent where outputs are no coordinates.
    #[serde(skip_serializing_if = "Option::is_none")]
    median_error: Option<f64>,
    /// Of a step, at the recording's mean number of spikes.
    multiply_adds: f64,
    outputs: Vec<OutputScore>,
}

#[derive(Serialize)]
pub(super) struct GramError {
    pub(super) precision: &'static str,
    pub(super) largest: f64,
    pub(super) rms: f64,
}

fn row(score: train::KindScore) -> KindRow {
    KindRow {
        decoder: score.kind.name(),
        configuration: score.configuration,
        r2: score.r2,
        gain: score.gain,
        gain_error: score.gain_error,
        median_error: score.median_error,
        multiply_adds: score.multiply_adds,
        outputs: score.scores,
    }
}

/// One row a kind that was compared.
fn kind_table(trained: &TrainingReport) -> Result<()> {
    if trained.kinds.is_empty() {
        return Ok(());
    }
    let mut table = report::Table::new(&[
        "decoder",
        "R²",
        "gain",
        "median distance",
        "multiply-adds per step",
        "configuration",
    ]);
    for kind in &trained.kinds {
        let gain = if kind.decoder == train::Kind::Linear.name() {
            String::new()
        } else {
            format!("{:+.4} ± {:.4}", kind.gain, kind.gain_error)
        };
        table.row([
            kind.decoder.to_owned(),
            format!("{:.4}", kind.r2),
            gain,
            (kind.median_error).map_or_else(String::new, |d| format!("{d:.4}")),
            format!("{:.0}", kind.multiply_adds),
            kind.configuration.clone(),
        ]);
    }
    table.print()?;
    report::line(&format!("selected: {}", trained.decoder))?;
    match trained.artefacts {
        None | Some(0) => Ok(()),
        Some(steps) => report::line(&format!(
            "artefacts left out: {} with far more spikes than usual",
            report::count(steps as u128, "step")
        )),
    }
}

pub(super) fn print(
    args: &Train,
    model: &Decoder,
    comparison: Option<Comparison>,
    device: String,
    seconds: f64,
    gram_error: Option<GramError>,
) -> Result<()> {
    let record = model.training();
    let trained = TrainingReport {
        model: args.out.display().to_string(),
        decoder: (comparison.as_ref()).map_or(model.kind(), |c| c.taken.name()),
        artefacts: comparison.as_ref().map(|c| c.artefacts),
        kinds: comparison.map_or_else(Vec::new, |c| c.kinds.into_iter().map(row).collect()),
        channels: model.channels(),
        masked_channels: model.channel_mask().iter().filter(|used| !**used).count(),
        features: model.features(),
        step_seconds: model.step_seconds(),
        filters: bank::shapes(model.bank()),
        delay_seconds: model.delay_steps() as f64 * model.step_seconds(),
        ridge: record.ridge,
        gram: record.gram_path.clone(),
        solver: record.solver.clone(),
        steps: record.steps,
        segments: record.segments,
        spikes: record.spikes,
        folds: record.folds,
        outputs: record.scores.clone(),
        seconds,
        total_seconds: report::total_seconds(),
        device,
        gram_error,
        model_outputs: model.outputs().len(),
        of_signal: input_form::is_of_signal(model),
    };
    report::tell(&trained, args.common.json)
}

impl Outcome for TrainingReport {
    fn print(&self) -> Result<()> {
        kind_table(self)?;
        if self.outputs.is_empty() {
            report::line("no scores: --folds 0 turns cross-validation off")?;
        } else {
            report::line(&format!("scores by {}-fold cross-validation:", self.folds))?;
            report::score_table(&self.outputs)?;
            report::remarks(&self.outputs);
        }
        report::line(&format!(
            "bank (tau s:order): {}",
            bank::text(&self.filters)
        ))?;
        let clock = format!(
            "delay {} s, step {} s",
            report::number(self.delay_seconds),
            report::number(self.step_seconds)
        );
        // A decoder of place has neither Γ nor ridge.
        report::line(&match self.gram.as_str() {
            "" => clock,
            gram => format!(
                "ridge {:.4e}, {clock}, Γ {gram}, {}",
                self.ridge, self.solver
            ),
        })?;
        if let Some(error) = &self.gram_error {
            report::line(&format!(
                "Γ in {}: on a sample off by {:.1e} at most, {:.1e} root mean square, of √(Γ_ii Γ_jj)",
                error.precision, error.largest, error.rms
            ))?;
        }
        if self.masked_channels > 0 {
            report::line(&format!(
                "{} of {} masked (silent, or copies of others)",
                self.masked_channels,
                report::count(self.channels as u128, "channel")
            ))?;
        }
        report::line(&format!(
            "{}: {}, {}, trained on {} and {} in {:.2} s ({:.2} s in all) on {}",
            self.model,
            report::count(self.channels as u128, "channel"),
            report::count(self.model_outputs as u128, "output"),
            report::count(self.steps, "step"),
            if self.of_signal {
                "a signal".to_owned()
            } else {
                report::count(self.spikes, "spike")
            },
            self.seconds,
            self.total_seconds,
            self.device
        ))
    }
}
