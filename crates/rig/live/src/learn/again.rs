//! The trainer of a recorded session, run again by its replay.

use std::collections::BTreeSet;

use betz_base::{Error, Result};
use betz_rigs::rig::notes::NoteContent;
use betz_runtime::model::Decoder;
use betz_runtime::stream::Session;
use betz_train::online::{Verdict, Worker};
use betz_train::retained::StoredStatistics;
use serde::Serialize;

use super::feed::TrialFeed;
use super::open_worker;
use crate::pipeline::Step;
use crate::plan::{LearnMode, Plan};
use crate::swap::PreparedSwap;

/// A model that the recorded session was given, and that the trainer did not make again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherModel {
    /// Step at which it was given.
    pub step: u64,
    /// Fingerprint of the model, which names its file in the recording.
    pub fingerprint: String,
}

/// Result of learning again from a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RelearnReport {
    /// Trials learned from.
    pub trials: u64,
    /// Trials that were not learned from.
    pub dropped: u64,
    /// Candidates that the trainer accepted.
    pub accepted: u64,
    /// Candidates that it refused.
    pub refused: u64,
    /// Models that it took back.
    pub rolled_back: u64,
    /// Models that the recorded session was given, and that the trainer had made again by then, bit by bit.
    pub equal: u64,
    /// Models that the recorded session was given, and that the trainer had not made again.
    pub other: u64,
    /// The first of them.
    pub first_other: Option<OtherModel>,
}

/// A trainer that works between two records of a replay, on the thread of the replay.
pub(crate) struct Relearner {
    feed: TrialFeed,
    worker: Worker,
    /// Fingerprints of the models that the trainer has made.
    models: BTreeSet<u64>,
    /// Counts of the sessions before a kill.
    before: RelearnReport,
}

impl Relearner {
    /// The trainer of a recorded session that began with `model`.
    ///
    /// # Errors
    /// `InvalidArgument` for a session without a trainer; the errors of the trainer.
    pub(crate) fn open(plan: &Plan, model: &Decoder, session: &mut Session) -> Result<Self> {
        if plan.learn.mode == LearnMode::Off {
            return Err(Error::argument(
                "relearn: expected the recording of a session with a trainer (learn.mode), got one of \"off\"",
            ));
        }
        let (tap, labels, worker) = open_worker(plan, model)?;
        session.attach(Box::new(tap), 0)?;
        Ok(Self {
            feed: TrialFeed::new(labels, plan.labels.wait, model.step_seconds())?,
            worker,
            models: BTreeSet::new(),
            before: RelearnReport::default(),
        })
    }

    /// Begins again as a session does that goes on after a kill: with the model that decoded, if it has kept its sums.
    ///
    /// # Errors
    /// As [`Relearner::open`].
    pub(crate) fn resume(
        &mut self,
        plan: &Plan,
        start: &Decoder,
        decodes: &Decoder,
        session: &mut Session,
    ) -> Result<()> {
        let before = self.report();
        let models = std::mem::take(&mut self.models);
        let model = match StoredStatistics::read(decodes) {
            Ok(_) => decodes,
            Err(_) => start,
        };
        *self = Self {
            models,
            before,
            ..Self::open(plan, model, session)?
        };
        Ok(())
    }

    /// Takes a recorded label, or the begin or end of a trial; `open` is the step that is being filled.
    pub(crate) fn note(&mut self, step: u64, open: u64, content: &NoteContent) {
        self.feed.note(step, open, content);
    }

    /// Takes note of a step that was made.
    pub(crate) fn made(&mut self, step: &Step<'_>) {
        self.feed.made(step);
    }

    /// Learns from the trials that have ended; `open` is the step that is being filled.
    ///
    /// # Errors
    /// The errors of [`Worker::work`] and of models that it makes.
    pub(crate) fn work(&mut self, open: u64) -> Result<()> {
        self.feed.follow(open);
        while let Some(verdict) = self.worker.work()? {
            if matches!(verdict, Verdict::Accepted { .. } | Verdict::RolledBack) {
                let swap = PreparedSwap::new(self.worker.model(), None)?;
                self.models.insert(swap.fingerprint());
            }
        }
        Ok(())
    }

    /// Compares a model that the recorded session was given.
    pub(crate) fn compare(&mut self, step: u64, fingerprint: u64) {
        let counts = &mut self.before;
        if self.models.contains(&fingerprint) {
            counts.equal += 1;
            return;
        }
        counts.other += 1;
        counts.first_other.get_or_insert_with(|| OtherModel {
            step,
            fingerprint: format!("{fingerprint:016x}"),
        });
    }

    /// Counts so far.
    pub(crate) fn report(&self) -> RelearnReport {
        let (state, before) = (self.worker.state(), &self.before);
        RelearnReport {
            trials: before.trials + state.trials,
            dropped: before.dropped + state.dropped.total(),
            accepted: before.accepted + state.accepted,
            refused: before.refused + state.refused,
            rolled_back: before.rolled_back + state.rolled_back,
            ..before.clone()
        }
    }
}
