//! Recordings to look at without a session. They use the same frames as a session, made on request.

use std::ops::Range;

use betz_base::error::{Error, Result};
use betz_recording::{Dataset, Segment, Spikes};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::feed::FeedStep;
use crate::frame::Counters;
use crate::gate::Gate;
use crate::hub::{FrameBuilder, Shape};
use crate::source::Source;

/// Longest duration of one answer, in seconds.
const LONGEST_SECONDS: f64 = 120.0;
/// Largest number of seconds in an outline.
const MOST_SECONDS: usize = 200_000;

/// A recording, and a model's estimates for it.
#[derive(Debug, Clone)]
pub struct DecodedRecording {
    /// Description of the recording.
    pub source: Source,
    /// Spikes and behaviour; the behaviour has the same outputs as `source`, or none.
    pub dataset: Dataset,
    /// Estimates, row-major (steps, outputs); NaN for steps without one. Empty if nothing was decoded.
    pub estimates: Vec<f32>,
    /// Probabilities of the classes of a gated model, row-major (steps, classes); NaN for steps without them. Empty for a
    /// model without a gate.
    pub probabilities: Vec<f32>,
    /// Steps by which an estimate lags the movement it describes; the page shows the truth this much later.
    pub delay_steps: i64,
    /// Spike times in the recording's own resolution; `None` for binned counts.
    pub times: Option<SpikeTimes>,
    /// Steps whose spikes were left out on request, ascending. The page hatches them and counts nothing there.
    pub left_out: Vec<Segment>,
}

/// Spike times of a recording, finer than the dataset's steps.
#[derive(Debug, Clone)]
pub struct SpikeTimes {
    /// Length of the recording's tick in seconds.
    pub tick_seconds: f64,
    /// [`Dataset::offsets_in_steps`], one per spike.
    pub offsets: Vec<f32>,
    /// The dataset's segments in the recording's ticks.
    pub segments: Vec<Segment>,
}

impl SpikeTimes {
    /// Times of a dataset's spikes and segments from the recording that was aligned; `None` for weighted spikes, which
    /// have no finer times.
    ///
    /// # Errors
    /// The errors of [`Dataset::offsets_in_steps`].
    pub fn new(
        dataset: &Dataset,
        spikes: &Spikes,
        segments: &[Segment],
        tick_seconds: f64,
    ) -> Result<Option<Self>> {
        let offsets = dataset.offsets_in_steps(spikes, tick_seconds)?;
        if offsets.len() != dataset.spikes.len() {
            return Ok(None);
        }
        let per_step = dataset.step_seconds / tick_seconds;
        // A border that lies within a step of one in the recording is that border; others come from a cut in steps.
        let border = |step: i64, of: fn(&Segment) -> i64| {
            let tick = step as f64 * per_step;
            let near = |s: &Segment| (of(s) as f64 - tick).abs() < per_step;
            let at = segments.partition_point(|s| (of(s) as f64) < tick - per_step);
            let found = segments[at..].iter().take(2).find(|s| near(s));
            found.map_or(tick.round() as i64, of)
        };
        let segments = dataset.segments.iter().map(|s| Segment {
            start: border(s.start, |s| s.start),
            stop: border(s.stop, |s| s.stop),
        });
        Ok(Some(Self {
            tick_seconds,
            offsets,
            segments: segments.collect(),
        }))
    }
}

impl DecodedRecording {
    /// # Errors
    /// `Mismatch` if the length of an array does not fit steps and outputs, or if the channels differ from the
    /// source's.
    pub(crate) fn check(&self) -> Result<()> {
        let (steps, width) = (self.dataset.steps, self.source.outputs.len());
        let values = steps.saturating_mul(width);
        let fits = |len: usize| len == 0 || len == values;
        if !fits(self.estimates.len()) || !fits(self.dataset.behavior.len()) {
            return Err(Error::mismatch(format!(
                "{}: expected {steps} steps of {width} outputs, got {} decoded values and {} of behaviour",
                self.source.name,
                self.estimates.len(),
                self.dataset.behavior.len()
            )));
        }
        let classes = self.source.gate().map_or(0, Gate::classes);
        let shares = self.probabilities.len();
        if shares != 0 && shares != steps.saturating_mul(classes) {
            return Err(Error::mismatch(format!(
                "{}: expected {steps} steps of {classes} classes, got {shares} probabilities",
                self.source.name
            )));
        }
        if self.dataset.channels() != self.source.channel_names.len() {
            return Err(Error::mismatch(format!(
                "{}: expected {} channels, got {}",
                self.source.name,
                self.source.channel_names.len(),
                self.dataset.channels()
            )));
        }
        let spikes = self.dataset.spikes.len();
        if let Some(times) = self.times.as_ref().filter(|t| t.offsets.len() != spikes) {
            return Err(Error::mismatch(format!(
                "{}: expected the times of {spikes} spikes, got {}",
                self.source.name,
                times.offsets.len()
            )));
        }
        let segments = self.dataset.segments.len();
        if let Some(times) = self.times.as_ref().filter(|t| t.segments.len() != segments) {
            return Err(Error::mismatch(format!(
                "{}: expected the times of {segments} segments, got {}",
                self.source.name,
                times.segments.len()
            )));
        }
        Ok(())
    }

    /// True if the model was trained on these very spikes and trials: its accuracy here says nothing about other data.
    pub(crate) fn in_sample(&self) -> bool {
        let Some(card) = self.source.model.as_ref() else {
            return false;
        };
        let trained = card.trained();
        let spikes = self.dataset.view().spikes_in_segments().round() as u64;
        trained == (self.dataset.segments.len() as u64, spikes) && spikes > 0
    }

    fn ticks_a_second(&self) -> f64 {
        1.0 / self.dataset.step_seconds
    }

    /// Frames of the steps in a range, in order, cut to the longest answer.
    pub(crate) fn frames(&self, span: Range<i64>) -> Vec<Bytes> {
        let steps = i64::try_from(self.dataset.steps).unwrap_or(i64::MAX);
        let longest = (LONGEST_SECONDS * self.ticks_a_second()).ceil() as i64;
        let from = span.start.clamp(0, steps);
        let to = span
            .end
            .clamp(from, steps)
            .min(from.saturating_add(longest));
        let width = self.source.outputs.len();
        let shape = Shape {
            channels: u32::try_from(self.dataset.channels()).unwrap_or(u32::MAX),
            outputs: width,
            ticks_a_second: self.ticks_a_second(),
            deadline_ns: None,
        };
        let a_frame = (self.ticks_a_second().ceil() as i64).clamp(1, 60_000);
        let mut gathering = FrameBuilder::new(shape);
        let (mut step, mut frames) = (FeedStep::default(), Vec::new());
        let spikes = &self.dataset.spikes;
        let mut next = spikes.range(from, to).start;
        for tick in from..to {
            step.tick = tick;
            step.trial_begins = (self.dataset.segments)
                .binary_search_by_key(&tick, |s| s.start)
                .is_ok();
            step.spikes.clear();
            let begin = next;
            while next < spikes.ticks.len() && spikes.ticks[next] == tick {
                // Counts are rounded and limited, as in a session.
                let count = (spikes.weight(next).round() as u32).min(crate::feed::MOST_OF_A_COUNT);
                let len = step.spikes.len() + count as usize;
                step.spikes.resize(len, spikes.channels[next]);
                next += 1;
            }
            if let Some(times) = &self.times {
                gathering.push_offsets(&times.offsets[begin..next]);
            }
            step.estimates =
                (self.estimate(tick)).map_or_else(|| vec![f32::NAN; width], <[f32]>::to_vec);
            self.gate_values(tick, &mut step.gate);
            let truth = self.truth(tick);
            gathering.push(&step, truth.unwrap_or(&[]));
            if (tick + 1 - from) % a_frame == 0 {
                frames.extend(
                    gathering
                        .finish(&Counters::default(), None)
                        .map(|f| f.bytes),
                );
            }
        }
        frames.extend(
            gathering
                .finish(&Counters::default(), None)
                .map(|f| f.bytes),
        );
        frames
    }

    fn row<'a>(&self, of: &'a [f32], step: i64) -> Option<&'a [f32]> {
        let width = self.source.outputs.len();
        let at = usize::try_from(step).ok()?.checked_mul(width)?;
        of.get(at..at.checked_add(width)?).filter(|_| width > 0)
    }

    /// Replaces `to` by the values of the gate at a step; none without probabilities.
    fn gate_values(&self, step: i64, to: &mut Vec<f32>) {
        to.clear();
        let Some(gate) = self
            .source
            .gate()
            .filter(|_| !self.probabilities.is_empty())
        else {
            return;
        };
        to.resize(gate.width(), f32::NAN);
        let mut rows = self.probabilities.chunks_exact(gate.classes());
        if let Some(row) = usize::try_from(step).ok().and_then(|step| rows.nth(step)) {
            gate.fill(row.iter().map(|p| f64::from(*p)), false, to);
        }
    }

    /// Estimates of a step; `None` if nothing was decoded.
    pub(crate) fn estimate(&self, step: i64) -> Option<&[f32]> {
        self.row(&self.estimates, step)
    }

    /// The behaviour that the estimates of a step describe; `None` outside segments.
    pub(crate) fn truth(&self, step: i64) -> Option<&[f32]> {
        let meant = step.saturating_sub(self.delay_steps);
        (self.row(&self.dataset.behavior, meant)).filter(|_| self.inside(meant))
    }

    /// True if a step is in a segment.
    fn inside(&self, step: i64) -> bool {
        let segments = &self.dataset.segments;
        let after = segments.partition_point(|s| s.start <= step);
        after > 0 && step < segments[after - 1].stop
    }

    /// Number of spikes in every second, starts of trials, and steps that were left out, as JSON.
    pub(crate) fn outline(&self) -> Value {
        let seconds = (self.dataset.steps as f64 * self.dataset.step_seconds).ceil() as usize;
        let mut counts = vec![0u64; seconds.clamp(1, MOST_SECONDS)];
        for (i, &tick) in self.dataset.spikes.ticks.iter().enumerate() {
            let second = (tick as f64 * self.dataset.step_seconds) as usize;
            if let Some(count) = counts.get_mut(second) {
                *count += self.dataset.spikes.weight(i).round() as u64;
            }
        }
        let trials: Vec<i64> = self.dataset.segments.iter().map(|s| s.start).collect();
        let left_out: Vec<[i64; 2]> = self.left_out.iter().map(|s| [s.start, s.stop]).collect();
        json!({
            "steps": self.dataset.steps, "seconds": counts, "trials": trials, "left_out": left_out,
            "tick_seconds": self.times.as_ref().map(|t| t.tick_seconds),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Section};
    use betz_recording::{Segment, Spikes};
    use betz_runtime::model::{Decoder, DecoderParts};
    use betz_runtime::psc::{Filter, FilterBank};

    fn recorded() -> DecodedRecording {
        let bank = FilterBank::new(vec![Filter {
            tau_seconds: 0.1,
            order: 0,
        }])
        .unwrap();
        let names: Vec<String> = (0..3).map(|c| format!("ch{c}")).collect();
        let parts = DecoderParts::linear(0.01, bank, names.clone(), vec!["x".into()]);
        DecodedRecording {
            source: Source::of("a recording", &Decoder::new(parts).unwrap()),
            dataset: Dataset {
                step_seconds: 0.01,
                steps: 250,
                channel_names: names,
                spikes: Spikes {
                    weights: vec![1.0, 3.0, 1.0],
                    ..Spikes::new(vec![5, 100, 249], vec![0, 1, 2])
                },
                segments: vec![
                    Segment { start: 0, stop: 50 },
                    Segment {
                        start: 90,
                        stop: 250,
                    },
                ],
                outputs: vec!["x".into()],
                behavior: (0..250).map(|t| t as f32).collect(),
            },
            estimates: (0..250).map(|t| t as f32 + 0.5).collect(),
            probabilities: Vec::new(),
            delay_steps: 2,
            times: None,
            left_out: Vec::new(),
        }
    }

    #[test]
    fn a_recording_is_frames_as_a_session_is() {
        let bytes = recorded().frames(0..1_000);
        let frames: Vec<Frame<'_>> = bytes.iter().map(|b| Frame::read(b).unwrap().0).collect();
        let spans: Vec<(i64, u32)> = frames.iter().map(|f| (f.first, f.ticks)).collect();
        assert_eq!(spans, [(0, 100), (100, 100), (200, 50)]);
        let spikes: Vec<Vec<u32>> = frames.iter().map(Frame::spike_channels).collect();
        assert_eq!(spikes, [vec![0], vec![1, 1, 1], vec![2]]);
        assert_eq!(frames[0].u16(Section::TRIALS).collect::<Vec<_>>(), [0, 90]);
        let truth: Vec<f32> = frames[0].f32(Section::TRUTH).collect();
        // The estimate of step 10 belongs to step 8. Between the trials there is no truth.
        assert!(
            truth[10] == 8.0
                && truth[51] == 49.0
                && truth[52].is_nan()
                && truth[91].is_nan()
                && truth[92] == 90.0
        );
        assert_eq!(frames[0].f32(Section::ESTIMATE).nth(10), Some(10.5));
    }

    #[test]
    fn any_range_is_answered_and_none_is_too_long() {
        let r = recorded();
        let steps = |span: Range<i64>| -> u32 {
            let bytes = r.frames(span);
            bytes.iter().map(|b| Frame::read(b).unwrap().0.ticks).sum()
        };
        assert_eq!(steps(240..300), 10);
        assert_eq!(steps(-50..3), 3);
        assert_eq!(steps(i64::MIN..i64::MAX), 250);
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = 9..3;
        assert_eq!(steps(backwards), 0);
    }

    #[test]
    fn frames_carry_the_recordings_own_times() {
        let mut r = recorded();
        r.dataset.spikes = Spikes::new(vec![5, 5, 100, 249], vec![0, 1, 1, 2]);
        let offsets = vec![0.25, 0.75, 0.5, 0.0];
        r.times = Some(SpikeTimes {
            tick_seconds: 1e-5,
            offsets: offsets.clone(),
            segments: vec![
                Segment {
                    start: 0,
                    stop: 50_000,
                },
                Segment {
                    start: 90_000,
                    stop: 250_000,
                },
            ],
        });
        r.check().unwrap();
        let bytes = r.frames(0..1_000);
        let carried: Vec<f32> = (bytes.iter())
            .flat_map(|b| {
                Frame::read(b)
                    .unwrap()
                    .0
                    .f32(Section::SPIKE_OFFSET)
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(carried, offsets);
        assert_eq!(r.outline()["tick_seconds"], json!(1e-5));
        r.dataset.spikes.ticks.pop();
        r.dataset.spikes.channels.pop();
        let error = r.check().unwrap_err();
        assert!(
            error
                .message()
                .contains("expected the times of 3 spikes, got 4"),
            "{error}"
        );
    }

    #[test]
    fn a_recording_is_in_sample_if_the_model_was_trained_on_it() {
        let trained_on = |segments: u64, spikes: u64| {
            let bank = FilterBank::new(vec![Filter {
                tau_seconds: 0.1,
                order: 0,
            }])
            .unwrap();
            let names = recorded().source.channel_names;
            let mut parts = DecoderParts::linear(0.01, bank, names, vec!["x".into()]);
            (parts.training.segments, parts.training.spikes) = (segments, spikes);
            let model = Decoder::new(parts).unwrap();
            DecodedRecording {
                source: Source::of("a recording", &model),
                ..recorded()
            }
        };
        // Two segments with 1 + 3 + 1 spikes.
        assert!(trained_on(2, 5).in_sample());
        assert!(!trained_on(2, 6).in_sample() && !trained_on(3, 5).in_sample());
        let mut bare = trained_on(2, 5);
        bare.source.model = None;
        assert!(!bare.in_sample());
    }

    #[test]
    fn the_outline_counts_every_spike() {
        let outline = recorded().outline();
        assert_eq!(outline["seconds"], json!([1, 3, 1]));
        assert_eq!(outline["trials"], json!([0, 90]));
    }

    #[test]
    fn arrays_of_another_length_are_refused() {
        let mut r = recorded();
        r.estimates.pop();
        assert!(
            r.check()
                .unwrap_err()
                .message()
                .contains("249 decoded values")
        );
        let mut r = recorded();
        r.dataset.channel_names.pop();
        assert!(
            r.check()
                .unwrap_err()
                .message()
                .contains("expected 3 channels, got 2")
        );
    }
}
