//! Memory that a session takes, counted.

#![allow(clippy::unwrap_used)] // tests stop where something fails

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use betz_runtime::stream::{Session, SessionConfig};
use common::{decoder, rng};

/// The system's allocator, counting the bytes that are held.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The only test of this file, so nothing else allocates meanwhile.
#[test]
fn a_session_of_1024_channels_and_eight_filters_takes_less_than_1_mb() {
    let bank: Vec<(f64, u32)> = (0..8).map(|f| (0.02 * f64::from(f + 1), 1)).collect();
    let decoder = decoder(&mut rng(0), 1024, 2, &bank, None);
    let before = HELD.load(Ordering::Relaxed);
    let session = Session::open(&decoder, SessionConfig::default()).unwrap();
    let held = HELD.load(Ordering::Relaxed) - before;
    println!("{held} bytes");
    assert!((100_000..1_000_000).contains(&held), "{held} bytes");
    drop(session);
    assert!(HELD.load(Ordering::Relaxed) < before + 10_000);
}
