//! A recording on a model's clock.

use super::{OutputInfo, Segment, Spikes};

/// Spikes and behaviour on a model's clock of `step_seconds`; what training and decoding consume.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Length of one step in seconds.
    pub step_seconds: f64,
    /// Number of steps.
    pub steps: usize,
    /// One name a channel.
    pub channel_names: Vec<String>,
    /// Spikes in steps, ascending; all inside `0..steps`. Spikes outside every segment may be
    /// present and are ignored.
    pub spikes: Spikes,
    /// Trials in steps, half-open, ascending, disjoint, never empty.
    pub segments: Vec<Segment>,
    /// One entry an output; empty when no behaviour was recorded.
    pub outputs: Vec<OutputInfo>,
    /// Behaviour, row-major (steps, outputs); finite inside segments. Empty without behaviour.
    pub behavior: Vec<f32>,
}

impl Dataset {
    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channel_names.len()
    }

    /// Number of steps inside segments.
    pub fn steps_in_segments(&self) -> usize {
        self.segments.iter().map(Segment::len).sum()
    }
}
