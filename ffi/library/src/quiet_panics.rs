//! A panic in a thread of the host's prints nothing: it is the call's status and message. A loop that moves
//! something must not wait for a terminal. A panic in a thread of Betz's own has no call that could report it and
//! goes to the host's log (`betz_set_log`), or to stderr.
//!
//! Panics enter std through `rust_begin_unwind`, and allocations that fail through `__rust_alloc_error_handler`. Both
//! can print a backtrace there, with a reader of debugging information: a fifth of the smallest library. The build
//! script therefore has the linker call the functions here instead. If it does not know the names of std's in this
//! toolchain, a hook keeps panics quiet, and std's code stays.
#![allow(
    unsafe_code,
    reason = "a section whose functions run when the library is loaded"
)]

/// Gives a report to the host's log or, without one, to stderr.
fn tell(report: &dyn std::fmt::Display) {
    if !betz_ffi::log::report_panic(report) {
        eprintln!("{report}");
    }
}

/// Reports a panic of a thread of Betz's own.
fn report(panic: &dyn std::fmt::Display) {
    if let Some(name) = std::thread::current().name()
        && name.starts_with("betz-")
    {
        tell(&format_args!("thread '{name}' {panic}"));
    }
}

#[cfg(betz_std_entries)]
mod entry {
    use std::panic::resume_unwind;

    crate::hidden!(
        concat!("__wrap_", env!("BETZ_PANIC_ENTRY")) => enter,
        concat!("__wrap_", env!("BETZ_ALLOC_ERROR_ENTRY")) => end,
    );

    /// Starts to unwind with the panic's message, as std does after its hook.
    #[cold]
    fn enter(panic: &core::panic::PanicInfo<'_>) -> ! {
        // A panic of a destructor that unwinding runs, or the one by which the compiler ends unwinding in a function
        // that must not: both may not unwind.
        if std::thread::panicking() {
            super::tell(&format_args!(
                "{panic}\nanother panic was being handled: the process ends"
            ));
            std::process::abort()
        }
        super::report(panic);
        let message = panic.message();
        match message.as_str() {
            Some(text) => resume_unwind(Box::new(text)),
            None => resume_unwind(Box::new(message.to_string())),
        }
    }

    /// Ends the process, as std does: whoever asked for memory cannot go on, and must not unwind.
    fn end(size: usize, _align: usize) -> ! {
        super::tell(&format_args!("memory allocation of {size} bytes failed"));
        std::process::abort()
    }
}

#[cfg(not(betz_std_entries))]
mod entry {
    extern "C" fn at_load() {
        std::panic::set_hook(Box::new(|panic| super::report(panic)));
    }

    #[used]
    #[unsafe(link_section = ".init_array")]
    static RUN_AT_LOAD: extern "C" fn() = at_load;
}
