//! Outputs of a session: the newest, or one after another.

use std::sync::TryLockError;
use std::time::Duration;

use betz::live::{Reading, StepOutput};

use super::session::{betz_live, here};
use super::step::betz_live_step;
use crate::barrier;
use crate::cast;
use crate::failure::{Failure, Result};
use crate::grow;
use crate::status::betz_status;

/// No step has come in the allowed time.
pub const BETZ_LIVE_NOTHING: u32 = 0;
/// A step was written.
pub const BETZ_LIVE_STEP: u32 = 1;
/// The session is over, and every step was read.
pub const BETZ_LIVE_OVER: u32 = 2;

/// Writes the newest step to `*step`, whose size in bytes is `size` (pass `sizeof`), and its `n`
/// outputs to `values`, without waiting. Fails with `BETZ_ERROR_INSUFFICIENT_DATA` before the first
/// step, with `BETZ_ERROR_MISMATCH` unless `n` is the number of outputs, and with `BETZ_ERROR_BUSY`
/// if another thread is in this call.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `live` is NULL or a live session; `step` is NULL or writable for `size` bytes; `values` is NULL
/// or points to `n` writable values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_latest(
    live: *mut betz_live,
    step: *mut betz_live_step,
    size: usize,
    values: *mut f32,
    n: usize,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        check(live, step, size, values, n)?;
        let mut out = match live.newest.try_lock() {
            Ok(out) => out,
            Err(TryLockError::Poisoned(out)) => out.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Failure::Busy("live")),
        };
        if !live.session.newest(&mut out) {
            return Err(betz::Error::new(
                betz::ErrorKind::InsufficientData,
                "live: expected a session that has made a step, got none yet",
            )
            .into());
        }
        // SAFETY: checked above, and the caller's promise.
        unsafe { give(&out, step, size, values) }
    })
}

/// Waits at most `patience_us` microseconds for the next step that this call has not given yet.
/// Writes `BETZ_LIVE_STEP` to `*reading` and fills `step` and `values` as `betz_live_latest` does;
/// or writes `BETZ_LIVE_NOTHING`, or `BETZ_LIVE_OVER`, and leaves them alone. The newest 4,096
/// steps are kept: a caller that is further behind misses the oldest, which `betz_live_missed`
/// counts. `betz_live_stop` tells the error that ended a session.
///
/// Thread-safe: yes; a second call during the first is refused with `BETZ_ERROR_BUSY`.
/// Realtime-safe: no (waits). Allocates: no.
///
/// # Safety
/// As for `betz_live_latest`; `reading` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_next(
    live: *mut betz_live,
    patience_us: u64,
    reading: *mut u32,
    step: *mut betz_live_step,
    size: usize,
    values: *mut f32,
    n: usize,
) -> betz_status {
    barrier::run(|| {
        if reading.is_null() {
            return Err(Failure::Null("reading"));
        }
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        check(live, step, size, values, n)?;
        let mut steps = match live.steps.try_lock() {
            Ok(steps) => steps,
            Err(TryLockError::Poisoned(steps)) => steps.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Failure::Busy("live")),
        };
        let steps = &mut *steps;
        let read = (steps.reader).next(&mut steps.out, Duration::from_micros(patience_us));
        let code = match read {
            Reading::Nothing => BETZ_LIVE_NOTHING,
            Reading::Over => BETZ_LIVE_OVER,
            Reading::Step => {
                // SAFETY: checked above, and the caller's promise.
                unsafe { give(&steps.out, step, size, values)? };
                BETZ_LIVE_STEP
            }
        };
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { reading.write(code) };
        Ok(())
    })
}

/// Refuses places that a step cannot be written to, before one is taken.
fn check(
    live: &betz_live,
    step: *mut betz_live_step,
    size: usize,
    values: *mut f32,
    n: usize,
) -> Result<()> {
    grow::check_place(step, size, "step")?;
    let outputs = live.session.outputs().len();
    if n != outputs {
        return Err(Failure::Length {
            name: "n",
            expected: outputs,
            got: n,
        });
    }
    cast::check(values, "values")
}

/// Writes a step and its outputs.
///
/// # Safety
/// `step` is writable for `size` bytes, `values` for the step's outputs.
unsafe fn give(
    out: &StepOutput,
    step: *mut betz_live_step,
    size: usize,
    values: *mut f32,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        grow::write(step, size, "step", betz_live_step::of(&out.as_step()))?;
        std::ptr::copy_nonoverlapping(out.values.as_ptr(), values, out.values.len());
    }
    Ok(())
}

/// Number of steps that were overwritten before `betz_live_next` gave them; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: no (waits for a call of `betz_live_next`). Allocates: no.
///
/// # Safety
/// `live` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_missed(live: *const betz_live) -> u64 {
    let mut missed = 0;
    let _ = barrier::run(|| {
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        let steps = live
            .steps
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        missed = steps.reader.missed();
        Ok(())
    });
    missed
}

/// Number of outputs; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `live` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_outputs(live: *const betz_live) -> usize {
    // SAFETY: the caller's promise.
    unsafe { live.as_ref() }.map_or(0, |live| live.session.outputs().len())
}

/// Length of a step in seconds; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `live` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_step_seconds(live: *const betz_live) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { live.as_ref() }.map_or(0.0, |live| live.session.step_seconds())
}
