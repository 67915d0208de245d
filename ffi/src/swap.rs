//! Another model for a running session: made ready off the loop, taken at a tick's boundary.

use std::sync::{MutexGuard, PoisonError};

use betz::model::Decoder;
use betz::stream::{PreparedModel, SwapState, Swapper};

use crate::allocator::{Shortage, expect_room};
use crate::barrier;
use crate::cast;
use crate::failure::Failure;
use crate::grow::{self, Config, grows};
use crate::model::betz_model;
use crate::session::betz_session;
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
fn swapper(session: &betz_session) -> MutexGuard<'_, Swapper> {
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
            send(session, model.decoder(), None)
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
            send(session, model.decoder(), Some(warm_up_steps))
        })
    }
}

/// Prepares `decoder` and sends it, to take over after so many ticks or as many as it needs.
fn send(
    session: &betz_session,
    decoder: &Decoder,
    warm_up_steps: Option<u64>,
) -> Result<(), Failure> {
    Shortage::begin();
    expect_room(4 * decoder.weights().len() * size_of::<f64>(), "model")?;
    let prepared = PreparedModel::new(decoder, session.channel_mask())?;
    Shortage::check()?;
    let warm_up_steps = warm_up_steps.unwrap_or_else(|| prepared.memory_steps());
    Ok(swapper(session).swap_prepared(prepared.into(), warm_up_steps)?)
}

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
}

grows!(betz_swap_config {
    struct_size: u32,
    by_position: u32,
    warm_up_steps: u64,
});

impl Config for betz_swap_config {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            by_position: 0,
            warm_up_steps: u64::MAX,
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
            let renamed;
            let decoder = if grow::flag(config.by_position, "config->by_position")? {
                renamed = with_names_of(session.first(), model.decoder())?;
                &renamed
            } else {
                model.decoder().as_ref()
            };
            let steps = config.warm_up_steps;
            send(session, decoder, (steps != u64::MAX).then_some(steps))
        })
    }
}

/// `next` with the names of `running`, place by place.
fn with_names_of(running: &Decoder, next: &Decoder) -> Result<Decoder, Failure> {
    let numbers = [
        (
            "model's channels",
            running.channel_names().len(),
            next.channel_names().len(),
        ),
        (
            "model's outputs",
            running.outputs().len(),
            next.outputs().len(),
        ),
    ];
    for (name, expected, got) in numbers {
        if expected != got {
            return Err(Failure::Length {
                name,
                expected,
                got,
            });
        }
    }
    let mut parts = next.parts().clone();
    parts.channel_names = running.channel_names().to_vec();
    parts.outputs = running.outputs().to_vec();
    Ok(Decoder::new(parts)?)
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
