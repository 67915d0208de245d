//! A correlation network at a session: it is fed the spikes that the steps take.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use betz::stream::Tap;

use crate::failure::Result;
use crate::hearing::{Attachment, Listener, attach_listener, detach_listener};
use crate::network::betz_network;
use crate::session::betz_session;
use crate::status::betz_status;

impl Listener for betz_network {
    const CHANNELS: &'static str = "network's channels";
    const WITHOUT: &'static str = "one without a network";
    const WITH: &'static str = "one with a network attached";

    fn channels(&self) -> usize {
        Self::channels(self)
    }

    fn tick_seconds(&self) -> f64 {
        Self::tick_seconds(self)
    }

    fn lend_tap(&self) -> Result<Box<dyn Tap>> {
        Ok(Box::new(self.lend()?))
    }

    fn is_attached(session: &betz_session) -> &Arc<AtomicBool> {
        session.has_network()
    }

    fn keep(&self, attachment: Attachment) {
        Self::keep(self, attachment);
    }
}

/// Attaches `network` to `session`. From its next step on, the session sends the spikes of every step to the
/// network. The network receives all spikes given to the step, also those of masked channels; it counts those
/// of channels that it does not have. A step never waits for the network: a step that does not fit into the
/// network's queue is dropped whole and counted (`betz_network_stats.dropped`), and the network starts anew
/// after it. `betz_network_push_counts` is refused while the network is attached.
///
/// The next step has the tick `first_tick`, and each later step the following tick; with `betz_queue_step` the
/// queue's ticks are used instead. A bin begins with the first step, and with the first step after a gap. After
/// `betz_session_reset` the next step is placed 60 s of silence after the last one, so that no window spans two
/// trials.
///
/// Fails with `BETZ_ERROR_MISMATCH` unless the network's tick is the model's step and the network has at least
/// the model's channels. Fails with `BETZ_ERROR_INVALID_ARGUMENT` if the session has a network already, if
/// another source feeds the network, or if four requests still wait for the session because it does not step.
/// Session and network may be closed in any order: a network whose session is closed can be fed again, and closing a
/// network detaches it.
///
/// Thread-safe: yes, also while the session steps in another thread, which allocates nothing for it.
/// Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `session` is NULL or a live session; `network` is NULL or a live network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_attach_network(
    session: *mut betz_session,
    network: *mut betz_network,
    first_tick: i64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { attach_listener(session, network, first_tick) }
}

/// Detaches the network of `session`. Its steps send nothing any more; another source can feed the network.
/// Fails with `BETZ_ERROR_INVALID_ARGUMENT` if the session has no network.
///
/// Thread-safe: no (the thread that owns the session). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_detach_network(session: *mut betz_session) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { detach_listener::<betz_network>(session) }
}
