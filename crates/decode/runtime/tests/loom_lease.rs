//! A tap that is taken back while a session steps, under loom: every order of the two threads' accesses that the memory
//! model allows.

#![allow(dead_code, unreachable_pub)] // the lease is the library's own file, not all of it is used

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

mod between {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(super) use loom::sync::{Arc, Mutex};

    pub(super) fn pause() {
        loom::thread::yield_now();
    }
}

/// Parts of taps that a lease uses.
mod tap {
    use super::{Arc, AtomicUsize, Ordering};

    pub(super) struct Step<'a>(pub(super) &'a u32);

    pub(super) struct TapPlace(pub(super) Arc<AtomicUsize>);

    impl Drop for TapPlace {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(super) trait Tap: Send {
        fn take(&mut self, step: &Step<'_>);
        fn rest(&mut self) {}
        fn name(&self) -> &'static str {
            ""
        }
        fn keep_place(&mut self, place: TapPlace) -> Option<TapPlace> {
            Some(place)
        }
        fn free_place(&mut self) {}
        fn is_closed(&self) -> bool {
            false
        }
    }
}

#[path = "../src/stream/lease.rs"]
mod lease;

use lease::lend;
use tap::{Step, Tap, TapPlace};

/// A cell of two threads; loom fails the test if they touch it at the same time.
struct StepCount(UnsafeCell<u32>);

#[allow(unsafe_code)]
// SAFETY: loom watches that no two threads touch it at the same time.
unsafe impl Sync for StepCount {}

#[allow(unsafe_code)]
impl StepCount {
    fn add(&self, n: u32) {
        // SAFETY: as above.
        self.0.with_mut(|heard| unsafe { *heard += n });
    }

    fn get(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|heard| unsafe { *heard })
    }
}

/// Counts the steps that it hears in a cell that loom watches; dropping it reads the cell and says so.
struct Counter {
    heard: Arc<StepCount>,
    dropped: Arc<AtomicBool>,
}

impl Tap for Counter {
    fn take(&mut self, step: &Step<'_>) {
        self.heard.add(*step.0);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.heard.get();
        assert!(!self.dropped.swap(true, Ordering::AcqRel), "dropped twice");
    }
}

fn counter() -> (Counter, Arc<StepCount>, Arc<AtomicBool>) {
    let (heard, dropped) = (
        Arc::new(StepCount(UnsafeCell::new(0))),
        Arc::new(AtomicBool::new(false)),
    );
    let counter = Counter {
        heard: Arc::clone(&heard),
        dropped: Arc::clone(&dropped),
    };
    (counter, heard, dropped)
}

/// The owner frees the tap in its own thread, never during a step; nothing is heard afterwards. Whoever gets the place
/// finds the old tap closed.
#[test]
fn a_tap_is_taken_back_between_steps() {
    loom::model(|| {
        let (counter, heard, dropped) = counter();
        let places = Arc::new(AtomicUsize::new(1));
        let (mut lent, lease) = lend(counter);
        assert!(lent.keep_place(TapPlace(Arc::clone(&places))).is_none());
        let session = loom::thread::spawn({
            let places = Arc::clone(&places);
            move || {
                for _ in 0..2 {
                    lent.take(&Step(&1));
                    if places.load(Ordering::Acquire) == 0 {
                        assert!(lent.is_closed());
                    }
                }
                lent
            }
        });
        drop(lease);
        assert!(dropped.load(Ordering::Acquire) && places.load(Ordering::Acquire) == 0);
        // loom fails the test if the session can still touch it.
        let after = heard.get();
        let mut lent = session.join().unwrap();
        lent.take(&Step(&1));
        assert!(heard.get() == after && lent.is_closed());
    });
}

/// Session and owner let go at the same time: the tap is freed once, and it is freed.
#[test]
fn both_ends_let_go_at_once() {
    loom::model(|| {
        let (counter, _heard, dropped) = counter();
        let (lent, lease) = lend(counter);
        let session = loom::thread::spawn(move || drop(lent));
        drop(lease);
        session.join().unwrap();
        assert!(dropped.load(Ordering::Acquire));
    });
}
