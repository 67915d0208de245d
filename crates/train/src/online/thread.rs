//! The worker on a thread of its own, which swaps models into the running session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::{TrainerState, Verdict, Worker};
use betz_base::error::Result;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{SwapOptions, Swapper};

/// A trainer on its thread. Dropping it ends the thread; the session goes on with the model it has.
pub struct Trainer {
    shared: Arc<Shown>,
    thread: Option<JoinHandle<Worker>>,
}

/// What the thread shows.
struct Shown {
    state: Mutex<(TrainerState, Option<Decoder>)>,
    stop: AtomicBool,
}

impl Shown {
    fn lock(&self) -> std::sync::MutexGuard<'_, (TrainerState, Option<Decoder>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trainer {
    /// Starts `worker` on a thread. With a `swapper` of the session that its tap listens to, candidates that
    /// take over are swapped in, after the usual warm-up, and models that turn out worse rolled back;
    /// without, they are [offered](Self::take). A model without channels that died or scream warms up for a
    /// fifth of that: what little it has not seen is less than what they do.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::ErrorKind::Io) when the system starts no thread.
    pub fn start(mut worker: Worker, mut swapper: Option<Swapper>) -> Result<Self> {
        let shared = Arc::new(Shown {
            state: Mutex::new((worker.state(), None)),
            stop: AtomicBool::new(false),
        });
        let shown = Arc::clone(&shared);
        let run = move || {
            while !shown.stop.load(Ordering::Acquire) {
                let done = worker.work();
                let idle = matches!(done, Ok(None));
                let mut failure = None;
                let mut offered = None;
                match done {
                    Ok(Some(Verdict::Accepted { .. })) => {
                        offered = Some(worker.model().clone());
                        failure = (swapper.as_mut())
                            .and_then(|swapper| swapper.swap(worker.model()).err());
                    }
                    Ok(Some(Verdict::RolledBack)) => {
                        offered = Some(worker.model().clone());
                        failure = swapper
                            .as_mut()
                            .and_then(|swapper| swapper.roll_back().err());
                    }
                    Ok(Some(Verdict::Channels { .. })) => {
                        offered = Some(worker.model().clone());
                        let options = SwapOptions {
                            warm_up_steps: Some(worker.short_warm_up),
                            ..SwapOptions::default()
                        };
                        failure = (swapper.as_mut())
                            .and_then(|swapper| swapper.swap_with(worker.model(), &options).err());
                    }
                    Ok(_) => {}
                    Err(error) => failure = Some(error),
                }
                let mut state = worker.state();
                let mut shown = shown.lock();
                state.failure = failure
                    .map(|e| e.to_string())
                    .or(state.failure)
                    .or(shown.0.failure.take());
                shown.0 = state;
                shown.1 = offered.or(shown.1.take());
                drop(shown);
                if idle {
                    std::thread::sleep(worker.config.idle);
                }
            }
            worker
        };
        let thread = betz_base::taker::start("betz-trainer", run)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Where it stands.
    pub fn state(&self) -> TrainerState {
        self.shared.lock().0.clone()
    }

    /// Whether its thread runs: it ends with this handle, or by a panic.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// The newest model that took over, or came back, since the last call.
    pub fn take(&self) -> Option<Decoder> {
        self.shared.lock().1.take()
    }

    /// Ends the thread, after the trial it is at, and gives the worker back; `None` if it panicked.
    pub fn stop(mut self) -> Option<Worker> {
        self.shared.stop.store(true, Ordering::Release);
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("betz: the trainer's thread panicked");
        }
    }
}
