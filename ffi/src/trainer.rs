//! A trainer beside a session: labels in, better models out.

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
use crate::session::betz_session;
use crate::shortage::Shortage;
use crate::status::betz_status;
use crate::swap;
use crate::trainer_config::betz_trainer_config;
use crate::workers::{Process, Workers};

/// Learns from the labels of a session's steps on a thread of its own, trial by trial, and offers models
/// that decode better: candidates are scored on trials that they have not seen, watched when they have
/// taken over, and taken back when they turn out worse. Channels that die or scream are left out of the
/// model, exactly as if it had been trained without them. The session's steps wait for nothing of it.
pub struct betz_trainer {
    /// Used by the one call that holds `labelling`.
    labels: UnsafeCell<Labels>,
    labelling: AtomicBool,
    trainer: ManuallyDrop<Trainer>,
    outputs: usize,
    features: usize,
    /// Where its thread is.
    process: Process,
    poison: Poison,
}

// SAFETY: `labels` may be sent, and is touched only by the one call that holds `labelling`.
unsafe impl Sync for betz_trainer {}

impl Drop for betz_trainer {
    fn drop(&mut self) {
        // In a forked child there is nothing to wait for: the thread is the parent's.
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
    /// Runs `call` with the labels' end; refuses a second thread's call meanwhile. Does not wait.
    fn label<T>(&self, call: impl FnOnce(&mut Labels) -> Result<T>) -> Result<T> {
        struct Held<'a>(&'a AtomicBool);
        impl Drop for Held<'_> {
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
        let held = Held(&self.labelling);
        // SAFETY: this call alone holds `labelling`.
        let done = call(unsafe { &mut *self.labels.get() });
        drop(held);
        done
    }

    /// One value an output.
    ///
    /// # Safety
    /// As [`cast::slice`].
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

    /// Fails in a process that does not have the trainer's thread, and when it has died of a panic.
    fn here(&self) -> Result<&Trainer> {
        self.process.check("trainer")?;
        if self.trainer.is_running() {
            return Ok(&self.trainer);
        }
        Err(Error::new(ErrorKind::Internal, "the trainer's thread has died").into())
    }
}

grows! {
    /// Where a trainer stands.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_trainer_state {
        /// Trials learned from.
        pub trials: u64,
        /// Seconds with labels in them.
        pub labelled_seconds: f64,
        /// Steps that the memory of the half-life asked for counts, after forgetting.
        pub effective_steps: f64,
        /// Trials left out because the line was full.
        pub dropped_full: u64,
        /// Trials left out because they were ended with `keep` 0, or a label found no room.
        pub dropped_unwanted: u64,
        /// Trials left out because no step had a label.
        pub dropped_unlabelled: u64,
        /// Trials left out because they were longer than the trainer takes.
        pub dropped_long: u64,
        /// Trials left out because the session was reset between their labels.
        pub dropped_reset: u64,
        /// Steps that found no room in line.
        pub lost_steps: u64,
        /// Labels that were refused, found no room, or came after their trial's end.
        pub lost_labels: u64,
        /// Candidates that took over.
        pub accepted: u64,
        /// Candidates that did not.
        pub refused: u64,
        /// Models that turned out worse than the one before, which came back.
        pub rolled_back: u64,
        /// Channels that are dead or scream (`betz_trainer_ill_channels`).
        pub ill_channels: u64,
        /// 1 where a system could not be solved, or a trial not be learned from; else 0.
        pub failed: u64,
        /// Mean R² over outputs of the model in use on the trials that candidates were compared on last; NaN
        /// before that.
        pub score_before: f64,
        /// That of the best candidate.
        pub score_after: f64,
        /// Trials left out because there was no memory to hold them or to learn from them.
        pub dropped_memory: u64,
        /// Trials that have ended and that the trainer's thread has not come to yet. Every trial that was ended is
        /// in `trials`, in one of the `dropped_` fields, or here.
        pub waiting: u64,
        /// Candidates that were not solved because there was no memory for it.
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

/// Opens a trainer for `session`, which runs `model`, and starts its thread: from the session's next step
/// on it hears all that the steps are given. The model must retain its sums (`betz_train_config.retain_bytes`,
/// `betz train --retain`): `BETZ_ERROR_INSUFFICIENT_DATA`. `BETZ_ERROR_MISMATCH` for a model that is not
/// like the session's; `BETZ_ERROR_INVALID_ARGUMENT` for numbers that make no sense, a kind that does not
/// adapt, more features and spikes than one core keeps up with, and a session with eight listeners already.
///
/// `betz_trainer_apply` gives its models to the session; or take them with `betz_trainer_take` and swap them
/// in with `betz_session_swap_model`. The trainer takes for granted that the session runs them. The caller
/// frees it with `betz_trainer_close`; the session may be closed first. What the steps hand over to a trainer
/// that is closed is lost.
///
/// Memory: the line and the sums are taken here. Before each trial and each candidate the trainer's thread asks
/// for what that may take; where there is none, the trial (`dropped_memory`) or the candidate (`unsolved`) is
/// dropped and counted, and the model stays.
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
            // Γ of each memory, and what solving takes beside it.
            let features = decoder.features().saturating_mul(decoder.features());
            expect_room(features.saturating_mul(8 * size_of::<f64>()), "trainer")?;
            let (tap, labels, mut worker) = Worker::open(decoder, config)?;
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

/// Refuses a model whose steps are not those of the session's.
fn like(session: &betz::stream::Session, decoder: &betz::model::Decoder) -> Result<()> {
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

/// The label of the step that the session has just taken: `target` holds `n` values, one an output (what
/// the limb did, or was meant to do). Steps without a label are decoded and not learned from. A label that
/// finds no room in line is no error: its trial is left out, and counted. `BETZ_ERROR_NON_FINITE` for NaN
/// and infinity, `BETZ_ERROR_INVALID_ARGUMENT` before the first step: the step stays without a label.
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

/// The trial ends with the step just taken. `keep` 0 leaves it out of what is learned (aborted, distracted).
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

/// The newest model that took over, came back or does without channels, since the last call; `*out` becomes
/// NULL where there is none. It retains its sums. The caller frees it with `betz_model_free`.
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

/// Gives the model that `betz_trainer_take` would give to `session`, the one that the trainer was opened for,
/// and to `*applied` (NULL: to nobody) 1, or 0 where there is nothing new. A model that took over is warmed up with the
/// spikes that the trainer remembers, and runs beside the one before for a fifth of what
/// `betz_session_swap_model` takes; one that came back is rolled back to, exactly and at the next tick. In a
/// session that has not made a step since the trainer was opened the model takes over with the first step: a
/// controller that restarts calls `betz_trainer_load`, this function, steps once, calls
/// `betz_session_release_model`, steps once more, and calls `betz_session_restore`.
/// Fails as that call does; the model is then still there.
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
            Shortage::begin();
            // The model and its states, twice: for its fingerprint, and to run.
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

/// Asks for candidates of all trials that have ended, without waiting for the end of the batch
/// (`betz_trainer_config.batch`): those that are there are decided on as far as the trials do, new ones solved.
/// The trainer's thread does it after the trials that are in line; this call does not wait and calls no system
/// function. After fork() it does nothing in the child.
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

/// From now on what was learned counts half after so many seconds with labels, as
/// `betz_trainer_config.half_life_seconds`. What was learned stays. `BETZ_ERROR_INVALID_ARGUMENT` for NaN and what
/// is not above 0.
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

/// Writes what the trainer has learned to the file `path`, complete, or not at all: the model that it was opened
/// with, the one in use, the sums of all its memories and what it has counted; three times as much as a
/// model that retains its sums, and a little. Which trials were compared is not in there. Fails as
/// `betz_model_save`.
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
            // The sums of every memory as they are written, and those of the model in use.
            let sums = trainer.features.saturating_mul(trainer.features);
            expect_room(sums.saturating_mul(6 * size_of::<f64>()), "trainer's state")?;
            Ok(trainer.here()?.save(path)?)
        })
    }
}

/// Goes on with what `betz_trainer_save` wrote to the file `path`, at this trainer's pace, in the place of what it
/// has learned itself. The model in use there is on offer then (`betz_trainer_take`, `betz_trainer_apply`): the
/// session is to run it. `BETZ_ERROR_IO`, `BETZ_ERROR_INVALID_MODEL`, `BETZ_ERROR_UNSUPPORTED_VERSION`, and
/// `BETZ_ERROR_MISMATCH` for other channels, outputs, filters or another step; nothing has changed then.
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

/// Where the trainer stands, to `*out`, whose size in bytes is `size` (give `sizeof`).
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

/// Numbers of the channels that are dead or scream, ascending, to the first `*len` places of `channels`; with
/// `channels` NULL and `cap` 0, how many. A `cap` too small fails with `BETZ_ERROR_MISMATCH`. Where the model
/// leaned on them for more than half it stays as it is, and every step says so
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

/// Closes and frees a trainer, after the trial that it is at; candidates that have not been solved are given up.
/// NULL is nothing to do. Its session goes on with
/// the model that it has.
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
