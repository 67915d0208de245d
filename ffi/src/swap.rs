//! Swapping the model of a running session: prepared outside the loop, taken between two ticks.

use std::sync::{Arc, MutexGuard, PoisonError};

use betz::model::Decoder;
use betz::stream::{Clamp, PreparedModel, Replay, Spike, SwapOptions, SwapState, Swapper};

use crate::allocator::expect_room;
use crate::barrier;
use crate::cast;
use crate::failure::Failure;
use crate::grow::{self, Config, grows};
use crate::known::KnownDecoder;
use crate::model::betz_model;
use crate::queue::betz_spike;
use crate::session::betz_session;
use crate::shortage::Shortage;
use crate::status::betz_status;

/// State of a model swap. 32 bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_swap_state {
    /// One model runs; there is none to roll back to.
    BETZ_SWAP_IDLE = 0,
    /// The session has not taken the last request yet, because it has not stepped since.
    BETZ_SWAP_PENDING = 1,
    /// The new model runs in parallel with the old one, which still gives the estimates.
    BETZ_SWAP_WARMING_UP = 2,
    /// The new model gives the estimates; the previous one runs in parallel, ready for a rollback.
    BETZ_SWAP_TAKEN_OVER = 3,
}

impl From<SwapState> for betz_swap_state {
    fn from(state: SwapState) -> Self {
        match state {
            SwapState::Idle => Self::BETZ_SWAP_IDLE,
            SwapState::Pending => Self::BETZ_SWAP_PENDING,
            SwapState::WarmingUp => Self::BETZ_SWAP_WARMING_UP,
            SwapState::TakenOver => Self::BETZ_SWAP_TAKEN_OVER,
        }
    }
}

/// The swapper of a session. The step never takes this lock: it only keeps control threads apart.
pub(crate) fn swapper(session: &betz_session) -> MutexGuard<'_, Swapper> {
    // A panic under the lock poisons the handle; later calls do not reach this line.
    (session.swapper().lock()).unwrap_or_else(PoisonError::into_inner)
}

/// Runs `change` with the session's swapper. It returns the model that the session then runs, if that has changed.
#[cfg(feature = "live")]
pub(crate) fn change<T>(
    session: &betz_session,
    change: impl FnOnce(&mut Swapper) -> betz::Result<(T, Option<Arc<Decoder>>)>,
) -> crate::failure::Result<T> {
    let mut swapper = swapper(session);
    let (done, running) = change(&mut swapper)?;
    if let Some(decoder) = running {
        let fingerprint = PreparedModel::new(&decoder, None)?.decoder_fingerprint();
        session.remember(KnownDecoder::new(fingerprint, decoder)?, &swapper);
    }
    Ok(done)
}

/// Swaps `model` in for the model of a session, which may be stepping in another thread.
///
/// This call does all preparation, in the caller's thread. From the next tick on the session runs both models
/// on the same spikes, the new one starting from rest; the old one still gives the estimates. The new model
/// takes over once the spikes before its start no longer matter (less than 1e-7 of a response is left). The
/// old one keeps running, so that `betz_session_rollback_model` is immediate and exact. A step costs two
/// models until `betz_session_release_model`. The step itself neither allocates nor frees.
///
/// The new model must have the step, channels and outputs of the running one (`BETZ_ERROR_MISMATCH`). The
/// session's mask and clamp also hold for it. Fails with `BETZ_ERROR_INVALID_ARGUMENT` if several requests
/// still wait for the session. The model may be freed after the call.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no.
/// Allocates: yes (in this thread, not in the step).
///
/// # Safety
/// `session` is NULL or a live session; `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_swap_model(
    session: *mut betz_session,
    model: *const betz_model,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            let (model, _guard) = barrier::second(model)?;
            send(session, model.decoder(), SwapOptions::default())
        })
    }
}

/// Swaps a model in like `betz_session_swap_model`, but it takes over after `warm_up_steps` ticks instead of
/// the number that its filters need. 0: at the next tick, from rest.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no.
/// Allocates: yes (in this thread, not in the step).
///
/// # Safety
/// The same as for `betz_session_swap_model`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_swap_model_after(
    session: *mut betz_session,
    model: *const betz_model,
    warm_up_steps: u64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            let (model, _guard) = barrier::second(model)?;
            let options = SwapOptions {
                warm_up_steps: Some(warm_up_steps),
                ..SwapOptions::default()
            };
            send(session, model.decoder(), options)
        })
    }
}

/// Prepares `decoder` and sends it to the session.
fn send(
    session: &betz_session,
    decoder: &Arc<Decoder>,
    options: SwapOptions<'_>,
) -> Result<(), Failure> {
    Shortage::begin();
    expect_room(4 * decoder.weights().len() * size_of::<f64>(), "model")?;
    // A trial preparation shows that memory suffices, before anything is sent.
    let fingerprint = PreparedModel::new(decoder, None)?.decoder_fingerprint();
    let known = KnownDecoder::new(fingerprint, Arc::clone(decoder))?;
    Shortage::check()?;
    let mut swapper = swapper(session);
    swapper.swap_with(decoder, &options)?;
    session.remember(known, &swapper);
    Ok(())
}

grows! {
    /// Configuration of a model swap. Fill it with `betz_swap_config_default`, then change what you need.
    #[repr(C)]
    pub struct betz_swap_config {
        /// Size of this struct in bytes in the caller's header; the default function sets it.
        pub struct_size: u32,
        /// 0 (default): channels and outputs must have the same names and order as in the running model. 1:
        /// match channels and outputs by position, whatever their names; only the numbers of channels and
        /// outputs must agree.
        pub by_position: u32,
        /// Number of ticks until the new model gives the estimates. 0: at the next tick, from rest. UINT64_MAX
        /// (default): once the spikes before its start no longer matter.
        pub warm_up_steps: u64,
        /// Number of ticks of the cross-fade from the old model's estimates to the new one's, after the
        /// warm-up. Default: 0.
        pub cross_fade_steps: u64,
        /// Spikes of the last ticks, which warm the new model up in the calling thread, in ascending order of
        /// their ticks on the session's clock; NULL (default): none. Not kept.
        pub replay: *const betz_spike,
        /// Number of spikes; 0 for NULL.
        pub n_replay: usize,
        /// The first tick after those that the spikes cover; ignored without spikes.
        pub replay_end_tick: i64,
    }
}

impl Config for betz_swap_config {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            warm_up_steps: u64::MAX,
            ..grow::zeroed()
        }
    }
}

/// Fills a swap's configuration of `size` bytes (pass `sizeof`) with the defaults, which do the same as
/// `betz_session_swap_model`. Writes nothing beyond `size` bytes.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_swap_config_default(
    config: *mut betz_swap_config,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    barrier::run(|| unsafe { grow::write_defaults(config, size) })
}

/// Swaps a model in like `betz_session_swap_model`, with the configuration `config`.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no.
/// Allocates: yes (in this thread, not in the step).
///
/// # Safety
/// The same as for `betz_session_swap_model`; `config` is NULL or a configuration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_swap_model_with(
    session: *mut betz_session,
    model: *const betz_model,
    config: *const betz_swap_config,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            let (model, _guard) = barrier::second(model)?;
            let config = grow::read(config, "config")?;
            // `betz_spike` and `Spike` have one layout, as asserted in `queue`.
            let spikes = config.replay.cast::<Spike>();
            let spikes = cast::slice(spikes, config.n_replay, "config->replay")?;
            let steps = config.warm_up_steps;
            send(
                session,
                model.decoder(),
                SwapOptions {
                    warm_up_steps: (steps != u64::MAX).then_some(steps),
                    cross_fade_steps: config.cross_fade_steps,
                    by_position: grow::flag(config.by_position, "config->by_position")?,
                    replay: (!spikes.is_empty()).then_some(Replay {
                        spikes,
                        end_tick: config.replay_end_tick,
                    }),
                },
            )
        })
    }
}

/// Returns to the model before the last swap, at the next tick and as if the swap had not happened: the
/// estimates continue bit for bit. During warm-up this cancels the swap.
///
/// Fails with `BETZ_ERROR_INVALID_ARGUMENT` if there is no model to return to.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no (frees retired
/// models). Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_rollback_model(session: *mut betz_session) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { barrier::run_on(session, |session| Ok(swapper(session).roll_back()?)) }
}

/// Retires the model that is ready for a rollback: a step costs one model again, and a rollback is no longer
/// possible. A model that is still warming up is not affected.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no (frees retired
/// models). Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_release_model(session: *mut betz_session) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { barrier::run_on(session, |session| Ok(swapper(session).release()?)) }
}

/// Writes the state of the last swap to `*out`. Also frees models that the session has retired since the last
/// request.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no (frees retired
/// models). Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_swap_state(
    session: *const betz_session,
    out: *mut betz_swap_state,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            let out = cast::out(out, "out")?;
            let mut swapper = swapper(session);
            swapper.reclaim();
            out.write(swapper.state().into());
            Ok(())
        })
    }
}

grows! {
    /// Progress of a model swap, and the running model.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_swap_progress {
        /// State of the swap: a `betz_swap_state`.
        pub state: u32,
        /// Zero.
        pub reserved: u32,
        /// Number of ticks until the new model alone gives the estimates; 0 if it does, or if there is none.
        /// While the request is pending: the number that was requested.
        pub ticks_left: u64,
        /// Total number of ticks of warm-up and cross-fade of the last swap.
        pub ticks: u64,
        /// `betz_model_fingerprint` of the model that gives the estimates.
        pub running: u64,
    }
}

/// Writes the progress of the last swap and the running model to `*out`, whose size in bytes is `size` (pass
/// `sizeof`). Also frees models that the session has retired since the last request.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no (frees retired
/// models). Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_swap_progress(
    session: *const betz_session,
    out: *mut betz_swap_progress,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            grow::check_place(out, size, "out")?;
            let mut swapper = swapper(session);
            swapper.reclaim();
            let now = swapper.progress();
            let progress = betz_swap_progress {
                state: betz_swap_state::from(now.state) as u32,
                reserved: 0,
                ticks_left: now.ticks_left,
                ticks: now.ticks,
                running: now.running,
            };
            grow::write(out, size, "out", progress)
        })
    }
}

/// Replaces the session's bounds at its next tick. The arguments have the meaning of
/// `betz_session_config.clamp_low`, `clamp_high` and `clamp_len`; `len` 0 removes all bounds.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no.
/// Allocates: yes (in this thread, not in the step).
///
/// # Safety
/// `session` is NULL or a live session; `low` and `high` are NULL or point to `len` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_set_clamp(
    session: *mut betz_session,
    low: *const f32,
    high: *const f32,
    len: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            cast::expect_len("len", session.outputs(), len)?;
            let side = |bound: *const f32| if bound.is_null() { 0 } else { len };
            let low = cast::slice(low, side(low), "low")?;
            let high = cast::slice(high, side(high), "high")?;
            if len > 0 && low.is_empty() && high.is_empty() {
                return Err(Failure::Null("low and high"));
            }
            let clamp = |i: usize| Clamp {
                low: low.get(i).copied().unwrap_or(f32::NEG_INFINITY),
                high: high.get(i).copied().unwrap_or(f32::INFINITY),
            };
            let clamp = (len > 0).then(|| (0..low.len().max(high.len())).map(clamp).collect());
            Ok(swapper(session).set_clamp(clamp)?)
        })
    }
}

/// Replaces the session's channel mask at its next tick. The mask has the meaning of
/// `betz_session_config.channel_mask`; NULL and 0 remove it. `model` NULL stands for the running model, also
/// one from `betz_trainer_apply`; any other `model` must be the running one (`BETZ_ERROR_MISMATCH`). Filters
/// are not reset. Fails with `BETZ_ERROR_INVALID_ARGUMENT` while a second model runs in parallel.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no.
/// Allocates: yes (in this thread, not in the step).
///
/// # Safety
/// `session` is NULL or a live session; `model` is NULL or a live model; `mask` is NULL or points to `len`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_set_mask(
    session: *mut betz_session,
    model: *const betz_model,
    mask: *const u8,
    len: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            cast::expect_len("len", session.channels(), len)?;
            let mask = cast::slice(mask, len, "mask")?;
            let mask: Vec<bool> = mask.iter().map(|&m| m != 0).collect();
            let mask = (!mask.is_empty()).then_some(mask);
            let mut swapper = swapper(session);
            let decoder = if model.is_null() {
                let running = session.known_decoder(swapper.progress().running);
                running.ok_or(Failure::Null("model"))?
            } else {
                let (model, _guard) = barrier::second(model)?;
                Arc::clone(model.decoder())
            };
            Ok(swapper.set_mask(&decoder, mask.as_deref())?)
        })
    }
}
