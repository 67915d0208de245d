//! A network at a session: which channels go together in what the steps take in.

use crate::barrier;
use crate::failure::Failure;
use crate::hearing::{attach, detach, same_tick};
use crate::network::betz_network;
use crate::session::betz_session;
use crate::status::betz_status;

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
    unsafe {
        barrier::run_on(session, |session| {
            let (network, _guard) = barrier::second(network.cast_const())?;
            if network.channels() < session.channels() {
                return Err(Failure::Length {
                    name: "network's channels",
                    expected: session.channels(),
                    got: network.channels(),
                });
            }
            same_tick(session, "network", network.tick_seconds())?;
            let has = session.has_network();
            attach(session, has, "one without a network", first_tick, || {
                Ok(Box::new(network.lend()?))
            })
        })
    }
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
    unsafe {
        barrier::run_on(session, |handle| {
            let has = handle.has_network();
            detach(
                &mut *handle.session()?,
                has,
                "network",
                "one with a network attached",
            )
        })
    }
}
