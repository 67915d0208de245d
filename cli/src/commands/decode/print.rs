//! The report of `betz decode`.

use betz::Result;
use betz::model::OutputScore;
use serde::Serialize;

use crate::rates::Rates;
use crate::report::{self, Outcome};

#[derive(Serialize)]
pub(super) struct DecodingReport {
    pub(super) out: String,
    /// Scores against the recording's behaviour; `None` if there is none, or none of the model's outputs.
    #[serde(flatten)]
    pub(super) outputs: Option<BehaviorScores>,
    pub(super) output_names: Vec<String>,
    /// Steps that were decoded: those inside segments.
    pub(super) steps: usize,
    pub(super) segments: usize,
    /// Steps of the recording outside the segments that were decoded.
    pub(super) steps_not_decoded: usize,
    /// Rates of channels here and where the model was trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rates_hz: Option<Rates>,
    /// Warnings about what was decoded, and about the scores.
    pub(super) warnings: Vec<String>,
    pub(super) device: String,
    pub(super) total_seconds: f64,
}

#[derive(Serialize)]
pub(super) struct BehaviorScores {
    pub(super) outputs: Vec<OutputScore>,
    /// Steps with behaviour: those that were scored.
    #[serde(rename = "scored_steps")]
    pub(super) steps: usize,
}

impl Outcome for DecodingReport {
    fn print(&self) -> Result<()> {
        if let Some(scored) = &self.outputs {
            report::score_table(&scored.outputs)?;
            report::remarks(&scored.outputs);
            report::line(&format!(
                "scored: {} with behaviour",
                report::count(scored.steps as u128, "step")
            ))?;
        }
        let others = match self.steps_not_decoded {
            0 => String::new(),
            n => format!(
                "; {} outside them not decoded",
                report::count(n as u128, "step")
            ),
        };
        report::line(&format!(
            "{}: {} ({}) at {} in {}, each decoded from rest{others}",
            self.out,
            report::count(self.output_names.len() as u128, "output"),
            self.output_names.join(", "),
            report::count(self.steps as u128, "step"),
            report::count(self.segments as u128, "segment"),
        ))?;
        report::line(&format!(
            "{:.2} s in all, on {}",
            self.total_seconds, self.device
        ))
    }
}
