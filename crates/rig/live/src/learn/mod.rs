//! The online trainer of a session: labels in, models out.
//!
//! The trainer works on its own thread. A second one prepares and stores the models that it offers, so that the loop only
//! takes them.

mod again;
mod feed;

use betz_base::lock::lock;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use betz_base::ring::ring;
use betz_base::{Error, ErrorKind, Result};
use betz_rigs::rig::notes::NoteContent;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{LentTap, Session};
use betz_train::online::{Labels, Trainer, TrainerConfig, TrainerTap, Worker};
use ringbuf::traits::{Consumer, Producer};
use ringbuf::{HeapCons, HeapProd};
use serde::Serialize;

pub(crate) use again::Relearner;
pub use again::{OtherModel, RelearnReport};
use feed::TrialFeed;

use crate::pipeline::Step;
use crate::plan::{LearnMode, Plan};
use crate::swap::PreparedSwap;

/// Time between two looks at the trainer.
const LOOK: Duration = Duration::from_millis(20);
/// Looks from one attempt to store a model to the next: the disk may have room again.
const RETRY: u64 = 50;

/// Counts of an online trainer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LearnReport {
    /// Trials learned from.
    pub trials: u64,
    /// Trials that were not learned from.
    pub dropped: u64,
    /// Time of labelled steps that were learned from, in seconds.
    pub labelled_seconds: f64,
    /// Labels that came after their trial had ended and waited for them (`labels.wait`), before its begin, or without room.
    pub late_labels: u64,
    /// Labels of steps in which data of a source were missing. Such steps are not learned from.
    pub left_out: u64,
    /// Labels that were left out because they lie far outside the range of training.
    pub outliers: u64,
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
    feed: TrialFeed,
    offers: HeapCons<PreparedSwap>,
    proposed: Option<PreparedSwap>,
    state: Arc<OfferState>,
    thread: Option<JoinHandle<()>>,
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
            feed: TrialFeed::new(labels, plan.labels.wait, model.step_seconds())?,
            offers,
            proposed: None,
            state,
            thread: Some(thread),
        }))
    }

    /// Takes a label, or the begin or end of a trial; `open` is the step that is being filled.
    pub(crate) fn note(&mut self, step: u64, open: u64, content: &NoteContent) {
        self.feed.note(step, open, content);
    }

    /// Takes note of a step that was made.
    pub(crate) fn made(&mut self, step: &Step<'_>) {
        self.feed.made(step);
    }

    /// Takes note of the steps that were made; `open` is the one that is being filled.
    pub(crate) fn follow(&mut self, open: u64) {
        self.feed.follow(open);
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
            late_labels: shown.late_labels + self.feed.late,
            left_out: self.feed.left_out,
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

/// Opens the trainer of a plan.
///
/// # Errors
/// The errors of [`Worker::open`], with file, line and key.
pub(crate) fn open_worker(
    plan: &Plan,
    model: &Decoder,
) -> Result<(LentTap<TrainerTap>, Labels, Worker)> {
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
        outliers: state.outlier_labels,
        accepted: state.accepted,
        refused: state.refused,
        rolled_back: state.rolled_back,
        unstored,
        scores,
        proposed: false,
        dead: !trainer.is_running(),
    };
}
