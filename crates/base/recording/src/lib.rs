//! Recordings: spikes on multi-unit channels, behaviour and trials.
//!
//! ```text
//! .npz ──read──► Recording ──combine──► Recording ──align(step)──► Dataset ──► train, decode, stream
//!                (its own clock)        (multi-unit)               (the model's clock)
//! ```
//!
//! A [`Recording`] keeps the clock of its file: spike times are integer ticks from the start.
//! A [`Dataset`] is the same recording on a model's clock, with behaviour interpolated to every step. Training,
//! evaluation and streaming take only this form.
//!
//! ```
//! use betz_recording::{Recording, Segment, SpikeForm, Spikes};
//!
//! # fn main() -> betz_base::Result<()> {
//! let recording = Recording {
//!     tick_seconds: 0.001,
//!     ticks: 2_000,
//!     spikes: Spikes::new(vec![10, 10, 1_500], vec![0, 1, 0]),
//!     channel_names: vec!["left".into(), "right".into()],
//!     behavior: None,
//!     segments: vec![Segment { start: 0, stop: 1_000 }, Segment { start: 1_000, stop: 2_000 }],
//!     electrode_um: None,
//!     form: SpikeForm::Events,
//!     meta: None,
//! };
//! recording.check()?; // what every reader promises
//! assert_eq!(recording.seconds(), 2.0);
//! # Ok(())
//! # }
//! ```
//!
//! # The `.npz` schema
//! | array | dtype, shape | meaning |
//! |---|---|---|
//! | `counts` | u8 or u16, (steps, channels) | binned spike counts; with `step_seconds` |
//! | `step_seconds` | f64 | length of one bin |
//! | `signal` | f32, (samples, channels), finite, within ±10¹⁵ | features of any sign (band power, LFP) instead of spikes; with `sample_seconds` |
//! | `sample_seconds` | f64 | length of one sample (`step_seconds` is accepted too) |
//! | `spike_ticks` | i64, (spikes,) ascending | spike times in ticks from the start; with the two below, instead of `counts` |
//! | `spike_channels` | u16 or u32, (spikes,) | channel (or sorted unit) of each spike |
//! | `tick_seconds` | f64 | length of one tick |
//! | `duration_ticks` | i64 | optional, spike times only: length of the recording |
//! | `channel_names` | str, (channels,) | optional, unique; absent: `ch0`, `ch1` … |
//! | `behavior` | f32, (samples, outputs) | behaviour to decode; a sample with a NaN is missing; optional |
//! | `behavior_times` | f64, (samples,) s, ascending | may be irregular; absent: one sample per bin or tick |
//! | `behavior_names`, `behavior_units` | str, (outputs,) | optional; absent: `output0` …, no unit |
//! | `segments` | i64, (n, 2), half-open, in bins or ticks | optional; absent: one segment over everything |
//! | `electrode_um` | f32, (channels, 2) | optional electrode x, y; NaN if unknown |
//! | `meta` | str | optional free text, JSON by convention |
//!
//! Numbers of any other NumPy type (integers, floats and bool, in either byte order) are accepted if each value fits
//! the type above; the first that does not is refused with its position. Members may be stored or deflated, and
//! matrices may be in C or Fortran order. Other arrays are ignored. Behaviour times ascend, but may repeat. A file of
//! spike times need not give the recording's length: without `duration_ticks`, the recording ends after the last spike,
//! the last behaviour sample and the last segment.

mod align;
mod align_report;
mod behavior;
mod channels;
pub(crate) mod check;
mod dataset;
mod features;
mod gaps;
pub mod labels;
pub mod multiunit;
#[cfg(feature = "npz")]
mod npz;
mod offsets;
mod segments;
mod spikes;
mod step_clock;
mod view;

#[cfg(feature = "npz")]
pub use npz::{Stretches, arrays, matrix};

pub use align::AlignOptions;
pub use align_report::AlignReport;
pub use behavior::{Behavior, OutputInfo};
pub use channels::invented_channel_names;
pub use dataset::Dataset;
pub use features::{MAX_FEATURES, SpikeFeatures};
pub use labels::Labels;
pub use segments::{Segment, check_segments};
pub use spikes::Spikes;
pub use view::{DatasetView, SpikesView};

/// Form in which a file stores the spikes of a recording, for reading and for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpikeForm {
    /// `counts`: a (steps, channels) matrix of binned counts; one tick is one bin.
    Counts,
    /// `spike_ticks` and `spike_channels`: one entry per spike.
    Events,
    /// `signal`: a (samples, channels) matrix of features, such as the power in a band. One tick is one sample; each
    /// nonzero value is one entry.
    Signal,
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
    /// Spikes in ticks; a bin with count c is one entry of weight c.
    pub spikes: Spikes,
    /// One name per channel (or sorted unit).
    pub channel_names: Vec<String>,
    /// Behaviour, if it was recorded.
    pub behavior: Option<Behavior>,
    /// Trials, half-open in ticks; never empty (one segment over everything if the file has none).
    pub segments: Vec<Segment>,
    /// Electrode positions, (x, y) in micrometres, one per channel.
    pub electrode_um: Option<Vec<[f32; 2]>>,
    /// Form in which the file stores the spikes.
    pub form: SpikeForm,
    /// Free text stored with the recording (provenance, licence), JSON by convention.
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
