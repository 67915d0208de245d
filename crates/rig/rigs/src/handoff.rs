//! One hand-off between the loop and a thread that may wait: items go through a ring and come back to be filled again, so that
//! neither end allocates per item.
//!
//! Sources of steps, sinks ([`bus::threads`](crate::bus::threads)) and a session's sources of blocks all use it. The thread's end is a
//! [`Worker`], the loop's end a [`Handoff`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};

use betz_base::lock::lock;
use betz_base::{Error, ErrorKind, Result};

/// State that both ends share. `C` are the counts of the source or sink.
#[derive(Debug, Default)]
struct State<C> {
    stop: AtomicBool,
    ended: AtomicBool,
    failed: Mutex<Option<Error>>,
    counts: Mutex<C>,
    /// The loop's thread, to be woken.
    taker: OnceLock<Thread>,
}

/// The loop's end. Dropping it tells the thread to stop, wakes it, and waits for its end.
#[derive(Debug)]
pub struct Handoff<C> {
    state: Arc<State<C>>,
    thread: Option<JoinHandle<()>>,
}

/// The thread's end. When it is dropped, the thread has ended for the loop; a panic counts as a failure.
#[derive(Debug)]
pub struct Worker<C> {
    name: &'static str,
    state: Arc<State<C>>,
}

impl<C: Copy + Default + Send + 'static> Handoff<C> {
    /// Starts the thread `name`, which runs `body`.
    ///
    /// # Errors
    /// `Io` if the system has no thread for it.
    pub fn start(
        name: &'static str,
        body: impl FnOnce(&Worker<C>) + Send + 'static,
    ) -> Result<Self> {
        let state = Arc::new(State::default());
        let worker = Worker {
            name,
            state: Arc::clone(&state),
        };
        let thread = (std::thread::Builder::new().name(name.into()))
            .spawn(move || body(&worker))
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting the thread {name}: {e}")))?;
        Ok(Self {
            state,
            thread: Some(thread),
        })
    }

    /// Names the calling thread as the one that the worker wakes. The first call counts.
    pub fn announce(&self) {
        self.state.taker.get_or_init(std::thread::current);
    }

    /// True if the thread has ended. Ask before looking into the ring, so that items from before the end are still taken.
    pub fn has_ended(&self) -> bool {
        self.state.ended.load(Ordering::Acquire)
    }

    /// Returns the error that ended the thread, once.
    ///
    /// # Errors
    /// That error.
    pub fn failure(&self) -> Result<()> {
        lock(&self.state.failed).take().map_or(Ok(()), Err)
    }

    /// The counts that the thread published last.
    pub fn counts(&self) -> C {
        *lock(&self.state.counts)
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl<C> Drop for Handoff<C> {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread has already reported a panic.
            let _ = thread.join();
        }
    }
}

impl<C> Worker<C> {
    /// True if the loop wants the thread to end.
    pub fn is_stopping(&self) -> bool {
        self.state.stop.load(Ordering::Acquire)
    }

    /// Publishes the counts.
    pub fn publish(&self, counts: C) {
        *lock(&self.state.counts) = counts;
    }

    /// Leaves the error that ends the thread to the loop.
    pub fn fail(&self, error: Error) {
        *lock(&self.state.failed) = Some(error);
    }

    /// Wakes the loop.
    pub fn wake(&self) {
        if let Some(thread) = self.state.taker.get() {
            thread.unpark();
        }
    }
}

impl<C> Drop for Worker<C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = format!("the thread {} has panicked", self.name);
            self.fail(Error::new(ErrorKind::Internal, message));
        }
        self.state.ended.store(true, Ordering::Release);
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(handoff: &Handoff<u64>) {
        while !handoff.has_ended() {
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
    }

    #[test]
    fn the_loop_learns_of_the_end_of_counts_and_of_failures() -> Result<()> {
        let handoff = Handoff::<u64>::start("betz-test", |worker| {
            worker.publish(7);
            worker.fail(Error::argument("expected nothing, got a test"));
        })?;
        handoff.announce();
        wait(&handoff);
        assert_eq!(handoff.counts(), 7);
        let failure = handoff.failure().err().map(|e| e.message().to_owned());
        assert_eq!(failure.as_deref(), Some("expected nothing, got a test"));
        assert!(handoff.failure().is_ok(), "it is told once");
        Ok(())
    }

    #[test]
    fn a_thread_that_panics_is_a_failure_and_no_silence() -> Result<()> {
        let handoff = Handoff::<u64>::start("betz-test", |_| panic!("expected in this test"))?;
        wait(&handoff);
        let failure = handoff.failure().err().map(|e| e.kind());
        assert_eq!(failure, Some(ErrorKind::Internal));
        Ok(())
    }

    #[test]
    fn a_dropped_end_stops_the_thread() -> Result<()> {
        let handoff = Handoff::<u64>::start("betz-test", |worker| {
            while !worker.is_stopping() {
                std::thread::park();
            }
        })?;
        drop(handoff);
        Ok(())
    }
}
