//! A miner at a session: it counts the spikes that the steps take.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use betz::stream::Tap;

use crate::failure::Result;
use crate::hearing::{Attachment, Listener, attach_listener, detach_listener};
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

    fn is_attached(session: &betz_session) -> &Arc<AtomicBool> {
        session.has_miner()
    }

    fn keep(&self, attachment: Attachment) {
        Self::keep(self, attachment);
    }
}

/// Attaches `miner` to `session`. From its next step on, the session sends the spikes of every step to the
/// miner; a symbol is a channel. The miner receives all spikes given to the step, also those of masked or
/// unknown channels. A step never waits for the miner: spikes that do not fit into the miner's queue are
/// dropped and counted (`betz_miner_stats.dropped`). `betz_miner_push` is refused while the miner is
/// attached.
///
/// The next step has the tick `first_tick`, and each later step the following tick; with `betz_queue_step`
/// the queue's ticks are used instead. After `betz_session_reset` the next step is placed 60 s of silence
/// after the last one, so that no episode spans two trials. The acquisition may then count from 0 in every
/// trial (`betz_queue_set_tick`).
///
/// Fails with `BETZ_ERROR_MISMATCH` unless the miner's tick is the model's step and the miner has at least
/// the model's channels. Fails with `BETZ_ERROR_INVALID_ARGUMENT` if the session has a miner already, if
/// another source feeds the miner, or if four requests still wait for the session because it does not step.
/// Session and miner may be closed in any order: a miner whose session is closed can be fed again, and closing a miner
/// detaches it.
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

/// Detaches the miner of `session`. Its steps send nothing any more; the miner continues and can be fed by
/// another source. Fails with `BETZ_ERROR_INVALID_ARGUMENT` if the session has no miner.
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
