//! The clock of arrivals.

/// Nanoseconds of the host's `CLOCK_MONOTONIC_RAW`, which nobody sets or slews. Systems other than Linux count from
/// the first call, by their monotonic clock.
pub fn host_ns() -> i64 {
    #[cfg(target_os = "linux")]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    }
    #[cfg(not(target_os = "linux"))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START
            .get_or_init(std::time::Instant::now)
            .elapsed()
            .as_nanos() as i64
    }
}
