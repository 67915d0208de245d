//! The report of `betz train`.

use betz::model::{Decoder, OutputScore};
use betz::recording::AlignReport;
use betz::train::{self, Artefacts, Comparison};
use betz::{Result, input_form};
use serde::Serialize;

use super::args::Train;
use super::phases::PhaseSeconds;
use crate::bank::{self, FilterShape};
use crate::report::{self, Outcome};

#[derive(Serialize)]
struct TrainingReport {
    model: String,
    decoder: &'static str,
    /// Comparison of the kinds; empty if only the linear one was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<KindRow>,
    /// Number of steps whose spikes were taken for artefacts.
    artefacts: u64,
    /// Spikes in these steps, and in all.
    artefact_spikes: u64,
    all_spikes: u64,
    /// Report on the behaviour that was left out or interpolated.
    aligned: AlignReport,
    /// Doubts about the data, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<PhaseSeconds>,
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
    /// In the blend; absent where none was trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
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
        weight: score.weight,
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
        "weight",
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
            (kind.weight).map_or_else(String::new, |weight| format!("{weight:.2}")),
            (kind.median_error).map_or_else(String::new, |d| format!("{d:.4}")),
            format!("{:.0}", kind.multiply_adds),
            kind.configuration.clone(),
        ]);
    }
    table.print()?;
    report::line(&format!("selected: {}", trained.decoder))
}

/// The line above the scores, which says where they come from.
pub(crate) fn scored_on(decoder: &str, folds: u32) -> String {
    match decoder == train::Kind::Blend.name() {
        true => format!("scores on {folds} parts that were held out:"),
        false => format!("scores by {folds}-fold cross-validation:"),
    }
}

/// The line on artefacts.
fn artefacts(trained: &TrainingReport) -> Result<()> {
    if trained.artefacts == 0 {
        return Ok(());
    }
    report::line(&format!(
        "artefacts: {} of {} ({:.2} %) with far more spikes than usual, {} of {}, trained on and decoded as if they were usual (--keep-artefacts keeps them)",
        report::count(u128::from(trained.artefacts), "step"),
        trained.steps,
        100.0 * trained.artefacts as f64 / trained.steps.max(1) as f64,
        trained.artefact_spikes,
        report::count(u128::from(trained.all_spikes), "spike"),
    ))
}

/// Facts of a training that its model does not hold.
pub(super) struct Facts {
    pub(super) aligned: AlignReport,
    pub(super) artefacts: Artefacts,
    pub(super) warnings: Vec<String>,
    pub(super) comparison: Option<Comparison>,
    pub(super) device: String,
    pub(super) seconds: f64,
    pub(super) gram_error: Option<GramError>,
    pub(super) phases: Option<PhaseSeconds>,
}

pub(super) fn print(args: &Train, model: &Decoder, facts: Facts) -> Result<()> {
    let comparison = facts.comparison;
    let record = model.training();
    let trained = TrainingReport {
        model: args.out.display().to_string(),
        decoder: (comparison.as_ref()).map_or(model.kind(), |c| c.taken.name()),
        artefacts: facts.artefacts.steps,
        artefact_spikes: facts.artefacts.spikes,
        all_spikes: facts.artefacts.all_spikes,
        aligned: facts.aligned,
        warnings: facts.warnings,
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
        seconds: facts.seconds,
        total_seconds: report::total_seconds(),
        device: facts.device,
        gram_error: facts.gram_error,
        phases: facts.phases,
        model_outputs: model.outputs().len(),
        of_signal: input_form::is_of_signal(model),
    };
    report::tell(&trained, args.common.json)
}

impl Outcome for TrainingReport {
    fn print(&self) -> Result<()> {
        kind_table(self)?;
        artefacts(self)?;
        if self.outputs.is_empty() {
            report::line("no scores: --folds 0 turns cross-validation off")?;
        } else {
            let blend = train::Kind::Blend.name();
            let is_of_blend = self.kinds.iter().any(|kind| kind.weight.is_some());
            report::line(&scored_on(
                if is_of_blend { blend } else { self.decoder },
                self.folds,
            ))?;
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
        if let Some(phases) = &self.phases {
            phases.print()?;
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
