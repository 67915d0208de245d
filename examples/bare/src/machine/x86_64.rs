//! Linux on x86-64: entry, exit, and moves of memory, which C libraries have and Rust's crates for Linux lack.

use core::arch::{asm, global_asm};

// The kernel starts a program with an aligned stack and no return address.
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {begin}",
    begin = sym begin,
);

extern "C" fn begin() -> ! {
    exit(crate::run() as i32)
}

/// Ends the program: a board would reset, or stop its outputs.
pub fn exit(code: i32) -> ! {
    // SAFETY: `exit_group` touches no memory and does not return.
    unsafe {
        asm!("syscall", in("rax") 231, in("rdi") code, options(noreturn, nostack));
    }
}

/// # Safety
/// The caller keeps the rules of the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear by the ABI.
    unsafe {
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") length => _,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// The caller keeps the rules of the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= length {
        // SAFETY: what is written first lies before all that is still to be read.
        return unsafe { memcpy(to, from, length) };
    }
    // SAFETY: the caller's promise; backwards from the ends, and the flag is cleared again.
    unsafe {
        asm!("std", "rep movsb", "cld",
            inout("rdi") to.wrapping_add(length).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(length).wrapping_sub(1) => _,
            inout("rcx") length => _, options(nostack));
    }
    to
}

/// # Safety
/// The caller keeps the rules of the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, length: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear by the ABI.
    unsafe {
        asm!("rep stosb", inout("rdi") to => _, in("al") value as u8, inout("rcx") length => _,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// The caller keeps the rules of the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, length: usize) -> i32 {
    for i in 0..length {
        // SAFETY: the caller's promise. Volatile, so that the loop does not become a call of this function.
        let (a, b) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
/// The caller keeps the rules of the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, length: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, length) }
}
