//! State of a session that its program knows and its steps do not carry: recording, training, losses per source.

use serde::Serialize;
use serde_json::{Value, json};

/// State of a session for the page's status band. Each call of [`Monitor::status`](crate::Monitor::status) replaces it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SessionStatus {
    /// The recording; `None` if the session is not recorded.
    pub recording: Option<RecordingStatus>,
    /// The online trainer; `None` if the session does not learn.
    pub learning: Option<LearningStatus>,
    /// KL divergence of the latents of the newest moving window from those in training, in nats. `None` before the first is
    /// full, and if the session is not compared.
    pub unlike_training: Option<f64>,
    /// The recalibration without labels; `None` if the session does not look at windows.
    pub recalibration: Option<RecalibrationStatus>,
    /// Labels and other notes that arrive; `None` if the session does not listen for any.
    pub notes: Option<NoteStatus>,
    /// Time from the arrival of a step's last data to the hand-over of its outputs; `None` before the first step. Pages show it
    /// beside the time that the decoder computes.
    pub arrival_to_output: Option<ArrivalToOutput>,
    /// The same over the steps since the status before, for the session's history; `None` if there were none.
    pub arrival_lately: Option<ArrivalToOutput>,
    /// Steps that were made without data of any source.
    pub without_data: u64,
    /// Steps that were left out because the decoder was too slow for its source.
    pub behind: u64,
    /// One entry per source.
    pub sources: Vec<SourceStatus>,
}

/// Time from arrival to output, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, serde::Deserialize)]
pub struct ArrivalToOutput {
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// State of a recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RecordingStatus {
    /// Folder that is written.
    pub folder: String,
    /// Bytes that are in files.
    pub bytes: u64,
    /// Frames that are missing from the recording.
    pub unrecorded: u64,
    /// Share of the recorder's buffer that a slow disk fills.
    pub fill: f64,
    /// True if the disk is full.
    pub full: bool,
}

/// State of an online trainer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LearningStatus {
    /// Trials learned from.
    pub trials: u64,
    /// Candidates that the trainer accepted.
    pub accepted: u64,
    /// Candidates that it refused.
    pub refused: u64,
    /// Accepted models that it took back.
    pub rolled_back: u64,
    /// Accepted models that could not be stored.
    pub unstored: u64,
    /// True if a model waits for acceptance.
    pub proposed: bool,
    /// True if the trainer has ended before the session.
    pub dead: bool,
}

/// State of a recalibration without labels.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RecalibrationStatus {
    /// Whole windows that were looked at.
    pub windows: u64,
    /// True if a model waits for acceptance.
    pub suggested: bool,
    /// True if the session was given a recalibrated model.
    pub applied: bool,
    /// True if the newest window speaks against that model.
    pub roll_back: bool,
    /// True if the comparison has ended before the session.
    pub dead: bool,
}

/// Counts of labels, marks, and begins and ends of trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NoteStatus {
    /// Labels.
    pub labels: u64,
    /// Marks.
    pub marks: u64,
    /// Begins and ends of trials.
    pub trials: u64,
    /// Labels and messages that were refused.
    pub refused: u64,
}

/// Losses and clock of a source.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SourceStatus {
    /// Name of the source.
    pub name: String,
    /// Rows that never came.
    pub lost: u64,
    /// True if more rows may be missing than were counted.
    pub at_least: bool,
    /// Bound of the error of the source's times, in microseconds; `None` before the first block.
    pub bound_us: Option<f64>,
    /// Time since the newest block arrived, in milliseconds; `None` before the first block.
    pub silent_ms: Option<f64>,
}

/// The newest status, for pages that are opened later, and whether pages that are open have it.
#[derive(Debug, Default)]
pub(crate) struct StatusSlot {
    newest: Value,
    unsent: bool,
}

impl StatusSlot {
    pub(crate) fn set(&mut self, status: &SessionStatus) {
        self.newest = json!(status);
        self.unsent = true;
    }

    /// The newest status; null before the first one.
    pub(crate) fn newest(&self) -> &Value {
        &self.newest
    }

    /// Returns the newest status if it has not been sent.
    pub(crate) fn take(&mut self) -> Option<Value> {
        std::mem::take(&mut self.unsent).then(|| self.newest.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_sent_once_and_kept_for_pages_to_come() {
        let mut slot = StatusSlot::default();
        assert_eq!(slot.take(), None);
        assert!(slot.newest().is_null());
        let source = SourceStatus {
            name: "array".into(),
            lost: 3,
            ..SourceStatus::default()
        };
        slot.set(&SessionStatus {
            sources: vec![source],
            ..SessionStatus::default()
        });
        let sent = slot.take().unwrap();
        assert_eq!(sent["sources"][0]["name"], "array");
        assert_eq!(sent["sources"][0]["lost"], 3);
        assert!(sent["sources"][0]["bound_us"].is_null() && sent["recording"].is_null());
        assert_eq!(slot.take(), None);
        assert_eq!(slot.newest(), &sent);
    }
}
