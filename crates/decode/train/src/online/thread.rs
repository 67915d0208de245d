//! The worker on a thread of its own, which swaps models into the running session.

use betz_base::lock::lock;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::feed::FeedCounters;
use super::{TrainerState, Verdict, Worker};
use betz_base::error::Result;
use betz_base::file::{read_all, write_atomically};
use betz_base::worker::{Backlog, WorkerThread};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{PreparedModel, Replay, SwapOptions, SwapState, Swapper};

/// A trainer on its own thread. Dropping it ends the thread and the worker's, and takes the tap back from the session,
/// which continues with its current model.
pub struct Trainer {
    shared: Arc<SharedState>,
    thread: WorkerThread,
}

/// State that the thread shares with its handle.
struct SharedState {
    counters: Arc<FeedCounters>,
    /// Set when the handle is dropped: the thread then does not finish solving.
    abandoned: Arc<AtomicBool>,
    /// Locked by the thread while it works on a trial.
    worker: Mutex<Worker>,
    shown: Mutex<WorkerReport>,
    /// True if candidates are to be solved now.
    asked: AtomicBool,
}

/// Report of the thread to its handle.
struct WorkerReport {
    state: TrainerState,
    /// Number of trial ends that the worker had processed at that time.
    ended: u64,
    offer: Option<Offer>,
    given: Given,
}

/// A model for the session.
struct Offer {
    decoder: Decoder,
    /// True if the worker rolled back to this model.
    back: bool,
    /// True if there is no time for the usual warm-up.
    hurry: bool,
}

/// Fingerprints of the model that a session was given last and of that which ran before.
type Given = Option<(u64, u64)>;

impl Offer {
    fn of(worker: &Worker, verdict: Verdict) -> Option<Self> {
        let (back, hurry) = match verdict {
            Verdict::Accepted { .. } => (false, false),
            Verdict::RolledBack => (true, false),
            Verdict::Channels { .. } => (false, true),
            Verdict::Learned | Verdict::Refused { .. } => return None,
        };
        Some(Self {
            decoder: worker.model().clone(),
            back,
            hurry,
        })
    }

    /// Has the session run it. Where it ran it before the one that it was given last, that is a roll back,
    /// exact and at the next step. Else it is warmed up with the spikes that the worker remembers; what comes
    /// until the session takes it fades in a fifth of the usual warm-up.
    fn give(&self, worker: &mut Worker, swapper: &mut Swapper, given: &mut Given) -> Result<()> {
        let model = Arc::new(PreparedModel::new(&self.decoder, None)?);
        let fingerprint = model.decoder_fingerprint();
        let now = swapper.progress();
        if self.back
            && now.state != SwapState::Idle
            && given.is_some_and(|(_, before)| before == fingerprint)
        {
            *given = None;
            return swapper.roll_back();
        }
        let heard = worker.assembler.replay();
        let replay = heard.as_ref().map(|(spikes, end)| Replay {
            spikes,
            end_tick: *end,
        });
        let short = self.hurry || replay.is_some();
        // A session that has not made a step has nothing to remember, and its first model nothing to give.
        let warm_up = if worker.shared.has_stepped() {
            short.then_some(worker.short_warm_up)
        } else {
            Some(0)
        };
        let options = SwapOptions {
            warm_up_steps: warm_up,
            replay,
            ..SwapOptions::default()
        };
        swapper.swap_with(&self.decoder, &options)?;
        *given = Some((fingerprint, now.running));
        Ok(())
    }
}

impl Trainer {
    /// Starts `worker` on a thread. With a `swapper` of the session that its tap listens to, candidates that
    /// take over are swapped in as by [`apply`](Self::apply), and models that turn out worse rolled back;
    /// without, they are offered ([`take`](Self::take), [`apply`](Self::apply)).
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::ErrorKind::Io) if the system cannot start a thread.
    pub fn start(worker: Worker, mut swapper: Option<Swapper>) -> Result<Self> {
        let idle = worker.config.idle;
        let shared = Arc::new(SharedState {
            counters: Arc::clone(&worker.shared),
            abandoned: Arc::clone(&worker.learner.abandoned),
            shown: Mutex::new(WorkerReport {
                state: worker.state(),
                ended: worker.assembler.ended,
                offer: None,
                given: None,
            }),
            worker: Mutex::new(worker),
            asked: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let turn = move || usize::from(!of_thread.work(swapper.as_mut()));
        // Nothing is counted in this backlog, so the thread ends after the trial that it is at.
        let backlog = Arc::new(Backlog::default());
        let thread = WorkerThread::start("trainer", &backlog, idle, turn)?;
        Ok(Self { shared, thread })
    }

    /// State of the trainer.
    pub fn state(&self) -> TrainerState {
        let shown = lock(&self.shared.shown);
        let ended = self.shared.counters.ended.load(Ordering::Relaxed);
        TrainerState {
            waiting: ended.saturating_sub(shown.ended),
            ..shown.state.clone()
        }
    }

    /// True while its thread runs: the thread ends with this handle, or by a panic.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// Returns the newest model that took over or was rolled back to, since the last call of this function or of
    /// [`apply`](Self::apply).
    pub fn take(&self) -> Option<Decoder> {
        lock(&self.shared.shown).offer.take().map(|o| o.decoder)
    }

    /// Swaps what [`take`](Self::take) would give into the session of `swapper`, or rolls back to it; false where
    /// there is nothing new. A model that takes over is warmed up with the spikes that the trainer remembers, and
    /// runs in parallel with the previous one for a fifth of the usual warm-up. If the trainer remembers no spikes,
    /// it runs in parallel for the whole warm-up, unless channels have died or scream. In a session that has not made a step it takes over with the first.
    /// Waits for the trial that the thread is at.
    ///
    /// # Errors
    /// The errors of [`Swapper::swap_with`] and [`Swapper::roll_back`]; the model then stays available.
    pub fn apply(&self, swapper: &mut Swapper) -> Result<bool> {
        Ok(self.apply_model(swapper)?.is_some())
    }

    /// Does the same as [`apply`](Self::apply), and returns the model that the session runs from then on.
    ///
    /// # Errors
    /// Returns the errors of [`apply`](Self::apply).
    pub fn apply_model(&self, swapper: &mut Swapper) -> Result<Option<Decoder>> {
        let mut worker = lock(&self.shared.worker);
        let shown = &mut *lock(&self.shared.shown);
        let Some(offer) = &shown.offer else {
            return Ok(None);
        };
        offer.give(&mut worker, swapper, &mut shown.given)?;
        Ok(shown.offer.take().map(|offer| offer.decoder))
    }

    /// Requests candidates from all trials that have ended, without waiting for the end of the batch
    /// ([`Worker::solve_now`]). Does not wait.
    pub fn request(&self) {
        self.shared.asked.store(true, Ordering::Release);
    }

    /// Calls [`Worker::set_half_life`], after the trial that the thread is working on.
    ///
    /// # Errors
    /// Returns the errors of [`Worker::set_half_life`].
    pub fn set_half_life(&self, seconds: f64) -> Result<()> {
        lock(&self.shared.worker).set_half_life(seconds)
    }

    /// Calls [`Worker::to_bytes`], after the trial that the thread is working on.
    ///
    /// # Errors
    /// Returns the errors of [`Worker::to_bytes`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        lock(&self.shared.worker).to_bytes()
    }

    /// Calls [`Worker::restore`], after the trial that the thread is working on. The model in use then becomes
    /// available.
    ///
    /// # Errors
    /// Returns the errors of [`Worker::restore`].
    pub fn restore(&self, bytes: &[u8]) -> Result<()> {
        let mut worker = lock(&self.shared.worker);
        worker.restore(bytes)?;
        let mut shown = lock(&self.shared.shown);
        shown.state = worker.state();
        shown.ended = worker.assembler.ended;
        shown.offer = Some(Offer {
            decoder: worker.model().clone(),
            back: false,
            hurry: false,
        });
        Ok(())
    }

    /// Writes [`to_bytes`](Self::to_bytes) to the file `path`, complete or not at all.
    ///
    /// # Errors
    /// Returns the errors of [`to_bytes`](Self::to_bytes), and [`ErrorKind::Io`](betz_base::ErrorKind::Io).
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes()?;
        write_atomically(path, |file| file.write_all(&bytes))
    }

    /// Reads the file `path` and [restores](Self::restore) its state.
    ///
    /// # Errors
    /// Returns the errors of [`restore`](Self::restore), and [`ErrorKind::Io`](betz_base::ErrorKind::Io);
    /// messages begin with the path.
    pub fn load(&self, path: &Path) -> Result<()> {
        let bytes = read_all(path, Some(&super::MAGIC))?;
        self.restore(&bytes).map_err(|e| e.at(path.display()))
    }

    /// Ends the thread after the trial that it is working on, and returns the worker; `None` if it panicked.
    pub fn stop(mut self) -> Option<Worker> {
        self.thread.end().ok()?;
        let shared = Arc::clone(&self.shared);
        drop(self);
        let shared = Arc::into_inner(shared)?;
        shared.abandoned.store(false, Ordering::Relaxed);
        shared.worker.into_inner().ok()
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        self.shared.abandoned.store(true, Ordering::Relaxed);
    }
}

impl SharedState {
    /// Takes a trial. Returns true if there is nothing to do.
    fn work(&self, swapper: Option<&mut Swapper>) -> bool {
        let mut worker = lock(&self.worker);
        let mut done = worker.work();
        let asked = matches!(done, Ok(None)) && self.asked.swap(false, Ordering::AcqRel);
        if asked {
            done = worker.solve_now();
        }
        let idle = matches!(done, Ok(None)) && !asked;
        let (verdict, mut failure) = match done {
            Ok(verdict) => (verdict, None),
            Err(error) => (None, Some(error)),
        };
        let offer = verdict.and_then(|verdict| Offer::of(&worker, verdict));
        let mut shown = lock(&self.shown);
        if let (Some(offer), Some(swapper)) = (&offer, swapper) {
            failure = offer.give(&mut worker, swapper, &mut shown.given).err();
        }
        let mut state = worker.state();
        state.failure = failure
            .map(|e| e.to_string())
            .or(state.failure)
            .or(shown.state.failure.take());
        shown.state = state;
        shown.ended = worker.assembler.ended;
        shown.offer = offer.or(shown.offer.take());
        idle
    }
}
