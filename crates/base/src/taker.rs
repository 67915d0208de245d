//! A thread at the end of a ring: it takes what a feeder that never waits puts in, and is waited for and ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringbuf::HeapCons;
use ringbuf::traits::{Consumer, Observer};

use crate::error::{Error, ErrorKind, Result};

/// Items taken from the ring at once; others may look in between.
const BATCH: usize = 1024;

/// What a feeder and the thread at the other end of its ring both know.
#[derive(Debug, Default)]
pub struct Line {
    pushed: AtomicU64,
    taken: AtomicU64,
    stop: AtomicBool,
}

impl Line {
    /// Says how many items the feeder has put in line, ever. Wait-free.
    #[inline]
    pub fn pushed(&self, items: u64) {
        self.pushed.store(items, Ordering::Release);
    }

    /// True once the thread is to end.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Hands `take` what comes through `ring`, in order, until it is to stop and what was in line by then is
    /// taken: a feeder may go on and on.
    fn run<T: Copy + Default>(
        &self,
        mut ring: HeapCons<T>,
        idle: Duration,
        mut take: impl FnMut(&[T], bool),
    ) {
        let mut batch = vec![T::default(); BATCH];
        let half = ring.capacity().get() / 2;
        let mut taken = 0;
        let mut until = None;
        while until.is_none_or(|until| taken < until) {
            if until.is_none() && self.is_stopping() {
                until = Some(self.pushed.load(Ordering::Acquire));
            }
            let items = ring.pop_slice(&mut batch);
            take(&batch[..items], ring.occupied_len() > half);
            if items == 0 {
                thread::sleep(idle);
            } else {
                taken += items as u64;
                self.taken.store(taken, Ordering::Release);
            }
        }
    }
}

/// The thread. Dropping this ends it, as [`Taker::end`] does.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use betz_base::taker::{Line, Taker};
/// use ringbuf::traits::Producer;
///
/// let (mut send, take) = betz_base::ring::ring("numbers", 8)?;
/// let (line, sum) = (Arc::new(Line::default()), Arc::new(Mutex::new(0)));
/// let to = Arc::clone(&sum);
/// let mut taker = Taker::start("adder", &line, take, Duration::from_millis(1), move |numbers: &[i32], _| {
///     *to.lock().unwrap() += numbers.iter().sum::<i32>();
/// })?;
/// line.pushed(send.push_slice(&[1, 2, 3]) as u64);
/// taker.flush()?;
/// assert_eq!(*sum.lock().unwrap(), 6);
/// taker.end()?;
/// assert!(!taker.is_running());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Taker {
    /// As messages call it: `miner`.
    name: &'static str,
    line: Arc<Line>,
    thread: Option<JoinHandle<()>>,
    idle: Duration,
}

impl Taker {
    /// Starts a thread `betz-NAME` that hands `take` what comes through `ring`, up to 1,024 items at a time, or
    /// none after `idle` of sleep; and whether the ring is more than half full behind them.
    ///
    /// # Errors
    /// `Io` when the system starts no thread.
    pub fn start<T: Copy + Default + Send + 'static>(
        name: &'static str,
        line: &Arc<Line>,
        ring: HeapCons<T>,
        idle: Duration,
        take: impl FnMut(&[T], bool) + Send + 'static,
    ) -> Result<Self> {
        let thread = start(&format!("betz-{name}"), {
            let line = Arc::clone(line);
            move || line.run(ring, idle, take)
        })?;
        Ok(Self {
            name,
            line: Arc::clone(line),
            thread: Some(thread),
            idle,
        })
    }

    /// False when the thread has been ended, or has died of a panic.
    pub fn is_running(&self) -> bool {
        (self.thread.as_ref()).is_some_and(|thread| !thread.is_finished())
    }

    /// Waits until everything pushed before this call has been taken.
    ///
    /// # Errors
    /// `Internal` when the thread has died.
    pub fn flush(&self) -> Result<()> {
        let pushed = self.line.pushed.load(Ordering::Acquire);
        while self.line.taken.load(Ordering::Acquire) < pushed {
            if !self.is_running() {
                return Err(self.dead());
            }
            thread::sleep(self.idle);
        }
        Ok(())
    }

    /// Ends the thread when it has taken all that was pushed before this call. What is pushed later stays in the
    /// ring. A second call does nothing.
    ///
    /// # Errors
    /// `Internal` when the thread had died.
    pub fn end(&mut self) -> Result<()> {
        self.line.stop.store(true, Ordering::Release);
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

impl Drop for Taker {
    fn drop(&mut self) {
        // A thread that died has nothing more to tell.
        let _ = self.end();
    }
}

/// A thread of that name.
///
/// # Errors
/// `Io` when the system starts none.
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
    use std::sync::atomic::AtomicUsize;

    use ringbuf::traits::Producer;

    use super::*;

    const IDLE: Duration = Duration::from_micros(50);

    #[test]
    fn everything_is_taken_in_order_and_a_feeder_that_goes_on_does_not_hold_up_the_end() {
        let (mut send, take) = crate::ring::ring("numbers", 4096).unwrap();
        let line = Arc::new(Line::default());
        let (seen, hurried) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (to, told) = (Arc::clone(&seen), Arc::clone(&hurried));
        // All of it is there before the thread is.
        let pushed = send.push_iter(0..4000_usize);
        line.pushed(pushed as u64);
        let mut taker = Taker::start("counter", &line, take, IDLE, move |items, hurry| {
            told.fetch_or(hurry, Ordering::Relaxed);
            for &item in items {
                assert_eq!(item, to.load(Ordering::Relaxed));
                to.store(item + 1, Ordering::Release);
            }
        })
        .unwrap();
        taker.flush().unwrap();
        assert_eq!(seen.load(Ordering::Acquire), 4000);
        assert!(
            hurried.load(Ordering::Relaxed),
            "2,976 of 4,096 behind the first 1,024"
        );
        line.pushed((pushed + send.push_iter(4000..4100)) as u64);
        taker.end().unwrap();
        assert_eq!(seen.load(Ordering::Acquire), 4100);
        assert!(!taker.is_running() && line.is_stopping());
        // Nobody is there to take it.
        line.pushed((pushed + 100 + send.push_iter(4100..4101)) as u64);
        assert!(taker.flush().is_err());
        taker.end().unwrap();
    }

    #[test]
    fn a_thread_that_dies_is_an_error_and_no_endless_wait() {
        let (mut send, take) = crate::ring::ring("numbers", 4).unwrap();
        let line = Arc::new(Line::default());
        let mut taker = Taker::start("victim", &line, take, IDLE, |items: &[u8], _| {
            assert!(items.is_empty(), "told to die");
        })
        .unwrap();
        line.pushed(send.push_slice(&[1]) as u64);
        let error = taker.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(
            error.message().contains("victim's thread has died"),
            "{error}"
        );
        assert!(taker.end().is_err());
    }
}
