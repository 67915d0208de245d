//! Functions of the system in place of those of the C library and of the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more.
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread so far.
pub(crate) fn allocations_of_this_thread() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

static JUMPS: AtomicBool = AtomicBool::new(false);
static HANGS: AtomicBool = AtomicBool::new(false);

/// Makes the wall clock jump by an hour, back and forth, with every look at it.
pub(crate) fn jump(jumps: bool) {
    JUMPS.store(jumps, Ordering::SeqCst);
}

/// While it lives, every write to a file waits.
pub(crate) struct Hang;

pub(crate) fn hang() -> Hang {
    HANGS.store(true, Ordering::SeqCst);
    Hang
}

impl Drop for Hang {
    fn drop(&mut self) {
        HANGS.store(false, Ordering::SeqCst);
    }
}

/// Time of the C library.
#[repr(C)]
pub(crate) struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// Stands in for the C library's function.
///
/// # Safety
/// `time` is a place for a time.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
unsafe extern "C" fn clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    use rustix::time::ClockId;
    static LOOKS: AtomicBool = AtomicBool::new(false);
    let known = match clock {
        0 => ClockId::Realtime,
        1 => ClockId::Monotonic,
        2 => ClockId::ProcessCPUTime,
        3 => ClockId::ThreadCPUTime,
        4 => ClockId::MonotonicRaw,
        7 => ClockId::Boottime,
        _ => return -1,
    };
    let now = rustix::time::clock_gettime(known);
    let is_ahead = clock == 0 && JUMPS.load(Ordering::SeqCst) && LOOKS.fetch_not(Ordering::SeqCst);
    // SAFETY: the caller's promise.
    unsafe {
        (*time).seconds = now.tv_sec + if is_ahead { 3600 } else { 0 };
        (*time).nanoseconds = now.tv_nsec;
    }
    0
}

/// Stands in for the C library's function.
///
/// # Safety
/// `bytes` are `length` bytes, and `file` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
unsafe extern "C" fn write(file: i32, bytes: *const u8, length: usize) -> isize {
    while file > 2 && HANGS.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    // SAFETY: the caller's promise.
    let (file, bytes) = unsafe {
        (
            std::os::fd::BorrowedFd::borrow_raw(file),
            std::slice::from_raw_parts(bytes, length),
        )
    };
    match rustix::io::write(file, bytes) {
        Ok(written) => written as isize,
        // The caller reads `errno`, which a successful call before has not set: any failure is one.
        Err(_) => -1,
    }
}
