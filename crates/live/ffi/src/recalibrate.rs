//! Recalibration of a session without labels: suggested, applied on request, taken back.

use std::ffi::c_char;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use betz::train::unlike::{ModelChange, UnlikeConfig, UnlikeWatch, UnlikeWorker, Unlikeness};
use betz_ffi::beside::{self, Grows, Home, Refusal};
use betz_ffi::model::betz_model;
use betz_ffi::session::betz_session;
use betz_ffi::status::betz_status;

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
    home: Home,
}

impl Drop for betz_recalibrator {
    fn drop(&mut self) {
        // A forked child must not wait: the thread exists only in the parent.
        if self.home.is_here() {
            // SAFETY: dropped here and never touched again.
            unsafe { ManuallyDrop::drop(&mut self.watch) }
        }
    }
}

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

// SAFETY: every field is a number; the compiler gives the offsets.
unsafe impl Grows for betz_recalibration {
    const STARTS: &'static [usize] = &[
        std::mem::offset_of!(betz_recalibration, tick),
        std::mem::offset_of!(betz_recalibration, seconds),
        std::mem::offset_of!(betz_recalibration, latents),
        std::mem::offset_of!(betz_recalibration, rates),
        std::mem::offset_of!(betz_recalibration, lost_steps),
        std::mem::offset_of!(betz_recalibration, has_report),
        std::mem::offset_of!(betz_recalibration, suggested),
        std::mem::offset_of!(betz_recalibration, applied),
        std::mem::offset_of!(betz_recalibration, roll_back),
        std::mem::offset_of!(betz_recalibration, report_tick),
        std::mem::offset_of!(betz_recalibration, explained),
        std::mem::offset_of!(betz_recalibration, unexplained),
        std::mem::offset_of!(betz_recalibration, coverage),
        std::mem::offset_of!(betz_recalibration, odd),
    ];
}

/// The comparison behind a handle, in the process that has its thread.
///
/// # Safety
/// `recalibrator` is NULL or a live recalibrator.
unsafe fn here<'a>(
    recalibrator: *const betz_recalibrator,
) -> Result<&'a betz_recalibrator, Refusal> {
    // SAFETY: the caller's promise.
    let handle = unsafe { recalibrator.as_ref() }.ok_or_else(|| Refusal::null("recalibrator"))?;
    handle.home.check("recalibrator")?;
    Ok(handle)
}

/// Compares `session`, which runs `model`, with the training of that model from the session's next step
/// on, over windows of `window_seconds` (0: 100 s), and looks at each whole window for a recalibration.
/// Fails with `BETZ_ERROR_INSUFFICIENT_DATA` unless the model stores its sufficient statistics. Fails
/// with `BETZ_ERROR_INVALID_ARGUMENT` for a window of at most 20 steps, and for a session that has eight
/// listeners already.
///
/// The caller frees it with `betz_recalibrator_close`; the session may be closed first.
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
    beside::run(|| {
        if out.is_null() {
            return Err(Refusal::null("out"));
        }
        // SAFETY: the caller's promise.
        let decoder = unsafe { beside::decoder(model)? };
        let mut config = UnlikeConfig::default();
        if window_seconds != 0.0 {
            config.window_seconds = window_seconds;
        }
        let (tap, worker) = UnlikeWorker::open(&decoder, &config)?;
        let watch = beside::start(|| UnlikeWatch::start(worker.with_suggestions()))?;
        // SAFETY: the caller's promise.
        unsafe { beside::attach_tap(session, &decoder, Box::new(tap))? };
        let made = Box::new(betz_recalibrator {
            watch: ManuallyDrop::new(watch),
            channels: decoder.channels(),
            home: Home::here(),
        });
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { out.write(Box::into_raw(made)) };
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
    beside::run(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { here(recalibrator)? };
        beside::check_place(out, size, "out")?;
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
        unsafe { beside::write(out, size, "out", state) }
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
    beside::run(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { here(recalibrator)? };
        let reason = (handle.watch.suggestion())
            .and_then(|s| s.roll_back.or(s.found.refusal))
            .unwrap_or_default();
        // SAFETY: the caller's promise.
        unsafe { beside::write_text(reason.as_bytes(), buf, cap, len) }
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
    beside::run(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { here(recalibrator)? };
        if n != handle.channels {
            return Err(Refusal::length("n", handle.channels, n));
        }
        if gains.is_null() || !gains.is_aligned() {
            return Err(Refusal::null("gains"));
        }
        let found = handle.watch.suggestion().map(|s| s.found.gains);
        let found = found.filter(|gains| gains.len() == n);
        let found = found.unwrap_or_else(|| vec![1.0; n]);
        // SAFETY: the caller's promise; `found` has `n` values.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), gains, n) };
        Ok(())
    })
}

/// Gives `session` the suggested model at one of its next steps, or the model as it was trained if the
/// newest window speaks against the recalibrated one; writes `BETZ_RECALIBRATION_*` to `*change`.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `recalibrator` is NULL or a live recalibrator; `session` is NULL or the live session that it was
/// opened for; `change` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_recalibrator_apply(
    recalibrator: *mut betz_recalibrator,
    session: *mut betz_session,
    change: *mut u32,
) -> betz_status {
    beside::run(|| {
        if change.is_null() {
            return Err(Refusal::null("change"));
        }
        // SAFETY: the caller's promise.
        let handle = unsafe { here(recalibrator)? };
        let apply = |swapper: &mut _| {
            let change = handle.watch.apply(swapper)?;
            let running = (change != ModelChange::None).then(|| handle.watch.running_model());
            Ok((change, running.map(Arc::new)))
        };
        // SAFETY: the caller's promise.
        let code = match unsafe { beside::swap(session, apply)? } {
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
/// else 0.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `recalibrator` is NULL or a live recalibrator; `session` is NULL or the live session that it was
/// opened for; `was_applied` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_recalibrator_roll_back(
    recalibrator: *mut betz_recalibrator,
    session: *mut betz_session,
    was_applied: *mut u32,
) -> betz_status {
    beside::run(|| {
        if was_applied.is_null() {
            return Err(Refusal::null("was_applied"));
        }
        // SAFETY: the caller's promise.
        let handle = unsafe { here(recalibrator)? };
        let roll_back = |swapper: &mut _| {
            let was = handle.watch.roll_back(swapper)?;
            let running = was.then(|| Arc::new(handle.watch.running_model()));
            Ok((was, running))
        };
        // SAFETY: the caller's promise.
        let was = unsafe { beside::swap(session, roll_back)? };
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
    beside::run_free(|| {
        if !recalibrator.is_null() {
            // SAFETY: the caller's promise; it came from `betz_recalibrator_open`.
            drop(unsafe { Box::from_raw(recalibrator) });
        }
    });
}
