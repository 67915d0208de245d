//! A step of a session: what may come in, and what is done with it.

use super::{Form, Session};
use crate::stream::running::Beside;
use crate::stream::tap::{Input, Step};
use crate::stream::timing::Timing;
use crate::stream::{Clamp, StepRefused, StepStatus, UnknownChannels};
use betz_base::error::{Error, Result};

impl Session {
    /// One tick from binned counts, one per channel; the estimates go to `out`, one per output.
    /// [`status`](Self::status) reports how far they can be trusted.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `counts` is not one per channel or `out` not one per output.
    /// Nothing has changed then and `out` is untouched.
    pub fn step_counts(&mut self, counts: &[u16], out: &mut [f32]) -> Result<()> {
        self.try_step(&Input::Counts(counts), out)
            .map_err(StepRefused::into_error)
    }

    /// As [`step_counts`](Self::step_counts), from counts of 8 bits.
    ///
    /// # Errors
    /// As [`step_counts`](Self::step_counts).
    pub fn step_counts_u8(&mut self, counts: &[u8], out: &mut [f32]) -> Result<()> {
        self.try_step(&Input::CountsU8(counts), out)
            .map_err(StepRefused::into_error)
    }

    /// As [`step_counts`](Self::step_counts), from counts that need not be whole (weighted, smoothed).
    ///
    /// # Errors
    /// As [`step_counts`](Self::step_counts), and [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a count that is not
    /// finite, below 0 or above 65,535.
    pub fn step_counts_f32(&mut self, counts: &[f32], out: &mut [f32]) -> Result<()> {
        self.try_step_weighted(counts, out)
            .map_err(StepRefused::into_error)
    }

    /// As [`step_counts`](Self::step_counts), from features of any sign, one per channel, such as the
    /// power in a band: what a model of a [`signal`](betz_recording::SpikeForm::Signal) was trained on.
    ///
    /// # Errors
    /// As [`step_counts`](Self::step_counts), and [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a value that is not
    /// finite, or further than 10¹⁵ from 0.
    pub fn step_values(&mut self, values: &[f32], out: &mut [f32]) -> Result<()> {
        self.try_step(&Input::CountsF32(values), out)
            .map_err(StepRefused::into_error)
    }

    /// One tick from any input, with a refusal that allocates nothing.
    ///
    /// # Errors
    /// The errors of [`step_counts`](Self::step_counts), [`step_values`](Self::step_values) and
    /// [`step_spikes`](Self::step_spikes). Nothing changes then, and `out` is untouched.
    #[inline]
    pub fn try_step(
        &mut self,
        input: &Input<'_>,
        out: &mut [f32],
    ) -> std::result::Result<(), StepRefused> {
        self.try_step_as(input, StepStatus::OK, out)
    }

    /// As [`step_counts_f32`](Self::step_counts_f32), with a refusal that allocates nothing.
    ///
    /// # Errors
    /// As [`step_counts_f32`](Self::step_counts_f32).
    pub fn try_step_weighted(
        &mut self,
        counts: &[f32],
        out: &mut [f32],
    ) -> std::result::Result<(), StepRefused> {
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

    /// One tick from the channels that fired, one entry per spike, in any order; the estimates go to
    /// `out`, one per output. The cost grows with the spikes, not with the channels there are.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `out` is not one per output, or when a channel is unknown and
    /// the policy is [`UnknownChannels::Refuse`]. Nothing has changed then and `out` is untouched.
    pub fn step_spikes(&mut self, channels: &[u32], out: &mut [f32]) -> Result<()> {
        self.try_step(&Input::Spikes(channels), out)
            .map_err(StepRefused::into_error)
    }

    /// One tick whose data did not come: the filters pass it in silence, and the
    /// [`Hold`](crate::stream::Hold) policy gives the outputs. Without one, the estimates slide to what silence
    /// means, and the step is flagged [`STALE`](StepStatus::STALE).
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `out` is not one per output.
    pub fn step_stale(&mut self, out: &mut [f32]) -> Result<()> {
        self.try_step_stale(out).map_err(StepRefused::into_error)
    }

    /// As [`step_stale`](Self::step_stale), with a refusal that allocates nothing.
    ///
    /// # Errors
    /// As [`step_stale`](Self::step_stale).
    pub fn try_step_stale(&mut self, out: &mut [f32]) -> std::result::Result<(), StepRefused> {
        self.try_step_as(&Input::Spikes(&[]), StepStatus::STALE, out)
    }

    /// [`try_step`](Self::try_step), of which `status` is known already.
    #[inline]
    pub(in crate::stream) fn try_step_as(
        &mut self,
        input: &Input<'_>,
        status: StepStatus,
        out: &mut [f32],
    ) -> std::result::Result<(), StepRefused> {
        let start = self.timing.as_ref().map(Timing::start);
        self.check_out(out)?;
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

    /// Steps through all ticks of `counts`, (ticks, channels) row-major; `out` is (ticks, outputs). Gives the same
    /// result as one [`step_counts`](Self::step_counts) per tick.
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
    fn check_out(&self, out: &[f32]) -> std::result::Result<(), StepRefused> {
        let (expected, got) = (self.outputs(), out.len());
        if got == expected {
            return Ok(());
        }
        Err(StepRefused::Outputs { expected, got })
    }

    #[inline]
    fn check_counts(&self, got: usize) -> std::result::Result<(), StepRefused> {
        let expected = self.channels();
        if got == expected {
            return Ok(());
        }
        Err(StepRefused::Channels { expected, got })
    }

    #[inline(always)]
    fn step(&mut self, input: &Input<'_>, known: StepStatus, out: &mut [f32]) {
        self.form = Form::of(input);
        let mut status = known | std::mem::take(&mut self.pending);
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
        status |= self.keep_in_bounds(out);
        if let Some(slew) = &self.slew {
            status |= StepStatus::SLEWED.when(slew.keep(out));
        }
        self.holding.judge(&mut status, out);
        if let Some(slew) = &self.slew {
            // Outputs that a policy puts in their place are held to it too.
            status |= StepStatus::SLEWED.when(slew.keep(out));
        }
        // The bounds are hard: a limit of change, or where held outputs come to rest, does not go beyond them.
        status |= self.keep_in_bounds(out);
        if let Some(slew) = &mut self.slew {
            slew.give(out);
        }
        self.status = status;
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

    /// Filters whose states are no numbers any more would never come back: they start from rest.
    #[cold]
    fn mend(&mut self) {
        let active = self.running.active_mut();
        if !active.states().all(|state| state.is_finite()) {
            active.reset();
        }
    }

    /// The end of a step, after its estimates: taps, clock, timing, and the state that other threads read.
    #[inline(always)]
    fn finish(&mut self, input: &Input<'_>, out: &[f32], start: Option<u64>) {
        if !self.taps.is_empty() {
            let step = Step {
                tick: self.tick,
                input: *input,
                estimates: out,
                beside: self.running.beside(),
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
}
