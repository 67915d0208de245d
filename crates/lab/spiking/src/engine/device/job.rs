//! Work of building a network on devices, and each device's part of it.

use betz_base::Progress;

use super::super::Options;
use super::super::part::Group;
use crate::random::Normal;
use crate::spec::Network;

/// The network to be built, and its options.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) network: &'a Network,
    pub(super) groups: &'a [Group],
    pub(super) options: &'a Options,
    pub(super) normal: &'a Normal,
    pub(super) listener: &'a dyn Progress,
}

/// A device's part of a network: neuron i is of part i modulo `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) number: u32,
    pub(super) of: u32,
}

impl Part {
    /// Neurons of `all` that are its own.
    pub(super) fn neurons(self, all: usize) -> usize {
        (all + self.of as usize - 1 - self.number as usize) / self.of as usize
    }

    /// Its own neurons from `first` to `end` of the network, as numbers within the part.
    pub(super) fn range(self, first: usize, end: usize) -> std::ops::Range<usize> {
        self.neurons(first)..self.neurons(end)
    }

    /// A neuron of the network by its number within the part.
    pub(super) fn neuron(self, own: usize) -> usize {
        own * self.of as usize + self.number as usize
    }

    /// The number within the part of a neuron of the network, if it is its own.
    pub(super) fn own(self, neuron: usize) -> Option<usize> {
        (neuron % self.of as usize == self.number as usize).then(|| neuron / self.of as usize)
    }
}
