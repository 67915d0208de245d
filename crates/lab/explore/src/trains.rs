//! Spike trains of single channels inside segments.

use betz_recording::Recording;

/// For each of `channels`, its spikes inside segments: (segment, tick, number of spikes), ascending.
pub(crate) struct Trains(pub(crate) Vec<Vec<Entry>>);

#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) segment: usize,
    pub(crate) tick: i64,
    pub(crate) spikes: f64,
}

impl Trains {
    pub(crate) fn new(recording: &Recording, channels: &[usize]) -> Self {
        let positions = crate::check::positions(channels, recording.channels());
        let mut trains = vec![Vec::new(); channels.len()];
        for (segment, span) in recording.segments.iter().enumerate() {
            for i in recording.spikes.range(span.start, span.stop) {
                for &p in &positions[recording.spikes.channels[i] as usize] {
                    trains[p].push(Entry {
                        segment,
                        tick: recording.spikes.ticks[i],
                        spikes: f64::from(recording.spikes.weight(i)),
                    });
                }
            }
        }
        Self(trains)
    }
}

/// Intervals between consecutive spikes of a train, in ticks. Several spikes in one tick have intervals of 0.
pub(crate) fn for_each_interval(train: &[Entry], mut each: impl FnMut(i64, f64)) {
    for (i, entry) in train.iter().enumerate() {
        if i > 0 && train[i - 1].segment == entry.segment {
            each(entry.tick - train[i - 1].tick, 1.0);
        }
        if entry.spikes > 1.0 {
            each(0, entry.spikes - 1.0);
        }
    }
}

/// Seconds inside segments.
pub(crate) fn seconds_in_segments(recording: &Recording) -> f64 {
    let ticks: usize = recording.segments.iter().map(|s| s.len()).sum();
    ticks as f64 * recording.tick_seconds
}
