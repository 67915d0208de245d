//! Progress of long work, and requests to stop it.

use crate::lock::lock;
use std::prelude::rust_2024::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::error::{Error, ErrorKind, Result};

/// ProgressLog about the progress of long work; asked whether to go on.
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

    /// True if the caller wants to know how long each part of the work takes. Work on a device then records when parts begin.
    fn wants_seconds(&self) -> bool {
        false
    }

    /// `part` of the work took `seconds`. Parts do not overlap; one may come several times. Called only if
    /// [`wants_seconds`](Self::wants_seconds) is true.
    fn took(&self, part: &'static str, seconds: f64) {
        let _ = (part, seconds);
    }
}

impl Progress for () {}

/// Passes on a request to stop, and the seconds of parts; how far a part of larger work is stays here.
pub struct Quiet<'a>(pub &'a dyn Progress);

impl Progress for Quiet<'_> {
    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }

    fn wants_seconds(&self) -> bool {
        self.0.wants_seconds()
    }

    fn took(&self, part: &'static str, seconds: f64) {
        self.0.took(part, seconds);
    }
}

/// Does `work`, a part of larger work, and tells `progress` how long it took, if it wants to know.
///
/// ```
/// use betz_base::{Progress, progress};
/// use std::sync::Mutex;
///
/// #[derive(Default)]
/// struct Parts(Mutex<Vec<&'static str>>);
///
/// impl Progress for Parts {
///     fn wants_seconds(&self) -> bool {
///         true
///     }
///
///     fn took(&self, part: &'static str, seconds: f64) {
///         assert!(seconds >= 0.0);
///         self.0.lock().unwrap().push(part);
///     }
/// }
///
/// let parts = Parts::default();
/// assert_eq!(progress::time(&parts, "adding", || 2 + 2), 4);
/// assert_eq!(*parts.0.lock().unwrap(), ["adding"]);
/// ```
pub fn time<R>(progress: &dyn Progress, part: &'static str, work: impl FnOnce() -> R) -> R {
    if !progress.wants_seconds() {
        return work();
    }
    let begun = Instant::now();
    let made = work();
    progress.took(part, begun.elapsed().as_secs_f64());
    made
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

/// Phases of work that follow each other, as one piece of work: its listener hears one stage from its beginning to its end.
///
/// ```
/// use betz_base::{Progress, progress::Phases};
/// use std::sync::Mutex;
///
/// #[derive(Default)]
/// struct Percent(Mutex<Vec<u64>>);
///
/// impl Progress for Percent {
///     fn update(&self, stage: &str, done: u64, total: u64) {
///         assert_eq!(stage, "training");
///         self.0.lock().unwrap().push(100 * done / total);
///     }
/// }
///
/// let percent = Percent::default();
/// let mut phases = Phases::new(&percent, "training", 4);
/// phases.next(3).update("filtering", 1, 2);
/// phases.next(1).update("solving", 1, 1);
/// assert_eq!(*percent.0.lock().unwrap(), [37, 100]);
/// ```
pub struct Phases<'a> {
    whole: &'a dyn Progress,
    stage: &'a str,
    total: u64,
    before: u64,
}

impl<'a> Phases<'a> {
    /// The phases of `stage`, whose shares add up to `total`. A share is proportional to the time that a phase takes.
    pub fn new(whole: &'a dyn Progress, stage: &'a str, total: u64) -> Self {
        Self {
            whole,
            stage,
            total,
            before: 0,
        }
    }

    /// Begins the next phase, which has `share` of the whole.
    pub fn next(&mut self, share: u64) -> Phase<'a> {
        let phase = Phase {
            whole: self.whole,
            stage: self.stage,
            total: self.total,
            before: self.before,
            share,
            furthest: Mutex::new(0),
        };
        self.before = self.before.saturating_add(share);
        phase
    }

    /// Passes over a phase that takes its time, but tells nothing.
    pub fn skip(&mut self, share: u64) {
        self.before = self.before.saturating_add(share);
    }

    /// Replaces the shares of all phases to come, once it is known that some are shorter or empty: they now add up to `left`.
    ///
    /// ```
    /// use betz_base::{Progress, progress::Phases};
    /// use std::sync::Mutex;
    ///
    /// #[derive(Default)]
    /// struct ProgressLog(Mutex<Vec<(u64, u64)>>);
    ///
    /// impl Progress for ProgressLog {
    ///     fn update(&self, _: &str, done: u64, total: u64) {
    ///         self.0.lock().unwrap().push((done / 1000, total / 1000));
    ///     }
    /// }
    ///
    /// let told = ProgressLog::default();
    /// let mut phases = Phases::new(&told, "testing", 10);
    /// phases.next(2).update("pairs", 1, 1);
    /// // Only half of the other eight is left to do.
    /// phases.expect(4);
    /// phases.next(4).update("triples", 1, 2);
    /// assert_eq!(*told.0.lock().unwrap(), [(2, 10), (4, 6)]);
    /// ```
    pub fn expect(&mut self, left: u64) {
        self.total = self.before.saturating_add(left);
    }
}

/// One of [`Phases`].
pub struct Phase<'a> {
    whole: &'a dyn Progress,
    stage: &'a str,
    total: u64,
    before: u64,
    share: u64,
    /// Of [`PARTS`]: a phase with stages of its own does not go back when one of them begins. Locked while the listener is
    /// told, so that threads tell it in order.
    furthest: Mutex<u64>,
}

/// Parts of a phase that are told apart.
const PARTS: u64 = 1000;

impl Progress for Phase<'_> {
    fn update(&self, _stage: &str, done: u64, total: u64) {
        let share = done as f64 / total.max(1) as f64;
        let parts = (share.clamp(0.0, 1.0) * PARTS as f64) as u64;
        let mut furthest = lock(&self.furthest);
        *furthest = parts.max(*furthest);
        let own = self.share.saturating_mul(*furthest);
        let done = self.before.saturating_mul(PARTS).saturating_add(own);
        let total = self.total.saturating_mul(PARTS);
        self.whole.update(self.stage, done, total);
    }

    fn cancelled(&self) -> bool {
        self.whole.cancelled()
    }

    fn wants_seconds(&self) -> bool {
        self.whole.wants_seconds()
    }

    fn took(&self, part: &'static str, seconds: f64) {
        self.whole.took(part, seconds);
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
