//! Configuration of a real-time correlation network.

use std::mem::MaybeUninit;

use betz::network::graph::leiden::Leiden;
use betz::network::live::{LiveConfig, LiveSpec};
use betz::network::{Sign, Window};

use crate::barrier;
use crate::enum_bits::enum_bits;
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::status::betz_status;

/// Sign of the correlations that make an edge. 32 bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_edge_sign {
    /// |r| reaches the threshold.
    BETZ_EDGE_BOTH = 0,
    /// r reaches the threshold.
    BETZ_EDGE_POSITIVE = 1,
    /// -r reaches the threshold.
    BETZ_EDGE_NEGATIVE = 2,
}

grows! {
    /// Configuration of a network. Fill it with `betz_network_config_default`, then set at least `channels`,
    /// `tick_seconds`, `bin_seconds` and `window_bins`. Everything is copied.
    #[repr(C)]
    pub struct betz_network_config {
        /// Size of this struct in bytes in the caller's header; the default function sets it.
        pub struct_size: u32,
        /// Number of channels, at most 16,384. No default. A session's network needs at least the model's
        /// number of channels.
        pub channels: u32,
        /// Length of a tick in seconds. No default. For a session's network: the model's step.
        pub tick_seconds: f64,
        /// Length of the bins in which spikes are counted, in seconds: a whole number of ticks. No default.
        pub bin_seconds: f64,
        /// Length of a window in bins, 2 to 32,768. No default.
        pub window_bins: u32,
        /// Number of bins from one window to the next, at least 1. Default: 1.
        pub step_bins: u32,
        /// Smallest correlation of an edge, 0 to 1. Default: 0.5.
        pub threshold: f64,
        /// Sign of the correlations that make an edge. Default: `BETZ_EDGE_BOTH`.
        pub sign: MaybeUninit<betz_edge_sign>,
        /// Largest number of edges kept per window, the first ones by (i, j); each takes 12 bytes, twice. All
        /// edges are counted. 0 (default): the number of pairs, but at most 2^20.
        pub max_edges: u32,
        /// 1: the correlation of an edge must exceed the threshold. 0 (default): it may also equal the
        /// threshold.
        pub strict: u32,
        /// 1: find communities in every window (Leiden, starting from those of the window before). 0
        /// (default): do not.
        pub communities: u32,
        /// Capacity of the network's queue, in entries of 16 bytes: one per step and one per channel that
        /// fires in it; more than `channels`, at most 2^24. Steps that do not fit are dropped and counted. 0
        /// (default): 65,536, or four steps of all channels if that is more.
        pub capacity: usize,
        /// Priority of the network's thread: 0 (default) for the normal policy, 1 to 99 for SCHED_FIFO, which
        /// needs the right to use it (`BETZ_ERROR_IO`). The calling thread's priority is not inherited.
        pub thread_priority: u32,
        /// Zero.
        pub reserved: u32,
        /// Numbers of the processors that this thread may run on. NULL (default): the processors that the
        /// process had when the library was loaded, even if the calling thread is pinned.
        pub processors: *const u32,
        /// Number of processors; 0 for NULL.
        pub n_processors: usize,
    }
}

impl Config for betz_network_config {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            step_bins: 1,
            threshold: 0.5,
            sign: MaybeUninit::new(betz_edge_sign::BETZ_EDGE_BOTH),
            ..grow::zeroed()
        }
    }
}

/// Default of `max_edges`.
const MANY_EDGES: usize = 1 << 20;

impl betz_network_config {
    pub(crate) fn read(&self) -> Result<LiveConfig> {
        grow::zero(self.reserved, "config->reserved")?;
        let sign = match enum_bits(&self.sign) {
            0 => Sign::Both,
            1 => Sign::Positive,
            2 => Sign::Negative,
            _ => {
                return Err(Failure::Argument {
                    name: "config->sign",
                    expected: "a betz_edge_sign",
                });
            }
        };
        let channels = self.channels as usize;
        let pairs = channels.saturating_mul(channels.saturating_sub(1)) / 2;
        let spec = LiveSpec {
            channels,
            window: Window {
                length: self.window_bins as usize,
                step: self.step_bins as usize,
            },
            threshold: self.threshold,
            sign,
            strict: grow::flag(self.strict, "config->strict")?,
            max_edges: match self.max_edges {
                0 => pairs.min(MANY_EDGES),
                most => most as usize,
            },
        };
        let mut config = LiveConfig::new(spec, self.bin_steps()?);
        if self.capacity > 0 {
            config.capacity = self.capacity;
        }
        if grow::flag(self.communities, "config->communities")? {
            config.communities = Some(Leiden::default());
        }
        Ok(config)
    }

    /// Number of ticks per bin.
    fn bin_steps(&self) -> Result<u32> {
        let positive = |seconds: f64| seconds.is_finite() && seconds > 0.0;
        if !positive(self.tick_seconds) {
            return Err(Failure::Argument {
                name: "config->tick_seconds",
                expected: "a positive number of seconds",
            });
        }
        let ticks = self.bin_seconds / self.tick_seconds;
        let whole = ticks.round();
        // 1e-6: the tolerance between a session's step and the tick.
        let fits = (1.0..=f64::from(u32::MAX)).contains(&whole);
        if !positive(self.bin_seconds) || !fits || (ticks - whole).abs() > 1e-6 * whole {
            return Err(Failure::Argument {
                name: "config->bin_seconds",
                expected: "a whole number of ticks, at least one",
            });
        }
        Ok(whole as u32)
    }
}

/// Fills a network's configuration of `size` bytes (pass `sizeof`) with the defaults. `channels`,
/// `tick_seconds`, `bin_seconds` and `window_bins` are 0: set them. Writes nothing beyond `size` bytes.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_network_config_default(
    config: *mut betz_network_config,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    barrier::run(|| unsafe { grow::write_defaults(config, size) })
}
