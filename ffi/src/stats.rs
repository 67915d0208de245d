//! What a session has seen and how long it took.

use betz::stream::Stats;

use crate::barrier;
use crate::grow::{self, grows};
use crate::session::betz_session;
use crate::status::betz_status;

grows! {
    /// Counters and latencies of a session, since it was opened or since `betz_session_clear_stats`.
    ///
    /// Latencies are of the step alone, by a monotonic clock, in microseconds to 1 %; zeros when
    /// `betz_session_config.statistics` is 0.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_stats {
        /// Steps taken.
        pub ticks: u64,
        /// Spikes taken, of all channels that the model has, masked ones included.
        pub spikes: u64,
        /// Spikes ignored because the model has no such channel.
        pub unknown_channel_spikes: u64,
        /// Spikes lost before the session: the queue in front of it was full, or a queue held them for
        /// a step that was refused.
        pub dropped: u64,
        /// Spikes that came from the queue after their tick, whether they were still taken or not.
        pub late: u64,
        /// Steps that took longer than the deadline.
        pub deadline_misses: u64,
        /// Models that have taken over from another, rolling back included.
        pub model_swaps: u64,
        /// Steps timed.
        pub latency_steps: u64,
        /// Median latency of a step.
        pub latency_p50_us: f64,
        /// 99th percentile.
        pub latency_p99_us: f64,
        /// 99.9th percentile.
        pub latency_p99_9_us: f64,
        /// The slowest step; what the machine did in between is in it.
        pub latency_max_us: f64,
        /// Mean.
        pub latency_mean_us: f64,
        /// Spikes from the queue that lay too far ahead and were left out.
        pub future: u64,
        /// Ticks skipped (`betz_session_skip`, `betz_queue_resync`).
        pub skipped: u64,
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
        }
    }
}

/// Copies the session's counters and latencies to `*out`, whose size in bytes is `size` (give `sizeof`):
/// an older program's smaller struct gets the fields that it has, a newer one's more is zero. Takes a few microseconds: call it once a
/// second rather than every tick.
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

/// All counters and latencies back to zero; the filters go on.
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
