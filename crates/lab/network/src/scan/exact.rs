//! Pairs whose values come exact from elsewhere: what is kept of a window.

use super::{Candidate, Keep, Lists};
use crate::oracle::{TIE, reaches};

/// Pairs of a window with exact values, handed in one by one, of which those stay that may be kept.
pub(crate) struct ExactPairs {
    lists: Lists,
    keep: Keep,
}

impl ExactPairs {
    pub(crate) fn new(keep: Keep, nodes: usize) -> Self {
        Self {
            lists: Lists::new(keep, nodes),
            keep,
        }
    }

    /// No pair below this size is kept.
    pub(crate) fn least(&self) -> f64 {
        match self.keep {
            Keep::Reaching { threshold, .. } => threshold - TIE,
            _ => self.lists.bar(0..self.lists.lists.len(), 0..0),
        }
    }

    /// Takes a pair's value, its size and its lag; false if the pair does not reach the threshold.
    pub(crate) fn push(&mut self, (i, j): (u32, u32), (value, size): (f64, f64), lag: i16) -> bool {
        // −0 and 0 are the same size.
        let size = size + 0.0;
        match self.keep {
            Keep::Reaching { threshold, strict } if !reaches(size, threshold, strict) => {
                return false;
            }
            _ => self.lists.push(Candidate {
                i,
                j,
                value,
                bound: 0.0,
                size,
                lag,
            }),
        }
        true
    }

    /// Takes the pairs of another part of the same window.
    pub(crate) fn merge(&mut self, other: Self) {
        let count = self.lists.count;
        for (own, others) in self.lists.lists.iter_mut().zip(other.lists.lists) {
            others.list.into_iter().for_each(|c| own.push(c, count));
        }
    }

    /// The pairs that are kept.
    pub(crate) fn finish(self) -> Vec<Candidate> {
        self.lists.finish(|c| Some(*c))
    }
}
