//! A recording on a model's clock.

use super::channels::invented;
use super::{OutputInfo, Segment, Spikes, check_segments};
use betz_base::error::{Error, ErrorKind, Result};
use std::ops::Range;

/// Spikes and behaviour on a model's clock of `step_seconds`: the input of training and decoding.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Length of one step in seconds.
    pub step_seconds: f64,
    /// Number of steps.
    pub steps: usize,
    /// One name per channel, all different.
    pub channel_names: Vec<String>,
    /// Spikes in steps, ascending; all inside `0..steps`. Spikes outside every segment may be
    /// present and are ignored.
    pub spikes: Spikes,
    /// Trials in steps, half-open, ascending, disjoint, never empty.
    pub segments: Vec<Segment>,
    /// One entry per output, names all different; empty when no behaviour was recorded.
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

    /// Returns the dataset with only these of its segments, on the same clock, for folds, training and test parts.
    /// `segments` are indices into [`Dataset::segments`], in any order; a repeated index counts once.
    ///
    /// Copies the spikes inside the chosen segments and the whole behaviour.
    ///
    /// # Panics
    /// Panics if an index is out of range.
    #[must_use]
    pub fn select(&self, segments: &[usize]) -> Self {
        let mut chosen: Vec<usize> = segments.to_vec();
        chosen.sort_unstable();
        chosen.dedup();
        self.within(chosen.iter().map(|&i| self.segments[i]).collect())
    }

    /// Cuts the dataset to the time from `from_seconds` (inclusive) to `until_seconds` (exclusive). Segments are
    /// clipped, and those wholly outside are dropped. Filters start at rest at a clipped segment's start. The clock
    /// keeps its origin.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) if a time is NaN or the first is
    /// not before the second; [`ErrorKind::InsufficientData`](betz_base::error::ErrorKind::InsufficientData) if no step
    /// is left.
    pub fn between(&self, from_seconds: f64, until_seconds: f64) -> Result<Self> {
        let steps = self.steps as i64;
        let inside = Self::steps_between(self.step_seconds, steps, from_seconds, until_seconds)?;
        let (first, stop) = (inside.start, inside.end);
        let clipped: Vec<Segment> = self
            .segments
            .iter()
            .map(|s| Segment {
                start: s.start.max(first),
                stop: s.stop.min(stop),
            })
            .filter(|s| !s.is_empty())
            .collect();
        if clipped.is_empty() {
            return Err(Self::nothing_between(
                self.step_seconds,
                steps,
                from_seconds,
                until_seconds,
            ));
        }
        Ok(self.within(clipped))
    }

    /// Steps that begin at or after `from_seconds` and before `until_seconds`.
    pub(crate) fn steps_between(
        step_seconds: f64,
        steps: i64,
        from_seconds: f64,
        until_seconds: f64,
    ) -> Result<Range<i64>> {
        if from_seconds.is_nan() || until_seconds.is_nan() || from_seconds >= until_seconds {
            return Err(Error::argument(format!(
                "expected a time range with its start before its end, got {from_seconds} s to {until_seconds} s"
            )));
        }
        // First step at or after a time; tolerates rounding of a step's own time.
        let step_at = |seconds: f64| {
            let step = (seconds / step_seconds - 1e-6).ceil();
            step.clamp(0.0, steps as f64) as i64
        };
        Ok(step_at(from_seconds)..step_at(until_seconds))
    }

    pub(crate) fn nothing_between(
        step_seconds: f64,
        steps: i64,
        from_seconds: f64,
        until_seconds: f64,
    ) -> Error {
        Error::new(
            ErrorKind::InsufficientData,
            format!(
                "expected a step of a segment from {from_seconds} s to {}, got none in a recording of {} s",
                if until_seconds.is_finite() {
                    format!("{until_seconds} s")
                } else {
                    "the end".to_owned()
                },
                steps as f64 * step_seconds
            ),
        )
    }

    /// Returns the same behaviour with the given ascending `segments` and the spikes inside them.
    fn within(&self, segments: Vec<Segment>) -> Self {
        let mut spikes = Spikes::default();
        for s in &segments {
            spikes.extend_from(&self.spikes, self.spikes.range(s.start, s.stop));
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

    /// Selects the outputs `wanted`, matched by name, in that order. If either side has only generated names (`output0`
    /// …), outputs are matched by position; both sides must then have the same number.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::error::ErrorKind::Mismatch) with the first output that is missing or has
    /// another unit (if both sides have one).
    pub fn with_outputs(mut self, wanted: &[OutputInfo]) -> Result<Self> {
        let unnamed = |list: &[OutputInfo]| invented(list.iter().map(|o| &o.name), "output");
        let by_position = unnamed(wanted) || unnamed(&self.outputs);
        if by_position && wanted.len() != self.outputs.len() {
            return Err(Error::mismatch(format!(
                "behaviour: expected {} outputs, got {}, and by name they cannot be told: names are invented",
                wanted.len(),
                self.outputs.len()
            )));
        }
        let mut columns = Vec::with_capacity(wanted.len());
        for (i, output) in wanted.iter().enumerate() {
            let named = self.outputs.iter().position(|o| o.name == output.name);
            let column = if by_position { Some(i) } else { named };
            if let Some(same) = column.map(|c| &self.outputs[c])
                && !(same.unit == output.unit || !same.has_known_unit() || !output.has_known_unit())
            {
                return Err(Error::mismatch(format!(
                    "behaviour: expected `{}` in {}, got it in {}",
                    output.name, output.unit, same.unit
                )));
            }
            columns.push(column.ok_or_else(|| {
                let names: Vec<&str> = self.outputs.iter().map(|o| o.name.as_str()).collect();
                Error::mismatch(format!(
                    "behaviour: expected an output named `{}`, got [{}]",
                    output.name,
                    names.join(", ")
                ))
            })?);
        }
        if !columns.iter().copied().eq(0..self.outputs.len()) {
            let rows = self.behavior.chunks_exact(self.outputs.len());
            self.behavior = rows
                .flat_map(|row| columns.iter().map(|&c| row[c]))
                .collect();
            self.outputs = columns.iter().map(|&c| self.outputs[c].clone()).collect();
        }
        if by_position {
            for (output, wanted) in self.outputs.iter_mut().zip(wanted) {
                output.name.clone_from(&wanted.name);
            }
        }
        for (output, wanted) in self.outputs.iter_mut().zip(wanted) {
            // A model may know that an output is a velocity when the recording has no unit for it.
            if output.unit.is_empty() {
                output.unit.clone_from(&wanted.unit);
            }
        }
        Ok(self)
    }

    /// Marks the outputs `names` as velocities, whatever their units say ([`OutputInfo::into_velocity`]).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) with the first name that is not an
    /// output.
    pub fn with_velocities(mut self, names: &[String]) -> Result<Self> {
        for name in names {
            let Some(o) = self.outputs.iter().position(|o| o.name == *name) else {
                let outputs: Vec<&str> = self.outputs.iter().map(|o| o.name.as_str()).collect();
                return Err(Error::argument(format!(
                    "velocities: expected names of outputs ({}), got `{name}`",
                    outputs.join(", ")
                )));
            };
            self.outputs[o] = self.outputs[o].clone().into_velocity();
        }
        Ok(self)
    }

    /// Checks the type's invariants, for datasets that a caller has built; those from
    /// [`Recording::align`](super::Recording::align) are already checked.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`](betz_base::error::ErrorKind::InvalidRecording) with the field and first position
    /// at fault.
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
        self.check_names()?;
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
                ))
                .with_position(at));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_trials() -> Dataset {
        let output = |name: &str| OutputInfo {
            name: name.into(),
            unit: "mm".into(),
        };
        Dataset {
            step_seconds: 0.1,
            steps: 10,
            channel_names: vec!["a".into()],
            spikes: Spikes::new(vec![0, 3, 5, 9], vec![0; 4]),
            segments: vec![
                Segment { start: 0, stop: 4 },
                Segment { start: 5, stop: 10 },
            ],
            outputs: vec![output("x"), output("y")],
            behavior: (0..20).map(|v| v as f32).collect(),
        }
    }

    #[test]
    fn a_time_range_clips_segments_and_spikes() {
        let cut = two_trials().between(0.3, 0.7).unwrap();
        assert_eq!(
            cut.segments,
            [Segment { start: 3, stop: 4 }, Segment { start: 5, stop: 7 }]
        );
        assert_eq!(cut.spikes.ticks, [3, 5]);
        assert_eq!(cut.steps, 10);
        cut.check().unwrap();
        let tail = two_trials().between(0.6, f64::INFINITY).unwrap();
        assert_eq!(tail.segments, [Segment { start: 6, stop: 10 }]);
    }

    #[test]
    fn a_time_range_that_holds_nothing_is_refused() {
        let data = two_trials();
        for (from, until) in [(0.5, 0.5), (f64::NAN, 1.0), (0.7, 0.2)] {
            let error = data.between(from, until).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        for (from, until) in [(0.4, 0.5), (1.0, 2.0)] {
            let error = data.between(from, until).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InsufficientData, "{error}");
        }
    }

    #[test]
    fn a_name_is_there_once() {
        let mut data = two_trials();
        data.outputs[1].name = "x".into();
        let error = data.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRecording);
        assert_eq!(error.position(), Some(1));
        let says = "names of the outputs: [1] = `x` is there already at [0]";
        assert!(error.message().contains(says), "{error}");
        let mut data = two_trials();
        data.channel_names = vec!["a".into(), "b".into(), "a".into()];
        let error = data.check().unwrap_err();
        let says = "names of the channels: [2] = `a` is there already at [0]";
        assert!(error.message().contains(says), "{error}");
    }

    #[test]
    fn what_is_at_fault_is_told_as_a_number() {
        let mut data = two_trials();
        data.spikes.ticks[2] = 1;
        assert_eq!(data.check().unwrap_err().position(), Some(2));
        let mut data = two_trials();
        data.spikes.channels[3] = 7;
        let error = data.check().unwrap_err();
        assert_eq!((error.position(), error.channel()), (Some(3), Some(7)));
        let mut data = two_trials();
        data.segments[1].start = 3;
        assert_eq!(data.check().unwrap_err().segment(), Some(1));
        let mut data = two_trials();
        data.behavior[5 * 2 + 1] = f32::NAN;
        assert_eq!(data.check().unwrap_err().position(), Some(11));
    }

    #[test]
    fn outputs_are_matched_by_name() {
        let data = two_trials();
        let swapped = [data.outputs[1].clone(), data.outputs[0].clone()];
        let seen = data.clone().with_outputs(&swapped).unwrap();
        assert_eq!(seen.behavior[..4], [1.0, 0.0, 3.0, 2.0]);
        assert_eq!(data.clone().with_outputs(&data.outputs).unwrap(), data);
        let only_y = data.clone().with_outputs(&data.outputs[1..]).unwrap();
        assert_eq!(only_y.behavior.len(), 10);
        let error = data.with_outputs(&["vz".into()]).unwrap_err();
        assert!(error.message().contains("`vz`, got [x, y]"), "{error}");
    }

    #[test]
    fn units_are_compared_and_invented_names_are_positions() {
        let data = two_trials();
        let output = |name: &str, unit: &str| OutputInfo {
            name: name.into(),
            unit: unit.into(),
        };
        let error = data
            .clone()
            .with_outputs(&[output("x", "cm"), output("y", "mm")]);
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(
            error.message().contains("`x` in cm, got it in mm"),
            "{error}"
        );
        // A missing unit matches any unit.
        data.clone()
            .with_outputs(&[output("y", ""), output("x", "mm")])
            .unwrap();
        let unnamed = [output("output0", ""), output("output1", "mm")];
        let seen = data.clone().with_outputs(&unnamed).unwrap();
        assert_eq!(
            (
                seen.behavior == data.behavior,
                seen.outputs[0].name.as_str()
            ),
            (true, "output0")
        );
        let error = data.with_outputs(&unnamed[..1]).unwrap_err();
        assert!(
            error.message().contains("expected 1 outputs, got 2"),
            "{error}"
        );
    }
}
