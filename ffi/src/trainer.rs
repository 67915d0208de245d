//! Online training during a session: labels in, better models out.

use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use betz::stream::{ChannelRules, PreparedModel};
use betz::train::online::{Labels, Trainer, TrainerState, Worker};
use betz::{Error, ErrorKind};

use crate::allocator::{expect_room, has_room_outside};
use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::grow::{self, grows};
use crate::known::KnownDecoder;
use crate::model::{betz_model, expect_readable, only_regular};
use crate::session::{SessionIdentity, betz_session};
use crate::shortage::Shortage;
use crate::status::betz_status;
use crate::swap;
use crate::trainer_config::betz_trainer_config;
use crate::workers::{Process, Workers};

/// An online trainer: learns from the labels of a session's steps, trial by trial, on a thread of its own, and offers
/// models that decode better. Candidates are scored on trials that they have not seen, watched after they have taken
/// over, and rolled back if they turn out worse. Dead or screaming channels are left out of the model, exactly as if it
/// had been trained without them. The session's steps never wait for the trainer.
pub struct betz_trainer {
    /// Used only by the call that holds `labelling`.
    labels: UnsafeCell<Labels>,
    labelling: AtomicBool,
    trainer: ManuallyDrop<Trainer>,
    outputs: usize,
    features: usize,
    /// The session that it was opened for.
    session: SessionIdentity,
    /// The process that has the trainer's thread.
    process: Process,
    poison: Poison,
}

// SAFETY: `labels` may be sent, and is touched only by the one call that holds `labelling`.
unsafe impl Sync for betz_trainer {}

impl Drop for betz_trainer {
    fn drop(&mut self) {
        // A forked child must not wait: the thread exists only in the parent.
        if self.process == Process::current() {
            // SAFETY: dropped here and never touched again.
            unsafe { ManuallyDrop::drop(&mut self.trainer) }
        }
    }
}

impl Handle for betz_trainer {
    const NAME: &'static str = "trainer";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl betz_trainer {
    /// Runs `call` with exclusive access to the labels. Refuses a second thread's call during this one. Does not wait.
    fn label<T>(&self, call: impl FnOnce(&mut Labels) -> Result<T>) -> Result<T> {
        struct LabelGuard<'a>(&'a AtomicBool);
        impl Drop for LabelGuard<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        if self.labelling.swap(true, Ordering::Acquire) {
            return Err(Failure::Argument {
                name: "trainer",
                expected: "one that no other thread is giving labels to",
            });
        }
        let held = LabelGuard(&self.labelling);
        // SAFETY: this call alone holds `labelling`.
        let done = call(unsafe { &mut *self.labels.get() });
        drop(held);
        done
    }

    /// Checks a label: one value per output.
    ///
    /// # Safety
    /// The same as for [`cast::slice`].
    unsafe fn target<'a>(&self, target: *const f32, n: usize) -> Result<&'a [f32]> {
        if n != self.outputs {
            return Err(Failure::Length {
                name: "target, one value an output",
                expected: self.outputs,
                got: n,
            });
        }
        // SAFETY: the caller's promise.
        unsafe { cast::slice(target, n, "target") }
    }

    /// Fails in a process that does not have the trainer's thread, and if the thread has died of a panic.
    fn here(&self) -> Result<&Trainer> {
        self.process.check("trainer")?;
        if self.trainer.is_running() {
            return Ok(&self.trainer);
        }
        Err(Error::new(ErrorKind::Internal, "the trainer's thread has died").into())
    }
}

grows! {
    /// State of an online trainer.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_trainer_state {
        /// Number of trials learned from.
        pub trials: u64,
        /// Total time of labelled steps, in seconds.
        pub labelled_seconds: f64,
        /// Effective number of steps, after forgetting, in the memory with the configured half-life.
        pub effective_steps: f64,
        /// Number of trials left out because the trainer's queue was full.
        pub dropped_full: u64,
        /// Number of trials left out because they were ended with `keep` 0, or because a label was lost.
        pub dropped_unwanted: u64,
        /// Number of trials left out because no step had a label.
        pub dropped_unlabelled: u64,
        /// Number of trials left out because they were longer than the trainer accepts.
        pub dropped_long: u64,
        /// Number of trials left out because the session was reset between their labels.
        pub dropped_reset: u64,
        /// Number of steps lost because the trainer's queue was full.
        pub lost_steps: u64,
        /// Number of labels that were refused, were lost because the queue was full, or came after their trial's end.
        pub lost_labels: u64,
        /// Number of candidates that took over.
        pub accepted: u64,
        /// Number of candidates that did not take over.
        pub refused: u64,
        /// Number of models that were rolled back because they turned out worse than the one before.
        pub rolled_back: u64,
        /// Number of channels that are dead or screaming (`betz_trainer_ill_channels`).
        pub ill_channels: u64,
        /// 1 if a system could not be solved or a trial could not be learned from; otherwise 0.
        pub failed: u64,
        /// R² of the model in use, averaged over outputs, on the trials of the last comparison; NaN before the first
        /// one.
        pub score_before: f64,
        /// R² of the best candidate in the last comparison, averaged over outputs.
        pub score_after: f64,
        /// Number of trials left out because there was too little memory to hold them or to learn from them.
        pub dropped_memory: u64,
        /// Number of ended trials that still wait for the trainer's thread. Every ended trial counts in `trials`, in
        /// one of the `dropped_` fields, or here.
        pub waiting: u64,
        /// Number of candidates that were not solved because there was too little memory.
        pub unsolved: u64,
    }
}

impl From<TrainerState> for betz_trainer_state {
    fn from(state: TrainerState) -> Self {
        let (score_before, score_after) = state.scores.unwrap_or((f64::NAN, f64::NAN));
        Self {
            trials: state.trials,
            labelled_seconds: state.labelled_seconds,
            effective_steps: state.effective_steps,
            dropped_full: state.dropped.full,
            dropped_unwanted: state.dropped.unwanted,
            dropped_unlabelled: state.dropped.unlabelled,
            dropped_long: state.dropped.long,
            dropped_reset: state.dropped.reset,
            lost_steps: state.lost_steps,
            lost_labels: state.lost_labels,
            accepted: state.accepted,
            refused: state.refused,
            rolled_back: state.rolled_back,
            ill_channels: state.ill_channels.len() as u64,
            failed: u64::from(state.failure.is_some()),
            score_before,
            score_after,
            dropped_memory: state.dropped.memory,
            waiting: state.waiting,
            unsolved: state.unsolved,
        }
    }
}

/// Opens a trainer for `session`, which runs `model`, and starts its thread. From the session's next step on the
/// trainer receives all spikes of the steps. Fails with `BETZ_ERROR_INSUFFICIENT_DATA` unless the model stores its
/// sufficient statistics (`betz_train_config.retain_bytes`, `betz train --retain`). Fails with `BETZ_ERROR_MISMATCH` if
/// the model does not match the session's. Fails with `BETZ_ERROR_INVALID_ARGUMENT` for numbers out of range, for a
/// kind of decoder that cannot adapt, for more features and spikes than one core can process in time, and for a session
/// that has eight listeners already.
///
/// `betz_trainer_apply` gives the trainer's models to the session. As an alternative, take them with
/// `betz_trainer_take` and swap them in with `betz_session_swap_model`. The trainer assumes that the session runs them.
/// The caller frees the trainer with `betz_trainer_close`, which also leaves its place among the session's listeners to
/// another; the session may be closed first. The trainer learns and solves on threads of its own, which have the
/// configured priority and processors and end with it.
///
/// Memory: this call allocates the queue and the statistics. Before each trial and each candidate the trainer's thread
/// checks that there is enough memory. If not, it drops the trial (`dropped_memory`) or the candidate (`unsolved`) and
/// counts it; the model stays.
///
/// Thread-safe: no (the thread that owns the session). Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `model` is NULL or a live model;
/// `config` is NULL or a configuration whose array is as its field says; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_open(
    session: *mut betz_session,
    model: *const betz_model,
    config: *const betz_trainer_config,
    out: *mut *mut betz_trainer,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(session, |handle| {
            let (model, _guard) = barrier::second(model)?;
            let given = grow::read(config, "config")?;
            let workers = Workers::read(
                0,
                given.thread_priority,
                given.processors,
                given.n_processors,
            )?;
            let (config, out) = (given.read()?, cast::out(out, "out")?);
            let (mut session, decoder) = (handle.session()?, model.decoder());
            like(&session, decoder)?;
            // Γ of each memory, and the working memory of the solver.
            let features = decoder.features().saturating_mul(decoder.features());
            expect_room(features.saturating_mul(8 * size_of::<f64>()), "trainer")?;
            let (tap, labels, mut worker) = workers.run(|| Ok(Worker::open(decoder, config)?))?;
            worker.set_room(has_room_outside);
            if given.watch_channels == 1 && decoder.limits().blanking.is_some() {
                worker.watch(session.watch_channels(decoder, ChannelRules::default())?);
            }
            let tap = Box::new(tap);
            let trainer = workers.run(|| Ok(Trainer::start(worker, None)?))?;
            let trainer = cast::into_handle(betz_trainer {
                labels: UnsafeCell::new(labels),
                labelling: AtomicBool::new(false),
                trainer: ManuallyDrop::new(trainer),
                outputs: decoder.outputs().len(),
                features: decoder.features(),
                session: handle.identity(),
                process: Process::current(),
                poison: Poison::default(),
            })?;
            if let Err(full) = session.attach(tap, 0) {
                cast::drop_handle(trainer);
                return Err(full.into());
            }
            out.write(trainer);
            Ok(())
        })
    }
}

/// Refuses a model whose steps differ from the session's.
pub(crate) fn like(session: &betz::stream::Session, decoder: &betz::model::Decoder) -> Result<()> {
    let of_session = (session.channels(), session.outputs());
    let of_model = (decoder.channels(), decoder.outputs().len());
    let (step, its_step) = (session.model().step_seconds(), decoder.step_seconds());
    if of_session == of_model && step == its_step {
        return Ok(());
    }
    let text = format!(
        "model: expected the session's (channels, outputs) {of_session:?} and its step of {step} s, got {of_model:?} and {its_step} s"
    );
    Err(Error::new(ErrorKind::Mismatch, text).into())
}

/// Labels the step that the session has just taken: `target` holds `n` values, one per output (the actual or the
/// intended movement). Steps without a label are decoded but not learned from. If the trainer's queue is full, the call
/// succeeds, and the trial is left out and counted. Fails with `BETZ_ERROR_NON_FINITE` for NaN and infinity, and with
/// `BETZ_ERROR_INVALID_ARGUMENT` before the first step; the step then stays without a label.
///
/// Thread-safe: no (the thread that steps; two at once are refused). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `trainer` is NULL or a live trainer; `target` points to `n` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_label(
    trainer: *mut betz_trainer,
    target: *const f32,
    n: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(trainer, |trainer: &betz_trainer| {
            let target = trainer.target(target, n)?;
            trainer.label(|labels| Ok(labels.label(target).map(drop)?))
        })
    }
}

/// Ends the trial with the step just taken. `keep` 0 excludes the trial from learning (aborted, distracted).
///
/// Thread-safe: no (the thread that steps; two at once are refused). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `trainer` is NULL or a live trainer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_end_trial(
    trainer: *mut betz_trainer,
    keep: u32,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(trainer, |trainer: &betz_trainer| {
            trainer.label(|labels| {
                labels.end_trial(keep != 0);
                Ok(())
            })
        })
    }
}

/// Returns the newest model since the last call: one that took over, was rolled back to, or leaves channels out. `*out`
/// becomes NULL if there is none. The model stores its sufficient statistics. The caller frees it with
/// `betz_model_free`.
///
/// Thread-safe: yes. Realtime-safe: no (waits for the trainer's thread). Allocates: yes.
///
/// # Safety
/// `trainer` is NULL or a live trainer; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_take(
    trainer: *const betz_trainer,
    out: *mut *mut betz_model,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(trainer, |trainer| {
            let out = cast::out(out, "out")?;
            out.write(match trainer.here()?.take() {
                Some(decoder) => cast::into_handle(betz_model::new(decoder))?,
                None => std::ptr::null_mut(),
            });
            Ok(())
        })
    }
}

/// Gives the model that `betz_trainer_take` would return to `session`, for which the trainer was opened; refuses any
/// other session with `BETZ_ERROR_INVALID_ARGUMENT`. Writes 1 to
/// `*applied` (which may be NULL) if there was one, else 0. A model that took over is warmed up with the spikes that
/// the trainer remembers, and runs in parallel with the previous one for a fifth of the time of
/// `betz_session_swap_model`. If the trainer remembers no spikes, it runs in parallel for the whole of that time,
/// unless channels have died or scream. A rollback is exact and happens at the next tick. In a session that has not
/// stepped since the trainer was opened, the model takes over with the first step. A controller that restarts therefore calls
/// `betz_trainer_load`, this function, steps once, calls `betz_session_release_model`, steps once more, and calls
/// `betz_session_restore`. Fails like `betz_session_swap_model`; the model then stays available.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no (waits for the trainer's
/// thread). Allocates: yes (in this thread, not in the step).
///
/// # Safety
/// `trainer` is NULL or a live trainer; `session` is NULL or a live session; `applied` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_apply(
    trainer: *const betz_trainer,
    session: *mut betz_session,
    applied: *mut u32,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(trainer, |trainer| {
            let (session, _guard) = barrier::second(session.cast_const())?;
            let expected = "the session that the trainer was opened for";
            trainer.session.expect(session, expected)?;
            Shortage::begin();
            // The model and its states, twice: once for its fingerprint and once to run.
            let rows = trainer.features.saturating_mul(trainer.outputs);
            expect_room(rows.saturating_mul(8 * size_of::<f64>()), "model")?;
            Shortage::check()?;
            let mut swapper = swap::swapper(session);
            let given = trainer.here()?.apply_model(&mut swapper)?;
            if !applied.is_null() {
                applied.write(u32::from(given.is_some()));
            }
            if let Some(decoder) = given {
                let fingerprint = PreparedModel::new(&decoder, None)?.decoder_fingerprint();
                let known = KnownDecoder::new(fingerprint, Arc::new(decoder))?;
                session.remember(known, &swapper);
            }
            Ok(())
        })
    }
}

/// Requests candidates from all trials that have ended, without waiting for the end of the batch
/// (`betz_trainer_config.batch`). The trainer decides on existing candidates as far as the trials allow, and solves new
/// ones. Its thread does so after the trials in its queue; this call does not wait and makes no system call. After
/// fork() it does nothing in the child.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `trainer` is NULL or a live trainer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_request(trainer: *const betz_trainer) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(trainer, |trainer: &betz_trainer| {
            trainer.trainer.request();
            Ok(())
        })
    }
}

/// Changes the half-life, in seconds of labelled steps, from now on (`betz_trainer_config.half_life_seconds`). The
/// trainer keeps what it has learned. Fails with `BETZ_ERROR_INVALID_ARGUMENT` for NaN and for values that are not
/// above 0.
///
/// Thread-safe: yes. Realtime-safe: no (waits for the trainer's thread). Allocates: yes.
///
/// # Safety
/// `trainer` is NULL or a live trainer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_set_half_life(
    trainer: *const betz_trainer,
    seconds: f64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(trainer, |trainer| {
            Ok(trainer.here()?.set_half_life(seconds)?)
        })
    }
}

/// Writes the state of the trainer to the file `path`, complete or not at all: the model that it was opened with, the
/// model in use, the statistics of all its memories and its counters. The file is a little more than three times as
/// large as a model that stores its statistics. The list of compared trials is not saved. Fails like `betz_model_save`.
///
/// Thread-safe: yes. Realtime-safe: no (waits for the trainer's thread, writes a file). Allocates: yes.
///
/// # Safety
/// `trainer` is NULL or a live trainer; `path` is NULL or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_save(
    trainer: *const betz_trainer,
    path: *const c_char,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(trainer, |trainer| {
            let path = cast::path(path, "path")?;
            only_regular(path)?;
            // The statistics of every memory as they are written, and those of the model in use.
            let sums = trainer.features.saturating_mul(trainer.features);
            expect_room(sums.saturating_mul(6 * size_of::<f64>()), "trainer's state")?;
            Ok(trainer.here()?.save(path)?)
        })
    }
}

/// Replaces the trainer's state by the one that `betz_trainer_save` wrote to the file `path`; the half-life and the
/// other settings stay those of this trainer. The saved model in use then becomes available (`betz_trainer_take`,
/// `betz_trainer_apply`), and the session should run it. Fails with `BETZ_ERROR_IO`, `BETZ_ERROR_INVALID_MODEL` or
/// `BETZ_ERROR_UNSUPPORTED_VERSION`, and with `BETZ_ERROR_MISMATCH` if channels, outputs, filters or step differ;
/// nothing changes then.
///
/// Thread-safe: yes. Realtime-safe: no (waits for the trainer's thread, reads a file). Allocates: yes.
///
/// # Safety
/// `trainer` is NULL or a live trainer; `path` is NULL or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_load(
    trainer: *const betz_trainer,
    path: *const c_char,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(trainer, |trainer| {
            let path = cast::path(path, "path")?;
            expect_readable(path)?;
            Ok(trainer.here()?.load(path)?)
        })
    }
}

/// Writes the trainer's state to `*out`, whose size in bytes is `size` (pass `sizeof`).
///
/// Thread-safe: yes. Realtime-safe: no (waits for the trainer's thread). Allocates: yes.
///
/// # Safety
/// `trainer` is NULL or a live trainer; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_get_state(
    trainer: *const betz_trainer,
    out: *mut betz_trainer_state,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(trainer, |trainer| {
            grow::check_place(out, size, "out")?;
            let state = trainer.here()?.state().into();
            grow::write(out, size, "out", state)
        })
    }
}

/// Writes the numbers of the dead or screaming channels to `channels`, in ascending order, and their count to `*len`.
/// With `channels` NULL and `cap` 0 it only writes `*len`. Fails with `BETZ_ERROR_MISMATCH` if `cap` is too small. If
/// these channels give more than half of the model's input, the model is not changed, and every step is flagged
/// (`BETZ_STEP_UNTRUSTED`).
///
/// Thread-safe: yes. Realtime-safe: no (waits for the trainer's thread). Allocates: yes.
///
/// # Safety
/// `trainer` is NULL or a live trainer; `channels` is NULL or writable for `cap` values; `len` is NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_ill_channels(
    trainer: *const betz_trainer,
    channels: *mut u32,
    cap: usize,
    len: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(trainer, |trainer| {
            let len = cast::out(len, "len")?;
            let ill = trainer.here()?.state().ill_channels;
            cast::copy_out("channels", channels, cap, ill.len(), len, |room| {
                let all = room.iter_mut().zip(&ill);
                all.for_each(|(slot, &channel)| *slot = channel as u32);
                Ok(())
            })
        })
    }
}

/// Closes and frees a trainer after the trial that it is working on; candidates that have not been solved are
/// discarded. Does nothing for NULL. Its session continues with its current model.
///
/// Thread-safe: no (nobody may use the trainer any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `trainer` is NULL or a live trainer, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_close(trainer: *mut betz_trainer) {
    // SAFETY: the caller's promise.
    barrier::run_free(|| unsafe { cast::drop_handle(trainer) });
}
