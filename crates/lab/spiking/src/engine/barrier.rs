//! A meeting point of threads. They spin first, because the wait is shorter than a thread's sleep, and then give way,
//! because another thread may need the processor to arrive.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Looks before a waiting thread gives way.
const LOOKS: u32 = 2_000;

/// A barrier of a fixed number of threads, used again and again.
#[derive(Debug)]
pub(super) struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
}

impl Barrier {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// Waits for all; what each did before, the others see after. False once a thread is gone.
    #[must_use]
    pub(super) fn meet(&self) -> bool {
        if self.threads == 1 {
            return true;
        }
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Release);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return true;
        }
        let mut looks = 0;
        while self.round.load(Ordering::Acquire) == round {
            if self.broken.load(Ordering::Relaxed) {
                return false;
            }
            looks += 1;
            if looks > LOOKS {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        true
    }

    /// Lets nobody wait for ever where a thread ends by a panic.
    pub(super) fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

/// Breaks the barrier when its thread panics.
pub(super) struct Guard<'a>(&'a Barrier);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}
