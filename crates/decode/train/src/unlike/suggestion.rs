//! Recalibration of a running session: suggested when a window is full, applied on request, and undone.

use super::recalibrate::{Recalibration, recalibrate};
use super::recent::RecentSteps;
use betz_base::error::Result;
use betz_base::memory;
use betz_base::progress::Progress;
use betz_recording::Dataset;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{PreparedModel, Replay, StepRecord, SwapOptions, SwapState, Swapper};

/// A recalibration from a window, such as [`recalibrate`].
type Solve = fn(&Decoder, &Dataset, &dyn Progress) -> Result<(Recalibration, Option<Decoder>)>;

/// The part of the usual warm-up that a model takes which has heard the newest spikes.
const HEARD: u64 = 5;

/// Report of the newest window, and the recalibration in use.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Suggestion {
    /// Tick of the window's last step.
    pub tick: i64,
    /// The recalibration of this window.
    pub found: Recalibration,
    /// True if [`UnlikeWorker::apply`](super::UnlikeWorker::apply) would give the session a recalibrated model.
    pub suggested: bool,
    /// True if the session runs a recalibrated model, as far as [`UnlikeWorker::apply`](super::UnlikeWorker::apply) and
    /// [`UnlikeWorker::roll_back`](super::UnlikeWorker::roll_back) know.
    pub applied: bool,
    /// Reason to go back to the model as it was trained; `None` if there is none, or if no recalibrated model runs.
    pub roll_back: Option<String>,
}

/// Result of [`UnlikeWorker::apply`](super::UnlikeWorker::apply).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelChange {
    /// Nothing is suggested; the session's model stays.
    None,
    /// The session changes to the recalibrated model.
    Recalibrated,
    /// The session changes back to the model as it was trained.
    RolledBack,
}

/// Windows of a session, and the models that they suggest.
pub(super) struct Suggester {
    trained: Decoder,
    /// Solver of a window; nothing is suggested without one, and a program that asks for none does not contain it.
    solve: Option<Solve>,
    /// Fingerprint of the model as it was trained.
    fingerprint: u64,
    recent: RecentSteps,
    newest: Option<Suggestion>,
    /// The model that is suggested.
    suggested: Option<Decoder>,
    applied: Option<InUse>,
}

/// The recalibration that the session runs.
struct InUse {
    gains: Vec<f64>,
    decoder: Decoder,
    fingerprint: u64,
    /// True if it replaced the model as it was trained.
    from_trained: bool,
}

impl Suggester {
    pub(super) fn new(decoder: &Decoder, window_steps: u64) -> Result<Self> {
        Ok(Self {
            trained: decoder.clone(),
            solve: None,
            fingerprint: PreparedModel::new(decoder, None)?.decoder_fingerprint(),
            recent: RecentSteps::new(window_steps),
            newest: None,
            suggested: None,
            applied: None,
        })
    }

    /// Suggests a recalibration of each whole window from now on.
    pub(super) fn begin(&mut self) {
        self.solve = Some(recalibrate);
    }

    /// Takes a step. True if the newest ones fill a window, for [`look`](Self::look).
    pub(super) fn step(&mut self, record: &StepRecord, pause: Option<u64>) -> bool {
        if self.solve.is_none() {
            return false;
        }
        self.recent.push(record, pause);
        self.recent.is_new()
    }

    pub(super) fn newest(&self) -> Option<&Suggestion> {
        self.newest.as_ref()
    }

    pub(super) fn model(&self) -> Option<&Decoder> {
        self.suggested.as_ref()
    }

    /// The model that the session runs, as far as `apply` and `roll_back` know.
    pub(super) fn running(&self) -> &Decoder {
        (self.applied.as_ref()).map_or(&self.trained, |in_use| &in_use.decoder)
    }

    /// Looks at the newest steps, which fill a window; the next window begins after them.
    pub(super) fn look(&mut self, tick: i64) {
        let Some(solve) = self.solve else {
            return;
        };
        let (found, decoder) = match self.recalibrate(solve) {
            Ok(done) => done,
            Err(error) => (Recalibration::refused(error.to_string()), None),
        };
        let roll_back = (self.applied.as_ref()).and_then(|in_use| in_use.is_worse(&found));
        self.suggested = decoder.filter(|_| roll_back.is_none());
        self.newest = Some(Suggestion {
            tick,
            found,
            suggested: self.suggested.is_some(),
            applied: self.applied.is_some(),
            roll_back,
        });
        self.recent.see();
    }

    fn recalibrate(&self, solve: Solve) -> Result<(Recalibration, Option<Decoder>)> {
        // Γ of the window, of training and of the recalibrated model, and the solver's copies.
        let square = self
            .trained
            .features()
            .saturating_mul(self.trained.features());
        memory::expect("recalibration", square.saturating_mul(6 * size_of::<f64>()))?;
        let window = self.recent.recording(&self.trained)?;
        solve(&self.trained, &window, &())
    }

    /// Gives the session of `swapper` the model that is suggested, or the one as it was trained if it should go back.
    pub(super) fn apply(&mut self, swapper: &mut Swapper) -> Result<ModelChange> {
        if self.newest.as_ref().is_some_and(|n| n.roll_back.is_some()) {
            return Ok(match self.roll_back(swapper)? {
                true => ModelChange::RolledBack,
                false => ModelChange::None,
            });
        }
        let (Some(decoder), Some(newest)) = (self.suggested.take(), &mut self.newest) else {
            return Ok(ModelChange::None);
        };
        let before = swapper.progress().running;
        let given = give(&decoder, &self.recent, swapper);
        let fingerprint = match given {
            Ok(fingerprint) => fingerprint,
            Err(error) => {
                self.suggested = Some(decoder);
                return Err(error);
            }
        };
        self.applied = Some(InUse {
            gains: newest.found.gains.clone(),
            decoder,
            fingerprint,
            from_trained: before == self.fingerprint,
        });
        (newest.applied, newest.suggested) = (true, false);
        // The next report is of steps after this one only.
        self.recent.see();
        Ok(ModelChange::Recalibrated)
    }

    /// Returns the session of `swapper` to the model as it was trained; false if it runs no recalibration.
    pub(super) fn roll_back(&mut self, swapper: &mut Swapper) -> Result<bool> {
        let Some(in_use) = &self.applied else {
            return Ok(false);
        };
        let now = swapper.progress();
        let stands_by = now.state != SwapState::Idle && in_use.from_trained;
        // Exact and at the next step, unless the trained model was released or another one was swapped in since.
        match stands_by && (now.state != SwapState::TakenOver || now.running == in_use.fingerprint)
        {
            true => swapper.roll_back()?,
            false => give(&self.trained, &self.recent, swapper).map(drop)?,
        }
        self.note_rolled_back();
        Ok(true)
    }

    /// Takes note that the session was given `decoder`, a recalibration of these gains.
    pub(super) fn note_applied(&mut self, decoder: Decoder, gains: Vec<f64>, fingerprint: u64) {
        self.applied = Some(InUse {
            gains,
            decoder,
            fingerprint,
            from_trained: false,
        });
        self.note_change(true);
    }

    /// Takes note that the session runs the model as it was trained.
    pub(super) fn note_rolled_back(&mut self) {
        self.applied = None;
        self.note_change(false);
    }

    /// The next report is of steps after this one only.
    fn note_change(&mut self, applied: bool) {
        self.suggested = None;
        if let Some(newest) = &mut self.newest {
            (newest.applied, newest.suggested) = (applied, false);
            newest.roll_back = None;
        }
        self.recent.see();
    }
}

impl InUse {
    /// Reason why the model as it was trained fits the window `found` better.
    fn is_worse(&self, found: &Recalibration) -> Option<String> {
        if let Some(refusal) = &found.refusal {
            return Some(format!(
                "the newest window does not suggest a recalibration any more: {refusal}"
            ));
        }
        let distance = |to: &dyn Fn(usize) -> f64| -> f64 {
            let differences = found.gains.iter().enumerate().map(|(c, gain)| gain - to(c));
            differences.map(|d| d * d).sum()
        };
        (distance(&|c| self.gains[c]) > distance(&|_| 1.0)).then(|| {
            "the gains of the newest window are nearer to those in training than to the recalibrated ones".to_owned()
        })
    }
}

/// Swaps `decoder` in, warmed up with the newest spikes if there are enough; returns its fingerprint.
fn give(decoder: &Decoder, recent: &RecentSteps, swapper: &mut Swapper) -> Result<u64> {
    let model = PreparedModel::new(decoder, None)?;
    let memory = model.memory_steps();
    let heard = recent.replay(memory);
    let replay = heard.as_ref().map(|(spikes, end)| Replay {
        spikes,
        end_tick: *end,
    });
    let options = SwapOptions {
        warm_up_steps: replay.is_some().then_some(memory.div_ceil(HEARD)),
        replay,
        ..SwapOptions::default()
    };
    swapper.swap_with(decoder, &options)?;
    Ok(model.decoder_fingerprint())
}
