//! libbetz.so and libbetz.a: the functions of `betz_ffi`, and nothing else.
//!
//! A crate of its own because the libraries are called `betz`, as the Rust library is: one package
//! cannot build an rlib under one name and a shared library under another.

/// A jump to `function`.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
macro_rules! jump {
    () => {
        "jmp {function}"
    };
}

/// A jump to `function`.
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
macro_rules! jump {
    () => {
        "b {function}"
    };
}

/// Hidden names for functions: seen inside the library, and not outside.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
macro_rules! hidden {
    ($($name:expr => $function:ident),* $(,)?) => {$(
        core::arch::global_asm!(
            concat!(".pushsection .text.", $name, ",\"ax\""),
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ",STT_FUNC"),
            concat!($name, ":"),
            crate::jump!(),
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            function = sym $function,
        );
    )*};
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
use {hidden, jump};

#[cfg(betz_process_entry)]
mod no_processes;
#[cfg(target_os = "linux")]
mod quiet_panics;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod system_memory;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod thread_exit;

pub use betz_ffi::*;

/// So that a process does not end where memory does: see `betz_ffi::allocator`.
#[global_allocator]
static MEMORY: betz_ffi::BetzAllocator = betz_ffi::BetzAllocator;
