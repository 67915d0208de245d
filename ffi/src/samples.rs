//! Samples of an amplifier: into a queue, and out of it as the time of an estimate.

use std::mem::offset_of;

use betz::stream::{SampleClock, SampledSpike};

use crate::barrier;
use crate::cast;
use crate::failure::Failure;
use crate::grow::{self, grows};
use crate::queue::betz_queue;
use crate::session::betz_session;
use crate::status::betz_status;

/// One spike: the sample of the amplifier at which it occurred, and its channel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct betz_sampled_spike {
    /// Sample, counted by the amplifier.
    pub sample: i64,
    /// Channel of the model.
    pub channel: u32,
}

const _: () = assert!(
    size_of::<betz_sampled_spike>() == size_of::<SampledSpike>()
        && align_of::<betz_sampled_spike>() == align_of::<SampledSpike>()
        && offset_of!(betz_sampled_spike, sample) == offset_of!(SampledSpike, sample)
        && offset_of!(betz_sampled_spike, channel) == offset_of!(SampledSpike, channel)
);

/// Sets the queue's clock: tick `tick` begins at sample `sample`, and a tick has `samples_per_tick` samples (1 to 10^9,
/// not necessarily whole; 30 for 30 kHz and ticks of 1 ms). Other values are refused (`BETZ_ERROR_INVALID_ARGUMENT`).
///
/// The clock may be set at any time: again and again with a measured rate, if the amplifier's clock drifts against
/// yours, or after the amplifier has restarted and counts from 0. Give a recent sample and its tick then. Spikes that
/// are in the queue keep their ticks. If the ticks jump, also call `betz_queue_resync` in the consuming thread.
///
/// Thread-safe: the one producing thread. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue in which no other thread produces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_set_clock(
    queue: *mut betz_queue,
    sample: i64,
    tick: i64,
    samples_per_tick: f64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(queue, |queue| {
            let clock = SampleClock::new(sample, tick, samples_per_tick)?;
            queue.producer()?.set_clock(clock);
            Ok(())
        })
    }
}

/// Puts `n` spikes with samples of the amplifier into the queue, in ascending order; the clock gives their ticks.
/// Otherwise like `betz_queue_push`. Fails with `BETZ_ERROR_INVALID_ARGUMENT` before the first
/// `betz_queue_set_clock`.
///
/// Thread-safe: the one producing thread. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue in which no other thread produces; `spikes` points to `n`
/// spikes; `pushed` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_push_samples(
    queue: *mut betz_queue,
    spikes: *const betz_sampled_spike,
    n: usize,
    pushed: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise; the two types have one layout, as asserted above.
    unsafe {
        barrier::run_on(queue, |queue| {
            let spikes = cast::slice(spikes.cast::<SampledSpike>(), n, "spikes")?;
            let pushed = cast::out(pushed, "pushed")?;
            pushed.write(queue.producer()?.push_samples(spikes)?);
            Ok(())
        })
    }
}

/// Declares that every spike up to and including sample `sample` has been pushed, and marks the last tick that is
/// complete with it, like `betz_queue_mark`. Fails with `BETZ_ERROR_INVALID_ARGUMENT` before the first
/// `betz_queue_set_clock`.
///
/// Thread-safe: the one producing thread. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue in which no other thread produces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_mark_sample(
    queue: *mut betz_queue,
    sample: i64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { barrier::run_on(queue, |queue| Ok(queue.producer()?.mark_sample(sample)?)) }
}

grows! {
    /// Time of a session's last estimates, in ticks and in samples of the amplifier.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_estimate_time {
        /// Tick of the step.
        pub tick: i64,
        /// Tick of the behaviour that the estimates are of: `tick` less the model's delay.
        pub behavior_tick: i64,
        /// First sample of the step's tick; INT64_MIN if the step did not come from a queue with a clock.
        pub first_sample: i64,
        /// Last sample of the step's tick; INT64_MIN without a clock.
        pub last_sample: i64,
        /// Last sample of the tick of the behaviour; INT64_MIN without a clock.
        pub behavior_sample: i64,
        /// Newest sample among the step's spikes; INT64_MIN if the step had none, and without a clock. It lies before
        /// `first_sample` if all its spikes were late.
        pub newest_spike_sample: i64,
    }
}

/// Writes the time of the last step's estimates to `*out`, whose size in bytes is `size` (pass `sizeof`). Samples are
/// by the queue's clock when the step was made (`betz_queue_set_clock`). Fails with
/// `BETZ_ERROR_INSUFFICIENT_DATA` before the first step.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_estimate_time(
    session: *const betz_session,
    out: *mut betz_estimate_time,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            grow::check_place(out, size, "out")?;
            let time = handle.session()?.estimate_time().ok_or(Failure::NoStep)?;
            let samples = time.samples;
            let time = betz_estimate_time {
                tick: time.tick,
                behavior_tick: time.behavior_tick,
                first_sample: samples.map_or(i64::MIN, |samples| samples.first),
                last_sample: samples.map_or(i64::MIN, |samples| samples.last),
                behavior_sample: samples.map_or(i64::MIN, |samples| samples.behavior),
                newest_spike_sample: (samples.and_then(|samples| samples.newest_spike))
                    .unwrap_or(i64::MIN),
            };
            grow::write(out, size, "out", time)
        })
    }
}
