//! Ticks of a recording as steps of a dataset.

use std::ops::Range;

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::text::number;

use super::{Recording, Segment, SpikeForm};

/// Largest number of behaviour values (steps × outputs) of a [`Dataset`]: 8 GiB.
const MAX_VALUES: usize = 1 << 31;

/// Converts ticks to steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepClock {
    pub(crate) step_seconds: f64,
    pub(crate) tick_seconds: f64,
    /// Ticks per step if that is a whole number; all arithmetic is then in integers.
    pub(crate) whole: Option<i64>,
}

impl StepClock {
    pub(crate) fn new(recording: &Recording, step_seconds: f64) -> Result<Self> {
        let tick_seconds = recording.tick_seconds;
        if !(step_seconds.is_finite() && step_seconds > 0.0) {
            return Err(Error::argument(format!(
                "expected a finite step > 0 s, got {step_seconds}"
            )));
        }
        let ratio = step_seconds / tick_seconds;
        let nearest = ratio.round();
        // Bins can only be merged whole, so a step written with few digits is taken for a multiple of the bin. Spike
        // times are converted exactly, unless the two clocks agree to the last digits.
        let tolerance = match recording.form {
            SpikeForm::Counts | SpikeForm::Signal => 1e-6,
            SpikeForm::Events => 1e-12,
        };
        let whole = ((ratio - nearest).abs() <= tolerance * ratio && nearest >= 1.0)
            .then_some(nearest as i64);
        if recording.form != SpikeForm::Events && whole.is_none() {
            let what = match recording.form {
                SpikeForm::Signal => "samples cannot be split",
                _ => "binned counts cannot be split",
            };
            return Err(Error::argument(format!(
                "expected a step of one or several whole bins of {tick_seconds} s, got {step_seconds} s: {what}"
            )));
        }
        if whole.is_none() && ratio < 1.0 {
            return Err(Error::argument(format!(
                "expected a step of at least one tick ({tick_seconds} s), got {step_seconds} s"
            )));
        }
        Ok(Self {
            step_seconds,
            tick_seconds,
            whole,
        })
    }

    /// Number of whole steps of `recording`.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] for no step, [`ErrorKind::InvalidArgument`] for more steps than memory should
    /// hold.
    pub(crate) fn checked_steps(&self, recording: &Recording) -> Result<usize> {
        let steps = self.whole_steps_before(recording.ticks);
        if steps == 0 {
            return Err(self.too_short(recording));
        }
        let outputs = recording.behavior.as_ref().map_or(0, |b| b.outputs.len());
        let steps = usize::try_from(steps).unwrap_or(usize::MAX);
        if steps.saturating_mul(outputs.max(1)) > MAX_VALUES {
            return Err(Error::argument(format!(
                "expected at most {MAX_VALUES} values of behaviour, got {steps} steps of {} s with {outputs} outputs: choose a longer step",
                number(self.step_seconds)
            )));
        }
        Ok(steps)
    }

    pub(crate) fn too_short(&self, recording: &Recording) -> Error {
        Error::new(
            ErrorKind::InsufficientData,
            format!(
                "expected at least one step of {} s, got a recording of {} s",
                number(self.step_seconds),
                number(recording.seconds())
            ),
        )
    }

    /// The first tick of `step`.
    #[cfg(feature = "npz")]
    pub(crate) fn first_tick(&self, step: i64) -> i64 {
        match self.whole {
            Some(n) => step * n,
            None => {
                let near = (step as f64 * self.ratio()).floor() as i64;
                // Rounding is wrong by one tick at most.
                let first = (near - 1..=near + 2).find(|&tick| self.step_of(tick.max(0)) >= step);
                first.unwrap_or(near).max(0)
            }
        }
    }

    /// Whole steps inside `segment`, which is in ticks.
    pub(crate) fn whole_steps_of(&self, segment: &Segment) -> Segment {
        Segment {
            start: self.first_whole_step(segment.start),
            stop: self.whole_steps_before(segment.stop),
        }
    }

    /// The whole steps of `segments` inside `steps`, counted from the first of them.
    pub(crate) fn segments_within(
        &self,
        segments: &[Segment],
        steps: &Range<i64>,
    ) -> impl Iterator<Item = Segment> {
        let (first, stop) = (steps.start, steps.end);
        let whole = segments.iter().map(|s| self.whole_steps_of(s));
        let here = whole.map(move |s| Segment {
            start: s.start.max(first) - first,
            stop: s.stop.min(stop) - first,
        });
        here.filter(|s| !s.is_empty())
    }

    /// Number of `segments` (in ticks) without a step in `kept` (in steps).
    pub(crate) fn dropped(&self, segments: &[Segment], kept: &[Segment]) -> usize {
        let is_dropped = |segment: &&Segment| {
            let Segment { start, stop } = self.whole_steps_of(segment);
            let next = kept.partition_point(|kept| kept.stop <= start);
            kept.get(next).is_none_or(|kept| kept.start >= stop)
        };
        segments.iter().filter(is_dropped).count()
    }

    fn ratio(&self) -> f64 {
        self.step_seconds / self.tick_seconds
    }

    /// The step that covers `tick` (at or after 0).
    pub(crate) fn step_of(&self, tick: i64) -> i64 {
        match self.whole {
            Some(n) => tick / n,
            None => (tick as f64 / self.ratio()).floor() as i64,
        }
    }

    /// The first step that starts at `tick` or later.
    fn first_whole_step(&self, tick: i64) -> i64 {
        match self.whole {
            Some(n) => (tick / n) + i64::from(tick % n != 0),
            None => (tick as f64 / self.ratio()).ceil() as i64,
        }
    }

    /// The number of steps that end at `tick` or earlier.
    pub(crate) fn whole_steps_before(&self, tick: i64) -> i64 {
        self.step_of(tick)
    }

    /// The end of `step` in seconds.
    pub(crate) fn end_seconds(&self, step: i64) -> f64 {
        (step + 1) as f64 * self.step_seconds
    }
}
