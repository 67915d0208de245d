//! A feed and its reader under loom: every order of the two threads' accesses that the memory model allows. The ring is
//! the crate ringbuf's; one with the same indices, orderings and ends stands for it here.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub)] // the feed is the library's own file, not all of it is used

use betz_runtime::stream::{Input, Step, StepStatus, SwapState, Tap};

mod between {
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

    pub(crate) use super::modelled as ring;
    pub(crate) use super::modelled::{HeapCons, HeapProd};
}

#[path = "../src/feed.rs"]
mod feed;

/// A ring whose indices loom watches, as it does each of its words.
mod modelled {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    pub const MAX_CAPACITY: usize = 1 << 10;

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

    pub fn ring<T: Copy + Default>(
        _: &str,
        capacity: usize,
    ) -> betz_base::Result<(HeapProd<T>, HeapCons<T>)> {
        let ring = Arc::new(Ring {
            cells: (0..capacity)
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

        pub fn push_slice(&mut self, from: &[T]) -> usize {
            let n = from.len().min(self.vacant_len());
            let at = self.0.write.load(Ordering::Acquire);
            for (k, v) in from[..n].iter().enumerate() {
                // SAFETY: vacant; loom fails the test where the reader has not left it.
                (self.0.cell(at + k)).with_mut(|to| unsafe { *to = *v });
            }
            self.0.write.store(at + n, Ordering::Release);
            n
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

        pub fn try_pop(&mut self) -> Option<T>
        where
            T: Default,
        {
            let mut one = [T::default()];
            (self.pop_slice(&mut one) == 1).then(|| one[0])
        }

        pub fn write_is_held(&self) -> bool {
            self.0.write_held.load(Ordering::Acquire)
        }
    }
}

use feed::{Feed, FeedReader, Taken};

/// Longer than what goes in with the head, so that a step comes in three parts.
const LONG: usize = 65;
/// Words of a step with one output: its head, the output, the list, the second model's output.
const STEP: usize = 7 + 1 + LONG + 1;

/// Step 1 has a long list and a second model, the others one spike.
fn give(feed: &mut Feed, number: u32) {
    let long = [number; LONG];
    let (spikes, beside) = match number {
        1 => (&long[..], &[0.5][..]),
        _ => (&long[..1], &[][..]),
    };
    feed.take(&Step {
        tick: i64::from(number),
        input: Input::Spikes(spikes),
        estimates: &[number as f32],
        beside,
        status: StepStatus::OK,
        previous_latency_ns: number,
        swap: SwapState::Idle,
    });
}

/// Whole, and every step before it either was taken or is counted by now.
fn check(step: &Taken, taken: u64, reader: &FeedReader) {
    let number = step.number as u32;
    let long = number == 1;
    assert_eq!(step.tick, i64::from(number));
    assert_eq!(step.previous_latency_ns, number);
    assert_eq!(step.estimates, [number as f32]);
    assert_eq!(step.spikes, vec![number; if long { LONG } else { 1 }]);
    assert_eq!(step.beside.len(), usize::from(long));
    assert!(taken + reader.not_shown() >= step.number);
}

/// `steps` steps through a ring of `words`, the reader looking `looks` times before it waits for the end.
fn run(words: usize, steps: u32, looks: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let (mut feed, mut reader) = feed::feed(1, 1, words).unwrap();
        let session = loom::thread::spawn(move || (0..steps).for_each(|n| give(&mut feed, n)));
        let (mut step, mut taken) = (Taken::default(), 0);
        let mut session = Some(session);
        for look in 0..=looks {
            if look == looks
                && let Some(session) = session.take()
            {
                session.join().unwrap();
            }
            // As the hub does: whether the end came is asked before the ring is emptied.
            let ended = !reader.is_connected();
            let mut last = None;
            while reader.take(&mut step) {
                assert!(last.is_none_or(|l| l < step.number));
                last = Some(step.number);
                check(&step, taken, &reader);
                taken += 1;
            }
            if ended {
                assert_eq!(taken + reader.not_shown(), u64::from(steps));
                break;
            }
        }
    });
}

/// With room for all: nothing is torn, and all is there once the end is seen.
#[test]
fn a_step_in_three_parts_is_whole_when_it_is_taken() {
    run(2 * STEP, 2, 2);
}

/// With room for the long step alone: what does not fit is counted before the next step can be seen.
#[test]
fn what_does_not_fit_is_counted_before_what_comes_after_it() {
    run(STEP, 3, 2);
}
