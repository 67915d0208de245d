//! Events of a binner: the input of each step, and counts on the way.

use betz_base::Result;
use serde::{Deserialize, Serialize};

/// Input of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Content<'a> {
    /// Channels that fired, one entry per spike.
    Spikes(&'a [u32]),
    /// Counts of each channel, scaled up to a whole step because a part of it is missing.
    Counts(&'a [f32]),
    /// Features of each channel.
    Features(&'a [f32]),
    /// No data: most of the step is missing, the noise is still being measured, or nothing came in time.
    Nothing,
}

/// A step's input and its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepInput<'a> {
    /// Number of the step, from 0.
    pub number: u64,
    /// Device time of its end: the first row that is not in it.
    pub end: u64,
    /// Arrival of the block that completed it, in nanoseconds of the host's clock; 0 without data.
    pub host_ns: i64,
    /// True if a part of it is missing, or steps before it were left out because the decoder was slow.
    pub dropped: bool,
    /// True if a source has sent nothing for it: the counts of its channels are means of training, and its features the
    /// ones before.
    pub partial: bool,
    /// Input.
    pub content: Content<'a>,
}

/// Event of a [`Binner`](crate::Binner).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    /// The device began a new epoch: the decoder starts from rest.
    Restart,
    /// Number of steps that never came.
    Skip(u64),
    /// A step is complete.
    Step(StepInput<'a>),
}

/// Receiver of events.
pub(crate) type Give<'g> = dyn FnMut(Event<'_>) -> Result<()> + 'g;

/// Counts of a binner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinnerCounts {
    /// Rows that were decoded.
    pub rows: u64,
    /// Steps made, with data or without.
    pub steps: u64,
    /// Steps made without data of any source.
    pub stale: u64,
    /// Steps of `stale` that are without data only because the noise was still being measured.
    pub calibrating: u64,
    /// Steps that were left out because their data came too late or never.
    pub skipped: u64,
    /// Rows that never came.
    pub lost: u64,
    /// Blocks before which more may be missing than was counted.
    pub bounds: u64,
    /// Rows of `lost` that were interpolated.
    pub bridged: u64,
    /// Rows that came twice, or after their step.
    pub late: u64,
    /// Times that the device started again.
    pub restarts: u64,
    /// Steps made without the data of some source, with those of the others.
    #[serde(default)]
    pub partial: u64,
    /// Steps of `skipped` that were left out because the decoder was slow.
    #[serde(default)]
    pub behind: u64,
}
