//! One step of a recurrent decoder as ONNX.

use super::columns;
use super::proto::{DOUBLE, FLOAT, Graph};
use crate::import::description;
use betz_runtime::model::{Blend, Cell, Recurrent, RecurrentLayer};

/// From latents (1, latents) to outputs (1, outputs); its name. `head_state` holds, for each member and layer, h and,
/// of an LSTM, c; last the distance of a blend.
pub(super) fn outputs(graph: &mut Graph, network: &Recurrent, latents: &str) -> String {
    let kept = if network.cell == Cell::Gru { 1 } else { 2 };
    let units: usize = network.units.iter().sum();
    let of_members = network.members.len() * kept * units;
    let states = of_members + usize::from(network.blend.is_some());
    let state = graph.state("head_state", &[1, states]);
    let before = columns(graph, &state, 0..of_members);
    let before = graph.node_with("Cast", &[&before], &[("to", FLOAT)]);
    let latents = graph.node_with("Cast", &[latents], &[("to", FLOAT)]);
    let first = network.cell.gates() * network.units[0];
    let mut after = Vec::new();
    let mut estimates = {
        let shape = [1, network.bias.len()];
        graph.named_doubles("member0.readout.bias", &shape, &network.bias)
    };
    let mut usual = None;
    let mut next = 0;
    for (m, member) in network.members.iter().enumerate() {
        if let Some(blend) = &network.blend
            && m == blend.usual
        {
            let name = format!("member{m}.readout.bias");
            let by_mixtures = graph.named_doubles(&name, &[1, blend.bias.len()], &blend.bias);
            usual = Some(std::mem::replace(&mut estimates, by_mixtures));
        }
        let mut below = String::new();
        for (l, (layer, &units)) in member.layers.iter().zip(&network.units).enumerate() {
            let names = |of: &str| {
                let module = network.cell.name();
                ["weight", "bias"].map(|what| format!("member{m}.{module}.{what}_{of}_l{l}"))
            };
            let of_input = match l {
                0 => columns(graph, &latents, m * first..(m + 1) * first),
                _ => {
                    let (weights, bias) = (&layer.input_weights, &layer.input_bias);
                    affine(graph, &below, &names("ih"), (weights, bias))
                }
            };
            let own = columns(graph, &before, next..next + kept * units);
            next += kept * units;
            let new = match network.cell {
                Cell::Gru => gru(graph, (layer, &names("hh")), units, &of_input, &own),
                _ => lstm(graph, (layer, &names("hh")), units, &of_input, &own),
            };
            below = columns(graph, &new, 0..units);
            after.push(new);
        }
        let top = network.units[network.units.len() - 1];
        let outputs = network.bias.len();
        let readout: Vec<f32> = (0..top)
            .flat_map(|unit| member.readout.iter().skip(unit).step_by(top).copied())
            .collect();
        let name = format!("member{m}.readout.weight");
        let readout = graph.named_floats(&name, &[top, outputs], &readout);
        let part = graph.node("MatMul", &[&below, &readout]);
        let part = graph.node_with("Cast", &[&part], &[("to", DOUBLE)]);
        estimates = graph.node("Add", &[&estimates, &part]);
    }
    let after: Vec<&str> = after.iter().map(String::as_str).collect();
    let after = graph.node_with("Concat", &after, &[("axis", 1)]);
    let mut after = graph.node_with("Cast", &[&after], &[("to", DOUBLE)]);
    if let (Some(blend), Some(usual)) = (&network.blend, usual) {
        let distance = columns(graph, &state, of_members..states);
        let new;
        (estimates, new) = blended(graph, blend, (&usual, &estimates), &distance);
        after = graph.node_with("Concat", &[&after, &new], &[("axis", 1)]);
    }
    graph.next_state("head_state", &after, &[1, states]);
    estimates
}

/// The blend of the usual estimates and those by mixtures, and the distance after the step.
fn blended(
    graph: &mut Graph,
    blend: &Blend,
    (usual, by_mixtures): (&str, &str),
    distance: &str,
) -> (String, String) {
    let [kept, new, inverse, one, most] = [
        blend.kept,
        1.0 - blend.kept,
        1.0 / blend.apart,
        1.0,
        1.0 - blend.share,
    ]
    .map(|number| graph.doubles(&[1, 1], &[number]));
    let shape = [1, blend.deviations.len()];
    let deviations = graph.named_doubles(description::DEVIATIONS, &shape, &blend.deviations);
    let apart = graph.node("Sub", &[usual, by_mixtures]);
    let standard = graph.node("Div", &[&apart, &deviations]);
    let squares = graph.node("Mul", &[&standard, &standard]);
    let axes = graph.integers(&[1]);
    let sum = graph.node("ReduceSum", &[&squares, &axes]);
    let [before, now] = [
        graph.node("Mul", &[distance, &kept]),
        graph.node("Mul", &[&sum, &new]),
    ];
    let distance = graph.node("Add", &[&before, &now]);
    let ratio = graph.node("Mul", &[&distance, &inverse]);
    let square = graph.node("Mul", &[&ratio, &ratio]);
    let fourth = graph.node("Mul", &[&square, &square]);
    let below = graph.node("Add", &[&fourth, &one]);
    let part = graph.node("Div", &[&most, &below]);
    let moved = graph.node("Mul", &[&apart, &part]);
    (graph.node("Add", &[by_mixtures, &moved]), distance)
}

/// `value`·`weights` + `bias`.
fn affine(
    graph: &mut Graph,
    value: &str,
    [weights_name, bias_name]: &[String; 2],
    (weights, bias): (&[f32], &[f32]),
) -> String {
    let shape = [weights.len() / bias.len(), bias.len()];
    let weights = graph.named_floats(weights_name, &shape, weights);
    let bias = graph.named_floats(bias_name, &[1, bias.len()], bias);
    let product = graph.node("MatMul", &[value, &weights]);
    graph.node("Add", &[&product, &bias])
}

/// h after a step.
fn gru(
    graph: &mut Graph,
    (layer, names): (&RecurrentLayer, &[String; 2]),
    units: usize,
    of_input: &str,
    h: &str,
) -> String {
    let of_state = affine(graph, h, names, (&layer.state_weights, &layer.state_bias));
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
    (layer, names): (&RecurrentLayer, &[String; 2]),
    units: usize,
    of_input: &str,
    states: &str,
) -> String {
    let (h, c) = (
        columns(graph, states, 0..units),
        columns(graph, states, units..2 * units),
    );
    let of_state = affine(graph, &h, names, (&layer.state_weights, &layer.state_bias));
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
