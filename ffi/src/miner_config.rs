//! What a miner counts: its configuration.

use std::ffi::c_char;

use betz::Error;
use betz::episode::online::{MinerConfig, ReminingOptions};
use betz::episode::{Alphabet, Clock, Interval, Pattern};

use crate::barrier;
use crate::cast;
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::status::betz_status;

/// Most symbols of a miner, as the library's.
const MAX_SYMBOLS: u32 = 1 << 24;

/// Delays that an edge of an episode allows: low_seconds < delay <= high_seconds, in seconds.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct betz_interval {
    /// The delay is longer than this; at least 0.
    pub low_seconds: f64,
    /// The delay is at most this; above `low_seconds`.
    pub high_seconds: f64,
}

/// A serial episode as arrays: `symbols[k + 1]` fires after `symbols[k]`, at a delay inside
/// `intervals[k]`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct betz_episode {
    /// `size` symbols; they may repeat.
    pub symbols: *const u32,
    /// `size` - 1 intervals, NULL for one symbol alone.
    pub intervals: *const betz_interval,
    /// Number of symbols, at least 1.
    pub size: usize,
}

grows! {
    /// What a miner counts. Fill it with `betz_miner_config_default`, then set at least `symbols`,
    /// `tick_seconds`, and either episodes to watch or a window to find them in. Everything is copied.
    #[repr(C)]
    pub struct betz_miner_config {
        /// Size of this struct in bytes, as the caller was compiled: set by the default.
        pub struct_size: u32,
        /// Events have symbols 0 to `symbols` - 1, at most 2^24. No default. For a session's miner: at
        /// least the model's channels.
        pub symbols: u32,
        /// Length of a tick in seconds. No default. For a session's miner: the model's step.
        pub tick_seconds: f64,
        /// Names of the symbols, UTF-8, `symbols` of them, all different; NULL (default): "0", "1", ...
        pub labels: *const *const c_char,
        /// Episodes to watch, as text: `a3 -(0.004,0.006]-> a5`, in labels and seconds. An edge may be
        /// left out (`a3 a5`) when `intervals` has one entry, which then holds. NULL (default): none.
        pub episodes: *const *const c_char,
        /// Number of texts, 0 for NULL.
        pub n_episodes: usize,
        /// Episodes to watch, as arrays; in the list they come after those given as text. NULL (default):
        /// none.
        pub patterns: *const betz_episode,
        /// Number of patterns, 0 for NULL.
        pub n_patterns: usize,
        /// Intervals of the edges: one for texts without their own, or all those that the window is mined
        /// with. NULL (default): none.
        pub intervals: *const betz_interval,
        /// Number of intervals, 0 for NULL.
        pub n_intervals: usize,
        /// Events in line for the miner's thread, at least (20 bytes each), 1 to 2^24: what may come while it is
        /// held up. Those that find no room are dropped and counted. Default: 65,536.
        pub capacity: usize,
        /// Length of the window of recent events that is mined again and again, to watch what is frequent
        /// in it; longer than the longest episode may last. 0 (default): the list stays as given.
        pub window_seconds: f64,
        /// Mine when so much time has gone by in the events since the last mining began. 0 (default): a
        /// quarter of the window.
        pub every_seconds: f64,
        /// The window holds at most this many events (16 bytes each), the newest. Default: 1,048,576.
        pub window_events: usize,
        /// Episodes with at least this count in the window are frequent. No default; needed with a window.
        pub threshold: u64,
        /// Smallest episodes to find, in symbols. Default: 2.
        pub min_size: u32,
        /// Largest episodes to find, in symbols. Default: 6.
        pub max_size: u32,
        /// Longest list to watch; longer episodes come first, then more frequent ones. Default: 1,000.
        pub max_episodes: usize,
        /// Priority of the miner's threads (one that counts; with a window one that mines and one that waits
        /// for it): 0 (default) the normal policy, 1 to 99 SCHED_FIFO, for which the process needs the right
        /// (`BETZ_ERROR_IO`). Nothing of it is taken from the calling thread.
        pub thread_priority: u32,
        /// Zero.
        pub reserved: u32,
        /// Processors that these threads may run on, by number. NULL (default): those that the process had
        /// when the library was loaded, whatever the calling thread is pinned to.
        pub processors: *const u32,
        /// Number of processors, 0 for NULL.
        pub n_processors: usize,
        /// Bytes that the miner takes at most, besides `capacity` and the watched episodes: for the window, for
        /// beginnings of occurrences, and while it mines. A search that needs more fails and is counted
        /// (`betz_miner_stats.failures`); beginnings that find no room are forgotten and counted (`forgotten`).
        /// 0 (default): 256 MiB, or 256 bytes for each event of the window if that is more.
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
    /// The arrays are as their fields say.
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
    /// The arrays are as their fields say.
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

/// Fills a miner's configuration of `size` bytes (give `sizeof`) with the defaults. `symbols` and
/// `tick_seconds` are 0: set them. Nothing is written behind `size`.
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
