//! What is decoded: movement (or any other signal) beside the spikes.

/// Name and unit of one output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OutputInfo {
    /// Name, such as `x`.
    pub name: String,
    /// Unit, such as `mm`; empty when unknown.
    pub unit: String,
}

/// An output of unknown unit.
impl From<&str> for OutputInfo {
    fn from(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            unit: String::new(),
        }
    }
}

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
