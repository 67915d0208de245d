//! Means and sums of squares of windows whose samples are weighted by their place.

use crate::block::BLOCK;
use crate::moments::{Row, Scratch, row};
use crate::spec::Taper;
use crate::window::Chunk;

/// Weighs the means and sums of squares of every window, and leaves the weights' roots for the panels. What is
/// undefined (a sum of squares that is not positive) stays so.
pub(crate) fn weigh(chunk: &Chunk, taper: Taper, scratch: &mut Scratch) {
    let (w, s) = (chunk.window.length, chunk.window.step);
    let weights = taper.weights(w);
    let total: f64 = weights.iter().sum();
    scratch.roots.clear();
    scratch.roots.extend(weights.iter().map(|w| w.sqrt()));
    for q in 0..chunk.windows {
        // About the plain mean, so that a large offset costs no digits.
        let about: Row = *row(&scratch.mean, q);
        let mut sums = [0.0; BLOCK];
        for (e, weight) in weights.iter().enumerate() {
            let x = row(&scratch.samples, q * s + e);
            for c in 0..BLOCK {
                sums[c] += weight * (x[c] - about[c]);
            }
        }
        let mean: Row = std::array::from_fn(|c| about[c] + sums[c] / total);
        let mut squares = [0.0; BLOCK];
        for (e, weight) in weights.iter().enumerate() {
            let x = row(&scratch.samples, q * s + e);
            for c in 0..BLOCK {
                squares[c] += weight * (x[c] - mean[c]) * (x[c] - mean[c]);
            }
        }
        let at = q * BLOCK..(q + 1) * BLOCK;
        scratch.mean[at.clone()].copy_from_slice(&mean);
        for (old, new) in scratch.squares[at].iter_mut().zip(squares) {
            if *old > 0.0 {
                *old = new;
            }
        }
    }
}
