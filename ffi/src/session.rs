//! Sessions: stepping and resetting a running decoder.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use betz::model::Decoder;
use betz::stream::{ChannelRules, HealthReader, Input, Session, Swapper};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::exclusive::{Exclusive, ExclusiveGuard};
use crate::failure::{Failure, Result};
use crate::known::{KnownDecoder, KnownDecoders};
use crate::session_config::Options;
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
    has_miner: Arc<AtomicBool>,
    /// True if a network is attached or about to be.
    has_network: Arc<AtomicBool>,
    identity: SessionIdentity,
    poison: Poison,
}

/// The identity of a session among all of the process: another session never gets it, also at the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionIdentity(u64);

impl SessionIdentity {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Refuses another session than the one with this identity. `expected` describes that one.
    pub(crate) fn expect(self, session: &betz_session, expected: &'static str) -> Result<()> {
        if session.identity == self {
            return Ok(());
        }
        Err(Failure::Argument {
            name: "session",
            expected,
        })
    }
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
            has_miner: Arc::default(),
            has_network: Arc::default(),
            identity: SessionIdentity::next(),
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

    pub(crate) fn has_miner(&self) -> &Arc<AtomicBool> {
        &self.has_miner
    }

    pub(crate) fn has_network(&self) -> &Arc<AtomicBool> {
        &self.has_network
    }

    pub(crate) fn identity(&self) -> SessionIdentity {
        self.identity
    }
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
/// the session's clock advances. A decoder with further states (place, recurrent, classes, Kalman; lift and experts with
/// a filter) is stepped until these states have settled, through at most 1,024 ticks. If the pause is longer than the
/// decoder's memory, they are set to the settled states at once.
///
/// This call makes as many of these steps as take about 100,000 instructions (or as many per millisecond of a step, if
/// that is more). Each step after it makes as many again, but at least two. Until all are made, the estimates come from
/// approximate states, and the steps are flagged (`BETZ_STEP_STALE`). Then the states are exact. They stay approximate
/// if a fifth pause falls into that time, or if the pauses in it are longer than 1,024 ticks together. Sampled filters,
/// and decoders behind them, are stepped in this call.
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes (some ten microseconds; more with sampled filters).
/// Allocates: no.
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
