//! A chain of layers behind the linear engine: networks of other programs.
//!
//! Each layer turns one vector into the next. A window is handed on once per stride. In the steps between, the layers behind it
//! rest and the estimates stay as they are; before the first window they are 0. A causal `Conv1d` is a [`Layer::Window`] and a
//! [`Layer::Linear`].
//!
//! ```text
//! Linear      W v + b                                       cut at ±1e12
//! Activation  element by element
//! Norm        scale∘(v − mean v)/√(var v + ε) + shift       (Ba et al. 2016)
//! Window      (v at t − (length − 1)·apart, …, v at t)      v = 0 before a session begins
//! Gated       h of a GRU or LSTM layer, equations as in `recurrent`
//! ```

use super::activation::Activation;
use super::arithmetic::Width;
use super::recurrent::{Weights, advance_gru, advance_lstm};
use super::{Cell, Kind, HeadStep, RecurrentLayer, check_finite, expect, refuse};
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use alloc::vec::Vec;
use betz_base::error::Result;
use betz_base::hash::Fnv1a;
use betz_base::wire::{Reader, Writer};

/// Largest number of layers of a chain.
const MAX_CHAIN: usize = 64;

/// Largest number of values between two layers.
const MAX_VALUES: usize = 1 << 16;

/// Largest number of values that all layers keep from step to step.
const MAX_KEPT: usize = 1 << 20;

/// Largest number of steps until the last window has been handed on twice.
const MAX_PERIOD: u64 = 1 << 40;

/// Largest absolute weight or bias.
const MAX_WEIGHT: f64 = 1e6;

/// Values are cut here, so that sums of them, weighted, stay far from the end of f32.
const MAX_VALUE: f32 = 1e12;

/// One layer of a chain.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Layer {
    /// W v + b.
    Linear {
        /// W, row-major (input, output).
        weights: Vec<f32>,
        /// b, one per output.
        bias: Vec<f32>,
    },
    /// A function of each value.
    Activation(Activation),
    /// Layer normalisation.
    Norm {
        /// One per value.
        scale: Vec<f32>,
        /// One per value.
        shift: Vec<f32>,
        /// ε, added to the variance: 1e-12 to 1.
        epsilon: f64,
    },
    /// The values of several steps, side by side, the oldest first.
    Window {
        /// Steps that are handed on.
        length: usize,
        /// Steps between two of them: the dilation of a convolution.
        apart: usize,
        /// Steps between two windows that are handed on.
        stride: usize,
        /// The step that hands on the first window, counted from 1.
        first: usize,
    },
    /// A recurrent layer, whose input side is never empty.
    Gated {
        /// The recurrence.
        cell: Cell,
        /// Its weights.
        layer: RecurrentLayer,
        /// h, then c in an LSTM, when a session begins; empty for 0.
        initial: Vec<f32>,
    },
}

impl Layer {
    /// The number of values that come out if `inputs` go in; 0 for a layer that has none.
    fn width(&self, inputs: usize) -> usize {
        match self {
            Self::Linear { bias, .. } => bias.len(),
            Self::Window { length, .. } => inputs.saturating_mul(*length),
            Self::Gated { cell, layer, .. } => layer.state_bias.len() / cell.gates(),
            Self::Activation(_) | Self::Norm { .. } => inputs,
        }
    }

    /// Numbers that it keeps from step to step.
    fn states(&self, inputs: usize) -> usize {
        match self {
            Self::Window { length, apart, .. } => span(*length, *apart).saturating_mul(inputs),
            Self::Gated { cell, .. } => cell.states() * self.width(inputs),
            _ => 0,
        }
    }

    fn check(&self, inputs: usize) -> Result<()> {
        let outputs = self.width(inputs);
        if !(1..=MAX_VALUES).contains(&outputs) {
            return refuse(format!("expected 1 to {MAX_VALUES} values, got {outputs}"));
        }
        let numbers = |what: &str, list: &[f32], length: usize| {
            expect(what, list.len(), length)?;
            check_finite(what, list, MAX_WEIGHT)
        };
        match self {
            Self::Linear { weights, bias } => {
                numbers("weights", weights, inputs * outputs)?;
                numbers("bias", bias, outputs)
            }
            Self::Activation(_) => Ok(()),
            Self::Norm { scale, shift, epsilon } => {
                numbers("scale", scale, inputs)?;
                numbers("shift", shift, inputs)?;
                match (1e-12..=1.0).contains(epsilon) {
                    true => Ok(()),
                    false => refuse(format!("epsilon: expected 1e-12 to 1, got {epsilon}")),
                }
            }
            Self::Window { apart, stride, first, .. } => {
                let counts = [*apart, *stride, *first];
                if counts.iter().all(|n| (1..=MAX_KEPT).contains(n)) {
                    return Ok(());
                }
                refuse(format!(
                    "window: expected dilation, stride and first step of 1 to {MAX_KEPT}, got {counts:?}"
                ))
            }
            Self::Gated { cell, layer, initial } => {
                let columns = cell.gates() * outputs;
                numbers("input_weights", &layer.input_weights, inputs * columns)?;
                numbers("input_bias", &layer.input_bias, columns)?;
                numbers("state_weights", &layer.state_weights, outputs * columns)?;
                numbers("state_bias", &layer.state_bias, columns)?;
                match initial.is_empty() {
                    true => Ok(()),
                    false => numbers("initial", initial, self.states(inputs)),
                }
            }
        }
    }

    fn write(&self, to: &mut Writer) {
        match self {
            Self::Linear { weights, bias } => {
                to.u64(0);
                to.f32s(weights);
                to.f32s(bias);
            }
            Self::Activation(function) => {
                to.u64(1);
                to.u64(*function as u64);
            }
            Self::Norm { scale, shift, epsilon } => {
                to.u64(2);
                to.f32s(scale);
                to.f32s(shift);
                to.f64(*epsilon);
            }
            Self::Window { length, apart, stride, first } => {
                to.u64(3);
                let counts = [length, apart, stride, first];
                counts.iter().for_each(|&&n| to.u64(n as u64));
            }
            Self::Gated { cell, layer, initial } => {
                to.u64(4);
                to.u64(*cell as u64);
                layer.write(to);
                to.f32s(initial);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let other = |what: &str, got: u64| {
            refuse(format!("layers: {what} {got} is not known; load the model with a newer Betz"))
        };
        Ok(match from.at("kind of layer").u64()? {
            0 => Self::Linear {
                weights: from.at("weights").f32s()?,
                bias: from.at("bias").f32s()?,
            },
            1 => {
                let code = from.at("activation").u64()?;
                match Activation::ALL.get(usize::try_from(code).unwrap_or(usize::MAX)) {
                    Some(function) => Self::Activation(*function),
                    None => return other("activation", code),
                }
            }
            2 => Self::Norm {
                scale: from.at("scale").f32s()?,
                shift: from.at("shift").f32s()?,
                epsilon: from.at("epsilon").f64()?,
            },
            3 => {
                let from = from.at("window");
                // A number that does not fit is refused with those that are too large.
                let mut count = || Ok(usize::try_from(from.u64()?).unwrap_or(usize::MAX));
                Self::Window {
                    length: count()?,
                    apart: count()?,
                    stride: count()?,
                    first: count()?,
                }
            }
            4 => Self::Gated {
                cell: Cell::read(from)?,
                layer: RecurrentLayer::read(from)?,
                initial: from.at("initial").f32s()?,
            },
            kind => return other("layer of kind", kind),
        })
    }
}

/// Steps from the oldest to the newest of a window, both counted.
const fn span(length: usize, apart: usize) -> usize {
    length.saturating_sub(1).saturating_mul(apart).saturating_add(1)
}

/// The steps, counted from 1, at which a window is handed on.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    first: u64,
    period: u64,
}

impl Schedule {
    /// Of values that are handed on at every step.
    const EVERY: Self = Self { first: 1, period: 1 };

    /// Of a window on values of this schedule, which takes its `first` one first, then one of `stride`.
    fn window(self, first: usize, stride: usize) -> Self {
        let later = (first as u64 - 1).saturating_mul(self.period);
        Self {
            first: self.first.saturating_add(later),
            period: self.period.saturating_mul(stride as u64),
        }
    }

    const fn contains(self, step: u64) -> bool {
        step >= self.first && (step - self.first).is_multiple_of(self.period)
    }

    /// The step after `step` by so many steps, as a number below `first` + `period` that does the same here and in
    /// all windows before.
    const fn after(self, step: u64, steps: u64) -> u64 {
        let step = step.saturating_add(steps);
        match step.checked_sub(self.first) {
            Some(past) => self.first + past % self.period,
            None => step,
        }
    }
}

/// Latents → one layer after another → outputs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layers {
    /// Number of latents.
    pub inputs: usize,
    /// The layers, in order; the first one takes the latents.
    pub layers: Vec<Layer>,
    /// Steps after which the states have forgotten how they began.
    pub memory_steps: u64,
}

impl Kind for Layers {
    type StepForm = PreparedLayers;
    const NAME: &'static str = "layers";
    const TAG: [u8; 4] = super::LAYERS_TAG;
    const MOST_LATENTS: usize = crate::model::MAX_OUTPUTS;

    fn check(&self, latents: usize, outputs: usize) -> Result<()> {
        if !(1..=MAX_CHAIN).contains(&self.layers.len()) {
            return refuse(format!("expected 1 to {MAX_CHAIN} layers, got {}", self.layers.len()));
        }
        expect("latents", latents, self.inputs)?;
        let (mut width, mut states, mut schedule) = (latents, 0usize, Schedule::EVERY);
        for (l, layer) in self.layers.iter().enumerate() {
            layer.check(width).map_err(|e| e.at(format_args!("layer {l}")))?;
            states = states.saturating_add(layer.states(width));
            width = layer.width(width);
            if let Layer::Window { stride, first, .. } = layer {
                schedule = schedule.window(*first, *stride);
            }
        }
        if states > MAX_KEPT {
            return refuse(format!("expected layers that keep at most {MAX_KEPT} values, got {states}"));
        }
        if schedule.first > MAX_PERIOD || schedule.period > MAX_PERIOD {
            return refuse(format!(
                "windows: expected the last one first after at most {MAX_PERIOD} steps and then as often, got {schedule:?}"
            ));
        }
        expect("the last layer", width, outputs)
    }

    fn write(&self, to: &mut Writer) {
        to.u64(1);
        to.u64(self.memory_steps);
        to.u64(self.inputs as u64);
        to.u64(self.layers.len() as u64);
        self.layers.iter().for_each(|layer| layer.write(to));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let version = from.at("version of the section of layers").u64()?;
        if version != 1 {
            return refuse(format!(
                "layers: expected version 1 of their section, got {version}; load the model with a newer Betz"
            ));
        }
        let memory_steps = from.at("memory_steps").u64()?;
        let inputs = from.at("inputs").u64()?;
        let count = from.at("layers").u64()?;
        if count > MAX_CHAIN as u64 {
            return refuse(format!("layers: expected 1 to {MAX_CHAIN}, got {count}"));
        }
        Ok(Self {
            // A number that does not fit differs from that of the latents.
            inputs: usize::try_from(inputs).unwrap_or(usize::MAX),
            layers: (0..count).map(|_| Layer::read(from)).collect::<Result<_>>()?,
            memory_steps,
        })
    }

    fn prepare(&self, _step_seconds: f64) -> Result<PreparedLayers> {
        let mut bytes = Writer::default();
        self.write(&mut bytes);
        let mut hash = Fnv1a::new();
        hash.bytes(&bytes.bytes);
        let mut prepared = PreparedLayers {
            width: Width::detect(),
            layers: Vec::with_capacity(self.layers.len()),
            widest: self.inputs,
            states: 1,
            last: Schedule::EVERY,
            memory_steps: self.memory_steps,
            instructions: 500,
            hash: hash.finish(),
        };
        let mut width = self.inputs;
        for layer in &self.layers {
            let mut own = PreparedLayer {
                layer: layer.clone(),
                weights: [Weights::Single, Weights::Single],
                schedule: prepared.last,
                width: layer.width(width),
                states: layer.states(width),
            };
            let mut pack = |i: usize, matrix: &mut Vec<f32>, columns: usize| {
                own.weights[i] = Weights::new(matrix, columns);
                // Packed ones are not needed twice.
                if !matches!(own.weights[i], Weights::Single) {
                    *matrix = Vec::new();
                }
            };
            let products = match &own.layer {
                Layer::Linear { weights, .. } => weights.len(),
                Layer::Gated { layer, .. } => {
                    layer.input_weights.len() + layer.state_weights.len() + 12 * own.width
                }
                _ => own.states,
            };
            prepared.instructions += (products + 30 * own.width) as u64;
            // The gates of a recurrent layer work side by side.
            let mut at_work = own.width;
            match &mut own.layer {
                Layer::Linear { weights, bias } => pack(0, weights, bias.len()),
                Layer::Gated { layer, .. } => {
                    pack(0, &mut layer.input_weights, layer.input_bias.len());
                    pack(1, &mut layer.state_weights, layer.state_bias.len());
                    at_work = layer.state_bias.len();
                }
                Layer::Window { stride, first, .. } => {
                    own.schedule = own.schedule.window(*first, *stride);
                    prepared.last = own.schedule;
                }
                Layer::Activation(_) | Layer::Norm { .. } => {}
            }
            prepared.states += own.states;
            prepared.widest = prepared.widest.max(at_work);
            width = own.width;
            prepared.layers.push(own);
        }
        // The last estimates.
        prepared.states += width;
        Ok(prepared)
    }
}

/// A [`Layer`] in the form that steps use.
#[derive(Debug, Clone)]
struct PreparedLayer {
    layer: Layer,
    /// Rows per input, and rows per state.
    weights: [Weights; 2],
    /// The steps at which it hands on its values.
    schedule: Schedule,
    /// Number of its values.
    width: usize,
    /// Numbers that it keeps.
    states: usize,
}

/// [`Layers`] in the form that steps use.
#[derive(Debug, Clone)]
pub(crate) struct PreparedLayers {
    width: Width,
    layers: Vec<PreparedLayer>,
    /// Most values that are at work at once.
    widest: usize,
    states: usize,
    /// The steps at which the last window is handed on.
    last: Schedule,
    memory_steps: u64,
    instructions: u64,
    hash: u64,
}

impl HeadStep for PreparedLayers {
    /// The number of steps, the last estimates, then each layer's states.
    fn states(&self) -> usize {
        self.states
    }

    fn scratch(&self) -> usize {
        // The values before and behind a layer, the states of a layer and their side of its gates.
        4 * self.widest
    }

    fn memory_steps(&self) -> u64 {
        self.memory_steps
    }

    fn counters(&self) -> usize {
        1
    }

    fn pass(&self, steps: u64, states: &mut [f64]) {
        if let [count, ..] = states {
            *count = self.last.after(*count as u64, steps) as f64;
        }
    }

    fn instructions(&self) -> u64 {
        self.instructions
    }

    fn hash(&self, hash: &mut Fnv1a) {
        hash.word(self.hash);
    }

    #[inline(never)]
    fn step(
        &self,
        latents: &mut [f64],
        states: &mut [f64],
        scratch: &mut [f32],
        outputs: &mut [f64],
    ) -> bool {
        self.pass(1, states);
        let (count, states) = states.split_at_mut(1);
        let count = count[0] as u64;
        let (held, mut states) = states.split_at_mut(outputs.len());
        let (mut from, scratch) = scratch.split_at_mut(self.widest);
        let (mut to, scratch) = scratch.split_at_mut(self.widest);
        let (own, of_state) = scratch.split_at_mut(self.widest);
        let mut inputs = latents.len();
        for (value, latent) in from.iter_mut().zip(&*latents) {
            *value = (*latent as f32).clamp(-MAX_VALUE, MAX_VALUE);
        }
        for layer in &self.layers {
            let (mine, rest) = states.split_at_mut(layer.states);
            states = rest;
            let changed = layer.advance(self.width, mine, [&mut from[..inputs], to, own, of_state]);
            if !layer.schedule.contains(count) {
                outputs.copy_from_slice(held);
                return false;
            }
            if changed {
                core::mem::swap(&mut from, &mut to);
            }
            inputs = layer.width;
        }
        for ((output, held), value) in outputs.iter_mut().zip(held).zip(&*from) {
            *output = f64::from(*value);
            *held = *output;
        }
        false
    }
}

impl PreparedLayer {
    /// One step on the values `from`. Says whether the new values are in `to`, not in `from`.
    fn advance(
        &self,
        width: Width,
        states: &mut [f64],
        [from, to, own, of_state]: [&mut [f32]; 4],
    ) -> bool {
        match &self.layer {
            Layer::Linear { weights, bias } => {
                let sums = &mut to[..self.width];
                sums.copy_from_slice(bias);
                self.weights[0].add(width, sums, from, weights);
                for sum in sums {
                    *sum = sum.clamp(-MAX_VALUE, MAX_VALUE);
                }
                true
            }
            Layer::Activation(function) => {
                from.iter_mut().for_each(|v| *v = function.of(*v));
                false
            }
            Layer::Norm { scale, shift, epsilon } => {
                normalize(from, scale, shift, *epsilon);
                false
            }
            Layer::Window { apart, .. } => {
                slide(states, from, *apart, &mut to[..self.width]);
                true
            }
            Layer::Gated { cell, layer, initial } => {
                let side = &mut to[..layer.state_bias.len()];
                side.copy_from_slice(&layer.input_bias);
                self.weights[0].add(width, side, from, &layer.input_weights);
                let own = &mut own[..states.len()];
                // States are kept as what they differ by from the initial ones, which are 0 in most networks.
                let start = |i: usize| initial.get(i).map_or(0.0, |&h| f64::from(h));
                for (i, (to, state)) in own.iter_mut().zip(&*states).enumerate() {
                    *to = (*state + start(i)) as f32;
                }
                let of_state = &mut of_state[..side.len()];
                of_state.copy_from_slice(&layer.state_bias);
                self.weights[1].add(width, of_state, &own[..self.width], &layer.state_weights);
                match cell {
                    Cell::Gru => advance_gru(width, own, side, of_state),
                    Cell::Lstm => advance_lstm(width, own, side, of_state),
                }
                for (i, (state, own)) in states.iter_mut().zip(&*own).enumerate() {
                    *state = f64::from(*own) - start(i);
                }
                side[..self.width].copy_from_slice(&own[..self.width]);
                true
            }
        }
    }
}

/// Layer normalisation, with sums in f64 in the order of the values.
fn normalize(values: &mut [f32], scale: &[f32], shift: &[f32], epsilon: f64) {
    let count = values.len() as f64;
    let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
    let square = |&v: &f32| (f64::from(v) - mean) * (f64::from(v) - mean);
    let factor = 1.0 / (values.iter().map(square).sum::<f64>() / count + epsilon).sqrt();
    for ((value, scale), shift) in values.iter_mut().zip(scale).zip(shift) {
        let normal = ((f64::from(*value) - mean) * factor) as f32;
        *value = normal * scale + shift;
    }
}

/// Takes `values` into a window, whose states are those of its steps, the oldest first, and writes the window to `to`.
fn slide(kept: &mut [f64], values: &[f32], apart: usize, to: &mut [f32]) {
    let inputs = values.len();
    kept.copy_within(inputs.., 0);
    let newest = kept.len() - inputs;
    for (kept, value) in kept[newest..].iter_mut().zip(values) {
        *kept = f64::from(*value);
    }
    let steps = kept.chunks_exact(inputs).step_by(apart);
    for (to, step) in to.chunks_exact_mut(inputs).zip(steps) {
        for (to, value) in to.iter_mut().zip(step) {
            *to = *value as f32;
        }
    }
}
