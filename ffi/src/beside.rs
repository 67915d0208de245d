//! Helpers for a library that adds functions of its own to these in one binary: the page's library
//! (`monitor/ffi`). Not for programs: hidden, and subject to change.
#![doc(hidden)]

use std::ffi::c_char;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use betz::Error;
use betz::model::Decoder;
use betz::stream::Tap;

use crate::barrier;
use crate::cast;
use crate::failure::Failure;
use crate::hearing;
use crate::model::betz_model;
use crate::session::betz_session;
use crate::status::betz_status;
use crate::workers::Workers;

/// Reason for refusing a call.
pub struct Refusal(Failure);

impl Refusal {
    /// Refuses an invalid argument.
    pub fn argument(name: &'static str, expected: &'static str) -> Self {
        Self(Failure::Argument { name, expected })
    }

    /// Refuses a NULL pointer.
    pub fn null(name: &'static str) -> Self {
        Self(Failure::Null(name))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(error.into())
    }
}

/// Runs a call and turns its refusal or panic into a status and this thread's message.
pub fn run(call: impl FnOnce() -> Result<(), Refusal>) -> betz_status {
    barrier::run(|| call().map_err(|refusal| refusal.0))
}

/// Runs a destructor and swallows its panic.
pub fn run_free(free: impl FnOnce()) {
    barrier::run_free(free);
}

/// Runs `start`, which starts threads, on a thread with the normal policy that blocks all signals.
///
/// # Errors
/// Returns the errors of `start`, and fails if the system cannot start a thread.
pub fn start<T: Send>(start: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Refusal> {
    // SAFETY: there is no array of processors.
    let workers = unsafe { Workers::read(0, 0, std::ptr::null(), 0) }.map_err(Refusal)?;
    workers.run(|| Ok(start()?)).map_err(Refusal)
}

/// Reads the caller's text; returns `otherwise` for NULL.
///
/// # Errors
/// Fails if the text is not UTF-8.
///
/// # Safety
/// `text` is NULL or a NUL-terminated string that lives, unchanged, for `'a`.
pub unsafe fn text<'a>(
    text: *const c_char,
    name: &'static str,
    otherwise: &'a str,
) -> Result<&'a str, Refusal> {
    if text.is_null() {
        return Ok(otherwise);
    }
    // SAFETY: the caller's promise.
    unsafe { cast::text(text, name) }.map_err(Refusal)
}

/// A model's decoder.
///
/// # Errors
/// Fails for NULL and for a poisoned handle.
///
/// # Safety
/// `model` is NULL or a live model.
pub unsafe fn decoder(model: *const betz_model) -> Result<Arc<Decoder>, Refusal> {
    // SAFETY: the caller's promise.
    let (model, _guard) = unsafe { barrier::second(model) }.map_err(Refusal)?;
    Ok(model.decoder().clone())
}

/// Attaches a tap to a session whose model is like `decoder`, at most once per `attached`.
///
/// # Errors
/// Fails for NULL, for a session whose channels, outputs or step differ, and for a second session.
///
/// # Safety
/// `session` is NULL or a live session.
pub unsafe fn attach(
    session: *mut betz_session,
    decoder: &Decoder,
    attached: &AtomicBool,
    first_tick: i64,
    tap: impl FnOnce() -> Option<Box<dyn Tap>>,
) -> Result<(), Refusal> {
    // SAFETY: the caller's promise.
    let (session, _guard) = unsafe { barrier::second(session.cast_const()) }.map_err(Refusal)?;
    let shapes = [
        ("session's channels", decoder.channels(), session.channels()),
        (
            "session's outputs",
            decoder.outputs().len(),
            session.outputs(),
        ),
    ];
    for (name, expected, got) in shapes {
        if expected != got {
            return Err(Refusal(Failure::Length {
                name,
                expected,
                got,
            }));
        }
    }
    hearing::same_tick(session, "monitor", decoder.step_seconds()).map_err(Refusal)?;
    let once = "one, where the page shows none yet";
    hearing::attach(session, attached, once, first_tick, || {
        tap().ok_or(Failure::Argument {
            name: "session",
            expected: once,
        })
    })
    .map_err(Refusal)
}
