//! Features of spikes, such as their amplitudes on the wires of a tetrode.

use crate::SpikesView;
use betz_base::error::{Error, Result};

/// Largest number of features per spike.
pub const MAX_FEATURES: usize = 64;

/// Features of the spikes of a recording: one row per spike, in the order of the spikes.
#[derive(Debug, Clone, PartialEq)]
pub struct SpikeFeatures {
    /// Number of features per spike.
    pub columns: usize,
    /// Features, row-major (spikes, columns). A feature that is NaN in all spikes of a channel is not used there.
    pub values: Vec<f32>,
}

impl SpikeFeatures {
    /// Features of spike `i`.
    pub fn of(&self, i: usize) -> &[f32] {
        &self.values[i * self.columns..][..self.columns]
    }

    /// Number of spikes that have features.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Checks that there is one row per spike of `spikes`. More rows are allowed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`](betz_base::error::ErrorKind::InvalidRecording) if there are fewer rows, no
    /// column or more than 64, or if spikes have weights.
    pub fn check(&self, spikes: SpikesView<'_>) -> Result<()> {
        if spikes.is_weighted() {
            return Err(Error::recording(
                "spike features: expected a recording of spike times, got counts or a signal",
            ));
        }
        if !(1..=MAX_FEATURES).contains(&self.columns) {
            return Err(Error::recording(format!(
                "spike features: expected 1 to {MAX_FEATURES} per spike, got {}",
                self.columns
            )));
        }
        if self.rows() < spikes.len() || !self.values.len().is_multiple_of(self.columns) {
            return Err(Error::recording(format!(
                "spike features: expected {} rows, one per spike, got {}",
                spikes.len(),
                self.rows()
            )));
        }
        Ok(())
    }

    /// Checks that there is one row per spike of `spikes`, and no other.
    ///
    /// # Errors
    /// The errors of [`SpikeFeatures::check`], for more rows, too.
    pub fn check_exactly(&self, spikes: SpikesView<'_>) -> Result<()> {
        self.check(spikes)?;
        match self.rows() == spikes.len() {
            true => Ok(()),
            false => Err(Error::recording(format!(
                "spike features: expected {} rows, one per spike, got {}",
                spikes.len(),
                self.rows()
            ))),
        }
    }
}
