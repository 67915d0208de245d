//! Sessions: configuring, stepping and resetting a running decoder.

use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use betz::model::Decoder;
use betz::stream::{
    ChannelRules, Clamp, HealthReader, Hold, Input, Session, SessionConfig, Swapper,
    UnknownChannels,
};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::enum_bits::enum_bits;
use crate::exclusive::{Exclusive, ExclusiveGuard};
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::known::{KnownDecoder, KnownDecoders};
use crate::status::betz_status;

/// A running decoder: filter states, counters and latencies. A session belongs to one thread at a time and may move
/// between threads. While it steps, other threads may swap models, set masks and clamps, attach a miner or a network,
/// read health and request checkpoints. Any other call during a call is refused with `BETZ_ERROR_BUSY` and changes
/// nothing.
pub struct betz_session {
    /// Used by the thread that steps; a call from a second thread is refused.
    session: Exclusive<Session>,
    /// Sends requests of other threads to the session while it steps.
    swapper: Mutex<Swapper>,
    /// Published status for other threads, if the configuration asks for it.
    health: Option<HealthReader>,
    /// A requested checkpoint that has not been fetched yet.
    checkpoint: Mutex<Option<Vec<u8>>>,
    /// Decoders that the session may be running.
    known: Mutex<KnownDecoders>,
    channels: usize,
    outputs: usize,
    step_seconds: f64,
    /// True if a miner is attached or about to be.
    has_miner: AtomicBool,
    /// True if a network is attached or about to be.
    has_network: AtomicBool,
    poison: Poison,
}

impl Handle for betz_session {
    const NAME: &'static str = "session";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl betz_session {
    /// Exclusive access to the session until the guard is dropped. Fails while another call uses it.
    #[inline]
    pub(crate) fn session(&self) -> Result<ExclusiveGuard<'_, Session>> {
        self.session.enter(Self::NAME)
    }

    pub(crate) fn swapper(&self) -> &Mutex<Swapper> {
        &self.swapper
    }

    pub(crate) fn health(&self) -> Option<&HealthReader> {
        self.health.as_ref()
    }

    /// Opens a session of `decoder`; `known` is the same [without what a session does not need](crate::known::for_steps).
    pub(crate) fn open(decoder: &Decoder, known: &Arc<Decoder>, options: &Options) -> Result<Self> {
        let mut session = Session::open(decoder, options.config.clone())?;
        if options.watches {
            session.watch_itself(decoder, ChannelRules::default())?;
        }
        let health = options.publishes.then(|| session.health());
        let swapper = Mutex::new(session.swapper()?);
        let first = session.model().decoder_fingerprint();
        let first = KnownDecoder::new(first, Arc::clone(known))?;
        Ok(Self {
            channels: session.channels(),
            outputs: session.outputs(),
            step_seconds: session.model().step_seconds(),
            has_miner: AtomicBool::new(false),
            has_network: AtomicBool::new(false),
            session: Exclusive::new(session),
            swapper,
            health,
            checkpoint: Mutex::new(None),
            known: Mutex::new(KnownDecoders::new(first)),
            poison: Poison::default(),
        })
    }

    pub(crate) fn requested_checkpoint(&self) -> &Mutex<Option<Vec<u8>>> {
        &self.checkpoint
    }

    /// Records a decoder that the session received through its swapper.
    pub(crate) fn remember(&self, decoder: KnownDecoder, swapper: &Swapper) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.add(decoder, swapper.progress().running);
    }

    /// The decoder with that fingerprint, if the session received it recently.
    pub(crate) fn known_decoder(&self, fingerprint: u64) -> Option<Arc<Decoder>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.find(fingerprint)
    }

    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    pub(crate) fn step_seconds(&self) -> f64 {
        self.step_seconds
    }

    pub(crate) fn has_miner(&self) -> &AtomicBool {
        &self.has_miner
    }

    pub(crate) fn has_network(&self) -> &AtomicBool {
        &self.has_network
    }
}

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
    config: SessionConfig,
    publishes: bool,
    watches: bool,
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

/// Writes the variances of the last step's estimates to `out`, one per output, in output units squared: the expected
/// squared error. They are infinite before the first step. They describe the estimates before a clamp, slew limit or
/// hold changes them. Fails with `BETZ_ERROR_INSUFFICIENT_DATA` if the model does not estimate variances (`betz train
/// --variance`), and with `BETZ_ERROR_MISMATCH` if `n` is not the number of outputs.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `out` is NULL or writable for `n` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_variances(
    session: *const betz_session,
    out: *mut f32,
    n: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            let out = cast::slice_mut(out, n, "out")?;
            Ok(handle.session()?.try_variances(out)?)
        })
    }
}

/// Decodes one tick of binned counts. `counts` has one entry per channel, in the model's order. Writes one estimate per
/// output to `out`, in output units.
///
/// `channels` and `outputs` must be the model's (`BETZ_ERROR_MISMATCH` otherwise). On failure the
/// session and `out` are as before. `counts` and `out` must not overlap.
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `counts` points to
/// `channels` values; `out` points to `outputs` writable values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_step_counts(
    session: *mut betz_session,
    counts: *const u16,
    channels: usize,
    out: *mut f32,
    outputs: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            let counts = cast::slice(counts, channels, "counts")?;
            let out = cast::slice_mut(out, outputs, "out")?;
            Ok(handle.session()?.try_step(&Input::Counts(counts), out)?)
        })
    }
}

/// Decodes one tick from the channels that fired. `channels` has one entry per spike, `n` in all, in any order; if `n`
/// is 0, `channels` may be NULL. Writes one estimate per output to `out`, in output units. The cost grows with the
/// number of spikes, not with the model's channels.
///
/// `outputs` must be the model's (`BETZ_ERROR_MISMATCH` otherwise). On failure the session and
/// `out` are as before. `channels` and `out` must not overlap.
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `channels` points to `n`
/// values; `out` points to `outputs` writable values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_step_spikes(
    session: *mut betz_session,
    channels: *const u32,
    n: usize,
    out: *mut f32,
    outputs: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            let channels = cast::slice(channels, n, "channels")?;
            let out = cast::slice_mut(out, outputs, "out")?;
            Ok(handle.session()?.try_step(&Input::Spikes(channels), out)?)
        })
    }
}

/// Decodes one tick of binned 8-bit counts, otherwise like `betz_session_step_counts`.
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// The same as for `betz_session_step_counts`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_step_counts_u8(
    session: *mut betz_session,
    counts: *const u8,
    channels: usize,
    out: *mut f32,
    outputs: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            let counts = cast::slice(counts, channels, "counts")?;
            let out = cast::slice_mut(out, outputs, "out")?;
            Ok(handle.session()?.try_step(&Input::CountsU8(counts), out)?)
        })
    }
}

/// Decodes one tick of counts that need not be whole (weighted, smoothed), otherwise like `betz_session_step_counts`.
/// Each count must be finite, at least 0 and at most 65,535 (`BETZ_ERROR_INVALID_ARGUMENT`).
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// The same as for `betz_session_step_counts`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_step_counts_f32(
    session: *mut betz_session,
    counts: *const f32,
    channels: usize,
    out: *mut f32,
    outputs: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            let counts = cast::slice(counts, channels, "counts")?;
            let out = cast::slice_mut(out, outputs, "out")?;
            Ok(handle.session()?.try_step_weighted(counts, out)?)
        })
    }
}

/// Decodes one tick of features of any sign, such as the power in a band, with a model that was trained on such a
/// signal; otherwise like `betz_session_step_counts`. Each feature must be finite and at most 10^15 in magnitude
/// (`BETZ_ERROR_INVALID_ARGUMENT`).
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session; `values` points to `channels` values; `out` points to `outputs` writable
/// values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_step_values(
    session: *mut betz_session,
    values: *const f32,
    channels: usize,
    out: *mut f32,
    outputs: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            let values = cast::slice(values, channels, "values")?;
            let out = cast::slice_mut(out, outputs, "out")?;
            let input = Input::CountsF32(values);
            Ok(handle.session()?.try_step(&input, out)?)
        })
    }
}

/// Steps one tick whose data did not arrive. The filters advance as in silence, and the configuration's `hold` gives
/// the outputs. Without `hold` the estimates drift to those of silence. The step is flagged in both cases
/// (`BETZ_STEP_STALE`).
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// The same as for `out` of `betz_session_step_counts`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_step_stale(
    session: *mut betz_session,
    out: *mut f32,
    outputs: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            let out = cast::slice_mut(out, outputs, "out")?;
            Ok(handle.session()?.try_step_stale(out)?)
        })
    }
}

/// Skips `ticks` silent ticks at once, after a pause. Filters and low-pass decay exactly, no estimates are made, and
/// the session's clock advances. A decoder with further states (place, recurrent, Kalman; lift and experts with a
/// filter) is stepped until these states have settled, through at most 1,024 ticks. If the pause is longer than the
/// decoder's memory, they are set to the settled states at once.
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes (a few microseconds; at most 1,024 steps for a decoder
/// with further states). Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_skip(session: *mut betz_session, ticks: u64) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            handle.session()?.skip(ticks);
            Ok(())
        })
    }
}

/// Brings the code and the data of a step into the caches. Call it when the thread has woken and the tick's spikes have
/// not arrived yet: the next step is then much faster than after other work.
///
/// It runs the step's own code on spikes of the last form, and restores everything that this changes: estimates,
/// counters, latencies, status and taps stay the same to the bit. It takes a few microseconds; the effect lasts until
/// other work has used the caches.
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_warm(session: *mut betz_session) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            handle.session()?.warm();
            warm_code([
                betz_session_step_counts as *const u8,
                betz_session_step_counts_u8 as *const u8,
                betz_session_step_counts_f32 as *const u8,
                betz_session_step_spikes as *const u8,
            ]);
            Ok(())
        })
    }
}

/// Brings the first lines of exported functions into the caches: a warm call does not run these functions.
pub(crate) fn warm_code<const N: usize>(functions: [*const u8; N]) {
    #[cfg(target_arch = "x86_64")]
    for function in functions {
        for line in 0..CODE_LINES {
            // SAFETY: prefetching reads no memory and faults at no address.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(function.wrapping_add(64 * line).cast());
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = functions;
}

/// Length of an exported step function in cache lines.
#[cfg(target_arch = "x86_64")]
const CODE_LINES: usize = 8;

/// Returns the filters to rest, as at the start of a trial. Counters, latencies and the model stay.
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_reset(session: *mut betz_session) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            handle.session()?.reset();
            Ok(())
        })
    }
}
