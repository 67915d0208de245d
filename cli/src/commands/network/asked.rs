//! What a network is asked for: the head of what `compute` says, planned or done.

use betz::network::{NetworkSpec, Signal, Threshold};
use serde::Serialize;

/// What was asked for, or is planned.
#[derive(Serialize, Clone)]
pub(super) struct Asked {
    pub(super) nodes: usize,
    pub(super) samples: usize,
    pub(super) sample_seconds: Option<f64>,
    pub(super) segments: usize,
    pub(super) window: usize,
    pub(super) step: usize,
    pub(super) measure: &'static str,
    /// Of absolute thresholds, given or found.
    pub(super) threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    density_asked: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_per_node: Option<usize>,
    sign: &'static str,
    strict: bool,
}

impl Asked {
    pub(super) fn new(spec: &NetworkSpec, signal: &Signal<'_>) -> Self {
        Self {
            sample_seconds: signal.sample_seconds(),
            segments: signal.segments().len(),
            ..Self::of(spec, signal.nodes(), signal.samples())
        }
    }

    /// Of so many nodes and samples, in one segment.
    pub(super) fn of(spec: &NetworkSpec, nodes: usize, samples: usize) -> Self {
        let mut asked = Self {
            nodes,
            samples,
            sample_seconds: None,
            segments: 1,
            window: spec.window.length,
            step: spec.window.step,
            measure: spec.measure.name(),
            threshold: None,
            density_asked: None,
            top: None,
            top_per_node: None,
            sign: spec.sign.name(),
            strict: spec.strict,
        };
        match spec.threshold {
            Threshold::Absolute(value) => asked.threshold = Some(value),
            Threshold::Density(share) => asked.density_asked = Some(share),
            Threshold::Top(count) => asked.top = Some(count),
            Threshold::TopPerNode(count) => asked.top_per_node = Some(count),
        }
        asked
    }
}
