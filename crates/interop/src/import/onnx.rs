//! GRU and LSTM operators of ONNX with a linear readout, as `torch.onnx.export` writes them. ONNX orders the gates z, r, h
//! and i, o, f, c.

use std::collections::BTreeMap;

use betz_base::Result;
use betz_runtime::model::Cell;

use super::graph::{Graph, Node};
use super::safetensors::Tensor;
use super::{Layer, Network, refuse, transposed};

/// Operators that move numbers and change none: the axes of time and batch.
const MOVES: [&str; 14] = [
    "Cast",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "Dropout",
    "Expand",
    "Gather",
    "Identity",
    "Reshape",
    "Shape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// Origin of a value in the graph.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Input,
    /// States of a layer, counted from 0.
    States(usize),
    /// Linear readout of the last layer.
    Readout,
}

pub(super) fn read(bytes: &[u8]) -> Result<Network> {
    let graph = Graph::read(bytes)?;
    let mut values: BTreeMap<&str, Value> = BTreeMap::new();
    // Initial states and lengths of sequences may be inputs, too; the first is the counts.
    let first = graph
        .inputs
        .iter()
        .find(|name| !graph.constants.contains_key(*name));
    if let Some(first) = first {
        values.insert(first, Value::Input);
    }
    let (mut layers, mut cell, mut readout) = (Vec::new(), None, None);
    for node in &graph.nodes {
        let mut all = node
            .inputs
            .iter()
            .filter_map(|name| values.get(name.as_str()).copied());
        let known = all.next();
        if all.next().is_some() {
            return refuse(format!(
                "{}: expected one value on its way from the inputs to the outputs, got several; joined paths are not supported",
                place(node)
            ));
        }
        let value = match node.operator.as_str() {
            "GRU" | "LSTM" => {
                let own = if node.operator == "GRU" {
                    Cell::Gru
                } else {
                    Cell::Lstm
                };
                if cell.is_some_and(|cell| cell != own) {
                    return refuse(format!("{}: expected layers of one kind", place(node)));
                }
                cell = Some(own);
                let expected = match layers.len() {
                    0 => Value::Input,
                    below => Value::States(below - 1),
                };
                let from = node
                    .inputs
                    .first()
                    .and_then(|name| values.get(name.as_str()));
                if from != Some(&expected) {
                    return refuse(format!(
                        "{}: expected the states of the layer below as they are",
                        place(node)
                    ));
                }
                layers.push(layer(node, &graph, own)?);
                Some(Value::States(layers.len() - 1))
            }
            "Gemm" | "MatMul" if known == layers.len().checked_sub(1).map(Value::States) => {
                if readout.is_some() {
                    return refuse(format!("{}: expected one linear readout", place(node)));
                }
                let units = layers.last().map_or(0, |layer: &Layer| layer.units);
                readout = Some(product(node, &graph, units)?);
                Some(Value::Readout)
            }
            "Add" if known == Some(Value::Readout) => {
                let bias = node
                    .inputs
                    .iter()
                    .find_map(|name| graph.constants.get(name));
                let (Some(bias), Some((_, sums))) = (bias, &mut readout) else {
                    return refuse(format!("{}: expected a constant to add", place(node)));
                };
                if bias.values.len() != sums.len() {
                    return refuse(format!(
                        "{}: expected {} numbers to add, got {}",
                        place(node),
                        sums.len(),
                        bias.values.len()
                    ));
                }
                sums.iter_mut()
                    .zip(&bias.values)
                    .for_each(|(sum, b)| *sum += b);
                Some(Value::Readout)
            }
            operator if MOVES.contains(&operator) => known,
            operator => {
                return refuse(format!(
                    "operator {operator} ({}): expected GRU or LSTM, Gemm or MatMul, and operators that only move numbers; this one is not supported",
                    place(node)
                ));
            }
        };
        if let Some(value) = value {
            values.extend(node.outputs.iter().map(|name| (name.as_str(), value)));
        }
    }
    match readout {
        Some((readout, bias)) if !layers.is_empty() => Ok(Network {
            cell: cell.unwrap_or_default(),
            layers,
            readout,
            bias,
            caps: Vec::new(),
        }),
        _ => refuse(format!(
            "expected GRU or LSTM operators and a linear readout (Gemm, or MatMul and Add), found {} layers and {} readout",
            layers.len(),
            if readout.is_some() { "a" } else { "no" }
        )),
    }
}

fn place(node: &Node) -> String {
    format!("{} {:?}", node.operator, node.name)
}

fn constant<'a>(node: &Node, graph: &'a Graph, input: usize) -> Option<&'a Tensor> {
    let name = node.inputs.get(input).filter(|name| !name.is_empty())?;
    graph.constants.get(name)
}

/// Refuses attributes by which a layer computes otherwise than PyTorch's.
fn check_attributes(node: &Node, cell: Cell) -> Result<()> {
    for (name, attribute) in &node.attributes {
        let default = match name.as_str() {
            "hidden_size" => true,
            "direction" => attribute.text.as_deref() == Some("forward"),
            "layout" => attribute.int == Some(0),
            "linear_before_reset" => attribute.int == Some(1),
            "activations" => {
                let usual: &[&str] = match cell {
                    Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
                    _ => &["Sigmoid", "Tanh"],
                };
                attribute.texts == usual
            }
            "input_forget" => attribute.int == Some(0),
            _ => false,
        };
        if !default {
            return refuse(format!(
                "{}: the attribute {name} has a value that is not supported; expected PyTorch's layer that goes forwards",
                place(node)
            ));
        }
    }
    if cell == Cell::Gru && !node.attributes.contains_key("linear_before_reset") {
        return refuse(format!(
            "{}: expected linear_before_reset 1, as PyTorch's layers have it, got ONNX' default 0",
            place(node)
        ));
    }
    Ok(())
}

/// Order of ONNX' gates in Betz': gate i of Betz is gate `ORDER[i]` of ONNX.
const fn order(cell: Cell) -> &'static [usize] {
    match cell {
        Cell::Lstm => &[0, 2, 3, 1],
        _ => &[1, 0, 2],
    }
}

fn layer(node: &Node, graph: &Graph, cell: Cell) -> Result<Layer> {
    check_attributes(node, cell)?;
    let gates = cell.gates();
    let matrix = |input: usize, what: &str| match constant(node, graph, input) {
        Some(tensor) if tensor.shape.len() == 3 && tensor.shape[0] == 1 => Ok(tensor),
        Some(tensor) => refuse(format!(
            "{}: {what}: expected (1, gates × units, inputs), got the shape {:?}",
            place(node),
            tensor.shape
        )),
        None => refuse(format!(
            "{}: {what}: expected a constant, found none",
            place(node)
        )),
    };
    let (weights, states) = (matrix(1, "W")?, matrix(2, "R")?);
    let (rows, inputs, units) = (weights.shape[1], weights.shape[2], states.shape[2]);
    if units == 0 || rows != gates * units || states.shape[1] != rows {
        return refuse(format!(
            "{}: expected {gates} rows per unit, got W {:?} and R {:?}",
            place(node),
            weights.shape,
            states.shape
        ));
    }
    if node.inputs.get(4).is_some_and(|name| !name.is_empty())
        || node.inputs.get(7).is_some_and(|name| !name.is_empty())
    {
        return refuse(format!(
            "{}: lengths of sequences and peepholes are not supported",
            place(node)
        ));
    }
    let biases = match constant(node, graph, 3) {
        Some(bias) if bias.values.len() == 2 * rows => bias.values.clone(),
        Some(bias) => {
            return refuse(format!(
                "{}: B: expected {} numbers, got {}",
                place(node),
                2 * rows,
                bias.values.len()
            ));
        }
        None => vec![0.0; 2 * rows],
    };
    // Rows of numbers per gate, in Betz' order.
    let ordered = |values: &[f64]| -> Vec<f64> {
        let each = values.len() / gates;
        let gate = |&gate: &usize| values[gate * each..(gate + 1) * each].to_vec();
        order(cell).iter().flat_map(gate).collect()
    };
    Ok(Layer {
        inputs,
        units,
        input_weights: transposed(&ordered(&weights.values), inputs),
        state_weights: transposed(&ordered(&states.values), units),
        input_bias: ordered(&biases[..rows]),
        state_bias: ordered(&biases[rows..]),
    })
}

/// The weights, (output, unit), and the bias of a linear readout.
fn product(node: &Node, graph: &Graph, units: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let number = |name: &str, default: f32| {
        node.attributes
            .get(name)
            .and_then(|a| a.float)
            .unwrap_or(default)
    };
    let flag = |name: &str| node.attributes.get(name).and_then(|a| a.int) == Some(1);
    if number("alpha", 1.0) != 1.0 || number("beta", 1.0) != 1.0 || flag("transA") {
        return refuse(format!(
            "{}: expected alpha and beta 1 and no transA",
            place(node)
        ));
    }
    let Some(weights) = constant(node, graph, 1).filter(|tensor| tensor.shape.len() == 2) else {
        return refuse(format!(
            "{}: expected a constant matrix to multiply with",
            place(node)
        ));
    };
    let by_output = flag("transB");
    let (outputs, inputs) = match by_output {
        true => (weights.shape[0], weights.shape[1]),
        false => (weights.shape[1], weights.shape[0]),
    };
    if inputs != units {
        return refuse(format!(
            "{}: expected {units} inputs, got {inputs}",
            place(node)
        ));
    }
    let matrix = match by_output {
        true => weights.values.clone(),
        false => transposed(&weights.values, outputs),
    };
    let bias = match constant(node, graph, 2) {
        Some(bias) if bias.values.len() == outputs => bias.values.clone(),
        Some(bias) => {
            return refuse(format!(
                "{}: expected a bias of {outputs} numbers, got {}",
                place(node),
                bias.values.len()
            ));
        }
        None => vec![0.0; outputs],
    };
    Ok((matrix, bias))
}
