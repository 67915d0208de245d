//! Counters and latencies of a session.

use betz::stream::Stats;

use crate::barrier;
use crate::grow::{self, grows};
use crate::session::betz_session;
use crate::status::betz_status;

grows! {
    /// Counters and latencies of a session, since it was opened or since `betz_session_clear_stats`.
    ///
    /// Latencies cover the step alone, measured by a monotonic clock, in microseconds with an accuracy of 1 %. They are
    /// zero if `betz_session_config.statistics` is 0.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_stats {
        /// Number of steps taken.
        pub ticks: u64,
        /// Number of spikes taken from all channels that the model has, including masked ones.
        pub spikes: u64,
        /// Number of spikes ignored because the model has no such channel.
        pub unknown_channel_spikes: u64,
        /// Number of spikes lost before they reached the session: the queue was full, or the step that was to take them
        /// was refused.
        pub dropped: u64,
        /// Number of spikes that came from the queue after their tick, whether decoded or discarded.
        pub late: u64,
        /// Number of steps that took longer than the deadline.
        pub deadline_misses: u64,
        /// Number of times that a model has taken over from another, including by rolling back.
        pub model_swaps: u64,
        /// Number of steps timed.
        pub latency_steps: u64,
        /// Median latency of a step.
        pub latency_p50_us: f64,
        /// 99th percentile of the latency.
        pub latency_p99_us: f64,
        /// 99.9th percentile of the latency.
        pub latency_p99_9_us: f64,
        /// Latency of the slowest step, including interruptions by the machine.
        pub latency_max_us: f64,
        /// Mean latency of a step.
        pub latency_mean_us: f64,
        /// Number of spikes from the queue that were discarded because they lay too far ahead.
        pub future: u64,
        /// Number of ticks skipped (`betz_session_skip`, `betz_queue_resync`).
        pub skipped: u64,
        /// Number of spikes left out because their step had more than `betz_session_config.max_spikes`. Checkpoints
        /// do not keep it.
        pub capped: u64,
        /// Number of events of classes lost because `betz_session_events` did not read them in time. Checkpoints do not
        /// keep it.
        pub events_lost: u64,
    }
}

impl From<Stats> for betz_stats {
    fn from(stats: Stats) -> Self {
        Self {
            ticks: stats.ticks,
            spikes: stats.spikes,
            unknown_channel_spikes: stats.unknown_channel_spikes,
            dropped: stats.dropped,
            late: stats.late,
            deadline_misses: stats.deadline_misses,
            model_swaps: stats.model_swaps,
            latency_steps: stats.latency.steps,
            latency_p50_us: stats.latency.p50_us,
            latency_p99_us: stats.latency.p99_us,
            latency_p99_9_us: stats.latency.p99_9_us,
            latency_max_us: stats.latency.max_us,
            latency_mean_us: stats.latency.mean_us,
            future: stats.future,
            skipped: stats.skipped,
            capped: stats.capped,
            events_lost: stats.events_lost,
        }
    }
}

/// Copies the session's counters and latencies to `*out`, whose size in bytes is `size` (pass `sizeof`). If the
/// caller's struct is older and smaller, it gets the fields that it has; if it is newer and larger, the rest is set to
/// zero. Takes a few microseconds: call it once per second rather than every tick.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `out` is NULL or writable
/// for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_stats(
    session: *const betz_session,
    out: *mut betz_stats,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            grow::check_place(out, size, "out")?;
            grow::write(out, size, "out", handle.session()?.stats().into())
        })
    }
}

/// Sets all counters and latencies back to zero; the filters are not changed.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_clear_stats(session: *mut betz_session) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            handle.session()?.clear_stats();
            Ok(())
        })
    }
}
