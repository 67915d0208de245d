//! A ring of steps under loom: every order of the two threads' accesses that the memory model allows. The ring of words is
//! the crate ringbuf's; one with the same indices, orderings and ends stands for it here.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub)] // the ring is the library's own file, not all of it is used

extern crate alloc;

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

#[path = "../../../base/base/src/worker/backlog.rs"]
mod backlog;

mod between {
    pub(super) use betz_base::Result;
    pub(super) use loom::sync::Arc;

    pub(super) use super::backlog::Backlog;
    pub(super) use super::modelled::{HeapCons, HeapProd, ring_of};
    // The modelled ring has the methods of these traits itself.
    pub(super) use ringbuf::traits::{Consumer, Observer, Producer};
}

/// Data of a tap, as far as the ring examines them.
mod tap {
    #[derive(Clone, Copy)]
    pub(super) enum Input<'a> {
        Spikes(&'a [u32]),
        Counts(&'a [u16]),
        CountsU8(&'a [u8]),
        CountsF32(&'a [f32]),
    }

    pub(super) struct Step<'a> {
        pub(super) tick: i64,
        pub(super) input: Input<'a>,
        pub(super) estimates: &'a [f32],
        pub(super) beside: &'a [f64],
        pub(super) previous_latency_ns: u32,
    }
}

#[allow(unused_imports)]
#[path = "../src/stream/steps.rs"]
mod steps;

/// A ring whose indices loom watches, as it does each of its words.
mod modelled {
    use std::num::NonZeroUsize;

    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    struct Ring<T> {
        cells: Vec<UnsafeCell<T>>,
        /// Elements ever read and written.
        read: AtomicUsize,
        write: AtomicUsize,
        write_held: AtomicBool,
    }

    #[allow(unsafe_code)]
    // SAFETY: one end writes, the other reads what was written; loom watches that they do.
    unsafe impl<T: Send> Sync for Ring<T> {}

    pub struct HeapProd<T>(Arc<Ring<T>>);
    pub struct HeapCons<T>(Arc<Ring<T>>);

    pub fn ring_of<T: Copy + Default>(
        _: &str,
        capacity: usize,
        size: usize,
    ) -> betz_base::Result<(HeapProd<T>, HeapCons<T>)> {
        let ring = Arc::new(Ring {
            cells: (0..capacity * size)
                .map(|_| UnsafeCell::new(T::default()))
                .collect(),
            read: AtomicUsize::new(0),
            write: AtomicUsize::new(0),
            write_held: AtomicBool::new(true),
        });
        Ok((HeapProd(ring.clone()), HeapCons(ring)))
    }

    impl<T: Copy> Ring<T> {
        fn occupied(&self) -> usize {
            self.write.load(Ordering::Acquire) - self.read.load(Ordering::Acquire)
        }

        fn cell(&self, at: usize) -> &UnsafeCell<T> {
            &self.cells[at % self.cells.len()]
        }
    }

    #[allow(unsafe_code)]
    impl<T: Copy> HeapProd<T> {
        pub fn vacant_len(&self) -> usize {
            self.0.cells.len() - self.0.occupied()
        }

        pub fn push_iter(&mut self, from: impl Iterator<Item = T>) -> usize {
            let vacant = self.vacant_len();
            let at = self.0.write.load(Ordering::Acquire);
            let mut n = 0;
            for (k, v) in from.take(vacant).enumerate() {
                // SAFETY: vacant; loom fails the test where the reader has not left it.
                (self.0.cell(at + k)).with_mut(|to| unsafe { *to = v });
                n += 1;
            }
            self.0.write.store(at + n, Ordering::Release);
            n
        }

        pub fn push_slice(&mut self, from: &[T]) -> usize {
            self.push_iter(from.iter().copied())
        }
    }

    impl<T> Drop for HeapProd<T> {
        fn drop(&mut self) {
            self.0.write_held.swap(false, Ordering::AcqRel);
        }
    }

    #[allow(unsafe_code)]
    impl<T: Copy> HeapCons<T> {
        pub fn occupied_len(&self) -> usize {
            self.0.occupied()
        }

        pub fn peek_slice(&self, to: &mut [T]) -> usize {
            let (n, at) = (
                to.len().min(self.0.occupied()),
                self.0.read.load(Ordering::Acquire),
            );
            for (k, v) in to[..n].iter_mut().enumerate() {
                // SAFETY: occupied; loom fails the test where it was not written before.
                *v = (self.0.cell(at + k)).with(|from| unsafe { *from });
            }
            n
        }

        pub fn skip(&mut self, n: usize) -> usize {
            let n = n.min(self.0.occupied());
            self.0.read.fetch_add(n, Ordering::Release);
            n
        }

        pub fn pop_slice(&mut self, to: &mut [T]) -> usize {
            let n = self.peek_slice(to);
            self.skip(n)
        }

        pub fn clear(&mut self) -> usize {
            self.skip(self.0.occupied())
        }

        pub fn capacity(&self) -> NonZeroUsize {
            NonZeroUsize::new(self.0.cells.len()).unwrap()
        }

        pub fn write_is_held(&self) -> bool {
            self.0.write_held.load(Ordering::Acquire)
        }
    }
}

use steps::{STEP_WORDS, StepReader, StepRecord, StepWriter, step_ring};
use tap::{Input, Step};

/// Spikes of a long step.
const LONG: usize = 3;
/// Words of a long step with one output: head, details, the two models' outputs, the list.
const STEP: usize = STEP_WORDS + 3 + 2 + LONG;

/// Step 1 has a long list and a second model, the others one spike.
fn give(writer: &mut StepWriter, number: u32) {
    let long = [number; LONG];
    let (spikes, beside) = match number {
        1 => (&long[..], &[0.5][..]),
        _ => (&long[..1], &[][..]),
    };
    writer.push(&Step {
        tick: i64::from(number),
        input: Input::Spikes(spikes),
        estimates: &[number as f32],
        beside,
        previous_latency_ns: number,
    });
}

/// Whole, marked where steps before it are missing, and each of those is counted by now.
fn check(step: &StepRecord, taken: u64, reader: &StepReader) {
    let number = step.number as u32;
    let long = number == 1;
    assert_eq!(step.tick, i64::from(number));
    assert_eq!(step.previous_latency_ns, number);
    assert_eq!(step.estimates, [number as f32]);
    assert_eq!(step.fired, vec![(number, 1.0); if long { LONG } else { 1 }]);
    assert_eq!(step.auxiliary.len(), usize::from(long));
    assert!(taken + reader.backlog().lost() >= step.number);
    assert!(reader.backlog().pushed() <= 3);
}

/// `steps` steps through a ring of `words`, the reader looking `looks` times before it waits for the end.
fn run(words: usize, steps: u32, looks: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let (mut writer, mut reader) = step_ring("steps", words, 1, Some(1)).unwrap();
        let session = loom::thread::spawn(move || (0..steps).for_each(|n| give(&mut writer, n)));
        let (mut step, mut taken, mut next) = (StepRecord::default(), 0, 0);
        let mut session = Some(session);
        for look in 0..=looks {
            if look == looks
                && let Some(session) = session.take()
            {
                session.join().unwrap();
            }
            // As the page's hub does: whether the end came is asked before the ring is emptied.
            let ended = !reader.is_connected();
            while reader.take(&mut step) {
                assert!(step.number >= next);
                assert_eq!(step.after_gap, step.number > next);
                next = step.number + 1;
                check(&step, taken, &reader);
                taken += 1;
            }
            if ended {
                assert_eq!(taken + reader.backlog().lost(), u64::from(steps));
                assert_eq!(taken, reader.backlog().pushed());
                break;
            }
        }
    });
}

/// With room for all: nothing is torn, and all is there once the end is seen.
#[test]
fn a_step_in_two_parts_is_whole_when_it_is_taken() {
    run(2 * STEP, 2, 2);
}

/// With room for the long step alone: what does not fit is counted before the next step can be seen.
#[test]
fn what_does_not_fit_is_counted_before_what_comes_after_it() {
    run(STEP, 3, 2);
}
