//! The configuration of a session.

use std::mem::MaybeUninit;
use std::time::Duration;

use betz::model::Decoder;
use betz::stream::{Clamp, Hold, SessionConfig, UnknownChannels};

use crate::barrier;
use crate::cast;
use crate::enum_bits::enum_bits;
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::status::betz_status;

/// Policy for spikes of channels that the model does not have. 32 bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_unknown_channels {
    /// Count the spike (`betz_stats.unknown_channel_spikes`) and ignore it.
    BETZ_UNKNOWN_CHANNELS_IGNORE = 0,
    /// Refuse the step with `BETZ_ERROR_MISMATCH`. Nothing changes.
    BETZ_UNKNOWN_CHANNELS_REFUSE = 1,
}

grows! {
    /// Configuration of a session. Fill it with `betz_session_config_default`, then change what you need.
    #[repr(C)]
    pub struct betz_session_config {
        /// Size of this struct in bytes in the caller's header; the default function sets it.
        pub struct_size: u32,
        /// Policy for spikes of channels that the model does not have. Default: ignore.
        pub unknown_channels: MaybeUninit<betz_unknown_channels>,
        /// Lower bound of each output, in output units, one value per output; NULL (default): no bounds. -INFINITY: no
        /// bound for this output. The bounds are hard: they also hold for outputs that `hold` and `slew` change. Copied
        /// on opening.
        pub clamp_low: *const f32,
        /// Upper bound of each output, in output units, one value per output; NULL (default): no bounds. Copied on
        /// opening.
        pub clamp_high: *const f32,
        /// Length of `clamp_low` and `clamp_high`: the model's number of outputs, or 0.
        pub clamp_len: usize,
        /// One byte per channel; 0 leaves the channel out, for example because its electrode is broken. NULL (default):
        /// no channel is left out. Copied on opening; also holds for models that are swapped in. A channel that the
        /// model masks stays masked.
        pub channel_mask: *const u8,
        /// Length of `channel_mask`: the model's number of channels, or 0.
        pub channel_mask_len: usize,
        /// Deadline of a step, in microseconds. Longer steps are counted (`betz_stats.deadline_misses`). 0 (default):
        /// no deadline. Needs `statistics`.
        pub deadline_us: f64,
        /// 1 (default): time every step, at a cost of about 20 ns per step. 0: only count.
        pub statistics: u32,
        /// Zero.
        pub reserved: u32,
        /// 1: while data are missing or flagged, hold the last good outputs for `hold_seconds`, then move them to
        /// `rest` in a straight line over `decay_seconds` (`BETZ_STEP_HELD`). 0 (default): decode missing data as
        /// silence.
        pub hold: u32,
        /// Number of consecutive flagged steps (blanked, out of range) whose estimates are still used. Default: 2.
        pub patience_steps: u32,
        /// Time to hold the last good outputs, in seconds. Default: 0.2.
        pub hold_seconds: f64,
        /// Time to move held outputs to `rest`, in seconds. Default: 0.5.
        pub decay_seconds: f64,
        /// Rest values of held outputs, one per output; NULL (default): 0. Copied on opening.
        pub rest: *const f32,
        /// Length of `rest`: the model's number of outputs, or 0.
        pub rest_len: usize,
        /// 1: every step publishes its health for other threads (`betz_session_health`), at a cost of about 10 ns per
        /// step. 0 (default): steps publish nothing.
        pub health: u32,
        /// Zero.
        pub reserved_2: u32,
        /// Largest change of each output from one step to the next, in output units, one value per output (INFINITY: no
        /// limit); NULL (default): no limits. An output that would change more changes by its limit
        /// (`BETZ_STEP_SLEWED`); this includes held outputs. The first step after opening or a reset is not limited.
        /// Copied on opening.
        pub slew: *const f32,
        /// Length of `slew`: the model's number of outputs, or 0.
        pub slew_len: usize,
        /// 1: count each channel's spikes, look once per second for channels that are dead (silent) or screaming
        /// (firing far too much), and flag them (`BETZ_STEP_CHANNELS`, `BETZ_STEP_UNTRUSTED`). Costs about 1 ns per
        /// spike, and a little per channel once per second. Opening fails with `BETZ_ERROR_INSUFFICIENT_DATA` if the
        /// model does not store usual counts (trained on fewer than 200 steps, or on a signal). A trainer that watches
        /// channels takes over this work. 0 (default): do not watch.
        pub watch_channels: u32,
        /// Zero.
        pub reserved_3: u32,
        /// Largest number of spikes that one step decodes from a list (`betz_session_step_spikes`) or a queue; 0
        /// (default): no limit. It bounds the time of a step. Spikes beyond it, the last of the list, are left out and
        /// counted (`betz_stats.capped`, health), and the step is flagged (`BETZ_STEP_CAPPED`). The time of a step of
        /// binned counts is bounded by the channels.
        pub max_spikes: u64,
    }
}

impl Config for betz_session_config {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            unknown_channels: MaybeUninit::new(betz_unknown_channels::BETZ_UNKNOWN_CHANNELS_IGNORE),
            statistics: 1,
            patience_steps: 2,
            hold_seconds: 0.2,
            decay_seconds: 0.5,
            ..grow::zeroed()
        }
    }
}

/// A configuration of the caller's, checked and copied.
pub(crate) struct Options {
    pub(crate) config: SessionConfig,
    /// True if steps publish their health.
    pub(crate) publishes: bool,
    /// True if steps watch their channels.
    pub(crate) watches: bool,
}

impl Options {
    /// Reads the configuration of a session of `decoder`.
    ///
    /// # Safety
    /// `config` is NULL or a configuration whose arrays are as its fields say.
    pub(crate) unsafe fn read(
        config: *const betz_session_config,
        decoder: &Decoder,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            let config = grow::read(config, "config")?;
            Ok(Self {
                publishes: grow::flag(config.health, "config->health")?,
                watches: grow::flag(config.watch_channels, "config->watch_channels")?,
                config: config.read(decoder.channels(), decoder.outputs().len())?,
            })
        }
    }
}

impl betz_session_config {
    /// # Safety
    /// The arrays are as the documentation of their fields says.
    unsafe fn read(&self, channels: usize, outputs: usize) -> Result<SessionConfig> {
        grow::zero(self.reserved, "config->reserved")?;
        grow::zero(self.reserved_2, "config->reserved_2")?;
        grow::zero(self.reserved_3, "config->reserved_3")?;
        // A list with the wrong length is refused before it is read.
        for (name, expected, got) in [
            ("config->clamp_len", outputs, self.clamp_len),
            ("config->channel_mask_len", channels, self.channel_mask_len),
            ("config->rest_len", outputs, self.rest_len),
            ("config->slew_len", outputs, self.slew_len),
        ] {
            cast::expect_len(name, expected, got)?;
        }
        // SAFETY: the caller's promise.
        let slew = unsafe { cast::slice(self.slew, self.slew_len, "config->slew")? };
        // SAFETY: the caller's promise.
        let rest = unsafe { cast::slice(self.rest, self.rest_len, "config->rest")? };
        let hold = grow::flag(self.hold, "config->hold")?.then(|| Hold {
            hold_seconds: self.hold_seconds,
            decay_seconds: self.decay_seconds,
            patience_steps: self.patience_steps,
            rest: (!rest.is_empty()).then(|| rest.to_vec()),
        });
        let low_len = if self.clamp_low.is_null() {
            0
        } else {
            self.clamp_len
        };
        let high_len = if self.clamp_high.is_null() {
            0
        } else {
            self.clamp_len
        };
        // SAFETY: the caller's promise.
        let (low, high, mask) = unsafe {
            (
                cast::slice(self.clamp_low, low_len, "config->clamp_low")?,
                cast::slice(self.clamp_high, high_len, "config->clamp_high")?,
                cast::slice(
                    self.channel_mask,
                    self.channel_mask_len,
                    "config->channel_mask",
                )?,
            )
        };
        if self.clamp_len > 0 && low_len.max(high_len) == 0 {
            return Err(Failure::Null("config->clamp_low and config->clamp_high"));
        }
        let clamp = |i: usize| Clamp {
            low: low.get(i).copied().unwrap_or(f32::NEG_INFINITY),
            high: high.get(i).copied().unwrap_or(f32::INFINITY),
        };
        Ok(SessionConfig {
            clamp: (self.clamp_len > 0).then(|| (0..self.clamp_len).map(clamp).collect()),
            channel_mask: (!mask.is_empty()).then(|| mask.iter().map(|&m| m != 0).collect()),
            unknown_channels: match enum_bits(&self.unknown_channels) {
                0 => UnknownChannels::Ignore,
                1 => UnknownChannels::Refuse,
                _ => {
                    return Err(Failure::Argument {
                        name: "config->unknown_channels",
                        expected: "a value of betz_unknown_channels",
                    });
                }
            },
            statistics: grow::flag(self.statistics, "config->statistics")?,
            deadline: deadline(self.deadline_us)?,
            hold,
            slew: (!slew.is_empty()).then(|| slew.to_vec()),
            max_spikes: (self.max_spikes != 0)
                .then(|| usize::try_from(self.max_spikes).unwrap_or(usize::MAX)),
        })
    }
}

fn deadline(microseconds: f64) -> Result<Option<Duration>> {
    if microseconds == 0.0 {
        return Ok(None);
    }
    Duration::try_from_secs_f64(microseconds * 1e-6)
        .map(Some)
        .map_err(|_| Failure::Argument {
            name: "config->deadline_us",
            expected: "0 or a positive, finite number of microseconds",
        })
}

/// Fills a session's configuration of `size` bytes (pass `sizeof`) with the defaults: no clamp, no mask, unknown
/// channels ignored, steps timed, no deadline. Writes nothing beyond `size` bytes.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_config_default(
    config: *mut betz_session_config,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    barrier::run(|| unsafe { grow::write_defaults(config, size) })
}
