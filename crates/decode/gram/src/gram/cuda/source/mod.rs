//! Sources of responses for the dense path.
//!
//! ```text
//! spikes in host memory ───┐            (behind a low-pass, or to sampled filters: complete responses)
//! counts or a signal ──────┼─ load a round ─► chunk states ─► carry ─► fill ─► operands
//! responses on the device ─┘                  (filters only)
//! ```
//! A new source implements [`ResponseSource`]; one that has all its responses on the device in f32
//! (another way to filter, a low-pass) only makes a [`GivenResponses`].

mod counts;
mod given;
mod sampled;
mod sent;
mod spikes;
mod trains;

use std::ops::Range;

use super::filters::Filters;
use super::plan::SourceCosts;
use super::staging::GramStaging;
use super::timeline::Timeline;
use betz_base::error::Result;
use betz_device::cuda::{Buffer, Context};
use betz_kernels::{Block, Target};
use betz_recording::SpikesView;

pub(super) use counts::CountSource;
pub(super) use given::GivenResponses;
pub use sampled::SampledWay;
pub(crate) use sampled::Samples;
pub(super) use spikes::SpikeSource;
pub(super) use trains::{TrainFilters, TrainSource};

/// A run of chunks that is on the device.
pub(crate) struct Round<'a> {
    pub(super) context: &'a Context,
    pub(super) timeline: &'a Timeline,
    pub(super) delay_steps: i64,
    /// The chunks, of the whole padded time.
    pub(super) chunks: Range<usize>,
    /// Their blocks and one more.
    pub(super) blocks: &'a Buffer<Block>,
}

/// Makes responses, a round of chunks at a time, for one or two ranges of features (operands).
pub(crate) trait ResponseSource {
    /// Number of features.
    fn features(&self) -> usize;

    /// True if most responses are those of steps without a spike, which are all alike.
    fn rests_at_zero(&self) -> bool {
        true
    }

    /// Device memory that the source takes in addition to the operands.
    fn costs(&self, timeline: &Timeline) -> SourceCosts;

    /// The filters whose states go from chunk to chunk; `None` when responses are complete.
    fn filters(&self) -> Option<&Filters>;

    /// Gets ready for rounds of up to `chunks` chunks of the features in `operands`.
    fn begin(
        &mut self,
        timeline: &Timeline,
        operands: &[Range<usize>],
        chunks: usize,
        staging: &mut GramStaging,
    ) -> Result<()>;

    /// Brings a round to the device.
    fn load(&mut self, round: &Round<'_>) -> Result<()>;

    /// The states that each chunk leaves by itself, `states[chunk][i][feature]`, of operand
    /// `operand`. Left as they are where no filter's states go from chunk to chunk.
    fn chunk_states(
        &self,
        _round: &Round<'_>,
        _operand: usize,
        _states: &mut Buffer<f32>,
    ) -> Result<()> {
        Ok(())
    }

    /// The responses of operand `operand`, from the states at the chunks' starts.
    fn fill(
        &self,
        round: &Round<'_>,
        operand: usize,
        states: &Buffer<f32>,
        target: Target<'_>,
    ) -> Result<()>;

    /// The caller needs nothing more of the latest round.
    fn release(&mut self) -> Result<()>;

    /// Releases the memory that [`ResponseSource::begin`] took.
    fn end(&mut self, staging: &mut GramStaging) -> Result<()>;
}

/// True if most steps of most channels have no entry.
fn rests_at_zero(entries: &SpikesView<'_>, channels: usize) -> bool {
    let (first, last) = (entries.ticks.first(), entries.ticks.last());
    let steps = first.zip(last).map_or(0, |(first, last)| last - first + 1);
    2 * (entries.len() as u128) < channels as u128 * steps as u128
}
