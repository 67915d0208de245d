//! A decoder of place: fields of every channel on a grid, and Bayes' rule.
//!
//! The fields λₖ(cell) are smoothed counts over smoothed time, shrunk to the channel's mean rate; between steps the
//! posterior walks at random. All of it runs in a session ([`Place`](betz_runtime::model::Place)): weights of the
//! linear engine are log λ, so that a spike adds one row of cells.

pub mod clusterless;
mod enter;
mod fields;
mod grid;
#[cfg(test)]
mod tests;

pub use betz_gram::decode::{Beliefs, beliefs};
pub use clusterless::{
    ClusterlessOptions, ClusterlessPlace, ClusterlessScore, ClusterlessSession, ClusterlessShape,
    SpikeFeatures,
};
pub(crate) use enter::Entrant;

use betz_base::error::{Error, Result};
use betz_gram::movement::coordinates;
use betz_recording::{OutputInfo, Recording, SpikeForm};

/// Parameters of fields that cross-validation chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Config {
    /// Cells along the longest axis.
    pub(crate) across: usize,
    /// Standard deviation of the fields' smoothing, in cells.
    pub(crate) smoothing: f64,
    /// Standard deviation of the walk, relative to that of the movement from step to step.
    pub(crate) pace: f64,
    /// Jumps anywhere, a second.
    pub(crate) jumps_hz: f64,
    /// Weight of the log-likelihood: below 1 if channels fire together, and more than Poisson.
    pub(crate) trust: f64,
}

/// Shortest step that pays for itself, in seconds: animals change places more slowly.
const STEP_SECONDS: f64 = 0.1;

/// Step of a decoder of place, in seconds, if none is asked for: 0.1 s, or the interval between samples of behaviour
/// if that is longer. Bins and samples of a signal are joined whole.
pub fn default_step(recording: &Recording) -> f64 {
    let wanted = recording
        .behavior_interval()
        .unwrap_or(0.0)
        .max(STEP_SECONDS);
    let tick = recording.tick_seconds;
    match recording.form {
        SpikeForm::Events => wanted.max(tick),
        SpikeForm::Counts | SpikeForm::Signal => tick * (wanted / tick).round().max(1.0),
    }
}

/// [`coordinates`] that a grid can be laid over.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) where there are none, or more than
/// three.
fn axes(outputs: &[OutputInfo]) -> Result<Vec<usize>> {
    match coordinates(outputs) {
        Some(axes) if axes.len() <= 3 => Ok(axes),
        _ => {
            let named = outputs.iter().map(|o| format!("{} ({})", o.name, o.unit));
            Err(Error::argument(format!(
                "decoder of place: expected 1 to 3 outputs of one unit that are coordinates (not velocities, in …/s or named as such), got {}",
                named.collect::<Vec<_>>().join(", ")
            )))
        }
    }
}
