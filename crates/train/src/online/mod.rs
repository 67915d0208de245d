//! A trainer that learns while a session runs.
//!
//! ```text
//! loop thread                            worker's thread (or whoever calls Worker::work)
//! Session ──TrainerTap──┐
//!                       ├─rings─► whole trials ─► scores ─► Γ, Υ, forgetting ─► candidate ─► Swapper
//! controller ──Labels───┘
//! ```
//!
//! The sums of the model (it is to retain them) go on, in three *memories*: to each, every trial's are added,
//! after what was there has been made to count less, by 2^(−labelled seconds / half-life); rest forgets
//! nothing, and one memory nothing at all. Every few trials each is solved for a *candidate*, which the next
//! few trials, that neither it nor the model in use has seen, decide on. It takes over where its memory errs
//! less than the model in use, trial by trial, by 2 % and by more than chance (Student's t, 95 %, over the
//! newest trials or some more), and where it decodes at least half as well as the best there was, so that
//! labels which fit nothing change nothing. A memory that errs more than a shorter one, by the same test, goes
//! on from that one's sums: what is no longer so is forgotten when that shows, and nothing else. For ten more
//! trials the model before is scored beside the new one, and comes back where that is worse by more than
//! chance. Of a lift or of experts stage 1 alone adapts: latents keep their meaning, and what is behind them
//! stays.
//!
//! With a [`ChannelWatch`] ([`Worker::watch`]) channels that die or scream are left out without a label.
//!
//! A full ring loses whole trials, counted, never half of one. Before the worker takes a trial or solves a
//! candidate it asks the allocator for the memory that this may take; where there is none, the trial or the
//! candidate is dropped and counted.
//!
//! ```
//! use betz_runtime::psc::{Filter, FilterBank};
//! use betz_runtime::stream::{Session, SessionConfig};
//! use betz_train::online::{TrainerConfig, Worker};
//! use betz_train::{TrainOptions, train};
//!
//! # fn main() -> betz_base::Result<()> {
//! let data = betz_simulate::poisson(10, 20.0, 2_000, 0.01, 1)?;
//! let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 1 }])?;
//! let retain = Some(1 << 20);
//! let model = train(&data, &TrainOptions { retain, ..TrainOptions::new(bank) }, &())?;
//!
//! let mut session = Session::open(&model, SessionConfig::default())?;
//! let (tap, mut labels, mut worker) = Worker::open(&model, TrainerConfig::default())?;
//! session.attach(Box::new(tap), 0)?;
//! let mut out = vec![0.0; session.outputs()];
//! for _trial in 0..3 {
//!     session.reset();
//!     for step in 0..100 {
//!         session.step_spikes(&[step % 10], &mut out)?;
//!         labels.label(&vec![0.5; out.len()])?; // where the hand is, or should go
//!     }
//!     labels.end_trial(true);
//! }
//! // On another thread: `Trainer::start(worker, Some(session.swapper()?))`; here at once.
//! while worker.work()?.is_some() {}
//! assert_eq!(worker.state().trials, 3);
//! # Ok(())
//! # }
//! ```

mod assemble;
mod config;
mod feed;
mod learner;
mod paired;
mod replay;
mod sums;
#[cfg(test)]
mod tests;
mod thread;
mod trial;

use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use assemble::Dropped;
pub use config::TrainerConfig;
pub use feed::{Labels, TrainerTap};
pub use learner::{MAGIC, Verdict};
pub use replay::{Replay, ReplayEvent, ReplayWindow, follow_verdict, replay_windows};
pub use thread::Trainer;

use assemble::{Assembler, Shape};
use betz_base::error::Result;
use betz_base::memory;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{ChannelWatch, PreparedModel};
use feed::FeedCounters;
use learner::Learner;

/// A model that is needed at once warms up for this part of what it remembers: e⁻³ of a spike then is
/// missing at most, where that takes e⁻¹⁶.
const HURRY: u64 = 5;

/// True where the program's allocator has so many bytes. Between this question and the work another thread may
/// take them.
fn has_room(bytes: usize) -> bool {
    memory::expect("trainer", bytes).is_ok()
}

/// State of an online trainer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrainerState {
    /// Trials learned from.
    pub trials: u64,
    /// Seconds with labels in them.
    pub labelled_seconds: f64,
    /// Steps that the sums count for, after forgetting.
    pub effective_steps: f64,
    /// Trials that were not learned from.
    pub dropped: Dropped,
    /// Steps that found no room in the ring.
    pub lost_steps: u64,
    /// Labels that were refused, found no room or came after their trial's end.
    pub lost_labels: u64,
    /// Candidates that took over.
    pub accepted: u64,
    /// Candidates that did not.
    pub refused: u64,
    /// Models that were rolled back.
    pub rolled_back: u64,
    /// Trials that have ended and that the worker has not come to yet.
    pub waiting: u64,
    /// Candidates that were not solved because there was no memory for it.
    pub unsolved: u64,
    /// Numbers of the channels that are dead or scream, ascending.
    pub ill_channels: Vec<usize>,
    /// Mean R² over outputs of the model in use and of the best candidate, on the trials that decided last.
    pub scores: Option<(f64, f64)>,
    /// Reason why the last system could not be solved, or the last model could not be swapped in.
    pub failure: Option<String>,
}

/// A trainer's worker: what takes trials and makes models, on whichever thread calls it.
pub struct Worker {
    assembler: Assembler,
    learner: Learner,
    shared: Arc<FeedCounters>,
    config: TrainerConfig,
    watch: Option<ChannelWatch>,
    /// Steps that a model warms up where there is no time.
    short_warm_up: u64,
}

impl Worker {
    /// A worker for sessions of `decoder`, and the loop's two ends.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData) for a model that retains no
    /// sums; [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for numbers that make
    /// no sense, a model that one core cannot keep up with, or a kind that does not adapt; as
    /// [`Refit::new`](crate::retained::Refit::new).
    pub fn open(decoder: &Decoder, config: TrainerConfig) -> Result<(TrainerTap, Labels, Self)> {
        config.check()?;
        config.check_cost(decoder)?;
        let learner = Learner::new(decoder, &config)?;
        let ends = feed::ends(config.capacity, decoder.outputs().len())?;
        let memory = PreparedModel::new(decoder, None)?.memory_steps();
        let most = (config.longest_trial_seconds / decoder.step_seconds()).ceil() as usize;
        let shape = Shape {
            step_seconds: decoder.step_seconds(),
            channel_names: decoder.channel_names().to_vec(),
            outputs: decoder.outputs().to_vec(),
            most: most.max(1),
            before: usize::try_from(memory).unwrap_or(most).min(most),
            memory,
            learning_bytes: sums::bytes(decoder.features()),
            has_room,
        };
        let worker = Self {
            assembler: Assembler::new(ends.steps, ends.values, shape),
            learner,
            shared: ends.shared,
            config,
            watch: None,
            short_warm_up: memory.div_ceil(HURRY),
        };
        Ok((ends.tap, ends.labels, worker))
    }

    /// From now on [`work`](Self::work) looks at the session's channels as well: those that die or scream are
    /// left out of the model, exactly as if it had been trained without them, and taken back in when they are
    /// well. Takes no label. Where the decoder leaned on them for more than half the model stays, and the
    /// session's steps say so.
    pub fn watch(&mut self, watch: ChannelWatch) {
        self.watch = Some(watch);
    }

    /// Numbers of the channels that are dead or scream, ascending; none without a watch.
    pub fn ill_channels(&self) -> Vec<usize> {
        (self.watch.as_ref()).map_or_else(Vec::new, |watch| watch.detector().ill())
    }

    /// Looks at the channels where there is a watch, then takes the next trial that has ended, if there is
    /// one, and says what became of it. Allocates; takes as long as solving does, every few trials.
    ///
    /// # Errors
    /// Returns the errors of decoding and summing; the trial is then not learned from.
    pub fn work(&mut self) -> Result<Option<Verdict>> {
        if let Some(watch) = &mut self.watch
            && self.learner.has_room()
            && watch.look()
            && !watch.detector().is_too_much()
        {
            let ill = watch.detector().ill();
            return self.learner.leave_out(&ill).map(Some);
        }
        match self.assembler.next() {
            Some(trial) => self.learner.take(trial).map(Some),
            None => Ok(None),
        }
    }

    /// Ends the batch now: decides on the candidates, where enough trials do, and solves the next from all that
    /// was learned, for the trials to come to decide on. `None` where there is nothing to decide. Else that
    /// happens every [`batch`](TrainerConfig::batch) trials.
    ///
    /// # Errors
    /// Returns the errors of decoding.
    pub fn solve_now(&mut self) -> Result<Option<Verdict>> {
        self.learner.end_batch()
    }

    /// From now on what was learned counts half after so many seconds *with labels*, as
    /// [`TrainerConfig::half_life_seconds`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for NaN and what is not above 0.
    pub fn set_half_life(&mut self, seconds: f64) -> Result<()> {
        let config = TrainerConfig {
            half_life_seconds: seconds,
            ..self.config.clone()
        };
        config.check()?;
        self.config = config;
        self.learner.set_half_life(seconds);
        Ok(())
    }

    /// State of the trainer as bytes: the first model, the model in use, the sums of all memories and the
    /// counters. The list of compared trials is not included. Takes a little more than three times the size of
    /// the statistics stored in the model.
    ///
    /// # Errors
    /// The same as for [`Decoder::to_bytes`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.learner.to_bytes()
    }

    /// Goes on with what [`to_bytes`](Self::to_bytes) gave, at this worker's pace, in the place of what it has
    /// learned itself. The session is to run [`model`](Self::model) from here on. Comparisons begin anew.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) for bytes that are damaged or no such
    /// bytes; [`ErrorKind::UnsupportedVersion`](betz_base::ErrorKind::UnsupportedVersion);
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for those of other channels, outputs, filters or
    /// another step. Nothing has changed then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let mut learner = Learner::from_bytes(bytes, &self.config, self.learner.current())?;
        learner.abandoned = Arc::clone(&self.learner.abandoned);
        learner.has_room = self.learner.has_room;
        self.learner = learner;
        Ok(())
    }

    /// The model in use: the first, or the candidate that took over last. It retains the sums that it was
    /// solved from.
    pub fn model(&self) -> &Decoder {
        self.learner.current()
    }

    /// From now on asks `has_room` before each trial and candidate whether there are so many bytes of memory,
    /// instead of the program's allocator: that may have a reserve which is for other work.
    pub fn set_room(&mut self, has_room: fn(usize) -> bool) {
        self.assembler.has_room = has_room;
        self.learner.has_room = has_room;
    }

    #[cfg(test)]
    fn learner_sums(&self) -> betz_gram::NormalEquations {
        self.learner.sums()
    }

    #[cfg(test)]
    fn learner_halves(&self) -> Vec<f64> {
        self.learner.half_lives()
    }

    #[cfg(test)]
    fn learner_take_over(&mut self, decoder: Decoder) {
        self.learner.take_over(decoder);
    }

    /// State of the trainer.
    pub fn state(&self) -> TrainerState {
        let learner = &self.learner;
        let mut dropped = self.assembler.dropped;
        dropped.full += self.shared.lost_ends.load(Ordering::Relaxed);
        let ended = self.shared.ended.load(Ordering::Relaxed);
        TrainerState {
            trials: learner.trials,
            labelled_seconds: learner.labelled_seconds,
            effective_steps: learner.effective_steps(),
            dropped,
            lost_steps: self.assembler.lost_steps(),
            lost_labels: self.shared.lost_labels.load(Ordering::Relaxed) + self.assembler.late,
            accepted: learner.accepted,
            refused: learner.refused,
            rolled_back: learner.rolled_back,
            waiting: ended.saturating_sub(self.assembler.ended),
            unsolved: learner.unsolved,
            ill_channels: self.ill_channels(),
            scores: learner.scores,
            failure: learner.failure.clone(),
        }
    }
}
