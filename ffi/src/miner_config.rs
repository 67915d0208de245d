//! Configuration of a miner.

use std::ffi::c_char;

use betz::Error;
use betz::episode::online::{MinerConfig, ReminingOptions};
use betz::episode::{Alphabet, Clock, Interval, Pattern};

use crate::barrier;
use crate::cast;
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::status::betz_status;

/// Largest number of symbols of a miner, the same as the library's.
const MAX_SYMBOLS: u32 = 1 << 24;

/// Delays that an edge of an episode allows, in seconds: low_seconds < delay <= high_seconds.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct betz_interval {
    /// The delay is longer than this; at least 0.
    pub low_seconds: f64,
    /// The delay is at most this; above `low_seconds`.
    pub high_seconds: f64,
}

/// A serial episode as arrays: `symbols[k + 1]` fires after `symbols[k]`, with a delay inside `intervals[k]`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct betz_episode {
    /// Array of `size` symbols, which may repeat.
    pub symbols: *const u32,
    /// Array of `size` - 1 intervals; NULL for a single symbol.
    pub intervals: *const betz_interval,
    /// Number of symbols, at least 1.
    pub size: usize,
}

grows! {
    /// Configuration of a miner. Fill it with `betz_miner_config_default`, then set at least `symbols`,
    /// `tick_seconds`, and either episodes to watch or a window to find them in. Everything is copied.
    #[repr(C)]
    pub struct betz_miner_config {
        /// Size of this struct in bytes in the caller's header; the default function sets it.
        pub struct_size: u32,
        /// Number of symbols, at most 2^24; events have symbols 0 to `symbols` - 1. No default. A session's
        /// miner needs at least the model's number of channels.
        pub symbols: u32,
        /// Length of a tick in seconds. No default. For a session's miner: the model's step.
        pub tick_seconds: f64,
        /// Names of the symbols, UTF-8, one per symbol, all different; NULL (default): "0", "1", ...
        pub labels: *const *const c_char,
        /// Episodes to watch, as text: `a3 -(0.004,0.006]-> a5`, in labels and seconds. The interval may be left
        /// out (`a3 a5`) if `intervals` has exactly one entry, which then applies. NULL (default): none.
        pub episodes: *const *const c_char,
        /// Number of texts; 0 for NULL.
        pub n_episodes: usize,
        /// Episodes to watch, as arrays; in the list they come after the episodes given as text. NULL (default):
        /// none.
        pub patterns: *const betz_episode,
        /// Number of patterns; 0 for NULL.
        pub n_patterns: usize,
        /// Intervals of the edges: one for texts without intervals, or all intervals to try when the window is
        /// mined. NULL (default): none.
        pub intervals: *const betz_interval,
        /// Number of intervals; 0 for NULL.
        pub n_intervals: usize,
        /// Smallest capacity of the miner's queue, in events (20 bytes each), 1 to 2^24. The queue fills up
        /// while the miner's thread is held up; events that do not fit are dropped and counted. Default: 65,536.
        pub capacity: usize,
        /// Length of the window of recent events, in seconds. The window is mined repeatedly, and its frequent
        /// episodes are watched. It must be longer than the longest episode may last. 0 (default): no window;
        /// the list stays as given.
        pub window_seconds: f64,
        /// Time from the start of one mining run to the next, in seconds of the events' clock. The first run starts
        /// this long after the miner's thread first sees an event. 0 (default): a quarter of the window.
        pub every_seconds: f64,
        /// Largest number of events in the window (16 bytes each); the newest are kept. Default: 1,048,576.
        pub window_events: usize,
        /// Smallest count in the window that makes an episode frequent. No default; needed with a window.
        pub threshold: u64,
        /// Smallest episodes to find, in symbols. Default: 2.
        pub min_size: u32,
        /// Largest episodes to find, in symbols. Default: 6.
        pub max_size: u32,
        /// Largest number of episodes to watch; longer episodes come first, then more frequent ones. Default:
        /// 1,000.
        pub max_episodes: usize,
        /// Priority of the miner's threads (one counts; with a window, one mines and one waits for it): 0
        /// (default) for the normal policy, 1 to 99 for SCHED_FIFO, which needs the right to use it
        /// (`BETZ_ERROR_IO`). The calling thread's priority is not inherited.
        pub thread_priority: u32,
        /// Zero.
        pub reserved: u32,
        /// Numbers of the processors that these threads may run on. NULL (default): the processors that the
        /// process had when the library was loaded, even if the calling thread is pinned.
        pub processors: *const u32,
        /// Number of processors; 0 for NULL.
        pub n_processors: usize,
        /// Largest memory of the miner in bytes, without `capacity` and the watched episodes: for the window,
        /// for started occurrences and for mining. A search that needs more fails and is counted
        /// (`betz_miner_stats.failures`); started occurrences that do not fit are forgotten and counted
        /// (`forgotten`). 0 (default): 256 MiB, or 256 bytes per event of the window if that is more.
        pub max_bytes: usize,
    }
}

impl Config for betz_miner_config {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            capacity: 1 << 16,
            window_events: 1 << 20,
            min_size: 2,
            max_size: 6,
            max_episodes: 1000,
            ..grow::zeroed()
        }
    }
}

impl betz_miner_config {
    /// # Safety
    /// The arrays are as the documentation of their fields says.
    pub(crate) unsafe fn read(&self) -> Result<(MinerConfig, Alphabet)> {
        grow::zero(self.reserved, "config->reserved")?;
        if !(1..=MAX_SYMBOLS).contains(&self.symbols) {
            return Err(Failure::Argument {
                name: "config->symbols",
                expected: "1 to 2^24",
            });
        }
        let symbols = self.symbols as usize;
        let clock = Clock::from_tick_seconds(self.tick_seconds)
            .map_err(|e| e.at("config->tick_seconds"))?;
        // SAFETY: the caller's promise.
        let (labels, texts, patterns, intervals) = unsafe {
            if self.episodes.is_null() && self.n_episodes > 0 {
                return Err(Failure::Null("config->episodes"));
            }
            (
                cast::texts(self.labels, symbols, "config->labels")?,
                cast::texts(self.episodes, self.n_episodes, "config->episodes")?,
                cast::slice(self.patterns, self.n_patterns, "config->patterns")?,
                cast::slice(self.intervals, self.n_intervals, "config->intervals")?,
            )
        };
        let labels = labels.unwrap_or_else(|| (0..symbols).map(|s| s.to_string()).collect());
        let alphabet = Alphabet::new(labels, clock).map_err(|e| e.at("config->labels"))?;
        let intervals = read_intervals(intervals, clock).map_err(|e| e.at("config->intervals"))?;
        let default = match intervals[..] {
            [one] => Some(one),
            _ => None,
        };
        let mut watched = Vec::new();
        for (i, text) in texts.unwrap_or_default().iter().enumerate() {
            let pattern = Pattern::parse(text, &alphabet, default);
            watched.push(pattern.map_err(|e| e.at(format!("config->episodes[{i}]")))?);
        }
        for (i, pattern) in patterns.iter().enumerate() {
            // SAFETY: the caller's promise.
            watched.push(unsafe { pattern.read(i, clock)? });
        }
        let mut config = MinerConfig::new(symbols, watched);
        config.capacity = self.capacity;
        config.max_bytes = (self.max_bytes != 0).then_some(self.max_bytes);
        config.remining = self.remining(clock, intervals)?;
        if config.remining.is_none() && config.patterns.is_empty() {
            return Err(Failure::Argument {
                name: "config",
                expected: "episodes to watch, or a window to find them in",
            });
        }
        Ok((config, alphabet))
    }

    fn remining(&self, clock: Clock, intervals: Vec<Interval>) -> Result<Option<ReminingOptions>> {
        if self.window_seconds == 0.0 {
            return Ok(None);
        }
        let ticks = |seconds: f64, name| clock.ticks_floor(seconds).map_err(|e| e.at(name));
        let window_ticks = ticks(self.window_seconds, "config->window_seconds")?;
        let every_ticks = if self.every_seconds == 0.0 {
            (window_ticks / 4).max(1)
        } else {
            ticks(self.every_seconds, "config->every_seconds")?
        };
        Ok(Some(ReminingOptions {
            window_ticks,
            window_events: self.window_events,
            every_ticks,
            intervals,
            threshold: self.threshold,
            min_size: self.min_size as usize,
            max_size: self.max_size as usize,
            max_episodes: self.max_episodes,
        }))
    }
}

impl betz_episode {
    /// # Safety
    /// The arrays are as the documentation of their fields says.
    unsafe fn read(&self, index: usize, clock: Clock) -> Result<Pattern> {
        let at = |e: Error| e.at(format!("config->patterns[{index}]"));
        let edges = self.size.saturating_sub(1);
        // SAFETY: the caller's promise.
        let (symbols, intervals) = unsafe {
            (
                cast::slice(self.symbols, self.size, "config->patterns[...].symbols")?,
                cast::slice(self.intervals, edges, "config->patterns[...].intervals")?,
            )
        };
        let intervals = read_intervals(intervals, clock).map_err(at)?;
        Ok(Pattern::new(symbols.to_vec(), intervals).map_err(at)?)
    }
}

fn read_intervals(intervals: &[betz_interval], clock: Clock) -> betz::Result<Vec<Interval>> {
    let read = |i: &betz_interval| Interval::from_seconds(i.low_seconds, i.high_seconds, clock);
    intervals.iter().map(read).collect()
}

/// Fills a miner's configuration of `size` bytes (pass `sizeof`) with the defaults. `symbols` and `tick_seconds`
/// are 0: set them. Writes nothing beyond `size` bytes.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_config_default(
    config: *mut betz_miner_config,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    barrier::run(|| unsafe { grow::write_defaults(config, size) })
}
