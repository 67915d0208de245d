//! Weights of ONNX' operators as layers. ONNX orders the gates z, r, h and i, o, f, c.

use betz_base::Result;
use betz_runtime::model::Cell;

use super::graph::{Constants, Node};
use super::safetensors::Tensor;
use super::{Layer, refuse, transposed};

/// Input `i` of `node`, which is a constant; `None` if it is left out.
fn constant<'a>(node: &Node, constants: &'a Constants, i: usize) -> Result<Option<&'a Tensor>> {
    let Some(name) = node.input(i) else {
        return Ok(None);
    };
    match constants.get(name) {
        Some(tensor) => Ok(Some(tensor)),
        None => refuse(format!(
            "{node}: input {i}, {name:?}: expected a constant, got computed values; export with constants folded"
        )),
    }
}

/// Input `i` of `node` as so many numbers; zeros if it is left out.
fn numbers(node: &Node, constants: &Constants, i: usize, count: usize) -> Result<Vec<f64>> {
    match constant(node, constants, i)? {
        Some(tensor) if tensor.values.len() == count => Ok(tensor.values.clone()),
        Some(tensor) => refuse(format!(
            "{node}: input {i}: expected {count} numbers, got {}",
            tensor.values.len()
        )),
        None => Ok(vec![0.0; count]),
    }
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
                "{node}: the attribute {name} has a value that is not supported; expected PyTorch's layer that goes forwards"
            ));
        }
    }
    if cell == Cell::Gru && !node.attributes.contains_key("linear_before_reset") {
        return refuse(format!(
            "{node}: expected linear_before_reset 1, as PyTorch's layers have it, got ONNX' default 0"
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

/// The weights of a GRU or LSTM.
pub(super) fn recurrent(node: &Node, constants: &Constants, cell: Cell) -> Result<Layer> {
    check_attributes(node, cell)?;
    let gates = cell.gates();
    let matrix = |input: usize, what: &str| match constant(node, constants, input)? {
        Some(tensor) if tensor.shape.len() == 3 && tensor.shape[0] == 1 => Ok(tensor),
        Some(tensor) => refuse(format!(
            "{node}: {what}: expected (1, gates × units, inputs), got the shape {:?}",
            tensor.shape
        )),
        None => refuse(format!("{node}: {what}: expected a constant, found none")),
    };
    let (weights, states) = (matrix(1, "W")?, matrix(2, "R")?);
    let (rows, inputs, units) = (weights.shape[1], weights.shape[2], states.shape[2]);
    if units == 0 || rows != gates * units || states.shape[1] != rows {
        return refuse(format!(
            "{node}: expected {gates} rows per unit, got W {:?} and R {:?}",
            weights.shape, states.shape
        ));
    }
    if node.input(4).is_some() || node.input(7).is_some() {
        return refuse(format!(
            "{node}: lengths of sequences and peepholes are not supported"
        ));
    }
    let biases = numbers(node, constants, 3, 2 * rows)?;
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

/// The weights of a Gemm or MatMul, (input, output), and its bias.
pub(super) fn linear(node: &Node, constants: &Constants) -> Result<(Vec<f64>, Vec<f64>)> {
    let number = |name: &str| node.attributes.get(name).and_then(|a| a.float);
    let flag = |name: &str| node.attributes.get(name).and_then(|a| a.int) == Some(1);
    if number("alpha").is_some_and(|alpha| alpha != 1.0)
        || number("beta").is_some_and(|beta| beta != 1.0)
        || flag("transA")
    {
        return refuse(format!("{node}: expected alpha and beta 1 and no transA"));
    }
    let weights = constant(node, constants, 1)?.filter(|tensor| tensor.shape.len() == 2);
    let Some(weights) = weights else {
        return refuse(format!(
            "{node}: expected a constant matrix to multiply with"
        ));
    };
    let (matrix, outputs) = match flag("transB") {
        true => (
            transposed(&weights.values, weights.shape[1]),
            weights.shape[0],
        ),
        false => (weights.values.clone(), weights.shape[1]),
    };
    let bias = match node.operator.as_str() {
        "Gemm" => numbers(node, constants, 2, outputs)?,
        _ => vec![0.0; outputs],
    };
    Ok((matrix, bias))
}

/// The constant that an Add adds to `width` values in the last axis.
pub(super) fn added(node: &Node, constants: &Constants, width: usize) -> Result<Vec<f64>> {
    let other = node.inputs.iter().find_map(|name| constants.get(name));
    let Some(other) = other else {
        return refuse(format!("{node}: expected a constant to add"));
    };
    if other.values.len() != width || other.shape.last() != Some(&width) {
        return refuse(format!(
            "{node}: expected {width} numbers to add, got the shape {:?}",
            other.shape
        ));
    }
    Ok(other.values.clone())
}
