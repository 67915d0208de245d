//! Report of an alignment: steps and spikes that it left out, and interpolated steps.

/// Counts of what [`Recording::align_with`](crate::Recording::align_with) left out and interpolated.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AlignReport {
    /// Segments that were dropped because they contain no whole step or no behaviour.
    pub segments_dropped: usize,
    /// Steps inside segments that lie before the first or after the last behaviour sample.
    pub steps_without_behavior: usize,
    /// Steps inside segments that lie in a gap between behaviour samples longer than allowed.
    pub steps_in_gaps: usize,
    /// Steps inside segments whose behaviour is interpolated across missing samples: the two samples around the step
    /// are more than one and a half usual intervals apart, but no further than allowed.
    pub steps_interpolated: usize,
    /// Spikes outside every remaining segment or after the last whole step, which are ignored.
    pub spikes_outside: usize,
    /// Longest gap that is interpolated, in seconds; `None`: no limit.
    pub max_gap_seconds: Option<f64>,
}
