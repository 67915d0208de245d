//! Original spike times of a recording that is put on the page's steps.

use betz_base::error::Result;
use betz_recording::{Dataset, Recording, SpikeForm};

use super::recorded::SpikeTimes;

impl SpikeTimes {
    /// Aligns a recording to steps of `step_seconds` with `align`, so that every spike is shown, and finds where the
    /// spikes lie inside the steps. `None` instead of times for binned counts, signals and weighted spikes.
    ///
    /// # Errors
    /// The errors of `align`.
    pub fn align(
        mut recording: Recording,
        step_seconds: f64,
        align: impl FnOnce(Recording) -> Result<Dataset>,
    ) -> Result<(Dataset, Option<Self>)> {
        lengthen_to_whole_steps(&mut recording, step_seconds);
        let tick_seconds = recording.tick_seconds;
        let original = (recording.form == SpikeForm::Events)
            .then(|| (recording.spikes.clone(), recording.segments.clone()));
        let dataset = align(recording)?;
        let times = match original {
            Some((spikes, segments)) => Self::new(&dataset, &spikes, &segments, tick_seconds)?,
            None => None,
        };
        Ok((dataset, times))
    }
}

/// Extends a recording of spike times to the end of its last step; otherwise the spikes of a partial last step would
/// not be shown.
fn lengthen_to_whole_steps(recording: &mut Recording, step_seconds: f64) {
    if recording.form != SpikeForm::Events {
        return;
    }
    let ticks_per_step = step_seconds / recording.tick_seconds;
    let steps = recording.ticks as f64 / ticks_per_step;
    // The tolerance keeps a rounding error from adding an empty step.
    let end = (steps - 1e-9 * steps.max(1.0)).ceil() * ticks_per_step;
    let near = end.round();
    let end = if (end - near).abs() <= 1e-6 {
        near
    } else {
        end.ceil()
    };
    recording.ticks = recording.ticks.max(end as i64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_recording::{Segment, Spikes};

    /// A recording with one spike in each of its ticks.
    fn full(ticks: i64, tick_seconds: f64) -> Recording {
        Recording {
            tick_seconds,
            ticks,
            spikes: Spikes::new((0..ticks).collect(), vec![0; ticks as usize]),
            channel_names: vec!["a".into()],
            behavior: None,
            segments: vec![Segment {
                start: 0,
                stop: ticks,
            }],
            electrode_um: None,
            form: SpikeForm::Events,
            meta: None,
        }
    }

    #[test]
    fn every_spike_of_the_file_is_shown() {
        for (tick, step) in [
            (1e-5, 0.005),
            (1.0 / 30_000.0, 0.001),
            (1.0 / 24_414.062_5, 0.005),
            (0.001, 0.001),
        ] {
            for ticks in [600_i64, 1_000, 1_001, 1_023, 1_234, 2_499, 2_500] {
                let mut recording = full(ticks, tick);
                lengthen_to_whole_steps(&mut recording, step);
                let dataset = recording.align(step).unwrap();
                let shown: f64 = (0..dataset.spikes.len())
                    .map(|i| f64::from(dataset.spikes.weight(i)))
                    .sum();
                assert_eq!(
                    shown, ticks as f64,
                    "{ticks} ticks of {tick} s in steps of {step} s"
                );
                let steps = (ticks as f64 * tick / step - 1e-6).ceil();
                assert_eq!(dataset.steps as f64, steps, "no empty step follows");
            }
        }
    }
}
