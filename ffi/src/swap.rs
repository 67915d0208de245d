//! Another model for a running session: made ready off the loop, taken at a tick's boundary.

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

/// Where a model swap stands. 32 bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_swap_state {
    /// One model runs; there is none to roll back to.
    BETZ_SWAP_IDLE = 0,
    /// The session has not taken the last request yet: it has not stepped since.
    BETZ_SWAP_PENDING = 1,
    /// The new model runs beside the old one, which still gives the estimates.
    BETZ_SWAP_WARMING_UP = 2,
    /// The new model gives the estimates; the one before stands by.
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

/// The swapper of a session. The step never takes this lock: it only serialises control threads.
pub(crate) fn swapper(session: &betz_session) -> MutexGuard<'_, Swapper> {
    // A panic under the lock poisons the handle, and nobody gets here any more.
    (session.swapper().lock()).unwrap_or_else(PoisonError::into_inner)
}

/// Gives a session, which may be stepping in another thread, `model` to run instead of its own.
///
/// All preparation is here, in the caller's thread. At the next tick's boundary the session begins
/// to run the new model beside the old one, from rest and on the same spikes; estimates still come
/// from the old one. Once what the new model has not seen is forgotten (less than 1e-7 of a
/// response is left) it gives the estimates, and the old one stands by, so that
/// `betz_session_rollback_model` is immediate and exact. Until
/// `betz_session_release_model` a step costs two models. The step itself neither allocates nor
/// frees.
///
/// The model must have the step, the channels and the outputs of the running one
/// (`BETZ_ERROR_MISMATCH`); the session's mask and clamp hold for it. `BETZ_ERROR_INVALID_ARGUMENT`
/// when the session has left several requests untaken. The model may be freed after the call.
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

/// As `betz_session_swap_model`, with the new model taking over after `warm_up_steps` ticks instead
/// of the number that its filters need; 0: at the next tick, from rest.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no.
/// Allocates: yes (in this thread, not in the step).
///
/// # Safety
/// As `betz_session_swap_model`.
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

/// Prepares `decoder` and sends it.
fn send(
    session: &betz_session,
    decoder: &Arc<Decoder>,
    options: SwapOptions<'_>,
) -> Result<(), Failure> {
    Shortage::begin();
    expect_room(4 * decoder.weights().len() * size_of::<f64>(), "model")?;
    // What memory there is shows in a first preparation, before anything is sent.
    let fingerprint = PreparedModel::new(decoder, None)?.decoder_fingerprint();
    let known = KnownDecoder::new(fingerprint, Arc::clone(decoder))?;
    Shortage::check()?;
    let mut swapper = swapper(session);
    swapper.swap_with(decoder, &options)?;
    session.remember(known, &swapper);
    Ok(())
}

grows! {
    /// How a model is swapped in. Fill it with `betz_swap_config_default`, then change what you need.
    #[repr(C)]
    pub struct betz_swap_config {
        /// Size of this struct in bytes, as the caller was compiled: set by the default.
        pub struct_size: u32,
        /// 0 (default): channels and outputs must have the names of the running model's, in the same order.
        /// 1: channel i is channel i and output i is output i, whatever they are called; only their numbers
        /// must agree.
        pub by_position: u32,
        /// The new model gives the estimates after so many ticks; 0: at the next tick, from rest. UINT64_MAX
        /// (default): once what it has not seen is forgotten.
        pub warm_up_steps: u64,
        /// Then the estimates go from the old model's to its own over so many ticks. Default: 0.
        pub cross_fade_steps: u64,
        /// The spikes of the last ticks, ticks ascending on the session's clock, to warm the new model up with
        /// in the calling thread; NULL (default): none. Not kept.
        pub replay: *const betz_spike,
        /// Number of spikes, 0 for NULL.
        pub n_replay: usize,
        /// The first tick that they do not cover; of no effect without spikes.
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

/// Fills a swap's configuration of `size` bytes (give `sizeof`) with the defaults: what
/// `betz_session_swap_model` does. Nothing is written behind `size`.
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

/// As `betz_session_swap_model`, in the way that `config` says.
///
/// Thread-safe: yes, also while another thread steps the session. Realtime-safe: no.
/// Allocates: yes (in this thread, not in the step).
///
/// # Safety
/// As `betz_session_swap_model`; `config` is NULL or a configuration.
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
            // `betz_spike` and `Spike` are one layout, as asserted there.
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

/// Back to the model before the last swap, at the next tick and as if the swap had not been: the
/// estimates go on bit for bit. During warm-up the swap is called off.
///
/// `BETZ_ERROR_INVALID_ARGUMENT` when no model stands by.
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

/// Retires the model that stands by: a step costs one model again, and there is no way back. A
/// model that is still warming up is left alone.
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

/// Where the last swap stands, to `*out`. Also frees models that the session has retired since the
/// last request.
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
    /// How far a swap is, and which model runs.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_swap_progress {
        /// Where it stands, a `betz_swap_state`.
        pub state: u32,
        /// Zero.
        pub reserved: u32,
        /// Ticks until the new model gives all of the estimates; 0 when it does, or when there is none. While
        /// the request is pending, what it asked for.
        pub ticks_left: u64,
        /// Ticks that warm-up and cross-fade of the last swap take in all.
        pub ticks: u64,
        /// `betz_model_fingerprint` of the model that gives the estimates.
        pub running: u64,
    }
}

/// How far the last swap is and which model runs, to `*out`, whose size in bytes is `size` (give `sizeof`).
/// Also frees models that the session has retired since the last request.
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

/// Has the session take other bounds at its next tick: as `betz_session_config.clamp_low`, `clamp_high` and
/// `clamp_len`; `len` 0 takes all bounds away.
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

/// Has the session leave out other channels from its next tick on: as `betz_session_config.channel_mask`; NULL
/// and 0 for no mask. `model` NULL stands for the model that the session runs, also one that
/// `betz_trainer_apply` gave it; any other model must be that one (`BETZ_ERROR_MISMATCH`). Filters go on.
/// `BETZ_ERROR_INVALID_ARGUMENT` while a second model is beside it.
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
