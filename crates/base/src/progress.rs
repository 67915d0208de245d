//! Progress of long work, and requests to stop it.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Told about the progress of long work; asked whether to go on.
///
/// `Sync` because the work may be spread over threads. `()` listens to nothing and never cancels.
///
/// ```
/// use betz_base::Progress;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// Stops after the first ten units.
/// #[derive(Default)]
/// struct Ten(AtomicU64);
///
/// impl Progress for Ten {
///     fn update(&self, _stage: &str, done: u64, _total: u64) {
///         self.0.store(done, Ordering::Relaxed);
///     }
///
///     fn cancelled(&self) -> bool {
///         self.0.load(Ordering::Relaxed) >= 10
///     }
/// }
///
/// let progress = Ten::default();
/// progress.update("counting", 10, 100);
/// assert!(betz_base::progress::check(&progress, "counting").is_err());
/// ```
pub trait Progress: Sync {
    /// `done` of `total` units of `stage` are finished. Called seldom enough that drawing a bar
    /// each time is fine.
    fn update(&self, stage: &str, done: u64, total: u64) {
        let _ = (stage, done, total);
    }

    /// True once the caller wants the work to stop; it then ends with
    /// [`ErrorKind::Interrupted`].
    fn cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {}

/// Passes on a request to stop; how far a part of larger work is stays here.
pub struct Quiet<'a>(pub &'a dyn Progress);

impl Progress for Quiet<'_> {
    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

/// Asks to stop once it has been asked a number of times: for tests of interrupted work.
pub struct StopAfter(AtomicUsize);

impl StopAfter {
    /// Goes on `questions` times.
    pub const fn new(questions: usize) -> Self {
        Self(AtomicUsize::new(questions))
    }
}

impl Progress for StopAfter {
    fn cancelled(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        (self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less))
        .is_err()
    }
}

/// Ends `stage` with an error when the caller has cancelled.
///
/// # Errors
/// [`ErrorKind::Interrupted`].
pub fn check(progress: &dyn Progress, stage: &str) -> Result<()> {
    if progress.cancelled() {
        return Err(Error::new(
            ErrorKind::Interrupted,
            format!("{stage}: stopped on request"),
        ));
    }
    Ok(())
}
