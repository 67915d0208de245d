//! A worker with its own thread that another thread feeds: it can be lent to a session, and does not exist
//! in a forked child.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use betz::{Error, ErrorKind};

use crate::failure::{Failure, Result};
use crate::feed::{Feed, FeedGuard};
use crate::hearing::Attachment;
use crate::workers::Process;

/// The handle of a thread.
pub(crate) trait Thread {
    /// Name of the handle in messages.
    const NAME: &'static str;

    fn is_running(&self) -> bool;
}

/// Feed and handle of a worker, and the process that has its thread.
pub(crate) struct WorkerHandle<F, H: Thread> {
    feed: Arc<Feed<F>>,
    handle: ManuallyDrop<H>,
    /// To the session that holds the feed, or that held it last.
    attachment: ManuallyDrop<Mutex<Option<Attachment>>>,
    process: Process,
}

impl<F, H: Thread> WorkerHandle<F, H> {
    /// Creates a worker of this process.
    pub(crate) fn new((feed, handle): (F, H)) -> Self {
        Self {
            feed: Arc::new(Feed::new(feed)),
            handle: ManuallyDrop::new(handle),
            attachment: ManuallyDrop::default(),
            process: Process::current(),
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
        self.process.check(H::NAME)?;
        self.hold()
    }

    /// Keeps the attachment to a session until the worker is dropped.
    pub(crate) fn keep(&self, attachment: Attachment) {
        let mut kept = (self.attachment.lock()).unwrap_or_else(PoisonError::into_inner);
        *kept = Some(attachment);
    }

    /// Fails in a process that does not have the threads. Also fails if one of them has died of a panic,
    /// because its results are then not reliable.
    pub(crate) fn here(&self) -> Result<()> {
        self.process.check(H::NAME)?;
        if self.handle.is_running() {
            return Ok(());
        }
        let text = format!("the {}'s thread has died", H::NAME);
        Err(Failure::Betz(Error::new(ErrorKind::Internal, text)))
    }
}

impl<F, H: Thread> Deref for WorkerHandle<F, H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.handle
    }
}

impl<F, H: Thread> Drop for WorkerHandle<F, H> {
    fn drop(&mut self) {
        // A forked child must not wait: the threads, and a step that may have been under way, exist only in the parent.
        if self.process == Process::current() {
            // SAFETY: dropped here and never touched again; first the session's feed, then the thread behind it.
            unsafe {
                ManuallyDrop::drop(&mut self.attachment);
                ManuallyDrop::drop(&mut self.handle);
            }
        }
    }
}
