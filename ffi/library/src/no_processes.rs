//! The library starts no process. A dependency (gemm-common) asks `lscpu` for the sizes of the caches if the system's
//! files do not tell them: a controller that has locked its memory must not be forked for that. The linker calls the
//! function here instead of std's, the dependency asks the processor itself, and std's code for processes stays out.
#![allow(
    unsafe_code,
    reason = "a symbol that the linker calls instead of std's"
)]

use std::io;
use std::process::{Command, Output};

crate::hidden!(concat!("__wrap_", env!("BETZ_PROCESS_ENTRY")) => refuse);

/// In place of `Command::output`.
fn refuse(_command: &mut Command) -> io::Result<Output> {
    Err(io::ErrorKind::Unsupported.into())
}
