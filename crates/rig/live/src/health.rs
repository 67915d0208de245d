//! Health of a session and of its source, for pages and programs that watch it.

use serde::Serialize;

use crate::clock::ClockState;
use crate::event::BinnerCounts;
use crate::learn::LearnReport;
use crate::notes::NoteCounts;
use crate::recalibrate::RecalibrateReport;
use crate::record::RecorderCounts;
use crate::shared_line::SharedLineReport;

/// Losses, clock and silence of a source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceHealth {
    /// Name of the source in the plan.
    pub name: String,
    /// Rows that never came.
    pub lost: u64,
    /// True if more may be missing than was counted.
    pub at_least: bool,
    /// Share of all rows that never came.
    pub lost_share: f64,
    /// Steps that were made without its data.
    pub stale: u64,
    /// The error that ended it before the session, if there was one.
    pub failed: Option<String>,
    /// Rows per second by this machine's clock, if they are other than the source or the plan says: steps then have another
    /// length than the model's.
    pub measured_rate: Option<f64>,
    /// Drift of the source's clock against the host's, in parts per million.
    pub drift_ppm: f64,
    /// Bound of the error of its times, in microseconds; 0 before the first block.
    pub bound_us: f64,
    /// Both ways between source and host as its answers show them, in microseconds; `None` if it is not asked.
    pub path_us: Option<f64>,
    /// Epochs of its clock so far.
    pub epochs: u32,
    /// Time since the newest block arrived, in milliseconds; `None` before the first one.
    pub silent_ms: Option<f64>,
    /// Connections lost and made again.
    pub reconnects: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Changes of its digital lines.
    pub edges: u64,
    /// Changes of digital lines for which there was no room.
    pub edges_lost: u64,
    /// Messages that this host's kernel dropped.
    pub dropped_by_host: u64,
}

/// Counts of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SinkHealth {
    /// Its address, or its number for one that a program has added.
    pub to: String,
    /// Outputs that were sent.
    pub sent: u64,
    /// Outputs that could not be sent.
    pub unsent: u64,
    /// Connections lost and made again.
    pub reconnects: u64,
}

/// Counts and latencies of a session so far.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SessionReport {
    /// Counts of rows and steps.
    pub input: BinnerCounts,
    /// Counts of the recorder, if there is one.
    pub recorder: Option<RecorderCounts>,
    /// Labels, marks and trials.
    pub notes: NoteCounts,
    /// The online trainer, if there is one.
    pub learn: Option<LearnReport>,
    /// The recalibration without labels, if there is one.
    pub recalibrate: Option<RecalibrateReport>,
    /// Models that the session was given.
    pub swapped: u64,
    /// Times that it returned to the model before.
    pub rolled_back: u64,
    /// Times that the session went on after a kill.
    pub resumed: u64,
    /// The source's clock.
    pub clock: ClockState,
    /// Distance of two sources by a line that both hear, if the plan names one.
    pub shared_line: Option<SharedLineReport>,
    /// Outputs that the sink with most of these could not send.
    pub unsent: u64,
    /// Time that opening the pipeline and the recording took after the first block, in milliseconds.
    pub startup_ms: f64,
    /// Steps whose data waited for that: they are not in the latencies below.
    pub startup_steps: u64,
    /// Longest time from the arrival of the last block of such a step to the hand-over of its outputs, in microseconds.
    pub startup_max_us: f64,
    /// Median time from the arrival of a step's last block to the hand-over of its outputs, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of that time.
    pub p99_us: f64,
    /// Longest such time.
    pub max_us: f64,
    /// Blocks, messages and connections that the source counts as late, double, malformed or dropped.
    pub source_late: u64,
    /// Messages that came twice.
    pub source_duplicates: u64,
    /// Messages that could not be read.
    pub source_malformed: u64,
    /// Messages that this host's kernel dropped.
    pub source_dropped: u64,
    /// Connections that were lost and made again.
    pub source_reconnects: u64,
}
