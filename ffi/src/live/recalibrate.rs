//! Recalibration of a session without labels: suggested, applied on request, taken back.

use std::ffi::c_char;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use betz::train::unlike::{ModelChange, UnlikeConfig, UnlikeWatch, UnlikeWorker, Unlikeness};

use crate::barrier::{self, Handle, Poison, PoisonGuard};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::grow::{self, grows};
use crate::hearing::attach_tap;
use crate::model::{betz_model, decoder};
use crate::session::{SessionIdentity, betz_session};
use crate::status::betz_status;
use crate::swap;
use crate::workers::{Process, Workers};

/// The session that `betz_recalibrator_apply` and `_roll_back` expect.
const OWN_SESSION: &str = "the session that the recalibrator was opened for";

/// `betz_recalibrator_apply` changed nothing.
pub const BETZ_RECALIBRATION_NONE: u32 = 0;
/// The session changes to the recalibrated model.
pub const BETZ_RECALIBRATION_APPLIED: u32 = 1;
/// The session changes back to the model as it was trained.
pub const BETZ_RECALIBRATION_ROLLED_BACK: u32 = 2;

/// A comparison of a session with the training of its model (as `betz_unlike`) that also suggests
/// recalibrations without labels, on a thread of its own. The session's steps never wait for it, and
/// a suggestion changes nothing until it is applied. docs/classes.md has the rule, and what it cannot do.
pub struct betz_recalibrator {
    watch: ManuallyDrop<UnlikeWatch>,
    channels: usize,
    /// The session that it was opened for.
    session: SessionIdentity,
    /// The process that has the threads.
    process: Process,
    poison: Poison,
}

impl Handle for betz_recalibrator {
    const NAME: &'static str = "recalibrator";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl Drop for betz_recalibrator {
    fn drop(&mut self) {
        // A forked child must not wait: the thread exists only in the parent.
        if self.process == Process::current() {
            // SAFETY: dropped here and never touched again.
            unsafe { ManuallyDrop::drop(&mut self.watch) }
        }
    }
}

grows! {
    /// The newest comparison and suggestion.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_recalibration {
        /// Tick of the last step of the moving window; 0 before it is full.
        pub tick: i64,
        /// Length of that window in seconds; 0 before it is full.
        pub seconds: f64,
        /// KL divergence of the latents from those in training, in nats; NaN before the window is full.
        pub latents: f64,
        /// Mean |ln(rate / rate in training)| over the channels in use; NaN if it is not known.
        pub rates: f64,
        /// Number of steps lost because the thread was late.
        pub lost_steps: u64,
        /// 1 if a whole window has been looked at, so that the fields below hold; else 0.
        pub has_report: u32,
        /// 1 if a recalibrated model is suggested; else 0.
        pub suggested: u32,
        /// 1 if the session runs a recalibrated model; else 0.
        pub applied: u32,
        /// 1 if the newest window speaks against the recalibrated model that runs; else 0.
        pub roll_back: u32,
        /// Tick of the last step of the window that was looked at.
        pub report_tick: i64,
        /// Share of the change of rates that behaviour explains.
        pub explained: f64,
        /// Root mean square of the relative changes of rates that are left.
        pub unexplained: f64,
        /// Least variance of a latent over that expected; NaN if rates suggest nothing.
        pub coverage: f64,
        /// Number of channels whose slope does not fit their rate.
        pub odd: u64,
    }
}

/// The comparison behind a handle, in the process that has its thread.
///
/// # Safety
/// `recalibrator` is NULL or a live recalibrator.
unsafe fn here<'a>(
    recalibrator: *const betz_recalibrator,
) -> Result<(&'a betz_recalibrator, PoisonGuard<'a>)> {
    // SAFETY: the caller's promise.
    let (handle, guard) = unsafe { barrier::second(recalibrator)? };
    handle.process.check(betz_recalibrator::NAME)?;
    Ok((handle, guard))
}

/// Compares `session`, which runs `model`, with the training of that model from the session's next step
/// on, over windows of `window_seconds` (0: 100 s), and looks at each whole window for a recalibration.
/// Fails with `BETZ_ERROR_INSUFFICIENT_DATA` unless the model stores its sufficient statistics. Fails
/// with `BETZ_ERROR_INVALID_ARGUMENT` for a window shorter than 100 s, which never suggests anything, for a
/// session that has eight listeners already, and for one that has left four requests untaken because it does not
/// step.
///
/// The caller frees it with `betz_recalibrator_close`, which also leaves its place among the session's listeners
/// to another; the session may be closed first. All work is done on threads with the process's plain scheduling,
/// whatever the caller's priority and processor; they end with the recalibrator.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `session` is NULL or a live session; `model` is NULL or a live model; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_recalibrator_open(
    session: *mut betz_session,
    model: *const betz_model,
    window_seconds: f64,
    out: *mut *mut betz_recalibrator,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (out, decoder) = unsafe { (cast::out(out, "out")?, decoder(model)?) };
        // SAFETY: the caller's promise.
        let (session, _guard) = unsafe { barrier::second(session.cast_const())? };
        let mut config = UnlikeConfig::default();
        if window_seconds != 0.0 {
            config.window_seconds = window_seconds;
        }
        let (tap, watch) = Workers::plain().run(|| {
            let (tap, worker) = UnlikeWorker::open(&decoder, &config)?;
            Ok((tap, UnlikeWatch::start(worker.with_suggestions()?)?))
        })?;
        let handle = cast::into_handle(betz_recalibrator {
            watch: ManuallyDrop::new(watch),
            channels: decoder.channels(),
            session: session.identity(),
            process: Process::current(),
            poison: Poison::default(),
        })?;
        if let Err(refused) = attach_tap(session, &decoder, Box::new(tap)) {
            // SAFETY: made above, and nobody else has it.
            unsafe { cast::drop_handle(handle) };
            return Err(refused);
        }
        out.write(handle);
        Ok(())
    })
}

/// Writes the newest comparison and suggestion to `out`. `size` is `sizeof(betz_recalibration)`.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `recalibrator` is NULL or a live recalibrator; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_recalibrator_get_state(
    recalibrator: *const betz_recalibrator,
    out: *mut betz_recalibration,
    size: usize,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (handle, _guard) = unsafe { here(recalibrator)? };
        grow::check_place(out, size, "out")?;
        let newest = handle.watch.newest().unwrap_or(Unlikeness {
            tick: 0,
            seconds: 0.0,
            latents: f64::NAN,
            rates: f64::NAN,
        });
        let suggestion = handle.watch.suggestion();
        let found = suggestion.as_ref().map(|s| &s.found);
        let flag = |is: fn(&betz::train::unlike::Suggestion) -> bool| {
            suggestion.as_ref().map_or(0, |s| u32::from(is(s)))
        };
        let state = betz_recalibration {
            tick: newest.tick,
            seconds: newest.seconds,
            latents: newest.latents,
            rates: newest.rates,
            lost_steps: handle.watch.lost_steps(),
            has_report: flag(|_| true),
            suggested: flag(|s| s.suggested),
            applied: flag(|s| s.applied),
            roll_back: flag(|s| s.roll_back.is_some()),
            report_tick: suggestion.as_ref().map_or(0, |s| s.tick),
            explained: found.map_or(f64::NAN, |f| f.explained),
            unexplained: found.map_or(f64::NAN, |f| f.unexplained),
            coverage: found.map_or(f64::NAN, |f| f.coverage),
            odd: found.map_or(0, |f| f.odd.len() as u64),
        };
        // SAFETY: the caller's promise.
        unsafe { grow::write(out, size, "out", state) }
    })
}

/// Copies the reason why nothing is suggested, or why the model as it was trained should come back,
/// with a NUL behind it, to `buf` of `cap` bytes, and its length without the NUL to `*len`: 0 if there
/// is no such reason. With `buf` NULL and `cap` 0 it only writes the length.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `recalibrator` is NULL or a live recalibrator; `buf` is NULL or points to `cap` writable bytes;
/// `len` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_recalibrator_reason(
    recalibrator: *const betz_recalibrator,
    buf: *mut c_char,
    cap: usize,
    len: *mut usize,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (handle, _guard) = unsafe { here(recalibrator)? };
        let reason = (handle.watch.suggestion())
            .and_then(|s| s.roll_back.or(s.found.refusal))
            .unwrap_or_default();
        // SAFETY: the caller's promise.
        unsafe { cast::write_text(reason.as_bytes(), buf, cap, len) }
    })
}

/// Writes the gain of each channel in the newest whole window to `gains`; 1 for channels that take no
/// part, and for all before the first window. Fails with `BETZ_ERROR_MISMATCH` unless `n` is the number
/// of channels.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `recalibrator` is NULL or a live recalibrator; `gains` is NULL or writable for `n` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_recalibrator_gains(
    recalibrator: *const betz_recalibrator,
    gains: *mut f64,
    n: usize,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (handle, _guard) = unsafe { here(recalibrator)? };
        if n != handle.channels {
            return Err(Failure::Length {
                name: "n",
                expected: handle.channels,
                got: n,
            });
        }
        cast::check(gains, "gains")?;
        let found = handle.watch.suggestion().map(|s| s.found.gains);
        let found = found.filter(|gains| gains.len() == n);
        let found = found.unwrap_or_else(|| vec![1.0; n]);
        // SAFETY: the caller's promise; `found` has `n` values.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), gains, n) };
        Ok(())
    })
}

/// Gives `session` the suggested model at one of its next steps, or the model as it was trained if the
/// newest window speaks against the recalibrated one; writes `BETZ_RECALIBRATION_*` to `*change`. Refuses
/// another session than the one that the recalibrator was opened for with `BETZ_ERROR_INVALID_ARGUMENT`.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `recalibrator` is NULL or a live recalibrator; `session` is NULL or a live session; `change` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_recalibrator_apply(
    recalibrator: *mut betz_recalibrator,
    session: *mut betz_session,
    change: *mut u32,
) -> betz_status {
    barrier::run(|| {
        if change.is_null() {
            return Err(Failure::Null("change"));
        }
        // SAFETY: the caller's promise.
        let (handle, _guard) = unsafe { here(recalibrator)? };
        let apply = |swapper: &mut _| {
            let change = handle.watch.apply(swapper)?;
            let running = (change != ModelChange::None).then(|| handle.watch.running_model());
            Ok((change, running.map(Arc::new)))
        };
        // SAFETY: the caller's promise.
        let (session, _session_guard) = unsafe { barrier::second(session.cast_const())? };
        handle.session.expect(session, OWN_SESSION)?;
        let code = match swap::change(session, apply)? {
            ModelChange::Recalibrated => BETZ_RECALIBRATION_APPLIED,
            ModelChange::RolledBack => BETZ_RECALIBRATION_ROLLED_BACK,
            _ => BETZ_RECALIBRATION_NONE,
        };
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { change.write(code) };
        Ok(())
    })
}

/// Gives `session` the model as it was trained; writes 1 to `*was_applied` if a recalibrated model ran,
/// else 0. Refuses another session than the one that the recalibrator was opened for with
/// `BETZ_ERROR_INVALID_ARGUMENT`.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `recalibrator` is NULL or a live recalibrator; `session` is NULL or a live session; `was_applied` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_recalibrator_roll_back(
    recalibrator: *mut betz_recalibrator,
    session: *mut betz_session,
    was_applied: *mut u32,
) -> betz_status {
    barrier::run(|| {
        if was_applied.is_null() {
            return Err(Failure::Null("was_applied"));
        }
        // SAFETY: the caller's promise.
        let (handle, _guard) = unsafe { here(recalibrator)? };
        let roll_back = |swapper: &mut _| {
            let was = handle.watch.roll_back(swapper)?;
            let running = was.then(|| Arc::new(handle.watch.running_model()));
            Ok((was, running))
        };
        // SAFETY: the caller's promise.
        let (session, _session_guard) = unsafe { barrier::second(session.cast_const())? };
        handle.session.expect(session, OWN_SESSION)?;
        let was = swap::change(session, roll_back)?;
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { was_applied.write(u32::from(was)) };
        Ok(())
    })
}

/// Closes and frees a recalibrator. Does nothing for NULL.
///
/// Thread-safe: no (nobody may use it any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `recalibrator` is NULL or a live recalibrator, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_recalibrator_close(recalibrator: *mut betz_recalibrator) {
    // SAFETY: the caller's promise; it came from `betz_recalibrator_open`.
    barrier::run_free(|| unsafe { cast::drop_handle(recalibrator) });
}
