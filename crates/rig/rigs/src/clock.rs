//! The clock of arrivals, and those that outputs carry.

/// Nanoseconds of the host's `CLOCK_MONOTONIC_RAW`, which nobody sets or slews. Systems other than Linux count from
/// the first call, by their monotonic clock.
pub fn host_ns() -> i64 {
    #[cfg(target_os = "linux")]
    {
        read(rustix::time::ClockId::MonotonicRaw)
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

/// Nanoseconds of the host's `CLOCK_MONOTONIC`, which NTP slews: the clock of BRAND (`time.monotonic_ns`). On systems
/// other than Linux, [`host_ns`].
#[cfg(feature = "brand")]
pub(crate) fn monotonic_ns() -> i64 {
    #[cfg(target_os = "linux")]
    {
        read(rustix::time::ClockId::Monotonic)
    }
    #[cfg(not(target_os = "linux"))]
    host_ns()
}

#[cfg(target_os = "linux")]
fn read(clock: rustix::time::ClockId) -> i64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Nanoseconds since the host time `host_ns`, never below 0; 0 for the time 0, which stands for a step without data.
#[cfg(any(feature = "brand", feature = "lsl"))]
pub(crate) fn age_ns(host_ns: i64) -> i64 {
    match host_ns {
        0 => 0,
        then => self::host_ns().saturating_sub(then).max(0),
    }
}
