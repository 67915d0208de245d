//! What a library needs that has functions of its own beside these, in one binary with them: the page's
//! (`monitor/ffi`). Not for programs: hidden, and free to change.
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

/// Why a call is refused.
pub struct Refusal(Failure);

impl Refusal {
    /// An argument that is not what it should be.
    pub fn argument(name: &'static str, expected: &'static str) -> Self {
        Self(Failure::Argument { name, expected })
    }

    /// A pointer that is NULL.
    pub fn null(name: &'static str) -> Self {
        Self(Failure::Null(name))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(error.into())
    }
}

/// Runs a call: its refusal, or its panic, becomes a status and this thread's message.
pub fn run(call: impl FnOnce() -> Result<(), Refusal>) -> betz_status {
    barrier::run(|| call().map_err(|refusal| refusal.0))
}

/// Runs a destructor, whose panic can only be swallowed.
pub fn run_free(free: impl FnOnce()) {
    barrier::run_free(free);
}

/// Runs `start`, which starts threads, as on a thread of the normal policy that blocks all signals.
///
/// # Errors
/// Those of `start`; where the system has no thread.
pub fn start<T: Send>(start: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Refusal> {
    // SAFETY: there is no array of processors.
    let workers = unsafe { Workers::read(0, 0, std::ptr::null(), 0) }.map_err(Refusal)?;
    workers.run(|| Ok(start()?)).map_err(Refusal)
}

/// A text of the caller's, or `otherwise` for NULL.
///
/// # Errors
/// What is not UTF-8.
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
/// NULL, and a poisoned handle.
///
/// # Safety
/// `model` is NULL or a live model.
pub unsafe fn decoder(model: *const betz_model) -> Result<Arc<Decoder>, Refusal> {
    // SAFETY: the caller's promise.
    let (model, _guard) = unsafe { barrier::second(model) }.map_err(Refusal)?;
    Ok(model.decoder().clone())
}

/// Hands the steps of a session that runs as `decoder` does to a tap, once for an `attached`.
///
/// # Errors
/// NULL; a session of other channels, outputs or another step; the second session.
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
