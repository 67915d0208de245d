//! The last minute of a session, as a recording for computing correlations.

use betz_base::error::{Error, ErrorKind, Result};
use betz_recording::{Dataset, Segment, Spikes};
use bytes::Bytes;

use crate::explore::recorded::DecodedRecording;
use crate::frame::{Frame, Section};
use crate::labels::{self, Label};
use crate::source::Source;

/// The stored frames of a session as a recording.
pub(crate) struct LastMinute {
    pub(crate) recorded: DecodedRecording,
    /// Tick of the session at which the recording starts.
    pub(crate) first: i64,
    /// Starts of the trials, in ticks of the recording.
    pub(crate) trials: Vec<i64>,
}

/// Returns the stored frames as a recording, with estimates and truth; `labels` replace the truth in the frames. Trials
/// and ticks without a step split it into segments, so that no window spans them; ticks without a step count as left out.
///
/// # Errors
/// `InsufficientData` if no frame is stored; `InvalidArgument` if the frames have counts of several channels, not
/// spikes.
pub(crate) fn last_minute(
    source: &Source,
    frames: &[Bytes],
    labels: &[Label],
) -> Result<LastMinute> {
    let width = source.outputs.len();
    let mut all = FrameContents::default();
    for bytes in frames {
        all.add(&Frame::read(bytes)?.0, width)?;
    }
    let (Some(first), Some(last)) = (all.first, all.segments.last()) else {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            "the last minute: expected steps, got none yet",
        ));
    };
    let steps = usize::try_from(last.stop).unwrap_or(0);
    for rows in [&mut all.estimates, &mut all.truths] {
        rows.resize(if rows.is_empty() { 0 } else { steps * width }, f32::NAN);
    }
    labels::fill(&mut all.truths, labels, first, steps, width);
    let gaps = (all.segments.windows(2)).map(|two| Segment {
        start: two[0].stop,
        stop: two[1].start,
    });
    let left_out = gaps.filter(|gap| !gap.is_empty()).collect();
    let seconds = |tick: i64| tick as f64 * source.step_seconds;
    let name = format!(
        "{}, {:.1} s to {:.1} s",
        source.name,
        seconds(first),
        seconds(first + steps as i64)
    );
    let recorded = DecodedRecording {
        source: Source {
            name,
            ..source.clone()
        },
        dataset: Dataset {
            step_seconds: source.step_seconds,
            steps,
            channel_names: source.channel_names.clone(),
            spikes: Spikes::new(all.ticks, all.channels),
            segments: all.segments,
            outputs: source.outputs.clone(),
            behavior: all.truths,
        },
        estimates: all.estimates,
        probabilities: Vec::new(),
        // The truth in frames is already late by the model's delay.
        delay_steps: 0,
        times: None,
        left_out,
    };
    Ok(LastMinute {
        recorded,
        first,
        trials: all.trials,
    })
}

/// FrameContents of frames, in ticks from the first frame's first.
#[derive(Default)]
struct FrameContents {
    /// Tick of the session at which the first frame begins.
    first: Option<i64>,
    ticks: Vec<i64>,
    channels: Vec<u32>,
    segments: Vec<Segment>,
    estimates: Vec<f32>,
    truths: Vec<f32>,
    trials: Vec<i64>,
}

impl FrameContents {
    /// Adds the next frame.
    fn add(&mut self, frame: &Frame<'_>, width: usize) -> Result<()> {
        let at = frame.first - *self.first.get_or_insert(frame.first);
        if !frame.section(Section::CELLS, 1).is_empty() {
            return Err(Error::argument(
                "the last minute: expected single spikes, got counts of several channels, which a session of more than 400,000 spikes per second sends",
            ));
        }
        let offsets = frame.u16(Section::SPIKE_TICK);
        self.ticks
            .extend(offsets.map(|offset| at + i64::from(offset)));
        self.channels.extend(frame.spike_channels());
        let rows: Vec<i64> = match frame.section(Section::ROW_TICK, 2) {
            [] => (0..i64::from(frame.ticks)).collect(),
            _ => frame.u16(Section::ROW_TICK).map(i64::from).collect(),
        };
        for (all, section) in [
            (&mut self.estimates, Section::ESTIMATE),
            (&mut self.truths, Section::TRUTH),
        ] {
            place(all, &rows, at, width, frame.f32(section));
        }
        let trials = || frame.u16(Section::TRIALS).map(i64::from);
        self.trials.extend(trials().map(|trial| at + trial));
        let mut trials = trials().peekable();
        for row in rows {
            let begins = trials.next_if_eq(&row).is_some();
            match self.segments.last_mut() {
                Some(last) if !begins && last.stop == at + row => last.stop += 1,
                _ => self.segments.push(Segment {
                    start: at + row,
                    stop: at + row + 1,
                }),
            }
        }
        Ok(())
    }
}

/// Adds the rows of a frame that begins at tick `at` to `all`; ticks without a row become NaN.
fn place(
    all: &mut Vec<f32>,
    rows: &[i64],
    at: i64,
    width: usize,
    values: impl Iterator<Item = f32>,
) {
    let values: Vec<f32> = values.collect();
    for (row, values) in rows.iter().zip(values.chunks_exact(width.max(1))) {
        let begin = usize::try_from(at + row).unwrap_or(0) * width;
        if begin >= all.len() {
            all.resize(begin, f32::NAN);
            all.extend_from_slice(values);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::feed::FeedStep;
    use crate::frame::Counters;
    use crate::hub::{FrameBuilder, Shape};

    fn source() -> Source {
        Source {
            channel_names: (0..4).map(|c| format!("ch{c}")).collect(),
            step_seconds: 0.001,
            ..Source::nothing("rig")
        }
    }

    #[test]
    fn spikes_of_the_frames_in_their_trials_and_without_what_was_not_stepped() {
        let mut gathering = FrameBuilder::new(Shape {
            channels: 4,
            outputs: 0,
            ticks_a_second: 1_000.0,
            deadline_ns: None,
        });
        let mut frames = Vec::new();
        for tick in 100..200 {
            if tick == 150 {
                continue; // ticks without a step are gaps, not silence
            }
            gathering.push(
                &FeedStep {
                    tick,
                    spikes: vec![(tick % 4) as u32],
                    trial_begins: tick == 170,
                    ..FeedStep::default()
                },
                &[],
            );
            if tick % 30 == 0 {
                frames.extend(gathering.finish(&Counters::default(), None));
            }
        }
        frames.extend(gathering.finish(&Counters::default(), None));
        let frames: Vec<Bytes> = frames.into_iter().map(|f| f.bytes).collect();
        let LastMinute {
            recorded,
            first,
            trials,
        } = last_minute(&source(), &frames, &[]).unwrap();
        let spans: Vec<_> = (recorded.dataset.segments.iter())
            .map(|s| (s.start, s.stop))
            .collect();
        assert_eq!((first, recorded.dataset.steps), (100, 100));
        assert_eq!(spans, [(0, 50), (51, 70), (70, 100)]);
        assert_eq!(trials, [70]);
        let gaps: Vec<_> = (recorded.left_out.iter())
            .map(|s| (s.start, s.stop))
            .collect();
        assert_eq!(gaps, [(50, 51)]);
        let spikes = &recorded.dataset.spikes;
        assert_eq!((spikes.ticks.len(), spikes.ticks[50]), (99, 51));
        assert_eq!(spikes.channels[50], (151 % 4) as u32);
        assert!(recorded.source.name.contains("0.1 s to 0.2 s"));
        let none = last_minute(&source(), &[], &[]).err().unwrap();
        assert!(none.message().contains("got none yet"), "{none}");
    }
}
