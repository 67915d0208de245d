//! Configuration of an online trainer.

use betz::train::online::TrainerConfig;

use crate::barrier;
use crate::failure::Result;
use crate::grow::{self, Config, grows};
use crate::status::betz_status;

grows! {
    /// Configuration of an online trainer. Fill it with `betz_trainer_config_default`, then change what you need.
    #[repr(C)]
    pub struct betz_trainer_config {
        /// Size of this struct in bytes in the caller's header; the default function sets it.
        pub struct_size: u32,
        /// 1 (default): leave dead or screaming channels out of the model until they have recovered. This needs a model
        /// that stores usual counts (trained on 200 steps or more). 0: leave none out.
        pub watch_channels: u32,
        /// Half-life of learning, in seconds of labelled steps, above 0. Three memories compete: one with this
        /// half-life, one with a third of it, and one that forgets nothing. INFINITY: only the one that forgets
        /// nothing. Default: 120.
        pub half_life_seconds: f64,
        /// Largest weight of the statistics stored in the model, in seconds of data. 0 (default): full weight.
        pub prior_seconds: f64,
        /// Refuse models that change the outputs by more than this: root mean square, relative to the labels' standard
        /// deviations. 0 (default): no limit.
        pub max_change: f64,
        /// Longest trial that is learned from, in seconds. Default: 60.
        pub longest_trial_seconds: f64,
        /// Number of trials from one candidate to the next, 2 to 10,000. Default: 5.
        pub batch: usize,
        /// Capacity of the trainer's queue, which fills up while the trainer solves: steps and spikes (8 bytes each; a
        /// step counts twice), and values of labels (16 bytes each). If the queue is full, the whole trial is left out
        /// and counted. Default: 262,144.
        pub capacity: usize,
        /// Priority of the trainer's thread: 0 (default) for the normal policy, 1 to 99 for SCHED_FIFO, which needs the
        /// right to use it (`BETZ_ERROR_IO`). The calling thread's priority is not inherited.
        pub thread_priority: u32,
        /// Zero.
        pub reserved: u32,
        /// Numbers of the processors that the thread may run on. NULL (default): the processors that the process had
        /// when the library was loaded, even if the calling thread is pinned.
        pub processors: *const u32,
        /// Number of processors; 0 for NULL.
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

/// Fills a trainer's configuration of `size` bytes (pass `sizeof`) with the defaults. Writes nothing beyond `size`
/// bytes.
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
