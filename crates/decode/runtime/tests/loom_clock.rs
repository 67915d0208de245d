//! The queue's clock under loom: a reader never sees half of a clock, and in the end sees the last one.

#![allow(dead_code, unreachable_pub)] // the clock is the library's own file, not all of it is used

use loom::sync::Arc;
use loom::thread;

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

#[path = "../src/stream/clock.rs"]
mod clock;

use clock::{ClockCopy, SampleClock, SharedClock};

#[test]
fn a_clock_is_read_whole_or_stays_as_it_was() {
    let clocks =
        [30.0, 31.0].map(|rate| SampleClock::new(rate as i64, -rate as i64, rate).unwrap());
    loom::model(move || {
        let shared = Arc::new(SharedClock::new());
        let producer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.set(clocks[0]);
                shared.set(clocks[1]);
            })
        };
        let mut copy = ClockCopy::default();
        shared.refresh(&mut copy);
        let first = copy.clock;
        assert!(first.is_none_or(|clock| clocks.contains(&clock)));
        producer.join().unwrap();
        shared.refresh(&mut copy);
        assert_eq!(copy.clock, Some(clocks[1]));
    });
}
