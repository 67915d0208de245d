//! Destructors of a thread's variables, recorded without the C library's memory.
//!
//! std notes the destructors of a thread's variables with `__cxa_thread_atexit_impl`, and glibc's ends the
//! process when it has no memory for the note. The function of that name here is hidden: std's weak
//! reference inside this library is bound to it, and nobody else's. It keeps the notes in memory of
//! [`BetzAllocator`](betz_ffi::BetzAllocator), which has a reserve, and a key of the thread's library runs them.
//!
//! (glibc's also keeps a library loaded while it has such notes; this one is linked with `-z nodelete`.)
#![allow(
    unsafe_code,
    reason = "a function of the C library's, with its contract"
)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use betz_ffi::BetzAllocator;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.betz_thread_exit,\"ax\",@progbits",
    ".globl __cxa_thread_atexit_impl",
    ".hidden __cxa_thread_atexit_impl",
    ".type __cxa_thread_atexit_impl,@function",
    "__cxa_thread_atexit_impl:",
    "jmp {note}",
    ".size __cxa_thread_atexit_impl, . - __cxa_thread_atexit_impl",
    ".popsection",
    note = sym note,
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".pushsection .text.betz_thread_exit,\"ax\",%progbits",
    ".globl __cxa_thread_atexit_impl",
    ".hidden __cxa_thread_atexit_impl",
    ".type __cxa_thread_atexit_impl,%function",
    "__cxa_thread_atexit_impl:",
    "b {note}",
    ".size __cxa_thread_atexit_impl, . - __cxa_thread_atexit_impl",
    ".popsection",
    note = sym note,
);

type Destructor = unsafe extern "C" fn(*mut c_void);

struct Note {
    run: Destructor,
    object: *mut c_void,
    next: *mut Note,
}

thread_local! {
    /// The newest note of this thread. Without a destructor of its own.
    static NEWEST: Cell<*mut Note> = const { Cell::new(ptr::null_mut()) };
}

/// The key whose destructor runs a thread's notes, and one more; 0 before there is one.
static KEY: AtomicU32 = AtomicU32::new(0);

fn key() -> Option<libc::pthread_key_t> {
    if let Some(key) = KEY.load(Ordering::Acquire).checked_sub(1) {
        return Some(key);
    }
    let mut fresh = 0;
    // SAFETY: a place for the key, and a function that may run when any thread ends.
    if unsafe { libc::pthread_key_create(&mut fresh, Some(run_all)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, fresh + 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(fresh),
        Err(other) => {
            // SAFETY: made here and used by nobody.
            unsafe { libc::pthread_key_delete(fresh) };
            Some(other - 1)
        }
    }
}

/// Runs `run(object)` when the calling thread ends, the newest note first; -1 when it cannot be noted, and
/// what the destructor would free then stays.
extern "C" fn note(run: Destructor, object: *mut c_void, _library: *mut c_void) -> i32 {
    let Some(key) = key() else {
        return -1;
    };
    // SAFETY: a layout of some bytes; the note is written before anybody reads it.
    unsafe {
        let note = BetzAllocator.alloc(Layout::new::<Note>()).cast::<Note>();
        if note.is_null() {
            return -1;
        }
        note.write(Note {
            run,
            object,
            next: NEWEST.get(),
        });
        // Any value but NULL has the key's destructor run.
        if libc::pthread_setspecific(key, note.cast_const().cast()) != 0 {
            BetzAllocator.dealloc(note.cast(), Layout::new::<Note>());
            return -1;
        }
        NEWEST.set(note);
    }
    0
}

/// The key's destructor: all notes of the thread that ends, those that come meanwhile included.
unsafe extern "C" fn run_all(_value: *mut c_void) {
    loop {
        let newest = NEWEST.get();
        if newest.is_null() {
            return;
        }
        // SAFETY: written by `note` in this thread, and taken out of the list before it is run and freed.
        unsafe {
            let Note { run, object, next } = newest.read();
            NEWEST.set(next);
            BetzAllocator.dealloc(newest.cast(), Layout::new::<Note>());
            run(object);
        }
    }
}
