//! The comparison on a thread of its own.

use super::{ModelChange, Suggestion, UnlikeWorker, Unlikeness};
use betz_base::error::{Error, Result};
use betz_base::lock::lock;
use betz_base::worker::{Backlog, WorkerThread};
use betz_runtime::model::Decoder;
use betz_runtime::stream::Swapper;
use std::sync::{Arc, Mutex};

/// A comparison with training on its own thread. Dropping it ends the thread and the worker's, and takes the tap back from
/// the session.
pub struct UnlikeWatch {
    /// Locked by the thread while it works on the steps that wait.
    worker: Arc<Mutex<UnlikeWorker>>,
    newest: Arc<Mutex<Newest>>,
    backlog: Arc<Backlog>,
    thread: WorkerThread,
}

#[derive(Default)]
struct Newest {
    unlikeness: Option<Unlikeness>,
    suggestion: Option<Suggestion>,
    failure: Option<String>,
}

impl Newest {
    fn show(&mut self, worker: &UnlikeWorker) {
        self.unlikeness = worker.newest();
        let key = |s: &Suggestion| (s.tick, s.suggested, s.applied);
        if self.suggestion.as_ref().map(key) != worker.suggestion().map(key) {
            self.suggestion = worker.suggestion().cloned();
        }
    }
}

impl UnlikeWatch {
    /// Starts `worker` on a thread.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::ErrorKind::Io) if the system cannot start a thread.
    pub fn start(worker: UnlikeWorker) -> Result<Self> {
        let newest = Arc::new(Mutex::new(Newest::default()));
        let (backlog, idle) = (Arc::clone(worker.steps.backlog()), worker.idle);
        let worker = Arc::new(Mutex::new(worker));
        let (shared, of_thread) = (Arc::clone(&newest), Arc::clone(&worker));
        let turn = move || {
            let mut worker = lock(&of_thread);
            match worker.work() {
                Ok(steps) => {
                    lock(&shared).show(&worker);
                    steps
                }
                // The step that failed is taken.
                Err(error) => {
                    lock(&shared).failure = Some(error.to_string());
                    1
                }
            }
        };
        let thread = WorkerThread::start("unlike", &backlog, idle, turn)?;
        Ok(Self {
            worker,
            newest,
            backlog,
            thread,
        })
    }

    /// The newest comparison; `None` before the first window is full.
    pub fn newest(&self) -> Option<Unlikeness> {
        lock(&self.newest).unlikeness
    }

    /// A copy of [`UnlikeWorker::suggestion`], after the steps that the thread has taken.
    pub fn suggestion(&self) -> Option<Suggestion> {
        lock(&self.newest).suggestion.clone()
    }

    /// A copy of [`UnlikeWorker::suggested_model`], to be saved. Waits for the steps that the thread is working on.
    pub fn suggested_model(&self) -> Option<Decoder> {
        lock(&self.worker).suggested_model().cloned()
    }

    /// A copy of [`UnlikeWorker::running_model`]. Waits for the steps that the thread is working on.
    pub fn running_model(&self) -> Decoder {
        lock(&self.worker).running_model().clone()
    }

    /// Calls [`UnlikeWorker::apply`] after the steps that the thread is working on.
    ///
    /// # Errors
    /// The errors of [`UnlikeWorker::apply`].
    pub fn apply(&self, swapper: &mut Swapper) -> Result<ModelChange> {
        self.change(|worker| worker.apply(swapper))
    }

    /// Calls [`UnlikeWorker::roll_back`] after the steps that the thread is working on.
    ///
    /// # Errors
    /// The errors of [`UnlikeWorker::roll_back`].
    pub fn roll_back(&self, swapper: &mut Swapper) -> Result<bool> {
        self.change(|worker| worker.roll_back(swapper))
    }

    /// Calls [`UnlikeWorker::note_applied`] after the steps that the thread is working on.
    pub fn note_applied(&self, decoder: Decoder, gains: Vec<f64>, fingerprint: u64) {
        let mut worker = lock(&self.worker);
        worker.note_applied(decoder, gains, fingerprint);
        lock(&self.newest).show(&worker);
    }

    /// Calls [`UnlikeWorker::note_rolled_back`] after the steps that the thread is working on.
    pub fn note_rolled_back(&self) {
        let mut worker = lock(&self.worker);
        worker.note_rolled_back();
        lock(&self.newest).show(&worker);
    }

    fn change<T>(&self, change: impl FnOnce(&mut UnlikeWorker) -> Result<T>) -> Result<T> {
        let mut worker = lock(&self.worker);
        let done = change(&mut worker)?;
        lock(&self.newest).show(&worker);
        Ok(done)
    }

    /// False if the thread has died of a panic.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// Number of steps that were lost because the ring was full.
    pub fn lost_steps(&self) -> u64 {
        self.backlog.lost()
    }

    /// Waits until every step handed on before this call has been taken.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`](betz_base::ErrorKind::Internal) if the thread has died, or a step failed.
    pub fn flush(&self) -> Result<()> {
        self.thread.flush()?;
        match &lock(&self.newest).failure {
            None => Ok(()),
            Some(failure) => Err(Error::new(
                betz_base::ErrorKind::Internal,
                format!("unlike training: {failure}"),
            )),
        }
    }
}
