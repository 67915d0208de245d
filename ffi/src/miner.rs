//! Counting episodes while the events come: opened, fed, read, closed.

use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use betz::episode::online::{MinerConfig, MinerFeed, MinerHandle, Remining, open};
use betz::episode::{Alphabet, Clock, Interval, Pattern};
use betz::stream::{Step, Tap};
use betz::{Error, ErrorKind};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::queue::betz_spike;
use crate::status::betz_status;

/// Most symbols of a miner, as the library's.
const MAX_SYMBOLS: u32 = 1 << 24;

/// Counts serial episodes of spikes (which unit fires after which, at which delay) while they come, on
/// a thread of its own; a second thread may mine the recent past and renew the list of what is watched.
/// At any moment the counts are those that counting the same events offline gives. One thread feeds
/// it; any thread may read it.
pub struct betz_miner {
    feed: Arc<Feed>,
    handle: MinerHandle,
    alphabet: Arc<Alphabet>,
    poison: Poison,
}

impl Handle for betz_miner {
    const NAME: &'static str = "miner";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl betz_miner {
    pub(crate) fn handle(&self) -> &MinerHandle {
        &self.handle
    }

    pub(crate) fn alphabet(&self) -> &Arc<Alphabet> {
        &self.alphabet
    }

    /// The feed for a session, which keeps it until it is dropped.
    pub(crate) fn lend(&self) -> Result<impl Tap + use<>> {
        Held::new(Arc::clone(&self.feed)).ok_or(TAKEN)
    }

    /// Fails when the miner's thread has died of a panic: what it has counted is not to be relied on.
    pub(crate) fn alive(&self) -> Result<()> {
        if self.handle.is_running() {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Internal, "the miner's thread has died");
        Err(Failure::Betz(error))
    }
}

const TAKEN: Failure = Failure::Argument {
    name: "miner",
    expected: "one that neither a session nor another thread is feeding",
};

/// The feeding end, for whoever holds it: a push for its time, or a session.
struct Feed {
    held: AtomicBool,
    feed: UnsafeCell<MinerFeed>,
}

// SAFETY: the feed may be sent, and is touched only through `Held`, of which there is one at a time.
unsafe impl Sync for Feed {}

/// Holds the feed until it is dropped.
struct Held<F: Deref<Target = Feed>>(F);

impl<F: Deref<Target = Feed>> Held<F> {
    /// `None` when somebody holds it. Does not wait.
    fn new(feed: F) -> Option<Self> {
        (!feed.held.swap(true, Ordering::Acquire)).then(|| Self(feed))
    }
}

impl<F: Deref<Target = Feed>> Drop for Held<F> {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

impl<F: Deref<Target = Feed>> Deref for Held<F> {
    type Target = MinerFeed;

    fn deref(&self) -> &MinerFeed {
        // SAFETY: this is the only holder.
        unsafe { &*self.0.feed.get() }
    }
}

impl<F: Deref<Target = Feed>> DerefMut for Held<F> {
    fn deref_mut(&mut self) -> &mut MinerFeed {
        // SAFETY: this is the only holder.
        unsafe { &mut *self.0.feed.get() }
    }
}

impl<F: Deref<Target = Feed> + Send> Tap for Held<F> {
    fn take(&mut self, step: &Step<'_>) {
        (**self).take(step);
    }

    fn rest(&mut self) {
        (**self).rest();
    }
}

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
    /// Events in line for the miner's thread (16 bytes each), 1 to 2^24: what may come while it is
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
}

impl betz_miner_config {
    const SIZE: u32 = size_of::<Self>() as u32;

    /// # Safety
    /// The arrays are as their fields say.
    unsafe fn read(&self) -> Result<(MinerConfig, Alphabet)> {
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
        config.remining = self.remining(clock, intervals)?;
        if config.remining.is_none() && config.patterns.is_empty() {
            return Err(Failure::Argument {
                name: "config",
                expected: "episodes to watch, or a window to find them in",
            });
        }
        Ok((config, alphabet))
    }

    fn remining(&self, clock: Clock, intervals: Vec<Interval>) -> Result<Option<Remining>> {
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
        Ok(Some(Remining {
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

/// What a miner has taken and found.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct betz_miner_stats {
    /// Events counted.
    pub events: u64,
    /// Events that found no room in line: the miner never saw them.
    pub dropped: u64,
    /// Events refused because their tick was before that of an earlier one.
    pub late: u64,
    /// Events refused because their symbol is unknown, or their tick is beyond 2^61.
    pub invalid: u64,
    /// Tick of the last event counted; INT64_MIN before the first.
    pub newest_tick: i64,
    /// Episodes watched now.
    pub episodes: u64,
    /// How often mining the window has renewed the list.
    pub renewed: u64,
    /// How often mining the window has failed, and the list has stayed;
    /// `betz_watch_list_last_failure` says why.
    pub failures: u64,
}

/// Fills a miner's configuration with the defaults. `symbols` and `tick_seconds` are 0: set them.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_config_default(config: *mut betz_miner_config) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        unsafe { cast::out(config, "config")? }.write(betz_miner_config {
            struct_size: betz_miner_config::SIZE,
            symbols: 0,
            tick_seconds: 0.0,
            labels: std::ptr::null(),
            episodes: std::ptr::null(),
            n_episodes: 0,
            patterns: std::ptr::null(),
            n_patterns: 0,
            intervals: std::ptr::null(),
            n_intervals: 0,
            capacity: 1 << 16,
            window_seconds: 0.0,
            every_seconds: 0.0,
            window_events: 1 << 20,
            threshold: 0,
            min_size: 2,
            max_size: 6,
            max_episodes: 1000,
        });
        Ok(())
    })
}

/// Opens a miner and starts its thread, and a second one when it has a window. The threads inherit
/// the caller's priority and signal mask: open it before the decoding thread becomes a real-time one.
/// `BETZ_ERROR_IO` when the system has no thread, `BETZ_ERROR_OUT_OF_MEMORY` when it has no memory for
/// the events in line. The caller frees it with `betz_miner_close`.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `config` is NULL or a configuration whose arrays are as its fields say; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_open(
    config: *const betz_miner_config,
    out: *mut *mut betz_miner,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (config, alphabet, out) = unsafe {
            cast::check_struct_size(config, betz_miner_config::SIZE, "config")?;
            let (config, alphabet) = cast::shared(config, "config")?.read()?;
            (config, alphabet, cast::out(out, "out")?)
        };
        let (feed, handle) = open(config)?;
        out.write(cast::into_handle(betz_miner {
            feed: Arc::new(Feed {
                held: AtomicBool::new(false),
                feed: UnsafeCell::new(feed),
            }),
            handle,
            alphabet: Arc::new(alphabet),
            poison: Poison::default(),
        }));
        Ok(())
    })
}

/// Puts `n` events in line, ticks ascending (`channel` is the symbol). Those that find no room, always
/// the last ones, are dropped and counted; `*pushed` becomes the number of those that did. Events of
/// one tick may come in any order: none follows another.
///
/// A tick that goes back and an unknown symbol are no errors here: the miner leaves such events out
/// and counts them (`betz_miner_stats`). `BETZ_ERROR_INVALID_ARGUMENT` while a session feeds the miner.
///
/// Thread-safe: no (one thread feeds; two at once are refused). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `miner` is NULL or a live miner; `events` points to `n` events; `pushed` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_push(
    miner: *mut betz_miner,
    events: *const betz_spike,
    n: usize,
    pushed: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(miner, |miner: &betz_miner| {
            let events = cast::slice(events, n, "events")?;
            let pushed = cast::out(pushed, "pushed")?;
            let mut feed = Held::new(&*miner.feed).ok_or(TAKEN)?;
            let events = events.iter().map(|e| (e.tick, e.channel));
            pushed.write(feed.push_iter(events));
            Ok(())
        })
    }
}

/// As `betz_miner_push`, with times in seconds: each becomes the nearest tick. A time that is not
/// finite refuses the call (`BETZ_ERROR_INVALID_ARGUMENT`) before anything has changed.
///
/// Thread-safe: no (one thread feeds; two at once are refused). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `miner` is NULL or a live miner; `seconds` and `symbols` point to `n` values; `pushed` is NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_push_seconds(
    miner: *mut betz_miner,
    seconds: *const f64,
    symbols: *const u32,
    n: usize,
    pushed: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(miner, |miner: &betz_miner| {
            let seconds = cast::slice(seconds, n, "seconds")?;
            let symbols = cast::slice(symbols, n, "symbols")?;
            let pushed = cast::out(pushed, "pushed")?;
            if !seconds.iter().all(|s| s.is_finite()) {
                return Err(Failure::Argument {
                    name: "seconds",
                    expected: "finite times",
                });
            }
            let clock = miner.alphabet.clock();
            let mut feed = Held::new(&*miner.feed).ok_or(TAKEN)?;
            let events =
                (seconds.iter().zip(symbols)).map(|(&s, &symbol)| (clock.nearest(s), symbol));
            pushed.write(feed.push_iter(events));
            Ok(())
        })
    }
}

/// Waits until everything put in line before this call has been counted.
///
/// Thread-safe: yes. Realtime-safe: no (sleeps). Allocates: no.
///
/// # Safety
/// `miner` is NULL or a live miner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_flush(miner: *const betz_miner) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { barrier::run_on(miner, |miner| Ok(miner.handle.flush()?)) }
}

/// The counts of all watched episodes at one moment, in the list's order (texts, then patterns), to
/// the first `*len` places of `counts`; with `counts` NULL and `cap` 0, their number alone. A `cap` too
/// small fails with `BETZ_ERROR_MISMATCH`.
///
/// With a window the list changes: `betz_miner_watch_list` gives list and counts together.
///
/// Thread-safe: yes, also while another thread feeds. Realtime-safe: no (waits for the miner's
/// thread). Allocates: no.
///
/// # Safety
/// `miner` is NULL or a live miner; `counts` is NULL or writable for `cap` values; `len` is NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_counts(
    miner: *const betz_miner,
    counts: *mut u64,
    cap: usize,
    len: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(miner, |miner| {
            let len = cast::out(len, "len")?;
            miner.alive()?;
            miner.handle.read(|miner| {
                let watched = miner.counts();
                cast::copy_out("counts", counts, cap, watched.len(), len, |room| {
                    (room.iter_mut().zip(watched)).for_each(|(slot, count)| *slot = count);
                    Ok(())
                })
            })
        })
    }
}

/// What the miner has taken and found, to `*out`.
///
/// Thread-safe: yes, also while another thread feeds. Realtime-safe: no (waits for the miner's
/// thread). Allocates: no.
///
/// # Safety
/// `miner` is NULL or a live miner; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_get_stats(
    miner: *const betz_miner,
    out: *mut betz_miner_stats,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(miner, |miner| {
            let out = cast::out(out, "out")?;
            miner.alive()?;
            let now = miner.handle.summary();
            out.write(betz_miner_stats {
                events: now.stats.events,
                dropped: now.dropped,
                late: now.stats.late,
                invalid: now.stats.invalid,
                newest_tick: now.now.unwrap_or(i64::MIN),
                episodes: now.watched as u64,
                renewed: now.remined,
                failures: now.remining_failures,
            });
            Ok(())
        })
    }
}

/// Closes and frees a miner when it has counted what is in line; mining that is under way is broken
/// off. NULL is nothing to do. A session that feeds it goes on: what it hands over is lost.
///
/// Thread-safe: no (nobody may use the miner any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `miner` is NULL or a live miner, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_close(miner: *mut betz_miner) {
    // SAFETY: the caller's promise.
    barrier::run_free(|| unsafe { cast::drop_handle(miner) });
}
