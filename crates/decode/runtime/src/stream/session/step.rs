//! The step of a session: its inputs and its work.

use super::{Form, Session};
use crate::stream::running::FadeState;
use crate::stream::tap::{Input, Step};
use crate::stream::timing::Timing;
use crate::stream::{Clamp, StepRefused, StepStatus, UnknownChannels};
use betz_base::error::Result;

impl Session {
    /// Decodes one tick of binned counts, one per channel, and writes one estimate per output to `out`.
    /// [`status`](Self::status) reports how far the estimates can be trusted.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `counts` is not one per channel or `out` not one per output.
    /// Nothing has changed then and `out` is untouched.
    pub fn step_counts(&mut self, counts: &[u16], out: &mut [f32]) -> Result<()> {
        self.try_step(&Input::Counts(counts), out)
            .map_err(StepRefused::into_error)
    }

    /// Decodes one tick of 8-bit counts, otherwise like [`step_counts`](Self::step_counts).
    ///
    /// # Errors
    /// The same as for [`step_counts`](Self::step_counts).
    pub fn step_counts_u8(&mut self, counts: &[u8], out: &mut [f32]) -> Result<()> {
        self.try_step(&Input::CountsU8(counts), out)
            .map_err(StepRefused::into_error)
    }

    /// Decodes one tick of counts that need not be whole (weighted, smoothed), otherwise like
    /// [`step_counts`](Self::step_counts).
    ///
    /// # Errors
    /// The errors of [`step_counts`](Self::step_counts), and
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a count that is not finite, below 0 or
    /// above 65,535.
    pub fn step_counts_f32(&mut self, counts: &[f32], out: &mut [f32]) -> Result<()> {
        self.try_step_weighted(counts, out)
            .map_err(StepRefused::into_error)
    }

    /// Decodes one tick of features of any sign, one per channel, such as the power in a band, with a model that was
    /// trained on a signal; otherwise like [`step_counts`](Self::step_counts).
    ///
    /// # Errors
    /// The errors of [`step_counts`](Self::step_counts), and
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a value that is not finite or exceeds
    /// 10¹⁵ in magnitude.
    pub fn step_values(&mut self, values: &[f32], out: &mut [f32]) -> Result<()> {
        self.try_step(&Input::CountsF32(values), out)
            .map_err(StepRefused::into_error)
    }

    /// Decodes one tick of any input. A refusal allocates nothing.
    ///
    /// # Errors
    /// The errors of [`step_counts`](Self::step_counts), [`step_values`](Self::step_values) and
    /// [`step_spikes`](Self::step_spikes). Nothing changes then, and `out` is untouched.
    #[inline]
    pub fn try_step(
        &mut self,
        input: &Input<'_>,
        out: &mut [f32],
    ) -> core::result::Result<(), StepRefused> {
        self.try_step_as(input, StepStatus::OK, out)
    }

    /// The same as [`step_counts_f32`](Self::step_counts_f32), but a refusal allocates nothing.
    ///
    /// # Errors
    /// The same as for [`step_counts_f32`](Self::step_counts_f32).
    pub fn try_step_weighted(
        &mut self,
        counts: &[f32],
        out: &mut [f32],
    ) -> core::result::Result<(), StepRefused> {
        self.check_counts(counts.len())?;
        let believed = |count: &f32| (0.0..=65535.0).contains(count);
        if let Some(channel) = counts.iter().position(|count| !believed(count)) {
            return Err(StepRefused::Count {
                channel,
                got: counts[channel],
            });
        }
        self.try_step(&Input::CountsF32(counts), out)
    }

    /// Decodes one tick from the channels that fired, one entry per spike, in any order, and writes one estimate per
    /// output to `out`. The cost grows with the number of spikes, not of channels.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `out` is not one per output, or when a channel is unknown and
    /// the policy is [`UnknownChannels::Refuse`]. Nothing has changed then and `out` is untouched.
    pub fn step_spikes(&mut self, channels: &[u32], out: &mut [f32]) -> Result<()> {
        self.try_step(&Input::Spikes(channels), out)
            .map_err(StepRefused::into_error)
    }

    /// Steps one tick whose data did not arrive. The filters advance as in silence, and the
    /// [`Hold`](crate::stream::Hold) policy gives the outputs. Without a policy the estimates drift to those of
    /// silence, and the step is flagged [`STALE`](StepStatus::STALE).
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `out` is not one per output.
    pub fn step_stale(&mut self, out: &mut [f32]) -> Result<()> {
        self.try_step_stale(out).map_err(StepRefused::into_error)
    }

    /// The same as [`step_stale`](Self::step_stale), but a refusal allocates nothing.
    ///
    /// # Errors
    /// The same as for [`step_stale`](Self::step_stale).
    pub fn try_step_stale(&mut self, out: &mut [f32]) -> core::result::Result<(), StepRefused> {
        self.try_step_as(&Input::Spikes(&[]), StepStatus::STALE, out)
    }

    /// The same as [`try_step`](Self::try_step), with flags that are known already.
    #[inline]
    pub(in crate::stream) fn try_step_as(
        &mut self,
        input: &Input<'_>,
        status: StepStatus,
        out: &mut [f32],
    ) -> core::result::Result<(), StepRefused> {
        let start = self.timing.as_ref().map(Timing::start);
        self.check_out(out)?;
        if let Input::Spikes(channels) = input
            && channels.len() > self.max_spikes
        {
            return self.try_step_capped(channels, status, out);
        }
        match input {
            Input::Counts(counts) => self.check_counts(counts.len())?,
            Input::CountsU8(counts) => self.check_counts(counts.len())?,
            Input::CountsF32(values) => {
                self.check_counts(values.len())?;
                // NaN is not below 1e15 either.
                let believed = |value: &f32| value.abs() <= 1e15;
                if let Some(channel) = values.iter().position(|value| !believed(value)) {
                    return Err(StepRefused::Value {
                        channel,
                        got: values[channel],
                    });
                }
            }
            Input::Spikes(channels) => {
                let known = self.channels();
                let unknown = |c: &u32| *c as usize >= known;
                if self.unknown_channels == UnknownChannels::Refuse
                    && let Some(spike) = channels.iter().position(unknown)
                {
                    return Err(StepRefused::UnknownChannel {
                        spike,
                        channel: channels[spike],
                        channels: known,
                    });
                }
            }
        }
        self.step_from(input, status, out, start);
        Ok(())
    }

    /// A step that leaves out the spikes beyond [`max_spikes`](crate::stream::SessionConfig::max_spikes).
    #[cold]
    fn try_step_capped(
        &mut self,
        channels: &[u32],
        status: StepStatus,
        out: &mut [f32],
    ) -> core::result::Result<(), StepRefused> {
        let (taken, left_out) = channels.split_at(self.max_spikes);
        let before = self.capped;
        // Counted first, because the step publishes its health.
        self.capped = before.saturating_add(left_out.len() as u64);
        let taken = Input::Spikes(taken);
        let done = self.try_step_as(&taken, status | StepStatus::CAPPED, out);
        if done.is_err() {
            self.capped = before;
        }
        done
    }

    /// One step, and the end of it: one copy for all inputs, which are told apart once in it.
    #[inline(never)]
    pub(super) fn step_from(
        &mut self,
        input: &Input<'_>,
        status: StepStatus,
        out: &mut [f32],
        start: Option<u64>,
    ) {
        self.step(input, status, out);
        self.finish(input, out, start);
    }

    #[inline]
    fn check_out(&self, out: &[f32]) -> core::result::Result<(), StepRefused> {
        let (expected, got) = (self.outputs(), out.len());
        if got == expected {
            return Ok(());
        }
        Err(StepRefused::Outputs { expected, got })
    }

    #[inline]
    fn check_counts(&self, got: usize) -> core::result::Result<(), StepRefused> {
        let expected = self.channels();
        if got == expected {
            return Ok(());
        }
        Err(StepRefused::Channels { expected, got })
    }

    #[inline(always)]
    fn step(&mut self, input: &Input<'_>, known: StepStatus, out: &mut [f32]) {
        self.form = Form::of(input);
        let mut status = known | core::mem::take(&mut self.pending);
        #[cfg(feature = "std")]
        if self.has_request() {
            status |= StepStatus::SWAPPED.when(self.follow());
        }
        if let Some(counted) = &self.counted {
            status |= counted.take(input);
            if let Some(watch) = &mut self.watch {
                watch.look();
            }
        }
        let active = self.running.active_mut();
        active.set_gate_open(status.contains(StepStatus::CHANNELS));
        let taken = active.take(input);
        active.advance();
        for (out, estimate) in out.iter_mut().zip(active.estimates()) {
            *out = *estimate as f32;
        }
        status |= StepStatus::UNKNOWN.when(taken.unknown > 0)
            | StepStatus::BLANKED.when(active.blanked())
            | StepStatus::OUT_OF_RANGE.when(active.outside())
            | StepStatus::STALE.when(active.is_behind());
        if self.running.is_swapping() {
            let beside = self.running.feed_other(input, out, self.mailbox.as_ref());
            let FadeState { fading, taken_over } = beside;
            status |= StepStatus::FADING.when(fading);
            self.counters.swaps = self.counters.swaps.saturating_add(u64::from(taken_over));
            self.pending |= StepStatus::SWAPPED.when(taken_over);
        }
        if self.holding.catch_non_finite(out) {
            status |= StepStatus::NON_FINITE;
            self.mend();
        }
        status |= self.keep_in_bounds(out);
        if let Some(slew) = &self.slew {
            status |= StepStatus::SLEWED.when(slew.keep(out));
        }
        self.holding.judge(&mut status, out);
        if let Some(slew) = &self.slew {
            // The limit also holds for outputs that a policy has replaced.
            status |= StepStatus::SLEWED.when(slew.keep(out));
        }
        // The bounds are hard: slew limits and rest values do not go beyond them.
        status |= self.keep_in_bounds(out);
        if let Some(slew) = &mut self.slew {
            slew.give(out);
        }
        self.status = status;
        if self.events.is_some() {
            self.detect_events(status);
        }
        self.counters.ticks = self.counters.ticks.saturating_add(1);
        self.counters.spikes = self.counters.spikes.saturating_add(taken.known);
        self.counters.unknown = self.counters.unknown.saturating_add(taken.unknown);
    }

    /// Clamps `out`, if there are bounds.
    #[inline(always)]
    fn keep_in_bounds(&self, out: &mut [f32]) -> StepStatus {
        let mut clamped = false;
        for (out, Clamp { low, high }) in out.iter_mut().zip(self.clamp.iter().flatten()) {
            let bounded = out.clamp(*low, *high);
            clamped |= bounded != *out;
            *out = bounded;
        }
        StepStatus::CLAMPED.when(clamped)
    }

    /// Resets filters whose states are not finite, because they would never recover.
    #[cold]
    fn mend(&mut self) {
        let active = self.running.active_mut();
        if !active.states().all(|state| state.is_finite()) {
            active.reset();
        }
    }

    /// The end of a step, after its estimates: taps, clock, timing, and the state for other threads.
    #[inline(always)]
    fn finish(&mut self, input: &Input<'_>, out: &[f32], start: Option<u64>) {
        if !self.taps.is_empty() {
            let step = Step {
                tick: self.tick,
                input: *input,
                estimates: out,
                beside: self.running.beside(),
                classes: self.running.active().classes(),
                status: self.status,
                previous_latency_ns: self.timing.as_ref().map_or(0, Timing::last_ns),
                swap: self.running.state(),
            };
            self.taps.iter_mut().for_each(|tap| tap.take(&step));
        }
        self.stepped = Some(self.tick);
        self.tick = self.tick.saturating_add(1);
        self.clock_is_set = false;
        if let (Some(timing), Some(start)) = (&mut self.timing, start) {
            timing.stop(start);
        }
        #[cfg(feature = "std")]
        if let Some(published) = &self.published {
            published.write(self.current_health());
        }
    }
}
