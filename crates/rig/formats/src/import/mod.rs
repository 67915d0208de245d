//! Networks of other programs as decoders, from PyTorch's weights in safetensors or from ONNX.
//!
//! A stack of GRU or LSTM layers with a linear readout becomes a recurrent decoder. Other chains of linear layers, causal
//! convolutions, recurrent layers, layer normalisation and activations become a decoder of [`Layers`](betz_runtime::model::Layers).
//! The network sees the counts of a step, one per channel, and its states are never reset. The projection of an LSTM
//! (`proj_size`) is folded into the weights around it. Whatever else a file holds is refused by its name.

mod axes;
mod chain;
pub(crate) mod description;
mod fold;
mod graph;
mod onnx;
mod operators;
mod own;
mod safetensors;
mod tensor;
mod torch;

use std::path::Path;

use betz_base::{Error, ErrorKind, Result};
use betz_recording::{Dataset, OutputInfo};
use betz_runtime::model::{
    Blend, Cell, Decoder, DecoderParts, Head, Recurrent, RecurrentLayer, RecurrentMember,
    WeightPrecision,
};
use betz_runtime::psc::{Filter, FilterBank};

use description::Properties;
pub use safetensors::{to_bytes, write};
pub(crate) use tensor::CAPS;

/// A τ of so many parts of a step leaves the counts of the step by themselves of an order-0 filter.
const PARTS: f64 = 40.0;

/// Most steps over which it is measured when states have forgotten how they began.
const MOST_MEMORY: usize = 1000;

/// Largest difference of estimates of states that have forgotten, as a share of their standard deviation.
const FORGOTTEN: f64 = 1e-4;

/// One layer; rows are inputs or units, columns are ordered (gate, unit), gates as in [`Cell`].
#[derive(Debug, Clone, PartialEq)]
struct Layer {
    inputs: usize,
    units: usize,
    input_weights: Vec<f64>,
    input_bias: Vec<f64>,
    state_weights: Vec<f64>,
    state_bias: Vec<f64>,
}

/// A network that was read from a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Network {
    inputs: usize,
    outputs: usize,
    cell: Cell,
    /// Empty if `chain` is not.
    layers: Vec<Layer>,
    /// (output, unit of the last layer).
    readout: Vec<f64>,
    bias: Vec<f64>,
    /// Largest count of each channel that is told from larger ones; empty without caps.
    caps: Vec<f32>,
    /// The stages of a network that is no stack of layers with a readout.
    chain: Vec<chain::Stage>,
    precision: WeightPrecision,
    /// The members behind the first, of the same sizes; `bias` is that of the sum.
    others: Vec<Network>,
    blend: Option<Blend>,
    /// The rest of a decoder that Betz exported.
    properties: Option<Properties>,
}

/// Properties of a network that a safetensors file does not hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Input layer among several, one per day of recording; `None` takes the last.
    pub day: Option<usize>,
    /// Steps between two patches of a network whose input is several steps side by side.
    pub stride: Option<usize>,
    /// Numbers that matrices are rounded to.
    pub precision: WeightPrecision,
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidModel, message))
}

impl Network {
    /// Reads `path`: safetensors of PyTorch's modules, or ONNX if its name ends in `.onnx`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for a file that is damaged, or holds a layer or operator that is not supported: its name
    /// is in the message; for [`Options`] that do not fit the file; [`ErrorKind::Io`].
    pub fn read(path: &Path, options: Options) -> Result<Self> {
        let bytes = std::fs::read(path)
            .map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", path.display())))?;
        let is_onnx = path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"));
        let network = if is_onnx {
            match options {
                Options {
                    day: None,
                    stride: None,
                    ..
                } => onnx::read(&bytes),
                _ => refuse(
                    "expected neither day nor stride for ONNX, whose operators hold them".into(),
                ),
            }
        } else {
            own::read(&bytes, options)
        };
        let mut network = network.map_err(|e| e.at(path.display()))?;
        network.precision = options.precision;
        Ok(network)
    }

    /// Number of inputs: channels.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The kind and sizes of the layers, such as `gru 64, 64` or `linear 32, relu, gru 64, linear 2`.
    pub fn describe(&self) -> String {
        if !self.chain.is_empty() {
            let stages: Vec<String> = self.chain.iter().map(chain::Stage::describe).collect();
            return stages.join(", ");
        }
        let units: Vec<String> = self.layers.iter().map(|l| l.units.to_string()).collect();
        let layers = format!("{} {}", self.cell.name(), units.join(", "));
        match self.others.len() {
            0 => layers,
            others => format!("{} members of {layers}", others + 1),
        }
    }

    /// The decoder for the channels, outputs and clock of `data`, whose counts also tell how long the states remember.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for another number of channels or outputs than `data` has; the errors of
    /// [`Decoder::new`].
    pub fn decoder(&self, data: &Dataset) -> Result<Decoder> {
        if self.inputs() != data.channels() {
            return Err(Error::mismatch(format!(
                "network: expected {} inputs, one per channel of the recording, got {}",
                data.channels(),
                self.inputs()
            )));
        }
        let outputs = match data.outputs.is_empty() {
            true => (0..self.outputs())
                .map(|o| OutputInfo::from(format!("output {o}").as_str()))
                .collect(),
            false => data.outputs.clone(),
        };
        if outputs.len() != self.outputs() {
            return Err(Error::mismatch(format!(
                "network: expected {} outputs, one per behaviour of the recording, got {}",
                outputs.len(),
                self.outputs()
            )));
        }
        let (weights, intercept, head) = match self.chain.is_empty() {
            true => self.stack(data),
            false => chain::parts(self),
        };
        let bank = FilterBank::new(vec![Filter {
            tau_seconds: data.step_seconds / PARTS,
            order: 0,
        }])?;
        let names = data.channel_names.clone();
        let mut parts = DecoderParts {
            weights,
            intercept,
            head,
            ..DecoderParts::linear(data.step_seconds, bank, names, outputs)
        };
        if let Some(properties) = &self.properties {
            parts.limits = properties.limits.clone();
            parts.delay_steps = properties.delay_steps();
            parts.channel_mask.clone_from(&properties.channel_mask);
        }
        parts.limits.count_caps.clone_from(&self.caps);
        let decoder = Decoder::new(parts)?;
        if self.chain.is_empty() {
            return Ok(decoder);
        }
        let memory_steps = chain::memory_steps(&decoder, self, data)?;
        let mut parts = decoder.into_parts();
        if let Head::Layers(layers) = &mut parts.head {
            layers.memory_steps = memory_steps;
        }
        Decoder::new(parts)
    }

    /// Weights, intercept and head of a stack of recurrent layers. The input side of first layers is the engine's.
    fn stack(&self, data: &Dataset) -> (Vec<f64>, Vec<f64>, Head) {
        let all = || std::iter::once(self).chain(&self.others);
        let memory_steps = || all().map(|network| network.memory_steps(data)).max();
        let properties = self.properties.as_ref();
        let head = Head::Recurrent(Recurrent {
            cell: self.cell,
            units: self.layers.iter().map(|layer| layer.units).collect(),
            members: all()
                .map(|network| network.member(self.precision))
                .collect(),
            bias: self.bias.clone(),
            memory_steps: properties
                .map(|properties| properties.memory_steps)
                .or_else(memory_steps)
                .unwrap_or(1),
            seed: properties.map_or(0, Properties::seed),
            blend: self.blend.clone(),
        });
        let firsts: Vec<&Layer> = all().filter_map(|network| network.layers.first()).collect();
        let row = |channel: usize| {
            let of_layer = move |layer: &&Layer| {
                let columns = layer.input_bias.len();
                layer.input_weights[channel * columns..][..columns].to_vec()
            };
            firsts.iter().flat_map(of_layer).collect::<Vec<f64>>()
        };
        let weights = (0..self.inputs).flat_map(row).collect();
        let intercept = firsts.iter().flat_map(|layer| layer.input_bias.clone());
        (weights, intercept.collect(), head)
    }

    /// The layers and readout of one member. The first layer's input side is the engine's.
    fn member(&self, precision: WeightPrecision) -> RecurrentMember {
        let mut layers: Vec<RecurrentLayer> = (self.layers.iter())
            .map(|layer| chain::recurrent_layer(layer, precision))
            .collect();
        if let Some(first) = layers.first_mut() {
            first.input_weights.clear();
            first.input_bias.clear();
        }
        RecurrentMember {
            layers,
            readout: self.readout.iter().map(|&v| v as f32).collect(),
        }
    }

    /// Estimates of `counts`, (step, channel), in f64, of states that are all `start` before the first step.
    fn estimates(&self, counts: &[f64], start: f64) -> Vec<f64> {
        let mut states: Vec<[Vec<f64>; 2]> = (self.layers.iter())
            .map(|layer| [vec![start; layer.units], vec![start; layer.units]])
            .collect();
        let mut estimates = Vec::new();
        for row in counts.chunks_exact(self.inputs().max(1)) {
            let mut below = row.to_vec();
            for (layer, [h, c]) in self.layers.iter().zip(&mut states) {
                layer.advance(self.cell, &below, h, c);
                below.clone_from(h);
            }
            let rows = self.readout.chunks_exact(below.len());
            let dots = rows.map(|row| row.iter().zip(&below).map(|(w, h)| w * h).sum::<f64>());
            estimates.extend(dots.zip(&self.bias).map(|(dot, bias)| dot + bias));
        }
        estimates
    }

    /// Steps after which estimates no longer tell how the states began, over the first steps of `data`.
    fn memory_steps(&self, data: &Dataset) -> u64 {
        let (channels, steps) = (data.channels(), data.steps.min(MOST_MEMORY));
        let mut counts = vec![0.0; steps * channels];
        for (i, (&tick, &channel)) in data
            .spikes
            .ticks
            .iter()
            .zip(&data.spikes.channels)
            .enumerate()
        {
            if (0..steps as i64).contains(&tick) {
                counts[tick as usize * channels + channel as usize] +=
                    f64::from(data.spikes.view().weight(i));
            }
        }
        let (rest, other) = (self.estimates(&counts, 0.0), self.estimates(&counts, 0.5));
        let mean = rest.iter().sum::<f64>() / rest.len().max(1) as f64;
        let square = rest.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        let near = FORGOTTEN * (square / rest.len().max(1) as f64).sqrt();
        let pairs: Vec<bool> = rest
            .iter()
            .zip(&other)
            .map(|(a, b)| (a - b).abs() > near)
            .collect();
        let last = pairs.iter().rposition(|&apart| apart);
        last.map_or(0, |i| i / self.outputs().max(1) + 1) as u64 + 1
    }
}

impl Layer {
    /// One step of a layer, in f64: `h`, and `c` of an LSTM.
    fn advance(&self, cell: Cell, input: &[f64], h: &mut [f64], c: &mut [f64]) {
        let side = |values: &[f64], weights: &[f64], bias: &[f64]| {
            let mut sums = bias.to_vec();
            for (value, row) in values.iter().zip(weights.chunks_exact(bias.len().max(1))) {
                sums.iter_mut()
                    .zip(row)
                    .for_each(|(sum, weight)| *sum += value * weight);
            }
            sums
        };
        let of_input = side(input, &self.input_weights, &self.input_bias);
        let of_state = side(h, &self.state_weights, &self.state_bias);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let units = self.units;
        for j in 0..units {
            let sum = |gate: usize| of_input[gate * units + j] + of_state[gate * units + j];
            if cell == Cell::Lstm {
                c[j] = sigmoid(sum(1)) * c[j] + sigmoid(sum(0)) * sum(2).tanh();
                h[j] = sigmoid(sum(3)) * c[j].tanh();
            } else {
                let own = of_state[2 * units + j];
                let n = (of_input[2 * units + j] + sigmoid(sum(0)) * own).tanh();
                h[j] = n + sigmoid(sum(1)) * (h[j] - n);
            }
        }
    }
}

/// `matrix`, (rows, columns), transposed.
fn transposed(matrix: &[f64], columns: usize) -> Vec<f64> {
    let column = |j: usize| matrix.iter().skip(j).step_by(columns.max(1)).copied();
    (0..columns).flat_map(column).collect()
}

#[cfg(test)]
mod tests;
