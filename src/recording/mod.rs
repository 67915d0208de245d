//! What was recorded: spikes on multi-unit channels, behaviour, trials.
//!
//! ```text
//! .npz ──read──► Recording ──combine──► Recording ──align(step)──► Dataset ──► train, decode, stream
//!                (its own clock)        (multi-unit)               (the model's clock)
//! ```
//!
//! A [`Recording`] keeps the clock of its file: spike times are integer ticks from the start.
//! A [`Dataset`] is the same recording on a model's clock, with behaviour interpolated to every
//! step: the only form that training, evaluation and streaming take.

mod behavior;
mod dataset;
mod segments;
mod spikes;

pub use behavior::{Behavior, OutputInfo};
pub use dataset::Dataset;
pub use segments::{Segment, check_segments};
pub use spikes::Spikes;

/// How a recording's spikes were stored in its file, and will be when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpikeForm {
    /// `counts`: a (steps, channels) matrix of binned counts; one tick is one bin.
    Counts,
    /// `spike_ticks` and `spike_channels`: one entry a spike.
    Events,
}

/// A recording on its own clock.
///
/// Invariants, checked by [`Recording::check`] and by every reader: spikes sorted by tick, inside
/// `0..ticks`, channels inside `0..channel_names.len()`; segments half-open, ascending, disjoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Length of one tick (or bin) in seconds; finite and positive.
    pub tick_seconds: f64,
    /// Length of the recording in ticks (or bins).
    pub ticks: i64,
    /// The spikes, in ticks; a bin with count c holds c of them.
    pub spikes: Spikes,
    /// One name a channel (or sorted unit).
    pub channel_names: Vec<String>,
    /// What is to be decoded, if it was recorded.
    pub behavior: Option<Behavior>,
    /// Trials, half-open in ticks; never empty (one segment over everything when a file has none).
    pub segments: Vec<Segment>,
    /// Electrode positions, (x, y) in micrometres, one a channel.
    pub electrode_um: Option<Vec<[f32; 2]>>,
    /// The form of the file.
    pub form: SpikeForm,
    /// Free text kept with the recording (provenance, licence), JSON by convention.
    pub meta: Option<String>,
}

impl Recording {
    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channel_names.len()
    }

    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.ticks as f64 * self.tick_seconds
    }
}
