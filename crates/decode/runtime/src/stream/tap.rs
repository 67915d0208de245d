//! Handing on a session's steps: to a miner, to a recorder, to a page.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{Session, StepStatus, SwapState};
use betz_base::error::{Error, Result};
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;

/// Between what was handed on before a session's reset and what comes after lie this many seconds of
/// silence, as between the segments of a recording that is mined: nothing reaches across trials.
const REST_SECONDS: f64 = 60.0;

/// Most taps of a session.
pub const MAX_TAPS: usize = 8;

/// Input of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Input<'a> {
    /// The channels that fired, one entry per spike, in any order.
    Spikes(&'a [u32]),
    /// Counts, one per channel.
    Counts(&'a [u16]),
    /// Counts of 8 bits, one per channel.
    CountsU8(&'a [u8]),
    /// Counts that need not be whole (weighted, smoothed) or features of any sign, one per channel;
    /// finite.
    CountsF32(&'a [f32]),
}

/// A step as its taps hear it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step<'a> {
    /// The step's tick: the session's, or the queue's where it steps through one; see
    /// [`Session::attach`] for what a reset does.
    pub tick: i64,
    /// Its input, masked and unknown channels included.
    pub input: Input<'a>,
    /// Its estimates, one per output.
    pub estimates: &'a [f32],
    /// Estimates of the second model of a swap, one per output: the new one while it warms up, the one before while
    /// it stands by. Empty where one model runs.
    pub beside: &'a [f64],
    /// Probabilities of the classes of the model that gives the estimates: those of its gate, or the estimates themselves of a
    /// model of kind `classes`. Empty for a model without classes.
    pub classes: &'a [f64],
    /// Flags of the estimates.
    pub status: StepStatus,
    /// Duration of the step *before* in nanoseconds (a step's own time is known only after its taps);
    /// 0 when statistics are off.
    pub previous_latency_ns: u32,
    /// State of the model swap.
    pub swap: SwapState,
}

/// Listens to the steps of a session ([`Session::attach`]).
///
/// Called inside a step, after its estimates are made: an implementation must neither wait, allocate,
/// lock nor call the system, or the step does. A miner's feed
/// (`betz_episode::online::MinerFeed`) is one.
///
/// ```
/// use betz_runtime::stream::{Step, Tap};
///
/// /// Counts the steps whose estimates are not to be relied on.
/// struct Flagged(u64);
///
/// impl Tap for Flagged {
///     fn take(&mut self, step: &Step<'_>) {
///         self.0 += u64::from(!step.status.is_ok());
///     }
/// }
/// ```
pub trait Tap: Send {
    /// One step.
    fn take(&mut self, step: &Step<'_>);

    /// A new trial begins with the next step: the session was reset.
    fn rest(&mut self) {}

    /// Its name, for [`Session::detach_named`].
    fn name(&self) -> &'static str {
        ""
    }

    /// Keeps `place` until the tap is closed, or returns it: the session then keeps it as long as it has the tap. Only a
    /// tap that is closed from outside ([`lend`](super::lend)) keeps it.
    fn keep_place(&mut self, place: TapPlace) -> Option<TapPlace> {
        Some(place)
    }

    /// Frees the place that [`keep_place`](Self::keep_place) has kept: the session does not have the tap any more.
    fn free_place(&mut self) {}

    /// True for a tap that hears nothing any more. The session drops it when it attaches another one.
    fn is_closed(&self) -> bool {
        false
    }
}

/// A place among the at most [`MAX_TAPS`] taps of a session. Dropping it frees the place.
#[derive(Debug)]
pub struct TapPlace(Arc<TapPlaces>);

impl Drop for TapPlace {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Number of taps that a session has or is about to get, without those that are closed.
#[derive(Debug, Default)]
pub(super) struct TapPlaces {
    taken: AtomicUsize,
}

impl TapPlaces {
    /// Reserves a place, before the tap is sent to the session.
    pub(super) fn reserve(self: &Arc<Self>) -> Result<TapPlace> {
        let next = |taken: usize| (taken < MAX_TAPS).then_some(taken + 1);
        (self.taken)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
            .map(|_| TapPlace(Arc::clone(self)))
            .map_err(|_| {
                Error::argument(format!(
                    "attach: expected a session with fewer than {MAX_TAPS} taps; detach or close one first"
                ))
            })
    }
}

/// A tap and the clock it hears. Made off the loop, attached by moving it.
pub(super) struct TapSlot {
    tap: Box<dyn Tap>,
    /// The session's tick that the tap was to hear as this one; `None`: the session's own.
    first: Option<i64>,
    /// Difference between the session's ticks and those that are handed on.
    offset: i64,
    rest_ticks: i64,
    /// The last tick handed on.
    last: Option<i64>,
    /// True from a reset to the next step.
    resting: bool,
    /// True if `offset` is that of a rest.
    rested: bool,
    /// `None` if the tap keeps it.
    _place: Option<TapPlace>,
}

impl TapSlot {
    pub(super) fn new(
        mut tap: Box<dyn Tap>,
        first: Option<i64>,
        step_seconds: f64,
        place: TapPlace,
    ) -> Self {
        let place = tap.keep_place(place);
        let rest_ticks = (REST_SECONDS / step_seconds).ceil() as i64;
        Self {
            tap,
            first,
            offset: 0,
            rest_ticks: rest_ticks.max(1),
            last: None,
            resting: false,
            rested: false,
            _place: place,
        }
    }

    pub(super) fn into_tap(mut self) -> Box<dyn Tap> {
        self.tap.free_place();
        self.tap
    }

    pub(super) fn is_closed(&self) -> bool {
        self.tap.is_closed()
    }

    #[inline]
    pub(super) fn take(&mut self, step: &Step<'_>) {
        if self.resting {
            self.begin_trial(step.tick);
        }
        let tick = step.tick.saturating_add(self.offset);
        self.last = Some(tick);
        self.tap.take(&Step { tick, ..*step });
    }

    /// The session's clock stands at `tick`: what it is handed on as is the first tick asked for.
    pub(super) fn begin(&mut self, tick: i64) {
        if let Some(first) = self.first.take() {
            self.offset = first.saturating_sub(tick);
        }
    }

    /// A queue has set the session's clock: before the first rest, ticks are handed on as they are.
    pub(super) fn clock_was_set(&mut self) {
        if !self.rested {
            self.first = None;
            self.offset = 0;
        }
    }

    /// A new trial begins with the next step.
    pub(super) fn rest(&mut self) {
        self.resting = true;
        self.tap.rest();
    }

    /// Puts the silence between the last step and this one, wherever the clock stands now: it may have
    /// begun anew with the trial, and what is handed on must not go back.
    #[cold]
    fn begin_trial(&mut self, tick: i64) {
        self.resting = false;
        if let Some(last) = self.last {
            self.rested = true;
            let begin = last.saturating_add(1).saturating_add(self.rest_ticks);
            self.offset = begin.saturating_sub(tick);
        }
    }
}

impl Session {
    /// From now on every step is handed to `tap`, in the step and after its estimates are made. A step
    /// that is refused hands on nothing. At most [`MAX_TAPS`] at a time; they are called in the order in
    /// which they came.
    ///
    /// The next step is `first_tick`, each later one tick more; steps through a
    /// [`SpikeConsumer`](super::SpikeConsumer) have the queue's ticks instead. After a
    /// [`reset`](Self::reset) the next step comes 60 s of silence after the last one, whatever its tick
    /// on either clock: an acquisition may count from 0 in every trial. Neither this nor the steps
    /// allocate. A clone of the session has no taps; checkpoints know nothing of them. While the session
    /// runs, [`Swapper::attach`](super::Swapper::attach) does this from another thread. Taps that their owners have
    /// closed are freed here.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) when there are so many
    /// already.
    pub fn attach(&mut self, tap: Box<dyn Tap>, first_tick: i64) -> Result<()> {
        self.taps_mut().retain(|slot| !slot.is_closed());
        let place = self.places().reserve()?;
        let step_seconds = self.model().step_seconds();
        let slot = TapSlot::new(tap, Some(first_tick), step_seconds, place);
        // A closed tap in its place may be freed here.
        drop(self.add_tap(slot));
        Ok(())
    }

    /// Steps are no longer handed to the tap that came last; gives it back, `None` when there was none.
    pub fn detach(&mut self) -> Option<Box<dyn Tap>> {
        self.take_tap().map(TapSlot::into_tap)
    }

    /// As [`detach`](Self::detach), of the taps that have this [name](Tap::name) the one that came last.
    pub fn detach_named(&mut self, name: &str) -> Option<Box<dyn Tap>> {
        let taps = self.taps_mut();
        let at = (taps.iter()).rposition(|t| !t.is_closed() && t.tap.name() == name)?;
        Some(taps.remove(at).into_tap())
    }
}

impl fmt::Debug for TapSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("Attached").field("last", &self.last)).finish_non_exhaustive()
    }
}
