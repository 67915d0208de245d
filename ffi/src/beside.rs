//! Helpers for a library that adds functions of its own to these in one binary: the page's (`monitor/ffi`) and the session's
//! (`crates/live/ffi`). Not for programs: hidden, and subject to change.
#![doc(hidden)]

use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use betz::Error;
use betz::model::Decoder;
use betz::stream::{PreparedModel, Swapper, Tap};

use crate::barrier;
use crate::cast;
use crate::failure::Failure;
use crate::grow;
use crate::hearing;
use crate::known::KnownDecoder;
use crate::model::betz_model;
use crate::session::betz_session;
use crate::status::betz_status;
use crate::workers::{Process, Workers};

pub use crate::grow::{Config, Grows};

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

    /// Refuses a handle that another call is using.
    pub fn busy(name: &'static str) -> Self {
        Self(Failure::Busy(name))
    }

    /// Refuses a wrong number of elements.
    pub fn length(name: &'static str, expected: usize, got: usize) -> Self {
        Self(Failure::Length {
            name,
            expected,
            got,
        })
    }
}

/// The process that has a handle's threads: a forked child does not.
pub struct Home(Process);

impl Home {
    /// This process.
    pub fn here() -> Self {
        Self(Process::current())
    }

    /// True in the process that has the threads.
    pub fn is_here(&self) -> bool {
        self.0.check("").is_ok()
    }

    /// Refuses the handle `name` in a child of that process.
    ///
    /// # Errors
    /// In a child.
    pub fn check(&self, name: &'static str) -> Result<(), Refusal> {
        self.0.check(name).map_err(Refusal)
    }
}

/// Reads the caller's configuration of any version; missing fields take their defaults.
///
/// # Errors
/// Fails for NULL, for sizes that no version has, and for a newer version that asks for something unknown.
///
/// # Safety
/// `config` is NULL or points to a struct that begins with `uint32_t struct_size` and is as long as that says.
pub unsafe fn read<T: Config>(config: *const T, name: &'static str) -> Result<T, Refusal> {
    // SAFETY: the caller's promise.
    unsafe { grow::read(config, name) }.map_err(Refusal)
}

/// Fills the caller's configuration of `size` bytes with the defaults.
///
/// # Errors
/// Fails for NULL and for sizes that no version has.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
pub unsafe fn write_defaults<T: Config>(config: *mut T, size: usize) -> Result<(), Refusal> {
    // SAFETY: the caller's promise.
    unsafe { grow::write_defaults(config, size) }.map_err(Refusal)
}

/// Writes `value` to `size` bytes: the fields that the caller's version has, and zeros for others.
///
/// # Errors
/// As [`check_place`].
///
/// # Safety
/// `place` is NULL or writable for `size` bytes.
pub unsafe fn write<T: Grows>(
    place: *mut T,
    size: usize,
    name: &'static str,
    value: T,
) -> Result<(), Refusal> {
    // SAFETY: the caller's promise.
    unsafe { grow::write(place, size, name, value) }.map_err(Refusal)
}

/// Refuses a destination that [`write`] would refuse.
///
/// # Errors
/// Fails for NULL and for sizes that no version has.
pub fn check_place<T: Grows>(
    place: *mut T,
    size: usize,
    name: &'static str,
) -> Result<(), Refusal> {
    grow::check_place(place, size, name).map_err(Refusal)
}

/// The caller's array.
///
/// # Errors
/// Fails for NULL with elements, and for a pointer that is not aligned.
///
/// # Safety
/// `array` is NULL or points to `len` elements that live, unchanged, for `'a`.
pub unsafe fn slice<'a, T>(
    array: *const T,
    len: usize,
    name: &'static str,
) -> Result<&'a [T], Refusal> {
    // SAFETY: the caller's promise.
    unsafe { cast::slice(array, len, name) }.map_err(Refusal)
}

/// The caller's path.
///
/// # Errors
/// Fails for NULL.
///
/// # Safety
/// `path` is NULL or a NUL-terminated string that lives, unchanged, for `'a`.
pub unsafe fn path<'a>(path: *const c_char, name: &'static str) -> Result<&'a Path, Refusal> {
    // SAFETY: the caller's promise.
    unsafe { cast::path(path, name) }.map_err(Refusal)
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

/// Attaches `tap` to a session of models like `decoder`, from its next step on.
///
/// # Errors
/// Fails for NULL, for a session whose channels, outputs or step differ, and for one with eight taps.
///
/// # Safety
/// `session` is NULL or a live session.
pub unsafe fn attach_tap(
    session: *mut betz_session,
    decoder: &Decoder,
    tap: Box<dyn Tap>,
) -> Result<(), Refusal> {
    let attached = AtomicBool::new(false);
    // SAFETY: the caller's promise.
    unsafe { attach(session, decoder, &attached, 0, || Some(tap)) }
}

/// Runs `change` with the session's swapper. It returns the model that the session then runs, if that has changed.
///
/// # Errors
/// Fails for NULL, and with the errors of `change`.
///
/// # Safety
/// `session` is NULL or a live session.
pub unsafe fn swap<T>(
    session: *mut betz_session,
    change: impl FnOnce(&mut Swapper) -> Result<(T, Option<Arc<Decoder>>), Error>,
) -> Result<T, Refusal> {
    // SAFETY: the caller's promise.
    let (session, _guard) = unsafe { barrier::second(session.cast_const()) }.map_err(Refusal)?;
    let mut swapper = crate::swap::swapper(session);
    let (done, running) = change(&mut swapper)?;
    if let Some(decoder) = running {
        let fingerprint = PreparedModel::new(&decoder, None)?.decoder_fingerprint();
        session.remember(KnownDecoder::new(fingerprint, decoder)?, &swapper);
    }
    Ok(done)
}

/// Copies `text`, with a NUL behind it, to `buf` of `cap` bytes, and its length without the NUL to `*len`. With `buf` NULL
/// and `cap` 0 it only writes the length.
///
/// # Errors
/// Fails for NULL and for a buffer that is too small.
///
/// # Safety
/// `buf` is NULL or points to `cap` writable bytes; `len` is NULL or writable.
pub unsafe fn write_text(
    text: &[u8],
    buf: *mut c_char,
    cap: usize,
    len: *mut usize,
) -> Result<(), Refusal> {
    if len.is_null() {
        return Err(Refusal::null("len"));
    }
    if !(buf.is_null() && cap == 0) {
        if buf.is_null() {
            return Err(Refusal::null("buf"));
        }
        if cap <= text.len() {
            return Err(Refusal::length("cap", text.len() + 1, cap));
        }
        // SAFETY: the caller's promise; there is room for the NUL, too.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buf.cast(), text.len());
            buf.add(text.len()).write(0);
        }
    }
    // SAFETY: the caller's promise; it is not NULL.
    unsafe { len.write(text.len()) };
    Ok(())
}
