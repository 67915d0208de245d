//! PyTorch's names of weights: `nn.GRU`, `nn.LSTM`, `nn.GRUCell`, `nn.LSTMCell` and `nn.Linear`; and those of the published network for
//! speech (Card et al. 2024): `day_weights.N`, `day_biases.N`, `h0`.

use betz_base::Result;
use betz_runtime::model::{Activation, Cell};

use super::chain::{self, Stage};
use super::tensor::{CAPS, Tensors, take};
use super::{Layer, Network, Options, refuse, transposed};

/// The network of the tensors of one member, whose only modules are one stack of recurrent layers and one linear readout, and
/// input layers of days before them.
pub(super) fn network(mut tensors: Tensors, options: Options) -> Result<Network> {
    let reverse = tensors.keys().find(|name| name.ends_with("_reverse"));
    if let Some(name) = reverse {
        return refuse(format!(
            "tensor {name}: expected layers that go forwards in time, got a bidirectional one, which needs values to come; train it with bidirectional=False"
        ));
    }
    let starts: Vec<(String, bool)> = (tensors.keys())
        .filter_map(|name| {
            let layers = name
                .strip_suffix("weight_hh_l0")
                .map(|prefix| (prefix.to_owned(), true));
            let cell = || {
                name.strip_suffix("weight_hh")
                    .map(|prefix| (prefix.to_owned(), false))
            };
            layers.or_else(cell)
        })
        .collect();
    let [(prefix, is_stack)] = starts.as_slice() else {
        let found: Vec<&str> = starts
            .iter()
            .map(|(prefix, _)| prefix.trim_end_matches('.'))
            .collect();
        return refuse(format!(
            "expected one nn.GRU, nn.LSTM, nn.GRUCell or nn.LSTMCell, found {}: {found:?}; tensors: {}",
            starts.len(),
            names(&tensors)
        ));
    };
    let (mut layers, mut cell, mut projection) = (Vec::new(), None, None);
    for l in 0.. {
        let name = |what: &str| match is_stack {
            true => format!("{prefix}{what}_l{l}"),
            false => format!("{prefix}{what}"),
        };
        if l > 0 && (!is_stack || !tensors.contains_key(&name("weight_hh"))) {
            break;
        }
        let layer = take_layer(&mut tensors, &name, &mut cell, &mut projection)?;
        layers.push(layer);
    }
    let top = match (&projection, layers.last()) {
        (Some(matrix), Some(layer)) => matrix.len() / layer.units,
        (None, Some(layer)) => layer.units,
        (_, None) => 0,
    };
    let gate_inputs = layers.first().map_or(0, |layer: &Layer| layer.inputs);
    let (inputs, mut stages) = take_day(&mut tensors, gate_inputs, options)?;
    let caps = take(&mut tensors, CAPS, &[inputs])?.unwrap_or_default();
    let starts = take_starts(&mut tensors, &layers, cell)?;
    let (mut readout, bias) = take_readout(&mut tensors, top)?;
    if let (Some(matrix), Some(layer)) = (&projection, layers.last()) {
        readout = product(&readout, matrix, layer.units);
    }
    let cell = cell.unwrap_or_default();
    let units = layers.last().map_or(0, |layer| layer.units);
    let gated = layers.into_iter().zip(starts);
    stages.extend(gated.map(|(layer, start)| Stage::Gated(cell, layer, start)));
    stages.push(Stage::Linear {
        weights: transposed(&readout, units),
        bias,
    });
    let mut network = chain::network(inputs, stages)?;
    network.caps = caps.iter().map(|&cap| cap as f32).collect();
    Ok(network)
}

/// The input layer of a day with its softsign and the patches behind it, if the file has some, and the number of channels.
fn take_day(
    tensors: &mut Tensors,
    gate_inputs: usize,
    options: Options,
) -> Result<(usize, Vec<Stage>)> {
    let day_of = |name: &String| {
        name.strip_prefix("day_weights.")
            .and_then(|n| n.parse::<usize>().ok())
    };
    let days: Vec<usize> = tensors.keys().filter_map(day_of).collect();
    let Some(&last) = days.iter().max() else {
        return match options {
            Options {
                day: None,
                stride: None,
                ..
            } => Ok((gate_inputs, Vec::new())),
            _ => refuse(
                "expected tensors day_weights.0 and on for a day or a stride, found none".into(),
            ),
        };
    };
    let day = options.day.unwrap_or(last);
    let name = format!("day_weights.{day}");
    let Some(features) = tensors.get(&name).and_then(|t| t.shape.first().copied()) else {
        return refuse(format!(
            "expected a tensor {name}, found those of days {days:?}"
        ));
    };
    let weights = take(tensors, &name, &[features, features])?.unwrap_or_default();
    let bias = take(tensors, &format!("day_biases.{day}"), &[1, features])?;
    tensors.retain(|name, _| !name.starts_with("day_weights.") && !name.starts_with("day_biases."));
    if features == 0 || !gate_inputs.is_multiple_of(features) {
        return refuse(format!(
            "tensor {name}: expected features of which the recurrent layer's {gate_inputs} inputs are a multiple, got {features}"
        ));
    }
    let mut stages = vec![
        Stage::Linear {
            weights,
            bias: bias.unwrap_or_else(|| vec![0.0; features]),
        },
        Stage::Activation(Activation::Softsign),
    ];
    let length = gate_inputs / features;
    match (length, options.stride) {
        (1, None) => {}
        (_, Some(stride)) if stride > 0 => stages.push(Stage::Window {
            length,
            apart: 1,
            stride,
            first: length,
        }),
        _ => {
            return refuse(format!(
                "the network takes patches of {length} steps: expected a stride of 1 step or more, which the file does not hold"
            ));
        }
    }
    Ok((features, stages))
}

/// Initial states `h0`, (layer or 1, 1, unit), of each layer; empty without them.
fn take_starts(
    tensors: &mut Tensors,
    layers: &[Layer],
    cell: Option<Cell>,
) -> Result<Vec<Vec<f64>>> {
    let Some(tensor) = tensors.remove("h0") else {
        return Ok(vec![Vec::new(); layers.len()]);
    };
    let units = layers.first().map_or(0, |layer| layer.units);
    let fits = layers.iter().all(|layer| layer.units == units) && cell == Some(Cell::Gru);
    let rows = tensor.values.len() / units.max(1);
    if !fits || ![vec![1, 1, units], vec![layers.len(), 1, units]].contains(&tensor.shape) {
        return refuse(format!(
            "tensor h0: expected states of GRU layers, [1 or {}, 1, {units}], got {:?}",
            layers.len(),
            tensor.shape
        ));
    }
    let start = |l: usize| tensor.values[(l % rows) * units..][..units].to_vec();
    Ok((0..layers.len()).map(start).collect())
}

fn names(tensors: &Tensors) -> String {
    tensors
        .keys()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// `left`, (rows, n), times `right`, (n, columns).
fn product(left: &[f64], right: &[f64], columns: usize) -> Vec<f64> {
    let inner = right.len() / columns.max(1);
    let row = |row: &[f64]| {
        let mut sums = vec![0.0; columns];
        for (value, right) in row.iter().zip(right.chunks_exact(columns)) {
            sums.iter_mut()
                .zip(right)
                .for_each(|(sum, weight)| *sum += value * weight);
        }
        sums
    };
    left.chunks_exact(inner.max(1)).flat_map(row).collect()
}

/// Takes one layer. `projection`, (projected, unit), is that of the layer below, and then of this one: states are kept
/// before it, and it is multiplied into the weights that read them.
fn take_layer(
    tensors: &mut Tensors,
    name: &dyn Fn(&str) -> String,
    cell: &mut Option<Cell>,
    projection: &mut Option<Vec<f64>>,
) -> Result<Layer> {
    let shape = |tensors: &Tensors, what: &str| {
        let name = name(what);
        match tensors.get(&name).map(|tensor| tensor.shape.clone()) {
            Some(shape) if shape.len() == 2 => Ok([shape[0], shape[1]]),
            Some(shape) => refuse(format!(
                "tensor {name}: expected a matrix, got the shape {shape:?}"
            )),
            None => refuse(format!(
                "expected a tensor {name}, found none; tensors: {}",
                names(tensors)
            )),
        }
    };
    let [rows, recurrent] = shape(tensors, "weight_hh")?;
    let [_, inputs] = shape(tensors, "weight_ih")?;
    let projects = tensors.contains_key(&name("weight_hr"));
    // The projected states are as many as W_hr has rows; gates have a row per unit.
    let units = match projects {
        true => shape(tensors, "weight_hr")?[1],
        false => recurrent,
    };
    let own = match (rows / units.max(1), rows % units.max(1)) {
        (3, 0) if !projects => Cell::Gru,
        (4, 0) => Cell::Lstm,
        _ => {
            return refuse(format!(
                "tensor {}: expected 3 (GRU) or 4 (LSTM) rows per unit, got {rows} rows for {units} units; nn.RNN is not supported",
                name("weight_hh")
            ));
        }
    };
    if cell.is_some_and(|cell| cell != own) {
        return refuse(format!(
            "tensor {}: expected layers of one kind",
            name("weight_hh")
        ));
    }
    *cell = Some(own);
    let mut must = |what: &str, shape: &[usize]| match take(tensors, &name(what), shape)? {
        Some(values) => Ok(values),
        None => refuse(format!("expected a tensor {}, found none", name(what))),
    };
    let mut of_input = must("weight_ih", &[rows, inputs])?;
    let mut of_state = must("weight_hh", &[rows, recurrent])?;
    let mut inputs = inputs;
    if let Some(below) = projection {
        // `below` is (projected, unit of the layer below).
        let units_below = below.len() / inputs.max(1);
        of_input = product(&of_input, below, units_below);
        inputs = units_below;
    }
    *projection = match projects {
        true => Some(must("weight_hr", &[recurrent, units])?),
        false => None,
    };
    if let Some(own) = projection {
        of_state = product(&of_state, own, units);
    }
    let mut bias = |what: &str| {
        take(tensors, &name(what), &[rows]).map(|bias| bias.unwrap_or_else(|| vec![0.0; rows]))
    };
    Ok(Layer {
        inputs,
        units,
        input_bias: bias("bias_ih")?,
        state_bias: bias("bias_hh")?,
        input_weights: transposed(&of_input, inputs),
        state_weights: transposed(&of_state, units),
    })
}

/// The one linear layer that is left, of `top` inputs: (output, unit), and its bias.
fn take_readout(tensors: &mut Tensors, top: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let is_readout = |name: &str, shape: &[usize]| {
        name.rsplit('.').next() == Some("weight") && shape.len() == 2 && shape[1] == top
    };
    let mut fitting = (tensors.iter()).filter(|(name, tensor)| is_readout(name, &tensor.shape));
    let (Some((name, tensor)), None) = (fitting.next(), fitting.next()) else {
        return refuse(format!(
            "expected one nn.Linear of {top} inputs behind the last layer, found none or several; tensors left: {}",
            names(tensors)
        ));
    };
    let (name, outputs) = (name.clone(), tensor.shape[0]);
    let weights = take(tensors, &name, &[outputs, top])?.unwrap_or_default();
    let stem = name.strip_suffix("weight").unwrap_or(&name);
    let bias = take(tensors, &format!("{stem}bias"), &[outputs])?;
    if let Some((name, tensor)) = tensors.iter().next() {
        return refuse(format!(
            "tensor {name}, {:?}: expected recurrent layers and one nn.Linear alone; this layer is not supported",
            tensor.shape
        ));
    }
    Ok((weights, bias.unwrap_or_else(|| vec![0.0; outputs])))
}
