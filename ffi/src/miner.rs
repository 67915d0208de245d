//! Counting episodes in real time: opening, feeding, reading and closing a miner.

use std::sync::Arc;

use betz::episode::Alphabet;
use betz::episode::online::{MinerFeed, MinerHandle, open};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::feed::FeedGuard;
use crate::grow::{self, grows};
use crate::hearing::Attachment;
use crate::miner_config::betz_miner_config;
use crate::queue::betz_spike;
use crate::status::betz_status;
use crate::threaded::{Thread, WorkerHandle};
use crate::workers::Workers;

impl Thread for MinerHandle {
    const NAME: &'static str = "miner";

    fn is_running(&self) -> bool {
        self.is_running()
    }
}

/// Counts serial episodes of spikes (units that fire after each other, with given delays) in real time, on a
/// thread of its own. A second thread may mine the recent past and renew the list of watched episodes. The counts
/// are always those that counting the same events offline gives. One thread feeds it; any thread may read it.
pub struct betz_miner {
    miner: WorkerHandle<MinerFeed, MinerHandle>,
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
        &self.miner
    }

    pub(crate) fn alphabet(&self) -> &Arc<Alphabet> {
        &self.alphabet
    }

    /// Lends the feed to a session, which keeps it until it is dropped.
    pub(crate) fn lend(&self) -> Result<FeedGuard<MinerFeed>> {
        self.miner.lend()
    }

    /// Keeps the attachment to a session until the miner is closed.
    pub(crate) fn keep(&self, attachment: Attachment) {
        self.miner.keep(attachment);
    }

    /// Fails if its counts are not reliable: in a process without its threads, and after a panic of one.
    pub(crate) fn here(&self) -> Result<()> {
        self.miner.here()
    }
}

grows! {
    /// Counters of a miner.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_miner_stats {
        /// Number of events counted.
        pub events: u64,
        /// Number of events that the miner never saw because its queue was full.
        pub dropped: u64,
        /// Number of events refused because their tick was before that of an earlier one.
        pub late: u64,
        /// Number of events refused because their symbol is unknown or their tick is beyond 2^61.
        pub invalid: u64,
        /// Tick of the last event counted; INT64_MIN before the first.
        pub newest_tick: i64,
        /// Number of episodes watched now.
        pub episodes: u64,
        /// Number of times that mining the window has renewed the list.
        pub renewed: u64,
        /// Number of times that mining the window has failed, so that the list stayed the same;
        /// `betz_watch_list_last_failure` gives the reason.
        pub failures: u64,
        /// Number of started occurrences that were forgotten because `betz_miner_config.max_bytes` were in use:
        /// counts of episodes with long delays may be too low.
        pub forgotten: u64,
    }
}

/// Opens a miner and starts its thread, and two more if it has a window. The threads have the configured priority
/// and processors, not the calling thread's, and block all signals. After fork() the child can only close a miner
/// of the parent (`BETZ_ERROR_FORKED`). Fails with `BETZ_ERROR_IO` if the system cannot start a thread, and with
/// `BETZ_ERROR_OUT_OF_MEMORY` if it has too little memory for the queue. The caller frees the miner with
/// `betz_miner_close`.
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
        let (config, alphabet, workers, out) = unsafe {
            let given = grow::read(config, "config")?;
            let workers = Workers::read(
                0,
                given.thread_priority,
                given.processors,
                given.n_processors,
            )?;
            let (config, alphabet) = given.read()?;
            (config, alphabet, workers, cast::out(out, "out")?)
        };
        let opened = workers.run(|| Ok(open(config)?))?;
        out.write(cast::into_handle(betz_miner {
            miner: WorkerHandle::new(opened),
            alphabet: Arc::new(alphabet),
            poison: Poison::default(),
        })?);
        Ok(())
    })
}

/// Puts `n` events into the queue, in ascending order of their ticks (`channel` is the symbol). If the queue fills
/// up, the remaining events are dropped and counted. Writes the number of events that entered the queue to
/// `*pushed`. Events of one tick may come in any order: none counts as following another.
///
/// Ticks that go back and unknown symbols are no errors here: the miner leaves such events out and counts them
/// (`betz_miner_stats`). Fails with `BETZ_ERROR_INVALID_ARGUMENT` while a session feeds the miner.
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
            let mut feed = miner.miner.hold()?;
            let events = events.iter().map(|e| (e.tick, e.channel));
            pushed.write(feed.push_iter(events));
            Ok(())
        })
    }
}

/// Does the same as `betz_miner_push`, with times in seconds, each rounded to the nearest tick. Fails with
/// `BETZ_ERROR_INVALID_ARGUMENT` if a time is not finite; nothing changes then.
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
            let mut feed = miner.miner.hold()?;
            let events =
                (seconds.iter().zip(symbols)).map(|(&s, &symbol)| (clock.nearest(s), symbol));
            pushed.write(feed.push_iter(events));
            Ok(())
        })
    }
}

/// Waits until the miner has counted every event that was queued before this call.
///
/// Thread-safe: yes. Realtime-safe: no (sleeps). Allocates: no.
///
/// # Safety
/// `miner` is NULL or a live miner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_flush(miner: *const betz_miner) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(miner, |miner| {
            miner.here()?;
            Ok(miner.miner.flush()?)
        })
    }
}

/// Writes the counts of all watched episodes at one moment to `counts`, in the list's order (texts, then
/// patterns), and their number to `*len`. With `counts` NULL and `cap` 0 it only writes `*len`. Fails with
/// `BETZ_ERROR_MISMATCH` if `cap` is too small.
///
/// With a window the list changes: `betz_miner_watch_list` gives a list with its own counts.
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
        barrier::wait_on(miner, |miner| {
            let len = cast::out(len, "len")?;
            miner.here()?;
            miner.miner.read(|miner| {
                let watched = miner.counts();
                cast::copy_out("counts", counts, cap, watched.len(), len, |room| {
                    (room.iter_mut().zip(watched)).for_each(|(slot, count)| *slot = count);
                    Ok(())
                })
            })
        })
    }
}

/// Writes the miner's counters to `*out`, whose size in bytes is `size` (pass `sizeof`).
///
/// Thread-safe: yes, also while another thread feeds. Realtime-safe: no (waits for the miner's
/// thread). Allocates: no.
///
/// # Safety
/// `miner` is NULL or a live miner; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_get_stats(
    miner: *const betz_miner,
    out: *mut betz_miner_stats,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(miner, |miner| {
            grow::check_place(out, size, "out")?;
            miner.here()?;
            let now = miner.miner.summary();
            let stats = betz_miner_stats {
                events: now.stats.events,
                dropped: now.dropped,
                late: now.stats.late,
                invalid: now.stats.invalid,
                newest_tick: now.now.unwrap_or(i64::MIN),
                episodes: now.watched as u64,
                renewed: now.remined,
                failures: now.remining_failures,
                forgotten: now.stats.forgotten,
            };
            grow::write(out, size, "out", stats)
        })
    }
}

/// Closes and frees a miner after it has counted the events in its queue; mining in progress is cancelled. Does
/// nothing for NULL. A session that feeds it continues; the events that it sends are lost.
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
