//! Clusterless place decoding: Bayes' rule on a grid from spikes with features, without sorted units.
//!
//! The spikes of an electrode group are a marked point process (Kloosterman et al. 2014; Deng et al. 2015; Denovellis
//! et al. 2021). With features a of a spike and a cell x, its intensity per step is
//!
//! ```text
//! λ_g(a, x) = Σ_k N(a; m_k, diag v_k) r_k(x)        joint intensity of features and place
//! Λ_g(x)    = Σ_k r_k(x)                            ground intensity: its integral over a
//! ln p(spikes | x) = w (Σ_spikes ln λ_g(a, x) − Σ_g Λ_g(x)) + constant
//! ```
//!
//! A component k stands for the training spikes nearest to its mean m_k. v_k is their variance plus the square of the
//! kernel's bandwidth. r_k(x) is their smoothed number in each cell over the smoothed time there, shrunk to its mean.
//! With as many components as spikes this is the kernel density estimate itself. There are at most 64 per group, so the
//! cost of a spike is bounded. The posterior walks between steps as in the [place decoder](super).

mod clusters;
mod file;
mod fit;
mod session;

pub use betz_recording::{MAX_FEATURES, SpikeFeatures};
pub use session::ClusterlessSession;

use betz_base::error::{Error, Result};
use betz_recording::{DatasetView, OutputInfo};
use betz_runtime::model::Place;

/// Options of [`ClusterlessPlace::fit`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterlessOptions {
    /// Cells along the longest axis.
    pub cells: usize,
    /// Largest number of components per electrode group: 1 to 4,096.
    pub components: usize,
    /// Seed of the components.
    pub seed: u64,
    /// The fixed bandwidth, smoothing, walk and weight; `None`: chosen on the last fifth of the steps.
    pub shape: Option<ClusterlessShape>,
}

impl Default for ClusterlessOptions {
    fn default() -> Self {
        Self {
            cells: 28,
            components: 64,
            seed: 1,
            shape: None,
        }
    }
}

/// Parameters that are chosen on steps held out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterlessShape {
    /// Bandwidth of a kernel, relative to the standard deviation of each feature.
    pub bandwidth: f64,
    /// Standard deviation of the smoothing over places, in cells.
    pub smoothing: f64,
    /// Standard deviation of the walk, relative to the movement from step to step.
    pub pace: f64,
    /// Weight of the log-likelihood.
    pub trust: f64,
}

/// Median distance on the last fifth of the steps, from a decoder trained on the others.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterlessScore {
    /// Median distance, in `unit`.
    pub median_error: f64,
    /// Steps that it was measured on.
    pub steps: usize,
    /// Unit of the coordinates.
    pub unit: String,
}

/// The components of one electrode group.
#[derive(Debug, Clone, Default, PartialEq)]
struct Group {
    /// Columns of the features that the group uses.
    columns: Vec<u32>,
    /// Means of the components, (component, column).
    means: Vec<f32>,
    /// Variances of the components, (component, column).
    variances: Vec<f32>,
    /// Rate of each component in each cell per step, (component, cell).
    rates: Vec<f32>,
}

/// A clusterless place decoder: see [the formulas](self).
///
/// Its file begins with `BETZCLUS`. A [`ClusterlessSession`] decodes step by step.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterlessPlace {
    step_seconds: f64,
    /// Version of Betz that trained it.
    betz_version: String,
    outputs: Vec<OutputInfo>,
    channel_names: Vec<String>,
    /// Number of features per spike.
    features: usize,
    shape: ClusterlessShape,
    place: Place,
    /// Σ_g Λ_g per cell, times the weight.
    ground: Vec<f64>,
    groups: Vec<Group>,
}

impl ClusterlessPlace {
    /// Length of a step in seconds.
    pub const fn step_seconds(&self) -> f64 {
        self.step_seconds
    }

    /// Version of Betz that trained it.
    pub fn betz_version(&self) -> &str {
        &self.betz_version
    }

    /// The outputs.
    pub fn outputs(&self) -> &[OutputInfo] {
        &self.outputs
    }

    /// Names of the electrode groups, one per channel.
    pub fn channel_names(&self) -> &[String] {
        &self.channel_names
    }

    /// Number of features per spike.
    pub const fn features(&self) -> usize {
        self.features
    }

    /// Parameters that training chose.
    pub const fn shape(&self) -> ClusterlessShape {
        self.shape
    }

    /// Cells, start, walk and outputs of the posterior.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Number of components of all electrode groups.
    pub fn components(&self) -> usize {
        let cells = self.place.cells.len().max(1);
        self.groups.iter().map(|g| g.rates.len() / cells).sum()
    }

    /// Decodes every step inside the segments of `data`; each segment starts at rest. Returns the outputs, (steps,
    /// outputs) row-major with NaN outside segments, and the number of spikes that were left out because a feature is
    /// not finite.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for another step, other channels or another number of
    /// features; those of [`SpikeFeatures::check`].
    pub fn decode<'d>(
        &self,
        data: impl Into<DatasetView<'d>>,
        features: &SpikeFeatures,
    ) -> Result<(Vec<f32>, u64)> {
        let data = data.into();
        features.check(data.spikes)?;
        self.check(&data, features.columns)?;
        let n = self.outputs.len();
        let mut estimates = betz_base::memory::filled("decoded outputs", f32::NAN, data.steps * n)?;
        let mut session = self.session()?;
        for segment in data.segments {
            session.reset();
            let mut spikes = data.spikes.range(segment.start, segment.stop).peekable();
            for step in segment.start..segment.stop {
                while let Some(i) = spikes.next_if(|&i| data.spikes.ticks[i] == step) {
                    session.add_spike(data.spikes.channels[i] as usize, features.of(i));
                }
                let row = &mut estimates[step as usize * n..][..n];
                let (mean, _) = session.finish_step();
                row.iter_mut().zip(mean).for_each(|(e, m)| *e = *m as f32);
            }
        }
        Ok((estimates, session.spikes_left_out()))
    }

    /// Refuses data of other channels, another step or another number of features than those of training.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch).
    pub fn check_data<'d>(&self, data: impl Into<DatasetView<'d>>, columns: usize) -> Result<()> {
        self.check(&data.into(), columns)
    }

    fn check(&self, data: &DatasetView<'_>, columns: usize) -> Result<()> {
        let mismatch = |what: &str, expected: String, got: String| {
            Err(Error::mismatch(format!(
                "clusterless place decoder: expected {what} {expected}, got {got}"
            )))
        };
        if (data.step_seconds / self.step_seconds - 1.0).abs() > 1e-9 {
            let [ours, theirs] = [self.step_seconds, data.step_seconds].map(|s| format!("{s} s"));
            return mismatch("steps of", ours, theirs);
        }
        if columns != self.features {
            let [ours, theirs] = [self.features, columns].map(|n| n.to_string());
            return mismatch("features per spike:", ours, theirs);
        }
        if data.channel_names != self.channel_names {
            let [ours, theirs] = [&self.channel_names[..], data.channel_names]
                .map(|names| format!("{} ({} …)", names.len(), names.first().map_or("", |n| n)));
            return mismatch("the channels of training,", ours, theirs);
        }
        Ok(())
    }
}
