//! A network at a session: which channels go together in what the steps take in.

use std::sync::atomic::AtomicBool;

use betz::stream::Tap;

use crate::failure::Result;
use crate::hearing::{Listener, attach_listener, detach_listener};
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

    fn is_attached(session: &betz_session) -> &AtomicBool {
        session.has_network()
    }
}

/// From its next step on, `session` hands the spikes of every step to `network`: all that the step was given,
/// also of channels that are masked; those of channels that the network does not have are counted. A step
/// never waits for the network: one that finds no room in line is dropped whole and counted
/// (`betz_network_stats.dropped`), and the network begins anew behind it. `betz_network_push_counts` is refused
/// meanwhile.
///
/// The next step is `first_tick`, each later one a tick more; `betz_queue_step` has the queue's ticks
/// instead. A bin begins with the first step, and with the first one behind a gap. After
/// `betz_session_reset` the next step comes 60 s of silence after the last one: no window reaches from one
/// trial into the next.
///
/// `BETZ_ERROR_MISMATCH` unless the network's tick is the model's step and it has at least the model's
/// channels; `BETZ_ERROR_INVALID_ARGUMENT` when the session has a network, the network is being fed
/// already, or the session has left four requests untaken because it does not step. Either may be closed
/// first: a network whose session is closed can be fed again.
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

/// The steps of `session` hand nothing to its network any more, which can be fed otherwise.
/// `BETZ_ERROR_INVALID_ARGUMENT` when the session has none.
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
