//! Recordings that a simulation wrote, for tables and JSON.

use std::path::Path;

use betz::Result;
use betz::recording::Recording;
use serde::Serialize;

use crate::report::{self, Outcome};

/// A recording that was written.
#[derive(Serialize)]
pub(super) struct RecordingFile {
    file: String,
    channels: usize,
    spikes: u64,
    seconds: f64,
    mean_rate_hz: f64,
}

impl RecordingFile {
    pub(super) fn new(recording: &Recording, path: &Path) -> Self {
        let channels = recording.channels();
        // By the number of ticks per second, if it is whole: 60 s, not 60.00000000000001 s.
        let per_second = 1.0 / recording.tick_seconds;
        let seconds = if (per_second - per_second.round()).abs() < 1e-9 * per_second {
            recording.ticks as f64 / per_second.round()
        } else {
            recording.seconds()
        };
        Self {
            file: path.display().to_string(),
            channels,
            spikes: recording.spikes.total() as u64,
            seconds,
            mean_rate_hz: recording.spikes.total() / channels as f64 / seconds,
        }
    }
}

impl Outcome for RecordingFile {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: {}, {} in {} s, {:.1} Hz per channel",
            self.file,
            report::count(self.channels as u128, "channel"),
            report::count(self.spikes as u128, "spike"),
            self.seconds,
            self.mean_rate_hz
        ))
    }
}
