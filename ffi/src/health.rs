//! What a step was worth, and how a session does, for the loop and for other threads.

use betz::stream::StepStatus;

use crate::barrier;
use crate::cast;
use crate::failure::Failure;
use crate::grow::{self, grows};
use crate::session::betz_session;
use crate::status::betz_status;

/// The data of this tick were not there.
pub const BETZ_STEP_STALE: u32 = 0x1;
/// An output was outside its bounds and clamped.
pub const BETZ_STEP_CLAMPED: u32 = 0x2;
/// An estimate was no finite number: the last finite output stands in its place.
pub const BETZ_STEP_NON_FINITE: u32 = 0x4;
/// The spikes led outside what training saw, and were clipped.
pub const BETZ_STEP_OUT_OF_RANGE: u32 = 0x8;
/// The spikes were an artefact: mean counts were decoded in their place.
pub const BETZ_STEP_BLANKED: u32 = 0x10;
/// Spikes of channels that the model does not have.
pub const BETZ_STEP_UNKNOWN: u32 = 0x20;
/// Spikes came after their tick, since the step before.
pub const BETZ_STEP_LATE: u32 = 0x40;
/// Spikes lay too far ahead and were left out, since the step before.
pub const BETZ_STEP_FUTURE: u32 = 0x80;
/// Spikes were lost, since the step before.
pub const BETZ_STEP_DROPPED: u32 = 0x100;
/// Another model gives the estimates, from this step on.
pub const BETZ_STEP_SWAPPED: u32 = 0x200;
/// Two models' estimates are being faded into each other.
pub const BETZ_STEP_FADING: u32 = 0x400;
/// The outputs are held (`betz_session_config.hold`).
pub const BETZ_STEP_HELD: u32 = 0x800;
/// Held outputs have come to rest.
pub const BETZ_STEP_AT_REST: u32 = 0x1000;
/// Channels are dead or scream (`watch_channels` of `betz_session_config` and `betz_trainer_config`).
pub const BETZ_STEP_CHANNELS: u32 = 0x2000;
/// And the model leaned on them for more than half.
pub const BETZ_STEP_UNTRUSTED: u32 = 0x4000;
/// An output would have changed by more than `betz_session_config.slew` allows, and went as far as it may.
pub const BETZ_STEP_SLEWED: u32 = 0x8000;

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
);

/// What the last step's estimates are worth: `BETZ_STEP_*` flags, 0 when there is nothing to say, before the
/// first step, and for NULL. A later version may set others.
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
    /// What a session published after its last step.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_health {
        /// The tick of the last step, on the session's clock (the queue's, where it steps through one).
        pub tick: i64,
        /// What the last step was worth, `BETZ_STEP_*`.
        pub status: u32,
        /// Where a swap stands, a `betz_swap_state`.
        pub swap: u32,
        /// Steps taken.
        pub ticks: u64,
        /// Ticks skipped.
        pub skipped: u64,
        /// Spikes taken.
        pub spikes: u64,
        /// Spikes of channels that the model does not have.
        pub unknown_channel_spikes: u64,
        /// Spikes lost before the session.
        pub dropped: u64,
        /// Spikes that came after their tick.
        pub late: u64,
        /// Spikes left out because they lay too far ahead.
        pub future: u64,
        /// Models that have taken over from another.
        pub model_swaps: u64,
        /// Steps that took longer than the deadline.
        pub deadline_misses: u64,
        /// How long the last step took, in nanoseconds; 0 when statistics are off.
        pub latency_ns: u64,
        /// How long the slowest step took, in nanoseconds.
        pub longest_ns: u64,
        /// Which model, with which mask, gives the estimates.
        pub model: u64,
    }
}

/// How the session does, all of one step, to `*out`, whose size in bytes is `size` (give `sizeof`). The
/// thread that steps never waits for it. `BETZ_ERROR_INVALID_ARGUMENT` unless the session was opened with
/// `betz_session_config.health`.
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
            };
            grow::write(out, size, "out", health)
        })
    }
}

/// Asks the session for a checkpoint, which it makes at its next tick; `betz_session_take_checkpoint` fetches
/// it.
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

/// The checkpoint that was asked for, as `betz_session_checkpoint` gives it: with `buf` NULL and `cap` 0 its
/// number of bytes alone, `*len`, which is 0 while the session has not made it. It can be fetched until
/// another one is there.
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
