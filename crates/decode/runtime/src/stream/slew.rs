//! Limits of the change of outputs from one step to the next.

use alloc::vec::Vec;
use betz_base::error::{Error, Result};
use betz_base::hash::Fnv1a;

/// Refuses limits that are not those of `outputs`.
pub(super) fn check(most: &[f32], outputs: usize) -> Result<()> {
    if most.len() != outputs {
        return Err(Error::mismatch(format!(
            "slew: expected {outputs} entries, one per output of the model, got {}",
            most.len()
        )));
    }
    match most.iter().position(|most| most.is_nan() || *most <= 0.0) {
        None => Ok(()),
        Some(i) => Err(Error::argument(format!(
            "slew of output {i}: expected a change above 0, got {}",
            most[i]
        ))),
    }
}

/// The largest changes, and what was given out last.
#[derive(Debug, Clone)]
pub(super) struct Slew {
    most: Vec<f32>,
    /// Infinity before the first step.
    given: Vec<f32>,
}

impl Slew {
    pub(super) fn new(most: Vec<f32>) -> Self {
        Self {
            given: vec![f32::INFINITY; most.len()],
            most,
        }
    }

    /// Keeps `out` within reach of what was given out last; says whether it was beyond.
    #[inline(always)]
    pub(super) fn keep(&self, out: &mut [f32]) -> bool {
        let mut beyond = false;
        for ((out, given), most) in out.iter_mut().zip(&self.given).zip(&self.most) {
            if given.is_infinite() {
                continue;
            }
            let bounded = out.max(given - most).min(given + most);
            beyond |= bounded != *out;
            *out = bounded;
        }
        beyond
    }

    /// `out` was given out.
    #[inline(always)]
    pub(super) fn give(&mut self, out: &[f32]) {
        self.given.copy_from_slice(out);
    }

    /// As before the first step.
    pub(super) fn reset(&mut self) {
        self.given.fill(f32::INFINITY);
    }

    /// A word that tells these limits from others.
    pub(super) fn policy(&self) -> u64 {
        Fnv1a::of_values(&self.most)
    }

    /// The part that a checkpoint keeps.
    pub(super) fn state(&self) -> &[f32] {
        &self.given
    }

    pub(super) fn state_mut(&mut self) -> &mut [f32] {
        &mut self.given
    }
}
