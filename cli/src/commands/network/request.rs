//! The request for a network, with which every report of `compute` starts.

use betz::network::{NetworkSpec, Sign, Signal, Taper, Threshold};
use serde::Serialize;

use super::args::{Edges, SignName};

/// A request for a network, planned or done.
#[derive(Serialize, Clone)]
pub(super) struct Request {
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

impl Request {
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

/// `spec` with the edges that are asked for.
pub(super) fn keeping(spec: NetworkSpec, edges: &Edges) -> NetworkSpec {
    let threshold = match (
        edges.threshold,
        edges.density,
        edges.top,
        edges.top_per_node,
    ) {
        (Some(value), ..) => Threshold::Absolute(value),
        (_, Some(share), ..) => Threshold::Density(share),
        (_, _, Some(count), _) => Threshold::Top(count),
        (.., Some(count)) => Threshold::TopPerNode(count),
        // Surrogates find one.
        _ => Threshold::Top(1),
    };
    spec.threshold(threshold)
        .sign(match edges.sign {
            SignName::Both => Sign::Both,
            SignName::Pos => Sign::Positive,
            SignName::Neg => Sign::Negative,
        })
        .strict(edges.strict)
        .taper(Taper::named(&edges.taper).unwrap_or_default())
        .max_edges(edges.max_edges)
}
