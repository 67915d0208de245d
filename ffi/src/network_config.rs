//! What a live network keeps: its configuration.

use std::mem::MaybeUninit;

use betz::network::graph::leiden::Leiden;
use betz::network::live::{LiveConfig, LiveSpec};
use betz::network::{Sign, Window};

use crate::barrier;
use crate::enum_bits::enum_bits;
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::status::betz_status;

/// Which correlations make an edge. 32 bits.
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
    /// What a network keeps. Fill it with `betz_network_config_default`, then set at least `channels`,
    /// `tick_seconds`, `bin_seconds` and `window_bins`. Everything is copied.
    #[repr(C)]
    pub struct betz_network_config {
        /// Size of this struct in bytes, as the caller was compiled: set by the default.
        pub struct_size: u32,
        /// Channels are 0 to `channels` - 1, at most 16,384. No default. For a session's network: at least
        /// the model's.
        pub channels: u32,
        /// Length of a tick in seconds. No default. For a session's network: the model's step.
        pub tick_seconds: f64,
        /// Length of the bins that spikes are counted in, in seconds: a whole number of ticks. No default.
        pub bin_seconds: f64,
        /// Length of a window in bins, 2 to 32,768. No default.
        pub window_bins: u32,
        /// Bins from one window to the next, at least 1. Default: 1.
        pub step_bins: u32,
        /// Least correlation of an edge, 0 to 1. Default: 0.5.
        pub threshold: f64,
        /// Which correlations count. Default: `BETZ_EDGE_BOTH`.
        pub sign: MaybeUninit<betz_edge_sign>,
        /// Edges of a window that are kept, the first ones by (i, j), 12 bytes each, twice; all are counted.
        /// 0 (default): as many as there are pairs, or 2^20 if those are more.
        pub max_edges: u32,
        /// 1: a correlation must exceed the threshold; 0 (default): or equal it.
        pub strict: u32,
        /// 1: look for communities in every window (Leiden, from those of the window before); 0 (default): do
        /// not.
        pub communities: u32,
        /// What waits for the network's thread, 16 bytes each, one for a step and one for each channel that
        /// fires in it: more than `channels`, at most 2^24. Steps that find no room are dropped and counted.
        /// 0 (default): 65,536, or four steps of all channels if those are more.
        pub capacity: usize,
        /// Priority of the network's thread: 0 (default) the normal policy, 1 to 99 SCHED_FIFO, for which the
        /// process needs the right (`BETZ_ERROR_IO`). Nothing of it is taken from the calling thread.
        pub thread_priority: u32,
        /// Zero.
        pub reserved: u32,
        /// Processors that this thread may run on, by number. NULL (default): those that the process had
        /// when the library was loaded, whatever the calling thread is pinned to.
        pub processors: *const u32,
        /// Number of processors, 0 for NULL.
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

/// Edges kept where the configuration does not say.
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

    /// Ticks of a bin.
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
        // 1e-6: as much as a session's step may differ from the tick.
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

/// Fills a network's configuration of `size` bytes (give `sizeof`) with the defaults. `channels`,
/// `tick_seconds`, `bin_seconds` and `window_bins` are 0: set them. Nothing is written behind `size`.
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
