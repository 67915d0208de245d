//! The recurrent decoder: a stack of GRU or LSTM layers behind the linear engine, read out linearly.
//!
//! The engine's filter hands on the counts of a bin, so its latents are the input side of the first layer's
//! gates: a channel that fires adds its row of W_i, a silent one costs nothing. Equations and gate order are
//! those of PyTorch's `nn.GRU` and `nn.LSTM` (Cho et al. 2014, with b_hn inside the reset gate's product;
//! Hochreiter and Schmidhuber 1997 with a forget gate):
//!
//! ```text
//! GRU    r = σ(W_ir v + b_ir + W_hr h + b_hr)        LSTM   i, f, o = σ(W_i v + b_i + W_h h + b_h)
//!        z = σ(W_iz v + b_iz + W_hz h + b_hz)               g = tanh(W_ig v + b_ig + W_hg h + b_hg)
//!        n = tanh(W_in v + b_in + r∘(W_hn h + b_hn))        c ← f∘c + i∘g
//!        h ← n + z∘(h − n)                                  h ← o∘tanh(c)
//! ```
//!
//! States and weights are f32. Weights that are all bfloat16 numbers are kept as such: half the memory, the same bits. With the
//! feature `layers`, weights that are bytes times a scale per column are kept as bytes: a quarter, the same bits. The
//! states are 0 when a session begins and are never reset after that.

use alloc::vec::Vec;
#[cfg(feature = "layers")]
use super::arithmetic::ByteRows;
use super::arithmetic::{Width, add_dots, add_packed_rows, add_rows, pack, sigmoid, tanh};
use super::{Blend, Kind, HeadStep, check_finite, expect, refuse};
use crate::width::for_every_width;
use betz_base::error::Result;
use betz_base::hash::Fnv1a;
use betz_base::wire::{Reader, Writer};

/// Largest number of networks whose estimates are averaged.
pub const MAX_MEMBERS: usize = 16;

/// Largest number of layers of a recurrent decoder.
pub const MAX_LAYERS: usize = 8;

/// Largest number of units of one layer.
pub const MAX_LAYER_UNITS: usize = 1024;

/// Largest absolute weight or bias of a gate. A state is at most 1, so sums of 1,024 of them stay far from
/// the end of f32.
const MAX_GATE_WEIGHT: f64 = 1e6;

/// Largest absolute weight or bias of the readout.
const MAX_READOUT_WEIGHT: f64 = 1e30;

/// Versions of the section of the model file: of members that are added up, and of members whose estimates are blended.
const SECTION_VERSION: u64 = 1;
const BLENDED_SECTION_VERSION: u64 = 2;

/// The recurrence of a layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cell {
    /// Gated recurrent unit; gates in the order r, z, n.
    #[default]
    Gru,
    /// Long short-term memory; gates in the order i, f, g, o.
    Lstm,
}

impl Cell {
    /// Number of gates: columns of a layer's weights for each unit.
    pub const fn gates(self) -> usize {
        match self {
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// Numbers that a unit keeps from step to step: h, and c in an LSTM.
    pub(super) const fn states(self) -> usize {
        match self {
            Self::Gru => 1,
            Self::Lstm => 2,
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        match from.at("cell").u64()? {
            0 => Ok(Self::Gru),
            1 => Ok(Self::Lstm),
            other => refuse(format!(
                "recurrent: expected cell 0 (GRU) or 1 (LSTM), got {other}"
            )),
        }
    }

    /// `gru` or `lstm`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gru => "gru",
            Self::Lstm => "lstm",
        }
    }
}

/// The weights of one layer of one member. Columns are ordered (gate, unit).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecurrentLayer {
    /// W_i, row-major (input, gate, unit), from the layer below. Empty in the first layer, whose W_i and b_i are
    /// the decoder's weights and intercept.
    pub input_weights: Vec<f32>,
    /// b_i, (gate, unit). Empty in the first layer.
    pub input_bias: Vec<f32>,
    /// W_h, row-major (unit of the state, gate, unit).
    pub state_weights: Vec<f32>,
    /// b_h, (gate, unit).
    pub state_bias: Vec<f32>,
}

impl RecurrentLayer {
    pub(super) fn write(&self, to: &mut Writer) {
        to.f32s(&self.input_weights);
        to.f32s(&self.input_bias);
        to.f32s(&self.state_weights);
        to.f32s(&self.state_bias);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            input_weights: from.at("input_weights").f32s()?,
            input_bias: from.at("input_bias").f32s()?,
            state_weights: from.at("state_weights").f32s()?,
            state_bias: from.at("state_bias").f32s()?,
        })
    }
}

/// One network: its layers, from the input up, and its part of the readout.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecurrentMember {
    /// The layers, in the order and number of [`Recurrent::units`].
    pub layers: Vec<RecurrentLayer>,
    /// From the last layer's states to the outputs, row-major (output, unit), in units of the output.
    pub readout: Vec<f32>,
}

/// Latents → layers of gated units → the sum of the members' readouts and `bias`.
///
/// The decoder's latents are those of all members, (member, gate, unit of the first layer).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recurrent {
    /// The recurrence of every layer.
    pub cell: Cell,
    /// Units of each layer, the same in every member.
    pub units: Vec<usize>,
    /// The networks; their readouts are added, so the mean of M networks has readouts divided by M.
    pub members: Vec<RecurrentMember>,
    /// One per output, in its units.
    pub bias: Vec<f64>,
    /// Steps after which the states have forgotten how they began, as measured in training: what a session that
    /// takes this model over goes through before it gives estimates.
    pub memory_steps: u64,
    /// Seed that the weights were trained from: for people; nothing reads it.
    pub seed: u64,
    /// Blend of the estimates of some members with those of the others; `None` adds all up.
    pub blend: Option<Blend>,
}

impl Recurrent {
    fn check_shape(&self, latents: usize, outputs: usize) -> Result<()> {
        let within = |what: &str, got: usize, most: usize| {
            if (1..=most).contains(&got) {
                return Ok(());
            }
            refuse(format!("{what}: expected 1 to {most}, got {got}"))
        };
        within("layers", self.units.len(), MAX_LAYERS)?;
        within("members", self.members.len(), MAX_MEMBERS)?;
        for (layer, &units) in self.units.iter().enumerate() {
            within(&format!("units of layer {layer}"), units, MAX_LAYER_UNITS)?;
        }
        expect("bias", self.bias.len(), outputs)?;
        expect("latents", latents, self.members.len() * self.columns(0))
    }

    /// Columns of the weights of `layer`: gates × units.
    fn columns(&self, layer: usize) -> usize {
        self.cell.gates() * self.units[layer]
    }

    fn check_layer(&self, index: usize, layer: &RecurrentLayer) -> Result<()> {
        let (units, columns) = (self.units[index], self.columns(index));
        let inputs = match index {
            0 => 0,
            _ => self.units[index - 1],
        };
        let biases = if index == 0 { 0 } else { columns };
        let lists = [
            ("input_weights", &layer.input_weights, inputs * columns),
            ("input_bias", &layer.input_bias, biases),
            ("state_weights", &layer.state_weights, units * columns),
            ("state_bias", &layer.state_bias, columns),
        ];
        for (what, list, length) in lists {
            expect(what, list.len(), length)?;
            check_finite(what, list, MAX_GATE_WEIGHT)?;
        }
        Ok(())
    }
}

impl Kind for Recurrent {
    type StepForm = PreparedRecurrent;
    const NAME: &'static str = "recurrent";
    const TAG: [u8; 4] = *b"GRUS";
    const MOST_LATENTS: usize = crate::model::MAX_OUTPUTS;

    fn check(&self, latents: usize, outputs: usize) -> Result<()> {
        self.check_shape(latents, outputs)?;
        if let Some(blend) = &self.blend {
            blend.check(self.members.len(), latents, outputs)?;
        }
        check_finite("bias", &self.bias, MAX_READOUT_WEIGHT)?;
        let top = self.units[self.units.len() - 1];
        for (m, member) in self.members.iter().enumerate() {
            let of_member = |e: betz_base::Error| e.at(format_args!("member {m}"));
            expect("layers", member.layers.len(), self.units.len()).map_err(of_member)?;
            for (l, layer) in member.layers.iter().enumerate() {
                (self.check_layer(l, layer))
                    .map_err(|e| of_member(e.at(format_args!("layer {l}"))))?;
            }
            expect("readout", member.readout.len(), outputs * top).map_err(of_member)?;
            check_finite("readout", &member.readout, MAX_READOUT_WEIGHT).map_err(of_member)?;
        }
        Ok(())
    }

    fn write(&self, to: &mut Writer) {
        to.u64(match self.blend {
            Some(_) => BLENDED_SECTION_VERSION,
            None => SECTION_VERSION,
        });
        to.u64(self.cell as u64);
        to.u64(self.units.len() as u64);
        self.units.iter().for_each(|&units| to.u64(units as u64));
        to.u64(self.members.len() as u64);
        for member in &self.members {
            for layer in &member.layers {
                layer.write(to);
            }
            to.f32s(&member.readout);
        }
        to.f64s(&self.bias);
        to.u64(self.memory_steps);
        to.u64(self.seed);
        if let Some(blend) = &self.blend {
            blend.write(to);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let version = from.at("version of the recurrent section").u64()?;
        if ![SECTION_VERSION, BLENDED_SECTION_VERSION].contains(&version) {
            return refuse(format!(
                "recurrent: expected version {SECTION_VERSION} or {BLENDED_SECTION_VERSION} of its section, got {version}; load the model with a newer Betz"
            ));
        }
        let cell = Cell::read(from)?;
        let count = |from: &mut Reader<'_>, what: &'static str, most: usize| {
            let count = from.at(what).u64()?;
            match usize::try_from(count) {
                Ok(count) if (1..=most).contains(&count) => Ok(count),
                _ => refuse(format!(
                    "recurrent: {what}: expected 1 to {most}, got {count}"
                )),
            }
        };
        let layers = count(from, "layers", MAX_LAYERS)?;
        let units: Result<Vec<usize>> = (0..layers)
            .map(|_| count(from, "units", MAX_LAYER_UNITS))
            .collect();
        let members = count(from, "members", MAX_MEMBERS)?;
        let members = (0..members).map(|_| read_member(from, layers));
        Ok(Self {
            cell,
            units: units?,
            members: members.collect::<Result<_>>()?,
            bias: from.at("bias").f64s()?,
            memory_steps: from.at("memory_steps").u64()?,
            seed: from.at("seed").u64()?,
            blend: match version {
                BLENDED_SECTION_VERSION => Some(Blend::read(from)?),
                _ => None,
            },
        })
    }

    fn prepare(&self, _step_seconds: f64) -> Result<PreparedRecurrent> {
        let top = self.units[self.units.len() - 1];
        let tops = (self.members.len() * top).next_multiple_of(16);
        // All members, or the usual ones and then the others.
        let usual = self.blend.as_ref().map_or(self.members.len(), |b| b.usual);
        let groups = [0..usual, usual..self.members.len()];
        let groups = &groups[..1 + usize::from(self.blend.is_some())];
        let outputs = self.bias.len();
        let mut readout = vec![0.0; groups.len() * outputs * tops];
        let rows = groups.iter().flat_map(|group| (0..outputs).map(move |o| (group, o)));
        for (row, (group, output)) in readout.chunks_exact_mut(tops).zip(rows) {
            for member in group.clone() {
                let from = &self.members[member].readout[output * top..][..top];
                row[member * top..][..top].copy_from_slice(from);
            }
        }
        let packed = |(l, layer): (usize, &RecurrentLayer)| LayerWeights {
            input: Weights::new(&layer.input_weights, self.columns(l)),
            state: Weights::new(&layer.state_weights, self.columns(l)),
        };
        let members = self.members.iter();
        Ok(PreparedRecurrent {
            width: Width::detect(),
            weights: (members.map(|m| m.layers.iter().enumerate().map(packed).collect())).collect(),
            network: self.clone(),
            tops,
            readout,
        })
    }
}

fn read_member(from: &mut Reader<'_>, layers: usize) -> Result<RecurrentMember> {
    let layers = (0..layers).map(|_| RecurrentLayer::read(from));
    Ok(RecurrentMember {
        layers: layers.collect::<Result<_>>()?,
        readout: from.at("readout").f32s()?,
    })
}

/// Rows of weights: in the network itself, or packed.
#[derive(Debug, Clone)]
pub(super) enum Weights {
    Single,
    Packed(Vec<u32>),
    #[cfg(feature = "layers")]
    Bytes(ByteRows),
}

impl Weights {
    pub(super) fn new(rows: &[f32], columns: usize) -> Self {
        #[cfg(feature = "layers")]
        if let Some(bytes) = ByteRows::new(rows, columns) {
            return Self::Bytes(bytes);
        }
        match pack(rows, columns) {
            Some(packed) if !packed.is_empty() => Self::Packed(packed),
            _ => Self::Single,
        }
    }

    /// Adds the rows, times `factors`, to `sum`; `single` are those of the network.
    #[inline(always)]
    pub(super) fn add(&self, width: Width, sum: &mut [f32], factors: &[f32], single: &[f32]) {
        match self {
            Self::Single => add_rows(width, sum, factors, single),
            Self::Packed(rows) => add_packed_rows(width, sum, factors, rows),
            #[cfg(feature = "layers")]
            Self::Bytes(rows) => rows.add(width, sum, factors),
        }
    }
}

#[derive(Debug, Clone)]
struct LayerWeights {
    input: Weights,
    state: Weights,
}

/// A [`Recurrent`] in the form that steps use.
#[derive(Debug, Clone)]
pub(crate) struct PreparedRecurrent {
    width: Width,
    network: Recurrent,
    /// Of each member, its layers'.
    weights: Vec<Vec<LayerWeights>>,
    /// Last states of all members side by side, padded to whole vectors of 16.
    tops: usize,
    /// (output, top), weight 0 in the padding; of a blend for the usual members, then for the others.
    readout: Vec<f32>,
}

impl PreparedRecurrent {
    /// Largest number of columns of a layer.
    fn widest(&self) -> usize {
        let widest = self.network.units.iter().max().copied();
        self.network.cell.gates() * widest.unwrap_or(0)
    }

    /// Largest number of states of a layer, h and what else the cell keeps.
    fn most_states(&self) -> usize {
        let widest = self.network.units.iter().max().copied();
        self.network.cell.states() * widest.unwrap_or(0)
    }
}

impl HeadStep for PreparedRecurrent {
    /// For each member and layer: h, then c in an LSTM; last a blend's distance.
    fn states(&self) -> usize {
        let units: usize = self.network.units.iter().sum();
        let of_blend = usize::from(self.network.blend.is_some());
        self.network.members.len() * units * self.network.cell.states() + of_blend
    }

    fn scratch(&self) -> usize {
        // Both sides of the gates, the states of a layer and of the one below, and all last states.
        2 * self.widest() + 2 * self.most_states() + self.tops
    }

    fn memory_steps(&self) -> u64 {
        self.network.memory_steps
    }

    fn instructions(&self) -> u64 {
        let mut count = 500 + self.readout.len();
        for layer in self.network.members.iter().flat_map(|member| &member.layers) {
            count += (layer.input_weights.len() + layer.state_weights.len()) / 2;
            count += 12 * layer.state_bias.len();
        }
        count as u64
    }

    fn hash(&self, hash: &mut Fnv1a) {
        let network = &self.network;
        hash.word(network.cell.gates() as u64);
        network
            .units
            .iter()
            .for_each(|&units| hash.word(units as u64));
        for member in &network.members {
            for layer in &member.layers {
                let lists = [
                    &layer.input_weights,
                    &layer.input_bias,
                    &layer.state_weights,
                    &layer.state_bias,
                ];
                for list in lists {
                    list.iter().for_each(|v| hash.number(f64::from(*v)));
                }
            }
            (member.readout.iter()).for_each(|v| hash.number(f64::from(*v)));
        }
        network.bias.iter().for_each(|v| hash.number(*v));
        if let Some(blend) = &network.blend {
            blend.hash(hash);
        }
    }

    #[inline]
    fn step(
        &self,
        latents: &mut [f64],
        mut states: &mut [f64],
        scratch: &mut [f32],
        outputs: &mut [f64],
    ) -> bool {
        let network = &self.network;
        let (cell, first_columns) = (network.cell, network.columns(0));
        let (of_input, scratch) = scratch.split_at_mut(self.widest());
        let (of_state, scratch) = scratch.split_at_mut(self.widest());
        let (own, scratch) = scratch.split_at_mut(self.most_states());
        let (below, tops) = scratch.split_at_mut(self.most_states());
        let top_units = network.units[network.units.len() - 1];
        let members = network
            .members
            .iter()
            .zip(&self.weights)
            .zip(latents.chunks_exact(first_columns));
        for (((member, weights), latents), top) in members.zip(tops.chunks_mut(top_units)) {
            let layers = member.layers.iter().zip(weights);
            for (l, ((layer, weights), &units)) in layers.zip(&network.units).enumerate() {
                let columns = cell.gates() * units;
                let of_input = &mut of_input[..columns];
                if l == 0 {
                    for (to, latent) in of_input.iter_mut().zip(latents) {
                        *to = *latent as f32;
                    }
                } else {
                    of_input.copy_from_slice(&layer.input_bias);
                    let inputs = network.units[l - 1];
                    let below = &below[..inputs];
                    (weights.input).add(self.width, of_input, below, &layer.input_weights);
                }
                let (mine, rest) = states.split_at_mut(cell.states() * units);
                states = rest;
                let own = &mut own[..mine.len()];
                for (to, state) in own.iter_mut().zip(&*mine) {
                    *to = *state as f32;
                }
                let of_state = &mut of_state[..columns];
                of_state.copy_from_slice(&layer.state_bias);
                (weights.state).add(self.width, of_state, &own[..units], &layer.state_weights);
                match cell {
                    Cell::Gru => advance_gru(self.width, own, of_input, of_state),
                    Cell::Lstm => advance_lstm(self.width, own, of_input, of_state),
                }
                for (state, own) in mine.iter_mut().zip(&*own) {
                    *state = f64::from(*own);
                }
                below[..units].copy_from_slice(&own[..units]);
            }
            top.copy_from_slice(&below[..top_units]);
        }
        outputs.copy_from_slice(&network.bias);
        add_dots(self.width, outputs, &self.readout, tops);
        if let (Some(blend), [distance]) = (&network.blend, states) {
            // The latents have been used: there are at least as many as outputs.
            let by_mixtures = &mut latents[..outputs.len()];
            by_mixtures.copy_from_slice(&blend.bias);
            let readout = &self.readout[outputs.len() * tops.len()..];
            add_dots(self.width, by_mixtures, readout, tops);
            blend.mix(distance, outputs, by_mixtures);
        }
        false
    }
}

/// The parts of `side`, (gate, unit), one per gate.
#[inline(always)]
fn gates<const GATES: usize>(side: &[f32], units: usize) -> [&[f32]; GATES] {
    core::array::from_fn(|gate| &side[gate * units..][..units])
}

for_every_width! {
    /// One step of a GRU layer: `h`, one per unit, from both sides of the gates, (gate, unit).
    fn advance_gru(h: &mut [f32], of_input: &[f32], of_state: &[f32]) {
        let units = h.len();
        let ([r_in, z_in, n_in], [r_own, z_own, n_own]) = (gates(of_input, units), gates(of_state, units));
        for j in 0..units {
            let r = sigmoid(r_in[j] + r_own[j]);
            let z = sigmoid(z_in[j] + z_own[j]);
            let n = tanh(n_in[j] + r * n_own[j]);
            h[j] = n + z * (h[j] - n);
        }
    }
}

for_every_width! {
    /// One step of an LSTM layer: `states` are h, then c, one each per unit.
    fn advance_lstm(states: &mut [f32], of_input: &[f32], of_state: &[f32]) {
        let units = states.len() / 2;
        let (h, c) = states.split_at_mut(units);
        let c = &mut c[..units];
        let ([i_in, f_in, g_in, o_in], [i_own, f_own, g_own, o_own]) =
            (gates(of_input, units), gates(of_state, units));
        for j in 0..units {
            let i = sigmoid(i_in[j] + i_own[j]);
            let f = sigmoid(f_in[j] + f_own[j]);
            let g = tanh(g_in[j] + g_own[j]);
            let o = sigmoid(o_in[j] + o_own[j]);
            c[j] = f * c[j] + i * g;
            h[j] = o * tanh(c[j]);
        }
    }
}
