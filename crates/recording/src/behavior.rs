//! Behaviour: movement, or any other signal to decode, recorded with the spikes.

pub use betz_base::output::OutputInfo;

/// Behaviour samples, (samples, outputs) row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Behavior {
    /// One entry per output.
    pub outputs: Vec<OutputInfo>,
    /// Values, row-major (samples, outputs).
    pub values: Vec<f32>,
    /// Sample times in seconds, ascending, possibly irregular; `None`: one sample per tick (or bin),
    /// taken at the bin's own index.
    pub times: Option<Vec<f64>>,
}

impl Behavior {
    /// Number of samples.
    pub fn samples(&self) -> usize {
        if self.outputs.is_empty() {
            0
        } else {
            self.values.len() / self.outputs.len()
        }
    }
}
