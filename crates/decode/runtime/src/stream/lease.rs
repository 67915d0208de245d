//! Taps that their owner takes back at any time, while a session has them.
//!
//! Both ends only ever *try* the lock. The session's end leaves the tap out if it fails: the owner is then taking it
//! back. The owner's end tries again until the step that uses the tap is over. The lock therefore has no waiter, and
//! releasing it calls no system.

use core::fmt;

use super::between::{Arc, AtomicBool, Mutex, Ordering, pause};
use super::tap::{Step, Tap, TapPlace};

/// The tap, and the place among the session's taps that it keeps until it is taken back.
struct Content<T> {
    tap: T,
    place: Option<TapPlace>,
}

struct TapCell<T> {
    /// `None` once the tap has been taken back.
    content: Mutex<Option<Content<T>>>,
    closed: AtomicBool,
}

impl<T> TapCell<T> {
    /// Takes the tap out, if nobody has: the owner's end or the session's.
    fn take_out(&self) -> Result<Option<Content<T>>, InUse> {
        // A tap that panicked is taken out as well.
        let mut content = match self.content.try_lock() {
            Ok(content) => content,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return Err(InUse),
        };
        // Whoever gets its place afterwards finds it closed.
        self.closed.store(true, Ordering::Release);
        Ok(content.take())
    }
}

/// The other end uses the tap now.
struct InUse;

/// The session's end of a lent tap. Wait-free. After its [`TapLease`] is dropped it hears nothing.
pub struct LentTap<T>(Arc<TapCell<T>>);

/// The owner's end of a lent tap. Dropping it takes the tap back, frees it in this thread, and gives its place among the
/// session's taps to another one. It waits for the end of a step that uses the tap.
pub struct TapLease<T>(Arc<TapCell<T>>);

/// Lends `tap` to a session.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use betz_runtime::model::{Decoder, DecoderParts};
/// use betz_runtime::psc::{Filter, FilterBank};
/// use betz_runtime::stream::{Session, SessionConfig, Step, Tap, lend};
///
/// struct Counter;
/// impl Tap for Counter {
///     fn take(&mut self, _: &Step<'_>) {}
/// }
///
/// let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
/// let parts = DecoderParts::linear(0.01, bank, vec!["a".into()], vec!["x".into()]);
/// let mut session = Session::open(&Decoder::new(DecoderParts { weights: vec![1.0], ..parts })?, SessionConfig::default())?;
/// let (tap, lease) = lend(Counter);
/// session.attach(Box::new(tap), 0)?;
/// drop(lease); // from any thread
/// assert_eq!(session.taps(), 0);
/// # Ok(())
/// # }
/// ```
pub fn lend<T: Tap>(tap: T) -> (LentTap<T>, TapLease<T>) {
    let shared = Arc::new(TapCell {
        content: Mutex::new(Some(Content { tap, place: None })),
        closed: AtomicBool::new(false),
    });
    (LentTap(Arc::clone(&shared)), TapLease(shared))
}

impl<T> LentTap<T> {
    #[inline]
    fn with(&mut self, call: impl FnOnce(&mut Content<T>)) {
        if self.0.closed.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(mut content) = self.0.content.try_lock()
            && let Some(content) = &mut *content
        {
            call(content);
        }
    }
}

impl<T: Tap> Tap for LentTap<T> {
    fn take(&mut self, step: &Step<'_>) {
        self.with(|content| content.tap.take(step));
    }

    fn rest(&mut self) {
        self.with(|content| content.tap.rest());
    }

    fn name(&self) -> &'static str {
        // Also of a tap that was taken back: detaching it by name is then no use.
        match self.0.content.try_lock() {
            Ok(content) => (content.as_ref()).map_or("", |content| content.tap.name()),
            Err(_) => "",
        }
    }

    fn keep_place(&mut self, place: TapPlace) -> Option<TapPlace> {
        let mut left = Some(place);
        self.with(|content| content.place = left.take());
        left
    }

    fn free_place(&mut self) {
        self.with(|content| content.place = None);
    }

    fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }
}

impl<T> Drop for LentTap<T> {
    fn drop(&mut self) {
        // If the owner's end is taking the tap out at this moment, it frees it.
        drop(self.0.take_out());
    }
}

impl<T> Drop for TapLease<T> {
    fn drop(&mut self) {
        loop {
            match self.0.take_out() {
                Ok(content) => return drop(content),
                Err(InUse) => pause(),
            }
        }
    }
}

impl<T> fmt::Debug for LentTap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentTap").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for TapLease<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapLease").finish_non_exhaustive()
    }
}
