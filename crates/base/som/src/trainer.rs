//! One way to train a map: on the CPU or on a device.

use betz_base::Result;

/// Mass below which a node keeps its weights.
pub(super) const NO_MASS: f32 = 1e-12;

/// Reason why another map is trained on the CPU.
pub(super) const PLANE_ALONE: &str =
    "only Euclidean maps of rows and columns are trained on a device";

/// Sums of one pass over the samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PassSums {
    /// Σ of distances from the winner, in units of the centred data.
    pub(super) distance: f64,
    /// Samples that were decided in f64.
    pub(super) rechecked: usize,
}

/// Holds centred samples and the weights of a map, and trains these, wherever it runs.
pub(super) trait Trainer {
    /// One round over all samples with a Gaussian of `radius`.
    ///
    /// # Errors
    /// The errors of the device.
    fn epoch(&mut self, radius: f64) -> Result<PassSums>;

    /// The weights as they are now, (nodes, dims), into `to`.
    ///
    /// # Errors
    /// The errors of the device.
    fn weights(&self, to: &mut [f32]) -> Result<()>;

    /// Samples of each node in the last round; zeros before the first.
    ///
    /// # Errors
    /// The errors of the device.
    fn hits(&self) -> Result<Vec<u32>>;
}
