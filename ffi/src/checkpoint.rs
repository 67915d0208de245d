//! Checkpoints: a session's state as bytes, so that a restarted controller continues bit for bit.

use crate::barrier;
use crate::cast;
use crate::failure::Failure;
use crate::session::betz_session;
use crate::status::betz_status;

/// Copies the session's state (filters and counters, but not latencies) into `buf` and its number
/// of bytes into `*len`.
///
/// With `buf` NULL and `cap` 0 it only writes `*len`, which stays the same as long as the session
/// runs the same model. The state may be shorter: then the end of these bytes is left as it was, and
/// `betz_session_restore` ignores it. Fails with `BETZ_ERROR_MISMATCH` if `cap` is too small. During a model swap
/// it saves the state of the model that gives the estimates.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes (a few microseconds).
/// Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `buf` is NULL or points to
/// `cap` writable bytes; `len` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_checkpoint(
    session: *const betz_session,
    buf: *mut u8,
    cap: usize,
    len: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            let len = cast::out(len, "len")?;
            let session = handle.session()?;
            let needed = session.checkpoint_len();
            cast::copy_out("buf", buf, cap, needed, len, |room| {
                session.checkpoint_into(room)?;
                Ok(())
            })
        })
    }
}

/// Restores the state `data` of a checkpoint: the next step gives the same bits as the next step of
/// the saved session. Counters are restored; latencies stay.
///
/// The session must run the same model with the same mask, slew limit and hold policy (`BETZ_ERROR_MISMATCH`; the
/// message names the field of the configuration that differs), and no second model in parallel
/// (`BETZ_ERROR_INVALID_ARGUMENT`). Damaged bytes are refused with `BETZ_ERROR_INVALID_CHECKPOINT`, other versions with
/// `BETZ_ERROR_UNSUPPORTED_VERSION`. On failure the session does not change.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes (a few microseconds).
/// Allocates: no (a refusal allocates its message).
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `data` is NULL or points to
/// `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_restore(
    session: *mut betz_session,
    data: *const u8,
    len: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            if data.is_null() {
                return Err(Failure::Null("data"));
            }
            Ok(handle.session()?.restore(cast::slice(data, len, "data")?)?)
        })
    }
}
