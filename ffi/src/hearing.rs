//! What hears a session's steps: attached, detached, whatever it is.

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

/// A handle that hears a session's steps from a thread of its own.
pub(crate) trait Listener: Handle {
    /// Its channels in messages.
    const CHANNELS: &'static str;
    /// Sessions that it can be attached to, and detached from.
    const WITHOUT: &'static str;
    const WITH: &'static str;

    fn channels(&self) -> usize;
    fn tick_seconds(&self) -> f64;
    /// Its feed, for the session to keep.
    fn lend_tap(&self) -> Result<Box<dyn Tap>>;
    /// True while a session has a listener of this kind, or one is on its way.
    fn is_attached(session: &betz_session) -> &AtomicBool;
}

/// The steps of `session` go to `listener`.
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

/// The steps of `session` go to its listener of that kind no more.
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

/// Hands the steps to what is lent, unless the session `has` such a one (it is to be `without`).
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

/// The steps go to the tap of that name no more; the session is to be one `with` it.
fn detach(session: &mut Session, has: &AtomicBool, name: &str, with: &'static str) -> Result<()> {
    // It may be on its way still.
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
