//! A miner at a session: what the steps take in is counted too.

use std::sync::atomic::AtomicBool;

use betz::stream::Tap;

use crate::failure::Result;
use crate::hearing::{Listener, attach_listener, detach_listener};
use crate::miner::betz_miner;
use crate::session::betz_session;
use crate::status::betz_status;

impl Listener for betz_miner {
    const CHANNELS: &'static str = "miner's symbols, one per channel";
    const WITHOUT: &'static str = "one without a miner";
    const WITH: &'static str = "one with a miner attached";

    fn channels(&self) -> usize {
        self.alphabet().len()
    }

    fn tick_seconds(&self) -> f64 {
        self.alphabet().clock().tick_seconds()
    }

    fn lend_tap(&self) -> Result<Box<dyn Tap>> {
        Ok(Box::new(self.lend()?))
    }

    fn is_attached(session: &betz_session) -> &AtomicBool {
        session.has_miner()
    }
}

/// From its next step on, `session` hands the spikes of every step to `miner`, a symbol being a channel: all
/// that the step was given, also of channels that are masked or unknown. A step never waits for the miner:
/// what finds no room in line is dropped and counted (`betz_miner_stats.dropped`). `betz_miner_push` is
/// refused meanwhile.
///
/// The next step is `first_tick`, each later one a tick more; `betz_queue_step` has the queue's ticks
/// instead. After `betz_session_reset` the next step comes 60 s of silence after the last one, so that
/// no episode reaches from one trial into the next; the acquisition may count from 0 in every trial
/// (`betz_queue_set_tick`).
///
/// `BETZ_ERROR_MISMATCH` unless the miner's tick is the model's step and it has at least the model's
/// channels; `BETZ_ERROR_INVALID_ARGUMENT` when the session has a miner, the miner is being fed
/// already, or the session has left four requests untaken because it does not step. Either may be closed
/// first: a miner whose session is closed can be fed again.
///
/// Thread-safe: yes, also while the session steps in another thread, which allocates nothing for it.
/// Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `session` is NULL or a live session; `miner` is NULL or a live miner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_attach_miner(
    session: *mut betz_session,
    miner: *mut betz_miner,
    first_tick: i64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { attach_listener(session, miner, first_tick) }
}

/// The steps of `session` hand on nothing any more; its miner goes on and can be fed otherwise.
/// `BETZ_ERROR_INVALID_ARGUMENT` when the session has none.
///
/// Thread-safe: no (the thread that owns the session). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_detach_miner(session: *mut betz_session) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { detach_listener::<betz_miner>(session) }
}
