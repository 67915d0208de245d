//! The online trainer of a session: labels in, models out.
//!
//! The trainer works on its own thread. A second one prepares and stores the models that it offers, so that the loop only
//! takes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use betz_base::ring::ring;
use betz_base::{Error, ErrorKind, Result};
use betz_interop::rig::notes::NoteContent;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{Session, StepStatus};
use betz_train::online::{Labels, Trainer, TrainerConfig, Worker};
use ringbuf::traits::{Consumer, Producer};
use ringbuf::{HeapCons, HeapProd};
use serde::Serialize;

use crate::pipeline::Step;
use crate::plan::{LearnMode, Plan};
use crate::swap::PreparedSwap;

/// Time between two looks at the trainer.
const LOOK: Duration = Duration::from_millis(20);
/// Looks from one attempt to store a model to the next: the disk may have room again.
const RETRY: u64 = 50;
/// Labels of steps to come that may wait.
const AHEAD: usize = 1024;
/// Newest steps of which the trainer knows whether data were missing. Labels of older ones come too late.
const REMEMBERED: u64 = 1 << 16;

/// Counts of an online trainer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LearnReport {
    /// Trials learned from.
    pub trials: u64,
    /// Trials that were not learned from.
    pub dropped: u64,
    /// Time of labelled steps that were learned from, in seconds.
    pub labelled_seconds: f64,
    /// Labels that came too late, out of order or without room.
    pub late_labels: u64,
    /// Labels of steps in which data of a source were missing. Such steps are not learned from.
    pub left_out: u64,
    /// Candidates that the trainer accepted.
    pub accepted: u64,
    /// Candidates that it refused.
    pub refused: u64,
    /// Models that it took back.
    pub rolled_back: u64,
    /// Accepted models that could not be stored at once. The newest of them is tried again every second.
    pub unstored: u64,
    /// R² of the model in use, and of the best candidate, at the last comparison; 0 before.
    pub scores: [f64; 2],
    /// True if a model waits for [`Live::accept`](crate::Live::accept).
    pub proposed: bool,
    /// True if the trainer's thread has ended before the session: nothing is learned any more.
    pub dead: bool,
}

/// State that the thread shares with the loop.
#[derive(Default)]
struct OfferState {
    stop: AtomicBool,
    report: Mutex<LearnReport>,
    /// The error that keeps the newest model from being stored.
    failed: Mutex<Option<Error>>,
}

/// The loop's end of the trainer.
pub(crate) struct Learner {
    mode: LearnMode,
    labels: Labels,
    offers: HeapCons<PreparedSwap>,
    proposed: Option<PreparedSwap>,
    state: Arc<OfferState>,
    thread: Option<JoinHandle<()>>,
    /// Labels of steps that are not made yet.
    ahead: BTreeMap<u64, Vec<f32>>,
    /// First step of the epoch, and the session's tick minus the step's number.
    grid: (u64, i64),
    /// The newest step that has a label.
    labelled: Option<u64>,
    late: u64,
    missing: MissingSteps,
    left_out: u64,
}

impl Learner {
    /// A trainer for `session`, if the plan wants one; models that it accepts are stored in `recording`. `has_room` replaces
    /// the allocator's check for memory.
    ///
    /// # Errors
    /// `InvalidArgument` with file, line and key for a model that cannot be trained on; the errors of the threads.
    pub(crate) fn start(
        plan: &Plan,
        model: &Decoder,
        session: &mut Session,
        recording: Option<PathBuf>,
        has_room: Option<fn(usize) -> bool>,
    ) -> Result<Option<Self>> {
        if plan.learn.mode == LearnMode::Off {
            return Ok(None);
        }
        let (tap, labels, mut worker) = open_worker(plan, model)?;
        if let Some(has_room) = has_room {
            worker.set_room(has_room);
        }
        session.attach(Box::new(tap), 0)?;
        let trainer = Trainer::start(worker, None)?;
        let (send, offers) = ring("offers", 4)?;
        let state = Arc::new(OfferState::default());
        let shared = Arc::clone(&state);
        let watches = plan.learn.mode == LearnMode::Watch;
        let thread = std::thread::Builder::new()
            .name("betz-offers".into())
            .spawn(move || offer(&trainer, watches, recording.as_deref(), send, &shared))
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting a thread: {e}")))?;
        Ok(Some(Self {
            mode: plan.learn.mode,
            labels,
            offers,
            proposed: None,
            state,
            thread: Some(thread),
            ahead: BTreeMap::new(),
            grid: (0, 0),
            labelled: None,
            late: 0,
            missing: MissingSteps::new()?,
            left_out: 0,
        }))
    }

    /// Takes a label, or the begin or end of a trial; `open` is the step that is being filled.
    pub(crate) fn note(&mut self, step: u64, open: u64, content: &NoteContent) {
        match content {
            NoteContent::Label(values) if step < open => self.label(step, values),
            NoteContent::Label(values) if self.ahead.len() < AHEAD => {
                self.ahead.insert(step, values.clone());
            }
            NoteContent::Label(_) => self.late += 1,
            NoteContent::Mark(_) => {}
            // A trial has no part of the pause before it.
            NoteContent::TrialBegin => self.end_trial(false),
            NoteContent::TrialEnd => self.end_trial(true),
            NoteContent::TrialReject => self.end_trial(false),
        }
    }

    fn end_trial(&mut self, keep: bool) {
        let begun = self.labelled.take().is_some();
        if keep || begun {
            self.labels.end_trial(keep);
        }
    }

    fn label(&mut self, step: u64, values: &[f32]) {
        let (first, offset) = self.grid;
        let in_order = self.labelled.is_none_or(|newest| step > newest);
        let tick = (step as i64).saturating_add(offset);
        if step < first || !in_order || self.missing.is_forgotten(step) {
            self.late += 1;
        } else if self.missing.contains(step) {
            self.labelled = Some(step);
            self.left_out += 1;
        } else if self.labels.label_at(tick, values).is_ok() {
            self.labelled = Some(step);
        } else {
            // The trainer counts what it refuses, too; the values were looked at before.
            self.late += 1;
        }
    }

    /// Takes note of the quality of a step that was made.
    pub(crate) fn made(&mut self, step: &Step<'_>) {
        let flags = StepStatus::STALE | StepStatus::DROPPED;
        self.missing.set(step.number, step.status.intersects(flags));
    }

    /// Takes note of the steps that were made: the session's next tick, and the step that is open.
    pub(crate) fn follow(&mut self, tick: i64, open: u64) {
        let offset = tick.saturating_sub(open as i64);
        if offset != self.grid.1 {
            // The device has started again: labels of steps before belong to no trial.
            self.grid = (open, offset);
        }
        while let Some(entry) = self.ahead.first_entry() {
            if *entry.key() >= open {
                break;
            }
            let (step, values) = entry.remove_entry();
            self.label(step, &values);
        }
    }

    /// The model that the session is to run, if there is a new one.
    pub(crate) fn take(&mut self) -> Option<PreparedSwap> {
        let mut newest = None;
        while let Some(offer) = self.offers.try_pop() {
            newest = Some(offer);
        }
        if self.mode == LearnMode::Apply {
            return newest;
        }
        self.proposed = newest.or(self.proposed.take());
        None
    }

    /// The model that waits to be accepted.
    pub(crate) fn take_proposed(&mut self) -> Option<PreparedSwap> {
        self.proposed.take()
    }

    /// Counts so far.
    pub(crate) fn report(&self) -> LearnReport {
        let shown = *lock(&self.state.report);
        LearnReport {
            late_labels: shown.late_labels + self.late,
            left_out: self.left_out,
            proposed: self.proposed.is_some(),
            // Without the thread that offers models, none is applied any more either.
            dead: shown.dead || self.thread.as_ref().is_none_or(JoinHandle::is_finished),
            ..shown
        }
    }

    /// The error that keeps the newest model from being stored.
    pub(crate) fn not_stored(&self) -> Option<Error> {
        lock(&self.state.failed).clone()
    }
}

impl Drop for Learner {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by it.
            let _ = thread.join();
        }
    }
}

/// The newest steps in which data of a source were missing. Skipped steps are among them.
struct MissingSteps {
    /// A bit per step.
    bits: Vec<u64>,
    newest: Option<u64>,
}

impl MissingSteps {
    /// No step yet.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn new() -> Result<Self> {
        let words = (REMEMBERED / 64) as usize;
        Ok(Self {
            bits: betz_base::memory::filled("the trainer's steps", 0, words)?,
            newest: None,
        })
    }

    /// The word and the bit of a step.
    fn place(step: u64) -> (usize, u64) {
        let place = step % REMEMBERED;
        ((place / 64) as usize, 1 << (place % 64))
    }

    fn put(&mut self, step: u64, missing: bool) {
        let (word, bit) = Self::place(step);
        match missing {
            true => self.bits[word] |= bit,
            false => self.bits[word] &= !bit,
        }
    }

    /// Takes note of the newest step; those between it and the one before were skipped.
    fn set(&mut self, step: u64, missing: bool) {
        if let Some(newest) = self.newest {
            let oldest = (newest + 1).max(step.saturating_sub(REMEMBERED));
            (oldest..step).for_each(|skipped| self.put(skipped, true));
        }
        self.put(step, missing);
        self.newest = Some(step);
    }

    fn contains(&self, step: u64) -> bool {
        let (word, bit) = Self::place(step);
        self.bits[word] & bit != 0
    }

    /// True for a step that is too old.
    fn is_forgotten(&self, step: u64) -> bool {
        (self.newest).is_some_and(|newest| step.saturating_add(REMEMBERED) <= newest)
    }
}

/// Opens the trainer of a plan.
///
/// # Errors
/// The errors of [`Worker::open`], with file, line and key.
pub(crate) fn open_worker(
    plan: &Plan,
    model: &Decoder,
) -> Result<(betz_train::online::TrainerTap, Labels, Worker)> {
    let config = TrainerConfig {
        half_life_seconds: plan.learn.half_life.seconds(),
        batch: plan.learn.batch,
        ..TrainerConfig::default()
    };
    Worker::open(model, config)
        .map_err(|e| plan.refuse("learn", "mode", e.message()).of_kind(e.kind()))
}

/// The thread that prepares and stores the models that the trainer accepts, until it is stopped.
fn offer(
    trainer: &Trainer,
    watches: bool,
    recording: Option<&Path>,
    mut send: HeapProd<PreparedSwap>,
    shared: &OfferState,
) {
    let (mut waiting, mut unstored) = (None, 0);
    for look in 0_u64.. {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let accepted = trainer.take().filter(|_| !watches);
        let is_new = accepted.is_some();
        // A newer model takes the place of one that could not be stored.
        waiting = accepted.or(waiting);
        if let Some(model) = &waiting
            && (is_new || look.is_multiple_of(RETRY))
        {
            let failed = match PreparedSwap::new(model, recording) {
                Ok(swap) => {
                    // A loop that has taken none of the last four takes the next one.
                    let _ = send.try_push(swap);
                    waiting = None;
                    None
                }
                Err(error) => {
                    unstored += u64::from(is_new);
                    Some(error)
                }
            };
            *lock(&shared.failed) = failed;
        }
        tell(trainer, unstored, shared);
        std::thread::sleep(LOOK);
    }
}

/// Shows the trainer's state to the loop.
fn tell(trainer: &Trainer, unstored: u64, shared: &OfferState) {
    let state = trainer.state();
    let scores = state.scores.map_or([0.0; 2], |(now, best)| [now, best]);
    *lock(&shared.report) = LearnReport {
        trials: state.trials,
        dropped: state.dropped.total(),
        labelled_seconds: state.labelled_seconds,
        late_labels: state.lost_labels,
        left_out: 0,
        accepted: state.accepted,
        refused: state.refused,
        rolled_back: state.rolled_back,
        unstored,
        scores,
        proposed: false,
        dead: !trainer.is_running(),
    };
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_without_data_and_skipped_ones_are_missing_until_they_are_forgotten() -> Result<()> {
        let mut missing = MissingSteps::new()?;
        for (step, lacks) in [(10, false), (11, true), (15, false)] {
            missing.set(step, lacks);
        }
        let of = |missing: &MissingSteps, steps: std::ops::Range<u64>| -> Vec<u64> {
            steps.filter(|step| missing.contains(*step)).collect()
        };
        assert_eq!(of(&missing, 8..17), [11, 12, 13, 14]);
        assert!(!missing.is_forgotten(0));
        missing.set(15 + REMEMBERED, false);
        assert!(missing.is_forgotten(15) && !missing.is_forgotten(16));
        // All between were skipped.
        let skipped: Vec<u64> = (16..15 + REMEMBERED).collect();
        assert_eq!(of(&missing, 16..16 + REMEMBERED), skipped);
        Ok(())
    }
}
