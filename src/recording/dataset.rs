//! A recording on a model's clock.

use super::{OutputInfo, Segment, Spikes, check_segments};
use crate::error::{Error, Result};

/// Spikes and behaviour on a model's clock of `step_seconds`; what training and decoding consume.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Length of one step in seconds.
    pub step_seconds: f64,
    /// Number of steps.
    pub steps: usize,
    /// One name a channel.
    pub channel_names: Vec<String>,
    /// Spikes in steps, ascending; all inside `0..steps`. Spikes outside every segment may be
    /// present and are ignored.
    pub spikes: Spikes,
    /// Trials in steps, half-open, ascending, disjoint, never empty.
    pub segments: Vec<Segment>,
    /// One entry an output; empty when no behaviour was recorded.
    pub outputs: Vec<OutputInfo>,
    /// Behaviour, row-major (steps, outputs); finite inside segments. Empty without behaviour.
    pub behavior: Vec<f32>,
}

impl Dataset {
    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channel_names.len()
    }

    /// Number of steps inside segments.
    pub fn steps_in_segments(&self) -> usize {
        self.segments.iter().map(Segment::len).sum()
    }

    /// The dataset with only these of its segments (numbers into [`Dataset::segments`], in any
    /// order; a repeated number counts once), on the same clock: folds, training and test parts.
    ///
    /// Copies the spikes inside the chosen segments and the whole behaviour.
    ///
    /// # Panics
    /// When a number is out of range, as indexing does.
    #[must_use]
    pub fn select(&self, segments: &[usize]) -> Self {
        let mut chosen: Vec<usize> = segments.to_vec();
        chosen.sort_unstable();
        chosen.dedup();
        let segments: Vec<Segment> = chosen.iter().map(|&i| self.segments[i]).collect();
        let mut spikes = Spikes::default();
        for s in &segments {
            let inside = self.spikes.range(s.start, s.stop);
            spikes
                .ticks
                .extend_from_slice(&self.spikes.ticks[inside.clone()]);
            spikes
                .channels
                .extend_from_slice(&self.spikes.channels[inside]);
        }
        Self {
            step_seconds: self.step_seconds,
            steps: self.steps,
            channel_names: self.channel_names.clone(),
            spikes,
            segments,
            outputs: self.outputs.clone(),
            behavior: self.behavior.clone(),
        }
    }

    /// Checks the type's invariants, for datasets that were put together by hand;
    /// [`Recording::align`](super::Recording::align) gives checked ones.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`](crate::error::ErrorKind::InvalidRecording) with the field and
    /// first position at fault.
    pub fn check(&self) -> Result<()> {
        if !(self.step_seconds.is_finite() && self.step_seconds > 0.0) {
            return Err(Error::recording(format!(
                "expected a finite step > 0 s, got {}",
                self.step_seconds
            )));
        }
        if self.channel_names.is_empty() {
            return Err(Error::recording("expected at least one channel, got none"));
        }
        let steps = i64::try_from(self.steps)
            .map_err(|_| Error::recording(format!("{} steps are too many", self.steps)))?;
        self.spikes.check(steps, self.channels())?;
        check_segments(&self.segments, steps)?;
        let outputs = self.outputs.len();
        if Some(self.behavior.len()) != self.steps.checked_mul(outputs) {
            return Err(Error::recording(format!(
                "behaviour: expected {} steps × {outputs} outputs, got {} values",
                self.steps,
                self.behavior.len()
            )));
        }
        for s in &self.segments {
            let inside = s.start as usize * outputs..s.stop as usize * outputs;
            if let Some(i) = self.behavior[inside].iter().position(|v| !v.is_finite()) {
                let at = s.start as usize * outputs + i;
                return Err(Error::recording(format!(
                    "behaviour: [{}, {}] (`{}`) = {}: expected a finite value",
                    at / outputs,
                    at % outputs,
                    self.outputs[at % outputs].name,
                    self.behavior[at]
                )));
            }
        }
        Ok(())
    }
}
