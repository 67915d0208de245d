//! Stand-ins for the parts of a session that need an operating system: types without values.

use core::time::Duration;

use super::tap::Input;
use super::{Latency, StepStatus, SwapState};
use betz_base::error::{Error, Result};

/// Models and settings from another thread.
#[derive(Debug)]
pub(super) enum Mailbox {}

impl Mailbox {
    pub(super) fn tell(&self, _state: SwapState, _model: u64, _ticks_left: u64) {
        match *self {}
    }

    pub(super) fn tell_left(&self, _ticks: u64) {
        match *self {}
    }
}

/// Health for other threads.
#[derive(Debug)]
pub(super) enum Board {}
pub(super) use Board as HealthCell;

/// Counts of the channels' spikes.
#[derive(Debug)]
pub(super) enum Counters {}
pub(super) use Counters as WatchCounts;

impl Counters {
    pub(super) fn take(&self, _input: &Input<'_>) -> StepStatus {
        match *self {}
    }
}

/// A watch of the channels.
#[derive(Debug)]
pub(super) enum ChannelWatch {}

impl ChannelWatch {
    pub(super) fn look(&mut self) -> bool {
        match *self {}
    }
}

/// Latencies of steps.
#[derive(Debug, Clone)]
pub(super) enum Timing {}

/// Figures of a [`Timing`] that is suspended.
pub(super) enum TimingFigures {}

impl Timing {
    pub(super) fn new(_deadline: Option<Duration>) -> Result<Self> {
        Err(Error::argument(
            "statistics: expected false, because latencies need the feature `std`, got true",
        ))
    }

    pub(super) fn start(&self) -> u64 {
        match *self {}
    }

    pub(super) fn stop(&mut self, _start: u64) {
        match *self {}
    }

    pub(super) fn suspend(&mut self) -> TimingFigures {
        match *self {}
    }

    pub(super) fn resume(&mut self, figures: TimingFigures) {
        match figures {}
    }

    pub(super) fn last_ns(&self) -> u32 {
        match *self {}
    }

    pub(super) fn misses(&self) -> u64 {
        match *self {}
    }

    pub(super) fn latency(&self) -> Latency {
        match *self {}
    }

    pub(super) fn clear(&mut self) {
        match *self {}
    }
}
