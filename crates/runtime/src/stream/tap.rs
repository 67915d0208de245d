//! Handing on what a session's steps take in: to a miner, to a recorder.

use std::fmt;

use super::Session;
use betz_base::error::{Error, Result};

/// Between what was handed on before a session's reset and what comes after lie this many seconds of
/// silence, as between the segments of a recording that is mined: nothing reaches across trials.
const REST_SECONDS: f64 = 60.0;

/// Listens to the steps of a session ([`Session::attach`]).
///
/// Called inside a step, after its estimates are made: an implementation must neither wait, allocate,
/// lock nor call the system, or the step does. A miner's feed
/// ([`MinerFeed`](betz_episode::online::MinerFeed)) is one.
pub trait Tap: Send {
    /// The spikes of `tick` as [`Session::step_spikes`] was given them, one entry a spike.
    fn take_spikes(&mut self, tick: i64, channels: &[u32]);

    /// The counts of `tick` as [`Session::step_counts`] was given them, one a channel.
    fn take_counts(&mut self, tick: i64, counts: &[u16]);
}

/// A tap and the clock it hears.
pub(super) struct Attached {
    tap: Box<dyn Tap>,
    /// The next step's tick on the session's or the queue's clock.
    tick: i64,
    /// What makes of that clock's ticks those that are handed on.
    offset: i64,
    rest_ticks: i64,
    /// The last tick handed on.
    last: Option<i64>,
    /// True from a reset to the next step.
    resting: bool,
}

impl Attached {
    #[inline]
    pub(super) fn take_spikes(&mut self, channels: &[u32]) {
        let tick = self.advance();
        self.tap.take_spikes(tick, channels);
    }

    #[inline]
    pub(super) fn take_counts(&mut self, counts: &[u16]) {
        let tick = self.advance();
        self.tap.take_counts(tick, counts);
    }

    /// The next step is of `tick`: a queue knows it.
    pub(super) fn set_tick(&mut self, tick: i64) {
        self.tick = tick;
    }

    /// A new trial begins with the next step.
    pub(super) fn rest(&mut self) {
        self.resting = true;
    }

    #[inline]
    fn advance(&mut self) -> i64 {
        if self.resting {
            self.begin_trial();
        }
        let tick = self.tick.saturating_add(self.offset);
        self.tick = self.tick.saturating_add(1);
        self.last = Some(tick);
        tick
    }

    /// Puts the silence between the last step and this one, wherever the clock stands now: it may have
    /// begun anew with the trial, and what is handed on must not go back.
    #[cold]
    fn begin_trial(&mut self) {
        self.resting = false;
        if let Some(last) = self.last {
            let begin = last.saturating_add(1).saturating_add(self.rest_ticks);
            self.offset = begin.saturating_sub(self.tick);
        }
    }
}

impl Session {
    /// From now on every step hands what it was given to `tap`, in the step and after its estimates
    /// are made: all spikes, also of channels that are masked or unknown. A step that is refused hands
    /// on nothing.
    ///
    /// The next step is `first_tick`, each later one a tick more; steps through a
    /// [`SpikeConsumer`](super::SpikeConsumer) have the queue's ticks instead. After a
    /// [`reset`](Self::reset) the next step comes 60 s of silence after the last one, whatever its tick
    /// on either clock: an acquisition may count from 0 in every trial. Allocates the tap's place; the
    /// steps allocate nothing. A clone of the session has no tap; checkpoints know nothing of it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) when there is a tap already.
    pub fn attach(&mut self, tap: Box<dyn Tap>, first_tick: i64) -> Result<()> {
        if self.tap().is_some() {
            return Err(Error::argument(
                "attach: expected a session without a tap, got one that has it; detach it first",
            ));
        }
        let rest_ticks = (REST_SECONDS / self.model().step_seconds).ceil() as i64;
        *self.tap() = Some(Attached {
            tap,
            tick: first_tick,
            offset: 0,
            rest_ticks: rest_ticks.max(1),
            last: None,
            resting: false,
        });
        Ok(())
    }

    /// Steps hand on nothing any more; gives the tap back, `None` when there was none.
    pub fn detach(&mut self) -> Option<Box<dyn Tap>> {
        self.tap().take().map(|attached| attached.tap)
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("Attached").field("tick", &self.tick)).finish_non_exhaustive()
    }
}
