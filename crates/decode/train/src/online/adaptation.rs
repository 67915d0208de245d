//! The part of a decoder that adapts: its memories of labelled trials, and the candidates that they make.

use super::assemble::Trial;
use betz_base::error::Result;
use betz_base::wire::{Reader, Writer};
use betz_recording::SpikesView;
use betz_runtime::model::Decoder;

/// A memory of fewer steps makes no candidate.
pub(super) const FEWEST_STEPS: u64 = 100;

/// Knowledge from labelled trials, in several memories that forget at their own pace, and a candidate made of each.
pub(super) trait Adaptation: Send {
    /// The decoder that this began with.
    ///
    /// # Errors
    /// The same as for [`Decoder::new`].
    fn first(&self) -> Result<Decoder>;

    /// Keeps the first `count` memories. Those that there were not begin as the first one.
    fn set_memories(&mut self, count: usize);

    /// Number of steps that `memory` counts, after forgetting.
    fn steps(&self, memory: usize) -> f64;

    /// Adds `trial`, with `spikes` in place of its own, to every memory. `kept` says what share of its weight each keeps of
    /// what it knew before. `decoder` is the model in use.
    ///
    /// # Errors
    /// Returns the errors of the sums; nothing has changed then.
    fn learn(
        &mut self,
        trial: &Trial,
        spikes: SpikesView<'_>,
        decoder: &Decoder,
        kept: &[f64],
    ) -> Result<()>;

    /// Leaves `share` of the weight of everything in `memory`.
    fn forget(&mut self, memory: usize, share: f64);

    /// From now on `to` knows what `from` knows.
    fn copy_memory(&mut self, from: usize, to: usize);

    /// The candidate of `memory`; `None` if it knows too few steps. `current` is the model in use.
    ///
    /// # Errors
    /// Returns the errors of solving, or of training.
    fn solve(&mut self, memory: usize, current: &Decoder) -> Result<Option<Decoder>>;

    /// `current` without the channels `ill`; those left out before are back. So are candidates from now on.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) when no channel would be left; the errors of
    /// solving.
    fn leave_out(&mut self, current: &Decoder, ill: &[usize]) -> Result<Decoder>;

    /// Bytes that making one candidate takes.
    fn candidate_bytes(&self) -> usize;

    /// Bytes that learning from one trial takes, besides the trial's own.
    fn learning_bytes(&self) -> usize;

    /// Appends the memories to `to`, as far as they are kept.
    fn write(&self, to: &mut Writer);

    /// Replaces the memories by those in `from`; gives back their number.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) for bytes that are no memories of this decoder.
    fn read(&mut self, from: &mut Reader<'_>) -> Result<usize>;

    /// The sums of `memory`.
    #[cfg(test)]
    fn sums(&self, memory: usize) -> betz_gram::NormalEquations;
}
