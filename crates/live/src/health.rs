//! Health of a source, for pages and programs that watch a session.

use serde::Serialize;

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
    /// Drift of the source's clock against the host's, in parts per million.
    pub drift_ppm: f64,
    /// Bound of the error of its times, in microseconds; 0 before the first block.
    pub bound_us: f64,
    /// Epochs of its clock so far.
    pub epochs: u32,
    /// Time since the newest block arrived, in milliseconds; `None` before the first one.
    pub silent_ms: Option<f64>,
    /// Connections lost and made again.
    pub reconnects: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages that this host's kernel dropped.
    pub dropped_by_host: u64,
}
