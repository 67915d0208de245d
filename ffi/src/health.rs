//! Status of a step and health of a session, for the loop and for other threads.

use betz::stream::StepStatus;

use crate::barrier;
use crate::cast;
use crate::failure::Failure;
use crate::grow::{self, grows};
use crate::session::betz_session;
use crate::status::betz_status;

/// The data of this tick did not arrive, or the states still lack a part of a pause (`betz_session_skip`).
pub const BETZ_STEP_STALE: u32 = 0x1;
/// An output was outside its bounds and was clamped.
pub const BETZ_STEP_CLAMPED: u32 = 0x2;
/// An estimate was not finite: the last finite output replaces it.
pub const BETZ_STEP_NON_FINITE: u32 = 0x4;
/// The spikes led outside the range of the training data, and were clipped.
pub const BETZ_STEP_OUT_OF_RANGE: u32 = 0x8;
/// The spikes were an artefact: mean counts replaced them.
pub const BETZ_STEP_BLANKED: u32 = 0x10;
/// Spikes came from channels that the model does not have.
pub const BETZ_STEP_UNKNOWN: u32 = 0x20;
/// Since the step before, spikes have arrived after their tick.
pub const BETZ_STEP_LATE: u32 = 0x40;
/// Since the step before, spikes have been discarded because they lay too far ahead.
pub const BETZ_STEP_FUTURE: u32 = 0x80;
/// Since the step before, spikes have been lost.
pub const BETZ_STEP_DROPPED: u32 = 0x100;
/// From this step on, another model gives the estimates.
pub const BETZ_STEP_SWAPPED: u32 = 0x200;
/// The estimates are a cross-fade between two models.
pub const BETZ_STEP_FADING: u32 = 0x400;
/// The outputs are held (`betz_session_config.hold`).
pub const BETZ_STEP_HELD: u32 = 0x800;
/// Held outputs have reached their rest values.
pub const BETZ_STEP_AT_REST: u32 = 0x1000;
/// Channels are dead or screaming (`watch_channels` of `betz_session_config` and
/// `betz_trainer_config`).
pub const BETZ_STEP_CHANNELS: u32 = 0x2000;
/// Channels that are dead or screaming give more than half of the model's input.
pub const BETZ_STEP_UNTRUSTED: u32 = 0x4000;
/// An output would have changed by more than `betz_session_config.slew` allows, and changed by that limit.
pub const BETZ_STEP_SLEWED: u32 = 0x8000;
/// The step was given more spikes than `betz_session_config.max_spikes`, and left the rest out.
pub const BETZ_STEP_CAPPED: u32 = 0x10000;

const _: () = assert!(
    BETZ_STEP_STALE == StepStatus::STALE.bits()
        && BETZ_STEP_CLAMPED == StepStatus::CLAMPED.bits()
        && BETZ_STEP_NON_FINITE == StepStatus::NON_FINITE.bits()
        && BETZ_STEP_OUT_OF_RANGE == StepStatus::OUT_OF_RANGE.bits()
        && BETZ_STEP_BLANKED == StepStatus::BLANKED.bits()
        && BETZ_STEP_UNKNOWN == StepStatus::UNKNOWN.bits()
        && BETZ_STEP_LATE == StepStatus::LATE.bits()
        && BETZ_STEP_FUTURE == StepStatus::FUTURE.bits()
        && BETZ_STEP_DROPPED == StepStatus::DROPPED.bits()
        && BETZ_STEP_SWAPPED == StepStatus::SWAPPED.bits()
        && BETZ_STEP_FADING == StepStatus::FADING.bits()
        && BETZ_STEP_HELD == StepStatus::HELD.bits()
        && BETZ_STEP_AT_REST == StepStatus::AT_REST.bits()
        && BETZ_STEP_CHANNELS == StepStatus::CHANNELS.bits()
        && BETZ_STEP_UNTRUSTED == StepStatus::UNTRUSTED.bits()
        && BETZ_STEP_SLEWED == StepStatus::SLEWED.bits()
        && BETZ_STEP_CAPPED == StepStatus::CAPPED.bits()
);

/// Returns how far the last step's estimates can be trusted: `BETZ_STEP_*` flags; 0 if all is well, before
/// the first step, and for NULL. A later version may set further flags.
///
/// Thread-safe: no (the thread that steps; others read `betz_session_health`). Realtime-safe: yes.
/// Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_status(session: *const betz_session) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::query(session, 0, |handle| {
            handle
                .session()
                .map_or(0, |session| session.status().bits())
        })
    }
}

grows! {
    /// Health of a session as published after its last step.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_health {
        /// The tick of the last step, on the session's clock (the queue's clock if it steps through a queue).
        pub tick: i64,
        /// Status of the last step: `BETZ_STEP_*` flags.
        pub status: u32,
        /// State of the model swap: a `betz_swap_state`.
        pub swap: u32,
        /// Number of steps taken.
        pub ticks: u64,
        /// Number of ticks skipped.
        pub skipped: u64,
        /// Number of spikes taken.
        pub spikes: u64,
        /// Number of spikes from channels that the model does not have.
        pub unknown_channel_spikes: u64,
        /// Number of spikes lost before they reached the session.
        pub dropped: u64,
        /// Number of spikes that arrived after their tick.
        pub late: u64,
        /// Number of spikes discarded because they lay too far ahead.
        pub future: u64,
        /// Number of times that a model has taken over from another.
        pub model_swaps: u64,
        /// Number of steps that took longer than the deadline.
        pub deadline_misses: u64,
        /// Duration of the last step, in nanoseconds; 0 if statistics are off.
        pub latency_ns: u64,
        /// Duration of the slowest step, in nanoseconds.
        pub longest_ns: u64,
        /// Fingerprint of the model and mask that give the estimates. Do not compare it with
        /// `betz_model_fingerprint`, which is computed without a mask.
        pub model: u64,
        /// Number of spikes left out because their step had more than `betz_session_config.max_spikes`.
        pub capped: u64,
    }
}

/// Writes the session's health to `*out`, whose size in bytes is `size` (pass `sizeof`). All values belong to
/// the same step. The thread that steps never waits for this call. Fails with `BETZ_ERROR_INVALID_ARGUMENT`
/// unless the session was opened with `betz_session_config.health`.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_health(
    session: *const betz_session,
    out: *mut betz_health,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            grow::check_place(out, size, "out")?;
            let reader = session.health().ok_or(Failure::Argument {
                name: "session",
                expected: "one opened with config->health 1",
            })?;
            let now = reader.read();
            let health = betz_health {
                tick: now.tick,
                status: now.status.bits(),
                swap: crate::swap::betz_swap_state::from(now.swap) as u32,
                ticks: now.ticks,
                skipped: now.skipped,
                spikes: now.spikes,
                unknown_channel_spikes: now.unknown_channel_spikes,
                dropped: now.dropped,
                late: now.late,
                future: now.future,
                model_swaps: now.model_swaps,
                deadline_misses: now.deadline_misses,
                latency_ns: now.latency_ns,
                longest_ns: now.longest_ns,
                model: now.model,
                capped: now.capped,
            };
            grow::write(out, size, "out", health)
        })
    }
}

/// Requests a checkpoint. The session makes it at its next tick; `betz_session_take_checkpoint` fetches it.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no.
/// Allocates: yes (in this thread, not in the step).
///
/// # Safety
/// `session` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_request_checkpoint(
    session: *mut betz_session,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            Ok(crate::swap::swapper(session).request_checkpoint()?)
        })
    }
}

/// Copies the requested checkpoint into `buf` and its number of bytes into `*len`, in the form of
/// `betz_session_checkpoint`. With `buf` NULL and `cap` 0 it only writes `*len`, which is 0 until the session
/// has made the checkpoint. It can be fetched until the next one is made.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session; `buf` is NULL or points to `cap` writable bytes; `len` is NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_take_checkpoint(
    session: *mut betz_session,
    buf: *mut u8,
    cap: usize,
    len: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            let len = cast::out(len, "len")?;
            let mut kept = (session.requested_checkpoint().lock())
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(fresh) = crate::swap::swapper(session).take_checkpoint() {
                *kept = Some(fresh);
            }
            let bytes = kept.as_deref().unwrap_or_default();
            cast::copy_out("buf", buf, cap, bytes.len(), len, |room| {
                room.copy_from_slice(bytes);
                Ok(())
            })
        })
    }
}
