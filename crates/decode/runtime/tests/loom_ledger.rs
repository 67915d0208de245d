//! The queue's ledger under loom: every order of the two threads' accesses that the memory model
//! allows. (The ring itself is the crate ringbuf's; a slot stands for it here.)

#![allow(dead_code, unreachable_pub)] // the ledger is the library's own file, not all of it is used

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicI64, AtomicU64, Ordering};
}

#[path = "../src/stream/ledger.rs"]
mod ledger;

use ledger::Ledger;

/// A reader that sees a mark also sees the spikes, the drops and the time before it; drops never
/// decrease.
#[test]
fn a_mark_publishes_all_that_came_before() {
    loom::model(|| {
        let ledger = Arc::new(Ledger::new());
        let slot = Arc::new(UnsafeCell::new(0u32));
        let producer = {
            let (ledger, slot) = (Arc::clone(&ledger), Arc::clone(&slot));
            thread::spawn(move || {
                // loom fails the test when this write is not ordered before the read below.
                #[allow(unsafe_code)]
                // SAFETY: written before the mark that lets the consumer read.
                slot.with_mut(|spike| unsafe { *spike = 42 });
                ledger.drop_spikes(3);
                ledger.mark(7, 100);
                ledger.drop_spikes(2);
                ledger.mark(8, 200);
            })
        };
        let mut before = 0;
        for _ in 0..2 {
            let entry = ledger.read();
            assert!(entry.dropped >= before);
            before = entry.dropped;
            match entry.marked {
                None => {}
                Some(tick) => {
                    #[allow(unsafe_code)]
                    // SAFETY: the mark was seen, so the write is over.
                    let spike = slot.with(|spike| unsafe { *spike });
                    assert_eq!(spike, 42);
                    assert!(entry.dropped >= if tick == 8 { 5 } else { 3 });
                    assert!(entry.marked_at >= if tick == 8 { 200 } else { 100 });
                }
            }
        }
        producer.join().unwrap();
        let last = ledger.read();
        assert_eq!(
            (last.marked, last.marked_at, last.dropped),
            (Some(8), 200, 5)
        );
    });
}
