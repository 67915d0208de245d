//! Long work: on a thread of its own, without the interpreter's lock, with Ctrl-C and progress.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use betz::{Error, ErrorKind, Progress};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::OrRaise;

/// Time between checks for signals and progress on the calling thread.
const LOOK: Duration = Duration::from_millis(50);

/// Latest progress of the work, and the request to stop.
#[derive(Default)]
struct Report {
    latest: Mutex<Option<(String, u64, u64)>>,
    stop: AtomicBool,
}

impl Progress for Report {
    fn update(&self, stage: &str, done: u64, total: u64) {
        if let Ok(mut latest) = self.latest.lock() {
            *latest = Some((stage.to_owned(), done, total));
        }
    }

    fn cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Number of forks that made this process. A fork leaves all threads but one behind.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Threads of a process that a fork made, and its number of forks.
static POOL: Mutex<Option<(usize, Arc<ThreadPool>)>> = Mutex::new(None);

/// Tells the library that this process is a fork's child; Python calls it there.
#[pyfunction]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::SeqCst);
}

/// The result of `work`, run without the interpreter's lock and on threads that this process has.
pub(crate) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(|| on_own_threads(work))
}

/// The result of `work`, whose parallel parts run on threads of this process: the usual ones, or after a fork new ones.
fn on_own_threads<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match pool_after_fork() {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

fn pool_after_fork() -> Option<Arc<ThreadPool>> {
    let forks = FORKS.load(Ordering::SeqCst);
    if forks == 0 {
        return None;
    }
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if pool.as_ref().is_none_or(|(of, _)| *of != forks) {
        // Dropping the parent's pool would wait for threads that are not in this process.
        std::mem::forget(pool.take());
        let new = ThreadPoolBuilder::new().build().ok();
        *pool = new.map(|new| (forks, Arc::new(new)));
    }
    pool.as_ref().map(|(_, pool)| pool.clone())
}

/// Runs `work` and waits for it without the interpreter's lock. Twenty times per second the caller's thread lets
/// Python handle signals and calls `progress(stage, done, total)` where that is no None; an exception from either
/// (KeyboardInterrupt, say) stops the work and is raised when it has stopped.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&dyn Progress) -> betz::Result<T> + Send,
) -> PyResult<T> {
    let report = Report::default();
    let callback = progress
        .filter(|p| !p.is_none())
        .map(|p| p.clone().unbind());
    let (result, raised) = py.detach(|| wait(&report, callback.as_ref(), work));
    match raised {
        Some(exception) => Err(exception),
        None => result.or_raise(py),
    }
}

fn wait<T: Send>(
    report: &Report,
    callback: Option<&Py<PyAny>>,
    work: impl FnOnce(&dyn Progress) -> betz::Result<T> + Send,
) -> (betz::Result<T>, Option<PyErr>) {
    std::thread::scope(|scope| {
        let (finished, told) = channel();
        let worker = scope.spawn(move || {
            let result = on_own_threads(|| work(report));
            // The caller may have gone on to wait for the thread itself.
            finished.send(()).unwrap_or(());
            result
        });
        let mut raised: Option<PyErr> = None;
        while told.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if raised.is_some() {
                continue;
            }
            let latest = report.latest.lock().ok().and_then(|mut l| l.take());
            let looked = Python::attach(|py| {
                py.check_signals()?;
                if let (Some(callback), Some(latest)) = (callback, latest) {
                    callback.call1(py, latest)?;
                }
                Ok(())
            });
            if let Err(exception) = looked {
                report.stop.store(true, Ordering::Relaxed);
                raised = Some(exception);
            }
        }
        let result = worker.join().unwrap_or_else(|_| {
            let message = "a panic inside Betz: a bug, please report it";
            Err(Error::new(ErrorKind::Internal, message))
        });
        (result, raised)
    })
}
