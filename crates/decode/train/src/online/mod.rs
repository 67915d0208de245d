//! Online training: a trainer that learns while a session runs.
//!
//! ```text
//! loop thread                            worker's thread (or whoever calls Worker::work)
//! Session ──TrainerTap──┐
//!                       ├─rings─► whole trials ─► scores ─► memories ─► candidate ─► Swapper
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
//! Of a blend, every member but recurrent ones adapts alike, each in its own sums; a candidate is the blend of their
//! candidates, with the weights that it had.
//!
//! The networks of a recurrent decoder are trained further by gradient descent (feature `tuning`): a memory then
//! holds the newest 256 trials at most, whose weights fade, and a candidate is the model in use, trained further on
//! trials that are drawn by their weights. Such a model need not retain sums.
//!
//! With a [`ChannelWatch`] ([`Worker::watch`]) dead or screaming channels are left out, without any label.
//!
//! A full ring loses whole trials, which are counted, and never parts of one. Before the worker takes a trial
//! or solves a candidate, it asks the allocator for the memory that this may take. If there is too little, the
//! trial or the candidate is dropped and counted.
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

mod adaptation;
mod assemble;
mod blend;
mod closed_form;
mod config;
mod feed;
mod follow;
mod learner;
mod paired;
mod sums;
#[cfg(test)]
mod tests;
mod thread;
mod trial;
#[cfg(feature = "tuning")]
mod tuning;

use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use assemble::Dropped;
pub use config::TrainerConfig;
pub use feed::{Labels, TrainerTap};
pub use follow::follow_verdict;
pub use learner::{MAGIC, Verdict};
pub use thread::Trainer;

use assemble::{Assembler, Shape};
use betz_base::error::Result;
use betz_base::memory;
use betz_base::worker::Pool;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{ChannelWatch, LentTap, PreparedModel, TapLease};
use feed::FeedCounters;
use learner::Learner;

/// A model that is needed at once warms up for this part of what it remembers: e⁻³ of a spike then is
/// missing at most, where that takes e⁻¹⁶.
const HURRY: u64 = 5;

/// True if the program's allocator has this many bytes. Another thread may take them between this check and the
/// work.
fn has_room(bytes: usize) -> bool {
    memory::expect("trainer", bytes).is_ok()
}

/// State of an online trainer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrainerState {
    /// Number of trials learned from.
    pub trials: u64,
    /// Total time of labelled steps, in seconds.
    pub labelled_seconds: f64,
    /// Effective number of steps in the sums, after forgetting.
    pub effective_steps: f64,
    /// Numbers of trials that were not learned from.
    pub dropped: Dropped,
    /// Number of steps lost because the ring was full.
    pub lost_steps: u64,
    /// Number of labels that were refused, were lost because the ring was full, or came after their trial's
    /// end.
    pub lost_labels: u64,
    /// Number of labels that were left out because they lie far outside the range of training.
    pub outlier_labels: u64,
    /// Number of candidates that took over.
    pub accepted: u64,
    /// Number of candidates that did not take over.
    pub refused: u64,
    /// Number of models that were rolled back.
    pub rolled_back: u64,
    /// Number of ended trials that still wait for the worker.
    pub waiting: u64,
    /// Number of candidates that were not solved because there was too little memory.
    pub unsolved: u64,
    /// Numbers of the channels that are dead or screaming, in ascending order.
    pub ill_channels: Vec<usize>,
    /// R² of the model in use and of the best candidate, averaged over outputs, on the trials of the last
    /// comparison.
    pub scores: Option<(f64, f64)>,
    /// Reason why the last system could not be solved, or the last model could not be swapped in.
    pub failure: Option<String>,
}

/// The worker of a trainer: it takes trials and makes models, on whichever thread calls it.
pub struct Worker {
    assembler: Assembler,
    learner: Learner,
    shared: Arc<FeedCounters>,
    config: TrainerConfig,
    watch: Option<ChannelWatch>,
    /// Number of warm-up steps of a model that is needed at once.
    short_warm_up: u64,
    /// Threads to learn and solve with.
    pool: Pool,
    /// The session leaves the tap out from when the worker is dropped.
    _tap: TapLease<TrainerTap>,
}

impl Worker {
    /// Opens a worker for sessions of `decoder`, with the two ends for the loop. The tap hears nothing from when the
    /// worker is dropped. The worker learns and solves in a pool of its own, of one thread per processor that the caller
    /// may use; the threads inherit the caller's policy, priority and processors, and end with the worker.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData) if the model does not store its
    /// sums and is not recurrent; [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for numbers out of range,
    /// for a model that one core cannot process in time, or for a kind that cannot adapt; the errors of
    /// [`Refit::new`](crate::retained::Refit::new); [`ErrorKind::Io`](betz_base::ErrorKind::Io) if the system cannot
    /// start a thread.
    pub fn open(
        decoder: &Decoder,
        config: TrainerConfig,
    ) -> Result<(LentTap<TrainerTap>, Labels, Self)> {
        config.check()?;
        let pool = Pool::start("trainer", 0)?;
        let learner = pool.run(|| Learner::new(decoder, &config))?;
        let ends = feed::ends(
            config.capacity,
            decoder.outputs().len(),
            &decoder.limits().ranges,
        )?;
        let memory = PreparedModel::new(decoder, None)?.memory_steps();
        let most = (config.longest_trial_seconds / decoder.step_seconds()).ceil() as usize;
        let shape = Shape {
            step_seconds: decoder.step_seconds(),
            channel_names: decoder.channel_names().to_vec(),
            outputs: decoder.outputs().to_vec(),
            most: most.max(1),
            before: usize::try_from(memory).unwrap_or(most).min(most),
            memory,
            learning_bytes: learner.learning_bytes(),
            has_room,
        };
        let worker = Self {
            assembler: Assembler::new(ends.steps, ends.values, shape),
            learner,
            shared: ends.shared,
            config,
            watch: None,
            short_warm_up: memory.div_ceil(HURRY),
            pool,
            _tap: ends.lease,
        };
        Ok((ends.tap, ends.labels, worker))
    }

    /// From now on [`work`](Self::work) also watches the session's channels. Dead or screaming channels are
    /// left out of the model, exactly as if it had been trained without them, and are included again when they
    /// have recovered. This needs no labels. If these channels give more than half of the decoder's input, the
    /// model stays, and the session's steps are flagged.
    pub fn watch(&mut self, watch: ChannelWatch) {
        self.watch = Some(watch);
    }

    /// Numbers of the channels that are dead or screaming, in ascending order; empty without a watch.
    pub fn ill_channels(&self) -> Vec<usize> {
        (self.watch.as_ref()).map_or_else(Vec::new, |watch| watch.detector().ill())
    }

    /// Checks the channels if there is a watch, then takes the next trial that has ended, if there is one, and
    /// returns the result. Allocates; every few trials it takes as long as solving takes.
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
            return self.learn(|learner| learner.leave_out(&ill).map(Some));
        }
        match self.assembler.next() {
            Some(trial) => self.learn(|learner| learner.take(trial).map(Some)),
            None => Ok(None),
        }
    }

    /// Ends the batch now: decides on the candidates if there are enough trials, and solves the next candidates
    /// from everything learned, for later trials to decide on. `None` if there is nothing to decide. Without
    /// this call it happens every [`batch`](TrainerConfig::batch) trials.
    ///
    /// # Errors
    /// Returns the errors of decoding.
    pub fn solve_now(&mut self) -> Result<Option<Verdict>> {
        self.learn(Learner::end_batch)
    }

    /// Has the learner work in the worker's pool.
    fn learn<T: Send>(&mut self, work: impl FnOnce(&mut Learner) -> T + Send) -> T {
        let Self { learner, pool, .. } = self;
        pool.run(|| work(learner))
    }

    /// Changes the half-life, in seconds of labelled steps, from now on ([`TrainerConfig::half_life_seconds`]).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for NaN and for values that are
    /// not above 0.
    pub fn set_half_life(&mut self, seconds: f64) -> Result<()> {
        let config = TrainerConfig {
            half_life_seconds: seconds,
            ..self.config.clone()
        };
        config.check()?;
        self.config = config;
        self.learn(|learner| learner.set_half_life(seconds));
        Ok(())
    }

    /// State of the trainer as bytes: the first model, the model in use, the sums of all memories and the
    /// counters. The list of compared trials is not included, nor the trials that a recurrent decoder is trained further
    /// on. Takes a little more than three times the size of the statistics stored in the model.
    ///
    /// # Errors
    /// The same as for [`Decoder::to_bytes`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.learner.to_bytes()
    }

    /// Replaces the worker's state by the one from [`to_bytes`](Self::to_bytes); its own half-life and other
    /// settings stay. The session must run [`model`](Self::model) from then on. Comparisons start anew.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) for damaged or other bytes;
    /// [`ErrorKind::UnsupportedVersion`](betz_base::ErrorKind::UnsupportedVersion);
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if channels, outputs, filters or step differ.
    /// Nothing changes then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let (config, current) = (&self.config, self.learner.current());
        let read = || Learner::from_bytes(bytes, config, current);
        let mut learner = self.pool.run(read)?;
        learner.abandoned = Arc::clone(&self.learner.abandoned);
        learner.has_room = self.learner.has_room;
        self.learner = learner;
        Ok(())
    }

    /// The model in use: the first one, or the candidate that took over last. It stores the sums that it was
    /// solved from.
    pub fn model(&self) -> &Decoder {
        self.learner.current()
    }

    /// Sets the function that checks for memory before each trial and candidate. It replaces the check with the
    /// program's allocator, which may have a reserve for other work.
    pub fn set_room(&mut self, has_room: fn(usize) -> bool) {
        self.assembler.has_room = has_room;
        self.learner.has_room = has_room;
    }

    #[cfg(test)]
    pub(crate) fn learner_sums(&self) -> betz_gram::NormalEquations {
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
            outlier_labels: self.shared.outliers.load(Ordering::Relaxed),
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
