//! A session: opening, steering, ending.

use std::ffi::{c_char, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Mutex;
use std::time::Duration;

use betz::live::{BackgroundSession, OutputReader, Plan, Rows, StepOutput, Trial};

use super::step::{betz_live_on_step, receiver};
use crate::barrier::{self, Handle, Poison, PoisonGuard};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::model::{betz_model, decoder};
use crate::status::betz_status;
use crate::workers::{Process, Workers};

/// A whole session: source, front end, decoder, outputs and recording, on threads of its own.
pub struct betz_live {
    pub(crate) session: ManuallyDrop<BackgroundSession>,
    pub(crate) steps: Mutex<StepReader>,
    pub(crate) newest: Mutex<StepOutput>,
    /// The process that has the threads.
    process: Process,
    poison: Poison,
}

impl Handle for betz_live {
    const NAME: &'static str = "live";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

/// Reader of the steps, one after another.
pub(crate) struct StepReader {
    pub(crate) reader: OutputReader,
    pub(crate) out: StepOutput,
}

grows! {
    /// Options of a session. Texts are copied.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_live_config {
        /// `sizeof(betz_live_config)` of the caller.
        pub struct_size: u32,
        /// Reserved: 0.
        pub reserved: u32,
        /// Changes of keys of the plan, one per line, such as "voltage.threshold=-4"; NULL: none.
        pub changes: *const c_char,
        /// Called with every step; NULL: none.
        pub on_step: betz_live_on_step,
        /// First argument of `on_step`.
        pub user: *mut c_void,
    }
}

impl Config for betz_live_config {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            reserved: 0,
            changes: ptr::null(),
            on_step: None,
            user: ptr::null_mut(),
        }
    }
}

/// A trial begins.
pub const BETZ_TRIAL_BEGIN: u32 = 1;
/// A trial ends.
pub const BETZ_TRIAL_END: u32 = 2;
/// A trial ends and is not to be learned from.
pub const BETZ_TRIAL_REJECT: u32 = 3;
/// Step of a label that belongs to the step that is open.
pub const BETZ_LIVE_OPEN_STEP: u64 = u64::MAX;
/// Device time of rows that follow the ones pushed before without a gap.
pub const BETZ_LIVE_NEXT_ROW: u64 = u64::MAX;

/// The session behind a handle, in the process that has its threads.
///
/// # Safety
/// `live` is NULL or a live session.
pub(crate) unsafe fn here<'a>(live: *const betz_live) -> Result<(&'a betz_live, PoisonGuard<'a>)> {
    // SAFETY: the caller's promise.
    let (live, guard) = unsafe { barrier::second(live)? };
    live.process.check(betz_live::NAME)?;
    Ok((live, guard))
}

/// Fills a configuration of `size` bytes (pass `sizeof`) with the defaults.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_config_default(
    config: *mut betz_live_config,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    barrier::run(|| unsafe { grow::write_defaults(config, size) })
}

/// Reads the plan in the file `plan` (docs/live.md) and opens its source and its outputs. Nothing
/// is decoded yet. `config` may be NULL: the defaults. The caller frees the session with
/// `betz_live_close`.
///
/// A plan with `from = "push"` takes its rows from `betz_live_push`. Fails with
/// `BETZ_ERROR_INVALID_ARGUMENT` for a plan that cannot be used, and with the errors of the model
/// and of the system; the message names file, line and key.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `plan` is NULL or a NUL-terminated string; `config` is NULL or a configuration; `out` is NULL or
/// writable. `on_step` and `user` may be used from another thread until the session is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_open(
    plan: *const c_char,
    config: *const betz_live_config,
    out: *mut *mut betz_live,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (plan, out) = unsafe { (cast::path(plan, "plan")?, cast::out(out, "out")?) };
        let config = match config.is_null() {
            true => betz_live_config::defaults(),
            // SAFETY: the caller's promise.
            false => unsafe { grow::read(config, "config")? },
        };
        grow::zero(config.reserved, "config->reserved")?;
        // SAFETY: the caller's promise.
        let changes = unsafe { cast::text_or(config.changes, "config->changes", "")? };
        let changes: Vec<String> = (changes.lines().map(str::trim))
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect();
        let open = || Ok(BackgroundSession::open(Plan::read(plan, &changes)?)?);
        let session = Workers::plain().run(open)?;
        if let Some(hear) = receiver(config.on_step, config.user) {
            session.on_step(hear);
        }
        let reader = session.reader();
        out.write(cast::into_handle(betz_live {
            newest: Mutex::new(reader.output()),
            steps: Mutex::new(StepReader {
                out: reader.output(),
                reader,
            }),
            session: ManuallyDrop::new(session),
            process: Process::current(),
            poison: Poison::default(),
        })?);
        Ok(())
    })
}

/// Starts the loop: from now on the session decodes. Does nothing if it runs already.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_start(live: *mut betz_live) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        Workers::plain().run(|| Ok(live.session.start()?))
    })
}

/// Adds the `n` true outputs of the step `step`, or of the step that is open
/// (`BETZ_LIVE_OPEN_STEP`). Fails with `BETZ_ERROR_MISMATCH` unless `n` is the number of outputs,
/// and with `BETZ_ERROR_INVALID_ARGUMENT` for values that are not finite and after the end.
///
/// Thread-safe: yes, also from `on_step`. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session; `values` is NULL or points to `n` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_label(
    live: *mut betz_live,
    step: u64,
    values: *const f32,
    n: usize,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let ((live, _guard), values) = unsafe { (here(live)?, cast::slice(values, n, "values")?) };
        let step = (step != BETZ_LIVE_OPEN_STEP).then_some(step);
        Ok(live.session.label(step, values)?)
    })
}

/// Adds the UTF-8 text `text` at the open step. Fails with `BETZ_ERROR_INVALID_ARGUMENT` after the
/// end.
///
/// Thread-safe: yes, also from `on_step`. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session; `text` is NULL or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_mark(live: *mut betz_live, text: *const c_char) -> betz_status {
    barrier::run(|| {
        if text.is_null() {
            return Err(Failure::Null("text"));
        }
        // SAFETY: the caller's promise.
        let ((live, _guard), text) = unsafe { (here(live)?, cast::text_or(text, "text", "")?) };
        Ok(live.session.mark(text)?)
    })
}

/// Adds a trial's begin or end at the open step: `BETZ_TRIAL_BEGIN`, `BETZ_TRIAL_END` or
/// `BETZ_TRIAL_REJECT`.
///
/// Thread-safe: yes, also from `on_step`. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_trial(live: *mut betz_live, trial: u32) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        let trial = match trial {
            BETZ_TRIAL_BEGIN => Trial::Begin,
            BETZ_TRIAL_END => Trial::End,
            BETZ_TRIAL_REJECT => Trial::Reject,
            _ => {
                let expected = "BETZ_TRIAL_BEGIN, BETZ_TRIAL_END or BETZ_TRIAL_REJECT";
                return Err(Failure::Argument {
                    name: "trial",
                    expected,
                });
            }
        };
        Ok(live.session.trial(trial)?)
    })
}

/// Gives the session another model of the same channels, outputs and step. It takes over once it
/// has heard as much as it remembers; the old one decodes until then. Waits for the loop to take
/// it, no longer than a block takes. `model` may be freed afterwards. Fails with
/// `BETZ_ERROR_MISMATCH` for a model that does not fit.
///
/// Thread-safe: yes, but not from `on_step`. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session; `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_swap(
    live: *mut betz_live,
    model: *const betz_model,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let ((live, _guard), model) = unsafe { (here(live)?, decoder(model)?) };
        Ok(live.session.swap(&model)?)
    })
}

/// Returns to the model before the last swap, at the next step and as if there had been none. Waits
/// for the loop, no longer than a block takes. Fails with `BETZ_ERROR_INVALID_ARGUMENT` if there is
/// no model to return to.
///
/// Thread-safe: yes, but not from `on_step`. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_roll_back(live: *mut betz_live) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        Ok(live.session.roll_back()?)
    })
}

/// Gives the session the model that the online trainer proposes (`learn.mode = "propose"`), or that a
/// window without labels suggests (`recalibrate.mode = "suggest"`), as `betz_live_swap` does. Writes 1
/// to `*accepted`, or 0 if no model waits. Waits for the loop, no longer than a block takes.
///
/// Thread-safe: yes, but not from `on_step`. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session; `accepted` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_accept(live: *mut betz_live, accepted: *mut u32) -> betz_status {
    barrier::run(|| {
        if accepted.is_null() {
            return Err(Failure::Null("accepted"));
        }
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        let done = live.session.accept()?;
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { accepted.write(u32::from(done)) };
        Ok(())
    })
}

/// Hands `rows` of voltage with `channels` samples each to a session whose source has `from =
/// "push"`. `first` is the device time of the first row, or `BETZ_LIVE_NEXT_ROW`; rows that are
/// left out count as lost. Never waits: fails with `BETZ_ERROR_BUSY` and takes nothing if the
/// session is 1,024 blocks behind. Push again then, or go on.
///
/// Fails with `BETZ_ERROR_MISMATCH` for another number of channels, and with
/// `BETZ_ERROR_INVALID_ARGUMENT` for rows that were pushed before, for a device time beyond 2^53
/// rows, for another source, and after the end. The session goes on.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session; `samples` is NULL or points to `rows` * `channels` samples.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_push(
    live: *mut betz_live,
    first: u64,
    rows: usize,
    channels: usize,
    samples: *const i16,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let ((live, _guard), samples) = unsafe {
            let n = rows.saturating_mul(channels);
            (here(live)?, cast::slice(samples, n, "samples")?)
        };
        push(live, first, channels, Rows::Voltage(samples))
    })
}

/// Hands `rows` of features to a session whose source has `from = "push"` and `sends = "steps"`:
/// each row is the counts or features of a step. Refuses values that are not finite or beyond 1e15
/// with `BETZ_ERROR_INVALID_ARGUMENT`. Otherwise as `betz_live_push`.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session; `features` is NULL or points to `rows` * `channels` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_push_features(
    live: *mut betz_live,
    first: u64,
    rows: usize,
    channels: usize,
    features: *const f32,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let ((live, _guard), features) = unsafe {
            let n = rows.saturating_mul(channels);
            (here(live)?, cast::slice(features, n, "features")?)
        };
        push(live, first, channels, Rows::Features(features))
    })
}

fn push(live: &betz_live, first: u64, channels: usize, rows: Rows<'_>) -> Result<()> {
    let pusher = live.session.pusher()?;
    if channels != pusher.channels() {
        return Err(Failure::Length {
            name: "channels",
            expected: pusher.channels(),
            got: channels,
        });
    }
    let first = (first != BETZ_LIVE_NEXT_ROW).then_some(first);
    match pusher.push(first, rows, Duration::ZERO)? {
        true => Ok(()),
        false => Err(Failure::Busy("live")),
    }
}

/// Ends a source with `from = "push"`: the session decodes what was pushed, and is over then.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `live` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_end(live: *mut betz_live) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        live.session.pusher()?.end();
        Ok(())
    })
}

/// Ends the session: waits until its last step is made and its recording is whole. The handle can
/// still be asked for outputs and health. Fails with the error that ended the session before, if
/// one did; called again, it returns the same.
///
/// Thread-safe: yes, but not from `on_step`. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_stop(live: *mut betz_live) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        live.session.stop()?;
        Ok(())
    })
}

/// Ends the session, if it still runs, and frees it. Does nothing for NULL. In a forked child it
/// frees nothing: the threads are the parent's.
///
/// Thread-safe: no (no other call may use the session). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `live` is NULL or a live session, which is not used afterwards, and this is not called from
/// `on_step`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_close(live: *mut betz_live) {
    if live.is_null() {
        return;
    }
    barrier::run_free(|| {
        // SAFETY: it came from `betz_live_open`, and the caller no longer uses it.
        let mut live = unsafe { Box::from_raw(live) };
        if live.process == Process::current() {
            // SAFETY: dropped once, with its box.
            unsafe { ManuallyDrop::drop(&mut live.session) };
        }
    });
}
