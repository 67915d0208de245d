//! Networks as chains of stages, in f64, and the decoders that chains become.

use betz_base::Result;
use betz_recording::Dataset;
use betz_runtime::model::{
    Activation, Cell, Decoder, Head, Layer as Step, Layers, MAX_LAYER_UNITS, MAX_LAYERS,
    RecurrentLayer, WeightPrecision,
};
use betz_runtime::stream::{Session, SessionConfig};

use super::{FORGOTTEN, Layer, MOST_MEMORY, Network};

/// Steps of other counts that go before, when it is measured how long states remember.
const BEFORE: usize = 100;

/// One stage of a network.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// W, (input, output), and b.
    Linear {
        weights: Vec<f64>,
        bias: Vec<f64>,
    },
    Activation(Activation),
    Norm {
        scale: Vec<f64>,
        shift: Vec<f64>,
        epsilon: f64,
    },
    Window {
        length: usize,
        apart: usize,
        stride: usize,
        first: usize,
    },
    /// A recurrent layer, and its states when a session begins, empty for 0.
    Gated(Cell, Layer, Vec<f64>),
}

/// The network of `stages`: a stack of layers and a readout if they are no more.
pub(super) fn network(inputs: usize, stages: Vec<Stage>) -> Result<Network> {
    let mut network = Network {
        inputs,
        ..Network::default()
    };
    // Larger ones than a recurrent decoder may have are chains, too.
    let is_layer = |stage: &Stage, own: &Cell| match stage {
        Stage::Gated(cell, layer, start) => {
            cell == own && start.is_empty() && layer.units <= MAX_LAYER_UNITS
        }
        _ => false,
    };
    let is_stack = match stages.as_slice() {
        [Stage::Gated(cell, ..), .., Stage::Linear { .. }] => {
            let layers = &stages[..stages.len() - 1];
            layers.len() <= MAX_LAYERS && layers.iter().all(|stage| is_layer(stage, cell))
        }
        _ => false,
    };
    if !is_stack {
        network.chain = stages;
        network.outputs = network
            .chain
            .iter()
            .fold(inputs, |width, stage| stage.width(width));
        return Ok(network);
    }
    for stage in stages {
        match stage {
            Stage::Gated(cell, layer, _) => {
                network.cell = cell;
                network.layers.push(layer);
            }
            Stage::Linear { weights, bias } => {
                network.readout = super::transposed(&weights, bias.len());
                network.outputs = bias.len();
                network.bias = bias;
            }
            _ => {}
        }
    }
    Ok(network)
}

impl Stage {
    /// The number of values that come out if `inputs` go in.
    pub(super) fn width(&self, inputs: usize) -> usize {
        match self {
            Self::Linear { bias, .. } => bias.len(),
            Self::Window { length, .. } => inputs * length,
            Self::Gated(_, layer, _) => layer.units,
            Self::Activation(_) | Self::Norm { .. } => inputs,
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Linear { bias, .. } => format!("linear {}", bias.len()),
            Self::Activation(function) => format!("{function:?}").to_lowercase(),
            Self::Norm { .. } => "norm".into(),
            Self::Window { length, stride, .. } => format!("window {length}/{stride}"),
            Self::Gated(cell, layer, _) => format!("{} {}", cell.name(), layer.units),
        }
    }

    /// The runtime's layer, its matrices rounded.
    fn layer(&self, precision: WeightPrecision) -> Step {
        match self {
            Self::Linear { weights, bias } => Step::Linear {
                weights: rounded(weights, bias.len(), precision),
                bias: list(bias),
            },
            Self::Activation(function) => Step::Activation(*function),
            Self::Norm {
                scale,
                shift,
                epsilon,
            } => Step::Norm {
                scale: list(scale),
                shift: list(shift),
                epsilon: *epsilon,
            },
            Self::Window {
                length,
                apart,
                stride,
                first,
            } => Step::Window {
                length: *length,
                apart: *apart,
                stride: *stride,
                first: *first,
            },
            Self::Gated(cell, layer, initial) => Step::Gated {
                cell: *cell,
                layer: recurrent_layer(layer, precision),
                initial: list(initial),
            },
        }
    }
}

fn list(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

/// The runtime's layer, its matrices rounded.
pub(super) fn recurrent_layer(layer: &Layer, precision: WeightPrecision) -> RecurrentLayer {
    let matrix = |values: &[f64], bias: &[f64]| rounded(values, bias.len(), precision);
    RecurrentLayer {
        input_weights: matrix(&layer.input_weights, &layer.input_bias),
        input_bias: list(&layer.input_bias),
        state_weights: matrix(&layer.state_weights, &layer.state_bias),
        state_bias: list(&layer.state_bias),
    }
}

/// `matrix`, of rows of so many columns, in numbers of `precision`.
fn rounded(matrix: &[f64], columns: usize, precision: WeightPrecision) -> Vec<f32> {
    let mut rounded = list(matrix);
    precision.round(&mut rounded, columns);
    rounded
}

/// Weights, intercept and head of a chain. The first linear stage is the engine's; before others, the engine hands on counts.
pub(super) fn parts(network: &Network) -> (Vec<f64>, Vec<f64>, Head) {
    let (inputs, chain) = (network.inputs, network.chain.as_slice());
    let (weights, intercept, rest) = match chain {
        // A linear network alone needs a layer for its head.
        [Stage::Linear { weights, bias }, rest @ ..] if !rest.is_empty() => {
            (weights.clone(), bias.clone(), rest)
        }
        _ => {
            let mut weights = vec![0.0; inputs * inputs];
            weights
                .iter_mut()
                .step_by(inputs + 1)
                .for_each(|w| *w = 1.0);
            (weights, vec![0.0; inputs], chain)
        }
    };
    let layers = Layers {
        inputs: intercept.len(),
        layers: rest
            .iter()
            .map(|stage| stage.layer(network.precision))
            .collect(),
        memory_steps: 1,
    };
    (weights, intercept, Head::Layers(layers))
}

/// Steps after which the estimates of `decoder` no longer tell what was before, over the first steps of `data`: at least
/// those that its windows see.
pub(super) fn memory_steps(decoder: &Decoder, network: &Network, data: &Dataset) -> Result<u64> {
    let (channels, steps) = (data.channels(), data.steps.min(MOST_MEMORY));
    let mut counts = vec![0.0f32; steps * channels];
    let spikes = data.spikes.ticks.iter().zip(&data.spikes.channels);
    for (i, (&tick, &channel)) in spikes.enumerate() {
        if (0..steps as i64).contains(&tick) {
            counts[tick as usize * channels + channel as usize] += data.spikes.view().weight(i);
        }
    }
    let (mut seen, mut stride) = (1u64, 1usize);
    for stage in &network.chain {
        if let Stage::Window {
            length,
            apart,
            stride: own,
            ..
        } = stage
        {
            let steps = (*length as u64 - 1).saturating_mul(*apart as u64);
            seen = seen.saturating_add(steps.saturating_mul(stride as u64));
            stride = stride.saturating_mul(*own);
        }
    }
    let run = |before: usize| -> Result<Vec<f32>> {
        let mut session = Session::open(decoder, SessionConfig::default())?;
        let mut out = vec![0.0f32; network.outputs];
        let mut estimates = Vec::new();
        for _ in 0..before {
            session.step_values(&vec![1.0; channels], &mut out)?;
        }
        for row in counts.chunks_exact(channels.max(1)) {
            session.step_values(row, &mut out)?;
            estimates.extend_from_slice(&out);
        }
        Ok(estimates)
    };
    let rest = run(0)?;
    // Windows must be handed on at the same steps.
    let before = BEFORE
        .checked_next_multiple_of(stride)
        .filter(|&before| before <= 100 * BEFORE);
    let other = run(before.unwrap_or(BEFORE))?;
    let count = rest.len().max(1) as f64;
    let mean = rest.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
    let square = rest
        .iter()
        .map(|&v| (f64::from(v) - mean).powi(2))
        .sum::<f64>();
    let near = FORGOTTEN * (square / count).sqrt();
    let pairs = rest.iter().zip(&other);
    let last = pairs
        .map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs())
        .rposition(|apart| apart > near);
    let measured = last.map_or(0, |i| i / network.outputs.max(1) + 1) as u64 + 1;
    Ok(measured.max(seen))
}
