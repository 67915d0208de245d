//! Experts: linear readouts of the latents, weighted by a soft linear-discriminant gate.
//!
//! A mixture of experts in closed form: clusters of the targets give the gate, one ridge over all
//! experts at once the readout. Cheaper than a lift, and better where the data cover the movements.

use alloc::vec::Vec;
use super::arithmetic::{Width, add_rows, softmax_of_rows};
use super::readout::{FilteredReadout, PreparedReadout};
use super::{Kind, HeadStep, check_finite, check_radius, clip, expect, refuse};
use betz_base::wire::{Reader, Writer};
use crate::psc::flush;
use betz_base::error::Result;
use betz_base::hash::Fnv1a;

/// Largest number of experts.
pub const MAX_EXPERTS: usize = 1024;

/// Largest score of a gate that a step can come to.
const MAX_SCORE: f64 = 1e30;

/// Weights of the experts: p = softmax(Bᵀu + b) with u = [z; h ∗ z], the latents (clipped) and, if the
/// readout has a filter h, the filtered latents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gate {
    /// R: latents z are clipped radially, z ← z·min(1, R/|z|), before all else.
    pub radius: f64,
    /// B, row-major (2·latents, expert) with a filter and (latents, expert) without: the discriminant's
    /// coefficients times the softness β.
    pub weights: Vec<f32>,
    /// b, one per expert: the discriminant's constants times β.
    pub bias: Vec<f32>,
}

/// Latents → radial clip → p = gate, g = [z; p; p ⊗ z] → readout with one first-order filter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Experts {
    /// The gate.
    pub gate: Gate,
    /// From g to the outputs. Features in this order: latents; p, one per expert; p_k·z_j, row-major
    /// (expert, latent).
    pub readout: FilteredReadout,
    /// Seed of the clustering: for people; nothing reads it.
    pub seed: u64,
}

impl Gate {
    /// Number of experts.
    pub fn experts(&self) -> usize {
        self.bias.len()
    }

    /// p for one step's [z; h ∗ z] (clipped already), in `input`; one per expert. The same arithmetic as
    /// in a session. Allocates nothing.
    ///
    /// # Panics
    /// If the slices' lengths differ from the gate's.
    pub fn weigh(&self, input: &[f32], experts: &mut [f32]) {
        assert_eq!(input.len() * self.experts(), self.weights.len());
        experts.copy_from_slice(&self.bias);
        softmax_of_rows(Width::detect(), experts, input, &self.weights);
    }
}

impl Kind for Experts {
    type StepForm = PreparedExperts;
    const NAME: &'static str = "experts";
    const TAG: [u8; 4] = *b"EXPT";

    fn check(&self, latents: usize, outputs: usize) -> Result<()> {
        let (gate, experts) = (&self.gate, self.gate.experts());
        check_radius(gate.radius)?;
        if experts == 0 || experts > MAX_EXPERTS {
            return refuse(format!(
                "gate.bias: expected 1 to {MAX_EXPERTS}, one per expert, got {experts}"
            ));
        }
        let inputs = latents * (1 + usize::from(self.readout.tau_seconds.is_some()));
        expect("gate.weights", gate.weights.len(), inputs * experts)?;
        check_finite("gate.weights", &gate.weights, MAX_SCORE)?;
        check_finite("gate.bias", &gate.bias, MAX_SCORE)?;
        for expert in 0..experts {
            let sum: f64 = (0..inputs)
                .map(|i| f64::from(gate.weights[i * experts + expert]).abs())
                .sum();
            let most = sum * gate.radius + f64::from(gate.bias[expert]).abs();
            if most > MAX_SCORE {
                return refuse(format!(
                    "gate of expert {expert}: expected scores of at most {MAX_SCORE:e} within the radius, got {most:e}"
                ));
            }
        }
        let features = latents + experts + experts * latents;
        let bound = |i| {
            let is_share = (latents..latents + experts).contains(&i);
            if is_share { 1.0 } else { gate.radius }
        };
        self.readout.check(features, outputs, bound)
    }

    fn write(&self, to: &mut Writer) {
        to.f64(self.gate.radius);
        to.f32s(&self.gate.weights);
        to.f32s(&self.gate.bias);
        self.readout.write(to);
        to.u64(self.seed);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            gate: Gate {
                radius: from.at("gate.radius").f64()?,
                weights: from.at("gate.weights").f32s()?,
                bias: from.at("gate.bias").f32s()?,
            },
            readout: FilteredReadout::read(from)?,
            seed: from.at("seed").u64()?,
        })
    }

    fn prepare(&self, step_seconds: f64) -> Result<PreparedExperts> {
        let experts = self.gate.experts();
        let readout = self.readout.prepare(step_seconds);
        let has_filter = self.readout.tau_seconds.is_some();
        let latents = self.gate.weights.len() / experts / (1 + usize::from(has_filter));
        let columns = readout.columns;
        // Expert k's own readout, one row per latent and one for the constant before them.
        let of = |feature: usize| (0..columns).map(move |column| (feature, column));
        let constants = (0..experts).flat_map(|k| of(latents + k));
        let slopes = (0..latents).flat_map(|j| {
            (0..experts).flat_map(move |k| of(latents + experts + k * latents + j))
        });
        let weight = |(feature, column)| readout.weight(feature, column) as f32;
        Ok(PreparedExperts {
            width: Width::detect(),
            latents,
            experts,
            decay: readout.decay(),
            gate: self.gate.clone(),
            constants: constants.map(weight).collect(),
            slopes: slopes.map(weight).collect(),
            has_filter,
            readout,
        })
    }
}

/// [`Experts`] in the form that steps use.
#[derive(Debug, Clone)]
pub(crate) struct PreparedExperts {
    width: Width,
    latents: usize,
    experts: usize,
    has_filter: bool,
    /// ρ of the filter of the latents.
    decay: f64,
    gate: Gate,
    /// (expert, column)
    constants: Vec<f32>,
    /// (latent, expert, column)
    slopes: Vec<f32>,
    readout: PreparedReadout,
}

impl HeadStep for PreparedExperts {
    /// The readout's, then the filtered latents.
    fn states(&self) -> usize {
        let filtered = if self.has_filter { self.latents } else { 0 };
        self.readout.columns - self.readout.outputs() + filtered
    }

    fn scratch(&self) -> usize {
        2 * self.latents + self.experts + self.constants.len()
    }

    fn memory_steps(&self) -> u64 {
        // The gate looks at filtered latents, and the filter of the readout hears the gate.
        2 * self.readout.memory_steps
    }

    fn instructions(&self) -> u64 {
        let per_expert = self.constants.len() + self.slopes.len() + self.gate.weights.len();
        let products = per_expert + self.latents * self.readout.columns;
        (1900 + 2 * products + 30 * self.experts) as u64
    }

    fn hash(&self, hash: &mut Fnv1a) {
        hash.number(self.gate.radius);
        hash.word(self.experts as u64);
        for list in [&self.gate.weights, &self.gate.bias] {
            list.iter().for_each(|v| hash.number(f64::from(*v)));
        }
        self.readout.hash(hash);
    }

    #[inline]
    fn step(
        &self,
        latents: &mut [f64],
        states: &mut [f64],
        scratch: &mut [f32],
        outputs: &mut [f64],
    ) -> bool {
        let clipped = clip(latents, self.gate.radius);
        let filtered_outputs = self.readout.columns - outputs.len();
        let (states, slow) = states.split_at_mut(filtered_outputs);
        let (input, scratch) = scratch.split_at_mut(2 * self.latents);
        let (shares, experts) = scratch.split_at_mut(self.experts);
        for ((state, z), latent) in slow.iter_mut().zip(&mut input[self.latents..]).zip(&*latents) {
            *state = flush(self.decay * *state + self.readout.gain() * latent);
            *z = *state as f32;
        }
        for (z, latent) in input.iter_mut().zip(&*latents) {
            *z = *latent as f32;
        }
        shares.copy_from_slice(&self.gate.bias);
        let inputs = self.latents + slow.len();
        softmax_of_rows(self.width, shares, &input[..inputs], &self.gate.weights);
        experts.copy_from_slice(&self.constants);
        add_rows(self.width, experts, &input[..self.latents], &self.slopes);
        self.readout.begin(states, outputs);
        self.readout.add(0, latents, states, outputs);
        for (share, columns) in shares.iter().zip(experts.chunks_exact(self.readout.columns)) {
            let share = f64::from(*share);
            let (direct, filtered) = columns.split_at(outputs.len());
            for (output, value) in outputs.iter_mut().zip(direct) {
                *output += share * f64::from(*value);
            }
            for (state, value) in states.iter_mut().zip(filtered) {
                *state += share * f64::from(*value);
            }
        }
        PreparedReadout::end(states, outputs);
        clipped
    }
}
