//! A worker with its own thread, which does not exist in a forked child. Another thread may feed it, or a session.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use betz::{Error, ErrorKind};

use crate::failure::{Failure, Result};
use crate::feed::{Feed, FeedGuard};
use crate::workers::Process;

/// The handle of a thread.
pub(crate) trait Thread {
    /// Name of the handle in messages.
    const NAME: &'static str;

    fn is_running(&self) -> bool;
}

/// Handle of a thread, and the process that has it.
pub(crate) struct WorkerThread<H: Thread> {
    handle: ManuallyDrop<H>,
    process: Process,
}

impl<H: Thread> WorkerThread<H> {
    /// Takes the handle of a thread of this process.
    pub(crate) fn new(handle: H) -> Self {
        Self {
            handle: ManuallyDrop::new(handle),
            process: Process::current(),
        }
    }

    /// The handle. Fails in a process that does not have the thread. Also fails if the thread has died of a panic,
    /// because its results are then not reliable.
    pub(crate) fn here(&self) -> Result<&H> {
        self.process.check(H::NAME)?;
        if self.handle.is_running() {
            return Ok(&self.handle);
        }
        let text = format!("the {}'s thread has died", H::NAME);
        Err(Failure::Betz(Error::new(ErrorKind::Internal, text)))
    }
}

impl<H: Thread> Deref for WorkerThread<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.handle
    }
}

impl<H: Thread> Drop for WorkerThread<H> {
    fn drop(&mut self) {
        // A forked child must not wait: the thread exists only in the parent.
        if self.process == Process::current() {
            // SAFETY: dropped here and never touched again.
            unsafe { ManuallyDrop::drop(&mut self.handle) }
        }
    }
}

/// A worker's thread and its feed. The thread ends before the feed does.
pub(crate) struct WorkerHandle<F, H: Thread> {
    thread: WorkerThread<H>,
    feed: Arc<Feed<F>>,
}

impl<F, H: Thread> WorkerHandle<F, H> {
    /// Creates a worker of this process.
    pub(crate) fn new((feed, handle): (F, H)) -> Self {
        Self {
            thread: WorkerThread::new(handle),
            feed: Arc::new(Feed::new(feed)),
        }
    }

    /// Takes the feed until the result is dropped.
    pub(crate) fn hold(&self) -> Result<FeedGuard<F>> {
        FeedGuard::new(&self.feed).ok_or(Failure::Argument {
            name: H::NAME,
            expected: "one that neither a session nor another thread is feeding",
        })
    }

    /// Lends the feed to a session, which keeps it until it is dropped.
    pub(crate) fn lend(&self) -> Result<FeedGuard<F>> {
        self.thread.process.check(H::NAME)?;
        self.hold()
    }
}

impl<F, H: Thread> Deref for WorkerHandle<F, H> {
    type Target = WorkerThread<H>;

    fn deref(&self) -> &WorkerThread<H> {
        &self.thread
    }
}
