//! Worker threads for a thread that must never wait: start, liveness, flush, end.

mod backlog;
#[cfg(feature = "pool")]
mod pool;

/// The atomics of the backlog: a test puts loom's in their place.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

use std::prelude::rust_2024::*;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use backlog::Backlog;
#[cfg(feature = "pool")]
pub use pool::Pool;

use crate::error::{Error, ErrorKind, Result};

/// A worker thread and the [`Backlog`] it works off. Dropping this ends the thread, as
/// [`end`](Self::end) does.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use betz_base::worker::{Backlog, WorkerThread};
/// use ringbuf::traits::{Consumer, Producer};
///
/// let (mut send, mut take) = betz_base::ring::ring::<i32>("numbers", 8)?;
/// let (backlog, sum) = (Arc::new(Backlog::default()), Arc::new(Mutex::new(0)));
/// let total = Arc::clone(&sum);
/// let mut worker = WorkerThread::start("adder", &backlog, Duration::from_millis(1), move || {
///     let numbers: Vec<i32> = take.pop_iter().collect();
///     *total.lock().unwrap() += numbers.iter().sum::<i32>();
///     numbers.len()
/// })?;
/// backlog.set_pushed(send.push_slice(&[1, 2, 3]) as u64);
/// worker.flush()?;
/// assert_eq!(*sum.lock().unwrap(), 6);
/// worker.end()?;
/// assert!(!worker.is_running());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WorkerThread {
    /// The name in messages: `miner`.
    name: &'static str,
    backlog: Arc<Backlog>,
    thread: Option<JoinHandle<()>>,
    idle: Duration,
}

impl WorkerThread {
    /// Starts a thread `betz-NAME` that calls `turn` again and again. `turn` returns how many items of the
    /// backlog it has dealt with; after 0 the thread sleeps for `idle`.
    ///
    /// # Errors
    /// `Io` when the system cannot start a thread.
    pub fn start(
        name: &'static str,
        backlog: &Arc<Backlog>,
        idle: Duration,
        mut turn: impl FnMut() -> usize + Send + 'static,
    ) -> Result<Self> {
        let thread = start(&format!("betz-{name}"), {
            let backlog = Arc::clone(backlog);
            move || {
                let (mut taken, mut until) = (0, None);
                loop {
                    // A feeder may go on for ever: what it pushes from here on is left.
                    if until.is_none() && backlog.is_stopping() {
                        until = Some(backlog.pushed());
                    }
                    if until.is_some_and(|until| taken >= until) {
                        return;
                    }
                    match turn() {
                        0 => thread::sleep(idle),
                        items => {
                            taken += items as u64;
                            backlog.set_taken(taken);
                        }
                    }
                }
            }
        })?;
        Ok(Self {
            name,
            backlog: Arc::clone(backlog),
            thread: Some(thread),
            idle,
        })
    }

    /// False when the thread has been ended, or has died of a panic.
    pub fn is_running(&self) -> bool {
        (self.thread.as_ref()).is_some_and(|thread| !thread.is_finished())
    }

    /// Waits until everything pushed before this call has been dealt with.
    ///
    /// # Errors
    /// `Internal` when the thread has died.
    pub fn flush(&self) -> Result<()> {
        let pushed = self.backlog.pushed();
        while self.backlog.taken() < pushed {
            if !self.is_running() {
                return Err(self.dead());
            }
            thread::sleep(self.idle);
        }
        Ok(())
    }

    /// Ends the thread when it has dealt with all that was pushed before this call. What is pushed later
    /// stays where it is. A second call does nothing.
    ///
    /// # Errors
    /// `Internal` when the thread had died.
    pub fn end(&mut self) -> Result<()> {
        self.backlog.stop();
        match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| self.dead()),
            None => Ok(()),
        }
    }

    fn dead(&self) -> Error {
        Error::new(
            ErrorKind::Internal,
            format!("the {}'s thread has died", self.name),
        )
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        // The panic of a thread that died was reported when it happened.
        let _ = self.end();
    }
}

/// Starts a thread of that name.
///
/// # Errors
/// `Io` when the system cannot start a thread.
pub fn start<R: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<JoinHandle<R>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|e| {
            Error::new(
                ErrorKind::Io,
                format!("thread {name} cannot be started: {e}"),
            )
        })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ringbuf::traits::{Consumer, Producer};

    use super::*;

    const IDLE: Duration = Duration::from_micros(50);

    #[test]
    fn everything_is_taken_in_order_and_a_feeder_that_goes_on_does_not_hold_up_the_end() {
        let (mut send, mut take) = crate::ring::ring("numbers", 4096).unwrap();
        let backlog = Arc::new(Backlog::default());
        let next = Arc::new(AtomicUsize::new(0));
        let to = Arc::clone(&next);
        // All of it is there before the thread is.
        let pushed = send.push_iter(0..4000_usize);
        backlog.set_pushed(pushed as u64);
        let mut worker = WorkerThread::start("counter", &backlog, IDLE, move || {
            let mut items = 0;
            while items < 1000
                && let Some(item) = take.try_pop()
            {
                assert_eq!(item, to.load(Ordering::Relaxed));
                to.store(item + 1, Ordering::Release);
                items += 1;
            }
            items
        })
        .unwrap();
        worker.flush().unwrap();
        assert_eq!(next.load(Ordering::Acquire), 4000);
        backlog.set_pushed((pushed + send.push_iter(4000..4100)) as u64);
        worker.end().unwrap();
        assert_eq!(next.load(Ordering::Acquire), 4100);
        assert!(!worker.is_running() && backlog.is_stopping());
        // Nobody is there to take it.
        backlog.set_pushed((pushed + 100 + send.push_iter(4100..4101)) as u64);
        assert!(worker.flush().is_err());
        worker.end().unwrap();
    }

    /// Two threads write one place in no order: `scripts/tsan.sh` runs this to prove that ThreadSanitizer sees.
    #[test]
    #[ignore = "a data race on purpose, for scripts/tsan.sh"]
    #[allow(unsafe_code)]
    fn a_race_on_purpose() {
        struct Place(std::cell::UnsafeCell<u64>);
        // SAFETY: nothing makes this right; it is the race.
        unsafe impl Sync for Place {}
        static PLACE: Place = Place(std::cell::UnsafeCell::new(0));
        // Both write at the same time: a thread that has ended may be forgotten. A relaxed count orders nothing.
        let there = std::sync::atomic::AtomicU32::new(0);
        let write = || {
            there.fetch_add(1, Ordering::Relaxed);
            while there.load(Ordering::Relaxed) < 2 {
                thread::yield_now();
            }
            for i in 0..100_000 {
                // SAFETY: as above.
                unsafe { PLACE.0.get().write_volatile(i) };
            }
        };
        thread::scope(|scope| {
            scope.spawn(write);
            scope.spawn(write);
        });
    }

    #[test]
    fn a_thread_that_dies_is_an_error_and_no_endless_wait() {
        let backlog = Arc::new(Backlog::default());
        let watched = Arc::clone(&backlog);
        let mut worker = WorkerThread::start("victim", &backlog, IDLE, move || {
            assert!(watched.pushed() == 0, "told to die");
            0
        })
        .unwrap();
        backlog.set_pushed(1);
        let error = worker.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(
            error.message().contains("victim's thread has died"),
            "{error}"
        );
        assert!(worker.end().is_err());
    }
}
