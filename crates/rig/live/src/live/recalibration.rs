//! Recalibration without labels in a session: what a window suggests, and giving it to the session.

use betz_base::{Error, Result};
use betz_train::unlike::Suggestion;

use super::{Live, decoding};
use crate::recalibrate::Recalibrator;

impl Live {
    /// The newest whole window of a session that recalibrates (`recalibrate.mode`), with the gains and reasons of its suggestion;
    /// `None` before the first.
    pub fn suggestion(&self) -> Option<Suggestion> {
        self.recalibrator
            .as_ref()
            .and_then(Recalibrator::suggestion)
    }

    /// Takes what the newest window suggests, and gives it to the session if the plan says so.
    pub(super) fn follow_recalibration(&mut self) -> Result<()> {
        let wanted = self.recalibrator.as_mut().is_some_and(Recalibrator::follow);
        // Another model than that of the beginning was swapped in: whoever did so decides.
        if wanted && self.runs_its_own()? {
            self.accept_recalibration()?;
        }
        Ok(())
    }

    /// True if the session runs the model that it began with, or a recalibration of it.
    fn runs_its_own(&mut self) -> Result<bool> {
        let pipeline = decoding(&mut self.pipeline, "accept")?;
        let decodes = pipeline.session_mut().model().decoder_fingerprint();
        let models = std::iter::once(decodes).chain(self.swaps.newest());
        let recalibrator = self.recalibrator.as_ref();
        Ok(recalibrator.is_some_and(|recalibrator| recalibrator.knows(models)))
    }

    /// Gives the session the model that the newest window suggests; false if there is none.
    pub(super) fn accept_recalibration(&mut self) -> Result<bool> {
        let Some(recalibrator) = &mut self.recalibrator else {
            return Ok(false);
        };
        recalibrator.follow();
        let Some(offer) = recalibrator.take_waiting() else {
            return Ok(false);
        };
        // Exact and at the next step, if the model as it was trained stands by.
        let stands_by = recalibrator.is_first() && recalibrator.running() == self.swaps.newest();
        if !self.runs_its_own()? {
            return Err(Error::argument(
                "accept: expected a session that runs the model that it began with, or a recalibration of it, got one that another model was swapped into",
            ));
        }
        let is_exact = offer.is_trained() && stands_by && self.roll_back().is_ok();
        if !is_exact {
            self.swap_prepared(offer.swap())?;
        }
        if let Some(recalibrator) = &mut self.recalibrator {
            recalibrator.note_given(offer);
        }
        Ok(true)
    }
}
