//! A session: one running decoder that steps tick by tick.

mod step;
#[cfg(feature = "std")]
mod threads;
mod time;
mod warm;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(in crate::stream) use self::time::StepSamples;
pub use self::time::{EstimateSamples, EstimateTime};
pub(in crate::stream) use self::warm::Form;
use self::warm::Warmth;
use super::channels::{ChannelWatch, WatchCounts};
use super::engine::Engine;
use super::events::EventDetector;
use super::health::HealthCell;
use super::hold::HoldState;
use super::running::EnginePair;
use super::slew::Slew;
use super::swap::Mailbox;
use super::tap::{MAX_TAPS, TapPlaces, TapSlot};
use super::timing::Timing;
use super::{
    Clamp, Latency, PreparedModel, SessionConfig, Stats, StepRefused, StepStatus, UnknownChannels,
};
use crate::model::Decoder;
use betz_base::error::Result;
use betz_base::float;

/// A running decoder: filter states, counters, latencies. Belongs to one thread at a time.
///
/// At step t it takes the spikes of tick t and gives x̂ = intercept + Σ φ·(h ∗ s), the estimate of the behaviour at t −
/// [`delay_steps`](Decoder::delay_steps). Filters start from rest; call [`reset`](Self::reset) at the beginning of each
/// segment.
///
/// The same input gives the same bits: after `reset`, in a clone, after a [`restore`](Self::restore), and for any
/// division of the ticks into calls. (A count of c and c entries in a list are equal only to rounding: c·w is not
/// always w + … + w.)
///
/// # Real time
/// Opening, cloning, [`swapper`](Self::swapper) and [`checkpoint`](Self::checkpoint) allocate.
/// Steps, [`warm`](Self::warm), `reset`, `stats`, [`checkpoint_into`](Self::checkpoint_into) and `restore` do not, nor do
/// they lock or call the system, unless they fail: an error allocates its message.
#[derive(Debug)]
pub struct Session {
    running: EnginePair,
    mailbox: Option<Mailbox>,
    mask: Option<Vec<bool>>,
    clamp: Option<Vec<Clamp>>,
    unknown_channels: UnknownChannels,
    /// Most spikes of a list that one step takes.
    max_spikes: usize,
    /// Spikes left out because of it.
    capped: u64,
    timing: Option<Timing>,
    counters: Counters,
    /// Tick of the next step.
    tick: i64,
    /// Tick of the last step; `None` before the first one.
    stepped: Option<i64>,
    /// Samples of the last step that came from a queue.
    sampled: StepSamples,
    /// True if a queue has set the tick of the current step.
    clock_is_set: bool,
    /// Flags that the next step will report.
    pending: StepStatus,
    status: StepStatus,
    holding: HoldState,
    slew: Option<Slew>,
    /// Has room for [`MAX_TAPS`].
    taps: Vec<TapSlot>,
    places: Arc<TapPlaces>,
    published: Option<Arc<HealthCell>>,
    counted: Option<Arc<WatchCounts>>,
    /// The session's own watch of its channels.
    watch: Option<Box<ChannelWatch>>,
    /// Events of the classes; `None` for a model without classes.
    events: Option<Box<EventDetector>>,
    /// The form in which the last step got its spikes.
    form: Form,
    /// `None` while [`warm`](Self::warm) uses it.
    warmth: Option<Box<Warmth>>,
}

/// Counted whether statistics are on or off, and kept in checkpoints.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) ticks: u64,
    pub(super) spikes: u64,
    pub(super) unknown: u64,
    pub(super) dropped: u64,
    pub(super) late: u64,
    pub(super) future: u64,
    pub(super) skipped: u64,
    pub(super) swaps: u64,
}

impl Session {
    /// Opens a session of `decoder`, at rest. Allocates all memory that the session will need.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for a mask or clamp of the wrong length,
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a clamp with low > high or NaN, or a deadline without
    /// statistics.
    pub fn open(decoder: &Decoder, config: SessionConfig) -> Result<Self> {
        config.check(decoder.outputs().len())?;
        let model = PreparedModel::new(decoder, config.channel_mask.as_deref())?;
        Self::open_prepared(Arc::new(model), config)
    }

    /// Opens a session of a prepared model, so that several sessions share its weights.
    ///
    /// The mask is part of preparing: the one in `config` is used only for models swapped in later.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub fn open_prepared(model: Arc<PreparedModel>, config: SessionConfig) -> Result<Self> {
        config.check(model.outputs())?;
        let timing = (config.statistics)
            .then(|| Timing::new(config.deadline))
            .transpose()?;
        let row_bytes = size_of::<f64>() * model.stride();
        let events = match model.classes() {
            0 => None,
            _ => Some(Box::new(EventDetector::with_rules(
                model.event_rules.clone(),
            )?)),
        };
        let warmth = Warmth::new(model.channels(), row_bytes, model.outputs())?;
        Ok(Self {
            holding: HoldState::new(config.hold.as_ref(), model.step_seconds(), model.outputs()),
            running: EnginePair::new(Box::new(Engine::new(model)?)),
            mailbox: None,
            mask: config.channel_mask,
            clamp: config.clamp,
            slew: config.slew.map(Slew::new),
            unknown_channels: config.unknown_channels,
            max_spikes: config.max_spikes.unwrap_or(usize::MAX),
            capped: 0,
            timing,
            counters: Counters::default(),
            tick: 0,
            stepped: None,
            sampled: StepSamples::default(),
            clock_is_set: false,
            pending: StepStatus::OK,
            status: StepStatus::OK,
            taps: Vec::with_capacity(MAX_TAPS),
            places: Arc::default(),
            published: None,
            counted: None,
            watch: None,
            events,
            form: Form::default(),
            warmth: Some(Box::new(warmth)),
        })
    }

    /// The model that gives the estimates now.
    pub fn model(&self) -> &Arc<PreparedModel> {
        self.running.active().model()
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.model().channels()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.model().outputs()
    }

    /// Skips `ticks` silent ticks at once, after a pause: filters and low-pass decay exactly (to rounding), also those
    /// of a model that is being swapped in. A head with further states is stepped until they have settled (each to 3e-7
    /// of its value), through at most 1,024 ticks. If the pause is longer than the head's memory, they are set to the
    /// settled states at once. No estimates are made; the session's clock advances. Nothing is allocated.
    ///
    /// One call makes as many of these steps as take about 100,000 instructions, or as many per millisecond of a step if
    /// that is more. The steps after it make the others, as many each, but at least two. Until all are made, the head
    /// runs on estimated states, and steps are flagged [`STALE`](StepStatus::STALE). Then it has the states that it
    /// would have if this call had made all steps. It keeps the estimated ones if a fifth pause falls into that time, or
    /// the pauses in it are longer than 1,024 ticks together. Sampled filters are stepped at once through all ticks
    /// that they remember, and a head behind them as well.
    pub fn skip(&mut self, ticks: u64) {
        let taken_over = self.running.skip(ticks, self.mailbox.as_ref());
        self.counters.swaps = self.counters.swaps.saturating_add(u64::from(taken_over));
        self.pending |= StepStatus::SWAPPED.when(taken_over);
        self.counters.skipped = self.counters.skipped.saturating_add(ticks);
        if let Some(events) = &mut self.events {
            events.rest(self.tick, ticks);
        }
        self.tick = self.tick.saturating_add_unsigned(ticks);
    }

    /// Flags of the last step: how far its estimates can be trusted.
    pub fn status(&self) -> StepStatus {
        self.status
    }

    /// Writes the variances of the last step's estimates to `out`, one per output, in output units squared: the
    /// expected squared error, by a readout of the same features ([`LogVariance`](crate::model::LogVariance)). Infinity
    /// before the first step. They describe the running model's estimates before a clamp, a slew limit or a hold policy
    /// changes them. Allocates nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData) if the model does not estimate variances
    /// ([`PreparedModel::tells_variances`]); [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) unless `out` has
    /// one value per output.
    pub fn variances(&self, out: &mut [f32]) -> Result<()> {
        self.try_variances(out).map_err(StepRefused::into_error)
    }

    /// As [`variances`](Self::variances), with a refusal that allocates nothing.
    ///
    /// # Errors
    /// The same as for [`variances`](Self::variances).
    pub fn try_variances(&self, out: &mut [f32]) -> core::result::Result<(), StepRefused> {
        if !self.model().tells_variances() {
            return Err(StepRefused::NoVariances);
        }
        let logs = self.running.active().log_variances();
        if out.len() != logs.len() {
            return Err(StepRefused::Outputs {
                expected: logs.len(),
                got: out.len(),
            });
        }
        for (out, log) in out.iter_mut().zip(logs) {
            *out = float::exp(*log) as f32;
        }
        Ok(())
    }

    /// Tick of the next step, on the session's clock: steps count it up from 0, and a
    /// [`SpikeConsumer`](super::SpikeConsumer) sets it to its own tick.
    pub fn tick(&self) -> i64 {
        self.tick
    }

    /// Number of taps attached, without those that their owners have closed.
    pub fn taps(&self) -> usize {
        self.taps.iter().filter(|tap| !tap.is_closed()).count()
    }

    /// Returns the filters to rest, as at the start of a segment. Counters, latencies and the model stay; a model that
    /// is warming up takes over at once, because it has nothing to catch up with.
    pub fn reset(&mut self) {
        let taken_over = self.running.reset(self.mailbox.as_ref());
        self.counters.swaps = self.counters.swaps.saturating_add(u64::from(taken_over));
        self.pending |= StepStatus::SWAPPED.when(taken_over);
        self.holding.reset();
        if let Some(slew) = &mut self.slew {
            slew.reset();
        }
        if let Some(events) = &mut self.events {
            events.reset(self.tick);
        }
        self.taps.iter_mut().for_each(TapSlot::rest);
    }

    /// Counters and latencies. Costs a few microseconds; no allocation.
    pub fn stats(&self) -> Stats {
        let Counters {
            ticks,
            spikes,
            unknown,
            dropped,
            late,
            future,
            skipped,
            swaps,
        } = self.counters;
        Stats {
            ticks,
            spikes,
            unknown_channel_spikes: unknown,
            dropped,
            late,
            future,
            capped: self.capped,
            skipped,
            deadline_misses: self.timing.as_ref().map_or(0, Timing::misses),
            model_swaps: swaps,
            events_lost: self.events.as_ref().map_or(0, |events| events.lost()),
            latency: (self.timing.as_ref()).map_or_else(Latency::default, Timing::latency),
        }
    }

    /// Sets all counters and latencies back to zero.
    pub fn clear_stats(&mut self) {
        self.counters = Counters::default();
        self.capped = 0;
        if let Some(timing) = &mut self.timing {
            timing.clear();
        }
        if let Some(events) = &mut self.events {
            events.clear_lost();
        }
    }

    /// Most spikes of a list that one step takes.
    pub(super) fn max_spikes(&self) -> usize {
        self.max_spikes
    }

    /// Counts spikes that the next step leaves out because it has enough.
    pub(super) fn count_capped(&mut self, spikes: u64) {
        self.capped = self.capped.saturating_add(spikes);
        self.pending |= StepStatus::CAPPED.when(spikes > 0);
    }

    /// Counts spikes that were lost before a step, were late, or lay too far ahead.
    pub(super) fn count_losses(&mut self, dropped: u64, late: u64, future: u64) {
        self.counters.dropped = self.counters.dropped.saturating_add(dropped);
        self.counters.late = self.counters.late.saturating_add(late);
        self.counters.future = self.counters.future.saturating_add(future);
        self.pending |= StepStatus::DROPPED.when(dropped > 0)
            | StepStatus::LATE.when(late > 0)
            | StepStatus::FUTURE.when(future > 0);
    }

    /// Sets the next tick to the queue's.
    pub(super) fn set_clock(&mut self, tick: i64) {
        self.tick = tick;
        self.clock_is_set = true;
        self.taps.iter_mut().for_each(TapSlot::clock_was_set);
    }

    pub(super) fn taps_mut(&mut self) -> &mut Vec<TapSlot> {
        &mut self.taps
    }

    pub(super) fn places(&self) -> &Arc<TapPlaces> {
        &self.places
    }

    /// Attaches a tap, and returns a closed one that was there. The tap has a place, so that there is room for it.
    pub(super) fn add_tap(&mut self, mut tap: TapSlot) -> Option<TapSlot> {
        if self.clock_is_set {
            tap.clock_was_set();
        }
        tap.begin(self.tick);
        let closed = self.taps.iter().position(TapSlot::is_closed);
        let closed = closed.map(|at| self.taps.remove(at));
        if self.taps.len() == MAX_TAPS {
            return Some(tap);
        }
        self.taps.push(tap);
        closed
    }

    /// Takes away the tap that came last, of those that are not closed.
    pub(super) fn take_tap(&mut self) -> Option<TapSlot> {
        let at = self.taps.iter().rposition(|tap| !tap.is_closed())?;
        Some(self.taps.remove(at))
    }

    pub(super) fn slew(&self) -> Option<&Slew> {
        self.slew.as_ref()
    }

    pub(super) fn slew_mut(&mut self) -> Option<&mut Slew> {
        self.slew.as_mut()
    }

    pub(super) fn holding(&self) -> &HoldState {
        &self.holding
    }

    pub(super) fn holding_mut(&mut self) -> &mut HoldState {
        &mut self.holding
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    pub(super) fn running(&self) -> &EnginePair {
        &self.running
    }

    pub(super) fn event_detector(&self) -> Option<&EventDetector> {
        self.events.as_deref()
    }

    pub(super) fn event_detector_mut(&mut self) -> Option<&mut EventDetector> {
        self.events.as_deref_mut()
    }

    pub(super) fn running_and_events(&mut self) -> (&EnginePair, Option<&mut EventDetector>) {
        (&self.running, self.events.as_deref_mut())
    }

    pub(super) fn running_mut(&mut self) -> &mut EnginePair {
        &mut self.running
    }
}

/// The clone continues bit for bit like the original. It shares the model's weights, and has its own counters,
/// latencies and warming model, but no [`Swapper`](super::Swapper), reader or [`Tap`](super::Tap).
impl Clone for Session {
    fn clone(&self) -> Self {
        Self {
            running: self.running.clone(),
            mailbox: None,
            mask: self.mask.clone(),
            clamp: self.clamp.clone(),
            unknown_channels: self.unknown_channels,
            max_spikes: self.max_spikes,
            capped: self.capped,
            timing: self.timing.clone(),
            counters: self.counters,
            tick: self.tick,
            stepped: self.stepped,
            sampled: self.sampled,
            clock_is_set: false,
            pending: self.pending,
            status: self.status,
            holding: self.holding.clone(),
            slew: self.slew.clone(),
            taps: Vec::with_capacity(MAX_TAPS),
            places: Arc::default(),
            published: None,
            counted: None,
            watch: None,
            events: self.events.clone(),
            form: self.form,
            warmth: self.warmth.clone(),
        }
    }
}
