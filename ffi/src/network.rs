//! The correlation network of the channels in real time: opened, fed, read, closed.

use betz::network::live::{LiveFeed, LiveHandle, open};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::feed::FeedGuard;
use crate::grow::{self, grows};
use crate::hearing::Attachment;
use crate::network_config::betz_network_config;
use crate::status::betz_status;
use crate::threaded::{Thread, WorkerHandle};
use crate::workers::Workers;

impl Thread for LiveHandle {
    const NAME: &'static str = "network";

    fn is_running(&self) -> bool {
        self.is_running()
    }
}

/// A correlation network in real time: its edges join channels whose spike counts are correlated over a
/// sliding window. A thread of its own keeps the edges of the newest complete window up to date. They are the
/// same as those that `betz network compute` finds in the same bins. One thread, or a session, feeds it; any
/// thread may read it.
pub struct betz_network {
    live: WorkerHandle<LiveFeed, LiveHandle>,
    channels: usize,
    tick_seconds: f64,
    communities: bool,
    poison: Poison,
}

impl Handle for betz_network {
    const NAME: &'static str = "network";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl betz_network {
    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    pub(crate) fn tick_seconds(&self) -> f64 {
        self.tick_seconds
    }

    /// Lends the feed to a session, which keeps it until it is dropped.
    pub(crate) fn lend(&self) -> Result<FeedGuard<LiveFeed>> {
        self.live.lend()
    }

    /// Keeps the attachment to a session until the network is closed.
    pub(crate) fn keep(&self, attachment: Attachment) {
        self.live.keep(attachment);
    }

    /// Fails in a process that does not have the network's thread, and if the thread has died of a panic.
    fn here(&self) -> Result<()> {
        self.live.here()
    }

    /// Refuses a number of values that differs from the number of channels.
    fn one_per_channel(&self, given: usize) -> Result<()> {
        if given == self.channels {
            return Ok(());
        }
        Err(Failure::Length {
            name: "channels",
            expected: self.channels,
            got: given,
        })
    }
}

/// An edge: channels `i` < `j` and their correlation.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct betz_edge {
    /// The first channel.
    pub i: u32,
    /// The second channel.
    pub j: u32,
    /// Pearson's correlation of the two channels' counts in the window's bins.
    pub r: f32,
}

grows! {
    /// A window of a network.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_network_info {
        /// Number of windows completed before this one.
        pub window: u64,
        /// The tick of its first step.
        pub first_tick: i64,
        /// The tick after its last step.
        pub end_tick: i64,
        /// Number of its edges, including those beyond `betz_network_config.max_edges`.
        pub edges: u64,
        /// Number of channels whose counts are all equal in this window, so that their correlations are
        /// undefined.
        pub undefined: u64,
    }
}

grows! {
    /// Counters and update times of a network.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_network_stats {
        /// Number of steps taken.
        pub steps: u64,
        /// Number of steps that wait for the network's thread now.
        pub waiting: u64,
        /// Number of steps dropped because the network's queue was full. The network starts anew after each of
        /// them.
        pub dropped: u64,
        /// Number of complete bins.
        pub bins: u64,
        /// Number of windows completed.
        pub windows: u64,
        /// Number of completed windows whose edges were not computed because the thread was late. The window
        /// after them is complete.
        pub skipped_windows: u64,
        /// Number of gaps: steps that did not follow the one before (a reset, skipped or dropped steps). No
        /// window holds bins from both sides of a gap.
        pub gaps: u64,
        /// Number of steps before a gap that did not fill a bin.
        pub partial_steps: u64,
        /// Number of spikes from channels that the network does not have.
        pub unknown_channel_spikes: u64,
        /// Number of counts per channel and bin that were not whole numbers from 0 to 65,535, and were rounded
        /// to the nearest one.
        pub altered_counts: u64,
        /// Number of updates timed, one per bin.
        pub updates: u64,
        /// Median time of an update, in microseconds, with an accuracy of 1 %: adding a bin, and computing the
        /// edges of the window that it completes.
        pub update_p50_us: f64,
        /// 99th percentile of the time of an update.
        pub update_p99_us: f64,
        /// Time of the slowest update, including interruptions by the machine.
        pub update_max_us: f64,
    }
}

/// Opens a network and starts its thread. The thread has the configured priority and processors, not the
/// calling thread's, and blocks all signals. After fork() the child can only close a network of the parent
/// (`BETZ_ERROR_FORKED`). Fails with `BETZ_ERROR_IO` if the system cannot start a thread, and with
/// `BETZ_ERROR_OUT_OF_MEMORY` if it has too little memory for statistics, edges and the queue. The caller
/// frees the network with `betz_network_close`.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `config` is NULL or a configuration whose arrays are as its fields say; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_network_open(
    config: *const betz_network_config,
    out: *mut *mut betz_network,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (given, workers, out) = unsafe {
            let given = grow::read(config, "config")?;
            let workers = Workers::read(
                0,
                given.thread_priority,
                given.processors,
                given.n_processors,
            )?;
            (given, workers, cast::out(out, "out")?)
        };
        let config = given.read()?;
        let communities = config.communities.is_some();
        let opened = workers.run(|| Ok(open(config)?))?;
        out.write(cast::into_handle(betz_network {
            channels: opened.1.channels(),
            live: WorkerHandle::new(opened),
            tick_seconds: given.tick_seconds,
            communities,
            poison: Poison::default(),
        })?);
        Ok(())
    })
}

/// Puts a step's counts into the queue, one per channel, for a network without a session. `tick` should follow
/// the last step's tick; otherwise there is a gap between them. A step that does not fit into the queue is
/// dropped and counted. Fails with `BETZ_ERROR_INVALID_ARGUMENT` while a session feeds the network.
///
/// Thread-safe: no (one thread feeds; two at once are refused). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `network` is NULL or a live network; `counts` points to `channels` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_network_push_counts(
    network: *mut betz_network,
    tick: i64,
    counts: *const u16,
    channels: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(network, |network: &betz_network| {
            network.one_per_channel(channels)?;
            let counts = cast::slice(counts, channels, "counts")?;
            network.live.hold()?.push_counts(tick, counts);
            Ok(())
        })
    }
}

/// Waits until the network has taken every step that was queued before this call.
///
/// Thread-safe: yes. Realtime-safe: no (sleeps). Allocates: no.
///
/// # Safety
/// `network` is NULL or a live network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_network_flush(network: *const betz_network) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(network, |network| {
            network.here()?;
            Ok(network.live.flush()?)
        })
    }
}

/// Copies the newest complete window. Writes its edges, ordered by (i, j), to `edges`, at most `cap` of them.
/// Writes the number of edges that the network keeps to `*n`; if that is more than `cap`, ask again with more
/// room. Writes the description of the window to `*info`, whose size in bytes is `size` (pass `sizeof`).
/// Before the first window there are 0 edges, and `*info` is all zeros. `edges` may be NULL if `cap` is 0.
///
/// Thread-safe: yes, also while another thread feeds. Realtime-safe: no (may wait for the network's
/// thread). Allocates: no.
///
/// # Safety
/// `network` is NULL or a live network; `edges` is NULL or writable for `cap` of them; `n` is NULL or
/// writable; `info` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_network_snapshot(
    network: *const betz_network,
    edges: *mut betz_edge,
    cap: usize,
    n: *mut usize,
    info: *mut betz_network_info,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(network, |network| {
            let room = cast::slice_mut(edges, cap, "edges")?;
            let n = cast::out(n, "n")?;
            grow::check_place(info, size, "info")?;
            network.here()?;
            let (kept, about) = network.live.read(|newest| {
                let Some(newest) = newest else {
                    let nothing = betz_network_info {
                        window: 0,
                        first_tick: 0,
                        end_tick: 0,
                        edges: 0,
                        undefined: 0,
                    };
                    return (0, nothing);
                };
                let window = newest.edges;
                let ends = window.i.iter().zip(window.j).zip(window.r);
                for (edge, ((&i, &j), &r)) in room.iter_mut().zip(ends) {
                    *edge = betz_edge { i, j, r };
                }
                let about = betz_network_info {
                    window: window.index as u64,
                    first_tick: newest.ticks.0,
                    end_tick: newest.ticks.1,
                    edges: newest.found as u64,
                    undefined: window.undefined.len() as u64,
                };
                (window.i.len(), about)
            });
            grow::write(info, size, "info", about)?;
            n.write(kept);
            Ok(())
        })
    }
}

/// Writes the degree of each channel in the newest window to `out`, counting the edges that the network keeps;
/// zeros before the first window. `channels` must be the network's number of channels (`BETZ_ERROR_MISMATCH`).
///
/// Thread-safe: yes, also while another thread feeds. Realtime-safe: no (may wait for the network's
/// thread). Allocates: no.
///
/// # Safety
/// `network` is NULL or a live network; `out` is NULL or writable for `channels` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_network_degrees(
    network: *const betz_network,
    out: *mut f32,
    channels: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(network, |network| {
            network.one_per_channel(channels)?;
            let out = cast::slice_mut(out, channels, "out")?;
            network.here()?;
            network.live.read(|newest| {
                out.fill(0.0);
                let ends = newest
                    .iter()
                    .flat_map(|w| w.edges.i.iter().chain(w.edges.j));
                ends.for_each(|&end| out[end as usize] += 1.0);
            });
            Ok(())
        })
    }
}

/// Writes the community of each channel in the newest window to `out`, and `UINT32_MAX` for a channel that is
/// in no community of at least three. A community keeps its number from window to window: old and new
/// communities are paired by similarity, the most similar pairs first. `channels` must be the network's number
/// of channels (`BETZ_ERROR_MISMATCH`). Fails with `BETZ_ERROR_INVALID_ARGUMENT` unless the network's
/// configuration asks for communities.
///
/// Thread-safe: yes, also while another thread feeds. Realtime-safe: no (may wait for the network's
/// thread). Allocates: no.
///
/// # Safety
/// `network` is NULL or a live network; `out` is NULL or writable for `channels` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_network_communities(
    network: *const betz_network,
    out: *mut u32,
    channels: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(network, |network| {
            network.one_per_channel(channels)?;
            let out = cast::slice_mut(out, channels, "out")?;
            if !network.communities {
                return Err(Failure::Argument {
                    name: "network",
                    expected: "one whose configuration has communities = 1",
                });
            }
            network.here()?;
            network.live.read(|newest| match newest {
                Some(newest) => out.copy_from_slice(newest.communities),
                None => out.fill(u32::MAX),
            });
            Ok(())
        })
    }
}

/// Writes the network's counters to `*out`, whose size in bytes is `size` (pass `sizeof`).
///
/// Thread-safe: yes, also while another thread feeds. Realtime-safe: no (may wait for the network's
/// thread). Allocates: no.
///
/// # Safety
/// `network` is NULL or a live network; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_network_get_stats(
    network: *const betz_network,
    out: *mut betz_network_stats,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(network, |network| {
            grow::check_place(out, size, "out")?;
            network.here()?;
            let now = network.live.stats();
            let stats = betz_network_stats {
                steps: now.counts.steps,
                waiting: now.waiting_steps,
                dropped: now.lost_steps,
                bins: now.counts.bins,
                windows: now.counts.windows,
                skipped_windows: now.counts.skipped_windows,
                gaps: now.counts.gaps,
                partial_steps: now.counts.partial_steps,
                unknown_channel_spikes: now.counts.unknown,
                altered_counts: now.counts.altered,
                updates: now.updates,
                update_p50_us: now.update_p50_us,
                update_p99_us: now.update_p99_us,
                update_max_us: now.update_max_us,
            };
            grow::write(out, size, "out", stats)
        })
    }
}

/// Closes and frees a network after it has taken the steps in its queue. Does nothing for NULL. A session that
/// feeds it continues; the steps that it sends are lost.
///
/// Thread-safe: no (nobody may use the network any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `network` is NULL or a live network, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_network_close(network: *mut betz_network) {
    // SAFETY: the caller's promise.
    barrier::run_free(|| unsafe { cast::drop_handle(network) });
}
