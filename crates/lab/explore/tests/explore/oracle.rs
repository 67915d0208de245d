//! The definitions, as plain loops over every tick.

use betz_recording::{Dataset, Recording};

/// Spikes of `channel` at `tick`.
pub(crate) fn spikes_at(recording: &Recording, channel: usize, tick: i64) -> f64 {
    let mut spikes = 0.0;
    for i in 0..recording.spikes.len() {
        if recording.spikes.ticks[i] == tick && recording.spikes.channels[i] as usize == channel {
            spikes += f64::from(recording.spikes.weight(i));
        }
    }
    spikes
}

/// Spikes of `channel` at every tick.
pub(crate) fn counts(recording: &Recording, channel: usize) -> Vec<f64> {
    let mut counts = vec![0.0; recording.ticks as usize];
    for i in 0..recording.spikes.len() {
        if recording.spikes.channels[i] as usize == channel {
            counts[recording.spikes.ticks[i] as usize] += f64::from(recording.spikes.weight(i));
        }
    }
    counts
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Squared deviations from the mean, divided by their number.
pub(crate) fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// Intervals between spikes inside segments, in ticks.
pub(crate) fn intervals(recording: &Recording, channel: usize) -> Vec<i64> {
    let counts = counts(recording, channel);
    let mut found = Vec::new();
    for segment in &recording.segments {
        let mut last = None;
        for tick in segment.start..segment.stop {
            for _ in 0..counts[tick as usize] as usize {
                if let Some(last) = last {
                    found.push(tick - last);
                }
                last = Some(tick);
            }
        }
    }
    found
}

/// Counts of `channel` in windows of `width` ticks that follow each other inside segments.
pub(crate) fn windows(recording: &Recording, channel: usize, width: i64) -> Vec<f64> {
    let counts = counts(recording, channel);
    let mut found = Vec::new();
    for segment in &recording.segments {
        let mut start = segment.start;
        while start + width <= segment.stop {
            found.push(
                (start..start + width)
                    .map(|tick| counts[tick as usize])
                    .sum(),
            );
            start += width;
        }
    }
    found
}

/// Time in seconds and spikes of `channel` in the steps for which `bin_of` tells `bin`.
pub(crate) fn time_and_spikes(
    dataset: &Dataset,
    channel: usize,
    bin: usize,
    bin_of: &dyn Fn(i64) -> Option<usize>,
) -> (f64, f64) {
    let (mut seconds, mut spikes) = (0.0, 0.0);
    for segment in &dataset.segments {
        for step in segment.start..segment.stop {
            if bin_of(step) == Some(bin) {
                seconds += dataset.step_seconds;
                for i in 0..dataset.spikes.len() {
                    let here = dataset.spikes.ticks[i] == step;
                    if here && dataset.spikes.channels[i] as usize == channel {
                        spikes += f64::from(dataset.spikes.weight(i));
                    }
                }
            }
        }
    }
    (seconds, spikes)
}
