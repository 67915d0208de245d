//! Unlike training: how far a session's latents and rates are from those in training.

use std::mem::ManuallyDrop;

use betz::train::unlike::{UnlikeConfig, UnlikeWatch, UnlikeWorker, Unlikeness};
use betz::{Error, ErrorKind};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::Result;
use crate::grow::{self, grows};
use crate::model::betz_model;
use crate::session::betz_session;
use crate::status::betz_status;
use crate::trainer::like;
use crate::workers::{Process, Workers};

/// A comparison of a session with the training of its model, on a thread of its own. It says that a window
/// of steps is *unlike training*, and does not say that quality is lost: a user who does something else
/// moves it as well as drift does. The session's steps never wait for it.
pub struct betz_unlike {
    watch: ManuallyDrop<UnlikeWatch>,
    /// The process that has the thread.
    process: Process,
    poison: Poison,
}

impl Drop for betz_unlike {
    fn drop(&mut self) {
        // A forked child must not wait: the thread exists only in the parent.
        if self.process == Process::current() {
            // SAFETY: dropped here and never touched again.
            unsafe { ManuallyDrop::drop(&mut self.watch) }
        }
    }
}

impl Handle for betz_unlike {
    const NAME: &'static str = "comparison";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl betz_unlike {
    /// Fails in a process that does not have the thread, and if the thread has died of a panic.
    fn here(&self) -> Result<&UnlikeWatch> {
        self.process.check(Self::NAME)?;
        if self.watch.is_running() {
            return Ok(&self.watch);
        }
        Err(Error::new(ErrorKind::Internal, "the comparison's thread has died").into())
    }
}

grows! {
    /// Distance of a window of steps from training.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_unlike_state {
        /// Tick of the window's last step; 0 before the first window is full.
        pub tick: i64,
        /// Length of the window, in seconds; 0 before the first window is full.
        pub seconds: f64,
        /// KL divergence of the latents from those in training, in nats; a linear decoder's latents are its
        /// outputs. NaN before the first window is full.
        pub latents: f64,
        /// Mean |ln(rate / rate in training)| over the channels in use. NaN before the first window is full,
        /// and if the model does not store its mean counts.
        pub rates: f64,
        /// Number of steps lost because the queue was full.
        pub lost_steps: u64,
    }
}

/// Compares `session`, which runs `model`, with the training of that model, on a thread of its own: from the
/// session's next step on, over a moving window of `window_seconds` (0: 100 s). Fails with
/// `BETZ_ERROR_INSUFFICIENT_DATA` unless the model stores its sufficient statistics
/// (`betz_train_config.retain_bytes`, `betz train --retain`). Fails with `BETZ_ERROR_MISMATCH` if the model does
/// not match the session's. Fails with `BETZ_ERROR_INVALID_ARGUMENT` for a window of at most 20 steps, and for
/// a session that has eight listeners already.
///
/// The caller frees the comparison with `betz_unlike_close`, which also leaves its place among the session's
/// listeners to another; the session may be closed first. All work is done on threads with the process's plain
/// scheduling, whatever the caller's priority and processor; they end with the comparison.
///
/// Thread-safe: no (the thread that owns the session). Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `model` is NULL or a live model; `out` is
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_unlike_open(
    session: *mut betz_session,
    model: *const betz_model,
    window_seconds: f64,
    out: *mut *mut betz_unlike,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(session, |handle| {
            let (model, _guard) = barrier::second(model)?;
            let out = cast::out(out, "out")?;
            let (mut session, decoder) = (handle.session()?, model.decoder());
            like(&session, decoder)?;
            let mut config = UnlikeConfig::default();
            if window_seconds != 0.0 {
                config.window_seconds = window_seconds;
            }
            // Not on the caller's thread, which may be the loop's: its priority and processor are not for solving.
            let workers = Workers::plain();
            let (tap, watch) = workers.run(|| {
                let (tap, worker) = UnlikeWorker::open(decoder, &config)?;
                Ok((tap, UnlikeWatch::start(worker)?))
            })?;
            let unlike = cast::into_handle(betz_unlike {
                watch: ManuallyDrop::new(watch),
                process: Process::current(),
                poison: Poison::default(),
            })?;
            if let Err(full) = session.attach(Box::new(tap), 0) {
                cast::drop_handle(unlike);
                return Err(full.into());
            }
            out.write(unlike);
            Ok(())
        })
    }
}

/// Writes the newest comparison to `out`. `size` is `sizeof(betz_unlike_state)` in the caller's header.
///
/// Thread-safe: yes. Realtime-safe: no (waits for the comparison's thread). Allocates: no.
///
/// # Safety
/// `unlike` is NULL or a live comparison; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_unlike_get_state(
    unlike: *const betz_unlike,
    out: *mut betz_unlike_state,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(unlike, |unlike| {
            grow::check_place(out, size, "out")?;
            let watch = unlike.here()?;
            let newest = watch.newest().unwrap_or(Unlikeness {
                tick: 0,
                seconds: 0.0,
                latents: f64::NAN,
                rates: f64::NAN,
            });
            let state = betz_unlike_state {
                tick: newest.tick,
                seconds: newest.seconds,
                latents: newest.latents,
                rates: newest.rates,
                lost_steps: watch.lost_steps(),
            };
            grow::write(out, size, "out", state)
        })
    }
}

/// Closes and frees a comparison. Does nothing for NULL.
///
/// Thread-safe: no (nobody may use the comparison any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `unlike` is NULL or a live comparison, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_unlike_close(unlike: *mut betz_unlike) {
    // SAFETY: the caller's promise.
    barrier::run_free(|| unsafe { cast::drop_handle(unlike) });
}
