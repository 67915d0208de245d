//! One step of a recurrent decoder as ONNX.

use std::ops::Range;

use super::proto::{DOUBLE, FLOAT, Graph};
use betz_runtime::model::{Cell, Recurrent, RecurrentLayer};

/// From latents (1, latents) to outputs (1, outputs); its name. `head_state` holds, for each member and layer, h and,
/// of an LSTM, c.
pub(super) fn outputs(graph: &mut Graph, network: &Recurrent, latents: &str) -> String {
    let kept = if network.cell == Cell::Gru { 1 } else { 2 };
    let units: usize = network.units.iter().sum();
    let states = network.members.len() * kept * units;
    graph.input("head_state", DOUBLE, &[1, states]);
    let before = graph.node_with("Cast", &["head_state"], &[("to", FLOAT)]);
    let latents = graph.node_with("Cast", &[latents], &[("to", FLOAT)]);
    let first = network.cell.gates() * network.units[0];
    let mut after = Vec::new();
    let mut estimates = graph.doubles(&[1, network.bias.len()], &network.bias);
    let mut next = 0;
    for (m, member) in network.members.iter().enumerate() {
        let mut below = String::new();
        for (l, (layer, &units)) in member.layers.iter().zip(&network.units).enumerate() {
            let of_input = match l {
                0 => columns(graph, &latents, m * first..(m + 1) * first),
                _ => {
                    let (weights, bias) = (&layer.input_weights, &layer.input_bias);
                    affine(graph, &below, weights, bias)
                }
            };
            let own = columns(graph, &before, next..next + kept * units);
            next += kept * units;
            let new = match network.cell {
                Cell::Gru => gru(graph, layer, units, &of_input, &own),
                _ => lstm(graph, layer, units, &of_input, &own),
            };
            below = columns(graph, &new, 0..units);
            after.push(new);
        }
        let top = network.units[network.units.len() - 1];
        let outputs = network.bias.len();
        let readout: Vec<f32> = (0..top)
            .flat_map(|unit| member.readout.iter().skip(unit).step_by(top).copied())
            .collect();
        let readout = graph.floats(&[top, outputs], &readout);
        let part = graph.node("MatMul", &[&below, &readout]);
        let part = graph.node_with("Cast", &[&part], &[("to", DOUBLE)]);
        estimates = graph.node("Add", &[&estimates, &part]);
    }
    let after: Vec<&str> = after.iter().map(String::as_str).collect();
    let after = graph.node_with("Concat", &after, &[("axis", 1)]);
    let after = graph.node_with("Cast", &[&after], &[("to", DOUBLE)]);
    graph.output("head_state_out", &after, DOUBLE, &[1, states]);
    estimates
}

/// Columns of a value of one row.
fn columns(graph: &mut Graph, value: &str, range: Range<usize>) -> String {
    let bounds = [range.start as i64, range.end as i64, 1];
    let [start, end, axis] = bounds.map(|bound| graph.integers(&[bound]));
    graph.node("Slice", &[value, &start, &end, &axis])
}

/// `value`·`weights` + `bias`.
fn affine(graph: &mut Graph, value: &str, weights: &[f32], bias: &[f32]) -> String {
    let weights = graph.floats(&[weights.len() / bias.len(), bias.len()], weights);
    let bias = graph.floats(&[1, bias.len()], bias);
    let product = graph.node("MatMul", &[value, &weights]);
    graph.node("Add", &[&product, &bias])
}

/// h after a step.
fn gru(graph: &mut Graph, layer: &RecurrentLayer, units: usize, of_input: &str, h: &str) -> String {
    let of_state = affine(graph, h, &layer.state_weights, &layer.state_bias);
    let gate = |gate: usize| gate * units..(gate + 1) * units;
    let [r, z] = [0, 1].map(|g| {
        let (a, b) = (
            columns(graph, of_input, gate(g)),
            columns(graph, &of_state, gate(g)),
        );
        let sum = graph.node("Add", &[&a, &b]);
        graph.node("Sigmoid", &[&sum])
    });
    let own = columns(graph, &of_state, gate(2));
    let own = graph.node("Mul", &[&r, &own]);
    let input = columns(graph, of_input, gate(2));
    let sum = graph.node("Add", &[&input, &own]);
    let n = graph.node("Tanh", &[&sum]);
    let left = graph.node("Sub", &[h, &n]);
    let left = graph.node("Mul", &[&z, &left]);
    graph.node("Add", &[&n, &left])
}

/// h and c after a step, side by side.
fn lstm(
    graph: &mut Graph,
    layer: &RecurrentLayer,
    units: usize,
    of_input: &str,
    states: &str,
) -> String {
    let (h, c) = (
        columns(graph, states, 0..units),
        columns(graph, states, units..2 * units),
    );
    let of_state = affine(graph, &h, &layer.state_weights, &layer.state_bias);
    let sums = graph.node("Add", &[of_input, &of_state]);
    let [i, f, g, o] =
        [(0, "Sigmoid"), (1, "Sigmoid"), (2, "Tanh"), (3, "Sigmoid")].map(|(gate, function)| {
            let sum = columns(graph, &sums, gate * units..(gate + 1) * units);
            graph.node(function, &[&sum])
        });
    let kept = graph.node("Mul", &[&f, &c]);
    let new = graph.node("Mul", &[&i, &g]);
    let c = graph.node("Add", &[&kept, &new]);
    let bent = graph.node("Tanh", &[&c]);
    let h = graph.node("Mul", &[&o, &bent]);
    graph.node_with("Concat", &[&h, &c], &[("axis", 1)])
}
