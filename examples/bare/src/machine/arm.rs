//! A Cortex-M7, as QEMU's user mode runs it: entry and exit. Rust's crates for it have moves of memory.

use core::arch::{asm, global_asm};

global_asm!(
    ".globl _start",
    ".thumb_func",
    "_start:",
    // The floating-point unit is on in user mode; a board's start-up code turns it on.
    "bl {begin}",
    begin = sym begin,
);

extern "C" fn begin() -> ! {
    exit(crate::run() as i32)
}

/// Ends the program: a board would reset, or stop its outputs.
pub fn exit(code: i32) -> ! {
    // SAFETY: `exit_group` touches no memory and does not return.
    unsafe {
        asm!("mov r7, {number}", "svc 0", number = in(reg) 248, in("r0") code, options(noreturn, nostack));
    }
}
