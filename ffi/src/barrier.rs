//! The barrier that stops panics: every exported function that can fail runs inside [`run`] or [`run_on`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, Result};
use crate::last_error;
use crate::log::{self, BETZ_LOG_FAILURES, BETZ_LOG_PANICS};
use crate::shortage::Shortage;
use crate::status::betz_status;

/// Flag of a handle: true after a panic in a call on it.
#[derive(Debug, Default)]
pub(crate) struct Poison(AtomicBool);

/// A handle: it has a name for messages, and a panic poisons it.
pub(crate) trait Handle {
    /// Name of the argument in every function that takes such a handle.
    const NAME: &'static str;

    /// The flag of this handle.
    fn poison(&self) -> &Poison;
}

/// Runs a call that has no handle yet.
pub(crate) fn run(call: impl FnOnce() -> Result<()>) -> betz_status {
    let _guard = CancellationGuard::begin();
    Shortage::begin();
    // Unwind-safe: without a handle only written results outlive the call, and they are written last.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => betz_status::BETZ_OK,
        Ok(Err(failure)) => refused(&failure),
        Err(panic) => panicked(panic),
    }
}

/// Runs a call on a handle: refuses NULL and poisoned ones, and poisons it if the call panics.
///
/// # Safety
/// `handle` is NULL or points to a live handle.
#[inline]
pub(crate) unsafe fn run_on<H: Handle>(
    handle: *const H,
    call: impl FnOnce(&H) -> Result<()>,
) -> betz_status {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { handle.as_ref() }) else {
        return refused(&Failure::Null(H::NAME));
    };
    if handle.poison().0.load(Ordering::Relaxed) {
        return refused(&Failure::Poisoned(H::NAME));
    }
    // Unwind-safe: no call sees the state after a panic, because every call checks the flag first.
    match catch_unwind(AssertUnwindSafe(|| call(handle))) {
        Ok(Ok(())) => betz_status::BETZ_OK,
        Ok(Err(failure)) => refused(&failure),
        Err(panic) => {
            handle.poison().0.store(true, Ordering::Relaxed);
            panicked(panic)
        }
    }
}

/// Runs a call that waits for a file or a thread, or makes a handle, otherwise like [`run_on`].
///
/// # Safety
/// The same as for [`run_on`].
pub(crate) unsafe fn wait_on<H: Handle>(
    handle: *const H,
    call: impl FnOnce(&H) -> Result<()>,
) -> betz_status {
    let _guard = CancellationGuard::begin();
    Shortage::begin();
    // SAFETY: the caller's promise.
    unsafe { run_on(handle, call) }
}

/// Protects the calling thread from cancellation while it lives: unwinding by `pthread_cancel` through Rust
/// would end the process. A request during this time acts at the thread's next cancellation point.
struct CancellationGuard(#[cfg(target_os = "linux")] std::ffi::c_int);

#[cfg(target_os = "linux")]
mod cancellation {
    use std::ffi::c_int;

    pub(super) const DISABLE: c_int = 1;

    unsafe extern "C" {
        pub(super) fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
}

impl CancellationGuard {
    fn begin() -> Self {
        #[cfg(target_os = "linux")]
        {
            let mut before = 0;
            // SAFETY: the pointer is to a local variable for the previous state; nothing else is touched.
            unsafe {
                cancellation::pthread_setcancelstate(cancellation::DISABLE, &mut before);
            }
            Self(before)
        }
        #[cfg(not(target_os = "linux"))]
        Self()
    }
}

#[cfg(target_os = "linux")]
impl Drop for CancellationGuard {
    fn drop(&mut self) {
        let mut within = 0;
        // SAFETY: as above, and the state is the one that the call above returned.
        unsafe {
            cancellation::pthread_setcancelstate(self.0, &mut within);
        }
    }
}

/// A second handle that a call uses. Refuses NULL and poisoned handles; a panic while the guard lives poisons
/// the handle.
///
/// # Safety
/// `handle` is NULL or points to a handle that lives for `'a`.
pub(crate) unsafe fn second<'a, H: Handle>(handle: *const H) -> Result<(&'a H, PoisonGuard<'a>)> {
    // SAFETY: the caller's promise.
    let handle = unsafe { handle.as_ref() }.ok_or(Failure::Null(H::NAME))?;
    if handle.poison().0.load(Ordering::Relaxed) {
        return Err(Failure::Poisoned(H::NAME));
    }
    Ok((handle, PoisonGuard(handle.poison())))
}

/// Poisons the handle if a panic drops the guard.
pub(crate) struct PoisonGuard<'a>(&'a Poison);

impl Drop for PoisonGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs a destructor and swallows its panic.
pub(crate) fn run_free(free: impl FnOnce()) {
    let _guard = CancellationGuard::begin();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(free)) {
        panicked(panic);
    }
}

/// The value of a query without a status, or `otherwise` for NULL and after a panic.
///
/// # Safety
/// `handle` is NULL or points to a live handle.
pub(crate) unsafe fn query<H: Handle, T>(
    handle: *const H,
    otherwise: T,
    call: impl FnOnce(&H) -> T,
) -> T {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { handle.as_ref() }) else {
        refused(&Failure::Null(H::NAME));
        return otherwise;
    };
    match catch_unwind(AssertUnwindSafe(|| call(handle))) {
        Ok(value) => value,
        Err(panic) => {
            panicked(panic);
            otherwise
        }
    }
}

#[cold]
fn refused(failure: &Failure) -> betz_status {
    last_error::set(failure);
    let status = failure.status();
    log::report(BETZ_LOG_FAILURES, status);
    status
}

#[cold]
fn panicked(panic: Box<dyn Any + Send>) -> betz_status {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    last_error::set(&format_args!("panic: {text}"));
    // A payload whose destructor panics must not unwind from here.
    std::mem::forget(panic);
    log::report(BETZ_LOG_PANICS, betz_status::BETZ_ERROR_PANIC);
    betz_status::BETZ_ERROR_PANIC
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn may_be_cancelled() -> bool {
        let within = CancellationGuard::begin();
        within.0 != cancellation::DISABLE
    }

    #[test]
    fn a_thread_is_not_cancelled_within_a_call_that_waits_and_may_be_behind_it() {
        assert!(may_be_cancelled());
        let mut within = true;
        run(|| {
            within = may_be_cancelled();
            Ok(())
        });
        assert!(!within);
        run_free(|| within = may_be_cancelled());
        assert!(!within && may_be_cancelled());
    }
}
