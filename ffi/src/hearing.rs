//! Attaching and detaching listeners of a session's steps, of any kind.

use std::sync::atomic::{AtomicBool, Ordering};

use betz::stream::{Session, Tap};
use betz::{Error, ErrorKind};

use crate::barrier::{self, Handle};
use crate::failure::{Failure, Result};
use crate::session::betz_session;
use crate::shortage::Shortage;
use crate::status::betz_status;
use crate::swap::swapper;

/// Refuses a tick that is not the model's step.
pub(crate) fn same_tick(session: &betz_session, name: &str, tick: f64) -> Result<()> {
    let step = session.step_seconds();
    if (tick - step).abs() <= 1e-6 * step {
        return Ok(());
    }
    let text = format!("{name}: expected the model's step of {step} s as its tick, got {tick} s");
    Err(Error::new(ErrorKind::Mismatch, text).into())
}

/// A handle that receives a session's steps on a thread of its own.
pub(crate) trait Listener: Handle {
    /// Name of its number of channels in messages.
    const CHANNELS: &'static str;
    /// Description of the sessions that it can be attached to.
    const WITHOUT: &'static str;
    const WITH: &'static str;

    fn channels(&self) -> usize;
    fn tick_seconds(&self) -> f64;
    /// Lends its feed to the session.
    fn lend_tap(&self) -> Result<Box<dyn Tap>>;
    /// True while a session has a listener of this kind, or is about to get one.
    fn is_attached(session: &betz_session) -> &AtomicBool;
}

/// Attaches `listener` to the steps of `session`.
///
/// # Safety
/// Both are NULL or live handles.
pub(crate) unsafe fn attach_listener<L: Listener>(
    session: *mut betz_session,
    listener: *mut L,
    first_tick: i64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |session| {
            let (listener, _guard) = barrier::second(listener.cast_const())?;
            if listener.channels() < session.channels() {
                return Err(Failure::Length {
                    name: L::CHANNELS,
                    expected: session.channels(),
                    got: listener.channels(),
                });
            }
            same_tick(session, L::NAME, listener.tick_seconds())?;
            let has = L::is_attached(session);
            attach(session, has, L::WITHOUT, first_tick, || listener.lend_tap())
        })
    }
}

/// Detaches the session's listener of this kind.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using.
pub(crate) unsafe fn detach_listener<L: Listener>(session: *mut betz_session) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            detach(
                &mut *handle.session()?,
                L::is_attached(handle),
                L::NAME,
                L::WITH,
            )
        })
    }
}

/// Attaches the lent tap to the session. Fails with `without` if the session already `has` one of
/// this kind.
pub(crate) fn attach(
    session: &betz_session,
    has: &AtomicBool,
    without: &'static str,
    first_tick: i64,
    lend: impl FnOnce() -> Result<Box<dyn Tap>>,
) -> Result<()> {
    if has.swap(true, Ordering::AcqRel) {
        return Err(Failure::Argument {
            name: "session",
            expected: without,
        });
    }
    Shortage::begin();
    let attached = lend().and_then(|tap| {
        Shortage::check()?;
        Ok(swapper(session).attach(tap, Some(first_tick))?)
    });
    if attached.is_err() {
        has.store(false, Ordering::Release);
    }
    attached
}

/// Detaches the tap `name`. Fails with `with` if the session has none.
fn detach(session: &mut Session, has: &AtomicBool, name: &str, with: &'static str) -> Result<()> {
    // The tap may not have arrived at the session yet.
    session.take_requests();
    if session.detach_named(name).is_none() {
        return Err(Failure::Argument {
            name: "session",
            expected: with,
        });
    }
    has.store(false, Ordering::Release);
    Ok(())
}
