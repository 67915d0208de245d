//! Allocations that std makes directly from the system, with the reserve as fallback.
//!
//! std has the handle of a thread and a few things more from [`System`](std::alloc::System), past the global
//! allocator, and ends the process when there are none. So the library is linked with `--wrap=malloc` and its
//! like (`build.rs`, `scripts/localise.sh`): every reference to `malloc` inside it, std's included, is one to
//! `__wrap_malloc` here, which asks the program's `malloc` (`__real_malloc`) and then the reserve of
//! [`BetzAllocator`]. Nobody else's `malloc` is touched.
//!
//! A block of the reserve has its size in front of it, for `realloc`.
#![allow(
    unsafe_code,
    reason = "functions of the C library's, with their contracts"
)]

use std::alloc::Layout;
use std::ffi::{c_int, c_void};
use std::ptr;

use betz_ffi::BetzAllocator;

/// Aligned as `malloc`'s blocks are; bytes in front of a block of the reserve.
const HEAD: usize = 16;

crate::hidden!(
    "__wrap_malloc" => allocate,
    "__wrap_calloc" => allocate_zeroed,
    "__wrap_realloc" => reallocate,
    "__wrap_posix_memalign" => allocate_aligned,
    "__wrap_aligned_alloc" => allocate_at,
    "__wrap_free" => release,
);

unsafe extern "C" {
    fn __real_malloc(size: usize) -> *mut c_void;
    fn __real_calloc(n: usize, size: usize) -> *mut c_void;
    fn __real_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn __real_posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int;
    fn __real_aligned_alloc(align: usize, size: usize) -> *mut c_void;
    fn __real_free(block: *mut c_void);
}

/// A block of the reserve with its size in front, or NULL.
#[cold]
fn reserved(size: usize, align: usize) -> *mut c_void {
    let align = align.max(HEAD);
    let layout = (size.checked_add(align)).map(|whole| Layout::from_size_align(whole, align));
    let Some(Ok(layout)) = layout else {
        return ptr::null_mut();
    };
    let block = BetzAllocator::reserved(layout);
    if block.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: `align` bytes more than `size` were asked for, and `align` is no less than the head.
    unsafe {
        let block = block.add(align);
        block.sub(HEAD).cast::<usize>().write(size);
        block.cast()
    }
}

unsafe extern "C" fn allocate(size: usize) -> *mut c_void {
    // SAFETY: the caller's contract is this function's.
    let block = unsafe { __real_malloc(size) };
    if block.is_null() {
        return reserved(size, HEAD);
    }
    block
}

unsafe extern "C" fn allocate_zeroed(n: usize, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract is this function's.
    let block = unsafe { __real_calloc(n, size) };
    if !block.is_null() {
        return block;
    }
    let Some(size) = n.checked_mul(size) else {
        return ptr::null_mut();
    };
    let block = reserved(size, HEAD);
    if !block.is_null() {
        // SAFETY: as large as asked. The reserve has been used before.
        unsafe { block.cast::<u8>().write_bytes(0, size) };
    }
    block
}

unsafe extern "C" fn allocate_aligned(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    // SAFETY: the caller's contract is this function's.
    let refused = unsafe { __real_posix_memalign(out, align, size) };
    if refused != libc::ENOMEM {
        return refused;
    }
    let block = reserved(size, align);
    if block.is_null() {
        return refused;
    }
    // SAFETY: a place for the block, by the caller's contract.
    unsafe { out.write(block) };
    0
}

unsafe extern "C" fn allocate_at(align: usize, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract is this function's.
    let block = unsafe { __real_aligned_alloc(align, size) };
    if block.is_null() && align.is_power_of_two() {
        return reserved(size, align);
    }
    block
}

unsafe extern "C" fn reallocate(block: *mut c_void, size: usize) -> *mut c_void {
    if !BetzAllocator::is_reserved(block.cast()) {
        // SAFETY: the system's block, or NULL: the caller's contract is this function's. A block that
        // does not grow stays where it is, and whoever asked says so.
        return unsafe { __real_realloc(block, size) };
    }
    // SAFETY: a block of the reserve has its size in front; old and new do not overlap.
    unsafe {
        let before = block.byte_sub(HEAD).cast::<usize>().read();
        let fresh = allocate(size);
        if !fresh.is_null() {
            ptr::copy_nonoverlapping(block.cast::<u8>(), fresh.cast(), before.min(size));
            release(block);
        }
        fresh
    }
}

unsafe extern "C" fn release(block: *mut c_void) {
    if !BetzAllocator::take_back(block.cast()) {
        // SAFETY: the system's block, or NULL.
        unsafe { __real_free(block) }
    }
}
