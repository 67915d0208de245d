//! A system without memory: what is opened with a capacity is refused, and nothing ends the process.

#![allow(unsafe_code)] // the allocator below
#![allow(clippy::unwrap_used)] // tests stop where something fails

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use betz::ErrorKind;
use betz::episode::online::{MinerConfig, open};
use betz::episode::{Interval, Pattern};
use betz::recording::Spikes;
use betz::stream::{LateSpikes, spike_queue};

/// The system's, but for blocks of exactly so many bytes, which there are none of.
struct Refuses(AtomicUsize);

// SAFETY: the system's allocator, or a refusal.
unsafe impl GlobalAlloc for Refuses {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() == self.0.load(Ordering::Relaxed) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refuses = Refuses(AtomicUsize::new(usize::MAX));

fn assert_refused<T>(bytes: usize, open: impl FnOnce() -> betz::Result<T>) {
    ALLOCATOR.0.store(bytes, Ordering::Relaxed);
    let result = open();
    ALLOCATOR.0.store(usize::MAX, Ordering::Relaxed);
    let error = result.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let says = "which the system does not give";
    assert!(error.message().contains(says), "{error}");
}

/// One test: the allocator is everybody's.
#[test]
fn what_is_too_large_for_the_system_is_refused() {
    const CAPACITY: usize = 123_457;
    // The ring, and the list of a tick's channels.
    for bytes in [16 * CAPACITY, 4 * CAPACITY] {
        assert_refused(bytes, || spike_queue(CAPACITY, LateSpikes::Take));
    }
    let pattern = Pattern::uniform(vec![0, 1], Interval::new(0, 5).unwrap()).unwrap();
    let mut config = MinerConfig::new(2, vec![pattern]);
    config.capacity = CAPACITY;
    // Five words per spike: the ring of steps.
    assert_refused(20 * CAPACITY, || open(config.clone()));
    open(config.clone()).unwrap();

    let counts = vec![1_u16; CAPACITY];
    for bytes in [8 * CAPACITY, 4 * CAPACITY] {
        assert_refused(bytes, || Spikes::from_counts(&counts, 1));
    }

    // Far more than anybody needs is an argument out of range, on any system.
    for capacity in [0, (1 << 24) + 1, usize::MAX] {
        let error = spike_queue(capacity, LateSpikes::Take).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        config.capacity = capacity;
        let error = open(config.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}
