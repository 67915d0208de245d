//! Steps decoders without an operating system: no standard library, no C library, memory from one static block.
//!
//! Exit codes: 0 if all estimates are as expected and no step allocated; see [`ExitCode`].

#![no_std]
#![no_main]

extern crate alloc;

#[cfg(feature = "count")]
mod count;
mod machine;
// A test of the runtime steps the same models with the standard library.
#[path = "../../../crates/decode/runtime/tests/sessions/bare/steps.rs"]
mod steps;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of the block that all sessions share.
const BLOCK: usize = if cfg!(feature = "count") {
    4 << 20
} else {
    256 << 10
};

/// Reasons for the end of the program.
#[derive(Clone, Copy)]
enum ExitCode {
    Success = 0,
    /// A model was refused, or there was no memory for it.
    NotOpened = 1,
    /// A step was refused.
    NotStepped = 2,
    /// The estimates differ from those of a session with the standard library.
    Different = 3,
    /// A step asked for memory or gave some back.
    Allocated = 4,
    Panicked = 5,
}

/// Memory from a static block, one part behind the other. Freed parts are not used again.
struct StaticBlock {
    bytes: UnsafeCell<[u8; BLOCK]>,
    taken: AtomicUsize,
    /// True while sessions step: then every request is a fault.
    closed: AtomicBool,
    /// True if a request came while it was closed.
    touched: AtomicBool,
}

// SAFETY: parts that were taken never overlap, because `taken` only grows.
unsafe impl Sync for StaticBlock {}

#[global_allocator]
static MEMORY: StaticBlock = StaticBlock {
    bytes: UnsafeCell::new([0; BLOCK]),
    taken: AtomicUsize::new(0),
    closed: AtomicBool::new(false),
    touched: AtomicBool::new(false),
};

impl StaticBlock {
    fn note(&self) {
        if self.closed.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
    }
}

// SAFETY: every part lies in the block, is aligned, and is given out once.
unsafe impl GlobalAlloc for StaticBlock {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note();
        let base = self.bytes.get().cast::<u8>();
        let at = base as usize + self.taken.load(Ordering::Relaxed);
        let start = at.next_multiple_of(layout.align()) - base as usize;
        match start.checked_add(layout.size()) {
            Some(end) if end <= BLOCK => {
                self.taken.store(end, Ordering::Relaxed);
                base.wrapping_add(start)
            }
            _ => core::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _part: *mut u8, _layout: Layout) {
        self.note();
    }
}

/// Opens every model, steps it, and compares the estimates.
fn run() -> ExitCode {
    #[cfg(feature = "count")]
    if count::run().is_none() {
        return ExitCode::NotStepped;
    }
    for (model, expected) in steps::MODELS.into_iter().zip(steps::EXPECTED) {
        let Ok(mut session) = steps::open(model) else {
            return ExitCode::NotOpened;
        };
        MEMORY.closed.store(true, Ordering::Relaxed);
        let sum = steps::step(&mut session);
        MEMORY.closed.store(false, Ordering::Relaxed);
        let Some(sum) = sum else {
            return ExitCode::NotStepped;
        };
        if sum.to_bits() != expected.to_bits() {
            return ExitCode::Different;
        }
    }
    if MEMORY.touched.load(Ordering::Relaxed) {
        return ExitCode::Allocated;
    }
    ExitCode::Success
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    machine::exit(ExitCode::Panicked as i32)
}
