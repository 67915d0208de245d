//! The parts that a board's start-up code and C library give on a microcontroller.

#[cfg_attr(target_arch = "x86_64", path = "machine/x86_64.rs")]
#[cfg_attr(target_arch = "arm", path = "machine/arm.rs")]
mod this;

pub use this::exit;

// The compiled standard crates name these, for unwinding that never happens here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit(crate::ExitCode::Panicked as i32)
}
