//! Conductances of neurons at work.

use betz_base::Result;

use super::part::Part;
use super::{Engine, rest_of};
use crate::model_population::Effect;
use crate::plan::CHUNK;
use crate::spec::Synapse;

impl Part {
    /// Conductances of a lane in nS, in the order of its channels; none of neurons without channels.
    pub(super) fn conductances(&self, lane: usize) -> Vec<f32> {
        let (chunk, k) = (lane / CHUNK, lane % CHUNK);
        let Some(group) = self.groups.iter().find(|g| g.chunks.contains(&chunk)) else {
            return Vec::new();
        };
        let Some(model) = &group.model else {
            return Vec::new();
        };
        let own = group.chain_first + (chunk - group.chunks.start) * group.per_chunk;
        let mut next = own + model.model.states.len();
        let mut values = Vec::new();
        for receptor in &model.receptors {
            let trace = |place: usize| self.chain[place * CHUNK + k];
            let first = next;
            next += receptor.traces;
            if let Effect::Conductance { .. } = receptor.effect {
                // The rise's trace is taken away.
                let risen: f32 = (first + 1..next).map(trace).sum();
                values.push(trace(first) - risen);
            }
        }
        values
    }
}

impl Engine {
    /// Names of the channels of a neuron, in the order of [`Engine::conductances`]; none of one whose synapses are currents.
    ///
    /// # Errors
    /// `InvalidArgument` for a neuron that does not exist or is a source.
    pub fn channels(&self, neuron: u32) -> Result<Vec<&str>> {
        rest_of(&self.network, neuron)?;
        let firsts = self.network.firsts();
        let population = firsts.partition_point(|first| *first <= u64::from(neuron)) - 1;
        Ok(match &self.network.populations[population].synapse {
            Synapse::Conductance { channels, .. } => channels.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        })
    }

    /// Conductances in nS of a neuron after the last step, one per channel. Those of `nmda` are without their block by
    /// magnesium. Empty on a device, and for neurons of other ranks.
    ///
    /// # Errors
    /// `InvalidArgument` for a neuron that does not exist or is a source.
    pub fn conductances(&self, neuron: u32) -> Result<Vec<f32>> {
        rest_of(&self.network, neuron)?;
        Ok(self.machine.conductances(neuron))
    }
}
