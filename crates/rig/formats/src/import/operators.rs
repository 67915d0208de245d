//! Weights of ONNX' operators as layers. ONNX orders the gates z, r, h and i, o, f, c.

use betz_base::Result;
use betz_runtime::model::{Activation, Cell};

use super::axes::Axis;
use super::chain::Stage;
use super::fold::integers;
use super::graph::{Constants, Node};
use super::tensor::Tensor;
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

/// The activation of a node of one operator.
pub(super) fn activation(node: &Node) -> Option<Activation> {
    let text = |name: &str| node.attributes.get(name).map(|a| a.text.as_deref());
    let alpha = node.attributes.get("alpha").map(|a| a.float);
    match node.operator.as_str() {
        "Relu" => Some(Activation::Relu),
        "Tanh" => Some(Activation::Tanh),
        "Sigmoid" => Some(Activation::Sigmoid),
        "Softsign" => Some(Activation::Softsign),
        "Elu" if matches!(alpha, None | Some(Some(1.0))) => Some(Activation::Elu),
        "Gelu" if matches!(text("approximate"), None | Some(Some("none"))) => {
            Some(Activation::Gelu)
        }
        _ => None,
    }
}

/// Zeros that a Pad puts before and behind the steps of a value of `axes`.
pub(super) fn padding(node: &Node, constants: &Constants, axes: &[Axis]) -> Result<(usize, usize)> {
    let fill = constant(node, constants, 2)?;
    let is_zero = fill.is_none_or(|fill| fill.values == [0.0]);
    let mode = node.attributes.get("mode").map(|a| a.text.as_deref());
    let older = node.attributes.get("value").and_then(|a| a.float);
    let pads = integers(node, constants, 1, "pads");
    let Some(pads) = pads.filter(|_| {
        is_zero && older.is_none_or(|v| v == 0.0) && matches!(mode, None | Some(Some("constant")))
    }) else {
        return refuse(format!(
            "{node}: expected a constant number of zeros; export with constants folded"
        ));
    };
    let list = integers(node, constants, 3, "axes");
    let own: Vec<usize> = match (node.input(3), list) {
        (None, _) => (0..axes.len()).collect(),
        (_, Some(list)) => super::fold::positions(&list, axes.len()).unwrap_or_default(),
        _ => Vec::new(),
    };
    let mut found = (0, 0);
    let is_whole = pads.len() == 2 * own.len() && !own.is_empty();
    for (i, &axis) in own.iter().enumerate().filter(|_| is_whole) {
        let pair = [pads[i], pads[own.len() + i]].map(usize::try_from);
        match (axes[axis], pair) {
            (_, [Ok(0), Ok(0)]) => {}
            (Axis::Time, [Ok(before), Ok(behind)]) => found = (before, behind),
            _ => {
                return refuse(format!(
                    "{node}: expected zeros before and behind the steps alone, got {pads:?} along {axes:?}"
                ));
            }
        }
    }
    match is_whole {
        true => Ok(found),
        false => refuse(format!("{node}: expected two pads per axis, got {pads:?}")),
    }
}

/// A causal convolution over steps.
pub(super) struct Convolution {
    pub(super) inputs: usize,
    pub(super) window: Stage,
    pub(super) linear: Stage,
    /// Steps that come out behind the last one of the input.
    pub(super) behind: usize,
}

/// The convolution of a node on values with so many zeros put before and behind them.
pub(super) fn convolution(
    node: &Node,
    constants: &Constants,
    (zeros_before, zeros_behind): (usize, usize),
) -> Result<Convolution> {
    let weights = constant(node, constants, 1)?.filter(|tensor| tensor.shape.len() == 3);
    let Some(weights) = weights else {
        return refuse(format!("{node}: expected constant weights of a Conv1d"));
    };
    let (outputs, inputs, length) = (weights.shape[0], weights.shape[1], weights.shape[2]);
    let ints = |name: &str| node.attributes.get(name).map_or(&[][..], |a| &a.ints);
    let one = |name: &str| match ints(name) {
        [] => Ok(1),
        [n @ 1..=0xFFFF] => Ok(*n as usize),
        other => refuse(format!(
            "{node}: {name}: expected one number of 1 to 65535, got {other:?}"
        )),
    };
    let (apart, stride) = (one("dilations")?, one("strides")?);
    let group = node.attributes.get("group").and_then(|a| a.int);
    let auto = node.attributes.get("auto_pad").map(|a| a.text.as_deref());
    if !matches!(group, None | Some(1))
        || !matches!(auto, None | Some(Some("NOTSET")))
        || outputs == 0
        || inputs == 0
        || length == 0
    {
        return refuse(format!(
            "{node}: expected group 1, explicit pads and weights"
        ));
    }
    let (before, behind) = match ints("pads") {
        [] => (0, 0),
        [before @ 0..=0xFFFF, behind @ 0..=0xFFFF] => (*before as usize, *behind as usize),
        other => {
            return refuse(format!(
                "{node}: pads: expected two of 0 to 65535, got {other:?}"
            ));
        }
    };
    let needed = (length - 1).saturating_mul(apart);
    let before = before.saturating_add(zeros_before);
    let behind = behind.saturating_add(zeros_behind);
    // With fewer zeros before than `needed`, an output is as late; zeros behind would hide that.
    if before > needed || (behind > 0 && (before < needed || stride > 1)) {
        return refuse(format!(
            "{node}: expected a causal convolution, with at most {needed} zeros before the first step and none behind the last, or {needed} before and a stride of 1, got {before} and {behind}"
        ));
    }
    let bias = numbers(node, constants, 2, outputs)?;
    // Rows are (step, input).
    let mut rows = vec![0.0; weights.values.len()];
    for (i, &weight) in weights.values.iter().enumerate() {
        let (output, input, step) = (i / (inputs * length), i / length % inputs, i % length);
        rows[(step * inputs + input) * outputs + output] = weight;
    }
    Ok(Convolution {
        inputs,
        window: Stage::Window {
            length,
            apart,
            stride,
            first: needed + 1 - before,
        },
        linear: Stage::Linear {
            weights: rows,
            bias,
        },
        behind,
    })
}

/// A LayerNormalization over the last of `rank` axes: scale, shift and ε.
pub(super) fn normalization(
    node: &Node,
    constants: &Constants,
    rank: Option<usize>,
) -> Result<(Vec<f64>, Vec<f64>, f64)> {
    let scale = constant(node, constants, 1)?.filter(|tensor| tensor.shape.len() == 1);
    let Some(scale) = scale else {
        return refuse(format!("{node}: expected one constant scale per value"));
    };
    let axis = node.attributes.get("axis").and_then(|a| a.int);
    if axis.is_some_and(|axis| axis != -1 && Some(axis + 1) != rank.map(|rank| rank as i64)) {
        return refuse(format!("{node}: expected the last axis, got {axis:?}"));
    }
    let shift = numbers(node, constants, 2, scale.values.len())?;
    let epsilon = node.attributes.get("epsilon").and_then(|a| a.float);
    Ok((scale.values.clone(), shift, epsilon.map_or(1e-5, f64::from)))
}
