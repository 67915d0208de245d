//! The other members of a blend, each an engine of its own, and the states of all.

use super::Engine;
use crate::psc::{Convolution, LowPassFilter};
use crate::stream::tap::Input;

impl Engine {
    #[inline(never)]
    pub(super) fn take_members(&mut self, input: &Input<'_>) {
        for member in &mut self.members {
            member.take_own(input);
        }
    }

    /// Steps the other members of a blend, and averages all estimates.
    #[inline(never)]
    pub(super) fn advance_members(&mut self) {
        let weights = self.model.head.blend_weights();
        let outputs = &mut self.outputs[..self.model.output_names.len()];
        if let Some((first, rest)) = weights.split_first() {
            outputs.iter_mut().for_each(|output| *output *= first);
            for (member, weight) in self.members.iter_mut().zip(rest) {
                member.advance_own();
                self.outside |= member.outside;
                for (output, estimate) in outputs.iter_mut().zip(member.estimates()) {
                    *output += weight * estimate;
                }
            }
        }
    }

    /// Every state there is, in a fixed order: what a checkpoint keeps.
    pub(in crate::stream) fn states(&self) -> impl Iterator<Item = &f64> {
        self.own_states()
            .chain(self.members.iter().flat_map(Self::own_states))
    }

    fn own_states(&self) -> impl Iterator<Item = &f64> {
        let sampled = (self.convolution.as_ref()).map_or(&[][..], Convolution::state);
        self.stepped_states().chain(sampled)
    }

    /// The states of this member, without those of its sampled filters.
    pub(super) fn stepped_states(&self) -> impl Iterator<Item = &f64> {
        let behind = self.low_pass.as_ref().map_or(&[][..], LowPassFilter::state);
        self.states.iter().chain(behind).chain(&self.head)
    }

    /// As [`states`](Self::states), to be overwritten.
    pub(in crate::stream) fn states_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        let behind = (self.low_pass.as_mut()).map_or(&mut [][..], LowPassFilter::state_mut);
        let sampled = (self.convolution.as_mut()).map_or(&mut [][..], Convolution::state_mut);
        let own = (self.states.iter_mut().chain(behind)).chain(&mut self.head);
        (own.chain(sampled)).chain(self.members.iter_mut().flat_map(Self::own_states_mut))
    }

    fn own_states_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        let behind = (self.low_pass.as_mut()).map_or(&mut [][..], LowPassFilter::state_mut);
        let sampled = (self.convolution.as_mut()).map_or(&mut [][..], Convolution::state_mut);
        (self.states.iter_mut().chain(behind))
            .chain(&mut self.head)
            .chain(sampled)
    }
}
