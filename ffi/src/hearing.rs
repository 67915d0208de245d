//! What hears a session's steps: attached, detached, whatever it is.

use std::sync::atomic::{AtomicBool, Ordering};

use betz::stream::{Session, Tap};
use betz::{Error, ErrorKind};

use crate::failure::{Failure, Result};
use crate::session::betz_session;
use crate::shortage::Shortage;
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
pub(crate) fn detach(
    session: &mut Session,
    has: &AtomicBool,
    name: &str,
    with: &'static str,
) -> Result<()> {
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
