//! The comparison on a thread of its own.

use super::{UnlikeWorker, Unlikeness};
use betz_base::error::{Error, Result};
use betz_base::worker::{Backlog, WorkerThread};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A comparison with training on its own thread. Dropping it ends the thread; steps that the session hands on later are
/// lost.
pub struct UnlikeWatch {
    newest: Arc<Mutex<Newest>>,
    backlog: Arc<Backlog>,
    thread: WorkerThread,
}

#[derive(Default)]
struct Newest {
    unlikeness: Option<Unlikeness>,
    failure: Option<String>,
}

fn lock(newest: &Mutex<Newest>) -> MutexGuard<'_, Newest> {
    newest.lock().unwrap_or_else(PoisonError::into_inner)
}

impl UnlikeWatch {
    /// Starts `worker` on a thread.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::ErrorKind::Io) if the system cannot start a thread.
    pub fn start(mut worker: UnlikeWorker) -> Result<Self> {
        let newest = Arc::new(Mutex::new(Newest::default()));
        let (backlog, idle) = (Arc::clone(worker.steps.backlog()), worker.idle);
        let shared = Arc::clone(&newest);
        let turn = move || match worker.work() {
            Ok(steps) => {
                lock(&shared).unlikeness = worker.newest();
                steps
            }
            // The step that failed is taken.
            Err(error) => {
                lock(&shared).failure = Some(error.to_string());
                1
            }
        };
        let thread = WorkerThread::start("unlike", &backlog, idle, turn)?;
        Ok(Self {
            newest,
            backlog,
            thread,
        })
    }

    /// The newest comparison; `None` before the first window is full.
    pub fn newest(&self) -> Option<Unlikeness> {
        lock(&self.newest).unlikeness
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
