//! Sessions without a model, which record and decode nothing.

use betz_base::Result;
use betz_recording::OutputInfo;
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};

use super::{Feature, LearnMode, Plan, RecalibrateMode};

/// Length of a step in seconds.
const STEP_SECONDS: f64 = 0.02;
/// Names of the labels' values.
const OUTPUTS: [&str; 2] = ["x", "y"];

impl Plan {
    /// True for a session without a model.
    pub fn records_only(&self) -> bool {
        self.session.model.is_none()
    }

    /// Refuses keys that do not go with a model, or with none.
    pub(super) fn check_model(&self) -> Result<()> {
        let (session, wants) = (&self.session, "without session.model");
        if session.model.is_some() {
            return match (session.step.is_some(), session.outputs.is_some()) {
                (true, _) => {
                    Err(self.refuse("session", "step", "expected none, the model has its own"))
                }
                (_, true) => {
                    Err(self.refuse("session", "outputs", "expected none, the model has its own"))
                }
                _ => Ok(()),
            };
        }
        if self.record.is_none() {
            let message = "expected a model, or record.to to record without one; got neither";
            return Err(self.refuse("session", "model", message));
        }
        if let Some(to) = self.outputs.to.first() {
            let message = format!("expected no address {wants}, got {to:?}");
            return Err(self.refuse("outputs", "to", message));
        }
        if self.learn.mode != LearnMode::Off {
            return Err(self.refuse("learn", "mode", format!("expected \"off\" {wants}")));
        }
        if self.recalibrate.mode != RecalibrateMode::Off {
            let message = format!("expected \"off\" {wants}");
            return Err(self.refuse("recalibrate", "mode", message));
        }
        if session.step.is_some_and(|step| step.seconds() <= 0.0) {
            return Err(self.refuse("session", "step", "expected a time above 0, got 0s"));
        }
        if self.voltage.sorter.is_none() && self.source().channels.is_none() {
            let message = format!("expected the number of channels {wants}, got none");
            return Err(self.refuse("source", "channels", message));
        }
        Ok(())
    }

    /// A stand-in for the model of a session that only records: its outputs are 0, and it gives labels their steps and
    /// names.
    ///
    /// # Errors
    /// `InvalidArgument` with file, line and key for names that outputs cannot have; those of [`Plan::load_sorter`].
    pub(super) fn stand_in(&self) -> Result<Decoder> {
        let channels = match self.voltage.feature {
            Feature::Units => self.load_sorter()?.units().len(),
            Feature::Crossings | Feature::Sbp => {
                self.source().channels.unwrap_or(0) + self.other_channels()
            }
        };
        let step_seconds = self
            .session
            .step
            .map_or(STEP_SECONDS, |step| step.seconds());
        let bank = FilterBank::new(vec![Filter {
            tau_seconds: step_seconds,
            order: 0,
        }])?;
        let outputs: Vec<OutputInfo> = match &self.session.outputs {
            Some(names) => names.iter().map(|name| name.as_str().into()).collect(),
            None => OUTPUTS.map(OutputInfo::from).to_vec(),
        };
        let names = (1..=channels).map(|n| n.to_string()).collect();
        let parts = DecoderParts::linear(step_seconds, bank, names, outputs);
        Decoder::new(parts).map_err(|e| {
            self.refuse("session", "outputs", e.message())
                .of_kind(e.kind())
        })
    }
}
