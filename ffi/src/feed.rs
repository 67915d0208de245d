//! The feeding end of a worker with its own thread: a push holds it for the time of the call, or a session
//! holds it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use betz::stream::{Step, Tap};

use crate::exclusive::Exclusive;

/// The feeding end, shared by its possible holders.
pub(crate) type Feed<T> = Exclusive<T>;

/// Holds the feed until it is dropped.
pub(crate) struct FeedGuard<T>(Arc<Feed<T>>);

impl<T> FeedGuard<T> {
    /// `None` if the feed is held already. Does not wait.
    pub(crate) fn new(feed: &Arc<Feed<T>>) -> Option<Self> {
        feed.seize().then(|| Self(Arc::clone(feed)))
    }
}

impl<T> Drop for FeedGuard<T> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl<T> Deref for FeedGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this is the only holder.
        unsafe { &*self.0.place() }
    }
}

impl<T> DerefMut for FeedGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only holder.
        unsafe { &mut *self.0.place() }
    }
}

impl<T: Tap> Tap for FeedGuard<T> {
    fn take(&mut self, step: &Step<'_>) {
        (**self).take(step);
    }

    fn rest(&mut self) {
        (**self).rest();
    }

    fn name(&self) -> &'static str {
        (**self).name()
    }
}
