//! One step of a decoder of classes, and of a gate on velocity, as ONNX.

use super::proto::{DOUBLE, FLOAT, Graph};
use super::{clipped, columns, cosines};
use betz_runtime::model::{Classes, Markov, VelocityGate};

/// Probability that a hidden Markov model leaves every class at least.
const FLOOR: f64 = 1e-9;

/// From latents (1, latents) to probabilities (1, classes) float64; their name. `head_state` holds the filtered latents,
/// then the probabilities of the hidden Markov model, if there are any of these.
pub(super) fn probabilities(
    graph: &mut Graph,
    classes: &Classes,
    latents: String,
    step_seconds: f64,
) -> String {
    let (inputs, count) = (classes.latents(), classes.classes());
    let filtered = classes.tau_seconds.map_or(0, |_| inputs);
    let states = filtered + classes.markov.as_ref().map_or(0, |_| count);
    let state = match states {
        0 => String::new(),
        _ => graph.state("head_state", &[1, states]),
    };
    let mut after = Vec::new();
    let z = clipped(graph, latents, classes.cosines.radius);
    let mut features = vec![graph.node_with("Cast", &[&z], &[("to", FLOAT)])];
    if let Some(tau) = classes.tau_seconds {
        let steps = step_seconds / tau;
        let [decay, gain] =
            [(-steps).exp(), -(-steps).exp_m1()].map(|number| graph.doubles(&[1, 1], &[number]));
        let before = columns(graph, &state, 0..inputs);
        let old = graph.node("Mul", &[&before, &decay]);
        let new = graph.node("Mul", &[&z, &gain]);
        let state = graph.node("Add", &[&old, &new]);
        features.push(graph.node_with("Cast", &[&state], &[("to", FLOAT)]));
        after.push(state);
    }
    if classes.cosines.units() > 0 {
        let single = features[0].clone();
        features.push(cosines(graph, &single, &classes.cosines, inputs));
    }
    let features: Vec<&str> = features.iter().map(String::as_str).collect();
    let features = graph.node_with("Concat", &features, &[("axis", 1)]);
    let weights = graph.floats(&[classes.features(inputs), count], &classes.weights);
    let scores = graph.node("MatMul", &[&features, &weights]);
    let bias = graph.floats(&[1, count], &classes.bias);
    let scores = graph.node("Add", &[&scores, &bias]);
    let shares = match &classes.markov {
        None => softmax(graph, &scores),
        Some(markov) => {
            let before = columns(graph, &state, filtered..states);
            let shares = smoothed(graph, (markov, &classes.priors), &scores, &before);
            after.push(shares.clone());
            shares
        }
    };
    if states > 0 {
        let after: Vec<&str> = after.iter().map(String::as_str).collect();
        let after = graph.node_with("Concat", &after, &[("axis", 1)]);
        graph.next_state("head_state", &after, &[1, states]);
    }
    shares
}

/// Float64 shares of float32 scores.
fn softmax(graph: &mut Graph, scores: &str) -> String {
    let shares = graph.node_with("Softmax", &[scores], &[("axis", 1)]);
    graph.node_with("Cast", &[&shares], &[("to", DOUBLE)])
}

/// The probabilities of the hidden Markov model after a step; they are all 0 before the first.
fn smoothed(
    graph: &mut Graph,
    (markov, priors): (&Markov, &[f64]),
    scores: &str,
    before: &str,
) -> String {
    let count = priors.len();
    let log_priors: Vec<f32> = priors.iter().map(|p| p.ln() as f32).collect();
    let log_priors = graph.floats(&[1, count], &log_priors);
    let kappa = graph.floats(&[1, 1], &[markov.kappa as f32]);
    let evidence = graph.node("Sub", &[scores, &log_priors]);
    let evidence = graph.node("Mul", &[&evidence, &kappa]);
    let evidence = softmax(graph, &evidence);
    let transitions = graph.doubles(&[count, count], &markov.transitions);
    let moved = graph.node("MatMul", &[before, &transitions]);
    let start = graph.doubles(&[1, count], &markov.start);
    let axes = graph.integers(&[1]);
    let sum = graph.node("ReduceSum", &[before, &axes]);
    let half = graph.doubles(&[1, 1], &[0.5]);
    let is_first = graph.node("Less", &[&sum, &half]);
    let expected = graph.node("Where", &[&is_first, &start, &moved]);
    let product = graph.node("Mul", &[&expected, &evidence]);
    let total = graph.node("ReduceSum", &[&product, &axes]);
    // Evidence that no class can explain leaves the classes as likely as the evidence says.
    let none = graph.doubles(&[1, 1], &[0.0]);
    let one = graph.doubles(&[1, 1], &[1.0]);
    let is_likely = graph.node("Less", &[&none, &total]);
    let product = graph.node("Where", &[&is_likely, &product, &evidence]);
    let total = graph.node("Where", &[&is_likely, &total, &one]);
    let shares = graph.node("Div", &[&product, &total]);
    let floor = graph.doubles(&[1, 1], &[FLOOR]);
    let shares = graph.node("Max", &[&shares, &floor]);
    let total = graph.node("ReduceSum", &[&shares, &axes]);
    graph.node("Div", &[&shares, &total])
}

/// From latents to the gated outputs (1, outputs); their name. The output `probabilities` has the classes'.
pub(super) fn gated(
    graph: &mut Graph,
    gate: &VelocityGate,
    latents: &str,
    step_seconds: f64,
) -> String {
    let (outputs, class) = (gate.gated.len(), gate.class as usize);
    let linear = columns(graph, latents, 0..outputs);
    let of_classes = columns(graph, latents, outputs..outputs + gate.classes.latents());
    let shares = probabilities(graph, &gate.classes, of_classes, step_seconds);
    let single = graph.node_with("Cast", &[&shares], &[("to", FLOAT)]);
    graph.output(
        "probabilities",
        &single,
        FLOAT,
        &[1, gate.classes.classes()],
    );
    let share = columns(graph, &shares, class..class + 1);
    // Factors of the outputs: base + part·p.
    let pick = |own: f64, other: f64| -> Vec<f64> {
        let factor = |is_gated: &bool| if *is_gated { own } else { other };
        gate.gated.iter().map(factor).collect()
    };
    let base = graph.doubles(&[1, outputs], &pick(gate.closed, 1.0));
    let part = graph.doubles(&[1, outputs], &pick(gate.slope, 0.0));
    let part = graph.node("Mul", &[&part, &share]);
    let factor = graph.node("Add", &[&base, &part]);
    graph.node("Mul", &[&linear, &factor])
}
