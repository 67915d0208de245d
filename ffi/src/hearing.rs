//! Attaching and detaching listeners of a session's steps, of any kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(any(feature = "live", feature = "page"))]
use betz::model::Decoder;
use betz::stream::{Session, Step, Tap, TapLease, lend};
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

/// A tap at a session, and the mark that the session has one of its kind. Fields are dropped in this order.
pub(crate) struct MarkedTap {
    tap: Box<dyn Tap>,
    _mark: Mark,
}

/// The mark; dropping it takes it away.
struct Mark(Arc<AtomicBool>);

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Tap for MarkedTap {
    fn take(&mut self, step: &Step<'_>) {
        self.tap.take(step);
    }

    fn rest(&mut self) {
        self.tap.rest();
    }

    fn name(&self) -> &'static str {
        self.tap.name()
    }
}

/// The listener's end of an attachment; dropping it detaches the listener.
pub(crate) type Attachment = TapLease<MarkedTap>;

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
    fn is_attached(session: &betz_session) -> &Arc<AtomicBool>;
    /// Keeps the attachment until the handle is closed.
    fn keep(&self, attachment: Attachment);
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
            let attached = attach(session, has, L::WITHOUT, first_tick, || listener.lend_tap())?;
            listener.keep(attached);
            Ok(())
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
            detach(&mut *handle.session()?, L::NAME, L::WITH)
        })
    }
}

/// Attaches the lent tap to the session. Fails with `without` if the session already `has` one of
/// this kind.
pub(crate) fn attach(
    session: &betz_session,
    has: &Arc<AtomicBool>,
    without: &'static str,
    first_tick: i64,
    lend_tap: impl FnOnce() -> Result<Box<dyn Tap>>,
) -> Result<Attachment> {
    if has.swap(true, Ordering::AcqRel) {
        return Err(Failure::Argument {
            name: "session",
            expected: without,
        });
    }
    let mark = Mark(Arc::clone(has));
    Shortage::begin();
    let tap = lend_tap()?;
    let (tap, attachment) = lend(MarkedTap { tap, _mark: mark });
    let tap = Box::new(tap);
    Shortage::check()?;
    swapper(session).attach(tap, Some(first_tick))?;
    Ok(attachment)
}

/// Refuses a session whose channels, outputs or step differ from the decoder's.
#[cfg(any(feature = "live", feature = "page"))]
fn same_shape(session: &betz_session, decoder: &Decoder, name: &str) -> Result<()> {
    let shapes = [
        ("session's channels", decoder.channels(), session.channels()),
        (
            "session's outputs",
            decoder.outputs().len(),
            session.outputs(),
        ),
    ];
    for (name, expected, got) in shapes {
        if expected != got {
            return Err(Failure::Length {
                name,
                expected,
                got,
            });
        }
    }
    same_tick(session, name, decoder.step_seconds())
}

/// Attaches the tap of a page to a session whose model is like `decoder`, unless the page has one (`has`).
#[cfg(feature = "page")]
pub(crate) fn attach_page(
    session: &betz_session,
    decoder: &Decoder,
    has: &Arc<AtomicBool>,
    first_tick: i64,
    lend_tap: impl FnOnce() -> Option<Box<dyn Tap>>,
) -> Result<Attachment> {
    same_shape(session, decoder, "monitor")?;
    let once = "one, where the page shows none yet";
    attach(session, has, once, first_tick, || {
        lend_tap().ok_or(Failure::Argument {
            name: "session",
            expected: once,
        })
    })
}

/// Attaches `tap`, which its owner takes back, to a session whose model is like `decoder`, from its next step on.
#[cfg(feature = "live")]
pub(crate) fn attach_tap(
    session: &betz_session,
    decoder: &Decoder,
    tap: Box<dyn Tap>,
) -> Result<()> {
    same_shape(session, decoder, "recalibrator")?;
    Ok(swapper(session).attach(tap, Some(0))?)
}

/// Detaches the tap `name`. Fails with `with` if the session has none.
fn detach(session: &mut Session, name: &str, with: &'static str) -> Result<()> {
    // The tap may not have arrived at the session yet.
    session.take_requests();
    if session.detach_named(name).is_none() {
        return Err(Failure::Argument {
            name: "session",
            expected: with,
        });
    }
    Ok(())
}
