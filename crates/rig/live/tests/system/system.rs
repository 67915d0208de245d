//! Functions of the system in place of those of the C library and of the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

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
/// Bytes that the disk has room for, and those that a file gives back when it is cut to nothing.
static ROOM: AtomicU64 = AtomicU64::new(u64::MAX);
static GIVEN_BACK: AtomicU64 = AtomicU64::new(0);
/// Number of the error of a disk without room.
static ERROR: AtomicI32 = AtomicI32::new(0);

/// No space is left.
pub(crate) const ENOSPC: i32 = 28;
/// The device does not answer.
pub(crate) const EIO: i32 = 5;

/// While it lives, the disk has little room.
pub(crate) struct SmallDisk;

/// A disk with `room` bytes, on which a file that is cut to nothing gives back `given_back`; then `error` comes.
pub(crate) fn small_disk(room: u64, given_back: u64, error: i32) -> SmallDisk {
    ERROR.store(error, Ordering::SeqCst);
    GIVEN_BACK.store(given_back, Ordering::SeqCst);
    ROOM.store(room, Ordering::SeqCst);
    SmallDisk
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        ROOM.store(u64::MAX, Ordering::SeqCst);
    }
}

/// Makes the wall clock jump by an hour, back and forth, with every look at it.
pub(crate) fn jump(jumps: bool) {
    JUMPS.store(jumps, Ordering::SeqCst);
}

static OPENED: AtomicU64 = AtomicU64::new(0);

/// Files that this process has opened so far.
pub(crate) fn opened_files() -> u64 {
    OPENED.load(Ordering::SeqCst)
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
    let room = match file > 2 {
        true => ROOM.load(Ordering::SeqCst),
        false => u64::MAX,
    };
    let length = length.min(usize::try_from(room).unwrap_or(usize::MAX));
    if room == 0 {
        // SAFETY: the place is this thread's.
        unsafe { *__errno_location() = ERROR.load(Ordering::SeqCst) };
        return -1;
    }
    // SAFETY: the caller's promise.
    let (place, bytes) = unsafe {
        (
            std::os::fd::BorrowedFd::borrow_raw(file),
            std::slice::from_raw_parts(bytes, length),
        )
    };
    match rustix::io::write(place, bytes) {
        Ok(written) => {
            if room != u64::MAX {
                ROOM.fetch_sub(written as u64, Ordering::SeqCst);
            }
            written as isize
        }
        // The caller reads `errno`, which a successful call before has not set: any failure is one.
        Err(_) => -1,
    }
}

#[allow(unsafe_code)]
unsafe extern "C" {
    fn __errno_location() -> *mut i32;
}

/// Stands in for the C library's function.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
unsafe extern "C" fn ftruncate64(file: i32, length: i64) -> i32 {
    if length == 0 && ROOM.load(Ordering::SeqCst) != u64::MAX {
        ROOM.fetch_add(GIVEN_BACK.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    // SAFETY: the caller's promise.
    let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(file) };
    match rustix::fs::ftruncate(file, length.cast_unsigned()) {
        Ok(()) => 0,
        Err(_) => -1,
    }
}

/// Stands in for the C library's function.
///
/// # Safety
/// `path` ends with a zero.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
unsafe extern "C" fn open64(path: *const std::ffi::c_char, flags: i32, mode: u32) -> i32 {
    use rustix::fs::{Mode, OFlags};
    OPENED.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the caller's promise.
    let path = unsafe { std::ffi::CStr::from_ptr(path) };
    let flags = OFlags::from_bits_retain(flags.cast_unsigned());
    match rustix::fs::open(path, flags, Mode::from_bits_retain(mode)) {
        Ok(file) => std::os::fd::IntoRawFd::into_raw_fd(file),
        Err(error) => {
            // SAFETY: the place is this thread's.
            unsafe { *__errno_location() = error.raw_os_error() };
            -1
        }
    }
}
