//! What training finds and a session runs.

use serde::{Deserialize, Serialize};

use crate::psc::{FilterBank, LowPass};
use betz_recording::OutputInfo;

/// Scores of one output on data that was not trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputScore {
    /// Name of the output.
    pub name: String,
    /// Unit of `rmse`; empty when unknown.
    pub unit: String,
    /// Coefficient of determination, 1 − residual / total sum of squares.
    pub r2: f64,
    /// Root mean square error, in `unit`.
    pub rmse: f64,
    /// RMSE / (max − min of the truth).
    pub nrmse_range: f64,
    /// RMSE / standard deviation of the truth.
    pub nrmse_std: f64,
}

/// How a decoder came to be: kept in its file for the people who find it later.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingRecord {
    /// Version of Betz that trained it.
    pub betz_version: String,
    /// Steps trained on.
    pub steps: u64,
    /// Segments trained on.
    pub segments: u64,
    /// Spikes trained on.
    pub spikes: u64,
    /// Ridge λ added to the diagonal of the centred Γ.
    pub ridge: f64,
    /// How Γ was computed: `dense` or `event`.
    pub gram_path: String,
    /// How the system was solved: `cholesky` or `inverse`.
    pub solver: String,
    /// Cross-validation folds behind `scores`; 0 when none were run.
    pub folds: u32,
    /// Cross-validated scores; empty when none were run.
    pub scores: Vec<OutputScore>,
}

/// A linear decoder x̂ = φᵀa + intercept with all that a session needs to run it.
///
/// Immutable once made; may be shared by any number of sessions in any number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decoder {
    /// Length of one step in seconds.
    pub step_seconds: f64,
    /// The PSC filters applied to every channel.
    pub bank: FilterBank,
    /// Low-pass behind the filters, if any.
    pub low_pass: Option<LowPass>,
    /// The output at step t estimates the behaviour at step t − delay; negative looks ahead.
    pub delay_steps: i64,
    /// One name a channel.
    pub channel_names: Vec<String>,
    /// False for a channel that takes no part (dead in training, or masked on request): its
    /// weights are zero.
    pub channel_mask: Vec<bool>,
    /// Decoding weights φ, row-major (channel, filter, output), in output units per unit-sum
    /// filtered spike.
    pub weights: Vec<f64>,
    /// One intercept an output, in output units.
    pub intercept: Vec<f64>,
    /// Name and unit of each output.
    pub outputs: Vec<OutputInfo>,
    /// How it was trained and scored.
    pub training: TrainingRecord,
}

impl Decoder {
    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channel_names.len()
    }

    /// Number of features, channels × filters.
    pub fn features(&self) -> usize {
        self.channels() * self.bank.len()
    }
}
