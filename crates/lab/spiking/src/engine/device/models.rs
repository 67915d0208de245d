//! Models as the kernels have them: how each population is integrated, and the parameters of its neurons.

use betz_kernels::{ModelCells, spiking};

use super::super::part::{Group, Start};
use super::job::{Job, Part};
use crate::channels::Gate;
use crate::dynamics;
use crate::model_population::{Effect, ModelPopulation};
use crate::random::{Normal, Purpose, Words};
use crate::spec::{Network, Neuron};

/// Effects of receptors, as `kernels/spiking_integrate.cuh` counts them.
const JUMP: u32 = 0;
const CURRENT: u32 = 1;
const CONDUCTANCE: u32 = 2;
const BLOCKED: u32 = 3;

/// Models of the populations, and the values of their parameters.
#[derive(Debug)]
pub(super) struct ModelTables {
    pub(super) models: Vec<ModelCells>,
    pub(super) values: Vec<f32>,
}

impl ModelTables {
    pub(super) fn new(network: &Network, groups: &[Group], normal: &Normal) -> Self {
        let mut tables = Self {
            models: vec![ModelCells::default(); groups.len()],
            values: vec![0.0],
        };
        for (p, group) in groups.iter().enumerate() {
            if let Some(model) = &group.model {
                tables.models[p] = cells_of(model, &group.gains);
                tables.add_parameters(network, p, model, normal);
            }
            if group.random.is_some() {
                tables.add_chances(network, p, normal);
            }
        }
        tables
    }

    fn add_parameters(
        &mut self,
        network: &Network,
        p: usize,
        model: &ModelPopulation,
        normal: &Normal,
    ) {
        let neurons = network.populations[p].neurons;
        for (place, constant) in model.constants.iter().enumerate() {
            self.models[p].values[place] = self.values.len() as u32;
            self.models[p].drawn[place] = u32::from(constant.is_none());
            let count = if constant.is_none() { neurons } else { 1 };
            let value = |own| model.parameter(network, p, place, own, normal);
            self.values.extend((0..count).map(value));
        }
    }

    /// Words below which random sources fire, bit for bit as numbers.
    fn add_chances(&mut self, network: &Network, p: usize, normal: &Normal) {
        let population = &network.populations[p];
        let Neuron::Poisson(source) = &population.neuron else {
            return;
        };
        self.models[p].model = spiking::RANDOM_SOURCE;
        self.models[p].values[0] = self.values.len() as u32;
        let words = Words::new(network.seed, Purpose::Parameter);
        let chances = (0..population.neurons)
            .map(|own| source.chance(network, words, [own, p as u32, 0], normal));
        self.values.extend(chances.map(f32::from_bits));
    }
}

/// A population as the kernels integrate it, without the places of its parameters.
fn cells_of(model: &ModelPopulation, gains: &[f32]) -> ModelCells {
    let number = dynamics::MODELS
        .iter()
        .position(|(kind, _)| *kind == model.kind);
    let mut cells = ModelCells {
        model: number.unwrap_or_default() as u32 + 1,
        parts: model.parts,
        part_ms: model.part_ms,
        early: u32::from(model.early),
        jumps: u32::from(model.jumps),
        refractory: model
            .refractory
            .map_or(spiking::NO_REFRACTORY, |place| place as u32),
        receptors: model.receptors.len() as u32,
        ..ModelCells::default()
    };
    for (r, receptor) in model.receptors.iter().enumerate() {
        cells.traces[r] = receptor.traces as u32;
        cells.gain[r] = gains[r];
        for k in 0..2 {
            cells.half[2 * r + k] = receptor.half[k];
            cells.whole[2 * r + k] = receptor.whole[k];
        }
        cells.effect[r] = match receptor.effect {
            Effect::Jump => JUMP,
            Effect::Current => CURRENT,
            Effect::Conductance {
                reversal,
                gate,
                magnesium,
            } => {
                (cells.reversal[r], cells.magnesium[r]) = (reversal, magnesium);
                match gate {
                    Gate::Open => CONDUCTANCE,
                    Gate::Magnesium => BLOCKED,
                }
            }
        };
    }
    cells
}

/// Potentials, states and currents at step 0 of a device's neurons that are integrated.
pub(super) fn start_models(job: Job<'_>, part: Part, membranes: &mut [f32], silent: &mut [i32]) {
    let Job {
        network,
        groups,
        normal,
        ..
    } = job;
    let neurons = silent.len();
    let firsts = network.firsts();
    for (p, group) in groups.iter().enumerate() {
        let Some(model) = &group.model else {
            continue;
        };
        let start = Start::of_model(network, p, normal);
        let (first, end) = (firsts[p] as usize, firsts[p + 1] as usize);
        for i in part.range(first, end) {
            let neuron = part.neuron(i);
            let own = (neuron - first) as u32;
            let values: Vec<f32> = (0..model.constants.len())
                .map(|place| model.parameter(network, p, place, own, normal))
                .collect();
            let states = dynamics::start(model.kind, &values, start.potential(neuron as u32));
            membranes[i] = states[0];
            membranes[neurons + i] = start.current(neuron as u32);
            // The first number of the state is what its sum has lost.
            for (s, value) in states.iter().enumerate().skip(1) {
                membranes[(2 + s) * neurons + i] = *value;
            }
            silent[i] = start.silent;
        }
    }
}
