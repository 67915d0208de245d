//! Configuration of a trainer.

use betz::train::online::TrainerConfig;

use crate::barrier;
use crate::failure::Result;
use crate::grow::{self, Config, grows};
use crate::status::betz_status;

grows! {
    /// Configuration of a trainer. Fill it with `betz_trainer_config_default`, then change what you need.
    #[repr(C)]
    pub struct betz_trainer_config {
        /// Size of this struct in bytes, as the caller was compiled: set by the default.
        pub struct_size: u32,
        /// 1 (default): channels that die or scream are left out of the model until they are well again, where
        /// the model knows how many spikes are usual (trained on 200 steps or more). 0: none is.
        pub watch_channels: u32,
        /// After so many seconds with labels what was learned counts half, in one of the memories that
        /// compete: of the others one is three times as short, and one forgets nothing. INFINITY: that one
        /// alone. Default: 120.
        pub half_life_seconds: f64,
        /// Seconds of data that the sums retained by the model count for, at most. 0 (default): all of them.
        pub prior_seconds: f64,
        /// Refuse models that change the outputs by more than this, root mean square over the labels' standard
        /// deviations. 0 (default): by whatever.
        pub max_change: f64,
        /// Longest trial that is learned from, in seconds. Default: 60.
        pub longest_trial_seconds: f64,
        /// Trials from one candidate to the next, 2 to 10,000. Default: 5.
        pub batch: usize,
        /// Steps and spikes in line for the trainer's thread (8 bytes each; a step counts twice), and values of
        /// labels (16 bytes each): what may come while it solves. A trial that finds no room is left out whole, and counted. Default: 262,144.
        pub capacity: usize,
        /// Priority of the trainer's thread: 0 (default) the normal policy, 1 to 99 SCHED_FIFO, for which the
        /// process needs the right (`BETZ_ERROR_IO`). Nothing of it is taken from the calling thread.
        pub thread_priority: u32,
        /// Zero.
        pub reserved: u32,
        /// Processors that the thread may run on, by number. NULL (default): those that the process had when
        /// the library was loaded, whatever the calling thread is pinned to.
        pub processors: *const u32,
        /// Number of processors, 0 for NULL.
        pub n_processors: usize,
    }
}

impl Config for betz_trainer_config {
    fn defaults() -> Self {
        let config = TrainerConfig::default();
        Self {
            struct_size: size_of::<Self>() as u32,
            watch_channels: 1,
            half_life_seconds: config.half_life_seconds,
            max_change: config.max_change,
            longest_trial_seconds: config.longest_trial_seconds,
            batch: config.batch,
            capacity: config.capacity,
            ..grow::zeroed()
        }
    }
}

impl betz_trainer_config {
    pub(crate) fn read(&self) -> Result<TrainerConfig> {
        grow::flag(self.watch_channels, "config->watch_channels")?;
        grow::zero(self.reserved, "config->reserved")?;
        Ok(TrainerConfig {
            half_life_seconds: self.half_life_seconds,
            prior_seconds: (self.prior_seconds != 0.0).then_some(self.prior_seconds),
            batch: self.batch,
            max_change: self.max_change,
            longest_trial_seconds: self.longest_trial_seconds,
            capacity: self.capacity,
            ..TrainerConfig::default()
        })
    }
}

/// Fills a trainer's configuration of `size` bytes (give `sizeof`) with the defaults. Nothing is written
/// behind `size`.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_trainer_config_default(
    config: *mut betz_trainer_config,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    barrier::run(|| unsafe { grow::write_defaults(config, size) })
}
