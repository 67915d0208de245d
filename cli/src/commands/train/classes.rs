//! `betz train --labels`: a decoder of classes, or a linear one that a class gates.

use betz::device::Device;
use betz::model::Decoder;
use betz::recording::{AlignReport, Dataset};
use betz::train::{ClassOptions, ClassReport, GateReport, Training, TrainingOutcome};
use betz::{Error, Result};
use serde::Serialize;

use super::args::{DecoderKind, Train};
use crate::labels;
use crate::report::{self, Bar, Outcome};

#[derive(Serialize)]
struct ClassTrainingReport {
    model: String,
    decoder: &'static str,
    channels: usize,
    masked_channels: usize,
    latents: usize,
    step_seconds: f64,
    folds: u32,
    classes: ClassReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<Gate>,
    aligned: AlignReport,
    seconds: f64,
    total_seconds: f64,
    device: String,
}

#[derive(Serialize)]
struct Gate {
    class: String,
    closed: f64,
    slope: f64,
    r2_before: f64,
    r2: f64,
}

/// Refuses options that do not go together.
pub(super) fn check(args: &Train) -> Result<()> {
    let wrong = |text: &str| Err(Error::argument(text.to_owned()));
    let is_classes = args.decoder == DecoderKind::Classes;
    match (&args.labels, &args.gate) {
        (None, Some(_)) => wrong("--gate: expected --labels, which name the classes; got none"),
        (None, None) if is_classes => {
            wrong("--decoder classes: expected --labels COLUMN|CONDITION|FILE, got none")
        }
        (Some(_), Some(_)) if args.decoder != DecoderKind::Linear => {
            wrong("--gate: expected --decoder linear, which alone gains by a gate")
        }
        (Some(_), None) if !is_classes => wrong(
            "--labels: expected --decoder classes, or --gate CLASS with --decoder linear, got neither; leave --decoder out to \
             train classes",
        ),
        (Some(_), _) if args.memory.is_some() => {
            wrong("--labels: expected a recording that fits in memory, got --memory")
        }
        (Some(_), _) if args.variance => wrong(
            "--variance: expected a lift or experts, got classes, whose probabilities say how sure they are",
        ),
        _ => Ok(()),
    }
}

/// Trains on the labels that `text` names; returns the model.
pub(super) fn run(
    args: &Train,
    text: &str,
    (dataset, aligned): (&Dataset, AlignReport),
    (training, device): (&Training, &Device),
    finish: impl FnOnce(Decoder) -> Result<Decoder>,
) -> Result<()> {
    let bar = Bar::new();
    let options = ClassOptions {
        false_alarms: args.false_alarms,
        priors: args.priors.clone(),
        ..ClassOptions::default()
    };
    let labels = labels::read(text, dataset)?;
    let (outcome, classes, gate): (TrainingOutcome, ClassReport, Option<Gate>) = match &args.gate {
        None => {
            let (outcome, report) =
                training.run_classes(dataset, &labels, &options, device, &bar)?;
            (outcome, report, None)
        }
        Some(gate) => {
            let (outcome, report) =
                training.run_gated(dataset, (&labels, gate), &options, device, &bar)?;
            let GateReport {
                class,
                closed,
                slope,
                r2_before,
                r2,
                classes,
            } = report;
            let gate = Gate {
                class,
                closed,
                slope,
                r2_before,
                r2,
            };
            (outcome, classes, Some(gate))
        }
    };
    let model = labels::marked(finish(outcome.decoder)?, text)?;
    report::check_interrupt("training")?;
    model.save(&args.out)?;
    let report = ClassTrainingReport {
        model: args.out.display().to_string(),
        decoder: model.kind(),
        channels: model.channels(),
        masked_channels: model.channel_mask().iter().filter(|used| !**used).count(),
        latents: model.latents(),
        step_seconds: model.step_seconds(),
        folds: model.training().folds,
        classes,
        gate,
        aligned,
        seconds: bar.seconds(),
        total_seconds: report::total_seconds(),
        device: outcome.ran.device,
    };
    drop(bar);
    for warning in &outcome.warnings {
        eprintln!("warning: {warning}");
    }
    report::tell(&report, args.common.json)
}

impl Outcome for ClassTrainingReport {
    fn print(&self) -> Result<()> {
        report::line(&format!("scores by {}-fold cross-validation:", self.folds))?;
        labels::print_training(&self.classes)?;
        if let Some(gate) = &self.gate {
            report::line(&format!(
                "gate: velocities times {:.3} + {:.3} p({}); their R² {:.4} before, {:.4} after",
                gate.closed, gate.slope, gate.class, gate.r2_before, gate.r2
            ))?;
        }
        report::line(&format!(
            "{}: {} latents, {} of {} channels, in {:.2} s on {}",
            self.model,
            self.latents,
            self.channels - self.masked_channels,
            self.channels,
            self.seconds,
            self.device
        ))
    }
}
