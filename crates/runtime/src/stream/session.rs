//! One decoder at work, a tick at a time.

use std::sync::Arc;

use super::engine::Engine;
use super::health::Published;
use super::hold::Holding;
use super::running::{Beside, Running};
use super::swap::{Command, Mailbox, Retired};
use super::tap::{Attached, Input, MAX_TAPS, Step};
use super::timing::Timing;
use super::{
    Clamp, Health, HealthReader, Latency, PreparedModel, SessionConfig, Stats, StepRefused,
    StepStatus, Swapper, UnknownChannels,
};
use crate::model::Decoder;
use betz_base::error::{Error, Result};

/// A decoder at work: filter states, counters, latencies. Belongs to one thread at a time.
///
/// At step t it takes the spikes of tick t and gives x̂ = intercept + Σ φ·(h ∗ s), the estimate of
/// the behaviour at t − [`delay_steps`](Decoder::delay_steps). Filters start from rest; call
/// [`reset`](Self::reset) wherever a segment begins.
///
/// The same input gives the same bits: after `reset`, in a clone, after a
/// [`restore`](Self::restore), however the ticks are portioned. (A count of c and c entries in a list are
/// equal to rounding: c·w is not always w + … + w.)
///
/// # Real time
/// Opening, cloning, [`swapper`](Self::swapper) and [`checkpoint`](Self::checkpoint) allocate.
/// Steps, `reset`, `stats`, [`checkpoint_into`](Self::checkpoint_into) and `restore` do not, nor do
/// they lock or call the system, unless they fail: an error allocates its message.
#[derive(Debug)]
pub struct Session {
    running: Running,
    mailbox: Option<Mailbox>,
    mask: Option<Vec<bool>>,
    clamp: Option<Vec<Clamp>>,
    unknown_channels: UnknownChannels,
    timing: Option<Timing>,
    counters: Counters,
    /// The next step's tick.
    tick: i64,
    /// Whether a queue has set the tick of the step that is under way.
    clock_is_set: bool,
    /// What is to be said with the next step.
    pending: StepStatus,
    status: StepStatus,
    holding: Holding,
    /// Has room for [`MAX_TAPS`].
    taps: Vec<Attached>,
    published: Option<Arc<Published>>,
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
    /// A session of `decoder`, from rest. Allocates all that it will ever need.
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

    /// A session of a model that is prepared already, so that several sessions share its weights.
    ///
    /// The mask is part of preparing: the one in `config` is used only for models swapped in later.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_prepared(model: Arc<PreparedModel>, config: SessionConfig) -> Result<Self> {
        config.check(model.outputs())?;
        let timing = (config.statistics)
            .then(|| Timing::new(config.deadline))
            .transpose()?;
        Ok(Self {
            holding: Holding::new(config.hold.as_ref(), model.step_seconds(), model.outputs()),
            running: Running::new(Box::new(Engine::new(model)?)),
            mailbox: None,
            mask: config.channel_mask,
            clamp: config.clamp,
            unknown_channels: config.unknown_channels,
            timing,
            counters: Counters::default(),
            tick: 0,
            clock_is_set: false,
            pending: StepStatus::OK,
            status: StepStatus::OK,
            taps: Vec::with_capacity(MAX_TAPS),
            published: None,
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

    /// One tick from binned counts, one per channel; the estimates go to `out`, one per output. What they
    /// are worth says [`status`](Self::status).
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `counts` is not one per channel or `out` not one per output.
    /// Nothing has changed then and `out` is untouched.
    pub fn step_counts(&mut self, counts: &[u16], out: &mut [f32]) -> Result<()> {
        let start = self.timing.as_ref().map(Timing::start);
        self.check_out(out).map_err(StepRefused::into_error)?;
        self.check_counts(counts.len())?;
        self.step_from(&Input::Counts(counts), StepStatus::OK, out, start);
        Ok(())
    }

    /// As [`step_counts`](Self::step_counts), from counts of 8 bits.
    ///
    /// # Errors
    /// As [`step_counts`](Self::step_counts).
    pub fn step_counts_u8(&mut self, counts: &[u8], out: &mut [f32]) -> Result<()> {
        let start = self.timing.as_ref().map(Timing::start);
        self.check_out(out).map_err(StepRefused::into_error)?;
        self.check_counts(counts.len())?;
        self.step_from(&Input::CountsU8(counts), StepStatus::OK, out, start);
        Ok(())
    }

    /// As [`step_counts`](Self::step_counts), from counts that need not be whole (weighted, smoothed).
    ///
    /// # Errors
    /// As [`step_counts`](Self::step_counts), and [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a count that is not
    /// finite, below 0 or above 65,535.
    pub fn step_counts_f32(&mut self, counts: &[f32], out: &mut [f32]) -> Result<()> {
        let start = self.timing.as_ref().map(Timing::start);
        self.check_out(out).map_err(StepRefused::into_error)?;
        self.check_counts(counts.len())?;
        let believed = |count: &f32| (0.0..=65535.0).contains(count);
        if let Some(channel) = counts.iter().position(|count| !believed(count)) {
            return Err(Error::argument(format!(
                "count of channel {channel}: expected 0 to 65535, got {}",
                counts[channel]
            )));
        }
        self.step_from(&Input::CountsF32(counts), StepStatus::OK, out, start);
        Ok(())
    }

    /// As [`step_counts`](Self::step_counts), from features of any sign, one per channel, such as the
    /// power in a band: what a model of a [`signal`](betz_recording::SpikeForm::Signal) was trained on.
    ///
    /// # Errors
    /// As [`step_counts`](Self::step_counts), and [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a value that is not
    /// finite, or further than 10¹⁵ from 0.
    pub fn step_values(&mut self, values: &[f32], out: &mut [f32]) -> Result<()> {
        let start = self.timing.as_ref().map(Timing::start);
        self.check_out(out).map_err(StepRefused::into_error)?;
        self.check_counts(values.len())?;
        let believed = |value: &f32| value.abs() <= 1e15;
        if let Some(channel) = values.iter().position(|value| !believed(value)) {
            return Err(Error::argument(format!(
                "value of channel {channel}: expected a finite number of at most 1e15, got {}",
                values[channel]
            )));
        }
        self.step_from(&Input::CountsF32(values), StepStatus::OK, out, start);
        Ok(())
    }

    /// One step, and the end of it: one copy for all inputs, which are told apart once in it.
    #[inline(never)]
    fn step_from(
        &mut self,
        input: &Input<'_>,
        status: StepStatus,
        out: &mut [f32],
        start: Option<u64>,
    ) {
        self.step(input, status, out);
        self.finish(input, out, start);
    }

    /// One tick from the channels that fired, one entry per spike, in any order; the estimates go to
    /// `out`, one per output. The cost grows with the spikes, not with the channels there are.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `out` is not one per output, or when a channel is unknown and
    /// the policy is [`UnknownChannels::Refuse`]. Nothing has changed then and `out` is untouched.
    pub fn step_spikes(&mut self, channels: &[u32], out: &mut [f32]) -> Result<()> {
        self.step_spikes_as(channels, StepStatus::OK, out)
            .map_err(StepRefused::into_error)
    }

    /// One tick whose data did not come: the filters pass it in silence, and the
    /// [`Hold`](super::Hold) policy gives the outputs. Without one, the estimates slide to what silence
    /// means, and the step is flagged [`STALE`](StepStatus::STALE).
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `out` is not one per output.
    pub fn step_stale(&mut self, out: &mut [f32]) -> Result<()> {
        self.step_spikes_as(&[], StepStatus::STALE, out)
            .map_err(StepRefused::into_error)
    }

    /// [`step_spikes`](Self::step_spikes), of which `status` is known already.
    pub(super) fn step_spikes_as(
        &mut self,
        channels: &[u32],
        status: StepStatus,
        out: &mut [f32],
    ) -> std::result::Result<(), StepRefused> {
        let start = self.timing.as_ref().map(Timing::start);
        self.check_out(out)?;
        if self.unknown_channels == UnknownChannels::Refuse {
            let known = self.channels();
            if let Some(spike) = channels.iter().position(|c| *c as usize >= known) {
                return Err(StepRefused::UnknownChannel {
                    spike,
                    channel: channels[spike],
                    channels: known,
                });
            }
        }
        self.step_from(&Input::Spikes(channels), status, out, start);
        Ok(())
    }

    /// So many ticks without a spike at once, after a pause: filters and low-pass decay exactly (to
    /// rounding), and so does a model that is being swapped in; a head goes through the last ticks that it
    /// remembers one by one. No estimates are made; the session's clock goes on. Costs a few microseconds,
    /// and with a head so many steps. Nothing is allocated.
    pub fn skip(&mut self, ticks: u64) {
        let taken_over = self.running.skip(ticks, self.mailbox.as_ref());
        self.counters.swaps = self.counters.swaps.saturating_add(u64::from(taken_over));
        self.pending |= StepStatus::SWAPPED.when(taken_over);
        self.counters.skipped = self.counters.skipped.saturating_add(ticks);
        self.tick = self.tick.saturating_add_unsigned(ticks);
    }

    /// What the last step's estimates are worth.
    pub fn status(&self) -> StepStatus {
        self.status
    }

    /// The tick of the next step, on the session's clock: steps count it up from 0, a
    /// [`SpikeConsumer`](super::SpikeConsumer) sets it to its own.
    pub fn tick(&self) -> i64 {
        self.tick
    }

    /// Number of taps attached.
    pub fn taps(&self) -> usize {
        self.taps.len()
    }

    /// As many ticks as `counts` holds, (ticks, channels) row-major; `out` is (ticks, outputs).
    /// The same as one [`step_counts`](Self::step_counts) a tick.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `counts` is not a whole number of ticks or `out` holds not as
    /// many. Nothing has changed then.
    pub fn run_counts(&mut self, counts: &[u16], out: &mut [f32]) -> Result<()> {
        let (channels, outputs) = (self.channels(), self.outputs());
        let ticks = counts.len() / channels;
        if counts.len() != ticks * channels || out.len() != ticks * outputs {
            return Err(Error::mismatch(format!(
                "expected counts of (ticks, {channels}) and room for (ticks, {outputs}) estimates, got {} and {} values",
                counts.len(),
                out.len()
            )));
        }
        let rows = counts.chunks_exact(channels);
        for (counts, out) in rows.zip(out.chunks_exact_mut(outputs)) {
            self.step_counts(counts, out)?;
        }
        Ok(())
    }

    /// Back to rest, as at the start of a segment. Counters, latencies and the model stay; a model
    /// that is warming up takes over at once, since it has nothing to catch up with any more.
    pub fn reset(&mut self) {
        let taken_over = self.running.reset(self.mailbox.as_ref());
        self.counters.swaps = self.counters.swaps.saturating_add(u64::from(taken_over));
        self.pending |= StepStatus::SWAPPED.when(taken_over);
        self.holding.reset();
        self.taps.iter_mut().for_each(Attached::rest);
    }

    /// What was counted and how long steps took. Costs a few microseconds; no allocation.
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
            skipped,
            deadline_misses: self.timing.as_ref().map_or(0, Timing::misses),
            model_swaps: swaps,
            latency: (self.timing.as_ref()).map_or_else(Latency::default, Timing::latency),
        }
    }

    /// All counters and latencies back to zero.
    pub fn clear_stats(&mut self) {
        self.counters = Counters::default();
        if let Some(timing) = &mut self.timing {
            timing.clear();
        }
    }

    /// The handle through which another thread gives this session models while it runs. Allocates:
    /// take it when the session is opened.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) when it was taken before.
    pub fn swapper(&mut self) -> Result<Swapper> {
        if self.mailbox.is_some() {
            return Err(Error::argument(
                "swapper: expected one a session, got a second request",
            ));
        }
        let (model, length) = (Arc::clone(self.model()), self.checkpoint_len());
        let (swapper, mailbox) = super::swap::pair(model, self.mask.clone(), length);
        self.mailbox = Some(mailbox);
        Ok(swapper)
    }

    /// From now on every step publishes the session's [`Health`], which the reader (and its clones) may
    /// read from any thread; a step takes some 10 ns longer. Allocates once.
    pub fn health(&mut self) -> HealthReader {
        let published = Arc::clone(self.published.get_or_insert_default());
        published.write(self.current_health());
        HealthReader { published }
    }

    /// Counts spikes that never came to a step, or came after their own, or lay too far ahead.
    pub(super) fn count_losses(&mut self, dropped: u64, late: u64, future: u64) {
        self.counters.dropped = self.counters.dropped.saturating_add(dropped);
        self.counters.late = self.counters.late.saturating_add(late);
        self.counters.future = self.counters.future.saturating_add(future);
        self.pending |= StepStatus::DROPPED.when(dropped > 0)
            | StepStatus::LATE.when(late > 0)
            | StepStatus::FUTURE.when(future > 0);
    }

    /// A queue says which tick comes next.
    pub(super) fn set_clock(&mut self, tick: i64) {
        self.tick = tick;
        self.clock_is_set = true;
        self.taps.iter_mut().for_each(Attached::clock_was_set);
    }

    #[inline(always)]
    fn has_request(&self) -> bool {
        (self.mailbox.as_ref()).is_some_and(Mailbox::has_request)
    }

    /// Takes what the [`Swapper`] has sent now and not with the next steps, one request each: for whoever
    /// wants to see what comes of it first. Nothing is allocated or freed.
    pub fn take_requests(&mut self) {
        while self.has_request() {
            let changed = self.follow();
            self.pending |= StepStatus::SWAPPED.when(changed);
        }
    }

    pub(super) fn taps_mut(&mut self) -> &mut Vec<Attached> {
        &mut self.taps
    }

    /// Gives the tap back where there is no room for it.
    pub(super) fn add_tap(&mut self, mut tap: Attached) -> std::result::Result<(), Attached> {
        if self.taps.len() == MAX_TAPS {
            return Err(tap);
        }
        if self.clock_is_set {
            tap.clock_was_set();
        }
        tap.begin(self.tick);
        self.taps.push(tap);
        Ok(())
    }

    pub(super) fn holding(&self) -> &Holding {
        &self.holding
    }

    pub(super) fn holding_mut(&mut self) -> &mut Holding {
        &mut self.holding
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    pub(super) fn running(&self) -> &Running {
        &self.running
    }

    pub(super) fn running_mut(&mut self) -> &mut Running {
        &mut self.running
    }

    #[inline]
    fn check_out(&self, out: &[f32]) -> std::result::Result<(), StepRefused> {
        let (expected, got) = (self.outputs(), out.len());
        if got == expected {
            return Ok(());
        }
        Err(StepRefused::Outputs { expected, got })
    }

    #[inline]
    fn check_counts(&self, counts: usize) -> Result<()> {
        let channels = self.channels();
        if counts == channels {
            return Ok(());
        }
        Err(Error::mismatch(format!(
            "counts: expected {channels}, one per channel of the model, got {counts}"
        )))
    }

    #[inline(always)]
    fn step(&mut self, input: &Input<'_>, known: StepStatus, out: &mut [f32]) {
        let mut status = known | std::mem::take(&mut self.pending);
        if self.has_request() {
            status |= StepStatus::SWAPPED.when(self.follow());
        }
        let active = self.running.active_mut();
        let taken = active.take(input);
        active.advance();
        for (out, estimate) in out.iter_mut().zip(active.estimates()) {
            *out = *estimate as f32;
        }
        status |= StepStatus::UNKNOWN.when(taken.unknown > 0)
            | StepStatus::BLANKED.when(active.blanked())
            | StepStatus::OUT_OF_RANGE.when(active.outside());
        if self.running.is_swapping() {
            let beside = self.running.feed_other(input, out, self.mailbox.as_ref());
            let Beside { fading, taken_over } = beside;
            status |= StepStatus::FADING.when(fading);
            self.counters.swaps = self.counters.swaps.saturating_add(u64::from(taken_over));
            self.pending |= StepStatus::SWAPPED.when(taken_over);
        }
        if self.holding.catch_non_finite(out) {
            status |= StepStatus::NON_FINITE;
            self.mend();
        }
        if let Some(clamp) = &self.clamp {
            let mut clamped = false;
            for (out, Clamp { low, high }) in out.iter_mut().zip(clamp) {
                let bounded = out.clamp(*low, *high);
                clamped |= bounded != *out;
                *out = bounded;
            }
            status |= StepStatus::CLAMPED.when(clamped);
        }
        self.holding.judge(&mut status, out);
        self.status = status;
        self.counters.ticks = self.counters.ticks.saturating_add(1);
        self.counters.spikes = self.counters.spikes.saturating_add(taken.known);
        self.counters.unknown = self.counters.unknown.saturating_add(taken.unknown);
    }

    /// Filters whose states are no numbers any more would never come back: they start from rest.
    #[cold]
    fn mend(&mut self) {
        let active = self.running.active_mut();
        if !active.states().all(|state| state.is_finite()) {
            active.reset();
        }
    }

    /// What comes after a step's estimates: taps, clock, timing, what other threads read.
    #[inline(always)]
    fn finish(&mut self, input: &Input<'_>, out: &[f32], start: Option<u64>) {
        if !self.taps.is_empty() {
            let step = Step {
                tick: self.tick,
                input: *input,
                estimates: out,
                status: self.status,
                previous_latency_ns: self.timing.as_ref().map_or(0, Timing::last_ns),
                swap: self.running.state(),
            };
            self.taps.iter_mut().for_each(|tap| tap.take(&step));
        }
        self.tick = self.tick.saturating_add(1);
        self.clock_is_set = false;
        if let (Some(timing), Some(start)) = (&mut self.timing, start) {
            timing.stop(start);
        }
        if let Some(published) = &self.published {
            published.write(self.current_health());
        }
    }

    fn current_health(&self) -> Health {
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
        let timing = self.timing.as_ref();
        Health {
            tick: self.tick.saturating_sub(1),
            status: self.status,
            ticks,
            skipped,
            spikes,
            unknown_channel_spikes: unknown,
            dropped,
            late,
            future,
            model_swaps: swaps,
            deadline_misses: timing.map_or(0, Timing::misses),
            latency_ns: timing.map_or(0, |timing| timing.last_ns().into()),
            longest_ns: timing.map_or(0, Timing::longest_ns),
            model: self.model().fingerprint(),
            swap: self.running.state(),
        }
    }

    /// Takes one request at a tick's boundary; true when another model gives the estimates from now on.
    /// Moves pointers only.
    #[cold]
    fn follow(&mut self) -> bool {
        let Some(command) = self.mailbox.as_mut().and_then(Mailbox::next) else {
            return false;
        };
        let mut changed = false;
        let retired = match command {
            Command::Swap {
                mut engine,
                warm_up,
                fade,
                replayed_to,
            } => {
                if let Some(replayed_to) = replayed_to {
                    let since = self.tick.saturating_sub(replayed_to).max(0);
                    engine.skip(since as u64);
                }
                let (before, at_once) = self.running.swap_in(engine, warm_up, fade);
                changed = at_once;
                before.map(Retired::Engine)
            }
            Command::RollBack => {
                let (other, back) = self.running.roll_back();
                changed = back;
                other.map(Retired::Engine)
            }
            Command::Release => self.running.release().map(Retired::Engine),
            Command::Mask(model) => {
                let before = self.running.active_mut().exchange_rows(model);
                Some(Retired::Model(before))
            }
            Command::Clamp(clamp) => {
                let before = std::mem::replace(&mut self.clamp, clamp);
                Some(Retired::Clamp(before))
            }
            Command::Attach(tap) => self.add_tap(tap).err().map(Retired::Tap),
            Command::Detach => self.taps.pop().map(Retired::Tap),
            Command::Checkpoint(mut bytes) => {
                // Truncating keeps the memory: nothing is freed here.
                let length = self.checkpoint_into(&mut bytes).unwrap_or(0);
                bytes.truncate(length);
                Some(Retired::Checkpoint(bytes))
            }
        };
        self.counters.swaps = self.counters.swaps.saturating_add(u64::from(changed));
        if let Some(mailbox) = &mut self.mailbox {
            if let Some(retired) = retired {
                mailbox.retire(retired);
            }
            self.running.tell(mailbox);
        }
        changed
    }
}

/// The clone goes on bit for bit as the original does. It shares the model's weights, has counters,
/// latencies and a warming model of its own, no [`Swapper`] yet, no reader and no [`Tap`](super::Tap).
impl Clone for Session {
    fn clone(&self) -> Self {
        Self {
            running: self.running.clone(),
            mailbox: None,
            mask: self.mask.clone(),
            clamp: self.clamp.clone(),
            unknown_channels: self.unknown_channels,
            timing: self.timing.clone(),
            counters: self.counters,
            tick: self.tick,
            clock_is_set: false,
            pending: self.pending,
            status: self.status,
            holding: self.holding.clone(),
            taps: Vec::with_capacity(MAX_TAPS),
            published: None,
        }
    }
}
